//! How much memory the workers of one read may hold beside the result.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};

/// The memory that the workers of one read share, in bytes.
pub(super) struct Budget {
    limit: Option<usize>,
    reserved: Mutex<Reserved>,
    released: Condvar,
    held: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Debug, Default, Clone, Copy)]
struct Reserved {
    /// Bytes of all reservations, and of what is kept.
    all: usize,
    /// Bytes that stay until the read is over.
    kept: usize,
}

/// What one worker may hold. Given back when it is dropped.
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    bytes: usize,
    held: usize,
}

impl Budget {
    pub(super) fn new(limit: Option<usize>) -> Self {
        Self {
            limit,
            reserved: Mutex::default(),
            released: Condvar::new(),
            held: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Nothing yet.
    pub(super) fn reservation(&self) -> Reservation<'_> {
        Reservation { budget: self, bytes: 0, held: 0 }
    }

    /// Takes `bytes` of the limit until the read is over.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if the limit does not have them.
    pub(super) fn keep(&self, bytes: usize, what: &str) -> Result<()> {
        if let Some(limit) = self.limit {
            let mut reserved = self.lock();
            if bytes > limit - reserved.all {
                return Err(Error::new(ErrorKind::Allocation, format!("{what} take {bytes} bytes of memory"))
                    .expected(format!("at most {}, what is left of the memory limit of {limit}", limit - reserved.all))
                    .remedy("Raise the memory limit, or read fewer selections at a time."));
            }
            reserved.all += bytes;
            reserved.kept += bytes;
        }
        self.note(bytes);
        Ok(())
    }

    /// Takes note of `bytes` more that are held.
    fn note(&self, bytes: usize) {
        let total = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(total, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most bytes that all workers held at once.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Reservation<'_> {
    /// The most bytes that all workers may hold at once.
    pub(super) fn limit(&self) -> Option<usize> {
        self.budget.limit
    }

    /// Makes sure that `bytes` may be held for reading `what`, or `keeping` bytes by who keeps what is held now.
    /// Otherwise, what is held is given up, before any waiting for other workers: `release` has to free it.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if `bytes` is more than the limit, or than is left of it.
    pub(super) fn require(&mut self, bytes: usize, keeping: usize, what: &str, release: impl FnOnce()) -> Result<()> {
        let Some(limit) = self.budget.limit else { return Ok(()) };
        if keeping <= self.bytes {
            return Ok(());
        }
        let left = limit - self.budget.lock().kept;
        if bytes > left || self.require_most(bytes, keeping, release).is_some_and(|granted| granted < bytes) {
            return Err(self.too_little(what, &bytes.to_string()));
        }
        Ok(())
    }

    /// As [`require`](Self::require), for `bytes` or for all that is left beside what is kept, if that is less. Gives how
    /// many may be held; `None` if there is no limit.
    pub(super) fn require_most(&mut self, bytes: usize, keeping: usize, release: impl FnOnce()) -> Option<usize> {
        let limit = self.budget.limit?;
        if keeping <= self.bytes {
            return Some(self.bytes);
        }
        release();
        if bytes <= self.bytes {
            self.hold(0);
            return Some(self.bytes);
        }
        self.release();
        let mut reserved = self.budget.lock();
        loop {
            let granted = bytes.min(limit - reserved.kept);
            if limit - reserved.all >= granted {
                reserved.all += granted;
                self.bytes = granted;
                return Some(granted);
            }
            reserved = self.budget.released.wait(reserved).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The error of reading `what`, which takes so many bytes, in words, where they cannot be had.
    pub(super) fn too_little(&self, what: &str, bytes: &str) -> Error {
        let kept = self.budget.lock().kept;
        let limit = self.budget.limit.unwrap_or(usize::MAX);
        let got = format!("reading {what} takes {bytes} bytes of memory beside the result");
        let error = Error::new(ErrorKind::Allocation, got);
        if kept == 0 {
            return error.expected(format!("at most {limit}, the memory limit")).remedy("Raise the memory limit.");
        }
        error
            .expected(format!(
                "at most {}, what is left of the memory limit of {limit}: {kept} hold values of variable length",
                limit - kept
            ))
            .remedy("Raise the memory limit, or read fewer selections at a time.")
    }

    /// Makes `bytes` of the reservation stay until the read is over.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.budget.note(bytes);
        if self.budget.limit.is_some() {
            let bytes = bytes.min(self.bytes);
            self.bytes -= bytes;
            self.budget.lock().kept += bytes;
            // Who waits for all that is left may have it now.
            self.budget.released.notify_all();
        }
    }

    /// Takes note of how much is held now.
    pub(super) fn hold(&mut self, bytes: usize) {
        if bytes > self.held {
            let more = bytes - self.held;
            self.budget.note(more);
        } else if bytes < self.held {
            self.budget.held.fetch_sub(self.held - bytes, Ordering::Relaxed);
        }
        self.held = bytes;
    }

    /// Gives back what is reserved. Nothing may be held any more.
    pub(super) fn release(&mut self) {
        self.hold(0);
        if self.bytes > 0 {
            self.budget.lock().all -= self.bytes;
            self.bytes = 0;
            self.budget.released.notify_all();
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_held_than_the_limit() {
        let budget = Budget::new(Some(100));
        std::thread::scope(|scope| {
            for worker in 0..4_usize {
                let budget = &budget;
                scope.spawn(move || {
                    let mut reservation = budget.reservation();
                    for step in 0..200 {
                        let bytes = 1 + (step * 37 + worker * 11) % 100;
                        let mut freed = false;
                        let keeping = bytes.max(reservation.held);
                        reservation.require(bytes, keeping, "", || freed = true).unwrap();
                        reservation.hold(if freed { bytes } else { bytes.max(reservation.held) });
                        std::thread::yield_now();
                    }
                });
            }
        });
        assert!((1..=100).contains(&budget.most()));
        assert_eq!(budget.lock().all, 0);
        let mut reservation = budget.reservation();
        assert_eq!(reservation.require(101, 101, "", || ()).unwrap_err().kind(), ErrorKind::Allocation);
    }

    #[test]
    fn what_is_kept_leaves_less_and_nobody_waits_for_it() {
        let budget = Budget::new(Some(100));
        budget.keep(30, "cells").unwrap();
        assert_eq!(budget.keep(71, "cells").unwrap_err().kind(), ErrorKind::Allocation);
        std::thread::scope(|scope| {
            let mut first = budget.reservation();
            assert_eq!(first.require_most(20, 20, || ()), Some(20));
            let others = scope.spawn(|| budget.reservation().require_most(usize::MAX, usize::MAX, || ()));
            // All of it, so that there is nothing left to release.
            first.keep(20);
            assert_eq!(others.join().unwrap(), Some(50));
            assert!(first.require(51, 51, "", || ()).is_err());
            assert!(first.require(50, 50, "", || ()).is_ok());
        });
        let left = *budget.lock();
        assert_eq!((left.all, left.kept), (50, 50));
        assert_eq!(budget.most(), 50);
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let budget = Budget::new(None);
        let mut reservation = budget.reservation();
        reservation.require(usize::MAX, usize::MAX, "", || unreachable!()).unwrap();
        reservation.hold(7);
        reservation.hold(3);
        drop(reservation);
        assert_eq!((budget.most(), budget.held.load(Ordering::Relaxed)), (7, 0));
    }
}
