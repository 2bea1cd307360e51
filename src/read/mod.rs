//! Carries out plans: fetch, decode, scatter, on many threads.
//!
//! * [`execute`]: outputs and workers.
//! * [`column`]: what is done with one read chunk.
//! * [`fetch`]: the first stage, which asks the store.
//! * [`budget`]: memory beside the result.
//! * [`ahead`]: read-ahead on a cold disk.
//! * [`shards`]: shards that are open, their indices read once.
//! * [`run`]: the geometry of copies.
//! * [`padding`]: elements beyond the array.
//! * [`validity`]: elements that are null.
//! * [`times`]: counts of time in the units of Arrow.
//! * [`variable`]: values of variable length, in a second pass.
//! * [`scatter`]: disjoint writes into one output, in unsafe code.
//! * [`pool`]: the threads.
//! * [`stats`]: what a read did.

mod ahead;
mod budget;
mod column;
pub(crate) mod execute;
mod fetch;
mod padding;
mod pool;
#[cfg(test)]
mod rows_tests;
mod run;
mod scatter;
mod shards;
mod stats;
mod times;
mod validity;
mod variable;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::stats::ReadStats;
use crate::error::{Error, ErrorKind};

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
    cancel: Option<Arc<AtomicBool>>,
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

    /// The most bytes of encoded and decoded chunks that may be held at once beside the result and the plan. Where it
    /// does not suffice for a chunk per thread, threads wait for each other. Decoded values of variable length are held
    /// until the lengths of all are known, and count as well, as do 16 bytes for each of them. `None`, the default, sets no
    /// limit: each thread holds one encoded and one decoded read chunk.
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

    /// What becomes of read chunks that the store does not hold.
    #[must_use]
    pub fn with_missing_chunks(mut self, missing_chunks: MissingChunks) -> Self {
        self.missing_chunks = missing_chunks;
        self
    }

    /// The bytes of one element, in native byte order (of any length, where elements differ in it), for elements beyond an
    /// array (see
    /// [`OutOfBounds::Fill`](crate::OutOfBounds::Fill)). `None`, the default, takes the array's fill value.
    #[must_use]
    pub fn with_fill(mut self, fill: Option<&[u8]>) -> Self {
        self.fill = fill.map(Into::into);
        self
    }

    /// Ends the read with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) soon after `cancel` becomes true: each
    /// thread finishes the read chunk that it works on.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = Some(cancel);
        self
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the read was cancelled")
}
