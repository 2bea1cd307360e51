//! Carries out plans: fetch, decode, scatter, on many threads.
//!
//! * [`execute`]: outputs and workers.
//! * [`column`]: what is done with one read chunk.
//! * [`ahead`]: read-ahead on a cold disk.
//! * [`shards`]: shards that are open, their indices read once.
//! * [`run`]: the geometry of copies.
//! * [`scatter`]: disjoint writes into one output, in unsafe code.
//! * [`output`]: the output buffer.
//! * [`pool`]: the threads.
//! * [`stats`]: what a read did.

mod ahead;
mod column;
pub(crate) mod execute;
mod output;
mod pool;
mod run;
mod scatter;
mod shards;
mod stats;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::stats::ReadStats;

/// How to carry out a read.
///
/// ```
/// let options = zarrow::ReadOptions::default().with_threads(Some(2));
/// assert_eq!(options.threads(), Some(2));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    threads: Option<usize>,
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
