//! Forks: a child process has only the thread that forked, and every lock as it was. One that another thread held is
//! held for ever in the child. So whoever takes a lock that outlives one read holds forks off meanwhile, and who forks
//! (Python's `os.fork` tells its hooks) waits for a moment in which nobody does.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    static FORKING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread is one that zarrow made.
pub fn set_own_thread() {
    IS_OWN.set(true);
}

/// Whether [`set_own_thread`] was called on this thread.
#[must_use]
pub fn is_own_thread() -> bool {
    IS_OWN.get()
}

/// Keeps this process from forking, where forks are announced, until it is dropped. Short: who forks waits.
pub struct HeldOff {
    _guard: Option<RwLockReadGuard<'static, ()>>,
}

/// Holds forks off. Not for who holds another lock that the forking thread may want before it has forked, as that of Python.
#[must_use]
pub fn hold_off() -> HeldOff {
    // What the forking thread itself does between the announcement and the fork is not held off.
    let is_forking = FORKING.try_with(|forking| forking.borrow().is_some()).unwrap_or(false);
    HeldOff { _guard: (!is_forking).then(|| GATE.read().unwrap_or_else(PoisonError::into_inner)) }
}

/// Announces that this thread is about to fork. `false` if another thread holds that off just now: then try again.
#[must_use]
pub fn announce() -> bool {
    let guard = match GATE.try_write() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    FORKING.with(|forking| forking.replace(Some(guard)));
    true
}

/// Tells that this thread has forked, in the parent and in the child; right also where it was not announced.
pub fn forked() {
    let guard = FORKING.with(RefCell::take);
    drop(guard);
}

/// A locked mutex of what outlives one read.
pub(crate) struct Locked<'m, T> {
    guard: MutexGuard<'m, T>,
    /// Dropped last.
    _held_off: HeldOff,
}

/// Locks `mutex`, which one that panicked may have held.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let held_off = hold_off();
    Locked { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _held_off: held_off }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// One test, for there is one gate.
    #[test]
    fn nobody_forks_while_a_lock_is_held() {
        let mutex = Mutex::new(1);
        let try_elsewhere = || {
            thread::scope(|scope| {
                let tried = scope.spawn(|| {
                    let announced = announce();
                    forked();
                    announced
                });
                tried.join().unwrap()
            })
        };
        // Other tests hold it off for moments.
        let try_until = |wanted| (0..100_000).any(|_| try_elsewhere() == wanted);
        {
            let mut locked = lock(&mutex);
            let again = hold_off();
            *locked += 1;
            assert!(!try_elsewhere());
            drop(locked);
            assert!(!try_elsewhere());
            drop(again);
        }
        assert!(try_until(true));
        while !announce() {}
        let (own, other) = (hold_off(), thread::spawn(|| *lock(&Mutex::new(3))));
        drop(own);
        thread::sleep(std::time::Duration::from_millis(20));
        assert!(!other.is_finished());
        forked();
        assert_eq!(other.join().unwrap(), 3);
        forked();
        assert!(try_until(true));
    }
}
