//! Groups rows by the read chunks that they touch.

use super::grid::Grid;
use super::reserve;
use crate::error::{Error, ErrorKind, Result};
use crate::selection::BoundSelections;

/// The touched read chunks in ascending key order, each with the rows that touch it, in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    chunks: Vec<u64>,
    /// Rows of chunk `c` are `rows[offsets[c]..offsets[c + 1]]`.
    offsets: Vec<usize>,
    rows: Vec<u32>,
}

impl Groups {
    pub(super) fn new(selections: &BoundSelections, grid: &Grid) -> Result<Self> {
        if selections.len() > u32::MAX as usize {
            return Err(Error::new(ErrorKind::Unsupported, format!("{} selections", selections.len()))
                .expected(format!("at most {} in one call", u32::MAX))
                .remedy("Split the call."));
        }
        // Counting needs a table over all keys; where that is out of proportion to the pieces, sort instead.
        let keys = grid.keys();
        if keys <= (selections.len() as u64 * 4).max(1 << 12) {
            return Self::by_counting(selections, grid);
        }
        let pieces = count_pieces(selections, grid)?;
        if keys / 4 <= pieces as u64 {
            Self::by_counting(selections, grid)
        } else {
            Self::by_sorting(selections, grid, pieces)
        }
    }

    fn by_counting(selections: &BoundSelections, grid: &Grid) -> Result<Self> {
        let mut next = reserve(grid.keys() as usize, "read chunks")?;
        next.resize(grid.keys() as usize, 0_usize);
        for_each_piece(selections, grid, |key, _| next[key as usize] += 1);
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
        for_each_piece(selections, grid, |key, row| {
            let at = &mut next[key as usize];
            rows[*at] = row;
            *at += 1;
        });
        Ok(Self { chunks, offsets, rows })
    }

    fn by_sorting(selections: &BoundSelections, grid: &Grid, pieces: usize) -> Result<Self> {
        let mut pairs: Vec<(u64, u32)> = reserve(pieces, "pieces")?;
        for_each_piece(selections, grid, |key, row| pairs.push((key, row)));
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

fn count_pieces(selections: &BoundSelections, grid: &Grid) -> Result<usize> {
    let mut pieces = 0_usize;
    for row in 0..selections.len() {
        let mut here = 1_usize;
        for axis in 0..grid.ndim() {
            let (start, stop) = (selections.start(row, axis), selections.stop(row, axis));
            let chunk = grid.chunk_len(axis);
            let touched = if start == stop { 0 } else { (stop - 1) / chunk - start / chunk + 1 };
            here = if touched == 0 { 0 } else { here.saturating_mul(touched as usize) };
            if here == 0 {
                break;
            }
        }
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
fn for_each_piece(selections: &BoundSelections, grid: &Grid, mut visit: impl FnMut(u64, u32)) {
    if let (Some((starts, stops)), 1) = (selections.first_axis(), grid.ndim()) {
        let chunk = grid.chunk_len(0);
        let divide = divider(chunk, selections.shape()[0]);
        for (row, (&start, &stop)) in starts.iter().zip(stops).enumerate() {
            if start < stop {
                let first = divide(start as u64);
                visit(grid.key_part(0, first), row as u32);
                // Most ranges end where they start: a product tells that faster than a quotient.
                if stop as u64 > (first + 1) * chunk {
                    for index in first + 1..=divide(stop as u64 - 1) {
                        visit(grid.key_part(0, index), row as u32);
                    }
                }
            }
        }
        return;
    }
    let ndim = grid.ndim();
    let mut first = vec![0; ndim];
    let mut last = vec![0; ndim];
    let mut at = vec![0; ndim];
    'rows: for row in 0..selections.len() {
        for axis in 0..ndim {
            let (start, stop) = (selections.start(row, axis), selections.stop(row, axis));
            if start == stop {
                continue 'rows;
            }
            first[axis] = start / grid.chunk_len(axis);
            last[axis] = (stop - 1) / grid.chunk_len(axis);
        }
        at.copy_from_slice(&first);
        loop {
            let key = at.iter().enumerate().map(|(axis, &index)| grid.key_part(axis, index)).sum();
            visit(key, row as u32);
            let Some(axis) = (0..ndim).rev().find(|&axis| at[axis] < last[axis]) else { break };
            at[axis] += 1;
            at[axis + 1..].copy_from_slice(&first[axis + 1..]);
        }
    }
}

/// Division of indices below `len` by `chunk`, in 32 bits where that holds them, which is several times faster.
fn divider(chunk: u64, len: u64) -> impl Fn(u64) -> u64 {
    let short = u32::try_from(len).is_ok();
    let chunk_short = u32::try_from(chunk).unwrap_or(u32::MAX);
    move |index| if short { u64::from(index as u32 / chunk_short) } else { index / chunk }
}
