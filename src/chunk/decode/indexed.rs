//! The layout of zarrs' `vlen`: the offsets of all elements as an array of their own, and their bytes as another.
//!
//! The length of the encoded offsets, 64 bits in little-endian order, stands at the start or at the end.

use std::num::NonZeroU64;

use zarrs::array::codec::VlenCodec;
use zarrs::array::codec::api::{CodecMetadataOptions, CodecTraits};
use zarrs::array::{CodecChain, CodecOptions, FillValue, data_type};
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{PluginCreateError, ZarrVersion};

use super::chain::decode_array;
use super::corrupt;
use super::interleaved::lying;
use crate::chunk::cells::{CELL_LEN, Cell};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::reserve_chunk;

pub(super) struct Indexed {
    index: CodecChain,
    data: CodecChain,
    /// Bytes of one offset: 4 or 8.
    offset_len: usize,
    index_at_end: bool,
}

impl Indexed {
    pub(super) fn new(codec: &VlenCodec) -> Result<Self> {
        let unknown = || {
            Error::new(ErrorKind::Unsupported, "this variant of the codec 'zarrs.vlen'")
                .expected("one with index_codecs, data_codecs, index_data_type and index_location")
        };
        let configuration = codec.configuration(ZarrVersion::V3, &CodecMetadataOptions::default());
        let configuration = configuration.ok_or_else(unknown)?;
        let chain = |name: &str| {
            let codecs: Vec<MetadataV3> = serde_json::from_value(configuration.get(name).cloned().unwrap_or_default())
                .map_err(|source| unknown().source(source))?;
            let invalid = |source: PluginCreateError| {
                Error::new(ErrorKind::Metadata, format!("the {name} of the codec 'zarrs.vlen'")).source(source)
            };
            CodecChain::from_metadata(&codecs).map_err(invalid)
        };
        let offset_len = match configuration.get("index_data_type").and_then(|name| name.as_str()) {
            Some("uint32") => 4,
            Some("uint64") => 8,
            _ => return Err(unknown()),
        };
        let index_at_end = match configuration.get("index_location").and_then(|at| at.as_str()) {
            Some("start") | None => false,
            Some("end") => true,
            _ => return Err(unknown()),
        };
        Ok(Self { index: chain("index_codecs")?, data: chain("data_codecs")?, offset_len, index_at_end })
    }

    /// The cells of the `count` elements, in `buffer`, and their bytes. `None` if these are more than `bound`.
    pub(super) fn decode(
        &self,
        encoded: &[u8],
        count: usize,
        unit: usize,
        buffer: u64,
        bound: usize,
        options: &CodecOptions,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let short = || lying("its index does not lie in it");
        let split = if self.index_at_end {
            encoded.split_last_chunk::<8>().map(|(rest, len)| (len, rest))
        } else {
            encoded.split_first_chunk::<8>()
        };
        let (len, rest) = split.ok_or_else(short)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| short())?;
        let (index, data) = if self.index_at_end {
            let at = rest.len().checked_sub(len).ok_or_else(short)?;
            (&rest[at..], &rest[..at])
        } else {
            rest.split_at_checked(len).ok_or_else(short)?
        };
        let (data_type, fill_value) = match self.offset_len {
            4 => (data_type::uint32(), FillValue::from(0_u32)),
            _ => (data_type::uint64(), FillValue::from(0_u64)),
        };
        let index_len = (count + 1).checked_mul(self.offset_len).ok_or_else(corrupt)?;
        let shape = |len: u64| NonZeroU64::new(len).map(|len| [len]).ok_or_else(corrupt);
        let types = (&data_type, &fill_value);
        let index = decode_array(&self.index, index, &shape(count as u64 + 1)?, index_len, types, options)?;
        let offsets = offsets(&index, self.offset_len);
        let end = offsets.last().copied().unwrap_or_default();
        if !offsets.is_sorted() || offsets.first() != Some(&0) || end > Cell::END {
            return Err(lying("its offsets do not ascend from zero"));
        }
        if end > bound as u64 {
            return Ok(None);
        }
        let data = if end == 0 {
            Vec::new()
        } else {
            let (data_type, fill_value) = (data_type::uint8(), FillValue::from(0_u8));
            decode_array(&self.data, data, &shape(end)?, end as usize, (&data_type, &fill_value), options)?
        };
        let mut cells = reserve_chunk(count * CELL_LEN)?;
        for pair in offsets.windows(2) {
            let len = pair[1] - pair[0];
            if !len.is_multiple_of(unit as u64) {
                return Err(lying(&format!("an element has {len} bytes")).expected(format!("a multiple of {unit}")));
            }
            cells.extend_from_slice(&Cell { buffer, start: pair[0], len }.to_bytes());
        }
        Ok(Some((cells, data)))
    }
}

fn offsets(index: &[u8], len: usize) -> Vec<u64> {
    if len == 4 {
        index.as_chunks::<4>().0.iter().map(|offset| u64::from(u32::from_ne_bytes(*offset))).collect()
    } else {
        index.as_chunks::<8>().0.iter().map(|offset| u64::from_ne_bytes(*offset)).collect()
    }
}
