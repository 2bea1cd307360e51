//! Threads that take and give up Python's lock while Python may be ending. A thread that asks for the lock of a Python that
//! has ended reads memory that is gone; `CPython` 3.11 to 3.13 end a thread that asks while it ends, and where frames of
//! Rust are below that, they end the process. So at its end Python waits for threads that are in such frames and hold or
//! await its lock, and keeps all others from asking for it.

use std::cell::Cell;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use zarrow::fork;

/// Python waits no longer than this, at its end, for threads that are inside: they may run Python's code.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether Python is ending.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The thread that ends Python, which has its lock to the end.
static ENDS: OnceLock<ThreadId> = OnceLock::new();

thread_local! {
    /// How many `Inside` this thread has.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread gave Python's lock up by [`detach`].
    static IS_DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread may hold Python's lock.
pub(crate) fn may_be_attached() -> bool {
    DEPTH.get() > 0 || !(IS_DETACHED.get() || fork::is_own_thread())
}

/// The right of a thread to hold or await Python's lock in frames of Rust, or below them.
pub(crate) struct Inside(PhantomData<*const ()>);

impl Inside {
    /// `None` if Python is ending, but for the thread that ends it and for those that it waits for.
    pub(crate) fn enter() -> Option<Self> {
        let depth = DEPTH.get();
        if depth == 0 {
            INSIDE.fetch_add(1, Ordering::SeqCst);
            if ENDING.load(Ordering::SeqCst) && ENDS.get() != Some(&thread::current().id()) {
                INSIDE.fetch_sub(1, Ordering::SeqCst);
                return None;
            }
        }
        DEPTH.set(depth + 1);
        Some(Self(PhantomData))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// To be held by what Python calls, as long as it may call Python. Where Python is ending, this thread waits for the end
/// of the process.
#[must_use]
pub(crate) fn called(py: Python<'_>) -> Inside {
    Inside::enter().unwrap_or_else(|| {
        match py.detach(|| -> Infallible {
            loop {
                thread::park();
            }
        }) {}
    })
}

/// Works with Python's lock. `None` if Python is ending.
pub(crate) fn attach<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = Inside::enter()?;
    Python::try_attach(work)
}

/// A thread that is outside for a while, and goes in again when this is dropped.
struct Outside {
    depth: usize,
    was_detached: bool,
}

impl Outside {
    fn leave() -> Self {
        let depth = DEPTH.replace(0);
        if depth > 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
        Self { depth, was_detached: IS_DETACHED.replace(true) }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        IS_DETACHED.set(self.was_detached);
        loop {
            if let Some(inside) = Inside::enter() {
                DEPTH.set(self.depth + 1);
                drop(inside);
                return;
            }
            thread::park();
        }
    }
}

/// Works without Python's lock, and not inside. Where Python ends meanwhile, this thread waits for the end of the process.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let _inside = called(py);
    py.detach(|| {
        let _outside = Outside::leave();
        work()
    })
}

/// Keeps all other threads from asking for Python's lock, and waits for those that do. For `atexit.register`.
#[pyfunction]
pub(crate) fn _at_exit(py: Python<'_>) {
    let begun = Instant::now();
    let _ = ENDS.set(thread::current().id());
    ENDING.store(true, Ordering::SeqCst);
    // This thread may be inside itself.
    let own = usize::from(DEPTH.get() > 0);
    while INSIDE.load(Ordering::SeqCst) > own && begun.elapsed() < PATIENCE {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
    }
}

/// Forgets the threads that stayed behind in the parent process.
pub(crate) fn forked_child() {
    INSIDE.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
}
