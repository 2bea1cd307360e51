//! Threads of a read that have nothing left to do help those that have much to copy: of a read chunk that most of the
//! result comes from, or of the last ones.
//!
//! Who helps is no thread of the pool. There, whoever waits for helpers would take up other work meanwhile, which may wait
//! for memory that it holds itself.

use std::iter::Peekable;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::slices;
use crate::error::Result;
use crate::fork;

/// So many bytes take much longer to copy than it takes to make a thread.
const WORTH: usize = 2 << 20;

/// The threads of one read.
pub(super) struct Crew<'r> {
    /// How many may work at once.
    threads: usize,
    /// How many do.
    busy: AtomicUsize,
    /// Whether the read goes on.
    go_on: &'r (dyn Fn() -> bool + Sync),
    /// Whether nobody else wants the cores.
    is_alone: fn() -> bool,
    worth: usize,
}

/// One that works until this is dropped.
pub(super) struct Working<'c> {
    busy: &'c AtomicUsize,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'r> Crew<'r> {
    /// A crew of `threads` threads, of a read that is worth going on with while `go_on` says so.
    pub(super) fn new(threads: usize, go_on: &'r (dyn Fn() -> bool + Sync)) -> Self {
        Self { threads, busy: AtomicUsize::new(0), go_on, is_alone: slices::is_only_read, worth: WORTH }
    }

    /// The same, to which parts of `worth` bytes are worth sharing, whatever other tests read meanwhile.
    #[cfg(test)]
    pub(super) fn with_worth(self, worth: usize) -> Self {
        Self { worth, is_alone: || true, ..self }
    }

    /// So many bytes are worth a thread of their own.
    pub(super) fn worth(&self) -> usize {
        self.worth
    }

    /// Takes note of one that works.
    pub(super) fn begin(&self) -> Working<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Working { busy: &self.busy }
    }

    /// Another one that works, if there is one that does not.
    fn another(&self) -> Option<Working<'_>> {
        if !(self.is_alone)() {
            return None;
        }
        let more = |busy: usize| (busy < self.threads).then_some(busy + 1);
        self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Working { busy: &self.busy })
    }

    /// Has `work` done on all `parts`, by this thread with `scratch`, and by others as soon as they have nothing to do. Parts
    /// may be left out once the read does not go on.
    ///
    /// # Errors
    /// Those of `work`, after which no part is begun.
    pub(super) fn share<I, S>(
        &self,
        parts: I,
        scratch: &mut S,
        work: &(impl Fn(I::Item, &mut S) -> Result<()> + Sync),
    ) -> Result<()>
    where
        I: Iterator<Item: Send> + Send,
        S: Default,
    {
        let parts: Mutex<Option<Peekable<I>>> = Mutex::new(Some(parts.peekable()));
        // The next part, and how many there are after it, at least.
        let next = || {
            let mut left = parts.lock().unwrap_or_else(PoisonError::into_inner);
            let part = left.as_mut().filter(|_| (self.go_on)())?.next()?;
            let more = left.as_mut().map_or(0, |left| usize::from(left.peek().is_some()).max(left.size_hint().0));
            Some((part, more))
        };
        let work = |part, scratch: &mut S| {
            let outcome = work(part, scratch);
            if outcome.is_err() {
                *parts.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            outcome
        };
        let help = |working: Working<'_>| {
            fork::set_own_thread();
            let (_working, mut scratch) = (working, S::default());
            while let Some((part, _)) = next() {
                work(part, &mut scratch)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let mut helpers = Vec::new();
            let mut outcome = Ok(());
            while outcome.is_ok()
                && let Some((part, more)) = next()
            {
                for working in (0..more).map_while(|_| self.another()) {
                    let helper = thread::Builder::new().name("zarrow-helper".into());
                    // Without it, this thread does all.
                    helpers.extend(helper.spawn_scoped(scope, || help(working)).ok());
                }
                outcome = work(part, scratch);
            }
            for helper in helpers {
                let helped = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                outcome = outcome.and(helped);
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;
    use crate::error::{Error, ErrorKind};

    const YES: &(dyn Fn() -> bool + Sync) = &|| true;

    /// The threads that worked, and the parts that they did.
    fn shared(crew: &Crew<'_>, parts: usize) -> (usize, Vec<usize>) {
        let done = Mutex::new(Vec::new());
        let work = |part: usize, (): &mut ()| {
            done.lock().unwrap().push((thread::current().id(), part));
            Ok(())
        };
        crew.share(0..parts, &mut (), &work).unwrap();
        let done = done.into_inner().unwrap();
        let threads: HashSet<_> = done.iter().map(|(thread, _)| *thread).collect();
        let mut parts: Vec<_> = done.into_iter().map(|(_, part)| part).collect();
        parts.sort_unstable();
        (threads.len(), parts)
    }

    #[test]
    fn who_has_nothing_to_do_helps() {
        let crew = Crew::new(3, YES).with_worth(1);
        let _this = crew.begin();
        let all_there = Barrier::new(3);
        let work = |_: usize, (): &mut ()| {
            all_there.wait();
            Ok(())
        };
        // Ends only if three threads work at once.
        crew.share(0..6, &mut (), &work).unwrap();
        assert_eq!(crew.busy.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn who_works_does_not_help() {
        let crew = Crew::new(2, YES).with_worth(1);
        let _both = [crew.begin(), crew.begin()];
        assert_eq!(shared(&crew, 50), (1, (0..50).collect()));
        let crew = Crew::new(4, YES).with_worth(1);
        assert_eq!(shared(&crew, 0), (0, vec![]));
        assert_eq!(shared(&crew, 1), (1, vec![0]));
        assert_eq!(shared(&crew, 5).1, (0..5).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_begun_after_an_error() {
        let crew = Crew::new(2, YES).with_worth(1);
        let begun = AtomicUsize::new(0);
        let work = |part: usize, (): &mut ()| {
            begun.fetch_add(1, Ordering::Relaxed);
            if part < 2 { Err(Error::new(ErrorKind::Decode, "corrupt")) } else { Ok(()) }
        };
        assert_eq!(crew.share(0..100, &mut (), &work).unwrap_err().kind(), ErrorKind::Decode);
        assert!(begun.into_inner() <= 3);
        assert_eq!(crew.busy.into_inner(), 0);
    }

    #[test]
    fn a_read_that_is_over_does_no_more() {
        let begun = AtomicUsize::new(0);
        let go_on = || begun.load(Ordering::Relaxed) < 5;
        let crew = Crew::new(1, &go_on);
        let work = |_: usize, (): &mut ()| {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        crew.share(0..100, &mut (), &work).unwrap();
        assert_eq!(begun.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_panic_of_a_helper_is_one_of_who_is_helped() {
        let crew = Crew::new(2, YES).with_worth(1);
        let this = thread::current().id();
        let helped = Barrier::new(2);
        let work = |_: usize, (): &mut ()| {
            helped.wait();
            assert_eq!(thread::current().id(), this, "a helper panics");
            Ok(())
        };
        let share = || crew.share(0..2, &mut (), &work);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(share)).is_err());
    }
}
