//! What the pieces of a read chunk need of it.
#![deny(unsafe_code)]

use std::ops::Range;

use super::{Claim, PieceScratch, Scatter};
use crate::error::{Error, ErrorKind, Result};
use crate::read::hops::Touched;
use crate::read::run::{Run, append, for_each_run, merge};

impl Scatter<'_> {
    /// The bytes of the claimed read chunk that its pieces need, sorted, those with no more than `gap` bytes between
    /// them merged. `None` if they are more than `limit` ranges, pieces next to each other counted as one.
    pub(in crate::read) fn wanted<'s>(
        &self,
        claim: &Claim,
        gap: usize,
        limit: usize,
        scratch: &'s mut PieceScratch,
    ) -> Result<Option<&'s mut Vec<Range<usize>>>> {
        let PieceScratch { pieces, at, strides, walk, wanted, .. } = scratch;
        wanted.clear();
        let (rows, key) = self.chunk(claim)?;
        let strides = self.look_up(key, at, strides);
        let mut too_many = false;
        let beyond = || Error::new(ErrorKind::Internal, "a piece reaches beyond its read chunk");
        for &row in rows {
            if let Some(picks) = self.tiling.picks(row, at, strides)? {
                // Single elements are not listed, and there may be many more than are worth looking at.
                picks.for_each(|place, _| {
                    let start = place.saturating_mul(self.item);
                    append(wanted, start..start.saturating_add(self.item), gap);
                    wanted.len() <= limit
                });
                if wanted.len() > limit {
                    return Ok(None);
                }
                continue;
            }
            let visited = self.tiling.for_each(row, at, strides, pieces, |piece| {
                let run = Run::of(piece, self.item, walk)?;
                let cut = run.cut(walk, gap);
                let runs = walk[..cut].iter().fold(1, |runs: usize, step| runs.saturating_mul(step.len));
                if runs > limit || wanted.len() > limit {
                    too_many = true;
                    // Nobody sees this error: it ends the visit.
                    return Err(beyond());
                }
                let (outer, inner) = walk.split_at_mut(cut);
                let hull = run.source_span(inner).ok_or_else(beyond)?;
                let back = run.source - hull.start;
                for_each_run(run, outer, |source, _| {
                    let start = source.wrapping_sub(back);
                    append(wanted, start..start + hull.len(), gap);
                });
                Ok(())
            });
            if too_many || wanted.len() > limit {
                return Ok(None);
            }
            visited?;
        }
        merge(wanted, gap);
        Ok(Some(wanted))
    }

    /// One past the last byte of the claimed read chunk that its pieces need. `None` if that is beyond `limit`.
    pub(in crate::read) fn wanted_end(
        &self,
        claim: &Claim,
        limit: usize,
        scratch: &mut PieceScratch,
    ) -> Result<Option<usize>> {
        let (rows, key) = self.chunk(claim)?;
        if let Some(lines) = &self.lines {
            let line = lines.chunk(key);
            let ends = rows.iter().map(|&row| lines.end(row as usize, &line));
            // A maximum without a way out early runs faster than one with it.
            let end = ends.max().unwrap_or(0);
            return Ok((end <= limit).then_some(end));
        }
        let PieceScratch { pieces, at, strides, walk, .. } = scratch;
        let strides = self.look_up(key, at, strides);
        let mut end = 0;
        for &row in rows {
            end = end.max(if self.tiling.one_piece_each() {
                self.piece(row, at, strides, &mut pieces.piece)?;
                let run = Run::of(&pieces.piece, self.item, walk)?;
                let span = run.source_span(walk);
                span.ok_or_else(|| Error::new(ErrorKind::Internal, "a piece overflows"))?.end
            } else if let Some(picks) = self.tiling.picks(row, at, strides)? {
                let mut last = 0;
                picks.for_each(|place, _| {
                    last = last.max(place);
                    (last + 1).saturating_mul(self.item) <= limit
                });
                (last + 1).saturating_mul(self.item)
            } else {
                self.tiling.product(row, at, strides, &mut pieces.product)?;
                Touched::of(&pieces.product, self.item)?.source.end
            });
            if end > limit {
                return Ok(None);
            }
        }
        Ok(Some(end))
    }

    /// The claimed read chunk's only piece, if it is one run of bytes.
    pub(in crate::read) fn only_run(&self, claim: &Claim, scratch: &mut PieceScratch) -> Result<Option<Run>> {
        let (&[row], key) = self.chunk(claim)? else { return Ok(None) };
        if !self.tiling.one_piece_each() {
            return Ok(None);
        }
        let PieceScratch { pieces, at, strides, walk, .. } = scratch;
        let strides = self.look_up(key, at, strides);
        self.piece(row, at, strides, &mut pieces.piece)?;
        let run = Run::of(&pieces.piece, self.item, walk)?;
        Ok((walk.is_empty() && run.len > 0).then_some(run))
    }
}
