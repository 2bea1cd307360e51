//! Bytes and strings of fixed length, padded with zeros: each cut after what is not padding, one after the other.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use rayon::prelude::*;

use super::{AT_ONCE, Rows};
use crate::arrow::ElementType;
use crate::arrow::element::invalid;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Output;
use crate::read::Validity;

/// The array of `len` padded values.
///
/// # Errors
/// [`ErrorKind::Unsupported`], naming the selection, for a string that holds what is no Unicode code point.
pub(super) fn strings(
    element: &ElementType,
    values: &[u8],
    len: usize,
    validity: Validity,
    rows: Rows<'_>,
) -> Result<ArrayRef> {
    let nulls = validity.into_nulls();
    if matches!(element, ElementType::Utf32(_)) {
        let measure = |value: &[u8]| utf8_len(value);
        let (offsets, data) = cut(values, len, element.width(), rows, measure, write_utf8)?;
        let array = LargeStringArray::try_new(offsets, data, nulls).map_err(|source| invalid().source(source))?;
        return Ok(Arc::new(array));
    }
    let measure = |value: &[u8]| Ok(unpadded_len(value));
    let write = |value: &[u8], target: &mut [u8]| target.copy_from_slice(&value[..target.len()]);
    let (offsets, data) = cut(values, len, element.width(), rows, measure, write)?;
    let array = LargeBinaryArray::try_new(offsets, data, nulls).map_err(|source| invalid().source(source))?;
    Ok(Arc::new(array))
}

/// Offsets and data of `len` values of `width` bytes, each of the length that `measure` gives. `measure` fails with
/// what is no code point.
fn cut(
    values: &[u8],
    len: usize,
    width: usize,
    rows: Rows<'_>,
    measure: impl Fn(&[u8]) -> Result<usize, u32> + Sync,
    write: impl Fn(&[u8], &mut [u8]) + Sync,
) -> Result<(OffsetBuffer<i64>, Buffer)> {
    let too_many = || Error::new(ErrorKind::Allocation, "too many strings").remedy("Read fewer at a time.");
    let mut offsets = Output::new(len.checked_add(1).and_then(|len| len.checked_mul(8)).ok_or_else(too_many)?)?;
    let slots = offsets.as_mut_slice().as_chunks_mut::<8>().0;
    if width == 0 {
        slots.fill([0; 8]);
        return Ok((into_offsets(offsets, len), Buffer::from(Vec::<u8>::new())));
    }
    let (first, ends) = slots.split_at_mut(1);
    first.fill([0; 8]);
    let parts = ends.par_chunks_mut(AT_ONCE).zip(values.par_chunks(AT_ONCE * width)).enumerate();
    parts.try_for_each(|(part, (ends, values))| {
        for (at, (end, value)) in ends.iter_mut().zip(values.chunks_exact(width)).enumerate() {
            let len = measure(value).map_err(|code| {
                let got = format!("a string with the code point {code:#x}");
                Error::new(ErrorKind::Unsupported, got)
                    .at_selection(rows.of(part * AT_ONCE + at))
                    .expected("Unicode code points: at most 0x10ffff, and none from 0xd800 to 0xdfff")
                    .remedy("The string is damaged, or is in another byte order than its metadata says.")
            })?;
            *end = (len as i64).to_ne_bytes();
        }
        Ok::<_, Error>(())
    })?;
    // No more than all values have bytes.
    let mut total = 0;
    for end in ends.iter_mut() {
        total += i64::from_ne_bytes(*end);
        *end = total.to_ne_bytes();
    }
    let mut data = Output::new(total as usize)?;
    let mut left = data.as_mut_slice();
    let mut at = 0;
    let mut parts = Vec::with_capacity(ends.len().div_ceil(AT_ONCE));
    for (ends, values) in ends.chunks(AT_ONCE).zip(values.chunks(AT_ONCE * width)) {
        let end = ends.last().map_or(at, |end| i64::from_ne_bytes(*end));
        let (target, rest) = left.split_at_mut((end - at) as usize);
        parts.push((at, ends, values, target));
        (left, at) = (rest, end);
    }
    parts.into_par_iter().for_each(|(start, ends, values, mut target)| {
        let mut at = start;
        for (end, value) in ends.iter().zip(values.chunks_exact(width)) {
            let end = i64::from_ne_bytes(*end);
            let (place, rest) = target.split_at_mut((end - at) as usize);
            write(value, place);
            (target, at) = (rest, end);
        }
    });
    Ok((into_offsets(offsets, len), data.into_buffer()))
}

fn into_offsets(offsets: Output, len: usize) -> OffsetBuffer<i64> {
    OffsetBuffer::new(ScalarBuffer::new(offsets.into_buffer(), 0, len + 1))
}

/// The length of a value without the zeros at its end.
fn unpadded_len(value: &[u8]) -> usize {
    value.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

fn code_points(value: &[u8]) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator {
    value.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The length of a string in UTF-8; what is no code point is an error.
fn utf8_len(value: &[u8]) -> Result<usize, u32> {
    let used = code_points(value).rposition(|code| code != 0).map_or(0, |last| last + 1);
    let len = |code| char::from_u32(code).map(char::len_utf8).ok_or(code);
    code_points(value).take(used).try_fold(0, |bytes, code| Ok(bytes + len(code)?))
}

/// Writes a string whose length in UTF-8 is that of `target`.
fn write_utf8(value: &[u8], mut target: &mut [u8]) {
    for code in code_points(value) {
        let Some(char) = char::from_u32(code).filter(|char| char.len_utf8() <= target.len()) else { return };
        let written = char.encode_utf8(target).len();
        target = &mut target[written..];
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    fn utf32(text: &str, width: usize) -> Vec<u8> {
        let mut codes: Vec<u32> = text.chars().map(u32::from).collect();
        codes.resize(width, 0);
        codes.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn strings_end_before_their_padding() {
        let texts = ["", "a", "zé\u{20ac}", "\u{1f600}\0x", "\0\0\0y", "abcd"];
        let many: Vec<&str> = texts.iter().copied().cycle().take(2 * AT_ONCE + 5).collect();
        let values: Vec<u8> = many.iter().flat_map(|text| utf32(text, 4)).collect();
        let rows = Rows::new(&[0]);
        let array = strings(&ElementType::Utf32(4), &values, many.len(), Validity::new(many.len()), rows).unwrap();
        assert!(array.as_string::<i64>().iter().eq(many.iter().map(|text| Some(text.trim_end_matches('\0')))));
    }

    #[test]
    fn bytes_end_before_their_padding() {
        let values = b"abc\0b\0\0\0\0\0\0\0\0\0c\0a\0\0d";
        let rows = Rows::new(&[0]);
        let array = strings(&ElementType::NullTerminated(4), values, 5, Validity::new(5), rows).unwrap();
        let expected: [&[u8]; 5] = [b"abc", b"b", b"", b"\0\0c", b"a\0\0d"];
        assert!(array.as_binary::<i64>().iter().eq(expected.map(Some)));
    }

    #[test]
    fn what_is_no_code_point_names_its_row() {
        for code in [0xd800_u32, 0xdfff, 0x11_0000, u32::MAX] {
            let mut values = vec![0; 8];
            values.extend(code.to_ne_bytes());
            let rows = Rows::new(&[0, 1, 1, 3]);
            let error = strings(&ElementType::Utf32(1), &values, 3, Validity::new(3), rows).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("selection 2: a string with the code point {code:#x}")));
        }
    }

    #[test]
    fn values_without_bytes() {
        for element in [ElementType::NullTerminated(0), ElementType::RawBytes(0), ElementType::Utf32(0)] {
            let array = strings(&element, &[0; 3], 3, Validity::new(3), Rows::new(&[0])).unwrap();
            assert_eq!((array.len(), array.data_type()), (3, &element.arrow_type()));
        }
    }
}
