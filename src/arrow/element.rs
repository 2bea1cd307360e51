//! The type of one element: Zarr's name, its width, its Arrow type.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, FixedSizeListArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef};
use zarrs::plugin::ExtensionName;

use super::Time;
use crate::chunk::CELL_LEN;
use crate::error::{Error, ErrorKind, Result};

/// Type of the elements of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum ElementType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    /// A point in time or a span of time.
    Time(Time),
    /// Text of variable length.
    Utf8,
    /// Bytes of variable length.
    Binary,
    /// A list of elements of fixed width in the place of each element: numcodecs' `vlen-array`.
    List(Arc<ElementType>),
}

impl ElementType {
    const ALL: [Self; 14] = [
        Self::Bool,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Complex64,
        Self::Complex128,
    ];

    pub(crate) fn from_zarrs(data_type: &zarrs::array::DataType, declared: &str) -> Result<Self> {
        let name = data_type.name_v3().unwrap_or_default();
        Self::ALL.into_iter().find(|element| element.zarr_name() == name).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("data type '{declared}'"))
                .expected("bool, an integer of 8 to 64 bits, a float of 16 to 64 bits, or complex64 or complex128")
        })
    }

    /// `NumPy`'s name of the type.
    #[must_use]
    pub fn numpy_name(&self) -> String {
        match self {
            Self::Time(time) => time.numpy_name(),
            Self::Utf8 => "StringDType".to_owned(),
            Self::Binary | Self::List(_) => "object".to_owned(),
            _ => self.zarr_name().to_owned(),
        }
    }

    /// Zarr v3's name of the type.
    #[must_use]
    pub fn zarr_name(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Time(time) => time.zarr_name(),
            Self::Utf8 => "string",
            Self::Binary => "bytes",
            Self::List(_) => "vlen-array",
        }
    }

    /// Bytes of one element as decoded. A bool is one byte here and one bit in Arrow. One of variable length has 16 for
    /// its place and length, until all of them are read.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Complex64 | Self::Time(_) => 8,
            Self::Complex128 => 16,
            Self::Utf8 | Self::Binary | Self::List(_) => CELL_LEN,
        }
    }

    /// Whether elements differ in length.
    #[must_use]
    pub fn is_variable(&self) -> bool {
        matches!(self, Self::Utf8 | Self::Binary | Self::List(_))
    }

    /// The length in bytes of each element is a multiple of this.
    pub(crate) fn unit(&self) -> usize {
        match self {
            Self::List(item) => item.size(),
            Self::Utf8 | Self::Binary => 1,
            _ => self.size(),
        }
    }

    /// Bytes of one element in the result that are known before it is read: of one of variable length, its offset.
    pub(crate) fn planned_size(&self) -> usize {
        if self.is_variable() { size_of::<i64>() } else { self.size() }
    }

    /// Bytes of one number: half an element for complex types.
    pub(crate) fn number_size(&self) -> usize {
        match self {
            Self::Complex64 | Self::Complex128 => self.size() / 2,
            _ => self.size(),
        }
    }

    /// The Arrow type of one element. Complex numbers are lists of two non-null floats: real, imaginary.
    #[must_use]
    pub fn arrow_type(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float16 => DataType::Float16,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Complex64 => DataType::FixedSizeList(part(DataType::Float32), 2),
            Self::Complex128 => DataType::FixedSizeList(part(DataType::Float64), 2),
            Self::Time(time) => time.arrow_type(),
            Self::Utf8 => DataType::LargeUtf8,
            Self::Binary => DataType::LargeBinary,
            Self::List(item) => DataType::LargeList(part(item.arrow_type())),
        }
    }

    /// Wraps `len` elements, of [`size`](Self::size) bytes each in native byte order, without copying them (a bool
    /// is packed to a bit).
    pub(crate) fn wrap(&self, bytes: Buffer, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(match self {
            Self::Bool => Arc::new(BooleanArray::new(BooleanBuffer::new(pack_bits(&bytes), 0, len), nulls)),
            Self::Int8 => primitive::<Int8Type>(bytes, len, nulls),
            Self::Int16 => primitive::<Int16Type>(bytes, len, nulls),
            Self::Int32 => primitive::<Int32Type>(bytes, len, nulls),
            Self::Int64 => primitive::<Int64Type>(bytes, len, nulls),
            Self::UInt8 => primitive::<UInt8Type>(bytes, len, nulls),
            Self::UInt16 => primitive::<UInt16Type>(bytes, len, nulls),
            Self::UInt32 => primitive::<UInt32Type>(bytes, len, nulls),
            Self::UInt64 => primitive::<UInt64Type>(bytes, len, nulls),
            Self::Float16 => primitive::<Float16Type>(bytes, len, nulls),
            Self::Float32 => primitive::<Float32Type>(bytes, len, nulls),
            Self::Float64 => primitive::<Float64Type>(bytes, len, nulls),
            Self::Complex64 => pairs(DataType::Float32, primitive::<Float32Type>(bytes, len * 2, None), nulls)?,
            Self::Complex128 => pairs(DataType::Float64, primitive::<Float64Type>(bytes, len * 2, None), nulls)?,
            Self::Time(time) => time.wrap(bytes, len, nulls),
            Self::Utf8 | Self::Binary | Self::List(_) => {
                return Err(Error::new(ErrorKind::Internal, "elements of variable length without offsets"));
            }
        })
    }
}

/// Packs bytes to bits, least significant first: any byte but zero is a one.
fn pack_bits(bytes: &[u8]) -> Buffer {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const SEVEN: u64 = u64::from_ne_bytes([0x7f; 8]);
    // Not `BooleanBuffer::collect_bool`: its memory is aligned to 8 bytes only.
    let mut packed = MutableBuffer::from_len_zeroed(bytes.len().div_ceil(8));
    let (eights, rest) = bytes.as_chunks::<8>();
    for (bits, eight) in packed.as_slice_mut().iter_mut().zip(eights) {
        let eight = u64::from_le_bytes(*eight);
        let ones = (((eight & SEVEN) + SEVEN) | eight) >> 7 & LOW;
        // Gathers the lowest bit of byte i in bit 56 + i; no two terms of the product meet.
        *bits = (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    if let (Some(bits), false) = (packed.as_slice_mut().last_mut(), rest.is_empty()) {
        *bits = rest.iter().enumerate().fold(0, |bits, (i, &byte)| bits | u8::from(byte != 0) << i);
    }
    packed.into()
}

pub(super) fn part(item: DataType) -> FieldRef {
    Arc::new(Field::new("item", item, false))
}

pub(super) fn primitive<T: ArrowPrimitiveType>(bytes: Buffer, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(bytes, 0, len), nulls))
}

fn pairs(float: DataType, parts: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let array = FixedSizeListArray::try_new(part(float), 2, parts, nulls)
        .map_err(|source| Error::new(ErrorKind::Internal, "the result is no valid Arrow array").source(source))?;
    Ok(Arc::new(array))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_equal_bytes_that_are_not_zero() {
        for len in (0..70).chain([1000]) {
            let bytes: Vec<u8> = (0..len).map(|i: usize| [0, 1, 2, 0x80, 0xff, 0, 0x7f][(i * i + len) % 7]).collect();
            let bits = BooleanBuffer::new(pack_bits(&bytes), 0, len);
            assert!(bits.iter().eq(bytes.iter().map(|&byte| byte != 0)), "{len}");
        }
    }
}
