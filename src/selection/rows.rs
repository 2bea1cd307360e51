//! Rows that are more than boxes: steps, index arrays, masks, points, new axes. Each is a product of its [`Axis`]es.

use arrow_buffer::NullBuffer;

use super::bind::Shapes;
use super::boxes::{Bounds, check_levels, expand, out_of_bounds};
use super::item::{Indices, Item, Mask, Points, Progression, resolve_index, resolve_slice};
use super::{Indexing, OutOfBounds};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::segments::ones;

/// Rows as products of axes, in flat columns.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// The axes of row `r` are `axes[offsets[r]..offsets[r + 1]]`, in the order in which the result has them.
    offsets: Vec<usize>,
    axes: Vec<Axis>,
    /// Lengths of the kept axes, `levels` for each row. Their product is that of the lengths of its axes.
    extents: Vec<i64>,
    levels: usize,
    points: Vec<i64>,
}

/// One axis of a row: in what order it goes through the indices of one axis of the array, or of several at once.
///
/// Each axis of the array belongs to one of the axes of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Axis {
    /// Equally spaced indices of one axis.
    Steps { axis: usize, range: Progression },
    /// `len` points in the axes of the array that are bits of `axes`. Their coordinates are `points[at..]`: all of the
    /// first of these axes, then all of the next.
    Points { axes: u64, at: usize, len: usize },
}

impl Axis {
    /// Number of positions.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Steps { range, .. } => range.len as usize,
            Self::Points { len, .. } => *len,
        }
    }
}

/// What an item asks, with indices in bounds.
enum Part {
    Steps {
        axis: usize,
        range: Progression,
        kept: bool,
    },
    NewAxis,
    /// An Ellipsis that stands for no axis.
    Nothing,
    /// One coordinate list per axis of the array, of points that have `shape` in the result.
    Points {
        axes: Vec<usize>,
        coordinates: Vec<Vec<i64>>,
        shape: Vec<usize>,
    },
}

impl Rows {
    fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, axes: Vec::new(), extents: Vec::new(), levels: 0, points: Vec::new() }
    }

    /// Binds rows of any items.
    pub(super) fn from_items(
        shapes: &Shapes,
        items: &[Item],
        offsets: &[usize],
        indexing: Indexing,
        nulls: Option<&NullBuffer>,
    ) -> Result<Self> {
        let mut rows = Self::with_capacity(offsets.len() - 1);
        let mut levels = None;
        let mut null_rows = Vec::new();
        for (row, w) in offsets.windows(2).enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                null_rows.push(row);
            } else {
                let before = rows.extents.len();
                let pushed = rows.push_items(shapes.of(row), &items[w[0]..w[1]], indexing);
                pushed.map_err(|error| error.at_selection(row))?;
                check_levels(rows.extents.len() - before, &mut levels, row)?;
            }
            rows.offsets.push(rows.axes.len());
        }
        rows.levels = levels.map_or(shapes.ndim(), |(kept, _)| kept);
        rows.insert_nulls(&null_rows);
        Ok(rows)
    }

    /// Binds ranges or boxes with steps.
    pub(super) fn from_steps(
        shapes: &Shapes,
        bounds: &Bounds<'_>,
        steps: &[i64],
        policy: OutOfBounds,
        nulls: Option<&NullBuffer>,
    ) -> Result<Self> {
        if matches!(policy, OutOfBounds::Fill | OutOfBounds::Null) {
            return Err(Error::new(ErrorKind::Selection, "steps together with padding")
                .expected("steps of 1 where what lies outside is filled or null")
                .remedy("Clip, or take every n-th element of the result."));
        }
        let Bounds { first, axes, starts, stops } = *bounds;
        let mut rows = Self::with_capacity(starts.len() / axes);
        rows.levels = shapes.ndim();
        let mut null_rows = Vec::new();
        for row in 0..starts.len() / axes {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                null_rows.push(row);
                rows.offsets.push(rows.axes.len());
                continue;
            }
            for (axis, &len) in shapes.of(row).iter().enumerate() {
                let len = len as i64;
                let mut range = Progression { start: 0, step: 1, len };
                if let Some(at) = axis.checked_sub(first).filter(|&at| at < axes) {
                    let at = row * axes + at;
                    let (start, stop, step) = (starts[at], stops[at], steps[at]);
                    check_range(start, stop, step, axis, len, policy).map_err(|error| error.at_selection(row))?;
                    range = clipped(start, stop, step, len);
                }
                rows.extents.push(range.len);
                rows.axes.push(Axis::Steps { axis, range });
            }
            rows.offsets.push(rows.axes.len());
        }
        rows.insert_nulls(&null_rows);
        Ok(rows)
    }

    /// Binds lists of indices of one axis.
    pub(super) fn from_lists(
        shapes: &Shapes,
        axis: usize,
        offsets: &[i64],
        values: &[i64],
        nulls: Option<&NullBuffer>,
    ) -> Result<Self> {
        let mut rows = Self::with_capacity(offsets.len() - 1);
        rows.levels = shapes.ndim();
        rows.points.reserve_exact((offsets[offsets.len() - 1] - offsets[0]) as usize);
        let mut null_rows = Vec::new();
        for (row, w) in offsets.windows(2).enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                null_rows.push(row);
                rows.offsets.push(rows.axes.len());
                continue;
            }
            for (at, &len) in shapes.of(row).iter().enumerate() {
                if at == axis {
                    let values = &values[w[0] as usize..w[1] as usize];
                    rows.push_indices(axis, len, values).map_err(|error| error.at_selection(row))?;
                    rows.extents.push(values.len() as i64);
                } else {
                    rows.axes.push(Axis::Steps { axis: at, range: Progression { start: 0, step: 1, len: len as i64 } });
                    rows.extents.push(len as i64);
                }
            }
            rows.offsets.push(rows.axes.len());
        }
        rows.insert_nulls(&null_rows);
        Ok(rows)
    }

    /// Makes room for the extents of null rows, all zero.
    fn insert_nulls(&mut self, null_rows: &[usize]) {
        if null_rows.is_empty() || self.levels == 0 {
            return;
        }
        let rows = self.offsets.len() - 1;
        let mut extents = Vec::with_capacity(rows * self.levels);
        let mut given = self.extents.chunks_exact(self.levels);
        let mut null_rows = null_rows.iter().peekable();
        for row in 0..rows {
            if null_rows.next_if(|&&null| null == row).is_some() {
                extents.resize(extents.len() + self.levels, 0);
            } else {
                extents.extend_from_slice(given.next().unwrap_or_default());
            }
        }
        self.extents = extents;
    }

    fn push_indices(&mut self, axis: usize, len: u64, values: &[i64]) -> Result<()> {
        let at = self.points.len();
        for &value in values {
            self.points.push(resolve_index(value, axis, len as i64)?);
        }
        self.axes.push(if let Some(range) = progression(&self.points[at..]) {
            self.points.truncate(at);
            Axis::Steps { axis, range }
        } else {
            Axis::Points { axes: 1 << axis, at, len: values.len() }
        });
        Ok(())
    }

    fn push_items(&mut self, shape: &[u64], items: &[Item], indexing: Indexing) -> Result<()> {
        let mut parts = parse(shape, items, indexing)?;
        if indexing == Indexing::Pointwise {
            join_points(&mut parts)?;
        }
        for part in parts {
            match part {
                Part::NewAxis => self.extents.push(1),
                Part::Nothing => {}
                Part::Steps { axis, range, kept } => {
                    self.axes.push(Axis::Steps { axis, range });
                    if kept {
                        self.extents.push(range.len);
                    }
                }
                Part::Points { axes, coordinates, shape } => self.push_points(&axes, &coordinates, &shape)?,
            }
        }
        Ok(())
    }

    fn push_points(&mut self, axes: &[usize], coordinates: &[Vec<i64>], shape: &[usize]) -> Result<()> {
        let at = self.points.len();
        let more = coordinates.iter().map(Vec::len).sum();
        self.points.try_reserve(more).map_err(|source| no_room(more).source(source))?;
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&i| axes[i]);
        for &i in &order {
            self.points.extend_from_slice(&coordinates[i]);
        }
        let mask = axes.iter().fold(0, |mask, axis| mask | 1 << axis);
        self.axes.push(Axis::Points { axes: mask, at, len: shape.iter().product() });
        self.extents.extend(shape.iter().map(|&len| len as i64));
        Ok(())
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// Lengths of the kept axes of a row.
    pub(crate) fn extents(&self, row: usize) -> &[i64] {
        &self.extents[row * self.levels..(row + 1) * self.levels]
    }

    /// The axes of a row, by their numbers among [`axes`](Self::axes). A null row has none.
    pub(crate) fn of(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    /// The axes of all rows.
    pub(crate) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The coordinates of an axis of points: axes of the array in ascending order, and the indices along each.
    pub(crate) fn coordinates(&self, of: &Axis) -> impl Iterator<Item = (usize, &[i64])> {
        let (axes, at, len) = match *of {
            Axis::Points { axes, at, len } => (axes, at, len),
            Axis::Steps { .. } => (0, 0, 0),
        };
        ones(axes).enumerate().map(move |(before, axis)| (axis, &self.points[at + before * len..][..len]))
    }

    /// Number of coordinates of the points of all axes of all rows.
    pub(crate) fn coordinate_count(&self) -> usize {
        self.points.len()
    }

    /// Index of the array's `axis` at a position of an axis of a row.
    pub(crate) fn index(&self, of: &Axis, axis: usize, position: usize) -> u64 {
        match *of {
            Axis::Steps { range, .. } => (range.start + position as i64 * range.step) as u64,
            Axis::Points { axes, at, len } => {
                let before = (axes & ((1 << axis) - 1)).count_ones() as usize;
                self.points[at + before * len + position] as u64
            }
        }
    }
}

/// Checks a range with a step: that it does not run away from its stop, nor beyond the array if that is an error.
fn check_range(start: i64, stop: i64, step: i64, axis: usize, len: i64, policy: OutOfBounds) -> Result<()> {
    if step > 0 {
        if start > stop || (policy == OutOfBounds::Error && (start < 0 || stop > len)) {
            return Err(out_of_bounds(start, stop, axis, len, policy));
        }
        return Ok(());
    }
    // Going backwards, a range may end before the first element.
    let outside = start != stop && (stop < -1 || start >= len);
    if start < stop || (policy == OutOfBounds::Error && outside) {
        let got = format!("{start}..{stop} by {step} on axis {axis} of length {len}");
        let error = Error::new(ErrorKind::Selection, got);
        return Err(match policy {
            OutOfBounds::Error => error.expected(format!("-1 <= stop <= start < {len}, because the step is negative")),
            _ => error.expected("stop <= start, because the step is negative"),
        });
    }
    Ok(())
}

/// The indices from `start` to before `stop` by `step` that lie in `0..len`.
fn clipped(start: i64, stop: i64, step: i64, len: i64) -> Progression {
    let (first, end, distance) = (i128::from(start), i128::from(stop), i128::from(step).abs());
    let len = i128::from(len);
    // As many whole steps as are outside.
    let skip = |outside: i128| if outside > 0 { (outside + distance - 1) / distance * distance } else { 0 };
    let (first, count) = if step > 0 {
        let first = first + skip(-first);
        (first, end.min(len) - first)
    } else {
        let first = first - skip(first - (len - 1));
        (first, first - end.max(-1))
    };
    if count <= 0 {
        return Progression { start: 0, step: 1, len: 0 };
    }
    // Not more than the axis has.
    let len = ((count - 1) / distance + 1) as i64;
    Progression { start: first as i64, step: if len == 1 { 1 } else { step }, len }
}

/// The positions that an item selects of an axis of `len`, in order.
pub(super) fn positions(item: &Item, len: u64) -> Result<Vec<i64>> {
    let mut positions = Vec::new();
    for part in parse(&[len], std::slice::from_ref(item), Indexing::Orthogonal)? {
        match part {
            Part::Steps { range, .. } => positions.extend((0..range.len).map(|at| range.start + at * range.step)),
            Part::Points { coordinates, .. } => positions.extend(coordinates.into_iter().flatten()),
            Part::NewAxis | Part::Nothing => {}
        }
    }
    Ok(positions)
}

/// Resolves the items of one selection.
fn parse(shape: &[u64], items: &[Item], indexing: Indexing) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut axis = 0;
    for item in expand(shape, items)? {
        let len = shape.get(axis).map_or(0, |&len| len as i64);
        match item {
            Item::Index(index) => {
                let start = resolve_index(*index, axis, len)?;
                parts.push(Part::Steps { axis, range: Progression { start, step: 1, len: 1 }, kept: false });
            }
            Item::Slice { start, stop, step } => {
                let range = resolve_slice(*start, *stop, *step, len)?;
                parts.push(Part::Steps { axis, range, kept: true });
            }
            Item::Indices(indices) => {
                if indexing == Indexing::Orthogonal && indices.shape().len() > 1 {
                    let got = format!("indices of shape {:?} on axis {axis}", indices.shape());
                    return Err(Error::new(ErrorKind::Selection, got)
                        .expected("a list of indices, of one axis")
                        .remedy("Index pointwise, or flatten them."));
                }
                parts.push(indices_part(indices, axis, len, indexing)?);
            }
            Item::Mask(mask) => parts.push(mask_part(mask, axis, &shape[axis..], indexing)?),
            Item::Points(points) => parts.push(points_part(points, axis, &shape[axis..])?),
            Item::NewAxis => parts.push(Part::NewAxis),
            Item::Ellipsis => parts.push(Part::Nothing),
        }
        axis += item.axes().unwrap_or(0);
    }
    Ok(parts)
}

/// Indices as equal steps, which take no memory for each; `None` if they are fewer than two or no such steps.
fn progression(indices: &[i64]) -> Option<Progression> {
    let &[start, next, ..] = indices else { return None };
    let step = next - start;
    let is_one = step != 0 && indices.windows(2).all(|pair| pair[1] - pair[0] == step);
    is_one.then_some(Progression { start, step, len: indices.len() as i64 })
}

fn indices_part(indices: &Indices, axis: usize, len: i64, indexing: Indexing) -> Result<Part> {
    let coordinates =
        indices.values().iter().map(|&index| resolve_index(index, axis, len)).collect::<Result<Vec<_>>>()?;
    if indices.shape().is_empty() {
        let range = Progression { start: coordinates[0], step: 1, len: 1 };
        return Ok(Part::Steps { axis, range, kept: false });
    }
    // Pointwise, indices are joined with those of other axes.
    if let (Indexing::Orthogonal, Some(range)) = (indexing, progression(&coordinates)) {
        return Ok(Part::Steps { axis, range, kept: true });
    }
    Ok(Part::Points { axes: vec![axis], coordinates: vec![coordinates], shape: indices.shape().to_vec() })
}

fn points_part(points: &Points, axis: usize, lens: &[u64]) -> Result<Part> {
    let axes = axis..axis + points.coordinates().len();
    let resolved = axes.clone().zip(points.coordinates()).zip(lens).map(|((axis, values), &len)| {
        values.iter().map(|&index| resolve_index(index, axis, len as i64)).collect::<Result<Vec<_>>>()
    });
    let coordinates = resolved.collect::<Result<Vec<_>>>()?;
    Ok(Part::Points { axes: axes.collect(), coordinates, shape: points.shape().to_vec() })
}

fn mask_part(mask: &Mask, axis: usize, lens: &[u64], indexing: Indexing) -> Result<Part> {
    let lens = &lens[..mask.shape().len()];
    if mask.shape().iter().zip(lens).any(|(&got, &len)| got as u64 != len) {
        return Err(Error::new(ErrorKind::Selection, format!("a mask of shape {:?} on axis {axis}", mask.shape()))
            .expected(format!("shape {lens:?}, as the array has there")));
    }
    let coordinates = mask.positions();
    if let (Indexing::Orthogonal, [only]) = (indexing, &coordinates[..])
        && let Some(range) = progression(only)
    {
        return Ok(Part::Steps { axis, range, kept: true });
    }
    let count = coordinates[0].len();
    Ok(Part::Points { axes: (axis..axis + lens.len()).collect(), coordinates, shape: vec![count] })
}

/// Joins all index arrays, and the integers beside them, to one list of points, as `NumPy` does: where they stood, or in
/// front if something else stands between them.
///
/// Source: NumPy's manual, "Combining advanced and basic indexing".
fn join_points(parts: &mut Vec<Part>) -> Result<()> {
    if !parts.iter().any(|part| matches!(part, Part::Points { .. })) {
        return Ok(());
    }
    let is_advanced = |part: &Part| matches!(part, Part::Points { .. } | Part::Steps { kept: false, .. });
    let first = parts.iter().position(is_advanced).unwrap_or(0);
    let count = parts.iter().filter(|part| is_advanced(part)).count();
    let adjacent = parts[first..].iter().take_while(|part| is_advanced(part)).count() == count;
    let mut shape: Vec<usize> = Vec::new();
    for part in parts.iter() {
        if let Part::Points { shape: other, .. } = part {
            shape = broadcast(&shape, other)?;
        }
    }
    let places = shape.iter().try_fold(1_usize, |places, &len| places.checked_mul(len)).unwrap_or(usize::MAX);
    let (mut axes, mut coordinates) = (Vec::new(), Vec::new());
    let mut rest = Vec::new();
    for part in parts.drain(..) {
        match part {
            Part::Points { axes: of, coordinates: given, shape: from } => {
                axes.extend(of);
                for values in given {
                    coordinates.push(if from == shape {
                        values
                    } else {
                        stretch(&values, &from, &shape, room(places)?)
                    });
                }
            }
            Part::Steps { axis, range, kept: false } => {
                axes.push(axis);
                let mut values = room(places)?;
                values.resize(places, range.start);
                coordinates.push(values);
            }
            other => rest.push(other),
        }
    }
    rest.insert(if adjacent { first } else { 0 }, Part::Points { axes, coordinates, shape });
    *parts = rest;
    Ok(())
}

/// The shape that two shapes are broadcast to.
fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let len = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    (0..rank)
        .map(|axis| match (len(a, axis), len(b, axis)) {
            (1, other) | (other, 1) => Ok(other),
            (one, other) if one == other => Ok(one),
            _ => Err(Error::new(ErrorKind::Selection, format!("indices of shapes {a:?} and {b:?}"))
                .expected("shapes that broadcast to each other")),
        })
        .collect()
}

/// An empty vector with room for `len` coordinates.
fn room(len: usize) -> Result<Vec<i64>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|source| no_room(len).source(source))?;
    Ok(values)
}

fn no_room(len: usize) -> Error {
    Error::new(ErrorKind::Allocation, format!("no memory for {len} coordinates of points"))
        .remedy("Read fewer points at a time, or index orthogonally.")
}

/// Repeats `values` of shape `from` in `stretched`, which is empty, to fill the shape `to`, which `from` broadcasts to.
fn stretch(values: &[i64], from: &[usize], to: &[usize], mut stretched: Vec<i64>) -> Vec<i64> {
    let total = to.iter().product();
    for place in 0..total {
        let (mut rest, mut at, mut stride) = (place, 0, 1);
        for (axis, &len) in to.iter().enumerate().rev() {
            let index = rest % len;
            rest /= len;
            if let Some(own) = (axis + from.len()).checked_sub(to.len()) {
                at += if from[own] == 1 { 0 } else { index * stride };
                stride *= from[own];
            }
        }
        stretched.push(values[at]);
    }
    stretched
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
