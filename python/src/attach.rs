//! Threads that take and give up Python's lock while Python may be ending. A thread that asks for the lock of a Python that
//! has ended reads memory that is gone; `CPython` 3.11 to 3.13 end a thread that asks while it ends, through Rust's frames.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Python waits no longer than this, at its end, for threads that hold or await its lock: they may run Python's code.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that hold or await Python's lock, and got into this module for it.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether Python is ending.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The thread that ends Python, which has its lock to the end.
static ENDS: OnceLock<ThreadId> = OnceLock::new();

/// The right to hold or await Python's lock.
struct Inside;

impl Inside {
    /// `None` if Python is ending, but for the thread that ends it.
    fn enter() -> Option<Self> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let inside = Self;
        let may = !ENDING.load(Ordering::SeqCst) || ENDS.get() == Some(&thread::current().id());
        may.then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A forked child counts from 0 again.
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |inside| inside.checked_sub(1));
    }
}

/// Works with Python's lock. `None` if Python is ending.
pub(crate) fn attach<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = Inside::enter()?;
    Python::try_attach(work)
}

/// Works without Python's lock. Where Python ends meanwhile, this thread waits for the end of the process.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (done, _inside) = py.detach(|| {
        let done = work();
        loop {
            if let Some(inside) = Inside::enter() {
                return (done, inside);
            }
            thread::park();
        }
    });
    done
}

/// Keeps all other threads from asking for Python's lock, and waits for those that do. For `atexit.register`.
#[pyfunction]
pub(crate) fn _at_exit(py: Python<'_>) {
    let begun = Instant::now();
    let _ = ENDS.set(thread::current().id());
    ENDING.store(true, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > 0 && begun.elapsed() < PATIENCE {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
    }
}

/// Forgets the threads that stayed behind in the parent process.
pub(crate) fn forked_child() {
    INSIDE.store(0, Ordering::SeqCst);
}
