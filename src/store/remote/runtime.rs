//! The threads that wait for remote stores.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;

/// Threads for requests: they wait, and move bytes from sockets to buffers.
const THREADS: usize = 2;

/// How often it is looked whether the caller still wants what is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// Reads that wait at once on threads of their own. The runtime has 512 such threads, and stores that block need some too.
const READS: usize = 256;

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

struct Shared {
    /// Threads do not survive a fork: a child process makes its own.
    process: u32,
    runtime: Runtime,
    reads: Arc<Semaphore>,
}

/// The runtime that all requests of this process run on.
pub(crate) fn runtime() -> Result<Handle> {
    Ok(runtime_for_reads()?.0)
}

/// The runtime, and who may have a thread of it for a read.
pub(crate) fn runtime_for_reads() -> Result<(Handle, Arc<Semaphore>)> {
    let process = std::process::id();
    let mut shared = fork::lock(&SHARED);
    if let Some(shared) = shared.as_ref().filter(|shared| shared.process == process) {
        return Ok((shared.runtime.handle().clone(), shared.reads.clone()));
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("zarrow-io")
        .on_thread_start(fork::set_own_thread)
        .enable_all()
        .build()
        .map_err(|source| Error::new(ErrorKind::Allocation, "no threads for requests").source(source))?;
    let (handle, reads) = (runtime.handle().clone(), Arc::new(Semaphore::new(READS)));
    if let Some(old) = shared.replace(Shared { process, runtime, reads: reads.clone() }) {
        // Its threads are in the parent process; waiting for them here would never end.
        std::mem::forget(old.runtime);
    }
    Ok((handle, reads))
}

/// Runs `future` on the runtime, and waits for it, or for `cancel`. May be called from any thread, also one of another
/// runtime.
pub(crate) fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static, cancel: &Cancel) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let task = runtime()?.spawn(async move {
        // Nobody is left to wait if this fails.
        let _ = sender.send(future.await);
    });
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Internal, "a request panicked").remedy("Please report this."));
            }
            Err(RecvTimeoutError::Timeout) => cancel.check().inspect_err(|_| task.abort())?,
        }
    }
}
