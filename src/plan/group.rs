//! Groups rows by the read chunks that they touch.

use super::grid::Grid;
use super::reserve;
use super::segments::Segments;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::selection::boxes::Boxes;
use crate::selection::rows::Rows;
use crate::selection::{BoundForm, BoundSelections};

/// What is grouped: rows of selections.
pub(super) struct Asked<'a> {
    pub(super) selections: &'a BoundSelections,
    /// Where the rows are not boxes.
    pub(super) segments: Option<&'a Segments>,
    /// Only these rows, in ascending order.
    pub(super) only: Option<&'a [u32]>,
    pub(super) cancel: &'a Cancel,
}

impl Asked<'_> {
    fn len(&self) -> usize {
        self.only.map_or_else(|| self.selections.len(), <[u32]>::len)
    }

    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).map(|at| self.only.map_or(at, |only| only[at] as usize))
    }

    /// The distinct keys of an axis of a row.
    fn keys(&self, axis: usize, keys: &mut Vec<u64>) {
        keys.clear();
        for segment in self.segments.iter().flat_map(|segments| segments.of(axis)) {
            if keys.last() != Some(&segment.key) {
                keys.push(segment.key);
            }
        }
    }
}

/// The touched read chunks in ascending key order, each with the rows that touch it, in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    chunks: Vec<u64>,
    /// Rows of chunk `c` are `rows[offsets[c]..offsets[c + 1]]`.
    offsets: Vec<usize>,
    rows: Vec<u32>,
}

impl Groups {
    /// Groups the rows of `asked` by the read chunks of `grid`.
    pub(super) fn new(asked: &Asked<'_>, grid: &Grid) -> Result<Self> {
        // Counting needs a table over all keys; where that is out of proportion to the pieces, sort instead.
        let keys = grid.keys();
        if keys <= (asked.len() as u64 * 4).max(1 << 12) {
            return Self::by_counting(asked, grid);
        }
        let pieces = count_pieces(asked, grid)?;
        if keys / 4 <= pieces as u64 { Self::by_counting(asked, grid) } else { Self::by_sorting(asked, grid, pieces) }
    }

    fn by_counting(asked: &Asked<'_>, grid: &Grid) -> Result<Self> {
        let mut next = reserve(grid.keys() as usize, "read chunks")?;
        next.resize(grid.keys() as usize, 0_usize);
        for_each_piece(asked, grid, |key, _| next[key as usize] += 1)?;
        let touched = next.iter().filter(|&&count| count > 0).count();
        let mut chunks = reserve(touched, "read chunks")?;
        let mut offsets = reserve(touched + 1, "read chunks")?;
        offsets.push(0);
        let mut end = 0;
        for (key, count) in next.iter_mut().enumerate() {
            if *count > 0 {
                let start = end;
                end += *count;
                *count = start;
                chunks.push(key as u64);
                offsets.push(end);
            }
        }
        let mut rows = reserve(end, "pieces")?;
        rows.resize(end, 0);
        for_each_piece(asked, grid, |key, row| {
            let at = &mut next[key as usize];
            rows[*at] = row;
            *at += 1;
        })?;
        Ok(Self { chunks, offsets, rows })
    }

    fn by_sorting(asked: &Asked<'_>, grid: &Grid, pieces: usize) -> Result<Self> {
        let mut pairs: Vec<(u64, u32)> = reserve(pieces, "pieces")?;
        for_each_piece(asked, grid, |key, row| pairs.push((key, row)))?;
        pairs.sort_unstable();
        let touched = pairs.chunk_by(|a, b| a.0 == b.0).count();
        let mut chunks = reserve(touched, "read chunks")?;
        let mut offsets = reserve(touched + 1, "read chunks")?;
        for (at, &(key, _)) in pairs.iter().enumerate() {
            if chunks.last() != Some(&key) {
                chunks.push(key);
                offsets.push(at);
            }
        }
        offsets.push(pairs.len());
        let mut rows = reserve(pieces, "pieces")?;
        rows.extend(pairs.iter().map(|&(_, row)| row));
        Ok(Self { chunks, offsets, rows })
    }

    /// Groups that may be wrong, to test what checks them.
    #[cfg(test)]
    pub(super) fn unchecked(chunks: Vec<u64>, offsets: Vec<usize>, rows: Vec<u32>) -> Self {
        Self { chunks, offsets, rows }
    }

    /// Keys of the touched read chunks.
    pub(crate) fn chunks(&self) -> &[u64] {
        &self.chunks
    }

    /// Rows that touch the `chunk`-th of [`chunks`](Self::chunks).
    pub(crate) fn rows(&self, chunk: usize) -> &[u32] {
        &self.rows[self.offsets[chunk]..self.offsets[chunk + 1]]
    }

    /// Number of pairs of a row and a read chunk that it touches.
    pub(crate) fn pieces(&self) -> usize {
        self.rows.len()
    }
}

fn count_pieces(asked: &Asked<'_>, grid: &Grid) -> Result<usize> {
    let mut pieces = 0_usize;
    let mut keys = Vec::new();
    let mut pulse = asked.cancel.pulse();
    for row in asked.rows() {
        pulse.beat()?;
        let here = match asked.selections.form() {
            _ if asked.selections.is_null(row) => 0,
            BoundForm::Boxes(boxes) => (0..grid.ndim()).fold(1_usize, |pieces, axis| {
                let (start, stop) = (boxes.start(row, axis), boxes.stop(row, axis));
                let chunks = grid.chunks(axis);
                let touched = if start == stop { 0 } else { chunks.of(stop - 1) - chunks.of(start) + 1 };
                if touched == 0 { 0 } else { pieces.saturating_mul(touched as usize) }
            }),
            BoundForm::Rows(rows) if rows.of(row).is_empty() && grid.ndim() > 0 => 0,
            BoundForm::Rows(rows) => rows.of(row).fold(1_usize, |pieces, axis| {
                asked.keys(axis, &mut keys);
                pieces.saturating_mul(keys.len())
            }),
        };
        pieces = pieces.saturating_add(here);
        if pieces > isize::MAX as usize {
            return Err(Error::new(ErrorKind::Allocation, "more than 2^63 - 1 pieces")
                .at_selection(row)
                .remedy("Read fewer or smaller selections at a time."));
        }
    }
    Ok(pieces)
}

/// Calls `visit(key, row)` for each read chunk that each row touches, row by row.
///
/// # Errors
/// [`ErrorKind::Cancelled`] if the caller does not want it any more.
fn for_each_piece(asked: &Asked<'_>, grid: &Grid, visit: impl FnMut(u64, u32)) -> Result<()> {
    match asked.selections.form() {
        BoundForm::Boxes(boxes) => match (boxes.first_axis().zip(grid.equal_len(0)), grid.ndim(), asked.only) {
            (Some(((starts, stops), chunk)), 1, None) => {
                let divide = divider(chunk, asked.selections.shape(0)[0]);
                for_each_of_lines((starts, stops), (chunk, divide), grid, asked.cancel, visit)
            }
            _ => for_each_of_boxes(asked, boxes, grid, visit),
        },
        BoundForm::Rows(rows) => for_each_of_rows(asked, rows, grid, visit),
    }
}

fn for_each_of_lines(
    (starts, stops): (&[i64], &[i64]),
    (chunk, divide): (u64, impl Fn(u64) -> u64),
    grid: &Grid,
    cancel: &Cancel,
    mut visit: impl FnMut(u64, u32),
) -> Result<()> {
    let mut pulse = cancel.pulse();
    for (row, (&start, &stop)) in starts.iter().zip(stops).enumerate() {
        pulse.beat()?;
        if start < stop {
            let first = divide(start as u64);
            visit(grid.key_part(0, first), row as u32);
            // Most ranges end where they start: a product tells that faster than a quotient.
            if stop as u64 > (first + 1) * chunk {
                for index in first + 1..=divide(stop as u64 - 1) {
                    pulse.beat()?;
                    visit(grid.key_part(0, index), row as u32);
                }
            }
        }
    }
    Ok(())
}

fn for_each_of_boxes(asked: &Asked<'_>, boxes: &Boxes, grid: &Grid, mut visit: impl FnMut(u64, u32)) -> Result<()> {
    let mut pulse = asked.cancel.pulse();
    let ndim = grid.ndim();
    let mut first = vec![0; ndim];
    let mut last = vec![0; ndim];
    let mut at = vec![0; ndim];
    'rows: for row in asked.rows() {
        for axis in 0..ndim {
            let (start, stop) = (boxes.start(row, axis), boxes.stop(row, axis));
            if start == stop {
                continue 'rows;
            }
            first[axis] = grid.chunks(axis).of(start);
            last[axis] = grid.chunks(axis).of(stop - 1);
        }
        if asked.selections.is_null(row) {
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

fn for_each_of_rows(asked: &Asked<'_>, rows: &Rows, grid: &Grid, mut visit: impl FnMut(u64, u32)) -> Result<()> {
    let mut pulse = asked.cancel.pulse();
    // The distinct keys of each axis of a row, and one of each.
    let mut keys: Vec<Vec<u64>> = Vec::new();
    let mut at = Vec::new();
    for row in asked.rows() {
        let axes = rows.of(row);
        if asked.selections.is_null(row) || (axes.is_empty() && grid.ndim() > 0) {
            continue;
        }
        keys.resize_with(axes.len().max(keys.len()), Vec::new);
        for (axis, keys) in axes.clone().zip(&mut keys) {
            asked.keys(axis, keys);
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

/// Division of indices below `len` by `chunk`, in 32 bits where that holds them, which is several times faster.
fn divider(chunk: u64, len: u64) -> impl Fn(u64) -> u64 {
    let short = u32::try_from(len).is_ok();
    let chunk_short = u32::try_from(chunk).unwrap_or(u32::MAX);
    move |index| if short { u64::from(index as u32 / chunk_short) } else { index / chunk }
}
