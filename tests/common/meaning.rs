//! What any selection means, element by element: `NumPy`'s rules, in arithmetic that cannot overflow.

use arrow::array::{Array as _, AsArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use zarrow::{ElementType, Indices, Item, Mask, OutOfBounds, Points, Ragged};

use super::naive;

/// One item of a selection, open to view.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ask {
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
    /// Values in C order, and their shape.
    Indices(Vec<i64>, Vec<usize>),
    Mask(Vec<bool>, Vec<usize>),
    /// Coordinates along each axis, and their shape.
    Points(Vec<Vec<i64>>, Vec<usize>),
    NewAxis,
    Ellipsis,
}

impl Ask {
    /// Number of axes of the array; an Ellipsis names none.
    pub(crate) fn axes(&self) -> usize {
        match self {
            Self::Index(_) | Self::Slice(..) | Self::Indices(..) => 1,
            Self::Mask(_, shape) => shape.len(),
            Self::Points(coordinates, _) => coordinates.len(),
            Self::NewAxis | Self::Ellipsis => 0,
        }
    }

    pub(crate) fn item(&self) -> Item {
        match self.clone() {
            Self::Index(index) => index.into(),
            Self::Slice(start, stop, step) => Item::Slice { start, stop, step },
            Self::Indices(values, shape) => Indices::try_new(values, shape).expect("indices").into(),
            Self::Mask(bits, shape) => Mask::try_new(BooleanBuffer::from(bits), shape).expect("a mask").into(),
            Self::Points(coordinates, shape) => {
                Points::try_new(coordinates.into_iter().map(Into::into).collect(), shape).expect("points").into()
            }
            Self::NewAxis => Item::NewAxis,
            Self::Ellipsis => Item::Ellipsis,
        }
    }
}

/// One row: its shape, and the element of the array at each of its places in C order; `None` beyond the array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) extents: Vec<u64>,
    pub(crate) cells: Vec<Option<Vec<u64>>>,
}

/// Neighbouring axes of a row, with the coordinates that each of their places has along some axes of the array.
#[derive(Debug, Clone)]
struct Part {
    shape: Vec<u64>,
    axes: Vec<usize>,
    /// One list for each of `axes`.
    coordinates: Vec<Vec<u64>>,
    /// An integer, an index array or a mask.
    advanced: bool,
}

/// The meaning of items that are valid for `shape`.
pub(crate) fn of_items(items: &[Ask], shape: &[u64], pointwise: bool) -> Row {
    let named: usize = items.iter().map(Ask::axes).sum();
    let mut items = items.to_vec();
    if !items.contains(&Ask::Ellipsis) {
        items.push(Ask::Ellipsis);
    }
    let (mut parts, mut axis) = (Vec::new(), 0);
    for item in &items {
        if *item == Ask::Ellipsis {
            // It separates what stands on either side of it, even where it stands for no axis.
            parts.push(Part { shape: vec![], axes: vec![], coordinates: vec![], advanced: false });
            for _ in named..shape.len() {
                parts.push(part(&Ask::Slice(None, None, 1), axis, shape));
                axis += 1;
            }
        } else {
            parts.push(part(item, axis, shape));
            axis += item.axes();
        }
    }
    if pointwise && parts.iter().any(|part| part.advanced && !part.shape.is_empty()) {
        parts = join(parts);
    }
    let places: Vec<u64> = parts.iter().map(|part| part.shape.iter().product()).collect();
    let mut cells = Vec::new();
    naive::for_each(&places, |at| {
        let mut cell = vec![0; shape.len()];
        for (part, &place) in parts.iter().zip(at) {
            for (&axis, coordinates) in part.axes.iter().zip(&part.coordinates) {
                cell[axis] = coordinates[place as usize];
            }
        }
        cells.push(Some(cell));
    });
    Row { extents: parts.iter().flat_map(|part| part.shape.clone()).collect(), cells }
}

fn part(item: &Ask, axis: usize, shape: &[u64]) -> Part {
    let wrapped = |axis: usize, values: &[i64]| -> Vec<u64> {
        let len = i128::from(shape[axis]);
        let wrap = |&value: &i64| i128::from(value) + if value < 0 { len } else { 0 };
        let values: Vec<i128> = values.iter().map(wrap).collect();
        assert!(values.iter().all(|at| (0..len).contains(at)), "the tests ask for valid indices only");
        values.into_iter().map(|at| at as u64).collect()
    };
    let lengths = |shape: &[usize]| shape.iter().map(|&len| len as u64).collect::<Vec<_>>();
    let axes: Vec<usize> = (axis..axis + item.axes()).collect();
    let (shape, coordinates) = match item {
        Ask::Index(index) => (vec![], vec![wrapped(axis, &[*index])]),
        Ask::Slice(start, stop, step) => {
            let indices = slice(*start, *stop, *step, shape[axis]);
            (vec![indices.len() as u64], vec![indices])
        }
        Ask::Indices(values, of) => (lengths(of), vec![wrapped(axis, values)]),
        Ask::Points(coordinates, of) => {
            (lengths(of), axes.iter().zip(coordinates).map(|(&axis, values)| wrapped(axis, values)).collect())
        }
        Ask::Mask(bits, of) => {
            assert_eq!(lengths(of), shape[axis..axis + of.len()], "the tests ask for valid masks only");
            let all = naive::coordinates(&lengths(of));
            let hits: Vec<_> = all.into_iter().zip(bits).filter(|(_, hit)| **hit).map(|(at, _)| at).collect();
            let along = |axis: usize| hits.iter().map(|at| at[axis]).collect();
            (vec![hits.len() as u64], (0..of.len()).map(along).collect())
        }
        Ask::NewAxis => (vec![1], vec![]),
        Ask::Ellipsis => unreachable!("an Ellipsis is no part"),
    };
    let advanced = !matches!(item, Ask::Slice(..) | Ask::NewAxis);
    Part { shape, axes, coordinates, advanced }
}

/// Python's `range(*slice(start, stop, step).indices(len))`.
pub(crate) fn slice(start: Option<i64>, stop: Option<i64>, step: i64, len: u64) -> Vec<u64> {
    let (len, step) = (i128::from(len), i128::from(step));
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clip = |bound: i64| (i128::from(bound) + if bound < 0 { len } else { 0 }).clamp(least, most);
    let mut at = start.map_or(if step > 0 { least } else { most }, clip);
    let stop = stop.map_or(if step > 0 { most } else { least }, clip);
    let mut indices = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        indices.push(at as u64);
        at += step;
    }
    indices
}

/// Broadcasts all index arrays against each other. Their axes stand where they stood, or first if anything stands
/// between them.
fn join(parts: Vec<Part>) -> Vec<Part> {
    let places: Vec<usize> = (0..parts.len()).filter(|&at| parts[at].advanced).collect();
    let adjacent = places.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let (advanced, mut rest): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| part.advanced);
    let rank = advanced.iter().map(|part| part.shape.len()).max().unwrap_or(0);
    let padded = |part: &Part| [vec![1; rank - part.shape.len()], part.shape.clone()].concat();
    let shape: Vec<u64> = (0..rank)
        .map(|axis| {
            let lengths: Vec<u64> = advanced.iter().map(|part| padded(part)[axis]).filter(|&len| len != 1).collect();
            assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "the tests ask for what broadcasts only");
            lengths.first().copied().unwrap_or(1)
        })
        .collect();
    let mut joined = Part { shape: shape.clone(), axes: vec![], coordinates: vec![], advanced: true };
    for part in &advanced {
        let own = padded(part);
        for (&axis, values) in part.axes.iter().zip(&part.coordinates) {
            let mut stretched = Vec::new();
            naive::for_each(&shape, |at| {
                let place =
                    at.iter().zip(&own).fold(0, |place, (&at, &len)| place * len + if len == 1 { 0 } else { at });
                stretched.push(values[place as usize]);
            });
            joined.axes.push(axis);
            joined.coordinates.push(stretched);
        }
    }
    rest.insert(if adjacent { places[0] } else { 0 }, joined);
    rest
}

/// The meaning of one row of columns: start, stop and step on each axis from `first` on. `None` where it is an error.
pub(crate) fn of_bounds(bounds: &[[i64; 3]], first: usize, shape: &[u64], policy: OutOfBounds) -> Option<Row> {
    let mut along: Vec<Vec<Option<u64>>> = shape.iter().map(|&len| (0..len).map(Some).collect()).collect();
    for (axis, bounds) in (first..).zip(bounds) {
        let [start, stop, step] = bounds.map(i128::from);
        let len = i128::from(shape[axis]);
        let in_order = if step > 0 { start <= stop } else { start >= stop };
        // Going backwards, a range may end before the first element, and an empty one may lie anywhere.
        let inside = if step > 0 { 0 <= start && stop <= len } else { start == stop || (-1 <= stop && start < len) };
        if !in_order || (policy == OutOfBounds::Error && !inside) {
            return None;
        }
        along[axis] = match policy {
            OutOfBounds::Error | OutOfBounds::Clip => {
                // The definition, asked of each index of the axis.
                let hit = |at: i128| {
                    (at - start) % step == 0
                        && if step > 0 { start <= at && at < stop } else { stop < at && at <= start }
                };
                let hits = (0..len).filter(|&at| hit(at)).map(|at| Some(at as u64));
                if step > 0 { hits.collect() } else { hits.rev().collect() }
            }
            _ => (start..stop).map(|at| (0..len).contains(&at).then_some(at as u64)).collect(),
        };
    }
    let extents: Vec<u64> = along.iter().map(|along| along.len() as u64).collect();
    let mut cells = Vec::new();
    naive::for_each(&extents, |at| cells.push(at.iter().zip(&along).map(|(&at, along)| along[at as usize]).collect()));
    Some(Row { extents, cells })
}

/// What a read must give, nulls and all.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) offsets: Vec<Vec<i64>>,
    pub(crate) row_starts: Vec<i64>,
    pub(crate) values: Vec<u8>,
    /// Of each element.
    pub(crate) valid: Vec<bool>,
    /// Of each row.
    pub(crate) rows_valid: Vec<bool>,
}

impl Expected {
    pub(crate) fn new(levels: usize) -> Self {
        let (offsets, row_starts) = (vec![vec![0]; levels], vec![0]);
        Self { offsets, row_starts, values: vec![], valid: vec![], rows_valid: vec![] }
    }

    /// Appends a row; `None` is a null row. `element` gives the bytes of a cell, and whether it is valid.
    pub(crate) fn push(
        &mut self,
        row: Option<&Row>,
        item: usize,
        mut element: impl FnMut(&Option<Vec<u64>>) -> (Vec<u8>, bool),
    ) {
        let levels = self.offsets.len();
        if let Some(row) = row {
            assert_eq!(row.extents.len(), levels);
            naive::push_lists(&row.extents, &mut self.offsets);
            for cell in &row.cells {
                let (bytes, valid) = element(cell);
                self.values.extend_from_slice(&bytes);
                self.valid.push(valid);
            }
        } else if levels == 0 {
            self.values.resize(self.values.len() + item, 0);
            self.valid.push(false);
        } else {
            naive::push_lists(&vec![0; levels], &mut self.offsets);
        }
        self.rows_valid.push(row.is_some());
        self.row_starts.push(self.valid.len() as i64);
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows_valid.len()
    }
}

/// Validity as Arrow has it: none where nothing is null.
fn nulls(valid: &[bool]) -> Option<NullBuffer> {
    valid.contains(&false).then(|| NullBuffer::from(valid))
}

/// Compares a result with what it must be: values bit for bit, under nulls too; offsets, types, names, nullability.
#[track_caller]
pub(crate) fn check(ragged: Ragged, element: &ElementType, expected: &Expected) {
    assert_eq!((ragged.len(), ragged.is_empty()), (expected.rows(), expected.rows() == 0));
    assert_eq!(ragged.row_starts(), expected.row_starts);
    let offsets: Vec<&[i64]> = ragged.offsets().iter().map(|offsets| &offsets[..]).collect();
    assert_eq!(offsets, expected.offsets);
    assert_eq!(naive::value_bytes(ragged.values()), expected.values);
    let of_elements = nulls(&expected.valid);
    let of_rows = nulls(&expected.rows_valid).filter(|_| !expected.offsets.is_empty());
    assert_eq!(ragged.values().nulls(), of_elements.as_ref());
    assert_eq!(ragged.nulls(), of_rows.as_ref());
    assert_eq!(ragged.stats().rows, expected.rows());
    assert_eq!(ragged.stats().bytes_out, expected.values.len() as u64);

    let mut nullable = if expected.offsets.is_empty() { of_elements.is_some() } else { of_rows.is_some() };
    let data_type = ragged.data_type();
    let field = ragged.field("column");
    assert_eq!((field.data_type(), field.is_nullable()), (&data_type, nullable));
    let mut array = ragged.into_array();
    assert_eq!(array.data_type(), &data_type);
    array.to_data().validate_full().expect("valid Arrow");
    for (level, offsets) in expected.offsets.iter().enumerate() {
        let lists = array.as_list::<i64>();
        assert_eq!((&lists.offsets()[..], lists.offset()), (&offsets[..], 0));
        assert_eq!(lists.nulls(), of_rows.as_ref().filter(|_| level == 0));
        let DataType::LargeList(item) = array.data_type() else { panic!("{} is no large list", array.data_type()) };
        nullable = level + 1 == expected.offsets.len() && of_elements.is_some();
        assert_eq!((item.name().as_str(), item.is_nullable()), ("item", nullable));
        array = lists.values().clone();
    }
    assert_eq!((array.data_type(), array.nulls()), (&element.arrow_type(), of_elements.as_ref()));
    assert_eq!(naive::value_bytes(&array), expected.values);
}
