//! Carries out plans: fetch, decode, scatter, on many threads.
//!
//! * [`execute`]: the workers and what they do with one read chunk.
//! * [`scatter`]: the only unsafe code of the crate: disjoint writes into one output.
//! * [`output`]: the output buffer.
//! * [`pool`]: the threads.

pub(crate) mod execute;
mod output;
mod pool;
mod scatter;

use std::time::Duration;

/// How to carry out a read.
///
/// ```
/// let options = zarrow::ReadOptions::default().with_threads(Some(2));
/// assert_eq!(options.threads(), Some(2));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    threads: Option<usize>,
}

impl ReadOptions {
    /// The number of threads that fetch, decode and copy. `None`, the default, takes as many as this process may
    /// use, by its CPU affinity and quota.
    #[must_use]
    pub fn with_threads(mut self, threads: Option<usize>) -> Self {
        self.threads = threads;
        self
    }

    /// The number of threads, if it is set.
    #[must_use]
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }
}

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
