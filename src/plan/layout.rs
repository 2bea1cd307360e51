//! List offsets per kept axis, and the element at which each row starts in the values buffer.

use arrow_buffer::{OffsetBuffer, ScalarBuffer};

use super::reserve;
use crate::error::{Error, ErrorKind, Result};
use crate::selection::BoundSelections;

/// Where the rows of a result go: one offsets buffer per kept axis and the start of each row among the values.
///
/// Row `r` occupies the elements `row_starts()[r]..row_starts()[r + 1]`, in C order of its kept axes. Level 0 of
/// [`offsets`](Self::offsets) has one entry per row plus one; each further level has one entry per list of the level
/// before it, plus one.
#[derive(Debug, Clone)]
pub struct Layout {
    levels: Vec<OffsetBuffer<i64>>,
    row_starts: ScalarBuffer<i64>,
}

impl Layout {
    /// Lays out the rows of `selections`.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if the number of elements or of lists exceeds what 64-bit offsets or this machine's
    /// memory can hold.
    pub fn new(selections: &BoundSelections) -> Result<Self> {
        let rows = selections.len();
        let axes = selections.shape().len();
        let levels = selections.levels();

        if let (Some((starts, stops)), 1, 1) = (selections.first_axis(), axes, levels) {
            let mut offsets = reserve(rows.saturating_add(1), "rows")?;
            offsets.push(0);
            let mut end = 0_i64;
            for (start, stop) in starts.iter().zip(stops) {
                end = end.checked_add(stop - start).ok_or_else(too_large)?;
                offsets.push(end);
            }
            let row_starts = ScalarBuffer::from(offsets);
            return Ok(Self { levels: vec![OffsetBuffer::new(row_starts.clone())], row_starts });
        }

        let kept_extents = |row: usize| {
            (0..axes)
                .filter(move |&axis| selections.keeps(row, axis))
                .map(move |axis| selections.extent(row, axis) as i64)
        };
        // Sizes first: a list too long to hold is refused before anything of that length is allocated.
        let mut lists = vec![0_i64; levels];
        let mut elements = 0_i64;
        for row in 0..rows {
            let mut count = 1_i64;
            for (level, extent) in kept_extents(row).enumerate() {
                lists[level] = lists[level].checked_add(count).ok_or_else(too_large)?;
                count = count.checked_mul(extent).ok_or_else(too_large)?;
            }
            elements = elements.checked_add(count).ok_or_else(too_large)?;
        }
        let mut offsets = Vec::with_capacity(levels);
        for &lists in &lists {
            let mut level = reserve((lists as usize).saturating_add(1), "list offsets")?;
            level.push(0_i64);
            offsets.push(level);
        }
        let mut row_starts = reserve(rows.saturating_add(1), "rows")?;
        row_starts.push(0_i64);
        let mut ends = vec![0_i64; levels];
        let mut end = 0_i64;
        for row in 0..rows {
            // An axis of extent zero empties the lists below it, so the products cannot exceed the sums above.
            let mut count = 1_i64;
            for (level, extent) in kept_extents(row).enumerate() {
                // An iterator of known length, so that this compiles to a loop without checks.
                let end = ends[level];
                offsets[level].extend((1..=count as usize).map(|list| end + list as i64 * extent));
                ends[level] += count * extent;
                count *= extent;
            }
            end += count;
            row_starts.push(end);
        }
        Ok(Self {
            levels: offsets.into_iter().map(|level| OffsetBuffer::new(level.into())).collect(),
            row_starts: row_starts.into(),
        })
    }

    /// One offsets buffer per kept axis, outermost first.
    #[must_use]
    pub fn offsets(&self) -> &[OffsetBuffer<i64>] {
        &self.levels
    }

    /// The element at which each row starts, and the number of elements: one entry per row plus one.
    #[must_use]
    pub fn row_starts(&self) -> &[i64] {
        &self.row_starts
    }

    /// Number of elements of the result.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.row_starts.last().map_or(0, |&end| end as usize)
    }

    /// Takes over the buffers of `other` where they are equal, so that columns of one batch share them.
    pub(crate) fn share(&mut self, other: &Self) {
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            if mine == theirs {
                *mine = theirs.clone();
            }
        }
        if self.row_starts == other.row_starts {
            self.row_starts = other.row_starts.clone();
        }
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 elements or lists")
        .remedy("Read fewer or smaller selections at a time.")
}
