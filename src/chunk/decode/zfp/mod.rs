//! The codecs `zfp` and `zfpy`, which differ in whether the chunk says itself what it is.
//!
//! * [`stream`]: what a bit stream holds, and how much of it a block takes at most.
//! * [`library`]: the library's interface.

mod library;
mod stream;

use std::any::Any;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::num::NonZeroU64;
use std::sync::Arc;

use zarrs::array::codec::api::{
    ArrayCodecTraits, ArrayToBytesCodecTraits, CodecError, CodecMetadataOptions, CodecTraits, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency,
};
use zarrs::array::data_type::api::codec_traits::zfp::{ZfpDataTypeExt, ZfpEncoding};
use zarrs::array::{ArrayBytes, ArrayBytesRaw, BytesRepresentation, CodecOptions, DataType, FillValue};
use zarrs::metadata::Configuration;
use zarrs::metadata_ext::codec::zfp::{ZfpCodecConfiguration, ZfpMode};
use zarrs::plugin::{ExtensionName, PluginCreateError, ZarrVersion};

use self::stream::{Field, Header, Params, WORD};
use super::corrupt;
use super::interleaved::lying;
use super::registered;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{reserve, reserve_chunk};

/// Words behind what the library could read.
const SPARE_WORDS: usize = 2;

/// A codec of zarrs' kind that only decodes.
#[derive(Debug)]
pub(crate) struct Zfp {
    /// `None` where each chunk has a header.
    mode: Option<ZfpMode>,
    configuration: Configuration,
}

impl Zfp {
    /// The codec `zfp`.
    pub(super) fn new(configuration: Configuration) -> Result<Self, PluginCreateError> {
        let invalid = |source: serde_json::Error| PluginCreateError::from(format!("codec 'zfp': {source}"));
        let typed = serde_json::to_value(&configuration).and_then(serde_json::from_value).map_err(invalid)?;
        let ZfpCodecConfiguration::V1(typed) = typed else {
            return Err(PluginCreateError::from("codec 'zfp': a configuration of another version"));
        };
        Ok(Self { mode: Some(typed.mode), configuration })
    }

    /// The codec `zfpy`. How a chunk is encoded, only its header tells.
    pub(super) fn with_headers(configuration: Configuration) -> Self {
        Self { mode: None, configuration }
    }

    fn public_name(&self) -> &'static str {
        if self.mode.is_some() { "zfp" } else { "zfpy" }
    }

    /// Checks that arrays of this shape and data type can be in chunks.
    ///
    /// # Errors
    /// [`ErrorKind::Metadata`] if they cannot.
    pub(super) fn check(&self, shape: &[NonZeroU64], data_type: &DataType) -> Result<()> {
        let (_, field) = self.field(shape, data_type)?;
        self.params(&field).map(drop)
    }

    /// Bytes of memory that decoding takes beside the encoded and the decoded ones.
    pub(super) fn working_len(&self, shape: &[NonZeroU64], data_type: &DataType) -> usize {
        let Ok((_, field)) = self.field(shape, data_type) else { return 0 };
        let Ok(params) = self.params(&field) else { return 0 };
        let reach = field.reach(&params).unwrap_or(u64::MAX) / 8;
        (reach as usize).saturating_add(field.len() * field.scalar.size())
    }

    /// Decodes an array.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the bytes are not such an array.
    pub(super) fn decode_array(&self, encoded: &[u8], shape: &[NonZeroU64], data_type: &DataType) -> Result<Vec<u8>> {
        let (encoding, field) = self.field(shape, data_type)?;
        let header = match self.mode {
            Some(_) => Header { params: self.params(&field)?, field, len: 0 },
            None => header(encoded, &field)?,
        };
        let decoded = decompress(encoded, &header)?;
        demote(decoded, encoding)
    }

    fn field(&self, shape: &[NonZeroU64], data_type: &DataType) -> Result<(ZfpEncoding, Field)> {
        let misfit = |what: String| Error::new(ErrorKind::Metadata, format!("codec '{}': {what}", self.public_name()));
        let encoding = data_type
            .codec_zfp()
            .map_err(|_| misfit(format!("elements of {data_type}")).expected("integers, or floats of 32 or 64 bits"))?
            .zfp_encoding();
        let field = Field::new(encoding.native_type().into(), shape.iter().map(|len| len.get()));
        let field = field.ok_or_else(|| misfit(format!("chunks of shape {shape:?}")).expected("1 to 4 axes"))?;
        Ok((encoding, field))
    }

    /// Those of the configuration; where there is none, some that stand for all.
    fn params(&self, field: &Field) -> Result<Params> {
        Params::of_mode(self.mode.as_ref().unwrap_or(&ZfpMode::Reversible), field.scalar)
            .map_err(|what| Error::new(ErrorKind::Metadata, format!("codec 'zfp': {what}")))
    }
}

/// The header of a chunk that has to be `field`.
fn header(encoded: &[u8], field: &Field) -> Result<Header> {
    let header = Header::new(encoded).ok_or_else(|| corrupt().expected("a header of zfp"))?;
    // All elements in one row are the same to who wrote them.
    let flat = [field.len()];
    if header.field.scalar != field.scalar || ![field.shape(), &flat].contains(&header.field.shape()) {
        return Err(lying(&format!("its header is of {:?}", header.field)).expected(format!("{field:?}")));
    }
    Ok(header)
}

/// Decompresses what stands behind a header, in native byte order.
fn decompress(encoded: &[u8], header: &Header) -> Result<Vec<u8>> {
    let Header { field, params, len: header_len } = header;
    // Where the library was built for shorter words, a stream does not end with one of ours. It is moved there, so that
    // it shows whether more was read than there is.
    let front = encoded.len().next_multiple_of(8) - encoded.len();
    let start = front as u64 * 8 + header_len;
    let stored = encoded.len().div_ceil(8);
    let words = |bits: Option<u64>| bits.and_then(|bits| usize::try_from(bits.checked_add(start)?.div_ceil(WORD)).ok());
    let (Some(least), Some(most)) = (words(field.least(params)), words(field.reach(params))) else {
        return Err(lying("it says more of its blocks than can be counted"));
    };
    if least > stored {
        return Err(goes_on());
    }
    if stored > most {
        return Err(ends_earlier());
    }
    let mut words = reserve::<u64>(most + SPARE_WORDS, "words of a zfp stream", "Write the array in smaller chunks.")?;
    let (first, rest) = encoded.split_at(if front > 0 { 8 - front } else { 0 });
    if front > 0 {
        let mut word = [0; 8];
        word[front..].copy_from_slice(first);
        words.push(u64::from_le_bytes(word));
    }
    words.extend(rest.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
    words.resize(most + SPARE_WORDS, 0);
    let size = field.scalar.size();
    let len = field.len() * size;
    let mut target = reserve_chunk(len + size)?;
    target.resize(len + size, 0);
    let aligned = target.as_ptr().align_offset(size).min(size);
    let read = library::decompress(&mut words, start, field, params, &mut target[aligned..aligned + len]);
    match read.ok_or_else(corrupt)?.cmp(&stored) {
        Ordering::Greater => return Err(goes_on()),
        Ordering::Less => return Err(ends_earlier()),
        Ordering::Equal => {}
    }
    if aligned > 0 {
        target.copy_within(aligned..aligned + len, 0);
    }
    target.truncate(len);
    Ok(target)
}

fn goes_on() -> Error {
    corrupt().expected("a whole zfp stream, which goes on")
}

fn ends_earlier() -> Error {
    corrupt().expected("a zfp stream, which ends earlier")
}

/// Turns numbers as zfp has them into those that they stand for, as zarrs does: shorter ones are the highest bits, and
/// unsigned ones of the same length do not reach beyond what a signed one holds.
fn demote(decoded: Vec<u8>, encoding: ZfpEncoding) -> Result<Vec<u8>> {
    let int = |bytes: &[u8; 4]| i32::from_ne_bytes(*bytes);
    match encoding {
        ZfpEncoding::Int32 | ZfpEncoding::Int64 | ZfpEncoding::Float32 | ZfpEncoding::Float64 => Ok(decoded),
        ZfpEncoding::Int8 => each(&decoded, |number| ((int(number) >> 23).clamp(-0x80, 0x7f) as i8).to_ne_bytes()),
        ZfpEncoding::UInt8 => each(&decoded, |number| [((int(number) >> 23) + 0x80).clamp(0, 0xff) as u8]),
        ZfpEncoding::Int16 => {
            each(&decoded, |number| ((int(number) >> 15).clamp(-0x8000, 0x7fff) as i16).to_ne_bytes())
        }
        ZfpEncoding::UInt16 => {
            each(&decoded, |number| (((int(number) >> 15) + 0x8000).clamp(0, 0xffff) as u16).to_ne_bytes())
        }
        ZfpEncoding::UInt32 => each(&decoded, |number| int(number).max(0).to_ne_bytes()),
        ZfpEncoding::UInt64 => each(&decoded, |number| i64::from_ne_bytes(*number).max(0).to_ne_bytes()),
    }
}

fn each<const FROM: usize, const TO: usize>(decoded: &[u8], to: impl Fn(&[u8; FROM]) -> [u8; TO]) -> Result<Vec<u8>> {
    let (numbers, _) = decoded.as_chunks::<FROM>();
    let mut bytes = reserve_chunk(numbers.len() * TO)?;
    for number in numbers {
        bytes.extend_from_slice(&to(number));
    }
    Ok(bytes)
}

impl ExtensionName for Zfp {
    fn name(&self, _version: ZarrVersion) -> Option<Cow<'static, str>> {
        Some(if self.mode.is_some() { registered::ZFP } else { registered::ZFPY }.into())
    }
}

impl CodecTraits for Zfp {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, _version: ZarrVersion, _options: &CodecMetadataOptions) -> Option<Configuration> {
        Some(self.configuration.clone())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl ArrayCodecTraits for Zfp {
    fn recommended_concurrency(
        &self,
        _shape: &[NonZeroU64],
        _data_type: &DataType,
    ) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_maximum(1))
    }
}

impl ArrayToBytesCodecTraits for Zfp {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn ArrayToBytesCodecTraits> {
        self
    }

    fn encode<'a>(
        &self,
        _bytes: ArrayBytes<'a>,
        _shape: &[NonZeroU64],
        _data_type: &DataType,
        _fill_value: &FillValue,
        _options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        Err(registered::only_decodes())
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytesRaw<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        _fill_value: &FillValue,
        _options: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        self.decode_array(&bytes, shape, data_type)
            .map(ArrayBytes::new_flen)
            .map_err(|error| registered::as_codec_error(&error))
    }

    fn encoded_representation(
        &self,
        _shape: &[NonZeroU64],
        _data_type: &DataType,
        _fill_value: &FillValue,
    ) -> Result<BytesRepresentation, CodecError> {
        Ok(BytesRepresentation::UnboundedSize)
    }
}
