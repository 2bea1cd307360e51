//! The threads that reads share.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::fork;

/// More threads than this only get in each other's way.
const MAX_THREADS: usize = 1024;

/// The pool used last, kept for the next read.
static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

struct Shared {
    /// Threads do not survive a fork: a child process makes its own pool.
    process: u32,
    threads: usize,
    pool: Arc<ThreadPool>,
}

/// A pool of `threads` threads; by default, of as many as this process may run at once.
pub(super) fn pool(threads: Option<usize>) -> Result<Arc<ThreadPool>> {
    let threads = match threads {
        Some(threads) if !(1..=MAX_THREADS).contains(&threads) => {
            return Err(Error::new(ErrorKind::Unsupported, format!("{threads} threads"))
                .expected(format!("1 to {MAX_THREADS}")));
        }
        Some(threads) => threads,
        None => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    let process = std::process::id();
    let mut shared = fork::lock(&SHARED);
    if let Some(shared) = shared.as_ref().filter(|shared| shared.process == process && shared.threads == threads) {
        return Ok(shared.pool.clone());
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("zarrow-{index}"))
        .start_handler(|_| fork::set_own_thread())
        .build()
        .map_err(|source| Error::new(ErrorKind::Allocation, format!("no {threads} threads")).source(source))?;
    let pool = Arc::new(pool);
    if let Some(old) = shared.replace(Shared { process, threads, pool: pool.clone() })
        && old.process != process
    {
        // Its threads are in the parent process; waiting for them here would never end.
        std::mem::forget(old.pool);
    }
    Ok(pool)
}
