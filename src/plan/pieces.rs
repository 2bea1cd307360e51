//! What is grouped: rows by the read chunks that they touch.

use std::ops::Range;

use super::blocks::each;
use super::grid::Grid;
use super::segments::Segments;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::selection::boxes::Boxes;
use crate::selection::rows::Rows;
use crate::selection::{BoundForm, BoundSelections};

/// Pieces of numbered things, each of which has at most one with each key.
pub(super) trait Pieces: Sync {
    /// A table of so many keys is always worth it.
    const FEW_KEYS: u64 = 1 << 12;

    /// How many things there are. A block is a range of them.
    fn len(&self) -> usize;

    /// Calls `visit(key, number)` for each piece of a block; numbers ascend.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] if the caller does not want it any more.
    fn for_each(&self, block: Range<usize>, visit: impl FnMut(u64, u32)) -> Result<()>;

    /// How many pieces each of `blocks` has, which follow each other.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if all together have more than anybody can store.
    fn count(&self, blocks: &[Range<usize>]) -> Result<Vec<usize>>;

    fn cancel(&self) -> &Cancel;
}

/// Rows of selections from one array.
pub(super) struct RowPieces<'a> {
    pub(super) selections: &'a BoundSelections,
    /// Where the rows are not boxes.
    pub(super) segments: Option<&'a Segments>,
    /// Only these rows, in ascending order.
    pub(super) only: Option<&'a [u32]>,
    pub(super) grid: &'a Grid,
    pub(super) cancel: &'a Cancel,
}

impl Pieces for RowPieces<'_> {
    fn len(&self) -> usize {
        self.only.map_or_else(|| self.selections.len(), <[u32]>::len)
    }

    fn for_each(&self, block: Range<usize>, visit: impl FnMut(u64, u32)) -> Result<()> {
        match self.selections.form() {
            BoundForm::Boxes(boxes) => {
                match (boxes.first_axis().zip(self.grid.equal_len(0)), self.grid.ndim(), self.only) {
                    (Some((lines, chunk)), 1, None) => self.for_each_of_lines(lines, chunk, block, visit),
                    _ => self.for_each_of_boxes(boxes, block, visit),
                }
            }
            BoundForm::Rows(rows) => self.for_each_of_rows(rows, block, visit),
        }
    }

    fn count(&self, blocks: &[Range<usize>]) -> Result<Vec<usize>> {
        let counts = each(blocks.to_vec(), |block| self.count_from(0, block, usize::MAX))?;
        let mut before = 0_usize;
        for (&count, block) in counts.iter().zip(blocks) {
            let pieces = before.saturating_add(count);
            // Where they are too many, the row with which they are is to be named.
            before = if pieces <= MOST_PIECES { pieces } else { self.count_from(before, block.clone(), MOST_PIECES)? };
        }
        Ok(counts)
    }

    fn cancel(&self) -> &Cancel {
        self.cancel
    }
}

const MOST_PIECES: usize = isize::MAX as usize;

impl RowPieces<'_> {
    fn rows(&self, block: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        block.map(|at| self.only.map_or(at, |only| only[at] as usize))
    }

    /// The distinct keys of an axis of a row.
    fn keys(&self, axis: usize, keys: &mut Vec<u64>) {
        keys.clear();
        if let Some(segments) = self.segments {
            segments.keys(axis, keys);
        }
    }

    /// The pieces of a block and of what is in front of it; an error with the row with which they are more than `most`.
    fn count_from(&self, before: usize, block: Range<usize>, most: usize) -> Result<usize> {
        let mut pieces = before;
        let mut keys = Vec::new();
        let mut pulse = self.cancel.pulse();
        for row in self.rows(block) {
            pulse.beat()?;
            let here = match self.selections.form() {
                _ if self.selections.is_null(row) => 0,
                BoundForm::Boxes(boxes) => (0..self.grid.ndim()).fold(1_usize, |pieces, axis| {
                    let (start, stop) = (boxes.start(row, axis), boxes.stop(row, axis));
                    let touched = if start == stop {
                        0
                    } else {
                        self.grid.chunk_of(axis, stop - 1) - self.grid.chunk_of(axis, start) + 1
                    };
                    if touched == 0 { 0 } else { pieces.saturating_mul(touched as usize) }
                }),
                BoundForm::Rows(rows) if rows.of(row).is_empty() && self.grid.ndim() > 0 => 0,
                BoundForm::Rows(rows) => rows.of(row).fold(1_usize, |pieces, axis| {
                    self.keys(axis, &mut keys);
                    pieces.saturating_mul(keys.len())
                }),
            };
            pieces = pieces.saturating_add(here);
            if pieces > most {
                return Err(Error::new(ErrorKind::Allocation, "more than 2^63 - 1 pieces")
                    .at_selection(row)
                    .remedy("Read fewer or smaller selections at a time."));
            }
        }
        Ok(pieces)
    }

    fn for_each_of_lines(
        &self,
        (starts, stops): (&[i64], &[i64]),
        chunk: u64,
        block: Range<usize>,
        mut visit: impl FnMut(u64, u32),
    ) -> Result<()> {
        let grid = self.grid;
        let mut pulse = self.cancel.pulse();
        for ((row, &start), &stop) in block.clone().zip(&starts[block.clone()]).zip(&stops[block]) {
            pulse.beat()?;
            if start < stop {
                let first = grid.chunk_of(0, start as u64);
                visit(grid.key_part(0, first), row as u32);
                // Most ranges end where they start: a product tells that faster than a quotient.
                if stop as u64 > (first + 1) * chunk {
                    for index in first + 1..=grid.chunk_of(0, stop as u64 - 1) {
                        pulse.beat()?;
                        visit(grid.key_part(0, index), row as u32);
                    }
                }
            }
        }
        Ok(())
    }

    fn for_each_of_boxes(&self, boxes: &Boxes, block: Range<usize>, mut visit: impl FnMut(u64, u32)) -> Result<()> {
        let grid = self.grid;
        let mut pulse = self.cancel.pulse();
        let ndim = grid.ndim();
        let mut first = vec![0; ndim];
        let mut last = vec![0; ndim];
        let mut at = vec![0; ndim];
        'rows: for row in self.rows(block) {
            for axis in 0..ndim {
                let (start, stop) = (boxes.start(row, axis), boxes.stop(row, axis));
                if start == stop {
                    continue 'rows;
                }
                first[axis] = grid.chunk_of(axis, start);
                last[axis] = grid.chunk_of(axis, stop - 1);
            }
            if self.selections.is_null(row) {
                continue;
            }
            at.copy_from_slice(&first);
            loop {
                pulse.beat()?;
                let key = at.iter().enumerate().map(|(axis, &index)| grid.key_part(axis, index)).sum();
                visit(key, row as u32);
                let Some(axis) = (0..ndim).rev().find(|&axis| at[axis] < last[axis]) else { break };
                at[axis] += 1;
                at[axis + 1..].copy_from_slice(&first[axis + 1..]);
            }
        }
        Ok(())
    }

    fn for_each_of_rows(&self, rows: &Rows, block: Range<usize>, mut visit: impl FnMut(u64, u32)) -> Result<()> {
        let mut pulse = self.cancel.pulse();
        // The distinct keys of each axis of a row, and one of each.
        let mut keys: Vec<Vec<u64>> = Vec::new();
        let mut at = Vec::new();
        for row in self.rows(block) {
            pulse.beat()?;
            let axes = rows.of(row);
            if self.selections.is_null(row) || (axes.is_empty() && self.grid.ndim() > 0) {
                continue;
            }
            keys.resize_with(axes.len().max(keys.len()), Vec::new);
            for (axis, keys) in axes.clone().zip(&mut keys) {
                self.keys(axis, keys);
            }
            let keys = &keys[..axes.len()];
            if keys.iter().any(Vec::is_empty) {
                continue;
            }
            at.clear();
            at.resize(axes.len(), 0);
            loop {
                pulse.beat()?;
                visit(keys.iter().zip(&at).map(|(keys, &at)| keys[at]).sum(), row as u32);
                let Some(axis) = (0..at.len()).rev().find(|&axis| at[axis] + 1 < keys[axis].len()) else { break };
                at[axis] += 1;
                at[axis + 1..].fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::plan::blocks::Threads;
    use crate::selection::Selections;

    #[test]
    fn too_many_pieces_are_blamed_on_the_same_row_by_any_number_of_threads() {
        let grid = Grid::new(&[1 << 62], &[NonZeroU64::MIN], &[NonZeroU64::MIN]).unwrap();
        let (quarter, cancel) = (1_i64 << 61, Cancel::default());
        for (lens, at) in [
            (vec![quarter, 1, 0, quarter, quarter, 5, quarter, 9, quarter], Some(6)),
            (vec![quarter, quarter, quarter, quarter - 1, 0, 1], Some(5)),
            (vec![quarter, quarter, quarter, quarter - 2, 0, 1], None),
        ] {
            let selections = Selections::ranges(vec![0; lens.len()], lens).unwrap().bind(&[1 << 62]).unwrap();
            let pieces =
                RowPieces { selections: &selections, segments: None, only: None, grid: &grid, cancel: &cancel };
            for threads in 1..=7 {
                let count = pieces.count(&Threads::exactly(threads).cut(selections.len()));
                let error = count.as_ref().err();
                assert_eq!(error.and_then(Error::selection), at);
                assert_eq!(count.map_or(0, |counts| counts.iter().sum()), if at.is_some() { 0 } else { MOST_PIECES });
            }
        }
    }
}
