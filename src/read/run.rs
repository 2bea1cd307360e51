//! The geometry of copies: contiguous runs and the steps that repeat them, in bytes.

use std::ops::Range;

use crate::chunk::Extent;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::grid::Grid;
use crate::plan::tiling::{Piece, Span};
use crate::plan::{Part, Plan};
use crate::selection::BoundForm;

/// A contiguous run, in bytes, repeated along the steps of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) len: usize,
}

/// One axis of a copy that is not part of the run, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) len: usize,
    pub(super) source_stride: isize,
    pub(super) target_stride: usize,
    at: usize,
}

impl Step {
    /// The steps from the `first` on, no more than `len` of them, as those of a walk that has this step outermost. Gives
    /// the run at the first of them.
    pub(super) fn part(self, run: Run, first: usize, len: usize) -> (Run, Self) {
        let source = run.source.wrapping_add_signed(first as isize * self.source_stride);
        let target = run.target + first * self.target_stride;
        (Run { source, target, ..run }, Self { len: len.min(self.len - first), ..self })
    }
}

impl Run {
    /// Finds the longest contiguous run of `piece`, of elements of `item` bytes, and the steps, outermost first, that
    /// repeat it.
    pub(super) fn of(piece: &Piece, item: usize, walk: &mut Vec<Step>) -> Result<Self> {
        let overflow = || Error::new(ErrorKind::Internal, "a piece overflows");
        walk.clear();
        let target = piece.row_start.checked_mul(item).ok_or_else(overflow)?;
        let mut run = Self { source: 0, target, len: item };
        let mut target_stride = item;
        for &Span { source, stride, target, len, row_len } in piece.spans.iter().rev() {
            let source_stride = stride.checked_mul(item as isize).ok_or_else(overflow)?;
            let offset = source.checked_mul(item).and_then(|offset| offset.checked_add(run.source));
            run.source = offset.ok_or_else(overflow)?;
            run.target += target * target_stride;
            if len == 0 {
                run.len = 0;
            } else if walk.is_empty() && run.len as isize == source_stride && run.len == target_stride {
                run.len *= len;
            } else if len > 1 {
                walk.push(Step { len, source_stride, target_stride, at: 0 });
            }
            target_stride = target_stride.checked_mul(row_len).ok_or_else(overflow)?;
        }
        if run.len == 0 {
            walk.clear();
        }
        walk.reverse();
        Ok(run)
    }

    /// The source bytes from the first to the last that the walk touches. `None` if they are no bytes of anything.
    pub(super) fn source_span(&self, walk: &[Step]) -> Option<Range<usize>> {
        let (mut back, mut forth) = (0_usize, self.len);
        for step in walk {
            let reach = step.source_stride.unsigned_abs().checked_mul(step.len - 1)?;
            let side = if step.source_stride < 0 { &mut back } else { &mut forth };
            *side = side.checked_add(reach)?;
        }
        Some(self.source.checked_sub(back)?..self.source.checked_add(forth)?)
    }

    /// Bytes from the first to one past the last that the walk touches in the target.
    pub(super) fn target_span(&self, walk: &[Step]) -> usize {
        walk.iter().fold(self.len, |end, step| end.saturating_add(step.target_stride.saturating_mul(step.len - 1)))
    }

    /// Bytes that the walk copies.
    pub(super) fn bytes(&self, walk: &[Step]) -> usize {
        walk.iter().fold(self.len, |bytes, step| bytes * step.len)
    }

    /// Where to cut a walk so that the source bytes of the steps behind the cut lie close together: with no gap of
    /// more than `gap` bytes.
    pub(super) fn cut(&self, walk: &[Step], gap: usize) -> usize {
        let mut hull = self.len;
        let mut at = walk.len();
        while let Some(step) = at.checked_sub(1).map(|at| walk[at]) {
            let stride = step.source_stride.unsigned_abs();
            if stride > hull.saturating_add(gap) {
                break;
            }
            hull += stride * (step.len - 1);
            at -= 1;
        }
        at
    }
}

/// A plan whose every piece is one run: ranges on the first axis, over read chunks that hold the other axes whole.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    grid: &'a Grid,
    starts: &'a [i64],
    stops: &'a [i64],
    row_starts: &'a [i64],
    /// Bytes of one index of the first axis.
    unit: usize,
    /// Bytes of one element.
    item: usize,
}

/// The indices of the first axis that one read chunk holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    start: i64,
    stop: i64,
}

impl<'a> Lines<'a> {
    /// `None` if some piece may be more than one run. `strides` are those of the longest read chunk: where these are as
    /// they must be, read chunks that are shorter along the first axis have no others.
    pub(super) fn new(plan: &'a Plan, part: &'a Part, item: usize, strides: &[usize]) -> Option<Self> {
        let BoundForm::Boxes(boxes) = plan.selections().form() else { return None };
        let (starts, stops) = boxes.first_axis()?;
        let mut unit = 1_usize;
        for axis in (1..plan.ndim()).rev() {
            let len = plan.selections().shapes().common(axis)?;
            if part.grid().equal_len(axis) != Some(len) || strides[axis] != unit {
                return None;
            }
            unit = unit.checked_mul(len as usize)?;
        }
        if strides.first() != Some(&unit) {
            return None;
        }
        let unit = unit.checked_mul(item)?;
        Some(Self { grid: part.grid(), starts, stops, row_starts: plan.layout().row_starts(), unit, item })
    }

    pub(super) fn chunk(&self, key: u64) -> Line {
        let (start, len) = self.grid.chunks(0).bounds(self.grid.chunk_index(key, 0));
        Line { start: start as i64, stop: start.saturating_add(len).min(i64::MAX as u64) as i64 }
    }

    /// The part of `row` that lies in the read chunk.
    pub(super) fn run(&self, row: usize, line: &Line) -> Run {
        let row_start = self.starts[row];
        let from = row_start.max(line.start);
        let to = self.stops[row].min(line.stop);
        Run {
            source: (from - line.start) as usize * self.unit,
            target: self.row_starts[row] as usize * self.item + (from - row_start) as usize * self.unit,
            len: (to - from).max(0) as usize * self.unit,
        }
    }

    /// One past the last byte of the read chunk that `row` needs.
    pub(super) fn end(&self, row: usize, line: &Line) -> usize {
        (self.stops[row].min(line.stop) - line.start).max(0) as usize * self.unit
    }
}

/// Calls `visit(source, target)` with the byte offsets of each repetition of `run`.
pub(super) fn for_each_run(run: Run, walk: &mut [Step], mut visit: impl FnMut(usize, usize)) {
    let (mut source, mut target) = (run.source, run.target);
    loop {
        visit(source, target);
        let mut left = walk.len();
        loop {
            if left == 0 {
                return;
            }
            left -= 1;
            let step = &mut walk[left];
            step.at += 1;
            if step.at < step.len {
                source = source.wrapping_add_signed(step.source_stride);
                target += step.target_stride;
                break;
            }
            step.at = 0;
            source = source.wrapping_add_signed(-step.source_stride * (step.len as isize - 1));
            target -= step.target_stride * (step.len - 1);
        }
    }
}

/// Appends a range, or lengthens the last one by it if it begins there, or no more than `gap` bytes behind.
pub(super) fn append(ranges: &mut Vec<Range<usize>>, range: Range<usize>, gap: usize) {
    match ranges.last_mut() {
        Some(last) if (last.start..=last.end.saturating_add(gap)).contains(&range.start) => {
            last.end = last.end.max(range.end);
        }
        _ => ranges.push(range),
    }
}

/// Sorts ranges and merges those with no gap of more than `gap` bytes between them.
pub(super) fn merge(ranges: &mut Vec<Range<usize>>, gap: usize) {
    if !ranges.is_sorted_by_key(|range| range.start) {
        ranges.sort_unstable_by_key(|range| range.start);
    }
    ranges.dedup_by(|next, range| {
        let close = next.start <= range.end.saturating_add(gap);
        if close {
            range.end = range.end.max(next.end);
        }
        close
    });
}

/// Where the source bytes `start..start + len` lie in the decoded bytes; `None` if they were not decoded.
pub(super) fn locate(extents: &[Extent], start: usize, len: usize) -> Option<usize> {
    let at = extents.partition_point(|extent| extent.source.start <= start).checked_sub(1)?;
    let extent = &extents[at];
    (start.checked_add(len)? <= extent.source.end).then(|| extent.at + (start - extent.source.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(source: usize, stride: isize, len: usize, row_len: usize) -> Span {
        Span { source: source * stride.unsigned_abs(), stride, target: 0, len, row_len }
    }

    #[test]
    fn trailing_full_axes_collapse() {
        let mut walk = Vec::new();
        let piece = Piece { row_start: 10, spans: vec![span(1, 12, 2, 2), span(0, 4, 3, 3), span(0, 1, 4, 4)] };
        let run = Run::of(&piece, 2, &mut walk).unwrap();
        assert_eq!((run, walk.len()), (Run { source: 24, target: 20, len: 48 }, 0));
        let piece = Piece { row_start: 0, spans: vec![span(1, 12, 2, 2), span(1, 4, 2, 2), span(0, 1, 4, 4)] };
        let run = Run::of(&piece, 2, &mut walk).unwrap();
        assert_eq!((run.len, walk.len(), run.bytes(&walk)), (16, 1, 32));
        assert_eq!((run.source_span(&walk), run.target_span(&walk)), (Some(32..72), 32));
    }

    #[test]
    fn a_walk_may_go_backwards() {
        let mut walk = Vec::new();
        let piece = Piece { row_start: 0, spans: vec![span(3, -10, 4, 4), span(4, -2, 3, 3)] };
        let run = Run::of(&piece, 4, &mut walk).unwrap();
        assert_eq!(run.source_span(&walk), Some(16..156));
        let mut seen = Vec::new();
        for_each_run(run, &mut walk, |source, target| seen.push((source / 4, target / 4)));
        let expected: Vec<_> = (0..12).map(|i| (38 - i / 3 * 10 - i % 3 * 2, i)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_walk_is_cut_where_gaps_grow() {
        let mut walk = Vec::new();
        let piece = Piece { row_start: 0, spans: vec![span(0, 10_000, 3, 3), span(2, 100, 5, 5), span(1, 1, 2, 2)] };
        let run = Run::of(&piece, 1, &mut walk).unwrap();
        assert_eq!([0, 98, 10_000].map(|gap| run.cut(&walk, gap)), [2, 1, 0]);
        assert_eq!(run.source_span(&walk[1..]), Some(201..603));
        let mut seen = Vec::new();
        for_each_run(run, &mut walk[..1], |source, _| seen.push(source));
        assert_eq!(seen, [201, 10_201, 20_201]);
    }

    #[test]
    fn ranges_are_appended_to_near_ones() {
        let mut ranges = Vec::new();
        for range in [10..20, 12..15, 22..30, 33..40, 10..12, 9..11] {
            append(&mut ranges, range, 2);
        }
        assert_eq!(ranges, [10..30, 33..40, 10..12, 9..11]);
    }

    #[test]
    fn ranges_merge_across_small_gaps() {
        let mut ranges = vec![50..60, 0..10, 12..20, 5..8, 60..61];
        merge(&mut ranges, 2);
        assert_eq!(ranges, [0..20, 50..61]);
        let extents = [Extent { source: 0..20, at: 0 }, Extent { source: 50..61, at: 20 }];
        assert_eq!(locate(&extents, 50, 11), Some(20));
        assert_eq!(locate(&extents, 19, 1), Some(19));
        assert_eq!(locate(&extents, 19, 2), None);
        assert_eq!(locate(&extents, 30, 1), None);
        assert_eq!(locate(&[], 0, 0), None);
    }
}
