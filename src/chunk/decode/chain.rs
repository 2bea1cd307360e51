//! Decoding codec by codec, for chains that have no direct path.
//!
//! Compressors and shards are decoded here, because zarrs believes the lengths that their headers claim; everything
//! else is zarrs' own.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::codec::{
    BloscCodec, Bz2Codec, GzipCodec, OptionalCodec, PcodecCodec, ShardingCodec, ZlibCodec, ZstdCodec,
};
use zarrs::array::{Array, ArrayBytes, BytesRepresentation, CodecChain, CodecOptions, DataType, FillValue};

use super::bounded;
use super::interleaved::lying;
use super::optional::Optional;
use super::registered::Gdeflate;
use super::shards::NestedShards;
use super::swap::{Stored, Swap};
#[cfg(feature = "zfp")]
use super::zfp::Zfp;
use super::{corrupt, gdeflate, pcodec, wrong_length};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::reserve_chunk;

/// From this length on, it is checked that there is memory for a read chunk: some codecs allocate by the metadata's
/// word alone.
const HUGE: usize = 1 << 30;

/// Shape, data type and fill value between two codecs.
type Stage = (Vec<NonZeroU64>, DataType, FillValue);

pub(super) struct Chain {
    codecs: Arc<CodecChain>,
    /// Before each array to array codec, and after the last.
    stages: Vec<Stage>,
    shards: Option<NestedShards>,
    optional: Option<Optional>,
    options: CodecOptions,
    decoded_len: usize,
    /// What is left to do for the native byte order.
    swap: Swap,
}

impl Chain {
    pub(super) fn new(
        array: &Array<()>,
        codecs: Arc<CodecChain>,
        shape: &[NonZeroU64],
        stored: &Stored,
        decoded_len: usize,
    ) -> Result<Self> {
        let misfit = || {
            Error::new(ErrorKind::Metadata, "the codecs do not fit the array")
                .expected("codecs for its number of axes and its data type")
        };
        let first = (shape.to_vec(), array.data_type().clone(), array.fill_value().clone());
        let stages = stages_of(&codecs, first, misfit)?;
        let shards = match (codecs.array_to_bytes_codec().as_any().downcast_ref::<ShardingCodec>(), stages.last()) {
            (Some(sharding), Some((shape, data_type, fill_value))) => {
                if data_type != array.data_type() {
                    return Err(Error::new(ErrorKind::Unsupported, "shards behind a codec that changes the data type")
                        .expected("such codecs inside the shards"));
                }
                Some(NestedShards::new(array, sharding, shape, fill_value, stored)?)
            }
            _ => None,
        };
        let optional = match (codecs.array_to_bytes_codec().as_any().downcast_ref::<OptionalCodec>(), stages.last()) {
            (Some(optional), Some((_, data_type, _))) => Some(Optional::new(optional, data_type)?),
            _ => None,
        };
        #[cfg(feature = "zfp")]
        if let (Some(zfp), Some((shape, data_type, _))) =
            (codecs.array_to_bytes_codec().as_any().downcast_ref::<Zfp>(), stages.last())
        {
            zfp.check(shape, data_type)?;
        }
        // The chunks of a read keep all threads busy; codecs must not start more.
        let options = CodecOptions::default().with_concurrent_target(1);
        // What lies in shards has its own decoder.
        let swap = stored.swap.clone().filter(|_| shards.is_none()).unwrap_or(Swap::None);
        Ok(Self { codecs, stages, shards, optional, options, decoded_len, swap })
    }

    /// Bytes of memory that decoding a read chunk takes beside the encoded bytes.
    pub(super) fn working_len(&self) -> usize {
        // Each codec has its input and its output.
        let codecs = self.decoded_len.saturating_mul(2);
        #[cfg(feature = "zfp")]
        if let (Some(zfp), Some((shape, data_type, _))) =
            (self.codecs.array_to_bytes_codec().as_any().downcast_ref::<Zfp>(), self.stages.last())
        {
            return codecs.saturating_add(zfp.working_len(shape, data_type));
        }
        codecs
    }

    /// Decodes one read chunk, in C order.
    pub(super) fn decode<'a>(&self, encoded: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        if self.decoded_len >= HUGE {
            reserve_chunk(self.decoded_len)?;
        }
        let bound = |codecs| bounded::after(self.decoded_len, codecs);
        let bytes = bytes_to_bytes(&self.codecs, encoded, bound, &self.options)?
            .ok_or_else(|| corrupt().expected(format!("{} bytes, decoded many more", self.decoded_len)))?;
        let Some((stage, outer)) = self.stages.split_last() else { return Err(corrupt()) };
        let mut array = if let Some(shards) = &self.shards {
            ArrayBytes::new_flen(shards.decode(&bytes)?)
        } else if let Some(optional) = &self.optional {
            optional.decode(&bytes, &stage.0, &self.options)?
        } else {
            array_of(&**self.codecs.array_to_bytes_codec(), bytes, stage, &self.options)?
        };
        for (codec, (shape, data_type, fill_value)) in self.codecs.array_to_array_codecs().iter().zip(outer).rev() {
            array = guard(|| codec.decode(array, shape, data_type, fill_value, &self.options))?;
        }
        let mut decoded = match array {
            ArrayBytes::Optional(optional) => {
                let (values, mask) = optional.into_parts();
                Cow::Owned(interleave(&values.into_fixed().map_err(|source| corrupt().source(source))?, &mask)?)
            }
            array => array.into_fixed().map_err(|source| corrupt().source(source))?,
        };
        if decoded.len() != self.decoded_len {
            return Err(wrong_length(decoded.len(), self.decoded_len));
        }
        if self.swap != Swap::None {
            self.swap.apply(decoded.to_mut());
        }
        Ok(decoded)
    }
}

/// The stages of what begins as `first`: before each array to array codec, and after the last.
fn stages_of(codecs: &CodecChain, first: Stage, misfit: impl Fn() -> Error) -> Result<Vec<Stage>> {
    let mut stages = vec![first];
    for codec in codecs.array_to_array_codecs() {
        let Some((shape, data_type, fill_value)) = stages.last() else { return Err(misfit()) };
        let next = catch_unwind(AssertUnwindSafe(|| codec.encoded_representation(shape, data_type, fill_value)))
            .map_err(|_| misfit())?
            .map_err(|source| misfit().source(source))?;
        stages.push(next);
    }
    Ok(stages)
}

/// Decodes an array inside of others, of `len` bytes in all.
pub(super) fn decode_array(
    codecs: &CodecChain,
    encoded: &[u8],
    shape: &[NonZeroU64],
    len: usize,
    (data_type, fill_value): (&DataType, &FillValue),
    options: &CodecOptions,
) -> Result<Vec<u8>> {
    let bytes = bytes_to_bytes(codecs, encoded, |codecs| bounded::after(len, codecs), options)?;
    let bytes = bytes.ok_or_else(|| lying("an array in it decodes to more bytes than its elements have"))?;
    let stages = stages_of(codecs, (shape.to_vec(), data_type.clone(), fill_value.clone()), corrupt)?;
    let Some((stage, outer)) = stages.split_last() else { return Err(corrupt()) };
    let mut array = array_of(&**codecs.array_to_bytes_codec(), bytes, stage, options)?;
    for (codec, (shape, data_type, fill_value)) in codecs.array_to_array_codecs().iter().zip(outer).rev() {
        array = guard(|| codec.decode(array, shape, data_type, fill_value, options))?;
    }
    let decoded = array.into_fixed().map_err(|source| corrupt().source(source))?.into_owned();
    if decoded.len() != len {
        return Err(wrong_length(decoded.len(), len));
    }
    Ok(decoded)
}

/// Undoes an array to bytes codec.
fn array_of<'a>(
    codec: &dyn ArrayToBytesCodecTraits,
    bytes: Cow<'a, [u8]>,
    (shape, data_type, fill_value): &Stage,
    options: &CodecOptions,
) -> Result<ArrayBytes<'a>> {
    #[cfg(feature = "zfp")]
    if let Some(zfp) = codec.as_any().downcast_ref::<Zfp>() {
        return zfp.decode_array(&bytes, shape, data_type).map(ArrayBytes::new_flen);
    }
    if codec.as_any().is::<PcodecCodec>() {
        // It panics on some corrupt bytes.
        let decoded = catch_unwind(AssertUnwindSafe(|| pcodec::decode(&bytes, shape, data_type)));
        return decoded.map_err(|_| corrupt())?.map(ArrayBytes::new_flen);
    }
    guard(|| codec.decode(bytes, shape, data_type, fill_value, options))
}

/// Undoes the bytes to bytes codecs. With so many of them left, what was decoded may have `bound` bytes; `None` if it has
/// more.
pub(super) fn bytes_to_bytes<'a>(
    codecs: &CodecChain,
    encoded: &'a [u8],
    bound: impl Fn(usize) -> usize,
    options: &CodecOptions,
) -> Result<Option<Cow<'a, [u8]>>> {
    let mut bytes = Cow::Borrowed(encoded);
    for (at, codec) in codecs.bytes_to_bytes_codecs().iter().enumerate().rev() {
        let bound = bound(at);
        let kind = codec.as_any();
        let decoded = if kind.is::<ZstdCodec>() {
            bounded::zstd(&bytes, bound)
        } else if kind.is::<GzipCodec>() {
            bounded::gzip(&bytes, bound)
        } else if kind.is::<ZlibCodec>() {
            bounded::zlib(&bytes, bound)
        } else if kind.is::<Bz2Codec>() {
            bounded::bz2(&bytes, bound)
        } else if kind.is::<BloscCodec>() {
            bounded::blosc(&bytes, bound)
        } else if kind.is::<Gdeflate>() {
            gdeflate::decode(&bytes, bound)
        } else {
            let representation = BytesRepresentation::BoundedSize(bound as u64);
            bytes = guard(|| codec.decode(bytes, &representation, options))?;
            continue;
        };
        let Some(decoded) = decoded? else { return Ok(None) };
        bytes = Cow::Owned(decoded);
    }
    Ok(Some(bytes))
}

/// Puts behind each value whether it is one.
fn interleave(values: &[u8], mask: &[u8]) -> Result<Vec<u8>> {
    let width = values.len() / mask.len().max(1);
    if width == 0 || values.len() != width * mask.len() {
        return Err(corrupt());
    }
    let mut items = reserve_chunk(values.len() + mask.len())?;
    for (value, &is_valid) in values.chunks_exact(width).zip(mask) {
        items.extend_from_slice(value);
        items.push(is_valid);
    }
    Ok(items)
}

/// Runs a codec of zarrs. One that panics on corrupt bytes must not take the caller down.
pub(super) fn guard<T, E: std::error::Error + Send + Sync + 'static>(
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).map_err(|_| corrupt())?.map_err(|source| corrupt().source(source))
}
