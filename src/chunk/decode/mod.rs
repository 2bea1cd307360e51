//! Decodes one read chunk.
//!
//! * [`direct`]: the chains that make up nearly all data, decompressed straight into their place.
//! * [`chain`]: everything else, through zarrs' codec chain.
//! * [`blosc`]: the C library's interface.

mod blosc;
mod chain;
mod direct;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use zarrs::array::{Array, CodecChain};
use zarrs::metadata::v3::MetadataV3;

use self::chain::Chain;
use self::direct::Direct;
pub(crate) use self::direct::DirectScratch;
use crate::arrow::ElementType;
use crate::error::{Error, ErrorKind, Result};

/// Decodes the read chunks of one array into elements in native byte order.
pub(crate) struct Decoder {
    path: Path,
    /// Length of a decoded read chunk, in bytes.
    decoded_len: usize,
    /// Distance between neighbours along each axis of a decoded read chunk, in elements.
    strides: Vec<usize>,
}

enum Path {
    Direct(Direct),
    Chain(Chain),
}

/// What came out of decoding a read chunk.
pub(crate) struct Decoded<'a> {
    /// The chunk's bytes from its first on. They may end early, but not before what was needed.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Bytes that were really produced.
    pub(crate) produced: usize,
}

impl Decoder {
    /// A decoder of read chunks of `shape`, encoded by `codecs`, whose metadata is `configurations` where it is v3.
    pub(super) fn new(
        array: &Array<()>,
        codecs: Arc<CodecChain>,
        configurations: Option<&[MetadataV3]>,
        shape: &[NonZeroU64],
        element: ElementType,
    ) -> Result<Self> {
        let too_large = || {
            Error::new(ErrorKind::Unsupported, format!("read chunks of shape {shape:?}"))
                .expected("at most 2^63 - 1 bytes each")
        };
        let decoded_len = shape
            .iter()
            .try_fold(element.size() as u64, |bytes, len| bytes.checked_mul(len.get()))
            .filter(|&bytes| bytes <= isize::MAX as u64)
            .ok_or_else(too_large)? as usize;
        let direct = Direct::new(&codecs, configurations, decoded_len, element);
        let order = direct.as_ref().and_then(|(_, order)| order.clone()).unwrap_or_else(|| (0..shape.len()).collect());
        let mut strides = vec![0; shape.len()];
        let mut stride = 1;
        for &axis in order.iter().rev() {
            strides[axis] = stride;
            stride *= shape[axis].get() as usize;
        }
        let path = match direct {
            Some((direct, _)) => Path::Direct(direct),
            None => Path::Chain(Chain::new(array, codecs, shape.to_vec())),
        };
        Ok(Self { path, decoded_len, strides })
    }

    /// Length of a decoded read chunk, in bytes.
    pub(crate) fn decoded_len(&self) -> usize {
        self.decoded_len
    }

    /// Distance between neighbours along each axis of a decoded read chunk, in elements.
    pub(crate) fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Decodes one read chunk, at least its bytes in `needed`.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the bytes are corrupt or decode to another length.
    pub(crate) fn decode<'a>(
        &self,
        encoded: &'a [u8],
        needed: Range<usize>,
        scratch: &'a mut DirectScratch,
    ) -> Result<Decoded<'a>> {
        match &self.path {
            Path::Direct(direct) => direct.decode(encoded, needed, scratch),
            Path::Chain(chain) => chain.decode(encoded, self.decoded_len),
        }
    }

    /// Decodes one read chunk into `target`, which is as long as a decoded read chunk.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub(crate) fn decode_into(&self, encoded: &[u8], target: &mut [u8], scratch: &mut DirectScratch) -> Result<()> {
        match &self.path {
            Path::Direct(direct) => direct.decode_into(encoded, target, scratch),
            Path::Chain(chain) => {
                let decoded = chain.decode(encoded, self.decoded_len)?;
                target.copy_from_slice(&decoded.bytes);
                Ok(())
            }
        }
    }
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Decode, "the chunk could not be decoded")
        .remedy("The chunk is truncated or corrupt; write it again.")
}

fn wrong_length(got: usize, expected: usize) -> Error {
    corrupt().expected(format!("{expected} bytes, decoded {got}"))
}
