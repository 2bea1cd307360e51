//! The threads that wait for remote stores.

use std::sync::Mutex;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;

/// Threads for requests: they wait, and move bytes from sockets to buffers.
const THREADS: usize = 2;

/// How often it is looked whether the caller still wants what is waited for.
const LOOK: Duration = Duration::from_millis(20);

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

struct Shared {
    /// Threads do not survive a fork: a child process makes its own.
    process: u32,
    runtime: Runtime,
}

/// The runtime that all requests of this process run on.
pub(crate) fn runtime() -> Result<Handle> {
    let process = std::process::id();
    let mut shared = fork::lock(&SHARED);
    if let Some(shared) = shared.as_ref().filter(|shared| shared.process == process) {
        return Ok(shared.runtime.handle().clone());
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("zarrow-io")
        .on_thread_start(fork::set_own_thread)
        .enable_all()
        .build()
        .map_err(|source| Error::new(ErrorKind::Allocation, "no threads for requests").source(source))?;
    let handle = runtime.handle().clone();
    if let Some(old) = shared.replace(Shared { process, runtime }) {
        // Its threads are in the parent process; waiting for them here would never end.
        std::mem::forget(old.runtime);
    }
    Ok(handle)
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
