//! The type of one element: Zarr's name, its width, its Arrow type.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef};
use serde_json::{Value, json};
use zarrs::plugin::ExtensionName;

use super::{NarrowFloat, StructType, Time};
use crate::chunk::CELL_LEN;
use crate::error::{Error, ErrorKind, Result};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// Type of the elements of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum ElementType {
    Bool,
    /// Two's complement in the lowest two bits of a byte, as are the other integers of less than a byte.
    Int2,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt2,
    UInt4,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
    /// A float that Arrow does not have; float32 holds its values.
    Narrow(NarrowFloat),
    ComplexFloat16,
    Complex64,
    Complex128,
    /// Two narrow floats: real, imaginary.
    ComplexNarrow(NarrowFloat),
    /// A point in time or a span of time.
    Time(Time),
    /// So many bytes.
    RawBytes(usize),
    /// At most so many bytes, padded with zeros.
    NullTerminated(usize),
    /// At most so many Unicode code points of four bytes, padded with zeros.
    Utf32(usize),
    /// Named members, one after the other.
    Struct(Arc<StructType>),
    /// A value or none.
    Optional(Arc<ElementType>),
    /// Text of variable length.
    Utf8,
    /// Bytes of variable length.
    Binary,
    /// A list of elements of fixed width in the place of each element: numcodecs' `vlen-array`.
    List(Arc<ElementType>),
}

impl ElementType {
    /// Types that zarrs names as Zarr does.
    fn named() -> impl Iterator<Item = Self> {
        const NUMBERS: [ElementType; 19] = [
            ElementType::Bool,
            ElementType::Int2,
            ElementType::Int4,
            ElementType::Int8,
            ElementType::Int16,
            ElementType::Int32,
            ElementType::Int64,
            ElementType::UInt2,
            ElementType::UInt4,
            ElementType::UInt8,
            ElementType::UInt16,
            ElementType::UInt32,
            ElementType::UInt64,
            ElementType::Float16,
            ElementType::Float32,
            ElementType::Float64,
            ElementType::ComplexFloat16,
            ElementType::Complex64,
            ElementType::Complex128,
        ];
        let narrow = NarrowFloat::ALL.into_iter().flat_map(|float| [Self::Narrow(float), Self::ComplexNarrow(float)]);
        NUMBERS.into_iter().chain(narrow)
    }

    pub(crate) fn from_zarrs(data_type: &zarrs::array::DataType, declared: &str) -> Result<Self> {
        let name = data_type.name_v3().unwrap_or_default();
        let name = match &*name {
            "complex_float32" => "complex64",
            "complex_float64" => "complex128",
            name => name,
        };
        if let Some(bits) = name.strip_prefix('r').and_then(|bits| bits.parse::<usize>().ok()) {
            return Ok(Self::RawBytes(bits / 8));
        }
        Self::named().find(|element| element.zarr_name() == name).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("data type '{declared}'"))
                .expected("bools, numbers, times, bytes, strings, or structs of these")
        })
    }

    /// `NumPy`'s name of the type that holds the values: of the result, where `NumPy` does not have the type itself.
    #[must_use]
    pub fn numpy_name(&self) -> String {
        let name = match self {
            Self::Time(time) => return time.numpy_name(),
            Self::RawBytes(len) => return format!("V{len}"),
            Self::NullTerminated(len) => return format!("S{len}"),
            Self::Utf32(len) => return format!("U{len}"),
            Self::Struct(fields) => return fields.numpy_name(),
            Self::Optional(inner) => return inner.numpy_name(),
            Self::Utf8 => "StringDType",
            Self::Binary | Self::List(_) => "object",
            Self::Int2 | Self::Int4 => "int8",
            Self::UInt2 | Self::UInt4 => "uint8",
            Self::Narrow(_) => "float32",
            // NumPy has no complex type of half floats.
            Self::ComplexFloat16 | Self::ComplexNarrow(_) => "complex64",
            _ => return self.zarr_name().into_owned(),
        };
        name.to_owned()
    }

    /// The type for people: `NumPy`'s name, or Zarr's where `NumPy` has one for all that differ in length.
    pub(crate) fn told_name(&self) -> String {
        match self {
            Self::List(item) => format!("{} of {}", self.zarr_name(), item.numpy_name()),
            Self::Utf8 | Self::Binary => self.zarr_name().into_owned(),
            _ => self.numpy_name(),
        }
    }

    /// Zarr v3's name of the type, without its configuration.
    #[must_use]
    pub fn zarr_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Bool => "bool",
            Self::Int2 => "int2",
            Self::Int4 => "int4",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt2 => "uint2",
            Self::UInt4 => "uint4",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Narrow(float) => float.name(),
            Self::ComplexFloat16 => "complex_float16",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::ComplexNarrow(float) => return Cow::Owned(format!("complex_{}", float.name())),
            Self::Time(time) => time.zarr_name(),
            Self::RawBytes(len) => return Cow::Owned(format!("r{}", len.saturating_mul(8))),
            Self::NullTerminated(_) => "null_terminated_bytes",
            Self::Utf32(_) => "fixed_length_utf32",
            Self::Struct(_) => "struct",
            Self::Optional(_) => "zarrs.optional",
            Self::Utf8 => "string",
            Self::Binary => "bytes",
            Self::List(_) => "vlen-array",
        })
    }

    /// The configuration that Zarr v3 gives the type; null if it has none.
    #[must_use]
    pub fn zarr_configuration(&self) -> Value {
        match self {
            Self::Time(time) => json!({"unit": time.unit.name(), "scale_factor": time.scale}),
            Self::NullTerminated(len) => json!({"length_bytes": len}),
            Self::Utf32(len) => json!({"length_bytes": len.saturating_mul(4)}),
            Self::Struct(fields) => fields.zarr_configuration(),
            Self::Optional(inner) => match inner.zarr_configuration() {
                Value::Null => json!({"name": inner.zarr_name(), "configuration": {}}),
                configuration => json!({"name": inner.zarr_name(), "configuration": configuration}),
            },
            _ => Value::Null,
        }
    }

    /// Bytes of one element as it is stored. One of variable length has 16 for its place and length, until all of them are
    /// read.
    #[must_use]
    pub fn width(&self) -> usize {
        match self {
            Self::Bool | Self::Int2 | Self::Int4 | Self::Int8 | Self::UInt2 | Self::UInt4 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 | Self::ComplexFloat16 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Complex64 | Self::Time(_) => 8,
            Self::Complex128 => 16,
            Self::Narrow(float) => float.width(),
            Self::ComplexNarrow(float) => 2 * float.width(),
            Self::RawBytes(len) | Self::NullTerminated(len) => *len,
            Self::Utf32(len) => 4 * len,
            Self::Struct(fields) => fields.width(),
            Self::Optional(inner) => inner.width() + 1,
            Self::Utf8 | Self::Binary | Self::List(_) => CELL_LEN,
        }
    }

    /// Bytes of one element as decoded. A bool is one byte here and one bit in Arrow; an element of no bytes takes one,
    /// which is zero; an optional one has a byte behind it, which is zero if there is no value.
    #[must_use]
    pub fn size(&self) -> usize {
        self.width().max(1)
    }

    /// Bytes of one element in the buffer that a read fills: more than those decoded, where they are widened in their
    /// place.
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Narrow(_) => 4,
            Self::ComplexNarrow(_) => 8,
            _ => self.size(),
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
        if self.is_variable() { size_of::<i64>() } else { self.room() }
    }

    /// Bytes of one number whose byte order the codec `bytes` tells: half an element for complex types.
    pub(crate) fn number_size(&self) -> usize {
        match self {
            Self::Complex64 | Self::Complex128 | Self::ComplexFloat16 | Self::ComplexNarrow(_) => self.size() / 2,
            Self::RawBytes(_)
            | Self::NullTerminated(_)
            | Self::Utf32(_)
            | Self::Struct(_)
            | Self::Optional(_)
            | Self::Utf8
            | Self::Binary
            | Self::List(_) => 1,
            _ => self.size(),
        }
    }

    /// The bytes of one element as decoded, of those of one as decoded or in the result.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if `fill` has another length, or the type does not hold the value.
    pub(crate) fn fill_bytes<'a>(&self, fill: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let size = self.size();
        let inexact = || {
            let got = format!("a fill that {} does not hold", self.zarr_name());
            Error::new(ErrorKind::Selection, got).expected("a value that it holds exactly")
        };
        let of_parts = |narrow: &dyn Fn(f32) -> Option<Vec<u8>>| {
            let parts = fill.as_chunks::<4>().0.iter().map(|part| narrow(f32::from_ne_bytes(*part)));
            Ok(Cow::Owned(parts.collect::<Option<Vec<_>>>().ok_or_else(inexact)?.concat()))
        };
        match self {
            Self::Int2 | Self::Int4 | Self::UInt2 | Self::UInt4 if fill.len() == 1 => {
                let (value, signed) = (fill[0], fill[0] as i8);
                let fits = match self {
                    Self::Int2 => (-2..2).contains(&signed),
                    Self::Int4 => (-8..8).contains(&signed),
                    Self::UInt2 => value < 4,
                    _ => value < 16,
                };
                if fits { Ok(Cow::Borrowed(fill)) } else { Err(inexact()) }
            }
            Self::Narrow(float) | Self::ComplexNarrow(float) if fill.len() == self.room() => {
                of_parts(&|value| float.exact(value))
            }
            // NumPy has complex numbers of single floats at least.
            Self::ComplexFloat16 if fill.len() == 8 => of_parts(&|value| {
                let half = Half::from_f32(value);
                let same = half.to_f32().to_bits() == value.to_bits() || value.is_nan();
                same.then(|| half.to_bits().to_ne_bytes().to_vec())
            }),
            Self::Optional(inner) if fill.len() != size => {
                let mut value = inner.fill_bytes(fill)?.into_owned();
                value.push(1);
                Ok(Cow::Owned(value))
            }
            _ if fill.is_empty() && self.width() == 0 => Ok(Cow::Owned(vec![0])),
            _ if fill.len() == size => Ok(Cow::Borrowed(fill)),
            _ => Err(Error::new(ErrorKind::Selection, format!("a fill of {} bytes", fill.len()))
                .expected(format!("{size} bytes, as an element has"))),
        }
    }

    /// The Arrow type of one element. Complex numbers are lists of two non-null floats: real, imaginary.
    ///
    /// Members of structs are not nullable here. In a result they are where there are nulls among them.
    #[must_use]
    pub fn arrow_type(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 | Self::Int4 | Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt2 | Self::UInt4 | Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float16 => DataType::Float16,
            Self::Float32 | Self::Narrow(_) => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::ComplexFloat16 => DataType::FixedSizeList(part(DataType::Float16), 2),
            Self::Complex64 | Self::ComplexNarrow(_) => DataType::FixedSizeList(part(DataType::Float32), 2),
            Self::Complex128 => DataType::FixedSizeList(part(DataType::Float64), 2),
            Self::Time(time) => time.arrow_type(),
            Self::Binary | Self::RawBytes(0) | Self::NullTerminated(_) => DataType::LargeBinary,
            // Longer ones are refused when the array is opened.
            Self::RawBytes(len) => DataType::FixedSizeBinary(i32::try_from(*len).unwrap_or(i32::MAX)),
            Self::Utf8 | Self::Utf32(_) => DataType::LargeUtf8,
            Self::Struct(fields) => DataType::Struct(fields.arrow_fields()),
            Self::Optional(inner) => inner.arrow_type(),
            Self::List(item) => DataType::LargeList(part(item.arrow_type())),
        }
    }

    /// Wraps `len` elements, of [`size`](Self::size) bytes each in native byte order, without copying them (a bool
    /// is packed to a bit). Only for types that lie in Arrow as they are stored.
    pub(super) fn wrap(&self, bytes: Buffer, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(match self {
            Self::Bool => Arc::new(BooleanArray::new(BooleanBuffer::new(pack_bits(&bytes), 0, len), nulls)),
            Self::Int2 | Self::Int4 | Self::Int8 => primitive::<Int8Type>(bytes, len, nulls),
            Self::Int16 => primitive::<Int16Type>(bytes, len, nulls),
            Self::Int32 => primitive::<Int32Type>(bytes, len, nulls),
            Self::Int64 => primitive::<Int64Type>(bytes, len, nulls),
            Self::UInt2 | Self::UInt4 | Self::UInt8 => primitive::<UInt8Type>(bytes, len, nulls),
            Self::UInt16 => primitive::<UInt16Type>(bytes, len, nulls),
            Self::UInt32 => primitive::<UInt32Type>(bytes, len, nulls),
            Self::UInt64 => primitive::<UInt64Type>(bytes, len, nulls),
            Self::Float16 => primitive::<Float16Type>(bytes, len, nulls),
            Self::Float32 | Self::Narrow(_) => primitive::<Float32Type>(bytes, len, nulls),
            Self::Float64 => primitive::<Float64Type>(bytes, len, nulls),
            Self::ComplexFloat16 => pairs(DataType::Float16, primitive::<Float16Type>(bytes, len * 2, None), nulls)?,
            Self::Complex64 | Self::ComplexNarrow(_) => {
                pairs(DataType::Float32, primitive::<Float32Type>(bytes, len * 2, None), nulls)?
            }
            Self::Complex128 => pairs(DataType::Float64, primitive::<Float64Type>(bytes, len * 2, None), nulls)?,
            Self::Time(time) => time.wrap(bytes, len, nulls),
            Self::RawBytes(width @ 1..) => {
                let width = i32::try_from(*width).map_err(|source| invalid().source(source))?;
                Arc::new(FixedSizeBinaryArray::try_new(width, bytes, nulls).map_err(|source| invalid().source(source))?)
            }
            Self::RawBytes(0) | Self::NullTerminated(_) | Self::Utf32(_) | Self::Struct(_) | Self::Optional(_) => {
                return Err(invalid());
            }
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

/// What must not happen.
pub(super) fn invalid() -> Error {
    Error::new(ErrorKind::Internal, "the result is no valid Arrow array")
}

fn pairs(float: DataType, parts: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let array = FixedSizeListArray::try_new(part(float), 2, parts, nulls).map_err(|source| invalid().source(source))?;
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
