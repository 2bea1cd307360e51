//! What the pieces of a read chunk need of it, and what memory that takes.

use std::ops::Range;

/// What has to be fetched and decoded of one read chunk.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// The bytes of the decoded read chunk that are needed, sorted and disjoint. All, or as many as the second stage finds
    /// that it needs, if `None`.
    pub(super) wanted: Option<Vec<Range<usize>>>,
    /// Whether the read chunk is stored as it is, and only the wanted bytes are fetched.
    pub(super) in_ranges: bool,
    /// Whether its only piece is known to be one run of bytes.
    pub(super) one_run: bool,
}

impl Demand {
    /// Number of the wanted bytes, if it is known.
    pub(super) fn wanted_len(&self) -> Option<usize> {
        self.wanted.as_ref().map(|wanted| wanted.iter().map(Range::len).sum())
    }
}

/// Most bytes of memory that a worker's buffers take for one read chunk, beside the result.
#[derive(Debug, Default)]
pub(super) struct Need {
    pub(super) encoded: usize,
    pub(super) decoded: usize,
    /// Elements after they were cast to another type.
    pub(super) cast: usize,
    /// The index of its shard.
    pub(super) index: usize,
}

impl Need {
    pub(super) fn total(&self) -> usize {
        [self.encoded, self.decoded, self.cast, self.index].into_iter().fold(0, usize::saturating_add)
    }
}
