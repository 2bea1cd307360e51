//! From elements as they were scattered to arrays of Arrow, once all are there.
//!
//! * [`narrow`]: floats widened in their place.
//! * [`times`]: counts of time in the units of Arrow.
//! * [`text`]: padded bytes and strings.
//! * [`members`]: structs, and optional values.

mod members;
mod narrow;
mod text;
mod times;

use arrow_array::ArrayRef;
use rayon::prelude::*;

use super::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Output;
use crate::read::Validity;

/// So many elements are converted in one go.
const AT_ONCE: usize = 1 << 16;

/// The rows that values belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The element at which each row starts.
    starts: &'a [i64],
    /// So many values are one element.
    per_element: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(starts: &'a [i64]) -> Self {
        Self { starts, per_element: 1 }
    }

    /// The rows of values of which each element has `count`, where it had one before.
    fn repeated(self, count: usize) -> Self {
        Self { per_element: self.per_element * count, ..self }
    }

    /// The row of a value.
    pub(crate) fn of(self, value: usize) -> usize {
        let element = value / self.per_element;
        self.starts.partition_point(|&start| start as usize <= element).saturating_sub(1)
    }
}

impl ElementType {
    /// Whether elements lie in Arrow as they were scattered, but for bools.
    pub(crate) fn is_as_scattered(&self) -> bool {
        !matches!(
            self,
            Self::Int2
                | Self::Int4
                | Self::UInt2
                | Self::UInt4
                | Self::Narrow(_)
                | Self::ComplexNarrow(_)
                | Self::Time(_)
                | Self::RawBytes(0)
                | Self::NullTerminated(_)
                | Self::Utf32(_)
                | Self::Struct(_)
                | Self::Optional(_)
        )
    }
}

/// A buffer for `len` elements, and how many of its bytes stand before those that are scattered.
///
/// # Errors
/// [`ErrorKind::Allocation`] if there is no room for them.
pub(crate) fn room(element: &ElementType, len: usize) -> Result<(Output, usize)> {
    let bytes = len.checked_mul(element.room()).filter(|&bytes| isize::try_from(bytes).is_ok());
    let bytes = bytes.ok_or_else(too_large)?;
    Ok((Output::new(bytes)?, bytes - len * element.size()))
}

pub(crate) fn too_large() -> Error {
    Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 bytes")
        .remedy("Read fewer or smaller selections at a time.")
}

/// Makes an array of `len` elements that were scattered into a buffer of [`room`].
///
/// # Errors
/// [`ErrorKind::Unsupported`], naming the selection, for a value that Arrow cannot express; [`ErrorKind::Allocation`]
/// if there is no memory for a copy.
pub(crate) fn build(
    element: &ElementType,
    mut values: Output,
    len: usize,
    validity: Validity,
    rows: Rows<'_>,
) -> Result<ArrayRef> {
    match element {
        ElementType::Int2 => extend(values.as_mut_slice(), |byte| ((byte << 6) as i8 >> 6) as u8),
        ElementType::Int4 => extend(values.as_mut_slice(), |byte| ((byte << 4) as i8 >> 4) as u8),
        ElementType::UInt2 => extend(values.as_mut_slice(), |byte| byte & 0x03),
        ElementType::UInt4 => extend(values.as_mut_slice(), |byte| byte & 0x0f),
        ElementType::Narrow(float) | ElementType::ComplexNarrow(float) => {
            narrow::widen(*float, values.as_mut_slice());
        }
        ElementType::Time(time) => times::convert(*time, values.as_mut_slice(), rows, &validity)?,
        ElementType::RawBytes(0) | ElementType::NullTerminated(_) | ElementType::Utf32(_) => {
            return text::strings(element, values.as_mut_slice(), len, validity, rows);
        }
        ElementType::Struct(structure) => {
            return members::structs(structure, values.as_mut_slice(), len, validity, rows);
        }
        ElementType::Optional(inner) => {
            return members::optional(inner, values.as_mut_slice(), len, validity, rows);
        }
        _ => {}
    }
    element.wrap(values.into_buffer(), len, validity.into_nulls())
}

/// Widens integers of less than a byte to that byte.
fn extend(values: &mut [u8], widen: impl Fn(u8) -> u8 + Sync) {
    values.par_chunks_mut(AT_ONCE).for_each(|bytes| bytes.iter_mut().for_each(|byte| *byte = widen(*byte)));
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int8Type, UInt8Type};

    use super::*;

    #[test]
    fn integers_of_less_than_a_byte_ignore_the_other_bits() {
        let signed =
            |bits: i32, code: i32| code % (1 << bits) - if code >> (bits - 1) & 1 == 1 { 1 << bits } else { 0 };
        for code in 0..256 {
            let built = |element: ElementType| {
                let (mut output, start) = room(&element, 1).unwrap();
                output.as_mut_slice()[start] = code as u8;
                build(&element, output, 1, Validity::new(1), Rows::new(&[0, 1])).unwrap()
            };
            for (element, bits) in [(ElementType::Int2, 2), (ElementType::Int4, 4)] {
                assert_eq!(i32::from(built(element).as_primitive::<Int8Type>().value(0)), signed(bits, code));
            }
            for (element, bits) in [(ElementType::UInt2, 2), (ElementType::UInt4, 4)] {
                assert_eq!(i32::from(built(element).as_primitive::<UInt8Type>().value(0)), code % (1 << bits));
            }
        }
    }

    #[test]
    fn values_belong_to_the_rows_of_their_elements() {
        assert_eq!(Rows::new(&[0, 2, 2, 5]).repeated(3).of(8), 2);
        assert_eq!(Rows::new(&[0, 2, 2, 5]).of(1), 0);
    }
}
