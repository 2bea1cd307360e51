//! Decodes one read chunk.
//!
//! * [`direct`]: the chains that make up nearly all data, decompressed straight into their place.
//! * [`chain`]: everything else, codec by codec.
//! * [`bounded`]: streams whose length is not known.
//! * [`swap`]: native byte order.
//! * [`shuffle`]: numbers whose bytes lie apart.
//! * [`shards`]: shards that have to be decoded whole.
//! * [`variable`]: values of variable length.
//! * [`interleaved`], [`indexed`]: how these are laid out.
//! * [`optional`]: values that may not be there.
//! * [`objects`]: those that the caller's code decodes.
//! * [`blosc`]: the C library's interface.
//! * [`blosc_blocks`]: parts of a blosc buffer.
//! * [`registered`]: codecs of ours among those of zarrs.
//! * [`gdeflate`], [`huffman`]: pages of `gdeflate`.
//! * [`pcodec`]: streams of numbers.
//! * [`zstd_front`]: the front of zstd streams.
//! * [`zfp`]: blocks of numbers, by a C library.

mod blosc;
mod blosc_blocks;
mod bounded;
mod chain;
mod direct;
mod gdeflate;
mod huffman;
mod indexed;
mod interleaved;
mod objects;
mod optional;
mod pcodec;
pub(super) mod registered;
mod shards;
mod shuffle;
mod swap;
mod variable;
#[cfg(feature = "zfp")]
mod zfp;
mod zstd_front;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zarrs::array::{Array, CodecChain};
use zarrs::metadata::v3::MetadataV3;

use self::chain::Chain;
use self::direct::Direct;
pub(crate) use self::direct::DirectScratch;
pub(crate) use self::swap::{Stored, Swap, Swapped};
pub(crate) use self::variable::Elements;
use self::variable::Variable;
use super::cells::CELL_LEN;
use super::foreign::{Foreign, ForeignDecoder};
use crate::arrow::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::reserve_chunk;

/// Decodes the read chunks of one array into elements in native byte order.
pub(crate) struct Decoder {
    path: Path,
    /// Length of a decoded read chunk, in bytes; of its cells, where elements are of variable length.
    decoded_len: usize,
    /// Distance between neighbours along each axis of a decoded read chunk, in elements.
    strides: Vec<usize>,
    is_text: bool,
}

enum Path {
    Direct(Direct),
    Chain(Box<Chain>),
    /// By what the caller brings.
    Foreign(Arc<dyn ForeignDecoder>),
    /// Elements of no bytes: there is nothing to decode.
    Empty,
    /// To cells, and the bytes that they name.
    Variable(Box<Variable>),
}

/// Bytes of a read chunk and where they stand among decoded bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of the read chunk.
    pub(crate) source: Range<usize>,
    /// Where the first of them stands.
    pub(crate) at: usize,
}

/// What came out of decoding a read chunk.
pub(crate) struct Decoded<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Which bytes of the read chunk `bytes` holds: at least those that were wanted.
    pub(crate) extents: Vec<Extent>,
    /// How many bytes were decompressed for them.
    pub(crate) decompressed: usize,
}

impl<'a> Decoded<'a> {
    /// All bytes of a read chunk.
    fn whole(bytes: Cow<'a, [u8]>) -> Self {
        let decompressed = bytes.len();
        Self { bytes, extents: vec![Extent { source: 0..decompressed, at: 0 }], decompressed }
    }
}

/// How much of a read chunk has to be decoded to have some of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// All of it.
    Whole,
    /// All before the last wanted byte, in blocks of so many bytes.
    Prefix(usize),
    /// Blocks, whose length only the encoded bytes tell.
    Blocks,
    /// Nothing: the wanted bytes can be read from the store.
    Stored,
}

impl Decoder {
    /// A decoder of read chunks of `shape`, encoded by `codecs`, whose metadata is `configurations` where it is v3.
    pub(super) fn new(
        array: &Array<()>,
        codecs: Arc<CodecChain>,
        configurations: Option<&[MetadataV3]>,
        shape: &[NonZeroU64],
        stored: &Stored,
    ) -> Result<Self> {
        let too_large = || {
            Error::new(ErrorKind::Unsupported, format!("read chunks of shape {shape:?}"))
                .expected("at most 2^63 - 1 bytes each")
        };
        let decoded_len = shape
            .iter()
            .try_fold(stored.element.size() as u64, |bytes, len| bytes.checked_mul(len.get()))
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(too_large)? as usize;
        check_chain(&codecs, shape)?;
        let (path, order) = if stored.element.is_variable() {
            let count = decoded_len / stored.element.size();
            let (variable, order) = Variable::new(array, codecs, shape, stored, count)?;
            (Path::Variable(Box::new(variable)), order)
        } else if stored.element.width() == 0 {
            (Path::Empty, None)
        } else if let Some((direct, order)) = Direct::new(&codecs, configurations, decoded_len, stored) {
            (Path::Direct(direct), order)
        } else {
            (Path::Chain(Box::new(Chain::new(array, codecs, shape, stored, decoded_len)?)), None)
        };
        let order = order.unwrap_or_else(|| (0..shape.len()).collect());
        let mut strides = vec![0; shape.len()];
        let mut stride = 1;
        for &axis in order.iter().rev() {
            strides[axis] = stride;
            stride *= shape[axis].get() as usize;
        }
        Ok(Self { path, decoded_len, strides, is_text: stored.element == ElementType::Utf8 })
    }

    /// Decodes by `decoder`, which gives read chunks in C order, from now on.
    pub(super) fn replace(&mut self, decoder: Arc<dyn ForeignDecoder>) {
        if !matches!(self.path, Path::Empty) {
            self.path = Path::Foreign(decoder);
        }
    }

    /// Decodes what is behind LZ4 in numcodecs' frame, the outermost codec but for `checksums`, from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the other codecs have no direct path.
    pub(super) fn behind_lz4(&mut self, checksums: usize) -> Result<()> {
        let is_direct = match &mut self.path {
            Path::Direct(direct) => direct.compressed_with_lz4(checksums),
            path => matches!(path, Path::Empty),
        };
        if is_direct { Ok(()) } else { Err(Error::new(ErrorKind::Unsupported, "codec 'lz4' behind others")) }
    }

    /// Whether read chunks are decoded by what the caller brought.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.path, Path::Foreign(_))
    }

    /// Decodes one read chunk of values of variable length to cells in `buffer`. `None` if that takes more than `bound`
    /// bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the bytes are corrupt or hold another number of elements.
    pub(crate) fn decode_variable<'a>(
        &self,
        encoded: &'a [u8],
        buffer: u64,
        bound: usize,
    ) -> Result<Option<Elements<'a>>> {
        match &self.path {
            Path::Variable(variable) => variable.decode(encoded, buffer, bound),
            Path::Foreign(decoder) => {
                let count = self.decoded_len / CELL_LEN;
                objects::decode(&**decoder, encoded, self.is_text, count, buffer, bound)
            }
            _ => Err(Error::new(ErrorKind::Internal, "elements of fixed width, decoded as if they were not")),
        }
    }

    /// Length of a decoded read chunk, in bytes; that of the cells, where elements are of variable length.
    pub(crate) fn decoded_len(&self) -> usize {
        self.decoded_len
    }

    /// Distance between neighbours along each axis of a decoded read chunk, in elements.
    pub(crate) fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Most bytes that a read chunk can have encoded, in the store. `None` if that cannot be told.
    pub(crate) fn max_encoded_len(&self) -> Option<u64> {
        match &self.path {
            // No compressor makes so much more of what it cannot compress.
            Path::Direct(_) => Some((self.decoded_len as u64).saturating_mul(2).saturating_add(1 << 20)),
            Path::Chain(_) | Path::Variable(_) | Path::Foreign(_) | Path::Empty => None,
        }
    }

    /// Bytes of memory that decoding a read chunk takes at most beside the encoded bytes, in buffers of ours.
    pub(crate) fn working_len(&self) -> usize {
        match &self.path {
            Path::Direct(direct) => direct.working_len(),
            // Each codec has its input and its output.
            Path::Variable(_) | Path::Foreign(_) => self.decoded_len.saturating_mul(2),
            Path::Chain(chain) => chain.working_len(),
            Path::Empty => self.decoded_len,
        }
    }

    /// As [`working_len`](Self::working_len), for [`decode_into`](Self::decode_into), beside its target.
    pub(crate) fn working_len_into(&self) -> usize {
        match &self.path {
            Path::Direct(direct) => direct.working_len_into(),
            Path::Variable(_) | Path::Chain(_) => self.working_len(),
            Path::Foreign(_) | Path::Empty => 0,
        }
    }

    /// Whether [`encoded_ranges`](Self::encoded_ranges) can be asked.
    pub(crate) fn reads_in_part(&self) -> bool {
        matches!(&self.path, Path::Direct(direct) if direct.reads_in_part())
    }

    /// How much has to be decoded to have some bytes.
    pub(crate) fn granularity(&self) -> Granularity {
        match &self.path {
            Path::Direct(direct) => direct.granularity(),
            Path::Chain(_) | Path::Variable(_) | Path::Foreign(_) | Path::Empty => Granularity::Whole,
        }
    }

    /// The ranges of encoded bytes that have to be read to decode the bytes in `wanted`, sorted and disjoint, by the
    /// first bytes `head` of `len` encoded ones. `None` if all of them have to, or that cannot be told.
    pub(crate) fn encoded_ranges(&self, head: &[u8], len: usize, wanted: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        match &self.path {
            Path::Direct(direct) => direct.encoded_ranges(head, len, wanted),
            Path::Chain(_) | Path::Variable(_) | Path::Foreign(_) | Path::Empty => None,
        }
    }

    /// Turns stored bytes, any number of whole elements, into native byte order, where the granularity is
    /// [`Stored`](Granularity::Stored).
    pub(crate) fn to_native(&self, bytes: &mut [u8]) {
        if let Path::Direct(direct) = &self.path {
            direct.to_native(bytes);
        }
    }

    /// Whether [`to_native`](Self::to_native) changes nothing.
    pub(crate) fn is_native(&self) -> bool {
        matches!(&self.path, Path::Direct(direct) if direct.is_native())
    }

    /// Decodes one read chunk: at least the bytes in `wanted`, which are sorted and disjoint; all, if it is `None`.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the bytes are corrupt or decode to another length.
    pub(crate) fn decode<'a>(
        &self,
        encoded: &'a [u8],
        wanted: Option<&[Range<usize>]>,
        scratch: &'a mut DirectScratch,
    ) -> Result<Decoded<'a>> {
        match &self.path {
            Path::Direct(direct) => direct.decode(encoded, wanted, scratch),
            Path::Chain(chain) => chain.decode(encoded).map(Decoded::whole),
            Path::Foreign(decoder) => {
                let mut decoded = reserve_chunk(self.decoded_len)?;
                decoded.resize(self.decoded_len, 0);
                foreign(&**decoder, encoded, &mut decoded)?;
                Ok(Decoded::whole(Cow::Owned(decoded)))
            }
            Path::Empty => {
                let mut zeros = reserve_chunk(self.decoded_len)?;
                zeros.resize(self.decoded_len, 0);
                Ok(Decoded::whole(Cow::Owned(zeros)))
            }
            Path::Variable(_) => Err(variable_as_fixed()),
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
                let decoded = chain.decode(encoded)?;
                target.copy_from_slice(&decoded);
                Ok(())
            }
            Path::Foreign(decoder) => foreign(&**decoder, encoded, target),
            Path::Empty => {
                target.fill(0);
                Ok(())
            }
            Path::Variable(_) => Err(variable_as_fixed()),
        }
    }
}

/// Checks that the codecs fit the number of axes of a read chunk, which zarrs does only when it decodes.
fn check_chain(codecs: &CodecChain, shape: &[NonZeroU64]) -> Result<()> {
    let misfit =
        || Error::new(ErrorKind::Metadata, "the codecs do not fit the array").expected("codecs for its number of axes");
    // Not `encoded_representation` of the chain: pcodec's allocates as much as the chunk has.
    catch_unwind(AssertUnwindSafe(|| {
        codecs.array_to_array_codecs().iter().try_fold(shape.to_vec(), |shape, codec| codec.encoded_shape(&shape))
    }))
    .map_err(|_| misfit())?
    .map_err(|source| misfit().source(source))?;
    Ok(())
}

fn foreign(decoder: &dyn ForeignDecoder, encoded: &[u8], target: &mut [u8]) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| decoder.decode(encoded, target)))
        .map_err(|_| corrupt())?
        .map_err(|source| corrupt().source(Foreign(source)))
}

fn variable_as_fixed() -> Error {
    Error::new(ErrorKind::Internal, "elements of variable length, decoded as if they were not")
}

fn corrupt() -> Error {
    Error::new(ErrorKind::Decode, "the chunk could not be decoded")
        .remedy("The chunk is truncated or corrupt; write it again.")
}

fn wrong_length(got: usize, expected: usize) -> Error {
    corrupt().expected(format!("{expected} bytes, decoded {got}"))
}
