//! Threads that work for long offer their turn to others now and then.
//!
//! Where all cores are busy, a thread that wakes up waits until others have had their turns, some milliseconds each. A read
//! of a remote store keeps more threads busy than there may be cores, and a thread of the caller, an event loop for example,
//! would wait for several of them. So these threads interrupt themselves.

/// Offers the turn of this thread to others if it has worked for long since it last did. Gives whether it did.
///
/// Costs a look at the clock, rarely a system call, and where other processes are busy a little of the share that this one
/// has of the cores.
#[cfg(target_os = "linux")]
pub(crate) fn offer() -> bool {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use rustix::time::{ClockId, DynamicClockId, clock_gettime_dynamic};

    /// Less than the turn that Linux gives a thread, about 3 ms: who yields gives up what is left of it. A read beside two
    /// processes that spin took about a tenth longer so, and more than a third where each chunk ended with an offer.
    const LONG: Duration = Duration::from_millis(2);

    thread_local! {
        /// When this thread last offered, and the time of a core that it had had by then.
        static LAST: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
    }

    let now = Instant::now();
    let last = LAST.get();
    if last.is_some_and(|(when, _)| now.duration_since(when) < LONG) {
        return false;
    }
    let Ok(spent) = clock_gettime_dynamic(DynamicClockId::Known(ClockId::ThreadCPUTime)) else { return false };
    let spent = Duration::try_from(spent).unwrap_or_default();
    if last.is_some_and(|(_, before)| spent.saturating_sub(before) < LONG) {
        return false;
    }
    LAST.set(Some((now, spent)));
    if last.is_some() {
        std::thread::yield_now();
    }
    last.is_some()
}

/// There, turns are the system's matter alone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn offer() -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_works_for_long_offers_and_who_waits_does_not() {
        assert!(!offer(), "it has only begun");
        let end = Instant::now() + Duration::from_mins(1);
        let works = || std::iter::repeat_with(offer).take_while(|_| Instant::now() < end);
        assert!(works().any(|offered| offered));
        assert!(works().any(|offered| offered), "it offers again");
        // Waiting takes next to no time of a core, be it as slow as under valgrind.
        let offers = (0..10).filter(|_| {
            std::thread::sleep(Duration::from_millis(3));
            offer()
        });
        assert!(offers.count() < 5);
    }
}
