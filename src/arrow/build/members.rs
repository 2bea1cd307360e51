//! Elements of several parts: structs, taken apart into a column for each member, and optional values.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, StructArray};
use arrow_schema::DataType;
use rayon::prelude::*;

use super::{AT_ONCE, Rows, build, room};
use crate::arrow::element::invalid;
use crate::arrow::{ElementType, Member, StructType};
use crate::error::Result;
use crate::read::Validity;

/// The array of `len` structs that lie one after the other.
///
/// Members of structs that are null are zero: whatever lies there needs no meaning.
pub(super) fn structs(
    structure: &StructType,
    values: &mut [u8],
    len: usize,
    validity: Validity,
    rows: Rows<'_>,
) -> Result<ArrayRef> {
    if validity.has_marks() && structure.width() > 0 {
        values.par_chunks_mut(AT_ONCE * structure.width()).enumerate().for_each(|(part, values)| {
            for (at, value) in values.chunks_exact_mut(structure.width()).enumerate() {
                if validity.is_null(part * AT_ONCE + at) {
                    value.fill(0);
                }
            }
        });
    }
    let values = &*values;
    let mut fields = Vec::with_capacity(structure.members().len());
    let mut columns = Vec::with_capacity(structure.members().len());
    for member in structure.members() {
        let count = member.count();
        let values = part(member.element_type(), values, structure.width(), member.bytes(), len * count)?;
        let column =
            build(member.element_type(), values, len * count, Validity::new(len * count), rows.repeated(count))?;
        let field = member.field(column.data_type().clone(), column.nulls().is_some());
        columns.push(lists(member, field.data_type(), column)?);
        fields.push(field);
    }
    let array = StructArray::try_new_with_length(fields.into(), columns, validity.into_nulls(), len);
    Ok(Arc::new(array.map_err(|source| invalid().source(source))?))
}

/// Puts a list around the values of a member for each of its axes.
fn lists(member: &Member, data_type: &DataType, values: ArrayRef) -> Result<ArrayRef> {
    let mut levels = Vec::with_capacity(member.shape().len());
    let mut level = data_type;
    for _ in member.shape() {
        let DataType::FixedSizeList(item, len) = level else { return Err(invalid()) };
        levels.push((item, *len));
        level = item.data_type();
    }
    levels.into_iter().rev().try_fold(values, |values, (item, len)| {
        let list = FixedSizeListArray::try_new(item.clone(), len, values, None);
        Ok(Arc::new(list.map_err(|source| invalid().source(source))?) as ArrayRef)
    })
}

/// The array of `len` values, each with a byte behind it that is zero where there is none: then they are zero as well.
pub(super) fn optional(
    inner: &ElementType,
    values: &mut [u8],
    len: usize,
    validity: Validity,
    rows: Rows<'_>,
) -> Result<ArrayRef> {
    let width = inner.width();
    let stride = width + 1;
    values.par_chunks_mut(AT_ONCE * stride).enumerate().for_each(|(part, values)| {
        for (at, value) in values.chunks_exact_mut(stride).enumerate() {
            if value[width] == 0 {
                value.fill(0);
                let element = part * AT_ONCE + at;
                validity.clear(element..element + 1);
            }
        }
    });
    build(inner, part(inner, values, stride, 0..width, len)?, len, validity, rows)
}

/// Copies some bytes of each of the items in `values`, of `stride` bytes each: `len` elements in all.
fn part(
    element: &ElementType,
    values: &[u8],
    stride: usize,
    bytes: Range<usize>,
    len: usize,
) -> Result<crate::memory::Output> {
    let (mut output, start) = room(element, len)?;
    let target = &mut output.as_mut_slice()[start..];
    match bytes.len() {
        0 => target.fill(0),
        1 => gather::<1>(values, stride, bytes.start, target),
        2 => gather::<2>(values, stride, bytes.start, target),
        4 => gather::<4>(values, stride, bytes.start, target),
        8 => gather::<8>(values, stride, bytes.start, target),
        width => {
            let targets = target.par_chunks_mut(AT_ONCE * width);
            targets.zip(values.par_chunks(AT_ONCE * stride)).for_each(|(targets, items)| {
                for (target, item) in targets.chunks_exact_mut(width).zip(items.chunks_exact(stride)) {
                    target.copy_from_slice(&item[bytes.clone()]);
                }
            });
        }
    }
    Ok(output)
}

/// Copies `N` bytes from `at` on of each item.
fn gather<const N: usize>(values: &[u8], stride: usize, at: usize, target: &mut [u8]) {
    let targets = target.as_chunks_mut::<N>().0.par_chunks_mut(AT_ONCE);
    targets.zip(values.par_chunks(AT_ONCE * stride)).for_each(|(targets, items)| {
        for (target, item) in targets.iter_mut().zip(items.chunks_exact(stride)) {
            target.copy_from_slice(&item[at..at + N]);
        }
    });
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int8Type, Int16Type, TimestampSecondType};

    use super::*;
    use crate::arrow::{NOT_A_TIME, Time, Unit};
    use crate::memory::Output;

    fn output(bytes: &[u8]) -> Output {
        let mut output = Output::new(bytes.len()).unwrap();
        output.as_mut_slice().copy_from_slice(bytes);
        output
    }

    #[test]
    fn structs_become_columns() {
        let time = ElementType::Time(Time { is_span: false, unit: Unit::Second, scale: 1 });
        let structure = StructType::new([
            ("m".to_owned(), ElementType::Int16, vec![2, 3]),
            ("t".to_owned(), time, vec![]),
            ("s".to_owned(), ElementType::NullTerminated(3), vec![]),
        ])
        .unwrap();
        let mut bytes = Vec::new();
        for (row, (count, text)) in [(5, b"ab\0"), (NOT_A_TIME, b"\0\0\0"), (-1, b"xyz")].into_iter().enumerate() {
            bytes.extend((0..6).flat_map(|at| (row as i16 * 10 + at).to_ne_bytes()));
            bytes.extend(i64::to_ne_bytes(count));
            bytes.extend(text);
        }
        let element = ElementType::Struct(Arc::new(structure));
        let validity = Validity::new(3);
        validity.clear(2..3);
        let array = build(&element, output(&bytes), 3, validity, Rows::new(&[0, 3])).unwrap();
        let array = array.as_struct();
        assert_eq!((array.is_null(1), array.is_null(2)), (false, true));
        let outer = array.column(0).as_fixed_size_list();
        let inner = outer.value(1);
        assert_eq!((outer.len(), inner.len()), (3, 2));
        let numbers = inner.as_fixed_size_list().value(1);
        assert_eq!(numbers.as_primitive::<Int16Type>().values(), &[13, 14, 15]);
        let times = array.column(1).as_primitive::<TimestampSecondType>();
        assert_eq!((times.is_null(1), times.value(0)), (true, 5));
        let texts = array.column(2).as_binary::<i64>();
        assert_eq!((texts.value(0), texts.value(2)), (&b"ab"[..], &b""[..]));
        let nullable: Vec<_> = array.fields().iter().map(|field| field.is_nullable()).collect();
        assert_eq!(nullable, [false, true, false]);
    }

    /// Neither times that Arrow cannot express nor what is no text is in the way where it is null.
    #[test]
    fn what_lies_behind_nulls_needs_no_meaning() {
        let years = ElementType::Time(Time { is_span: false, unit: Unit::Year, scale: 1 });
        let members = [("t".to_owned(), years, vec![]), ("u".to_owned(), ElementType::Utf32(1), vec![])];
        let element = ElementType::Struct(Arc::new(StructType::new(members).unwrap()));
        let junk = [i64::MAX.to_ne_bytes().to_vec(), u32::MAX.to_ne_bytes().to_vec()].concat();
        let value = [1_i64.to_ne_bytes().to_vec(), u32::from('x').to_ne_bytes().to_vec()].concat();
        let bytes = [&value[..], &junk, &value].concat();
        let rows = Rows::new(&[0, 1, 3]);
        let validity = Validity::new(3);
        validity.clear(1..2);
        let array = build(&element, output(&bytes), 3, validity, rows).unwrap();
        assert_eq!((array.null_count(), array.as_struct().column(1).as_string::<i64>().value(2)), (1, "x"));
        let error = build(&element, output(&bytes), 3, Validity::new(3), rows).unwrap_err();
        assert!(error.to_string().contains("selection 1"), "{error}");
        let marked = [&value[..], &[1], &junk, &[0], &value, &[1]].concat();
        let optional = ElementType::Optional(Arc::new(element));
        let array = build(&optional, output(&marked), 3, Validity::new(3), rows).unwrap();
        assert!(array.is_null(1) && array.is_valid(2));
        let text = ElementType::Optional(Arc::new(ElementType::Utf32(1)));
        let marked = [&u32::MAX.to_ne_bytes()[..], &[0], &u32::from('y').to_ne_bytes(), &[1]].concat();
        let array = build(&text, output(&marked), 2, Validity::new(2), Rows::new(&[0, 2])).unwrap();
        assert!(array.as_string::<i64>().iter().eq([None, Some("y")]));
    }

    #[test]
    fn optional_values_become_nulls() {
        let element = ElementType::Optional(Arc::new(ElementType::Int8));
        let array = build(&element, output(&[7, 1, 0, 0, 9, 2]), 3, Validity::new(3), Rows::new(&[0, 3])).unwrap();
        assert!(array.as_primitive::<Int8Type>().iter().eq([Some(7), None, Some(9)]));
    }
}
