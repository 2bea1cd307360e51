//! Work that Ctrl-C, a progress callback or another thread ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use zarrow::{Progress, fork};

use crate::attach::{attach, detach};
use crate::error::{exception, to_python};

/// How often to look for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// What ends a read from another thread.
#[pyclass(module = "zarrow", frozen)]
#[derive(Default)]
pub(crate) struct Canceller(pub(crate) Arc<AtomicBool>);

#[pymethods]
impl Canceller {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends the read that it was given to, soon.
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A Python callable that is told how far a read is.
pub(crate) struct Teller {
    pub(crate) callable: Py<PyAny>,
    pub(crate) progress: Arc<Progress>,
}

impl Teller {
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let progress = &self.progress;
        let (chunks, bytes) = (progress.chunks(), progress.bytes());
        self.callable.call1(py, (chunks, progress.chunks_total(), bytes, progress.bytes_total()))?;
        Ok(())
    }
}

/// Works on another thread, while this one, which Python hands signals to, waits for the end or for Ctrl-C, and tells
/// `teller` now and then. `work` gets the flag that tells it to stop.
pub(crate) fn interruptibly<T: Send>(
    py: Python<'_>,
    teller: Option<&Teller>,
    work: impl FnOnce(Arc<AtomicBool>) -> zarrow::Result<T> + Send,
) -> PyResult<T> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (mut interrupt, mut no_thread) = (None, None);
    let outcome = detach(py, || {
        let (done, wait) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            let flag = cancel.clone();
            let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                fork::set_own_thread();
                // A panic leaves nothing sent, which the other end sees.
                if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| work(flag))) {
                    let _ = done.send(outcome);
                }
            });
            if let Err(source) = spawned {
                no_thread = Some(source);
                return None;
            }
            loop {
                match wait.recv_timeout(PATIENCE) {
                    Ok(outcome) => return Some(outcome),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) if interrupt.is_some() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        let looked: Option<PyResult<()>> = attach(|py| {
                            py.check_signals()?;
                            teller.map_or(Ok(()), |teller| teller.tell(py))
                        });
                        match looked {
                            Some(Ok(())) => {}
                            Some(Err(error)) => {
                                interrupt = Some(error);
                                cancel.store(true, Ordering::Relaxed);
                            }
                            // Python ends, and nobody gets the outcome.
                            None => cancel.store(true, Ordering::Relaxed),
                        }
                    }
                }
            }
        })
    });
    match (interrupt, outcome) {
        (Some(interrupt), _) => Err(interrupt),
        (None, Some(Ok(outcome))) => {
            if let Some(teller) = teller {
                teller.tell(py)?;
            }
            Ok(outcome)
        }
        (None, Some(Err(error))) => Err(to_python(py, &error)),
        (None, None) => Err(match no_thread {
            Some(source) => {
                let message =
                    format!("no thread could be started: {source}; raise the limit of processes, or end some");
                exception(py, "AllocationError", message)
            }
            None => exception(py, "ZarrowError", "the working thread panicked; please report this".to_owned()),
        }),
    }
}
