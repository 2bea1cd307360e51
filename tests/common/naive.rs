//! The naive answers: element by element, with no idea of chunks.

use std::collections::BTreeSet;

use arrow::array::{Array as _, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field};
use zarrow::{ElementType, Item, Ragged};

/// An array in memory, in C order, as it lies in its chunks: it reaches beyond the edge of the Zarr array, up to the
/// end of the last chunks.
#[derive(Debug, Clone)]
pub(crate) struct Padded {
    pub(crate) shape: Vec<u64>,
    pub(crate) item: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Padded {
    pub(crate) fn element(&self, at: &[u64]) -> &[u8] {
        let flat = at.iter().zip(&self.shape).fold(0, |flat, (at, len)| flat * len + at) as usize;
        &self.bytes[flat * self.item..(flat + 1) * self.item]
    }
}

/// One axis of one selection: `start..stop`, and whether the result keeps the axis.
pub(crate) type Span = (u64, u64, bool);

/// What a read must give.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) offsets: Vec<Vec<i64>>,
    pub(crate) row_starts: Vec<i64>,
    pub(crate) values: Vec<u8>,
}

/// All coordinates below `shape`, in C order.
pub(crate) fn coordinates(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    for_each(shape, |at| all.push(at.to_vec()));
    all
}

/// Calls `visit` with all coordinates below `shape`, in C order.
pub(crate) fn for_each(shape: &[u64], mut visit: impl FnMut(&[u64])) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    loop {
        visit(&at);
        let Some(axis) = (0..at.len()).rev().find(|&axis| at[axis] + 1 < shape[axis]) else { return };
        at[axis] += 1;
        at[axis + 1..].fill(0);
    }
}

/// Number of chunks along each axis.
pub(crate) fn grid(shape: &[u64], chunk: &[u64]) -> Vec<u64> {
    shape.iter().zip(chunk).map(|(len, chunk)| len.div_ceil(*chunk)).collect()
}

/// `NumPy`'s meaning of a selection, in arithmetic that cannot overflow.
pub(crate) fn resolve(items: &[Item], shape: &[u64]) -> Vec<Span> {
    let named = items.iter().filter(|item| **item != Item::Ellipsis).count();
    let mut items = items.to_vec();
    if !items.contains(&Item::Ellipsis) {
        items.push(Item::Ellipsis);
    }
    let mut spans: Vec<Span> = Vec::new();
    for item in items {
        let whole = |axis: usize| (0, shape[axis], true);
        match item.clone() {
            Item::Ellipsis => spans.extend((spans.len()..spans.len() + shape.len() - named).map(whole)),
            Item::Index(index) => {
                let len = i128::from(shape[spans.len()]);
                let at = if index < 0 { i128::from(index) + len } else { i128::from(index) };
                assert!((0..len).contains(&at), "the tests ask for valid indices only");
                spans.push((at as u64, at as u64 + 1, false));
            }
            Item::Slice { start, stop, step: 1 } => {
                let len = i128::from(shape[spans.len()]);
                let bound = |bound: i64| (i128::from(bound) + if bound < 0 { len } else { 0 }).clamp(0, len);
                let (start, stop) = (start.map_or(0, bound), stop.map_or(len, bound));
                spans.push((start as u64, stop.max(start) as u64, true));
            }
            other => panic!("{other:?} has no naive meaning here"),
        }
    }
    spans
}

/// Gathers `rows` element by element. `levels` counts the kept axes, for when there is no row that tells.
pub(crate) fn gather(array: &Padded, rows: &[Vec<Span>], levels: usize) -> Expected {
    let mut expected = Expected { offsets: vec![vec![0]; levels], row_starts: vec![0], values: Vec::new() };
    for row in rows {
        let kept: Vec<u64> = row.iter().filter(|(_, _, kept)| *kept).map(|(start, stop, _)| stop - start).collect();
        assert_eq!(kept.len(), levels);
        push_lists(&kept, &mut expected.offsets);
        push_elements(array, row, 0, &mut expected.values);
        expected.row_starts.push((expected.values.len() / array.item) as i64);
    }
    expected
}

/// Appends the elements of one row; `flat` is the position along the axes that `spans` no longer has.
fn push_elements(array: &Padded, spans: &[Span], flat: u64, values: &mut Vec<u8>) {
    let axis = array.shape.len() - spans.len();
    match spans {
        [] => values.extend_from_slice(&array.bytes[flat as usize * array.item..][..array.item]),
        [(start, stop, _), inner @ ..] => {
            (*start..*stop).for_each(|at| push_elements(array, inner, flat * array.shape[axis] + at, values));
        }
    }
}

/// Appends the lists of one row, outermost first: a list of `extents[0]` lists of `extents[1]` lists …
pub(crate) fn push_lists(extents: &[u64], offsets: &mut [Vec<i64>]) {
    if let ([extent, inner_extents @ ..], [level, inner_levels @ ..]) = (extents, offsets) {
        level.push(level.last().expect("the first offset") + *extent as i64);
        for _ in 0..*extent {
            push_lists(inner_extents, inner_levels);
        }
    }
}

/// The pairs of a row and a chunk of which the row takes an element.
pub(crate) fn pieces(rows: &[Vec<Span>], chunk: &[u64]) -> BTreeSet<(usize, Vec<u64>)> {
    let mut pieces = BTreeSet::new();
    for (row, spans) in rows.iter().enumerate() {
        let extents: Vec<u64> = spans.iter().map(|(start, stop, _)| stop - start).collect();
        for at in coordinates(&extents) {
            let index = at.iter().zip(spans).zip(chunk).map(|((at, (start, _, _)), chunk)| (start + at) / chunk);
            pieces.insert((row, index.collect()));
        }
    }
    pieces
}

/// The bytes of a flat array's values in native byte order; a bool is one byte.
pub(crate) fn value_bytes(values: &ArrayRef) -> Vec<u8> {
    match values.data_type() {
        DataType::Boolean => values.as_boolean().values().iter().map(u8::from).collect(),
        DataType::FixedSizeList(_, 2) => value_bytes(values.as_fixed_size_list().values()),
        other => {
            let width = other.primitive_width().unwrap_or_else(|| panic!("{other} is not primitive"));
            let data = values.to_data();
            assert_eq!(data.offset(), 0);
            let bytes = data.buffers()[0].as_slice();
            assert_eq!(bytes.len(), values.len() * width, "the buffer holds the values and nothing more");
            bytes.to_vec()
        }
    }
}

/// Compares a result with the naive one: values bit for bit, offsets, types, names, nullability.
#[track_caller]
pub(crate) fn check(ragged: Ragged, element: ElementType, expected: &Expected) {
    assert_eq!(ragged.len() + 1, expected.row_starts.len());
    assert_eq!(ragged.is_empty(), expected.row_starts.len() == 1);
    assert_eq!(ragged.row_starts(), expected.row_starts);
    let offsets: Vec<&[i64]> = ragged.offsets().iter().map(|offsets| &offsets[..]).collect();
    assert_eq!(offsets, expected.offsets);
    assert_eq!(ragged.values().data_type(), &element.arrow_type());
    assert_eq!(value_bytes(ragged.values()), expected.values);
    if element != ElementType::Bool {
        let data = ragged.values().to_data();
        let data = data.child_data().first().unwrap_or(&data);
        assert_eq!(data.buffers()[0].as_ptr().align_offset(64), 0, "the values are aligned to 64 bytes");
    }
    let data_type = ragged.data_type();
    let field = ragged.field("column");
    assert_eq!((field.name().as_str(), field.data_type(), field.is_nullable()), ("column", &data_type, false));
    assert_eq!(field.metadata()["zarr:dtype"], element.zarr_name());
    assert_eq!(ragged.stats().rows, expected.row_starts.len() - 1);
    assert_eq!(ragged.stats().bytes_out, expected.values.len() as u64);

    let mut array = ragged.into_array();
    assert_eq!(array.data_type(), &data_type);
    array.to_data().validate_full().expect("valid Arrow");
    for (level, offsets) in expected.offsets.iter().enumerate() {
        assert_bare(&array);
        let lists = array.as_list::<i64>();
        assert_eq!(&lists.offsets()[..], &offsets[..]);
        let DataType::LargeList(item) = array.data_type() else { panic!("{} is no large list", array.data_type()) };
        assert_item(item, level + 1 == expected.offsets.len(), element.clone());
        array = lists.values().clone();
    }
    assert_bare(&array);
    assert_eq!(array.data_type(), &element.arrow_type());
    if let Some(pairs) = array.as_fixed_size_list_opt() {
        assert_bare(pairs.values());
    }
    assert_eq!(value_bytes(&array), expected.values);
}

#[track_caller]
fn assert_bare(array: &ArrayRef) {
    assert!(array.nulls().is_none() && array.null_count() == 0, "no validity bitmap");
    assert_eq!(array.offset(), 0);
}

#[track_caller]
fn assert_item(item: &Field, innermost: bool, element: ElementType) {
    assert_eq!((item.name().as_str(), item.is_nullable()), ("item", false));
    let dtype = item.metadata().get("zarr:dtype").map(String::as_str);
    assert_eq!(dtype, innermost.then_some(element.zarr_name()));
}
