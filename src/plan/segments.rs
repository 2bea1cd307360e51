//! Rows that are more than boxes, cut at the borders of read chunks: which positions of each of their axes lie where.

use super::grid::Grid;
use crate::error::{Error, ErrorKind, Result};
use crate::selection::rows::{Axis, Rows};
use crate::selection::{BoundForm, BoundSelections};

/// The segments of every axis of every row, those of one axis in ascending order of their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    /// The segments of axis `a` are `segments[offsets[a]..offsets[a + 1]]`.
    offsets: Vec<usize>,
    segments: Vec<Segment>,
}

/// Neighbouring positions of one axis of a row that lie in one read chunk, equally spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// What the read chunk's indices along the axis, or axes, add to its key.
    pub(crate) key: u64,
    /// The first position.
    pub(crate) position: usize,
    /// Number of positions.
    pub(crate) len: usize,
}

impl Segments {
    /// Cuts all rows; `None` where all are boxes.
    pub(super) fn new(selections: &BoundSelections, grids: &[Grid]) -> Result<Option<Self>> {
        let BoundForm::Rows(rows) = selections.form() else { return Ok(None) };
        let mut found = Self { offsets: Vec::with_capacity(rows.axes().len() + 1), segments: Vec::new() };
        found.offsets.push(0);
        for row in 0..selections.len() {
            let grid = &grids[selections.shapes().source(row)];
            let axes = &rows.axes()[rows.of(row)];
            // A row without elements needs no read chunk, however long its other axes are.
            let is_empty = axes.iter().any(|axis| axis.len() == 0);
            for axis in axes {
                let from = found.segments.len();
                if !is_empty {
                    found.cut(rows, axis, grid).map_err(|error| error.at_selection(row))?;
                }
                let new = &mut found.segments[from..];
                if !new.is_sorted_by_key(|segment| segment.key) {
                    new.sort_by_key(|segment| segment.key);
                }
                found.offsets.push(found.segments.len());
            }
        }
        Ok(Some(found))
    }

    fn cut(&mut self, rows: &Rows, axis: &Axis, grid: &Grid) -> Result<()> {
        match *axis {
            Axis::Steps { axis, range } => {
                let chunk = grid.chunk_len(axis);
                let distance = range.step.unsigned_abs();
                let mut position = 0;
                while position < range.len as usize {
                    let index = (range.start + position as i64 * range.step) as u64;
                    let (number, inside) = (index / chunk, index % chunk);
                    let left = if range.step > 0 { chunk - 1 - inside } else { inside };
                    let len = ((left / distance + 1) as usize).min(range.len as usize - position);
                    self.push(Segment { key: grid.key_part(axis, number), position, len })?;
                    position += len;
                }
            }
            Axis::Points { axes, len, .. } => {
                let last = 63 - axes.leading_zeros() as usize;
                let of = *axis;
                for position in 0..len {
                    let key = ones(axes)
                        .map(|axis| grid.key_part(axis, rows.index(&of, axis, position) / grid.chunk_len(axis)))
                        .sum();
                    let follows = position > 0
                        && ones(axes).all(|axis| {
                            let step = u64::from(axis == last);
                            rows.index(&of, axis, position) == rows.index(&of, axis, position - 1) + step
                        });
                    match self.segments.last_mut() {
                        Some(segment) if follows && segment.key == key => segment.len += 1,
                        _ => self.push(Segment { key, position, len: 1 })?,
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, segment: Segment) -> Result<()> {
        if self.segments.len() == self.segments.capacity() {
            self.segments.try_reserve(1).map_err(|source| {
                Error::new(ErrorKind::Allocation, "no memory for the plan")
                    .source(source)
                    .remedy("Read fewer or smaller selections at a time.")
            })?;
        }
        self.segments.push(segment);
        Ok(())
    }

    /// The segments of an axis.
    pub(crate) fn of(&self, axis: usize) -> &[Segment] {
        &self.segments[self.offsets[axis]..self.offsets[axis + 1]]
    }

    /// The segments of an axis with this key.
    pub(crate) fn with_key(&self, axis: usize, key: u64) -> &[Segment] {
        let all = self.of(axis);
        let from = all.partition_point(|segment| segment.key < key);
        let len = all[from..].partition_point(|segment| segment.key == key);
        &all[from..from + len]
    }

    /// Whether the segments of an axis hold each of its positions exactly once.
    pub(crate) fn tile(&self, axis: usize, len: usize) -> bool {
        let all = self.of(axis);
        let pair = |segment: &Segment| (segment.position, segment.len);
        if follow(all.iter().map(pair)) == Some(len) {
            return true;
        }
        let mut sorted: Vec<_> = all.iter().map(pair).collect();
        sorted.sort_unstable();
        follow(sorted.into_iter()) == Some(len)
    }
}

/// Where ranges end that start at zero and follow each other; `None` if they do not.
fn follow(mut ranges: impl Iterator<Item = (usize, usize)>) -> Option<usize> {
    ranges.try_fold(0, |end, (position, len)| (position == end).then_some(end + len))
}

/// The numbers of the bits that are set, in ascending order.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            bit
        })
    })
}
