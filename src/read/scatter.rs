//! Writes the pieces of decoded read chunks to their places in the output, from many threads at once.
//!
//! All unsafe code here rests on [`Tiling`], which proves that no element is written twice, be it by different read chunks,
//! by rows of one, or by one row, and on [`Claim`], which is given out once per read chunk of its output. Where threads share
//! a claim, each row and each part of a row is given to one of them.
#![allow(unsafe_code)]

mod share;
mod wanted;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::copies::{copy_bytes, copy_hops, copy_walk};
use super::crew::Crew;
use super::hops::{Hops, Touched};
use super::run::{Lines, Run, Step, for_each_run, locate};
use super::validity::Validity;
use crate::chunk::Extent;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::reserve;
use crate::plan::Part;
use crate::plan::tiling::{ChunkAt, Picks, Piece, PieceBuffers, Tiling};

/// So many pieces are computed before the first of them is copied.
const BATCH: usize = 16;

/// Numbers the scatters of this process.
static SCATTERS: AtomicU64 = AtomicU64::new(0);

/// One output buffer, shared by the threads that fill it with the read chunks of one array.
pub(super) struct Scatter<'a> {
    tiling: Tiling<'a>,
    part: &'a Part,
    target: *mut u8,
    target_len: usize,
    /// Whether all bytes of the target were zero before anything was written.
    zeroed: bool,
    /// Bytes per element.
    item: usize,
    /// Distance between neighbours along each axis of the longest read chunk when it is decoded, in elements.
    strides: &'a [usize],
    /// Where read chunks differ in shape, the order in which their axes are stored, outermost first.
    order: Option<Vec<usize>>,
    lines: Option<Lines<'a>>,
    id: u64,
    next: AtomicUsize,
    /// Which read chunks were claimed.
    claimed: Vec<AtomicBool>,
    copied: AtomicUsize,
    crew: &'a Crew<'a>,
    output: PhantomData<&'a mut [u8]>,
}

// SAFETY: `target` points to the slice that `output` borrows mutably for 'a. Threads write to it only through a
// `Claim`, and `Tiling` proves that the pieces of different claims are disjoint.
unsafe impl Sync for Scatter<'_> {}
// SAFETY: as for `Sync`; nothing here is tied to a thread.
unsafe impl Send for Scatter<'_> {}

/// The sole right to write the pieces of one read chunk. Given out once for each.
pub(super) struct Claim {
    chunk: usize,
    /// The scatter that gave it out.
    scatter: u64,
}

impl Claim {
    /// Position of the read chunk in the plan.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }
}

/// What is written where there is no read chunk.
struct Fill<'f> {
    /// The bytes of one element; `None` if they are there already.
    value: Option<&'f [u8]>,
    /// Where elements are made null.
    nulls: Option<&'f Validity>,
}

/// Buffers that one thread reuses from piece to piece.
#[derive(Debug, Default)]
pub(super) struct PieceScratch {
    pieces: PieceBuffers,
    batch: Vec<Piece>,
    at: ChunkAt,
    strides: Vec<usize>,
    walk: Vec<Step>,
    hops: Hops,
    wanted: Vec<Range<usize>>,
}

/// So many bytes of buffers for pieces are kept for the next read chunk.
const KEPT: usize = 1 << 20;

impl PieceScratch {
    /// Lets go of buffers that a read of many single places made long.
    pub(super) fn shrink(&mut self) {
        if self.pieces.bytes() > KEPT {
            self.pieces = PieceBuffers::default();
        }
        if self.wanted.capacity() * size_of::<Range<usize>>() > KEPT {
            self.wanted = Vec::new();
        }
    }
}

/// Pairs a proven plan with its output: one scatter for each of the plan's arrays. `zeroed` says that the output is zero
/// everywhere, `strides` are those of a decoded read chunk of each array, the longest where they differ. `crew` helps with
/// copies.
///
/// # Errors
/// [`ErrorKind::Internal`] if the output has another length than the plan's elements of `item` bytes, or `strides`
/// another rank than the plan.
pub(super) fn scatters<'a>(
    tiling: Tiling<'a>,
    output: &'a mut [u8],
    zeroed: bool,
    item: usize,
    strides: &[&'a [usize]],
    crew: &'a Crew<'a>,
) -> Result<Vec<Scatter<'a>>> {
    let plan = tiling.plan();
    if Some(output.len()) != plan.layout().elements().checked_mul(item)
        || strides.len() != plan.parts().len()
        || strides.iter().any(|strides| strides.len() != plan.ndim())
    {
        return Err(Error::new(ErrorKind::Internal, "the output does not fit the plan"));
    }
    let (target, target_len) = (output.as_mut_ptr(), output.len());
    let scatter = |(part, &strides): (&'a Part, &&'a [usize])| {
        let chunks = part.groups().chunks().len();
        let mut claimed = reserve(chunks, "read chunks", "Read fewer selections at a time.")?;
        claimed.resize_with(chunks, AtomicBool::default);
        Ok(Scatter {
            tiling,
            part,
            target,
            target_len,
            zeroed,
            item,
            strides,
            order: order(part, strides),
            lines: Lines::new(plan, part, item, strides),
            id: SCATTERS.fetch_add(1, Ordering::Relaxed),
            next: AtomicUsize::new(0),
            claimed,
            copied: AtomicUsize::new(0),
            crew,
            output: PhantomData,
        })
    };
    plan.parts().iter().zip(strides).map(scatter).collect()
}

/// The order in which the axes of read chunks are stored, by the strides of the longest, where they differ in shape.
///
/// Axes that have the same stride may stand in any order: all but one of them have a length of one in all read chunks.
fn order(part: &Part, strides: &[usize]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..strides.len()).collect();
    if order.iter().all(|&axis| part.grid().equal_len(axis).is_some()) {
        return None;
    }
    order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    Some(order)
}

/// Checks that all claims were carried out and that together they wrote every byte that lies in an array.
pub(super) fn finish(scatters: Vec<Scatter<'_>>) -> Result<()> {
    let expected = scatters.first().map_or(0, |scatter| scatter.tiling.elements() * scatter.item);
    let copied = scatters.into_iter().map(|scatter| scatter.copied.into_inner()).sum::<usize>();
    if copied == expected {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Internal, "not every element of the result was written"))
}

impl<'a> Scatter<'a> {
    pub(super) fn part(&self) -> &'a Part {
        self.part
    }

    /// The next read chunk that nobody has claimed yet, in storage order.
    pub(super) fn claim(&self) -> Option<Claim> {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.claimed.len() {
                return None;
            }
            if let Some(claim) = self.claim_chunk(chunk) {
                return Some(claim);
            }
        }
    }

    /// The read chunk at position `chunk` of the plan, if there is such and nobody has claimed it yet.
    pub(super) fn claim_chunk(&self, chunk: usize) -> Option<Claim> {
        let claimed = self.claimed.get(chunk)?;
        // Of all that swap, one sees `false`.
        (!claimed.swap(true, Ordering::Relaxed)).then_some(Claim { chunk, scatter: self.id })
    }

    /// How many read chunks are left for [`claim`](Self::claim), at most.
    pub(super) fn unclaimed(&self) -> usize {
        self.claimed.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Who helps with copies.
    pub(super) fn crew(&self) -> &'a Crew<'a> {
        self.crew
    }

    /// Copies the pieces of the claimed read chunk from its decoded bytes.
    ///
    /// `extents` says which bytes of the read chunk stand where in `decoded`. They must cover what
    /// [`wanted`](Self::wanted) asks for with the same `gap`.
    pub(super) fn copy(
        &self,
        claim: Claim,
        decoded: &[u8],
        extents: &[Extent],
        gap: usize,
        scratch: &mut PieceScratch,
    ) -> Result<()> {
        if let (Some(lines), [extent]) = (&self.lines, extents) {
            return self.copy_lines(&claim, lines, decoded, extent, scratch);
        }
        if let ([extent], false) = (extents, self.tiling.one_piece_each()) {
            return self.copy_products(&claim, decoded, extent, scratch);
        }
        self.for_each_piece(claim, scratch, |scatter, piece, walk| {
            let run = Run::of(piece, scatter.item, walk)?;
            let bytes = run.bytes(walk);
            if let [_] = extents {
                scatter.copy_run(run, walk, decoded, extents)?;
                return Ok(bytes);
            }
            let cut = run.cut(walk, gap);
            let (outer, inner) = walk.split_at_mut(cut);
            let mut outcome = Ok(());
            for_each_run(run, outer, |source, target| {
                if outcome.is_ok() {
                    outcome = scatter.copy_run(Run { source, target, ..run }, inner, decoded, extents);
                }
            });
            outcome.map(|()| bytes)
        })
    }

    /// [`copy`](Self::copy) where every piece is one run.
    fn copy_lines(
        &self,
        claim: &Claim,
        lines: &Lines<'_>,
        decoded: &[u8],
        extent: &Extent,
        scratch: &mut PieceScratch,
    ) -> Result<()> {
        let beyond = || Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer");
        let (rows, key) = self.chunk(claim)?;
        let line = lines.chunk(key);
        // The extent's bytes, so that positions in the read chunk only have to be shifted.
        let source = decoded.get(extent.at..extent.at + extent.source.len()).ok_or_else(beyond)?;
        self.for_rows(rows, scratch, |rows, _| {
            let mut copied = 0;
            // Bounds first, for some rows at a time: their loads do not depend on each other, so the cache misses overlap.
            let mut runs = [Run::default(); 32];
            for rows in rows.chunks(runs.len()) {
                for (run, &row) in runs.iter_mut().zip(rows) {
                    *run = lines.run(row as usize, &line);
                }
                for run in &runs[..rows.len()] {
                    let from = run.source.wrapping_sub(extent.source.start);
                    let in_source = from.checked_add(run.len).is_some_and(|end| end <= source.len());
                    let in_target = run.target.checked_add(run.len).is_some_and(|end| end <= self.target_len);
                    if !(in_source && in_target) {
                        return Err(beyond());
                    }
                    copied += run.len;
                    if run.len >= 2 * self.crew.worth() {
                        // SAFETY: as below.
                        let target = unsafe { std::slice::from_raw_parts_mut(self.target.add(run.target), run.len) };
                        self.copy_shared(&source[from..from + run.len], target)?;
                        continue;
                    }
                    // SAFETY: both ends were checked just above, in the source and in the target. The source is a shared
                    // borrow and the target the exclusive borrow that `scatters` was given, so they do not overlap; no
                    // other thread writes these target bytes, because claims are unique, `for_rows` gives each row once
                    // and `Tiling` proves that no element is written twice.
                    unsafe { copy_bytes(source.as_ptr().add(from), self.target.add(run.target), run.len) };
                }
            }
            Ok(copied)
        })
    }

    /// [`copy`](Self::copy) where rows are no boxes.
    fn copy_products(&self, claim: &Claim, decoded: &[u8], extent: &Extent, scratch: &mut PieceScratch) -> Result<()> {
        let beyond = || Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer");
        let (rows, key) = self.chunk(claim)?;
        let source = decoded.get(extent.at..extent.at + extent.source.len()).ok_or_else(beyond)?;
        self.for_rows(rows, scratch, |rows, scratch| {
            let PieceScratch { pieces, at, strides, walk, hops, .. } = scratch;
            let strides = self.look_up(key, at, strides);
            let mut copied = 0;
            for &row in rows {
                if let Some(picks) = self.tiling.picks(row, at, strides)? {
                    copied += self.copy_picks(&picks, source, extent.source.start)?;
                    continue;
                }
                self.tiling.product(row, at, strides, &mut pieces.product)?;
                let touched = Touched::of(&pieces.product, self.item)?;
                if touched.source.start < extent.source.start
                    || touched.source.end > extent.source.end
                    || touched.target_end > self.target_len
                {
                    return Err(beyond());
                }
                copied += touched.bytes;
                if hops.set(&pieces.product, self.item) {
                    let (product, hops) = (&pieces.product, &*hops);
                    self.share_hops(touched.bytes, hops, |list| {
                        hops.for_each_place(product, &mut |from, target| {
                            // Never below zero where something is copied: a hop adds to it what makes it a byte of the
                            // extent.
                            let from = source.as_ptr().wrapping_add(from).wrapping_sub(extent.source.start);
                            // SAFETY: `touched` holds the extremes of all places and hops together, and was checked just
                            // above to lie in the extent, whose bytes `source` has, and in the target. The source is a
                            // shared borrow and the target the exclusive borrow that `scatters` was given, so they do not
                            // overlap; no other thread writes these target bytes, because claims are unique, `for_rows`
                            // gives each row and `share_hops` each hop once, and `Tiling` proves that no element is
                            // written twice.
                            unsafe { copy_hops(from, self.target.add(target), list, hops.uniform()) };
                        });
                    })?;
                    continue;
                }
                self.tiling.for_each(row, at, strides, pieces, |piece| {
                    let run = Run::of(piece, self.item, walk)?;
                    self.copy_run(run, walk, decoded, std::slice::from_ref(extent))
                })?;
            }
            Ok(copied)
        })
    }

    /// Copies single elements from `source`, the bytes of the read chunk from `start` on. Gives how many bytes.
    fn copy_picks(&self, picks: &Picks<'_>, source: &[u8], start: usize) -> Result<usize> {
        let source = |place: usize| source.get(place.checked_mul(self.item)?.checked_sub(start)?..);
        self.share_picks(picks, |picks| match self.item {
            1 => self.write_picks(picks, |place| source(place)?.first_chunk::<1>()),
            2 => self.write_picks(picks, |place| source(place)?.first_chunk::<2>()),
            4 => self.write_picks(picks, |place| source(place)?.first_chunk::<4>()),
            8 => self.write_picks(picks, |place| source(place)?.first_chunk::<8>()),
            16 => self.write_picks(picks, |place| source(place)?.first_chunk::<16>()),
            item => self.write_picks(picks, |place| source(place)?.get(..item)),
        })
    }

    /// Writes single elements; `element` gives the one at a place of the read chunk, or `None` beyond it. Gives how many
    /// bytes.
    #[inline]
    fn write_picks<'s, E: AsRef<[u8]> + ?Sized + 's>(
        &self,
        picks: &Picks<'_>,
        element: impl Fn(usize) -> Option<&'s E>,
    ) -> Result<usize> {
        let mut written = 0;
        let all = picks.for_each(|place, target| {
            let Some(bytes) = element(place) else { return false };
            let bytes = bytes.as_ref();
            let to = target.checked_mul(self.item);
            let Some(to) = to.filter(|to| to.checked_add(bytes.len()).is_some_and(|end| end <= self.target_len)) else {
                return false;
            };
            // SAFETY: `bytes` is a slice, and as many bytes of the target from `to` on were checked just above to be
            // there. The source is a shared borrow and the target the exclusive borrow that `scatters` was given, so they
            // do not overlap; no other thread writes these target bytes, because claims are unique, each row and each part
            // of a row is given once, and `Tiling` proves that no element is written twice.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.target.add(to), bytes.len()) };
            written += bytes.len();
            true
        });
        all.then_some(written).ok_or_else(|| Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer"))
    }

    /// Copies one run at each step of `walk`; all of its source must lie in one extent.
    fn copy_run(&self, run: Run, walk: &mut [Step], decoded: &[u8], extents: &[Extent]) -> Result<()> {
        let beyond = || Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer");
        if run.len == 0 {
            return Ok(());
        }
        let span = run.source_span(walk).ok_or_else(beyond)?;
        let at = locate(extents, span.start, span.len()).ok_or_else(beyond)?;
        let in_source = at.checked_add(span.len()).is_some_and(|end| end <= decoded.len());
        let in_target = run.target.checked_add(run.target_span(walk)).is_some_and(|end| end <= self.target_len);
        if !(in_source && in_target) {
            return Err(beyond());
        }
        let run = Run { source: at + (run.source - span.start), ..run };
        let parts = run.bytes(walk) / self.crew.worth();
        if parts >= 2
            && let Some((&outer, inner)) = walk.split_first()
        {
            let len = outer.len.div_ceil(parts);
            let parts = (0..outer.len).step_by(len).map(|first| outer.part(run, first, len));
            return self.crew.share(parts, &mut Vec::new(), &|(run, outer), walk| {
                walk.clear();
                walk.push(outer);
                walk.extend_from_slice(inner);
                // SAFETY: as below, of a part of the walk: `share` gives each once.
                unsafe { copy_walk(decoded.as_ptr(), self.target, run, walk) };
                Ok(())
            });
        }
        if parts >= 2 {
            // SAFETY: as below; the walk has no steps.
            let target = unsafe { std::slice::from_raw_parts_mut(self.target.add(run.target), run.len) };
            return self.copy_shared(&decoded[run.source..run.source + run.len], target);
        }
        // SAFETY: the bounds of the whole walk were checked just above, in `decoded` and in the target. The source is a
        // shared borrow and the target the exclusive borrow that `scatters` was given, so they do not overlap; no other
        // thread writes these target bytes, because claims are unique, each row is given once, and `Tiling` proves that no
        // element is written twice.
        unsafe { copy_walk(decoded.as_ptr(), self.target, run, walk) };
        Ok(())
    }

    /// Has `write` fill the place of the claimed read chunk in the output if its only piece is one run of bytes there
    /// and in the chunk, and if `accept` takes the run's bytes of the chunk. Otherwise gives the claim back.
    pub(super) fn write_run(
        &self,
        claim: Claim,
        scratch: &mut PieceScratch,
        accept: impl FnOnce(&Range<usize>) -> bool,
        write: impl FnOnce(Range<usize>, &mut [u8]) -> Result<()>,
    ) -> Result<Option<Claim>> {
        let Some(run) = self.only_run(&claim, scratch)? else { return Ok(Some(claim)) };
        let source = run.source..run.source + run.len;
        if !accept(&source) {
            return Ok(Some(claim));
        }
        if run.target.checked_add(run.len).is_none_or(|end| end > self.target_len) {
            return Err(Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer"));
        }
        // SAFETY: the run lies in the output, as checked just above, and no other thread reads or writes these bytes,
        // because `claim` is unique and `Tiling` proves pieces of different claims disjoint.
        write(source, unsafe { std::slice::from_raw_parts_mut(self.target.add(run.target), run.len) })?;
        self.copied.fetch_add(run.len, Ordering::Relaxed);
        Ok(None)
    }

    /// Has `write` fill the places in the output of the claimed read chunk's pieces, each with a run of the chunk's bytes,
    /// if all pieces are runs, and `count` of them. Otherwise gives the claim back.
    pub(super) fn write_lines(
        &self,
        claim: Claim,
        count: usize,
        scratch: &mut PieceScratch,
        write: impl Fn(Range<usize>, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<Option<Claim>> {
        let (rows, key) = self.chunk(&claim)?;
        let Some(lines) = self.lines.as_ref().filter(|_| rows.len() == count) else { return Ok(Some(claim)) };
        let line = lines.chunk(key);
        self.for_rows(rows, scratch, |rows, _| {
            let mut written = 0;
            for &row in rows {
                let run = lines.run(row as usize, &line);
                if run.target.checked_add(run.len).is_none_or(|end| end > self.target_len) {
                    return Err(Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer"));
                }
                // SAFETY: the run lies in the output, as checked just above, and no other thread reads or writes these
                // bytes, because `claim` is unique, `for_rows` gives each row once and `Tiling` proves that no element is
                // written twice.
                let target = unsafe { std::slice::from_raw_parts_mut(self.target.add(run.target), run.len) };
                write(run.source..run.source + run.len, target)?;
                written += run.len;
            }
            Ok(written)
        })?;
        Ok(None)
    }

    /// Writes `value`, the bytes of one element, to every element of the claimed read chunk's pieces, and makes them null
    /// in `nulls`.
    pub(super) fn fill(
        &self,
        claim: Claim,
        value: &[u8],
        scratch: &mut PieceScratch,
        nulls: Option<&Validity>,
    ) -> Result<()> {
        if value.len() != self.item {
            return Err(Error::new(ErrorKind::Internal, "the fill value does not fit the element type"));
        }
        // Zeros on zeros would only touch pages.
        let zeros = self.zeroed && value.iter().all(|&byte| byte == 0);
        let fill = Fill { value: (!zeros).then_some(value), nulls };
        if self.tiling.one_piece_each() {
            return self.for_each_piece(claim, scratch, |scatter, piece, walk| scatter.fill_piece(piece, walk, &fill));
        }
        let (rows, key) = self.chunk(&claim)?;
        self.for_rows(rows, scratch, |rows, scratch| {
            let PieceScratch { pieces, at, strides, walk, .. } = scratch;
            let strides = self.look_up(key, at, strides);
            let mut filled = 0;
            for &row in rows {
                if let Some(picks) = self.tiling.picks(row, at, strides)? {
                    filled += self.share_picks(&picks, |picks| self.fill_picks(picks, &fill))?;
                    continue;
                }
                self.tiling.for_each(row, at, strides, pieces, |piece| {
                    filled += self.fill_piece(piece, walk, &fill)?;
                    Ok(())
                })?;
            }
            Ok(filled)
        })
    }

    /// Fills single elements. Gives how many bytes.
    fn fill_picks(&self, picks: &Picks<'_>, fill: &Fill<'_>) -> Result<usize> {
        if let Some(validity) = fill.nulls {
            picks.for_each(|_, element| {
                validity.clear(element..element + 1);
                true
            });
        }
        match fill.value {
            Some(value) => self.write_picks(picks, |_| Some(value)),
            None => Ok(picks.len() * self.item),
        }
    }

    /// Fills a piece. Gives how many bytes.
    fn fill_piece(&self, piece: &Piece, walk: &mut Vec<Step>, fill: &Fill<'_>) -> Result<usize> {
        let mut run = Run::of(piece, self.item, walk)?;
        let bytes = run.bytes(walk);
        // Where the source does not matter, runs that follow each other in the target are one.
        while let Some(step) = walk.pop_if(|step| step.target_stride == run.len) {
            run.len *= step.len;
        }
        if run.target.checked_add(run.target_span(walk)).is_none_or(|end| end > self.target_len) {
            return Err(Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer"));
        }
        if run.len == 0 || (fill.value.is_none() && fill.nulls.is_none()) {
            return Ok(bytes);
        }
        let mut outcome = Ok(());
        for_each_run(run, walk, |_, target| {
            if let Some(validity) = fill.nulls {
                validity.clear(target / self.item..(target + run.len) / self.item);
            }
            if let (Some(value), Ok(())) = (fill.value, &outcome) {
                // SAFETY: `target + run.len` lies in the output, as checked just above for the whole walk, and no other
                // thread reads or writes these bytes, because claims are unique, each row is given once, and `Tiling`
                // proves that no element is written twice.
                let bytes = unsafe { std::slice::from_raw_parts_mut(self.target.add(target), run.len) };
                outcome = self.fill_shared(bytes, value);
            }
        });
        outcome.map(|()| bytes)
    }

    #[expect(clippy::needless_pass_by_value, reason = "a claim is used up")]
    fn for_each_piece(
        &self,
        claim: Claim,
        scratch: &mut PieceScratch,
        visit: impl Fn(&Self, &Piece, &mut Vec<Step>) -> Result<usize> + Sync,
    ) -> Result<()> {
        let (rows, key) = self.chunk(&claim)?;
        self.for_rows(rows, scratch, |rows, scratch| {
            let PieceScratch { pieces, batch, at, strides, walk, .. } = scratch;
            let strides = self.look_up(key, at, strides);
            let mut copied = 0;
            if self.tiling.one_piece_each() {
                batch.resize_with(BATCH, Piece::default);
                for rows in rows.chunks(BATCH) {
                    // Some rows at a time: their bounds lie anywhere in memory, and loads that nothing depends on overlap.
                    for (piece, &row) in batch.iter_mut().zip(rows) {
                        self.piece(row, at, strides, piece)?;
                    }
                    for piece in &batch[..rows.len()] {
                        copied += visit(self, piece, walk)?;
                    }
                }
            } else {
                for &row in rows {
                    self.tiling.for_each(row, at, strides, pieces, |piece| {
                        copied += visit(self, piece, walk)?;
                        Ok(())
                    })?;
                }
            }
            Ok(copied)
        })
    }

    /// The rows of the claimed read chunk and its key.
    fn chunk(&self, claim: &Claim) -> Result<(&'a [u32], u64)> {
        if claim.scatter != self.id {
            return Err(Error::new(ErrorKind::Internal, "a claim on another output"));
        }
        let groups = self.part.groups();
        Ok((groups.rows(claim.chunk), groups.chunks()[claim.chunk]))
    }

    /// Looks up where the read chunk `key` lies. Gives its strides, which may be put into `buffer`.
    fn look_up<'s>(&'s self, key: u64, at: &mut ChunkAt, buffer: &'s mut Vec<usize>) -> &'s [usize] {
        // What indices add to the key, rows that are no boxes need.
        at.set(self.part, key, !self.tiling.one_piece_each());
        let Some(order) = &self.order else { return self.strides };
        buffer.clear();
        buffer.resize(order.len(), 0);
        let mut stride = 1_usize;
        for &axis in order.iter().rev() {
            buffer[axis] = stride;
            stride = stride.saturating_mul(at.len(axis) as usize);
        }
        buffer
    }

    fn piece(&self, row: u32, at: &ChunkAt, strides: &[usize], piece: &mut Piece) -> Result<()> {
        let found = self.tiling.piece(row, at, strides, piece);
        found.ok_or_else(|| Error::new(ErrorKind::Internal, "a row does not meet its read chunk"))
    }
}

/// Repeats `value` over `bytes`, whose length is a multiple of it.
pub(super) fn fill_run(bytes: &mut [u8], value: &[u8]) {
    if value.iter().all(|byte| *byte == value[0]) {
        bytes.fill(value[0]);
        return;
    }
    bytes[..value.len()].copy_from_slice(value);
    let mut filled = value.len();
    while filled < bytes.len() {
        let more = filled.min(bytes.len() - filled);
        bytes.copy_within(..more, filled);
        filled += more;
    }
}

#[cfg(test)]
#[path = "scatter_tests/mod.rs"]
mod tests;
