//! Shard indices: where each subchunk lies in its shard.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zarrs::array::codec::ShardingIndexLocation;
use zarrs::array::{ArrayToBytesCodecTraits, BytesRepresentation, CodecChain, CodecOptions, FillValue, data_type};
use zarrs::storage::StoreKey;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scratch;
use crate::store::Value;

/// How the index of an array's shards is encoded.
///
/// Source: the Zarr v3 codec `sharding_indexed`, version 1.0.
#[derive(Clone)]
pub(crate) struct Sharding {
    codecs: Arc<CodecChain>,
    /// Shape of the decoded index: subchunks along each axis of a shard, then offset and length.
    shape: Vec<NonZeroU64>,
    at_end: bool,
    /// Length of the encoded index, in bytes.
    encoded_len: u64,
}

/// Where one subchunk lies in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Missing,
    Bytes { start: u64, len: u64 },
}

/// The decoded index of one shard: offset and length of each subchunk, in bytes.
pub(crate) struct ShardIndex {
    entries: Vec<u8>,
}

impl Sharding {
    pub(super) fn new(
        codecs: Arc<CodecChain>,
        location: ShardingIndexLocation,
        in_shard: &[NonZeroU64],
    ) -> Result<Self> {
        let mut shape = in_shard.to_vec();
        shape.extend(NonZeroU64::new(2));
        let invalid = |what: &str| {
            Error::new(ErrorKind::Metadata, what.to_owned())
                .expected("a shard index that can be read by the Zarr specification of sharding")
        };
        let decoded = shape.iter().try_fold(8_u64, |bytes, n| bytes.checked_mul(n.get()));
        if decoded.is_none_or(|bytes| bytes > isize::MAX as u64) {
            return Err(invalid("a shard index of more than 2^63 bytes"));
        }
        let encoded = catch_unwind(AssertUnwindSafe(|| {
            codecs.encoded_representation(&shape, &data_type::uint64(), &FillValue::from(u64::MAX))
        }))
        .map_err(|_| invalid("the shard index's codecs could not be interpreted"))?
        .map_err(|source| invalid("the shard index's codecs").source(source))?;
        let BytesRepresentation::FixedSize(encoded_len) = encoded else {
            return Err(invalid("shard index codecs of variable length").expected("codecs of fixed length"));
        };
        Ok(Self { codecs, shape, at_end: location == ShardingIndexLocation::End, encoded_len })
    }

    /// The same for shards that have so many subchunks along each axis.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn with_shape(&self, in_shard: &[u64]) -> Result<Self> {
        let empty = || Error::new(ErrorKind::Internal, "a shard without subchunks");
        let in_shard = in_shard.iter().map(|&len| NonZeroU64::new(len)).collect::<Option<Vec<_>>>();
        let location = if self.at_end { ShardingIndexLocation::End } else { ShardingIndexLocation::Start };
        Self::new(self.codecs.clone(), location, &in_shard.ok_or_else(empty)?)
    }

    /// Length of the encoded index, in bytes.
    pub(crate) fn encoded_len(&self) -> u64 {
        self.encoded_len
    }

    /// Whether the index stands behind the subchunks.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Reads and decodes the index of the shard `key`, or `None` if the store does not hold the shard.
    pub(crate) fn read(&self, value: &Value, key: &StoreKey, scratch: &mut Scratch) -> Result<Option<ShardIndex>> {
        let Some(encoded) = value.read_edge(key, self.encoded_len, self.at_end, scratch)? else { return Ok(None) };
        self.decode(encoded.as_ref()).map(Some).map_err(|error| error.at_key(key.as_str()))
    }

    /// Decodes the index at the edge of a whole shard.
    pub(crate) fn decode_edge(&self, shard: &[u8]) -> Result<ShardIndex> {
        let len = self.encoded_len as usize;
        let edge =
            if self.at_end { shard.len().checked_sub(len).map(|start| &shard[start..]) } else { shard.get(..len) };
        let edge = edge.ok_or_else(|| corrupt().expected(format!("at least {len} bytes, got {}", shard.len())))?;
        self.decode(edge)
    }

    /// Decodes an index.
    pub(crate) fn decode(&self, encoded: &[u8]) -> Result<ShardIndex> {
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            self.codecs.decode(
                encoded.into(),
                &self.shape,
                &data_type::uint64(),
                &FillValue::from(u64::MAX),
                &CodecOptions::default().with_concurrent_target(1),
            )
        }))
        .map_err(|_| corrupt())?
        .map_err(|source| corrupt().source(source))?;
        let entries = decoded.into_fixed().map_err(|source| corrupt().source(source))?.into_owned();
        let expected = self.shape.iter().map(|n| n.get()).product::<u64>() * 8;
        if entries.len() as u64 != expected {
            return Err(corrupt().expected(format!("{expected} bytes, decoded {}", entries.len())));
        }
        Ok(ShardIndex { entries })
    }
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Decode, "the shard index could not be decoded")
        .remedy("The shard is corrupt; write it again.")
}

impl ShardIndex {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// Where the `subchunk`-th subchunk (C order) lies. The bytes may reach beyond the shard: reading them checks.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the end of the subchunk is beyond any file.
    pub(crate) fn entry(&self, subchunk: u64) -> Result<Entry> {
        let at = subchunk as usize * 16;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.entries[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        match (number(at), number(at + 8)) {
            (u64::MAX, u64::MAX) => Ok(Entry::Missing),
            (start, len) if start.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok()) => {
                Ok(Entry::Bytes { start, len })
            }
            (start, len) => Err(Error::new(
                ErrorKind::Decode,
                format!("the shard index says that subchunk {subchunk} has {len} bytes from byte {start} on"),
            )
            .expected("bytes of the shard")
            .remedy("The shard is corrupt; write it again.")),
        }
    }
}
