//! Stretches of shards: neighbouring subchunks that are fetched with one request.

use std::ops::Range;
use std::sync::Arc;

use super::fetch::{Place, READ_GAP};
use super::shards::Shard;
use crate::plan::Part;

/// Bytes of a shard that hold subchunks of a plan, one after the other, with no large gaps between them.
pub(super) struct Stretch<'a> {
    shard: Arc<Shard>,
    part: &'a Part,
    /// Where it lies in the shard.
    span: Range<u64>,
    /// Which of the shard's wanted subchunks it holds, by where they lie.
    held: Range<usize>,
    /// The most bytes that it may have.
    most: u64,
}

/// A subchunk at one end of a stretch.
pub(super) struct Neighbour {
    /// Its position in the plan.
    pub(super) chunk: usize,
    /// Where it lies in the shard.
    pub(super) bytes: Range<u64>,
}

impl<'a> Stretch<'a> {
    /// The stretch of the plan's read chunk `chunk`, which lies at `bytes` of the shard. `None` if it has no neighbours.
    pub(super) fn new(shard: &Arc<Shard>, part: &'a Part, chunk: usize, bytes: Range<u64>, most: u64) -> Option<Self> {
        if shard.stored() < 2 || bytes.end - bytes.start >= most {
            return None;
        }
        let at = shard.find(part, chunk, bytes.start)?;
        Some(Self { shard: shard.clone(), part, span: bytes, held: at..at + 1, most })
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.shard
    }

    pub(super) fn span(&self) -> &Range<u64> {
        &self.span
    }

    /// The subchunk `after` the stretch, or before it, if it is near enough.
    pub(super) fn neighbour(&self, after: bool) -> Option<Neighbour> {
        let at = if after { self.held.end } else { self.held.start.checked_sub(1)? };
        let (chunk, bytes) = self.shard.nth(self.part, at)?;
        // Subchunks that overlap, which is odd, are none of its neighbours.
        let (gap, span) = if after {
            (bytes.start.checked_sub(self.span.end)?, self.span.start..bytes.end)
        } else {
            (self.span.start.checked_sub(bytes.end)?, bytes.start..self.span.end)
        };
        (gap <= READ_GAP as u64 && span.end - span.start <= self.most).then_some(Neighbour { chunk, bytes })
    }

    pub(super) fn place(&self, neighbour: &Neighbour) -> Place {
        let Range { start, end } = neighbour.bytes;
        Place::Shard { shard: self.shard.clone(), start, len: end - start }
    }

    /// Takes its [`neighbour`](Self::neighbour) in.
    pub(super) fn extend(&mut self, after: bool, neighbour: &Neighbour) {
        if after {
            self.span.end = neighbour.bytes.end;
            self.held.end += 1;
        } else {
            self.span.start = neighbour.bytes.start;
            self.held.start -= 1;
        }
    }
}
