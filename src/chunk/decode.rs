//! Decodes one read chunk.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zarrs::array::{Array, ArrayToBytesCodecTraits, CodecChain, CodecOptions, DataType, FillValue};

use crate::error::{Error, ErrorKind, Result};

/// Buffers that one thread reuses from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Encoded bytes as fetched.
    pub(crate) encoded: Vec<u8>,
}

/// Decodes the read chunks of one array into elements in C order and native byte order.
pub(crate) struct Decoder {
    codecs: Arc<CodecChain>,
    shape: Vec<NonZeroU64>,
    data_type: DataType,
    fill_value: FillValue,
    options: CodecOptions,
    /// Length of a decoded read chunk, in bytes.
    decoded_len: usize,
}

impl Decoder {
    /// A decoder of read chunks of `shape`, whose elements have `item` bytes.
    pub(super) fn new(array: &Array<()>, codecs: Arc<CodecChain>, shape: Vec<NonZeroU64>, item: usize) -> Result<Self> {
        let decoded_len = shape
            .iter()
            .try_fold(item as u64, |bytes, len| bytes.checked_mul(len.get()))
            .filter(|&bytes| bytes <= isize::MAX as u64)
            .ok_or_else(|| {
                Error::new(ErrorKind::Unsupported, format!("read chunks of shape {shape:?}"))
                    .expected("at most 2^63 - 1 bytes each")
            })?;
        Ok(Self {
            codecs,
            shape,
            data_type: array.data_type().clone(),
            fill_value: array.fill_value().clone(),
            // The chunks of a read keep all threads busy; codecs must not start more.
            options: CodecOptions::default().with_concurrent_target(1),
            decoded_len: decoded_len as usize,
        })
    }

    /// Decodes one read chunk. The result has exactly as many bytes as the read chunk.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the bytes are corrupt or decode to another length.
    pub(crate) fn decode<'a>(&self, encoded: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let corrupt = || {
            Error::new(ErrorKind::Decode, "the chunk could not be decoded")
                .remedy("The chunk is truncated or corrupt; write it again.")
        };
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            self.codecs.decode(Cow::Borrowed(encoded), &self.shape, &self.data_type, &self.fill_value, &self.options)
        }))
        .map_err(|_| corrupt())?
        .map_err(|source| corrupt().source(source))?
        .into_fixed()
        .map_err(|source| corrupt().source(source))?;
        if decoded.len() != self.decoded_len {
            return Err(corrupt().expected(format!("{} bytes, decoded {}", self.decoded_len, decoded.len())));
        }
        Ok(decoded)
    }
}
