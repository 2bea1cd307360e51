//! List offsets per kept axis, and the element at which each row starts in the values buffer.

use arrow_buffer::{OffsetBuffer, ScalarBuffer};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Output;
use crate::selection::{BoundForm, BoundSelections};

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
        let (rows, levels) = (selections.len(), selections.levels());
        match selections.form() {
            BoundForm::Boxes(boxes) => match (boxes.first_axis(), selections.shapes().ndim(), levels) {
                (Some((starts, stops)), 1, 1) => Self::of_lines(starts, stops),
                _ => match boxes.all_axes() {
                    Some((starts, stops)) => Self::of_extents(rows, levels, |row| {
                        let of_row = row * levels..(row + 1) * levels;
                        starts[of_row.clone()].iter().zip(&stops[of_row]).map(|(start, stop)| stop - start)
                    }),
                    None => Self::of_extents(rows, levels, |row| boxes.extents(row)),
                },
            },
            BoundForm::Rows(of) => Self::of_extents(rows, levels, |row| of.extents(row).iter().copied()),
        }
    }

    /// Number of elements of all rows, without laying them out.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if they are more than 2^63 - 1.
    pub(super) fn elements_of(selections: &BoundSelections) -> Result<usize> {
        let rows = selections.len();
        let sum = |row: &dyn Fn(usize) -> Option<i64>| {
            (0..rows).try_fold(0_i64, |sum, at| sum.checked_add(row(at)?)).ok_or_else(too_large)
        };
        Ok(match selections.form() {
            BoundForm::Boxes(boxes) => match (boxes.first_axis(), selections.shapes().ndim()) {
                (Some((starts, stops)), 1) => sum(&|row| Some(stops[row] - starts[row]))?,
                _ => sum(&|row| boxes.extents(row).try_fold(1, i64::checked_mul))?,
            },
            BoundForm::Rows(of) => {
                sum(&|row| of.extents(row).iter().try_fold(1_i64, |n, extent| n.checked_mul(*extent)))?
            }
        } as usize)
    }

    fn of_lines(starts: &[i64], stops: &[i64]) -> Result<Self> {
        let mut offsets = Offsets::new(starts.len())?;
        let mut end = 0_i64;
        let mut overflow = false;
        offsets.extend(starts.iter().zip(stops).map(|(start, stop)| {
            let (sum, over) = end.overflowing_add(stop - start);
            overflow |= over;
            end = sum;
            end
        }));
        if overflow {
            return Err(too_large());
        }
        let row_starts = offsets.finish();
        Ok(Self { levels: vec![OffsetBuffer::new(row_starts.clone())], row_starts })
    }

    fn of_extents<I: Iterator<Item = i64>>(rows: usize, levels: usize, extents: impl Fn(usize) -> I) -> Result<Self> {
        // Sizes first: a list too long to hold is refused before anything of that length is allocated.
        let mut lists = vec![0_i64; levels];
        let mut elements = 0_i64;
        for row in 0..rows {
            let mut count = 1_i64;
            for (level, extent) in extents(row).enumerate() {
                lists[level] = lists[level].checked_add(count).ok_or_else(too_large)?;
                count = count.checked_mul(extent).ok_or_else(too_large)?;
            }
            elements = elements.checked_add(count).ok_or_else(too_large)?;
        }
        let mut offsets = lists.iter().map(|&lists| Offsets::new(lists as usize)).collect::<Result<Vec<_>>>()?;
        let mut row_starts = Offsets::new(rows)?;
        let mut ends = vec![0_i64; levels];
        let mut end = 0_i64;
        for row in 0..rows {
            // An axis of extent zero empties the lists below it, so the products cannot exceed the sums above.
            let mut count = 1_i64;
            for (level, extent) in extents(row).enumerate() {
                let end = ends[level];
                offsets[level].extend_evenly(count as usize, end, extent);
                ends[level] += count * extent;
                count *= extent;
            }
            end += count;
            row_starts.extend([end]);
        }
        Ok(Self {
            levels: offsets.into_iter().map(|level| OffsetBuffer::new(level.finish())).collect(),
            row_starts: row_starts.finish(),
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

/// Offsets that are being written: a zero first, then one for each list.
struct Offsets {
    bytes: Output,
    /// Offsets written.
    len: usize,
}

impl Offsets {
    /// Room for the offsets of so many lists.
    fn new(lists: usize) -> Result<Self> {
        let bytes = lists.checked_add(1).and_then(|len| len.checked_mul(8)).ok_or_else(too_large)?;
        let mut offsets = Self { bytes: Output::new(bytes)?, len: 0 };
        offsets.extend([0]);
        Ok(offsets)
    }

    fn extend(&mut self, offsets: impl IntoIterator<Item = i64>) {
        let places = &mut self.bytes.as_mut_slice().as_chunks_mut::<8>().0[self.len..];
        let mut written = 0;
        for (place, offset) in places.iter_mut().zip(offsets) {
            *place = offset.to_ne_bytes();
            written += 1;
        }
        self.len += written;
    }

    /// Appends `end + extent`, `end + 2 * extent` and so on, `count` offsets.
    fn extend_evenly(&mut self, count: usize, end: i64, extent: i64) {
        let places = &mut self.bytes.as_mut_slice().as_chunks_mut::<8>().0[self.len..self.len + count];
        for (number, place) in (1..).zip(places) {
            *place = (end + number * extent).to_ne_bytes();
        }
        self.len += count;
    }

    fn finish(self) -> ScalarBuffer<i64> {
        ScalarBuffer::new(self.bytes.into_buffer(), 0, self.len)
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 elements or lists")
        .remedy("Read fewer or smaller selections at a time.")
}
