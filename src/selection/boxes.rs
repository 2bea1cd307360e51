//! Rows that are boxes: bounds per axis, in flat columns.

use arrow_buffer::{NullBuffer, ScalarBuffer};

use super::bind::{MAX_AXES, Shapes};
use super::item::{Item, resolve_index, resolve_slice};
use super::{OutOfBounds, Progression};
use crate::error::{Error, ErrorKind, Result};

/// Bounds as a caller gives them; see `Form::Boxes`.
pub(super) struct Bounds<'a> {
    pub(super) first: usize,
    pub(super) axes: usize,
    pub(super) starts: &'a ScalarBuffer<i64>,
    pub(super) stops: &'a ScalarBuffer<i64>,
}

/// One box per row.
///
/// Bounds are stored for the axes `first..first + axes`, row-major; all other axes are whole.
#[derive(Debug, Clone)]
pub(crate) struct Boxes {
    /// Lengths of the axes that are whole in every row; equal in all arrays.
    shape: Vec<u64>,
    first: usize,
    axes: usize,
    /// With `0 <= starts <= stops <= length of the axis`: the part of each row that lies in its array.
    starts: ScalarBuffer<i64>,
    stops: ScalarBuffer<i64>,
    /// The bounds of the whole rows, where some reach beyond their array: `outer starts <= starts <= stops <= outer
    /// stops`, unless a row has nothing in its array.
    outer: Option<(ScalarBuffer<i64>, ScalarBuffer<i64>)>,
    kept: Kept,
    levels: usize,
}

/// Where a row lies on one axis, in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    /// First index that lies in the array.
    pub(crate) start: u64,
    /// One past the last.
    pub(crate) stop: u64,
    /// Elements of the row before the first.
    pub(crate) before: u64,
    /// Elements of the row in all.
    pub(crate) extent: u64,
}

/// Which axes a row keeps.
#[derive(Debug, Clone)]
enum Kept {
    All,
    /// Bit `a` of entry `r`: row `r` keeps axis `a`. Each has `levels` bits set.
    PerRow(Vec<u64>),
}

impl Boxes {
    /// Binds columns of bounds, and lists the rows that reach beyond their array if they are to be padded.
    pub(super) fn bind(
        shapes: &Shapes,
        bounds: &Bounds<'_>,
        policy: OutOfBounds,
        nulls: Option<&NullBuffer>,
    ) -> Result<(Self, Option<Vec<u32>>)> {
        let whole = (0..shapes.ndim()).filter(|axis| !(bounds.first..bounds.first + bounds.axes).contains(axis));
        // Null rows are to be empty on all axes: else those in front would have as many empty lists as they are long.
        let even = (nulls.is_none() || bounds.first == 0) && whole.clone().all(|axis| shapes.common(axis).is_some());
        let spread;
        let bounds = if even {
            bounds
        } else {
            spread = spread_out(shapes, bounds);
            &Bounds { first: 0, axes: shapes.ndim(), starts: &spread.0, stops: &spread.1 }
        };
        let (starts, stops) = (bounds.starts, bounds.stops);
        let mut boxes = Self {
            shape: shapes.of(0).to_vec(),
            first: bounds.first,
            axes: bounds.axes,
            starts: starts.clone(),
            stops: stops.clone(),
            outer: None,
            kept: Kept::All,
            levels: shapes.ndim(),
        };
        if nulls.is_none() && boxes.in_bounds(shapes) {
            return Ok((boxes, None));
        }
        let (mut inner_starts, mut inner_stops) = (starts.to_vec(), stops.to_vec());
        let (mut outer_starts, mut outer_stops) = (starts.to_vec(), stops.to_vec());
        let mut padded = Vec::new();
        for row in 0..starts.len() / bounds.axes {
            let places = row * bounds.axes..(row + 1) * bounds.axes;
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                for column in [&mut inner_starts, &mut inner_stops, &mut outer_starts, &mut outer_stops] {
                    column[places.clone()].fill(0);
                }
                continue;
            }
            let mut beyond = false;
            for (place, axis) in places.clone().zip(bounds.first..) {
                let (start, stop, len) = (starts[place], stops[place], shapes.of(row)[axis] as i64);
                let outside = start < 0 || stop > len;
                let refused = match policy {
                    OutOfBounds::Error => outside,
                    OutOfBounds::Clip => false,
                    OutOfBounds::Fill | OutOfBounds::Null => stop.checked_sub(start).is_none(),
                };
                if start > stop || refused {
                    return Err(out_of_bounds(start, stop, axis, len, policy).at_selection(row));
                }
                beyond |= outside;
                inner_starts[place] = start.clamp(0, len);
                inner_stops[place] = stop.clamp(0, len);
            }
            if beyond && policy != OutOfBounds::Clip {
                padded.push(row as u32);
            }
        }
        boxes.starts = inner_starts.into();
        boxes.stops = inner_stops.into();
        if !padded.is_empty() {
            boxes.outer = Some((outer_starts.into(), outer_stops.into()));
        }
        Ok((boxes, Some(padded)))
    }

    /// Whether all bounds are in order and within the arrays.
    fn in_bounds(&self, shapes: &Shapes) -> bool {
        let mut sound = true;
        if shapes.sources().is_none() && self.axes == 1 {
            let len = self.shape[self.first] as i64;
            for (&start, &stop) in self.starts.iter().zip(&self.stops) {
                sound &= start >= 0 && start <= stop && stop <= len;
            }
            return sound;
        }
        for (row, (starts, stops)) in
            self.starts.chunks_exact(self.axes).zip(self.stops.chunks_exact(self.axes)).enumerate()
        {
            let shape = &shapes.of(row)[self.first..];
            for ((&start, &stop), &len) in starts.iter().zip(stops).zip(shape) {
                sound &= start >= 0 && start <= stop && stop as u64 <= len;
            }
        }
        sound
    }

    /// Binds rows of integers, slices without steps, and Ellipses.
    pub(super) fn from_items(
        shapes: &Shapes,
        items: &[Item],
        offsets: &[usize],
        nulls: Option<&NullBuffer>,
    ) -> Result<Self> {
        let axes = shapes.ndim();
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        let mut masks = Vec::new();
        let all = u64::MAX.checked_shr(64 - axes as u32).unwrap_or(0);
        let mut levels = None;
        let mut null_rows = Vec::new();
        for (row, w) in offsets.windows(2).enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                starts.resize(starts.len() + axes, 0);
                stops.resize(stops.len() + axes, 0);
                null_rows.push(row);
                masks.push(0);
                continue;
            }
            let items = &items[w[0]..w[1]];
            let mask = push_row(shapes.of(row), items, &mut starts, &mut stops);
            let mask = mask.map_err(|error| error.at_selection(row))?;
            let kept = mask.count_ones() as usize;
            check_levels(kept, &mut levels, row)?;
            masks.push(mask);
        }
        let levels = levels.map_or(axes, |(kept, _)| kept);
        for row in null_rows {
            // Any axes do: all are empty.
            masks[row] = u64::MAX.checked_shr(64 - levels as u32).unwrap_or(0);
        }
        Ok(Self {
            shape: shapes.of(0).to_vec(),
            first: 0,
            axes,
            starts: starts.into(),
            stops: stops.into(),
            outer: None,
            kept: if masks.iter().all(|&mask| mask == all) { Kept::All } else { Kept::PerRow(masks) },
            levels,
        })
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    fn place(&self, row: usize, axis: usize) -> Option<usize> {
        let at = axis.checked_sub(self.first).filter(|&at| at < self.axes)?;
        Some(row * self.axes + at)
    }

    /// First index of `row` on `axis` that lies in the array.
    pub(crate) fn start(&self, row: usize, axis: usize) -> u64 {
        self.place(row, axis).map_or(0, |at| self.starts[at] as u64)
    }

    /// One past the last index of `row` on `axis` that lies in the array.
    pub(crate) fn stop(&self, row: usize, axis: usize) -> u64 {
        self.place(row, axis).map_or_else(|| self.shape[axis], |at| self.stops[at] as u64)
    }

    /// Where `row` lies on `axis`.
    #[inline]
    pub(crate) fn side(&self, row: usize, axis: usize) -> Side {
        let Some(at) = self.place(row, axis) else {
            let len = self.shape[axis];
            return Side { start: 0, stop: len, before: 0, extent: len };
        };
        let (start, stop) = (self.starts[at], self.stops[at]);
        let (before, extent) = match &self.outer {
            None => (0, stop - start),
            Some((starts, stops)) => (start.wrapping_sub(starts[at]).max(0), stops[at] - starts[at]),
        };
        Side { start: start as u64, stop: stop as u64, before: before as u64, extent: extent as u64 }
    }

    /// Number of indices of `row` on `axis`, those beyond the array included.
    fn extent(&self, row: usize, axis: usize) -> i64 {
        self.side(row, axis).extent as i64
    }

    fn keeps(&self, row: usize, axis: usize) -> bool {
        match &self.kept {
            Kept::All => true,
            Kept::PerRow(masks) => masks[row] >> axis & 1 == 1,
        }
    }

    /// Number of indices on each kept axis.
    pub(crate) fn extents(&self, row: usize) -> impl Iterator<Item = i64> + '_ {
        (0..self.shape.len()).filter(move |&axis| self.keeps(row, axis)).map(move |axis| self.extent(row, axis))
    }

    /// The bounds of all rows, row-major, where every row has bounds on all axes, keeps them all, and does not reach
    /// beyond its array: (starts, stops).
    pub(crate) fn all_axes(&self) -> Option<(&[i64], &[i64])> {
        let plain = self.axes == self.shape.len() && self.outer.is_none() && matches!(self.kept, Kept::All);
        plain.then_some((&self.starts[..], &self.stops[..]))
    }

    /// The bounds of all rows where only the first axis is bounded, and no row reaches beyond its array: (starts,
    /// stops).
    pub(crate) fn first_axis(&self) -> Option<(&[i64], &[i64])> {
        (self.axes == 1 && self.first == 0 && self.outer.is_none()).then_some((&self.starts[..], &self.stops[..]))
    }
}

/// Bounds on all axes, for arrays that differ on axes that are whole.
fn spread_out(shapes: &Shapes, bounds: &Bounds<'_>) -> (ScalarBuffer<i64>, ScalarBuffer<i64>) {
    let rows = bounds.starts.len() / bounds.axes;
    let axes = shapes.ndim();
    let (mut starts, mut stops) = (Vec::with_capacity(rows * axes), Vec::with_capacity(rows * axes));
    for row in 0..rows {
        for (axis, &len) in shapes.of(row).iter().enumerate() {
            let place = axis.checked_sub(bounds.first).filter(|&at| at < bounds.axes).map(|at| row * bounds.axes + at);
            starts.push(place.map_or(0, |place| bounds.starts[place]));
            stops.push(place.map_or(len as i64, |place| bounds.stops[place]));
        }
    }
    (starts.into(), stops.into())
}

pub(super) fn out_of_bounds(start: i64, stop: i64, axis: usize, len: i64, policy: OutOfBounds) -> Error {
    let error = Error::new(ErrorKind::Selection, format!("{start}..{stop} on axis {axis} of length {len}"));
    if policy == OutOfBounds::Error {
        let error = error.expected(format!("0 <= start <= stop <= {len}"));
        return if start > stop {
            error.remedy("Give the smaller bound first.")
        } else {
            error.remedy("Clip the bounds first, use slices, which clip, or say what is to become of what is outside.")
        };
    }
    error.expected(if start > stop { "start <= stop" } else { "bounds less than 2^63 apart" })
}

/// Checks that a row keeps as many axes as those before it.
pub(super) fn check_levels(kept: usize, levels: &mut Option<(usize, usize)>, row: usize) -> Result<()> {
    if kept > MAX_AXES {
        return Err(Error::new(ErrorKind::Selection, format!("keeps {kept} axes"))
            .at_selection(row)
            .expected(format!("at most {MAX_AXES}")));
    }
    let (first, first_row) = *levels.get_or_insert((kept, row));
    if kept == first {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Selection, format!("keeps {kept} axes"))
        .at_selection(row)
        .expected(format!("{first}, as selection {first_row} keeps"))
        .remedy("Write i:i+1 in the place of an integer i to keep its axis."))
}

/// Spreads the items of one selection over the axes: an Ellipsis becomes whole axes, unless it stands for none, and axes
/// that are not named do.
pub(super) fn expand<'a>(shape: &[u64], items: &'a [Item]) -> Result<impl Iterator<Item = &'a Item>> {
    let ellipses = items.iter().filter(|item| matches!(item, Item::Ellipsis)).count();
    let named: usize = items.iter().filter_map(Item::axes).sum();
    if ellipses > 1 {
        return Err(Error::new(ErrorKind::Selection, "more than one Ellipsis").expected("at most one"));
    }
    if named > shape.len() {
        return Err(Error::new(ErrorKind::Selection, format!("{named} items"))
            .expected(format!("at most {}, because the array has shape {shape:?}", shape.len())));
    }
    let whole = shape.len() - named;
    let spread = move |item: &'a Item| match item {
        Item::Ellipsis if whole > 0 => std::iter::repeat_n(&Item::FULL, whole),
        _ => std::iter::repeat_n(item, 1),
    };
    let trailing = if ellipses == 0 { whole } else { 0 };
    Ok(items.iter().flat_map(spread).chain(std::iter::repeat_n(&Item::FULL, trailing)))
}

/// Appends the bounds of one selection and returns the mask of the axes that it keeps.
fn push_row(shape: &[u64], items: &[Item], starts: &mut Vec<i64>, stops: &mut Vec<i64>) -> Result<u64> {
    let mut mask = 0;
    let named = expand(shape, items)?.filter(|item| !matches!(item, Item::Ellipsis));
    for (axis, (item, &len)) in named.zip(shape).enumerate() {
        let (start, stop) = match *item {
            Item::Index(index) => {
                let at = resolve_index(index, axis, len as i64)?;
                (at, at + 1)
            }
            Item::Slice { start, stop, step } => {
                mask |= 1 << axis;
                let Progression { start, len, .. } = resolve_slice(start, stop, step, len as i64)?;
                (start, start + len)
            }
            _ => return Err(Error::new(ErrorKind::Internal, "an item that makes no box")),
        };
        starts.push(start);
        stops.push(stop);
    }
    Ok(mask)
}

#[cfg(test)]
#[path = "boxes_tests.rs"]
mod tests;
