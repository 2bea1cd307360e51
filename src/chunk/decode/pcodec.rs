//! The codec `pcodec`, no further than a chunk has elements: zarrs decodes whatever a stream claims to hold.

use std::num::NonZeroU64;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_buffer::{ArrowNativeType, ToByteSlice};
use pco::FULL_BATCH_N;
use pco::data_types::Number;
use pco::errors::PcoError;
use pco::standalone::{DecompressorItem, FileDecompressor};
use zarrs::array::DataType;
use zarrs::array::codec::array_to_bytes::pcodec::{PcodecDataTypeExt, PcodecElementType};

use super::{corrupt, wrong_length};
use crate::error::Result;
use crate::memory::reserve_chunk;

/// Numbers that are decoded at a time, then copied while they are in the cache.
const BATCH: usize = 8 * FULL_BATCH_N;

/// Decodes an array of `shape`, in native byte order.
pub(super) fn decode(encoded: &[u8], shape: &[NonZeroU64], data_type: &DataType) -> Result<Vec<u8>> {
    let pcodec = data_type.codec_pcodec().map_err(|source| corrupt().source(source))?;
    let elements = shape.iter().try_fold(pcodec.pcodec_elements_per_element(), |elements, length| {
        elements.checked_mul(usize::try_from(length.get()).ok()?)
    });
    let numbers = elements.ok_or_else(corrupt)?;
    match pcodec.pcodec_element_type() {
        PcodecElementType::U16 => numbers_of::<u16>(encoded, numbers),
        PcodecElementType::U32 => numbers_of::<u32>(encoded, numbers),
        PcodecElementType::U64 => numbers_of::<u64>(encoded, numbers),
        PcodecElementType::I16 => numbers_of::<i16>(encoded, numbers),
        PcodecElementType::I32 => numbers_of::<i32>(encoded, numbers),
        PcodecElementType::I64 => numbers_of::<i64>(encoded, numbers),
        PcodecElementType::F16 => numbers_of::<<Float16Type as ArrowPrimitiveType>::Native>(encoded, numbers),
        PcodecElementType::F32 => numbers_of::<f32>(encoded, numbers),
        PcodecElementType::F64 => numbers_of::<f64>(encoded, numbers),
    }
}

/// The bytes of all `count` numbers that are encoded.
fn numbers_of<T: Number + ArrowNativeType>(encoded: &[u8], count: usize) -> Result<Vec<u8>> {
    let failed = |source: PcoError| corrupt().source(source);
    let more = || corrupt().expected(format!("{count} numbers, decoded more"));
    let (file, mut rest) = FileDecompressor::new(encoded).map_err(failed)?;
    let len = count.checked_mul(size_of::<T>()).ok_or_else(corrupt)?;
    let mut decoded = reserve_chunk(len)?;
    let mut batch = [T::default(); BATCH];
    while let DecompressorItem::Chunk(mut chunk) = file.chunk_decompressor::<T, _>(rest).map_err(failed)? {
        if chunk.n() > (len - decoded.len()) / size_of::<T>() {
            return Err(more());
        }
        loop {
            let progress = chunk.read(&mut batch).map_err(failed)?;
            decoded.extend_from_slice(batch[..progress.n_processed].to_byte_slice());
            if progress.finished {
                break;
            }
        }
        rest = chunk.into_src();
    }
    if decoded.len() == len { Ok(decoded) } else { Err(wrong_length(decoded.len(), len)) }
}

#[cfg(test)]
mod tests {
    use pco::standalone::simple_compress;
    use pco::{ChunkConfig, PagingSpec};
    use zarrs::array::data_type;

    use super::*;
    use crate::error::ErrorKind;

    fn shape(lengths: &[u64]) -> Vec<NonZeroU64> {
        lengths.iter().map(|&length| NonZeroU64::new(length).unwrap()).collect()
    }

    /// In chunks of 1,000 numbers.
    fn encode<T: Number>(numbers: &[T]) -> Vec<u8> {
        let config = ChunkConfig::default().with_paging_spec(PagingSpec::EqualPagesUpTo(1000));
        simple_compress(numbers, &config).unwrap()
    }

    fn check<T: Number + ArrowNativeType>(numbers: &[T], lengths: &[u64], data_type: &DataType) {
        let decoded = decode(&encode(numbers), &shape(lengths), data_type).unwrap();
        assert_eq!(decoded, numbers.to_byte_slice());
    }

    #[test]
    fn numbers_of_every_type_are_what_they_were() {
        let numbers = || (0..6000_u16).map(|number| number.wrapping_mul(40_503));
        let signed: Vec<i16> = numbers().map(|number| number as i16).collect();
        let halves: Vec<_> = numbers().map(<Float16Type as ArrowPrimitiveType>::Native::from_bits).collect();
        let singles: Vec<f32> = numbers().map(|number| f32::from_bits(u32::from(number) << 16)).collect();
        let doubles: Vec<f64> = numbers().map(|number| f64::from(number) / 8.0).collect();
        check(&numbers().collect::<Vec<_>>(), &[60, 100], &data_type::uint16());
        check(&numbers().map(u32::from).collect::<Vec<_>>(), &[6000], &data_type::uint32());
        check(&numbers().map(u64::from).collect::<Vec<_>>(), &[6000], &data_type::uint64());
        check(&signed, &[6000], &data_type::int16());
        check(&signed.iter().map(|&number| i32::from(number)).collect::<Vec<_>>(), &[6000], &data_type::int32());
        check(&signed.iter().map(|&number| i64::from(number)).collect::<Vec<_>>(), &[6000], &data_type::int64());
        check(&halves, &[6000], &data_type::float16());
        check(&singles, &[6000], &data_type::float32());
        check(&singles, &[3, 1000], &data_type::complex64());
        check(&doubles, &[20, 300], &data_type::float64());
        check(&doubles[..1], &[1], &data_type::float64());
    }

    #[test]
    fn what_claims_to_hold_more_or_holds_less_is_refused() {
        let fails = |encoded: &[u8], length: u64, told: &str| {
            let error = decode(encoded, &shape(&[length]), &data_type::uint64()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(error.to_string().contains(told), "{error}");
        };
        // 128 MiB in a few bytes, as one chunk and as many.
        let bomb = simple_compress(&vec![7_u64; 1 << 24], &ChunkConfig::default()).unwrap();
        assert!(bomb.len() < 10_000, "{}", bomb.len());
        fails(&bomb, 1000, "1000 numbers, decoded more");
        fails(&encode(&vec![7_u64; 100_000]), 1000, "1000 numbers, decoded more");
        fails(&encode(&[7_u64; 999]), 1000, "8000 bytes, decoded 7992");
        fails(&encode(&[7_u32; 1000]), 1000, "");
        let encoded = encode(&(0..3000_u64).collect::<Vec<_>>());
        for len in 0..encoded.len() {
            fails(&encoded[..len], 3000, "");
        }
        // A header that hints at 2^63 numbers, of which there are none.
        let mut hint = encode::<u64>(&[]);
        assert!(decode(&hint, &shape(&[1]), &data_type::uint64()).is_err());
        for at in 4..hint.len() {
            hint[at] ^= 0xff;
            fails(&hint, 1, "");
        }
    }
}
