//! Rows that are more than boxes, cut at the borders of read chunks: which positions of each of their axes lie where.

use std::ops::Range;

use super::blocks::{Threads, each};
use super::grid::Grid;
use super::group::Groups;
use super::points::PointPieces;
use super::sort::{Keyed, sort};
use super::{no_memory, reserve};
use crate::cancel::{Cancel, Pulse};
use crate::error::Result;
use crate::selection::rows::{Axis, Rows};
use crate::selection::{BoundForm, BoundSelections};

/// Fewer indices are sorted faster by comparing them.
const FEW: usize = 64;

/// A segment takes as much memory as so many positions.
const POSITIONS_OF_SEGMENT: usize = size_of::<Segment>() / size_of::<u32>();

/// What every axis of every row has of each read chunk, in ascending order of their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    /// Of the axes of all rows in order, each of some of them.
    blocks: Vec<Block>,
}

/// The axes of some rows that follow each other.
#[derive(Debug, Clone, Default)]
struct Block {
    /// Number of the first axis.
    first: usize,
    /// The segments of axis `first + a` are `segments[offsets[a]..offsets[a + 1]]`.
    offsets: Vec<usize>,
    segments: Vec<Segment>,
    /// Axes of many points with hardly a run: their number, and their positions by key. They have no segments.
    scattered: Vec<(usize, Groups)>,
}

/// Neighbouring positions of one axis of a row that lie in one read chunk, equally spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// What the read chunk's indices along the axis, or axes, add to its key.
    pub(crate) key: u64,
    /// The first position.
    pub(crate) position: usize,
    /// Number of positions.
    pub(crate) len: usize,
}

/// All of an axis.
#[derive(Clone, Copy)]
enum Of<'a> {
    Segments(&'a [Segment]),
    /// Positions by key.
    Positions(&'a Groups),
}

/// What an axis has of one read chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Segments(&'a [Segment]),
    /// Single positions of an axis of points, in ascending order.
    Positions(&'a [u32]),
}

impl Segments {
    /// Cuts all rows; `None` where all are boxes.
    pub(super) fn new(
        selections: &BoundSelections,
        grids: &[Grid],
        threads: Threads,
        cancel: &Cancel,
    ) -> Result<Option<Self>> {
        let BoundForm::Rows(rows) = selections.form() else { return Ok(None) };
        let blocks = each(threads.cut_rows(selections), |block| {
            Block::new(&Work { selections, rows, grids, threads, cancel }, block)
        })?;
        Ok(Some(Self { blocks }))
    }

    /// The block of an axis, and the axis' number there.
    fn block(&self, axis: usize) -> (&Block, usize) {
        let number = match &self.blocks[..] {
            [_] => 0,
            blocks => blocks.partition_point(|block| block.first <= axis) - 1,
        };
        let block = &self.blocks[number];
        (block, axis - block.first)
    }

    /// The segments of an axis, or its positions by key.
    fn of(&self, axis: usize) -> Of<'_> {
        let (block, at) = self.block(axis);
        let segments = &block.segments[block.offsets[at]..block.offsets[at + 1]];
        if segments.is_empty()
            && let Ok(found) = block.scattered.binary_search_by_key(&axis, |(axis, _)| *axis)
        {
            return Of::Positions(&block.scattered[found].1);
        }
        Of::Segments(segments)
    }

    /// Appends the distinct keys of an axis to `keys`, in ascending order.
    pub(super) fn keys(&self, axis: usize, keys: &mut Vec<u64>) {
        match self.of(axis) {
            Of::Positions(groups) => keys.extend_from_slice(groups.chunks()),
            Of::Segments(segments) => {
                for segment in segments {
                    if keys.last() != Some(&segment.key) {
                        keys.push(segment.key);
                    }
                }
            }
        }
    }

    /// Whether an axis has no position in any read chunk.
    pub(crate) fn is_empty(&self, axis: usize) -> bool {
        matches!(self.of(axis), Of::Segments([]))
    }

    /// What an axis has of the read chunk with this key; `None` if nothing.
    pub(crate) fn with_key(&self, axis: usize, key: u64) -> Option<Found<'_>> {
        match self.of(axis) {
            Of::Segments(all) => {
                let from = all.partition_point(|segment| segment.key < key);
                let len = all[from..].partition_point(|segment| segment.key == key);
                (len > 0).then(|| Found::Segments(&all[from..from + len]))
            }
            Of::Positions(groups) => {
                groups.chunks().binary_search(&key).ok().map(|at| Found::Positions(groups.rows(at)))
            }
        }
    }

    /// Whether the segments of an axis of `len` positions hold each exactly once and ascend by key. `seen` is a buffer.
    pub(crate) fn tile(&self, axis: usize, len: usize, seen: &mut Vec<u64>) -> bool {
        let all = match self.of(axis) {
            Of::Segments(all) => all,
            Of::Positions(groups) => return positions_tile(groups, len, seen),
        };
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
                if !mark(seen, position) {
                    return false;
                }
            }
        }
        left == 0
    }
}

/// Whether positions by key are each of `len` positions exactly once, under keys that ascend.
fn positions_tile(groups: &Groups, len: usize, seen: &mut Vec<u64>) -> bool {
    let positions = groups.all_rows();
    if positions.len() != len || !groups.is_sound() {
        return false;
    }
    if positions.iter().zip(0..).all(|(&position, at)| position as usize == at) {
        return true;
    }
    seen.clear();
    seen.resize(len.div_ceil(64), 0);
    positions.iter().all(|&position| (position as usize) < len && mark(seen, position as usize))
}

/// Marks a position; `false` if it was marked before.
fn mark(seen: &mut [u64], position: usize) -> bool {
    let (word, bit) = (&mut seen[position / 64], 1 << (position % 64));
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}

/// What is cut.
struct Work<'a> {
    selections: &'a BoundSelections,
    rows: &'a Rows,
    grids: &'a [Grid],
    threads: Threads,
    cancel: &'a Cancel,
}

impl Work<'_> {
    /// The threads for one axis of points: where it is most of the work, those that have no row of their own.
    fn threads_for(&self, points: &PointPieces<'_>) -> Threads {
        if points.coordinates() > self.rows.coordinate_count() / 2 { self.threads } else { Threads::ONE }
    }
}

impl Block {
    fn new(work: &Work<'_>, block: Range<usize>) -> Result<Self> {
        let rows = work.rows;
        let first = if block.is_empty() { 0 } else { rows.of(block.start).start };
        let axes = if block.is_empty() { 0 } else { rows.of(block.end - 1).end - first };
        let mut found = Self { first, offsets: reserve(axes + 1, "axes")?, ..Self::default() };
        found.offsets.push(0);
        let mut pulse = work.cancel.pulse();
        for row in block {
            pulse.beat()?;
            let grid = &work.grids[work.selections.shapes().source(row)];
            let numbers = rows.of(row);
            let axes = &rows.axes()[numbers.clone()];
            // A row without elements needs no read chunk, however long its other axes are.
            let is_empty = axes.iter().any(|axis| axis.len() == 0);
            for (axis, number) in axes.iter().zip(numbers) {
                if !is_empty {
                    let cut = found.cut(work, axis, number, grid, &mut pulse);
                    cut.map_err(|error| error.at_selection(row))?;
                }
                found.offsets.push(found.segments.len());
            }
        }
        Ok(found)
    }

    fn cut(&mut self, work: &Work<'_>, axis: &Axis, number: usize, grid: &Grid, pulse: &mut Pulse<'_>) -> Result<()> {
        let from = self.segments.len();
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
            Axis::Points { len, .. } => {
                let points = PointPieces::new(work.rows, axis, grid, work.cancel);
                if len >= FEW && u32::try_from(len).is_ok() {
                    let blocks = work.threads_for(&points).cut(len);
                    if points.runs(&blocks)? > len / POSITIONS_OF_SEGMENT {
                        self.scattered.push((number, Groups::new(&points, grid.keys(), &blocks)?));
                        return Ok(());
                    }
                }
                points.for_each_key(0..len, pulse, |key, position| {
                    match self.segments[from..].last_mut() {
                        Some(segment) if segment.key == key && points.follows(position) => segment.len += 1,
                        _ => self.push(Segment { key, position, len: 1 })?,
                    }
                    Ok(())
                })?;
            }
        }
        sort(&mut self.segments[from..], work.cancel)
    }

    fn push(&mut self, segment: Segment) -> Result<()> {
        if self.segments.len() == self.segments.capacity() {
            self.segments.try_reserve(1).map_err(no_memory)?;
        }
        self.segments.push(segment);
        Ok(())
    }
}

impl Keyed for Segment {
    fn key(self) -> u64 {
        self.key
    }
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

    /// Key, position and length of the segments of an axis.
    fn all(segments: &Segments, axis: usize) -> Vec<(u64, usize, usize)> {
        let Of::Segments(all) = segments.of(axis) else { panic!("positions") };
        all.iter().map(|segment| (segment.key, segment.position, segment.len)).collect()
    }

    /// Key, position and length of the segments of the only axis of the only row.
    fn cut(item: impl Into<Item>, len: u64, chunk: u64) -> Vec<(u64, usize, usize)> {
        let bound = Selections::items([[item.into(), Item::NewAxis]]).bind(&[len]).unwrap();
        let segments =
            Segments::new(&bound, &[grid(&[len], &[chunk])], Threads::ONE, &Cancel::default()).unwrap().unwrap();
        let BoundForm::Rows(rows) = bound.form() else { panic!("no rows") };
        assert!(segments.tile(0, rows.axes()[0].len(), &mut vec![]));
        all(&segments, 0)
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
        let segments =
            Segments::new(&bound, &[grid(&[3, 6], &[2, 3])], Threads::ONE, &Cancel::default()).unwrap().unwrap();
        let found = all(&segments, 0);
        assert_eq!(found, [(0, 0, 3), (0, 3, 1), (1, 6, 1), (3, 4, 2)]);
        assert!(matches!(segments.with_key(0, 0), Some(Found::Segments([_, _]))));
        assert_eq!((segments.with_key(0, 2), segments.with_key(0, 9)), (None, None));
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
        let segments =
            Segments::new(&bound, &[grid(&[1 << 50, 10], &[1, 1])], Threads::ONE, &Cancel::default()).unwrap().unwrap();
        assert!((0..4).all(|axis| segments.is_empty(axis)));
        let boxes = Selections::items([[whole]]).bind(&[10]).unwrap();
        assert!(Segments::new(&boxes, &[grid(&[10], &[1])], Threads::ONE, &Cancel::default()).unwrap().is_none());
    }

    #[test]
    fn segments_with_gaps_or_overlaps_do_not_tile() {
        let segment = |position, len| Segment { key: 7, position, len };
        let tiles = |segments: &[Segment], len: usize| {
            let offsets = vec![0, segments.len()];
            let block = Block { offsets, segments: segments.to_vec(), ..Block::default() };
            Segments { blocks: vec![block] }.tile(0, len, &mut vec![])
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
    fn scattered_points_are_positions_by_key() {
        let values: Vec<i64> = (0..100).map(|at| at * 37 % 100).collect();
        let bound = Selections::items([[Item::from(Indices::new(values.clone()))]]).bind(&[100]).unwrap();
        for threads in [Threads::ONE, Threads::exactly(3), Threads::exactly(7)] {
            let segments = Segments::new(&bound, &[grid(&[100], &[30])], threads, &Cancel::default()).unwrap().unwrap();
            let mut keys = vec![];
            segments.keys(0, &mut keys);
            assert_eq!(keys, [0, 1, 2, 3]);
            for key in keys {
                let Some(Found::Positions(positions)) = segments.with_key(0, key) else { panic!("no positions") };
                assert!((0..100).filter(|&at| values[at as usize] as u64 / 30 == key).eq(positions.iter().copied()));
            }
            assert_eq!((segments.with_key(0, 4), segments.is_empty(0)), (None, false));
            let tiles = |len| segments.tile(0, len, &mut vec![u64::MAX; 3]);
            assert!(tiles(100) && !tiles(99) && !tiles(101));
        }
    }

    #[test]
    fn positions_with_gaps_or_overlaps_do_not_tile() {
        let tiles = |chunks: &[u64], offsets: &[usize], positions: &[u32], len: usize| {
            let groups = Groups::unchecked(chunks.to_vec(), offsets.to_vec(), positions.to_vec());
            let block = Block { offsets: vec![0, 0], scattered: vec![(0, groups)], ..Block::default() };
            Segments { blocks: vec![block] }.tile(0, len, &mut vec![u64::MAX])
        };
        assert!(tiles(&[1, 2], &[0, 2, 3], &[0, 1, 2], 3));
        assert!(tiles(&[1, 2], &[0, 2, 3], &[0, 2, 1], 3));
        assert!(!tiles(&[1, 2], &[0, 2, 3], &[0, 2, 1], 4));
        assert!(!tiles(&[1, 2], &[0, 2, 3], &[0, 2, 1], 2));
        assert!(!tiles(&[1, 2], &[0, 2, 3], &[0, 2, 2], 3));
        assert!(!tiles(&[1, 2], &[0, 2, 3], &[0, 2, 3], 3));
        assert!(!tiles(&[1, 2], &[0, 2, 3], &[1, 2, u32::MAX], 3));
        // Keys that do not ascend cannot be found, and offsets are to reach all positions.
        assert!(!tiles(&[2, 1], &[0, 2, 3], &[0, 2, 1], 3));
        assert!(!tiles(&[1, 1], &[0, 2, 3], &[0, 2, 1], 3));
        assert!(!tiles(&[1, 2], &[0, 2, 2], &[0, 2, 1], 3));
        assert!(!tiles(&[1, 2], &[1, 2, 3], &[0, 2, 1], 3));
        assert!(!tiles(&[1, 2], &[0, 4, 3], &[0, 2, 1], 3));
        assert!(!tiles(&[1, 2], &[0, 3], &[0, 2, 1], 3));
    }
}
