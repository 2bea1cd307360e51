//! The layout of zarrs' `optional`: for each element whether it is there, as an array of bools, and those that are, as
//! another, of one axis.
//!
//! The lengths of both, encoded, stand first, 64 bits in little-endian order. How long both decode to is known: whatever
//! their compressors claim, no more is allocated.

use std::num::NonZeroU64;

use zarrs::array::codec::OptionalCodec;
use zarrs::array::codec::api::{CodecMetadataOptions, CodecTraits};
use zarrs::array::{ArrayBytes, CodecChain, CodecOptions, DataType, FillValue, data_type};
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::ZarrVersion;

use super::chain::decode_array;
use super::interleaved::lying;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::reserve_chunk;

pub(super) struct Optional {
    mask: CodecChain,
    data: CodecChain,
    /// Type of the values, and bytes of one.
    values: DataType,
    width: usize,
}

impl Optional {
    /// The codec for elements of `data_type`.
    pub(super) fn new(codec: &OptionalCodec, data_type: &DataType) -> Result<Self> {
        let unknown = || {
            Error::new(ErrorKind::Unsupported, "this variant of the codec 'optional'")
                .expected("one with mask_codecs and data_codecs, for optional values of fixed width")
        };
        let configuration = codec.configuration(ZarrVersion::V3, &CodecMetadataOptions::default());
        let configuration = configuration.ok_or_else(unknown)?;
        let chain = |name: &str| {
            let codecs: Vec<MetadataV3> = serde_json::from_value(configuration.get(name).cloned().unwrap_or_default())
                .map_err(|source| unknown().source(source))?;
            CodecChain::from_metadata(&codecs).map_err(|source| {
                Error::new(ErrorKind::Metadata, format!("the {name} of the codec 'optional'")).source(source)
            })
        };
        let values = data_type.as_optional().ok_or_else(unknown)?.data_type().clone();
        let width = values.fixed_size().ok_or_else(unknown)?;
        Ok(Self { mask: chain("mask_codecs")?, data: chain("data_codecs")?, values, width })
    }

    /// Decodes an array of `shape`. Elements that are not there are zero.
    pub(super) fn decode(
        &self,
        encoded: &[u8],
        shape: &[NonZeroU64],
        options: &CodecOptions,
    ) -> Result<ArrayBytes<'static>> {
        let (mask, data) = split(encoded).ok_or_else(|| lying("its mask and its values are not as long as it says"))?;
        let count = shape.iter().map(|len| len.get() as usize).product::<usize>();
        let bools = (&data_type::bool(), &FillValue::from(0_u8));
        let mask = decode_array(&self.mask, mask, shape, count, bools, options)?;
        let present = mask.iter().filter(|&&is_there| is_there != 0).count();
        let mut dense = reserve_chunk(count * self.width)?;
        dense.resize(count * self.width, 0);
        if let Some(present) = NonZeroU64::new(present as u64) {
            let len = present.get() as usize * self.width;
            let values = (&self.values, &FillValue::new(vec![0; self.width]));
            let values = decode_array(&self.data, data, &[present], len, values, options)?;
            let places = dense.chunks_exact_mut(self.width).zip(&mask).filter(|(_, is_there)| **is_there != 0);
            for ((place, _), value) in places.zip(values.chunks_exact(self.width)) {
                place.copy_from_slice(value);
            }
        }
        Ok(ArrayBytes::new_flen(dense).with_optional_mask(mask))
    }
}

/// The encoded mask and the encoded values.
fn split(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
    let (mask_len, rest) = encoded.split_first_chunk::<8>()?;
    let (data_len, rest) = rest.split_first_chunk::<8>()?;
    let (mask, data) = rest.split_at_checked(length(mask_len)?)?;
    (length(data_len)? == data.len()).then_some((mask, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_add_up_is_refused() {
        let encoded = |mask: u64, data: u64, rest: &[u8]| [&mask.to_le_bytes()[..], &data.to_le_bytes(), rest].concat();
        assert_eq!(split(&encoded(2, 1, b"abc")), Some((&b"ab"[..], &b"c"[..])));
        assert_eq!(split(&encoded(0, 0, b"")), Some((&b""[..], &b""[..])));
        for (mask, data, rest) in [(2, 2, &b"abc"[..]), (4, 0, b"abc"), (2, 0, b"abc"), (u64::MAX, 4, b"abc")] {
            assert_eq!(split(&encoded(mask, data, rest)), None);
        }
        assert_eq!(split(&[0; 15]), None);
    }
}
