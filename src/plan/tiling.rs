//! The proof that the pieces of a plan tile its output.

use super::Plan;
use crate::error::{Error, ErrorKind, Result};

/// A plan whose pieces were checked to write no output element twice.
///
/// The piece of a row in a read chunk is not stored: it is the intersection of the row's box with the chunk's box,
/// computed by [`piece`](Self::piece). So two pieces of one row are disjoint as soon as they come from different
/// chunks, pieces of different rows are disjoint because rows own disjoint spans of the output, and it suffices to
/// check that
///
/// 1. chunk keys ascend strictly: no read chunk occurs twice;
/// 2. the rows of each chunk ascend strictly: no chunk serves a row twice;
/// 3. row starts ascend and each row's span is as long as its box has elements.
///
/// Together with the count of copied elements, which readers compare with the length of the output, every element is
/// written exactly once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiling<'a> {
    plan: &'a Plan,
}

impl<'a> Tiling<'a> {
    /// Checks `plan`, in time linear in its pieces and rows.
    pub(crate) fn check(plan: &'a Plan) -> Result<Self> {
        let broken = |what: &str| Error::new(ErrorKind::Internal, format!("broken plan: {what}"));
        let groups = plan.groups();
        let rows = plan.selections().len();
        if !groups.chunks().windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(broken("a read chunk occurs twice"));
        }
        for chunk in 0..groups.chunks().len() {
            let served = groups.rows(chunk);
            if !served.windows(2).all(|pair| pair[0] < pair[1])
                || served.last().is_some_and(|&row| row as usize >= rows)
            {
                return Err(broken("a read chunk serves a row twice"));
            }
        }
        let starts = plan.layout().row_starts();
        let ndim = plan.grid().ndim();
        let fits = |row: usize| {
            let elements = (0..ndim).try_fold(1_u64, |n, axis| n.checked_mul(plan.selections().extent(row, axis)));
            starts[row] >= 0
                && starts[row + 1] >= starts[row]
                && elements == Some((starts[row + 1] - starts[row]) as u64)
        };
        if starts.len() != rows + 1 || !(0..rows).all(fits) {
            return Err(broken("a row's span does not fit its box"));
        }
        Ok(Self { plan })
    }

    pub(crate) fn plan(self) -> &'a Plan {
        self.plan
    }

    /// Computes the piece of `row` in the read chunk that begins at `origin` (elements, one entry per axis).
    ///
    /// `None` where they do not meet, which a plan never asks.
    pub(crate) fn piece(self, row: u32, origin: &[u64], piece: &mut Piece) -> Option<()> {
        let row = row as usize;
        let selections = self.plan.selections();
        piece.row_start = self.plan.layout().row_starts()[row] as usize;
        piece.spans.clear();
        for (axis, &chunk_start) in origin.iter().enumerate() {
            let (start, stop) = (selections.start(row, axis), selections.stop(row, axis));
            let from = start.max(chunk_start);
            let to = stop.min(chunk_start.saturating_add(self.plan.grid().chunk_len(axis)));
            piece.spans.push(Span {
                source: from.checked_sub(chunk_start)? as usize,
                target: (from - start) as usize,
                len: to.checked_sub(from)? as usize,
                row_len: (stop - start) as usize,
            });
        }
        Some(())
    }
}

/// The part of one row that lies in one read chunk.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Element of the output at which the row starts.
    pub(crate) row_start: usize,
    /// One per axis of the array.
    pub(crate) spans: Vec<Span>,
}

/// One axis of a [`Piece`], in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where the piece starts in the read chunk.
    pub(crate) source: usize,
    /// Where the piece starts in the row's box.
    pub(crate) target: usize,
    /// Length of the piece; `source + len` is at most the chunk's length, `target + len` at most `row_len`.
    pub(crate) len: usize,
    /// Length of the row's box.
    pub(crate) row_len: usize,
}
