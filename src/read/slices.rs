//! Reads that are under way at once share the pool: each works for a slice of time, then lets others go first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rayon::ThreadPool;

/// Has `workers` threads of the pool do `work` until it says that it is done. In between, what other reads want of the pool
/// goes first: all wait in one queue, because what this thread asks for comes at its end.
pub(super) fn in_slices(pool: &ThreadPool, workers: usize, work: &(impl Fn() -> bool + Sync)) {
    if pool.current_thread_index().is_some() {
        // A decoder that reads: this thread is one of those that would be waited for.
        while work() {}
        return;
    }
    pool.in_place_scope_fifo(|scope| {
        let (sender, receiver) = channel();
        let spawn = || {
            let told = Told { again: false, sender: sender.clone() };
            scope.spawn_fifo(move |_| {
                let mut told = told;
                told.again = work();
            });
        };
        (0..workers).for_each(|_| spawn());
        let mut working = workers;
        while working > 0 {
            match receiver.recv() {
                Ok(true) => spawn(),
                Ok(false) | Err(_) => working -= 1,
            }
        }
    });
}

/// Tells whether there is more to do, also when the work panics.
struct Told {
    again: bool,
    sender: Sender<bool>,
}

impl Drop for Told {
    fn drop(&mut self) {
        // Who listens is there as long as the scope.
        let _ = self.sender.send(self.again);
    }
}

/// Reads that are carried out. In a child that was forked it may count some of its parent's: then slices end though
/// nobody waits.
static READS: AtomicUsize = AtomicUsize::new(0);

/// A read that is carried out.
pub(super) struct Busy;

impl Busy {
    pub(super) fn begin() -> Self {
        READS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        READS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether no more than one read is carried out.
pub(super) fn is_only_read() -> bool {
    READS.load(Ordering::Relaxed) <= 1
}

/// The time for which a thread of the pool works for one read while there are others.
pub(super) struct Slice {
    begun: Instant,
}

impl Slice {
    const LEN: Duration = Duration::from_millis(10);

    pub(super) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over_beside(READS.load(Ordering::Relaxed))
    }

    fn is_over_beside(&self, reads: usize) -> bool {
        reads > 1 && self.begun.elapsed() >= Self::LEN
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rayon::ThreadPoolBuilder;

    use super::*;

    #[test]
    fn what_others_want_goes_between_two_slices() {
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let log = Mutex::new(String::new());
        let begun = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                in_slices(&pool, 1, &|| {
                    let first = log.lock().unwrap().is_empty();
                    log.lock().unwrap().push('a');
                    if first {
                        // The other asks for the pool meanwhile.
                        begun.wait();
                        begun.wait();
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    log.lock().unwrap().len() < 4
                });
            });
            begun.wait();
            scope.spawn(|| pool.install(|| log.lock().unwrap().push('b')));
            begun.wait();
        });
        assert_eq!(*log.lock().unwrap(), "abaa");
    }

    #[test]
    fn work_that_panics_is_not_waited_for() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let panics = std::panic::AssertUnwindSafe(|| in_slices(&pool, 2, &|| panic!("it does")));
        assert!(std::panic::catch_unwind(panics).is_err());
    }

    #[test]
    fn a_slice_ends_only_if_there_are_others() {
        let slice = Slice { begun: Instant::now().checked_sub(Slice::LEN).unwrap() };
        assert!(slice.is_over_beside(2) && !slice.is_over_beside(1));
        assert!(!Slice::begin().is_over_beside(2));
    }
}
