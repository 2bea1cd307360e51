//! Work that Ctrl-C ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::{exception, to_python};

/// How often to look for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Works on another thread, while this one, which Python hands signals to, waits for the end or for Ctrl-C. `work` gets
/// the flag that tells it to stop.
pub(crate) fn interruptibly<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(Arc<AtomicBool>) -> zarrow::Result<T> + Send,
) -> PyResult<T> {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut interrupt = None;
    let outcome = py.detach(|| {
        let (done, wait) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            let flag = cancel.clone();
            scope.spawn(move || {
                // A panic leaves nothing sent, which the other end sees.
                if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| work(flag))) {
                    let _ = done.send(outcome);
                }
            });
            loop {
                match wait.recv_timeout(PATIENCE) {
                    Ok(outcome) => return Some(outcome),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {
                        let signals: PyResult<()> = Python::attach(|py| {
                            py.check_signals()?;
                            Ok(())
                        });
                        if let (None, Err(error)) = (&interrupt, signals) {
                            interrupt = Some(error);
                            cancel.store(true, Ordering::Relaxed);
                        }
                    }
                }
            }
        })
    });
    match (interrupt, outcome) {
        (Some(interrupt), _) => Err(interrupt),
        (None, Some(outcome)) => outcome.map_err(|error| to_python(py, &error)),
        (None, None) => Err(exception(py, "ZarrowError", "the working thread panicked; please report this".to_owned())),
    }
}
