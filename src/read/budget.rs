//! How much memory the workers of one read may hold beside the result.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};

/// The memory that the workers of one read share, in bytes.
pub(super) struct Budget {
    limit: Option<usize>,
    reserved: Mutex<usize>,
    released: Condvar,
    held: AtomicUsize,
    most: AtomicUsize,
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
            reserved: Mutex::new(0),
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
    /// [`ErrorKind::Allocation`] if `bytes` is more than the limit.
    pub(super) fn require(&mut self, bytes: usize, keeping: usize, what: &str, release: impl FnOnce()) -> Result<()> {
        let Some(limit) = self.budget.limit else { return Ok(()) };
        if keeping <= self.bytes {
            return Ok(());
        }
        if bytes > limit {
            return Err(Error::new(
                ErrorKind::Allocation,
                format!("reading {what} takes {bytes} bytes of memory beside the result"),
            )
            .expected(format!("at most {limit}, the memory limit"))
            .remedy("Raise the memory limit."));
        }
        release();
        if bytes <= self.bytes {
            self.hold(0);
            return Ok(());
        }
        self.release();
        let mut reserved = self.budget.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        while limit - *reserved < bytes {
            reserved = self.budget.released.wait(reserved).unwrap_or_else(PoisonError::into_inner);
        }
        *reserved += bytes;
        self.bytes = bytes;
        Ok(())
    }

    /// Takes note of how much is held now.
    pub(super) fn hold(&mut self, bytes: usize) {
        if bytes > self.held {
            let more = bytes - self.held;
            let total = self.budget.held.fetch_add(more, Ordering::Relaxed) + more;
            self.budget.most.fetch_max(total, Ordering::Relaxed);
        } else if bytes < self.held {
            self.budget.held.fetch_sub(self.held - bytes, Ordering::Relaxed);
        }
        self.held = bytes;
    }

    fn release(&mut self) {
        self.hold(0);
        if self.bytes > 0 {
            *self.budget.reserved.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
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
        assert_eq!(*budget.reserved.lock().unwrap(), 0);
        let mut reservation = budget.reservation();
        assert_eq!(reservation.require(101, 101, "", || ()).unwrap_err().kind(), ErrorKind::Allocation);
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
