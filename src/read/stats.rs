//! What a read did.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// What one read did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStats {
    /// Selections read: rows of the result.
    pub rows: usize,
    /// Read chunks whose encoded bytes were fetched from the store.
    pub chunks_fetched: usize,
    /// Read chunks that were decoded.
    pub chunks_decoded: usize,
    /// Read chunks that the store does not hold; they read as the fill value.
    pub chunks_missing: usize,
    /// Encoded bytes fetched, shard indices included.
    pub bytes_fetched: u64,
    /// Bytes that came out of decoding.
    pub bytes_decoded: u64,
    /// Bytes of the values in the result, one byte for each bool.
    pub bytes_out: u64,
    /// Parts of selections that were copied, each from one read chunk.
    pub pieces: usize,
    /// Wall time of planning.
    pub plan_time: Duration,
    /// Wall time of fetching, decoding and copying.
    pub read_time: Duration,
}

/// Counters that the workers of one read share.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) fetched: AtomicUsize,
    pub(super) decoded: AtomicUsize,
    pub(super) bytes_fetched: AtomicUsize,
    pub(super) bytes_decoded: AtomicUsize,
    pub(super) pieces: AtomicUsize,
}

impl Counters {
    pub(super) fn add_to(self, stats: &mut ReadStats) {
        stats.chunks_fetched += self.fetched.into_inner();
        stats.chunks_decoded += self.decoded.into_inner();
        stats.bytes_fetched += self.bytes_fetched.into_inner() as u64;
        stats.bytes_decoded += self.bytes_decoded.into_inner() as u64;
        stats.pieces += self.pieces.into_inner();
    }
}
