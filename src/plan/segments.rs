//! Rows that are more than boxes, cut at the borders of read chunks: which positions of each of their axes lie where.

use super::grid::Grid;
use super::reserve;
use crate::cancel::{Cancel, Pulse};
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
    pub(super) fn new(selections: &BoundSelections, grids: &[Grid], cancel: &Cancel) -> Result<Option<Self>> {
        let BoundForm::Rows(rows) = selections.form() else { return Ok(None) };
        let mut found = Self { offsets: Vec::with_capacity(rows.axes().len() + 1), segments: Vec::new() };
        found.offsets.push(0);
        let mut pulse = cancel.pulse();
        for row in 0..selections.len() {
            pulse.beat()?;
            let grid = &grids[selections.shapes().source(row)];
            let axes = &rows.axes()[rows.of(row)];
            // A row without elements needs no read chunk, however long its other axes are.
            let is_empty = axes.iter().any(|axis| axis.len() == 0);
            for axis in axes {
                let from = found.segments.len();
                if !is_empty {
                    found.cut(rows, axis, grid, &mut pulse).map_err(|error| error.at_selection(row))?;
                }
                sort(&mut found.segments[from..], grid.keys()).map_err(|error| error.at_selection(row))?;
                found.offsets.push(found.segments.len());
            }
        }
        Ok(Some(found))
    }

    fn cut(&mut self, rows: &Rows, axis: &Axis, grid: &Grid, pulse: &mut Pulse<'_>) -> Result<()> {
        match *axis {
            Axis::Steps { axis, range } => {
                let chunks = grid.chunks(axis);
                let distance = range.step.unsigned_abs();
                let mut position = 0;
                while position < range.len as usize {
                    pulse.beat()?;
                    let index = (range.start + position as i64 * range.step) as u64;
                    let number = chunks.of(index);
                    let (start, len) = chunks.bounds(number);
                    let left = if range.step > 0 { len - 1 - (index - start) } else { index - start };
                    let len = ((left / distance + 1) as usize).min(range.len as usize - position);
                    self.push(Segment { key: grid.key_part(axis, number), position, len })?;
                    position += len;
                }
            }
            Axis::Points { axes, .. } if axes.is_power_of_two() => {
                let of = axes.trailing_zeros() as usize;
                let chunks = grid.chunks(of);
                let (mut number, mut key, mut expected) = (u64::MAX, 0, i64::MAX);
                let indices = rows.coordinates(axis).next().map_or(&[][..], |(_, indices)| indices);
                let breaks = indices.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
                self.make_room(breaks + 1)?;
                for (position, &index) in indices.iter().enumerate() {
                    pulse.beat()?;
                    let next = chunks.of(index as u64);
                    if next != number {
                        (number, key) = (next, grid.key_part(of, next));
                    } else if index == expected {
                        if let Some(segment) = self.segments.last_mut() {
                            segment.len += 1;
                        }
                        expected = index + 1;
                        continue;
                    }
                    self.push(Segment { key, position, len: 1 })?;
                    expected = index + 1;
                }
            }
            Axis::Points { axes, len, .. } => {
                let mut keys: Vec<u64> = reserve(len, "points")?;
                keys.resize(len, 0);
                for (of, indices) in rows.coordinates(axis) {
                    let chunks = grid.chunks(of);
                    for (key, &index) in keys.iter_mut().zip(indices) {
                        *key += grid.key_part(of, chunks.of(index as u64));
                    }
                }
                let last = 63 - axes.leading_zeros() as usize;
                let follows = |position: usize| {
                    rows.coordinates(axis)
                        .all(|(of, indices)| indices[position] - indices[position - 1] == i64::from(of == last))
                };
                for (position, &key) in keys.iter().enumerate() {
                    pulse.beat()?;
                    match self.segments.last_mut() {
                        Some(segment) if position > 0 && segment.key == key && follows(position) => segment.len += 1,
                        _ => self.push(Segment { key, position, len: 1 })?,
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, segment: Segment) -> Result<()> {
        if self.segments.len() == self.segments.capacity() {
            self.make_room(1)?;
        }
        self.segments.push(segment);
        Ok(())
    }

    fn make_room(&mut self, more: usize) -> Result<()> {
        self.segments.try_reserve(more).map_err(|source| {
            Error::new(ErrorKind::Allocation, "no memory for the plan")
                .source(source)
                .remedy("Read fewer or smaller selections at a time.")
        })
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

    /// Whether the segments of an axis of `len` positions hold each exactly once and ascend by key. `seen` is a buffer.
    pub(crate) fn tile(&self, axis: usize, len: usize, seen: &mut Vec<u64>) -> bool {
        let all = self.of(axis);
        if !all.is_sorted_by_key(|segment| segment.key) {
            return false;
        }
        let follows =
            |end: usize, segment: &Segment| (segment.position == end).then(|| end.checked_add(segment.len)).flatten();
        if all.iter().try_fold(0, follows) == Some(len) {
            return true;
        }
        // There are at least as many segments as words where it matters: axes are long because of many indices, or have
        // few segments that follow each other forwards or backwards.
        if all.iter().rev().try_fold(0, follows) == Some(len) {
            return true;
        }
        seen.clear();
        seen.resize(len.div_ceil(64), 0);
        let mut left = len;
        for segment in all {
            let end = segment.position.checked_add(segment.len).filter(|&end| end <= len);
            if end.is_none() || segment.len > left {
                return false;
            }
            left -= segment.len;
            for position in segment.position..segment.position + segment.len {
                let (word, bit) = (&mut seen[position / 64], 1 << (position % 64));
                if *word & bit != 0 {
                    return false;
                }
                *word |= bit;
            }
        }
        left == 0
    }
}

/// Sorts the segments of an axis by key, those of one key by position, as they stand. Keys are less than `keys`.
fn sort(segments: &mut [Segment], keys: u64) -> Result<()> {
    if segments.is_sorted_by_key(|segment| segment.key) {
        return Ok(());
    }
    if segments.len() < 64 || keys > segments.len() as u64 * 4 {
        segments.sort_by_key(|segment| segment.key);
        return Ok(());
    }
    // Counting is several times faster than comparing.
    let mut next: Vec<usize> = reserve(keys as usize, "read chunks")?;
    next.resize(keys as usize, 0);
    for segment in &*segments {
        next[segment.key as usize] += 1;
    }
    let mut end = 0;
    for count in &mut next {
        end += std::mem::replace(count, end);
    }
    let mut unsorted = reserve(segments.len(), "indices")?;
    unsorted.extend_from_slice(segments);
    for segment in unsorted {
        let at = &mut next[segment.key as usize];
        segments[*at] = segment;
        *at += 1;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::selection::{Indexing, Indices, Item, Mask, Selections};

    fn grid(shape: &[u64], chunk: &[u64]) -> Grid {
        let nonzero = |lengths: &[u64]| lengths.iter().map(|&len| NonZeroU64::new(len).unwrap()).collect::<Vec<_>>();
        Grid::new(shape, &nonzero(chunk), &vec![NonZeroU64::MIN; shape.len()]).unwrap()
    }

    /// Key, position and length of the segments of the only axis of the only row.
    fn cut(item: impl Into<Item>, len: u64, chunk: u64) -> Vec<(u64, usize, usize)> {
        let bound = Selections::items([[item.into(), Item::NewAxis]]).bind(&[len]).unwrap();
        let segments = Segments::new(&bound, &[grid(&[len], &[chunk])], &Cancel::default()).unwrap().unwrap();
        let BoundForm::Rows(rows) = bound.form() else { panic!("no rows") };
        assert!(segments.tile(0, rows.axes()[0].len(), &mut vec![]));
        segments.of(0).iter().map(|segment| (segment.key, segment.position, segment.len)).collect()
    }

    fn steps(start: i64, stop: Option<i64>, step: i64) -> Item {
        Item::Slice { start: Some(start), stop, step }
    }

    #[test]
    fn steps_are_one_segment_in_each_read_chunk() {
        assert_eq!(cut(steps(0, Some(10), 1), 10, 4), [(0, 0, 4), (1, 4, 4), (2, 8, 2)]);
        assert_eq!(cut(steps(3, Some(10), 2), 10, 4), [(0, 0, 1), (1, 1, 2), (2, 3, 1)]);
        assert_eq!(cut(steps(1, Some(10), 7), 10, 4), [(0, 0, 1), (2, 1, 1)]);
        // Backwards, the last positions lie in the first read chunk.
        assert_eq!(cut(steps(9, None, -1), 10, 4), [(0, 6, 4), (1, 2, 4), (2, 0, 2)]);
        assert_eq!(cut(steps(8, Some(0), -3), 10, 4), [(0, 2, 1), (1, 1, 1), (2, 0, 1)]);
        assert_eq!(cut(steps(9, None, i64::MIN), 10, 4), [(2, 0, 1)]);
        assert_eq!(cut(steps(5, Some(5), 3), 10, 4), []);
        // As far as 64 bits go.
        let len = i64::MAX as u64;
        assert_eq!(cut(steps(-1, None, -(1 << 62)), len, 1 << 61), [(1, 1, 1), (3, 0, 1)]);
        assert_eq!(cut(steps(0, None, i64::MAX - 1), len, len), [(0, 0, 2)]);
    }

    #[test]
    fn indices_are_segments_by_runs() {
        let indices = |values: &[i64]| cut(Indices::new(values.to_vec()), 10, 4);
        assert_eq!(indices(&[0, 1, 2, 3, 4, 5]), [(0, 0, 4), (1, 4, 2)]);
        // A run goes up by one; what is repeated, or goes down, is no run.
        assert_eq!(indices(&[5, 5, 6, 4, 3]), [(0, 4, 1), (1, 0, 1), (1, 1, 2), (1, 3, 1)]);
        assert_eq!(indices(&[9, 0, -1, -10]), [(0, 1, 1), (0, 3, 1), (2, 0, 1), (2, 2, 1)]);
        assert_eq!(indices(&[]), []);
        let mask = Mask::new([0, 1, 1, 1, 1, 0, 0, 1, 1, 0].into_iter().map(|bit| bit == 1).collect());
        assert_eq!(cut(mask, 10, 4), [(0, 0, 3), (1, 3, 1), (1, 4, 1), (2, 5, 1)]);
    }

    #[test]
    fn points_run_along_their_last_axis() {
        let list = |values: &[i64]| Item::from(Indices::new(values.to_vec()));
        let (y, x) = ([0, 0, 0, 1, 2, 2, 0], [0, 1, 2, 2, 3, 4, 3]);
        let selections = Selections::items([[list(&y), list(&x)]]).with_indexing(Indexing::Pointwise);
        let bound = selections.bind(&[3, 6]).unwrap();
        let segments = Segments::new(&bound, &[grid(&[3, 6], &[2, 3])], &Cancel::default()).unwrap().unwrap();
        let found: Vec<_> = segments.of(0).iter().map(|segment| (segment.key, segment.position, segment.len)).collect();
        assert_eq!(found, [(0, 0, 3), (0, 3, 1), (1, 6, 1), (3, 4, 2)]);
        assert_eq!(segments.with_key(0, 0).len(), 2);
        assert_eq!((segments.with_key(0, 2).len(), segments.with_key(0, 9).len()), (0, 0));
        let tiles = |len| segments.tile(0, len, &mut vec![u64::MAX; 3]);
        assert!(tiles(7) && !tiles(6) && !tiles(8));
    }

    /// However long its other axes are.
    #[test]
    fn rows_without_elements_have_no_segments() {
        let whole = Item::Slice { start: None, stop: None, step: 1 };
        let rows =
            [[whole.clone(), steps(3, Some(3), 2)], [Item::from(Indices::new(vec![0, 1])), steps(5, Some(4), 1)]];
        let bound = Selections::items(rows).bind(&[1 << 50, 10]).unwrap();
        let segments = Segments::new(&bound, &[grid(&[1 << 50, 10], &[1, 1])], &Cancel::default()).unwrap().unwrap();
        assert!((0..4).all(|axis| segments.of(axis).is_empty()));
        let boxes = Selections::items([[whole]]).bind(&[10]).unwrap();
        assert!(Segments::new(&boxes, &[grid(&[10], &[1])], &Cancel::default()).unwrap().is_none());
    }

    #[test]
    fn segments_with_gaps_or_overlaps_do_not_tile() {
        let segment = |position, len| Segment { key: 7, position, len };
        let tiles = |segments: &[Segment], len: usize| {
            Segments { offsets: vec![0, segments.len()], segments: segments.to_vec() }.tile(0, len, &mut vec![])
        };
        assert!(tiles(&[], 0) && !tiles(&[], 1));
        assert!(tiles(&[segment(0, 2), segment(2, 3)], 5));
        assert!(tiles(&[segment(3, 2), segment(0, 2), segment(2, 1)], 5));
        assert!(!tiles(&[segment(0, 2), segment(2, 3)], 6));
        assert!(!tiles(&[segment(0, 2), segment(3, 2)], 5));
        assert!(!tiles(&[segment(0, 2), segment(1, 4)], 5));
        assert!(!tiles(&[segment(0, 5), segment(0, 5)], 5));
        assert!(!tiles(&[segment(1, 4)], 5));
        assert!(!tiles(&[segment(2, 3), segment(0, usize::MAX)], 5));
        assert!(!tiles(&[segment(usize::MAX, 3), segment(0, 2)], 5));
        // Segments that do not ascend by key cannot be found.
        let unsorted = [Segment { key: 1, position: 0, len: 2 }, Segment { key: 0, position: 2, len: 3 }];
        assert!(!tiles(&unsorted, 5));
    }

    #[test]
    fn segments_sort_by_key_and_stay_in_order() {
        for (len, keys) in [(10, 5), (1000, 7), (1000, 3000), (1000, 1 << 40)] {
            let scattered = |position: usize| (position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
            let mut segments: Vec<_> =
                (0..len).map(|position| Segment { key: scattered(position), position, len: 1 }).collect();
            sort(&mut segments, keys).unwrap();
            assert_eq!(segments.len(), len);
            assert!(segments.is_sorted_by_key(|segment| (segment.key, segment.position)));
            assert!(segments.iter().all(|segment| segment.key == scattered(segment.position)));
        }
    }
}
