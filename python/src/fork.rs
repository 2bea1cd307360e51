//! Forks of a process that reads: what other threads hold at that moment, the child never gets.

use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use zarrow::fork;

use crate::attach::{self, Inside};

/// What holds a fork off takes microseconds. A fork that waited so long goes on, as it would without zarrow.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits until no other thread holds a lock that the child process would miss. For `os.register_at_fork`.
#[pyfunction]
pub(crate) fn _before_fork(py: Python<'_>) {
    let begun = Instant::now();
    // Announced by a thread that is attached, so none waits for the other: who holds forks off may wait to be attached.
    while !fork::announce() && begun.elapsed() < PATIENCE {
        attach::detach(py, || thread::sleep(Duration::from_micros(50)));
    }
}

/// Lets the others go on. For `os.register_at_fork`, in the parent.
#[pyfunction]
pub(crate) fn _after_fork() {
    fork::forked();
}

/// As [`_after_fork`], in the child, which has no others.
#[pyfunction]
pub(crate) fn _after_fork_in_child() {
    attach::forked_child();
    fork::forked();
}

/// An object that any thread may let go of, also one that is not attached to Python: then it goes to a list, whose lock
/// a forked child would miss.
pub(crate) struct Held<T>(Option<T>);

impl<T> Held<T> {
    pub(crate) fn new(object: T) -> Self {
        Self(Some(object))
    }
}

impl<T> Held<Py<T>> {
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, T>> {
        self.0
            .as_ref()
            .map(|object| object.bind(py))
            .ok_or_else(|| PyRuntimeError::new_err("an object that was let go of"))
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], T::as_ref)
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if !attach::may_be_attached() {
            let held_off = fork::hold_off();
            self.0 = None;
            drop(held_off);
            return;
        }
        // With Python's lock it goes at once, and may call Python. Forks are not waited for: who forks may want that lock.
        match Inside::enter() {
            Some(_inside) => self.0 = None,
            // Python is ending.
            None => std::mem::forget(self.0.take()),
        }
    }
}
