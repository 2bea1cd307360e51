//! The points of one axis of a row, by the read chunks that they lie in.

use std::ops::Range;

use super::blocks::each;
use super::grid::Grid;
use super::pieces::Pieces;
use crate::cancel::{Cancel, Pulse};
use crate::error::Result;
use crate::selection::rows::{Axis, Rows};

/// So many points are compared between two looks at the caller's wish.
const AT_ONCE: usize = 1 << 16;

/// The positions of an axis of points.
pub(super) struct PointPieces<'a> {
    len: usize,
    /// Axes of the array in ascending order, and the indices along each.
    coordinates: Vec<(usize, &'a [i64])>,
    grid: &'a Grid,
    cancel: &'a Cancel,
}

impl<'a> PointPieces<'a> {
    pub(super) fn new(rows: &'a Rows, axis: &Axis, grid: &'a Grid, cancel: &'a Cancel) -> Self {
        Self { len: axis.len(), coordinates: rows.coordinates(axis).collect(), grid, cancel }
    }

    /// Number of coordinates of all points.
    pub(super) fn coordinates(&self) -> usize {
        self.len * self.coordinates.len()
    }

    /// Whether the point at `position` is next to the one before it, along the last of their axes.
    #[inline]
    pub(super) fn follows(&self, position: usize) -> bool {
        let Some(((_, last), others)) = self.coordinates.split_last() else { return false };
        position > 0
            && last[position - 1] + 1 == last[position]
            && others.iter().all(|(_, indices)| indices[position - 1] == indices[position])
    }

    /// Number of runs of points that follow each other, wherever read chunks end.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub(super) fn runs(&self, blocks: &[Range<usize>]) -> Result<usize> {
        let count = |block: Range<usize>| {
            let mut runs = 0;
            for start in block.clone().step_by(AT_ONCE) {
                self.cancel.check()?;
                runs += (start..block.end.min(start + AT_ONCE)).filter(|&position| !self.follows(position)).count();
            }
            Ok(runs)
        };
        Ok(each(blocks.to_vec(), count)?.into_iter().sum())
    }

    /// Calls `visit(key, position)` for some positions in order.
    ///
    /// # Errors
    /// Those of `visit`, and [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    #[inline]
    pub(super) fn for_each_key(
        &self,
        positions: Range<usize>,
        pulse: &mut Pulse<'_>,
        mut visit: impl FnMut(u64, usize) -> Result<()>,
    ) -> Result<()> {
        let part = |axis: usize, index: i64| self.grid.key_part(axis, self.grid.chunk_of(axis, index as u64));
        match &self.coordinates[..] {
            &[(axis, indices)] => {
                for (position, &index) in positions.clone().zip(&indices[positions]) {
                    pulse.beat()?;
                    visit(part(axis, index), position)?;
                }
            }
            &[(y, ys), (x, xs)] => {
                for ((position, &at_y), &at_x) in positions.clone().zip(&ys[positions.clone()]).zip(&xs[positions]) {
                    pulse.beat()?;
                    visit(part(y, at_y) + part(x, at_x), position)?;
                }
            }
            coordinates => {
                for position in positions {
                    pulse.beat()?;
                    let key = coordinates.iter().map(|&(axis, indices)| part(axis, indices[position])).sum();
                    visit(key, position)?;
                }
            }
        }
        Ok(())
    }
}

impl Pieces for PointPieces<'_> {
    /// Of many rows, each would make a table of its own.
    const FEW_KEYS: u64 = 0;

    fn len(&self) -> usize {
        self.len
    }

    fn for_each(&self, block: Range<usize>, mut visit: impl FnMut(u64, u32)) -> Result<()> {
        self.for_each_key(block, &mut self.cancel.pulse(), |key, position| {
            visit(key, position as u32);
            Ok(())
        })
    }

    fn count(&self, blocks: &[Range<usize>]) -> Result<Vec<usize>> {
        Ok(blocks.iter().map(Range::len).collect())
    }

    fn cancel(&self) -> &Cancel {
        self.cancel
    }
}
