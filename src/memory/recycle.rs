//! Pages of results that are gone, kept for results to come: having the system zero fresh pages costs a read from a warm
//! cache about a fifth of its time.
//!
//! Kept pages are marked as free to take where the system knows such a mark. And they do not add up: as fresh pages are
//! taken, as many bytes of kept ones are let go, but for [`SLACK`], so that pages in use and pages kept are together
//! not more than there were in use at once before, and that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;
use std::{io, mem, process, thread};

use memmap2::MmapMut;

use super::size_class;

/// So many bytes are kept at most, of pages that the system may take.
const MOST: usize = 1 << 30;

/// So many bytes are kept at most of other pages. So many bytes of fresh pages are taken before kept ones are let go.
const SLACK: usize = 32 << 20;

/// The lock is held for a look at each of the pages that are kept.
const TRIES: usize = 16;

/// How often [`release_unused`] tries, a millisecond apart.
const PATIENCE: usize = 100;

/// No page is smaller.
const PAGE: usize = 4096;

static POOL: Pool = Pool::new();

/// Gives memory that is kept for results to come back to the system.
///
/// Memory of results that are gone, from 256 KiB each up to 1 GiB in all, is kept for those to come. It counts as memory of
/// this process, though the system may take it back at any time where it can be told so (`MADV_FREE` on Linux and macOS;
/// elsewhere 32 MiB are kept). A read with a [memory limit](crate::ReadOptions::with_memory_limit) lets go of what it does
/// not take itself.
pub fn release_unused() {
    POOL.clear();
}

/// Memory of the system's own pages. Goes back to the pool when it is dropped.
pub(crate) struct Pages {
    /// `None` only while it is dropped.
    map: Option<MmapMut>,
    zeroed: bool,
    /// Whose they are. In a child that was forked they are shared with the parent: it would copy what it writes to.
    process: u32,
}

/// At least `len` bytes.
pub(super) fn pages(len: usize) -> io::Result<Pages> {
    let process = process::id();
    if let Some(mut pages) = POOL.take(len) {
        take_back(&mut pages);
        return Ok(Pages { map: Some(pages), zeroed: false, process });
    }
    let fresh = super::pages(len).or_else(|_| {
        // What is kept counts where address space is limited.
        POOL.clear();
        super::pages(len)
    });
    Ok(Pages { map: Some(fresh?), zeroed: true, process })
}

impl Pages {
    /// Whether all bytes are zero. Otherwise each byte is to be written before it is read.
    pub(super) fn is_zeroed(&self) -> bool {
        self.zeroed
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        self.map.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(pages) = self.map.take().filter(|_| self.process == process::id()) {
            POOL.put(pages);
        }
    }
}

/// The pages that are kept.
struct Pool {
    kept: Mutex<Kept>,
    /// Bytes of fresh pages for which none were let go.
    owed: AtomicUsize,
}

#[derive(Default)]
struct Kept {
    /// Those longest unused first.
    pages: Vec<MmapMut>,
    bytes: usize,
    process: u32,
}

impl Pool {
    const fn new() -> Self {
        Self { kept: Mutex::new(Kept { pages: Vec::new(), bytes: 0, process: 0 }), owed: AtomicUsize::new(0) }
    }

    /// Takes the pages that fit `len` bytes best, if they are at most an eighth too long: still to be
    /// [taken back](take_back). If there are none, fresh ones will be taken, so others are let go.
    fn take(&self, len: usize) -> Option<MmapMut> {
        let least = size_class(len);
        let fits = least..=least.saturating_add(least / 8);
        let taken = self.with(|kept| {
            let fitting = (0..kept.pages.len()).rev().filter(|&at| fits.contains(&kept.pages[at].len()));
            if let Some(at) = fitting.min_by_key(|&at| kept.pages[at].len()) {
                let found = kept.pages.remove(at);
                kept.bytes -= found.len();
                return (Some(found), Vec::new());
            }
            let owed = self.owed.swap(0, Ordering::Relaxed).saturating_add(least);
            let before = kept.bytes;
            let released = if owed > SLACK { kept.release(owed) } else { Vec::new() };
            if kept.bytes > 0 {
                self.owed.fetch_add(owed.saturating_sub(before - kept.bytes), Ordering::Relaxed);
            }
            (None, released)
        });
        let Some((found, released)) = taken else {
            self.owed.fetch_add(least, Ordering::Relaxed);
            return None;
        };
        // Given back to the system outside the lock.
        drop(released);
        found
    }

    /// Keeps `pages` in the place of those longest unused.
    fn put(&self, pages: MmapMut) {
        if pages.len() <= MOST {
            let most = if lend(&pages) { MOST } else { SLACK };
            self.put_at_most(pages, most);
        }
    }

    /// Keeps `pages`, if no more than `most` bytes, and lets go of those longest unused beyond that.
    fn put_at_most(&self, pages: MmapMut, most: usize) {
        if pages.len() > most {
            return;
        }
        let released = self.with(|kept| {
            kept.bytes += pages.len();
            kept.pages.push(pages);
            kept.release(kept.bytes.saturating_sub(most))
        });
        drop(released);
    }

    /// Lets go of all, unless a fork left the lock taken.
    fn clear(&self) {
        for _ in 0..PATIENCE {
            let all = self.with(|kept| {
                self.owed.store(0, Ordering::Relaxed);
                kept.bytes = 0;
                mem::take(&mut kept.pages)
            });
            if all.is_some() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Does not wait for long: a fork may have left the lock taken for ever.
    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        for _ in 0..TRIES {
            let mut kept = match self.kept.try_lock() {
                Ok(kept) => kept,
                Err(TryLockError::Poisoned(kept)) => kept.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::yield_now();
                    continue;
                }
            };
            let process = process::id();
            let of_parent =
                (kept.process != process).then(|| mem::replace(&mut *kept, Kept { process, ..Kept::default() }));
            let done = work(&mut kept);
            drop(kept);
            drop(of_parent);
            return Some(done);
        }
        None
    }
}

impl Kept {
    /// Takes the pages longest unused out, of at least `excess` bytes.
    fn release(&mut self, mut excess: usize) -> Vec<MmapMut> {
        let mut count = 0;
        while excess > 0 && count < self.pages.len() {
            excess = excess.saturating_sub(self.pages[count].len());
            count += 1;
        }
        let released: Vec<MmapMut> = self.pages.drain(..count).collect();
        self.bytes -= bytes(&released);
        released
    }
}

fn bytes(pages: &[MmapMut]) -> usize {
    pages.iter().map(|pages| pages.len()).sum()
}

/// Lets the system take pages that nobody uses, if it needs memory before they are written again. Tells whether it may.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[allow(unsafe_code, reason = "advice that changes what the pages hold")]
fn lend(pages: &MmapMut) -> bool {
    // SAFETY: from here to `take_back`, the system may turn bytes into zeros at any time, so none may be borrowed. The
    // only owner of the mapping is `Pages::drop`, and then the pool, which has no use for the bytes.
    unsafe { pages.unchecked_advise(memmap2::UncheckedAdvice::Free) }.is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn lend(_: &MmapMut) -> bool {
    false
}

/// Ends what [`lend`] began: a page that is written to is not the system's to take.
#[allow(unsafe_code, reason = "writes through a pointer, as nothing may be borrowed yet")]
fn take_back(pages: &mut MmapMut) {
    let (start, len) = (pages.as_mut_ptr(), pages.len());
    for at in (0..len).step_by(PAGE) {
        // SAFETY: `at < len`, the length of the mapping that `start` is the start of. It is borrowed mutably and no slice
        // of it exists, so that nothing else reads or writes the byte.
        unsafe { start.add(at).write_volatile(0) };
    }
    if cfg!(debug_assertions) {
        // What is not written afterwards shows.
        pages.fill(0xa5);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(len: usize) -> MmapMut {
        MmapMut::map_anon(len).unwrap()
    }

    impl Pool {
        fn lens(&self) -> Vec<usize> {
            let lens: Vec<usize> = self.with(|kept| kept.pages.iter().map(|pages| pages.len()).collect()).unwrap();
            assert_eq!(lens.iter().sum::<usize>(), self.with(|kept| kept.bytes).unwrap());
            lens
        }
    }

    #[test]
    fn the_pool_keeps_what_was_used_last() {
        for most in [MOST, SLACK] {
            let pool = Pool::new();
            pool.put_at_most(map(most + PAGE), most);
            assert!(pool.lens().is_empty());
            for len in [most / 2, most / 4, most / 2] {
                pool.put_at_most(map(len), most);
            }
            assert_eq!(pool.lens(), [most / 4, most / 2]);
        }
    }

    #[test]
    fn what_fits_best_is_taken() {
        let pool = Pool::new();
        for len in [9 << 19, 4 << 20, 6 << 20, 4 << 20] {
            pool.put_at_most(map(len), MOST);
        }
        assert_eq!(pool.take((4 << 20) - 9).unwrap().len(), 4 << 20);
        assert_eq!(pool.take(4 << 20).unwrap().len(), 4 << 20);
        assert_eq!(pool.take(4 << 20).unwrap().len(), 9 << 19);
        assert!(pool.take(4 << 20).is_none(), "more than an eighth too long");
        assert!(pool.take((6 << 20) + 1).is_none(), "too short");
        assert_eq!(pool.lens(), [6 << 20]);
        pool.clear();
        assert!(pool.lens().is_empty());
    }

    #[test]
    fn fresh_pages_come_in_the_place_of_kept_ones() {
        let pool = Pool::new();
        let lens = [SLACK / 2, SLACK, SLACK / 2, 8 * SLACK];
        for len in lens {
            pool.put_at_most(map(len), MOST);
        }
        for _ in 0..2 {
            assert!(pool.take(SLACK / 4).is_none());
            assert_eq!(pool.lens(), lens, "little is taken without letting others go");
        }
        assert!(pool.take(3 * SLACK / 4).is_none());
        assert_eq!(pool.lens(), lens[2..], "at least as much as was taken, oldest first");
        assert!(pool.take(2 * SLACK).is_none());
        assert!(pool.lens().is_empty());
        assert_eq!(pool.owed.into_inner(), 0);
    }

    #[test]
    fn pages_do_not_add_up() {
        let pool = Pool::new();
        let mut random = crate::random::Bits(1);
        let (mut live, mut most) = (Vec::<MmapMut>::new(), 0);
        for _ in 0..2_000 {
            let live_bytes = bytes(&live);
            if live_bytes > 0 && random.below(2) == 0 {
                pool.put_at_most(live.swap_remove(random.below(live.len() as u64) as usize), MOST);
            } else if live_bytes < 32 * SLACK {
                let len = (random.below(1 << 28) + (1 << 20)) as usize;
                live.push(pool.take(len).unwrap_or_else(|| map(size_class(len))));
            }
            most = most.max(bytes(&live));
            let kept: usize = pool.lens().iter().sum();
            assert!(kept <= MOST);
            assert!(bytes(&live) + kept <= most + SLACK, "{live_bytes} {kept} {most}");
        }
    }

    #[test]
    fn pages_of_another_process_are_let_go() {
        let pool = Pool::new();
        pool.put_at_most(map(1 << 20), MOST);
        pool.kept.lock().unwrap().process += 1;
        assert!(pool.take(1 << 20).is_none());
        assert_eq!(pool.kept.lock().unwrap().process, std::process::id());
    }

    #[test]
    fn pages_come_back_and_say_that_they_are_not_zeroed() {
        // Other tests may take them.
        for _ in 0..1_000 {
            let mut first = pages(5 << 20).unwrap();
            first.as_mut().fill(1);
            drop(first);
            let second = pages(5 << 20).unwrap();
            if second.is_zeroed() {
                assert!(second.as_ref().iter().all(|&byte| byte == 0));
                continue;
            }
            assert!(!cfg!(debug_assertions) || second.as_ref().iter().all(|&byte| byte == 0xa5));
            return;
        }
        panic!("never");
    }

    #[test]
    fn threads_that_take_and_put_at_once_do_not_add_up() {
        let pool = Pool::new();
        let len = SLACK / 8;
        thread::scope(|scope| {
            for seed in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut random = crate::random::Bits(seed);
                    for _ in 0..2_000 {
                        let len = len + random.below(len as u64 * 4) as usize;
                        pool.put_at_most(pool.take(len).unwrap_or_else(|| map(size_class(len))), MOST);
                    }
                });
            }
        });
        let most = 4 * size_class(5 * len);
        let kept: usize = pool.lens().iter().sum();
        // Who does not get the lock takes fresh pages, for which others are let go later.
        assert!(kept <= 2 * most + SLACK, "{kept}");
        pool.clear();
        assert!(pool.lens().is_empty());
    }
}
