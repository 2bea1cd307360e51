//! What a read did.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::progress::Progress;

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
    /// Read chunks that were found decoded in a [`ChunkCache`](crate::ChunkCache).
    pub chunks_cached: usize,
    /// Of those that were decoded, read chunks that [`ForeignCodecs`](crate::ForeignCodecs) decoded.
    pub chunks_foreign: usize,
    /// Read chunks that the store does not hold; they read as the fill value.
    pub chunks_missing: usize,
    /// Encoded bytes fetched, shard indices and what lay between subchunks that were fetched together included.
    pub bytes_fetched: u64,
    /// Bytes that came out of decoding.
    pub bytes_decoded: u64,
    /// Bytes of the values in the result, before strings of fixed length are cut to theirs, and one byte for each bool; of
    /// values of variable length, with 8 bytes each for their offsets.
    pub bytes_out: u64,
    /// Requests to remote stores. Those that a store repeats by itself count once.
    pub requests: usize,
    /// The most requests that were in flight at once.
    pub max_in_flight: usize,
    /// Parts of selections that were copied, each from one read chunk.
    pub pieces: usize,
    /// The most bytes of encoded and decoded chunks that were held at once, beside the result and what codecs hold.
    pub bytes_held: u64,
    /// Wall time of planning.
    pub plan_time: Duration,
    /// Wall time of fetching, decoding and copying.
    pub read_time: Duration,
}

/// Counters that the workers of one read share.
#[derive(Default)]
pub(super) struct Counters {
    fetched: AtomicUsize,
    decoded: AtomicUsize,
    pub(super) foreign: AtomicUsize,
    bytes_fetched: AtomicUsize,
    bytes_decoded: AtomicUsize,
    pieces: AtomicUsize,
    requests: AtomicUsize,
    max_in_flight: AtomicUsize,
    waiting: AtomicUsize,
    cached: AtomicUsize,
    progress: Option<Arc<Progress>>,
}

impl Counters {
    /// Counters that tell `progress` of a read of so many read chunks and decoded bytes.
    pub(super) fn new(progress: Option<Arc<Progress>>, chunks: usize, bytes: u64) -> Self {
        if let Some(progress) = &progress {
            progress.begin(chunks as u64, bytes);
        }
        Self { progress, ..Self::default() }
    }

    /// Counts a read chunk that was taken: it has so many `pieces`, and decodes to `bytes`.
    pub(super) fn took(&self, pieces: usize, bytes: usize) {
        self.pieces.fetch_add(pieces, Ordering::Relaxed);
        if let Some(progress) = &self.progress {
            progress.took(bytes as u64);
        }
    }

    /// Counts a read chunk of which `bytes` encoded bytes were fetched.
    pub(super) fn fetched(&self, bytes: usize) {
        self.fetched_together(1, bytes);
    }

    /// Counts read chunks of which `bytes` encoded bytes were fetched, what lies between them included.
    pub(super) fn fetched_together(&self, chunks: usize, bytes: usize) {
        self.fetched.fetch_add(chunks, Ordering::Relaxed);
        self.bytes_fetched.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a read chunk that was found decoded.
    pub(super) fn cached(&self) {
        self.cached.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request to a remote store.
    pub(super) fn requested(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes note of how many requests are in flight.
    pub(super) fn in_flight(&self, requests: usize) {
        self.max_in_flight.fetch_max(requests, Ordering::Relaxed);
    }

    /// Takes note of how many bytes were fetched and are not decoded yet.
    pub(super) fn waiting(&self, bytes: usize) {
        self.waiting.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Counts a shard index of `bytes` encoded bytes that was fetched.
    pub(super) fn fetched_index(&self, bytes: usize) {
        self.bytes_fetched.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a read chunk that was decoded, `bytes` of it.
    pub(super) fn decoded(&self, bytes: usize) {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        self.bytes_decoded.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_to(self, stats: &mut ReadStats) {
        stats.chunks_fetched += self.fetched.into_inner();
        stats.chunks_decoded += self.decoded.into_inner();
        stats.chunks_foreign += self.foreign.into_inner();
        stats.bytes_fetched += self.bytes_fetched.into_inner() as u64;
        stats.bytes_decoded += self.bytes_decoded.into_inner() as u64;
        stats.pieces += self.pieces.into_inner();
        stats.bytes_held += self.waiting.into_inner() as u64;
        stats.chunks_cached += self.cached.into_inner();
        stats.requests += self.requests.into_inner();
        stats.max_in_flight = stats.max_in_flight.max(self.max_in_flight.into_inner());
    }
}
