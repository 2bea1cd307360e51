//! Where rows go: the element at which each starts, how many lists there are, and the offsets of the lists.

use std::ops::Range;

use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Output;
use crate::selection::{BoundForm, BoundSelections};

/// Rows whose offsets are written in one go.
const AT_ONCE: usize = 1 << 12;

/// So many offsets take longer to write than it takes to wake other threads.
const WORTH_SHARING: usize = 1 << 16;

/// Where the rows of a result go.
///
/// Row `r` occupies the elements `row_starts()[r]..row_starts()[r + 1]`, in C order of its kept axes. The lists of the
/// first kept axis are the rows; each list holds as many lists of the next axis as its own is long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    row_starts: ScalarBuffer<i64>,
    /// One per kept axis.
    lists: Vec<usize>,
}

impl Layout {
    /// Lays out the rows of `selections`.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if the number of elements or of lists exceeds what 64-bit offsets or this machine's
    /// memory can hold.
    pub fn new(selections: &BoundSelections) -> Result<Self> {
        let rows = selections.len();
        if let Some(lens) = line_lens(selections) {
            return Ok(Self { row_starts: sums(rows, lens)?, lists: vec![rows] });
        }
        let mut lists = vec![0; selections.levels()];
        let mut lens = Sums::new(rows)?;
        with_extents(selections, Measure { rows: 0..rows, lists: &mut lists, lens: Some(&mut lens) })?;
        Ok(Self { row_starts: lens.finish(), lists: lists.into_iter().map(|lists| lists as usize).collect() })
    }

    /// Number of elements of all rows, and of all their lists together, without laying them out.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if they are more than 2^63 - 1.
    pub(super) fn sizes_of(selections: &BoundSelections) -> Result<(usize, usize)> {
        let mut lists = vec![0; selections.levels()];
        let elements = if let Some(mut lens) = line_lens(selections) {
            lists.fill(selections.len() as i64);
            lens.try_fold(0, i64::checked_add).ok_or_else(too_large)?
        } else {
            with_extents(selections, Measure { rows: 0..selections.len(), lists: &mut lists, lens: None })?
        };
        let lists = lists.into_iter().try_fold(0, i64::checked_add).ok_or_else(too_large)?;
        Ok((elements as usize, lists as usize))
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

    /// Number of lists of each kept axis, outermost first. Those of the first are the rows.
    #[must_use]
    pub fn lists(&self) -> &[usize] {
        &self.lists
    }

    /// Whether it pays to write the offsets with several threads.
    pub(crate) fn is_large(&self) -> bool {
        self.lists.len() > 1 && self.lists.iter().sum::<usize>() >= WORTH_SHARING
    }

    /// The offsets of the lists of `selections`, which this is the layout of: for each kept axis, outermost first, one
    /// entry per list plus one. Many are written by all threads of the pool that this runs in.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if there is no memory for them.
    pub(crate) fn offsets(&self, selections: &BoundSelections) -> Result<Vec<OffsetBuffer<i64>>> {
        if self.lists.len() == 1 {
            return Ok(vec![OffsetBuffer::new(self.row_starts.clone())]);
        }
        let mut levels = self.lists.iter().map(|&lists| Sums::new(lists)).collect::<Result<Vec<_>>>()?;
        let rows = self.row_starts.len() - 1;
        let blocks: Vec<_> =
            (0..rows).step_by(AT_ONCE).map(|start| start..rows.min(start.saturating_add(AT_ONCE))).collect();
        let lists_of = |block: &Range<usize>| {
            let mut lists = vec![0; self.lists.len()];
            with_extents(selections, Measure { rows: block.clone(), lists: &mut lists, lens: None }).map(|_| lists)
        };
        let shared = self.is_large() && blocks.len() > 1;
        let counts: Vec<_> = if shared {
            blocks.par_iter().map(lists_of).collect::<Result<_>>()?
        } else {
            blocks.iter().map(lists_of).collect::<Result<_>>()?
        };
        // The places of each block's offsets, and where its first list of each axis starts.
        let mut rest: Vec<_> = levels.iter_mut().map(Sums::places).collect();
        let mut ends = vec![0; self.lists.len()];
        let mut work = Vec::with_capacity(blocks.len());
        for (block, counts) in blocks.into_iter().zip(counts) {
            let mut places = Vec::with_capacity(rest.len());
            for (rest, &count) in rest.iter_mut().zip(&counts) {
                let (mine, others) = std::mem::take(rest).split_at_mut(count as usize);
                places.push(mine);
                *rest = others;
            }
            if let Some(last) = ends.last_mut() {
                *last = self.row_starts[block.start];
            }
            work.push(Write { rows: block, places, ends: ends.clone() });
            for (end, &below) in ends.iter_mut().zip(counts.iter().skip(1)) {
                *end += below;
            }
        }
        if shared {
            work.into_par_iter().try_for_each(|write| with_extents(selections, write))?;
        } else {
            work.into_iter().try_for_each(|write| with_extents(selections, write))?;
        }
        Ok(levels.into_iter().map(|level| OffsetBuffer::new(level.finish())).collect())
    }

    /// Takes over the buffer of `other` where it is equal, so that columns of one batch share it.
    pub(crate) fn share(&mut self, other: &Self) {
        if self.row_starts == other.row_starts {
            self.row_starts = other.row_starts.clone();
        }
    }
}

/// The lengths of rows that are ranges of the only axis.
fn line_lens(selections: &BoundSelections) -> Option<impl Iterator<Item = i64>> {
    match (selections.form(), selections.nulls(), selections.levels(), selections.shapes().ndim()) {
        (BoundForm::Boxes(boxes), None, 1, 1) => {
            boxes.first_axis().map(|(starts, stops)| starts.iter().zip(stops).map(|(start, stop)| stop - start))
        }
        _ => None,
    }
}

/// What is done with the lengths of the kept axes of rows.
trait Extents {
    type Outcome;

    fn each<I: Iterator<Item = i64>>(self, extents: impl Fn(usize) -> I) -> Self::Outcome;
}

/// Does `work` with the rows of `selections`. The axes of null rows have no length.
fn with_extents<W: Extents>(selections: &BoundSelections, work: W) -> W::Outcome {
    let levels = selections.levels();
    match (selections.form(), selections.nulls()) {
        (BoundForm::Boxes(boxes), None) => match boxes.all_axes() {
            Some((starts, stops)) => work.each(|row| {
                let of_row = row * levels..(row + 1) * levels;
                starts[of_row.clone()].iter().zip(&stops[of_row]).map(|(start, stop)| stop - start)
            }),
            None => work.each(|row| boxes.extents(row)),
        },
        (BoundForm::Rows(rows), None) => work.each(|row| rows.extents(row).iter().copied()),
        (BoundForm::Boxes(boxes), Some(nulls)) => {
            work.each(|row| boxes.extents(row).map(move |extent| if nulls.is_null(row) { 0 } else { extent }))
        }
        (BoundForm::Rows(rows), Some(nulls)) => {
            work.each(|row| rows.extents(row).iter().map(move |&extent| if nulls.is_null(row) { 0 } else { extent }))
        }
    }
}

/// Counts the lists of each axis and the elements of rows, and writes where the rows end.
struct Measure<'a> {
    rows: Range<usize>,
    lists: &'a mut [i64],
    lens: Option<&'a mut Sums>,
}

impl Extents for Measure<'_> {
    type Outcome = Result<i64>;

    fn each<I: Iterator<Item = i64>>(self, extents: impl Fn(usize) -> I) -> Result<i64> {
        let mut elements = 0_i64;
        let mut ends = self.lens.map(Sums::places).unwrap_or_default().iter_mut();
        for row in self.rows {
            let mut count = 1_i64;
            for (lists, extent) in self.lists.iter_mut().zip(extents(row)) {
                *lists = lists.checked_add(count).ok_or_else(too_large)?;
                count = count.checked_mul(extent).ok_or_else(too_large)?;
            }
            elements = elements.checked_add(count).ok_or_else(too_large)?;
            if let Some(end) = ends.next() {
                *end = elements.to_ne_bytes();
            }
        }
        Ok(elements)
    }
}

/// Writes the offsets of the lists of rows to their places, one slice per axis, from where `ends` says on.
struct Write<'a> {
    rows: Range<usize>,
    places: Vec<&'a mut [[u8; 8]]>,
    ends: Vec<i64>,
}

impl Extents for Write<'_> {
    type Outcome = Result<()>;

    fn each<I: Iterator<Item = i64>>(mut self, extents: impl Fn(usize) -> I) -> Result<()> {
        let mut written = vec![0_usize; self.places.len()];
        for row in self.rows {
            // An axis of extent zero empties the lists below it, so the products cannot exceed the sums of `Measure`.
            let mut count = 1_i64;
            for (level, extent) in extents(row).enumerate() {
                let end = self.ends[level];
                let from = written[level];
                for (number, place) in (1..).zip(&mut self.places[level][from..from + count as usize]) {
                    *place = (end + number * extent).to_ne_bytes();
                }
                written[level] += count as usize;
                count *= extent;
                self.ends[level] += count;
            }
        }
        Ok(())
    }
}

/// Running sums: a zero, then one for each of so many lengths.
struct Sums {
    bytes: Output,
    len: usize,
}

impl Sums {
    fn new(len: usize) -> Result<Self> {
        let bytes = len.checked_add(1).and_then(|len| len.checked_mul(8)).ok_or_else(too_large)?;
        let mut sums = Self { bytes: Output::new(bytes)?, len };
        if let Some(first) = sums.bytes.as_mut_slice().first_chunk_mut::<8>() {
            *first = [0; 8];
        }
        Ok(sums)
    }

    /// Where the sums after the zero go.
    fn places(&mut self) -> &mut [[u8; 8]] {
        &mut self.bytes.as_mut_slice().as_chunks_mut::<8>().0[1..]
    }

    fn finish(self) -> ScalarBuffer<i64> {
        ScalarBuffer::new(self.bytes.into_buffer(), 0, self.len + 1)
    }
}

fn sums(len: usize, lens: impl Iterator<Item = i64>) -> Result<ScalarBuffer<i64>> {
    let mut sums = Sums::new(len)?;
    let (mut end, mut overflow) = (0_i64, false);
    for (place, len) in sums.places().iter_mut().zip(lens) {
        let (sum, over) = end.overflowing_add(len);
        overflow |= over;
        end = sum;
        *place = end.to_ne_bytes();
    }
    if overflow { Err(too_large()) } else { Ok(sums.finish()) }
}

fn too_large() -> Error {
    Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 elements or lists")
        .remedy("Read fewer or smaller selections at a time.")
}

#[cfg(test)]
mod tests {
    use arrow_buffer::NullBuffer;

    use super::*;
    use crate::selection::{Item, Selections};

    /// Lists of every level, one after the other.
    fn naive(extents: &[Vec<i64>], levels: usize) -> Vec<Vec<i64>> {
        let mut offsets = vec![vec![0]; levels];
        for row in extents {
            let mut count = 1;
            for (level, &extent) in row.iter().enumerate() {
                for _ in 0..count {
                    let end = offsets[level][offsets[level].len() - 1];
                    offsets[level].push(end + extent);
                }
                count *= extent;
            }
        }
        offsets
    }

    #[test]
    fn offsets_of_many_rows_are_written_in_blocks() {
        let rows = if cfg!(miri) { 10 } else { 8 * AT_ONCE + 17 };
        let extent = |row: usize, axis: usize| (row * 7 + axis * 5 + row / 11) as i64 % [4, 3, 6][axis];
        let starts: Vec<i64> = (0..rows * 3).map(|at| at as i64 % 5).collect();
        let stops: Vec<i64> = starts.iter().enumerate().map(|(at, start)| start + extent(at / 3, at % 3)).collect();
        let nulls: NullBuffer = (0..rows).map(|row| row % 5 != 3).collect();
        for (is_stepped, nulls) in [(false, None), (true, None), (false, Some(&nulls)), (true, Some(&nulls))] {
            let mut boxes = Selections::boxes(3, starts.clone(), stops.clone()).unwrap();
            if is_stepped {
                boxes = boxes.with_steps(vec![1; rows * 3]).unwrap();
            }
            let bound = boxes.with_nulls(nulls.cloned()).unwrap().bind(&[20, 20, 20]).unwrap();
            let of_row = |row: usize| {
                let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
                (0..3).map(|axis| if is_null { 0 } else { extent(row, axis) }).collect()
            };
            let extents: Vec<Vec<i64>> = (0..rows).map(of_row).collect();
            let layout = Layout::new(&bound).unwrap();
            assert_eq!(Layout::sizes_of(&bound).unwrap(), (layout.elements(), layout.lists().iter().sum()));
            assert!(layout.is_large() || cfg!(miri));
            let ends = extents.iter().scan(0, |end, row| {
                *end += row.iter().product::<i64>();
                Some(*end)
            });
            assert!(layout.row_starts()[1..].iter().copied().eq(ends));
            let offsets = layout.offsets(&bound).unwrap();
            let offsets: Vec<&[i64]> = offsets.iter().map(|offsets| &offsets[..]).collect();
            assert_eq!(offsets, naive(&extents, 3));
        }
    }

    #[test]
    fn what_64_bits_do_not_count_is_refused() {
        let far = i64::MAX;
        for bound in [
            Selections::ranges(vec![0; 3], vec![far; 3]).unwrap().bind(&[far as u64]).unwrap(),
            Selections::boxes(2, vec![0; 2], vec![far; 2]).unwrap().bind(&[far as u64; 2]).unwrap(),
            // No elements, but more lists than anybody can count.
            Selections::items([[Item::FULL, Item::FULL, Item::slice(0, 0)]])
                .bind(&[far as u64, far as u64, 1])
                .unwrap(),
        ] {
            assert_eq!(Layout::new(&bound).unwrap_err().kind(), ErrorKind::Allocation);
            assert_eq!(Layout::sizes_of(&bound).unwrap_err().kind(), ErrorKind::Allocation);
        }
    }
}
