//! Carries out plans: fetch, decode, scatter, on many threads.
//!
//! * [`execute`]: the workers.
//! * [`target`]: outputs, and what becomes of them.
//! * [`worker`]: what one worker has.
//! * [`column`]: what is done with one read chunk.
//! * [`demand`]: what is needed of a read chunk.
//! * [`fetch`]: the first stage, which asks the store.
//! * [`remote`]: the first stage, of stores that answer after a while.
//! * [`budget`]: memory beside the result.
//! * [`ahead`]: read-ahead on a cold disk.
//! * [`shards`]: shards that are open, their indices read once.
//! * [`crew`]: threads that help others copy.
//! * [`slices`]: how reads that are under way at once share the pool.
//! * [`stretch`]: neighbouring subchunks, fetched together.
//! * [`run`]: the geometry of copies.
//! * [`hops`]: that of copies from many single places.
//! * [`padding`]: elements beyond the array.
//! * [`validity`]: elements that are null.
//! * [`variable`]: values of variable length, in a second pass.
//! * [`scatter`]: disjoint writes into one output, in unsafe code.
//! * [`copies`]: the copies themselves, in unsafe code.
//! * [`pool`]: the threads.
//! * [`progress`]: how far a read is.
//! * [`stats`]: what a read did.

mod ahead;
mod budget;
mod column;
mod copies;
mod crew;
mod demand;
pub(crate) mod execute;
mod fetch;
mod hops;
mod padding;
mod pool;
mod progress;
mod remote;
#[cfg(test)]
mod rows_tests;
mod run;
mod scatter;
mod shards;
mod slices;
mod stats;
mod stretch;
mod target;
mod validity;
mod variable;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use self::progress::Progress;
pub use self::stats::ReadStats;
pub(crate) use self::validity::Validity;
use crate::cache::ChunkCache;
use crate::cancel::Cancel;

/// What becomes of read chunks that the store does not hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingChunks {
    /// Their elements have the array's fill value.
    #[default]
    Fill,
    /// Their elements are null.
    Null,
    /// The read fails.
    Error,
}

/// How to carry out a read.
///
/// ```
/// let options = zarrow::ReadOptions::default().with_threads(Some(2));
/// assert_eq!(options.threads(), Some(2));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    threads: Option<usize>,
    memory_limit: Option<usize>,
    missing_chunks: MissingChunks,
    fill: Option<Arc<[u8]>>,
    concurrency: Option<usize>,
    max_gap: Option<usize>,
    timeout: Option<Duration>,
    since: Option<Instant>,
    progress: Option<Arc<Progress>>,
    cache: Option<ChunkCache>,
    cancel: Cancel,
}

impl ReadOptions {
    /// The number of threads that plan, fetch, decode and copy. `None`, the default, takes as many as this process may
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

    /// The most bytes of encoded and decoded chunks that may be held at once beside the result and the plan: of chunks
    /// that are stored as they are, those that are read, and of elements that are cast to another type, both. Where it
    /// does not suffice for a chunk per thread, threads wait for each other; where not for a single one, the read is an
    /// error that says how much it takes. Decoded values of variable length are held until the lengths of all are known,
    /// and count as well, as do 16 bytes for each of them. Memory of earlier results does not count, but is let go; see
    /// [`release_unused`](crate::release_unused). Nor do buffers of connections, three blocks of blosc whose bits are
    /// shuffled, nor what foreign codecs take. `None`, the default, sets no limit: each thread holds one encoded and one decoded read chunk, or, of a shard, up to 4 MiB of encoded neighbours and one decoded subchunk.
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: Option<usize>) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// The memory limit in bytes, if it is set.
    #[must_use]
    pub fn memory_limit(&self) -> Option<usize> {
        self.memory_limit
    }

    /// The number of requests to remote stores that are in flight at once, at least 1. `None`, the default, starts with 64
    /// and goes up to 1,024 as latency and throughput suggest, and down when a store pushes back.
    #[must_use]
    pub fn with_concurrency(mut self, requests: Option<usize>) -> Self {
        self.concurrency = requests.map(|requests| requests.max(1));
        self
    }

    /// The largest gap, in bytes, between two parts of a value in a remote store that are fetched with one request. Smaller
    /// ones are read over where that takes less than the latency that was seen. `None`, the default, is 1 MiB.
    #[must_use]
    pub fn with_max_gap(mut self, bytes: Option<usize>) -> Self {
        self.max_gap = bytes;
        self
    }

    /// How remote stores are asked, with so much memory for what was fetched and is not decoded yet.
    fn asking(&self, room: Option<usize>) -> remote::Asking {
        remote::Asking { concurrency: self.concurrency, max_gap: self.max_gap, room }
    }

    /// What becomes of read chunks that the store does not hold.
    #[must_use]
    pub fn with_missing_chunks(mut self, missing_chunks: MissingChunks) -> Self {
        self.missing_chunks = missing_chunks;
        self
    }

    /// The bytes of one element as decoded, in native byte order (of any length, where elements differ in it), for
    /// elements beyond an array (see [`OutOfBounds::Fill`](crate::OutOfBounds::Fill)). Types that are wider in the result
    /// than as decoded take the bytes of the result too. `None`, the default, takes the array's fill value.
    #[must_use]
    pub fn with_fill(mut self, fill: Option<&[u8]>) -> Self {
        self.fill = fill.map(Into::into);
        self
    }

    /// Ends planning or the read with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) soon after `cancel` becomes
    /// true: each thread finishes the read chunk that it works on. Of several, each cancels.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = self.cancel.with(cancel);
        self
    }

    /// Ends planning or the read with [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) soon after so much time. `None`,
    /// the default, sets no end.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// When the time of [`with_timeout`](Self::with_timeout) begins, for example before the array was opened. `None`, the
    /// default, is when planning or the read begins.
    #[must_use]
    pub fn with_time_since(mut self, start: Option<Instant>) -> Self {
        self.since = start;
        self
    }

    /// What is told how far the read is.
    #[must_use]
    pub fn with_progress(mut self, progress: Option<Arc<Progress>>) -> Self {
        self.progress = progress;
        self
    }

    /// Where decoded read chunks are kept for further reads. They are then decoded whole. `None`, the default, keeps none.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<ChunkCache>) -> Self {
        self.cache = cache;
        self
    }

    /// The same for a read that begins now.
    pub(crate) fn started(&self) -> Self {
        let mut started = self.clone();
        if let Some(timeout) = self.timeout {
            started.cancel = started.cancel.within(timeout, self.since.unwrap_or_else(Instant::now));
        }
        started
    }

    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}
