//! Reads that do not block who waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::read::ReadOptions;
use crate::store::remote::runtime_for_reads;

/// Tells the work to end when nobody waits for it any more.
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` on a thread of its own, which waits for the threads that do it; ends it when it is dropped.
pub(crate) async fn later<T: Send + 'static>(
    options: &ReadOptions,
    work: impl FnOnce(&ReadOptions) -> Result<T> + Send + 'static,
) -> Result<T> {
    let abandoned = Abandoned(Arc::default());
    let options = options.clone().with_cancel(abandoned.0.clone());
    let (sender, receiver) = oneshot::channel();
    let (runtime, reads) = runtime_for_reads()?;
    // In a task: who waits here need not be polled for its turn to pass.
    runtime.spawn(async move {
        let turn = reads.acquire_owned().await;
        tokio::task::spawn_blocking(move || {
            // Who waited may have gone.
            let _ = sender.send(work(&options));
            drop(turn);
        });
    });
    let outcome = receiver.await;
    drop(abandoned);
    outcome.map_err(|_| Error::new(ErrorKind::Internal, "a read panicked").remedy("Please report this."))?
}
