//! Pages of results that are gone, kept for results to come: having the system zero fresh pages costs a read from a warm
//! cache up to a fifth of its time.
//!
//! The process is never larger for it than its results were at once, but for [`ALWAYS`]: pages are let go before fresh
//! ones are taken. And the system may have back what it needs: where it can, kept pages are marked as free to take.

use std::io;
use std::sync::{Mutex, TryLockError};

use memmap2::MmapMut;

use super::size_class;

/// So many bytes are kept at most.
const MOST: usize = if cfg!(any(target_os = "linux", target_os = "macos")) { 1 << 30 } else { ALWAYS };

/// So many bytes may be kept beside fresh pages.
const ALWAYS: usize = 32 << 20;

/// The lock is held for less than a microsecond.
const TRIES: usize = 16;

static POOL: Pool = Pool(Mutex::new(Vec::new()));

/// Memory of the system's own pages. Goes back to the pool when it is dropped.
pub(crate) struct Pages {
    /// `None` only while it is dropped.
    pages: Option<MmapMut>,
    zeroed: bool,
}

/// At least `len` bytes.
pub(super) fn pages(len: usize) -> io::Result<Pages> {
    if let Some(pages) = POOL.take(len) {
        return Ok(Pages { pages: Some(pages), zeroed: false });
    }
    Ok(Pages { pages: Some(super::pages(len)?), zeroed: true })
}

impl Pages {
    /// Whether all bytes are zero. Otherwise each byte is to be written before it is read.
    pub(super) fn is_zeroed(&self) -> bool {
        self.zeroed
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.pages.as_deref().unwrap_or_default()
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        self.pages.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            POOL.put(pages);
        }
    }
}

/// The pages that are kept, those longest unused first.
struct Pool(Mutex<Vec<MmapMut>>);

impl Pool {
    /// Takes the pages that fit `len` bytes best, if they are at most a quarter too long. If there are none, as many
    /// bytes of others are let go, but for the last [`ALWAYS`].
    fn take(&self, len: usize) -> Option<MmapMut> {
        let least = size_class(len);
        let fits = least..=least.saturating_add(least / 4);
        let (found, released) = self.with(|kept| {
            let best = (0..kept.len()).filter(|&at| fits.contains(&kept[at].len())).min_by_key(|&at| kept[at].len());
            let found = best.map(|at| kept.remove(at));
            let excess = if found.is_some() { 0 } else { bytes(kept).saturating_sub(ALWAYS).min(least) };
            (found, release(kept, excess))
        })?;
        // Given back to the system outside the lock.
        drop(released);
        found
    }

    /// Keeps `pages` in the place of those longest unused.
    fn put(&self, pages: MmapMut) {
        if pages.len() > MOST {
            return;
        }
        lend(&pages);
        let released = self.with(|kept| {
            kept.push(pages);
            let excess = bytes(kept).saturating_sub(MOST);
            release(kept, excess)
        });
        drop(released);
    }

    /// Does not wait for long: a fork may have left the lock taken for ever.
    fn with<T>(&self, work: impl FnOnce(&mut Vec<MmapMut>) -> T) -> Option<T> {
        for _ in 0..TRIES {
            match self.0.try_lock() {
                Ok(mut kept) => return Some(work(&mut kept)),
                Err(TryLockError::Poisoned(kept)) => return Some(work(&mut kept.into_inner())),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

fn bytes(kept: &[MmapMut]) -> usize {
    kept.iter().map(|pages| pages.len()).sum()
}

/// Takes the pages longest unused out of `kept`, of at least `excess` bytes.
fn release(kept: &mut Vec<MmapMut>, mut excess: usize) -> Vec<MmapMut> {
    let mut count = 0;
    while excess > 0 && count < kept.len() {
        excess = excess.saturating_sub(kept[count].len());
        count += 1;
    }
    kept.drain(..count).collect()
}

/// Lets the system take pages that nobody uses, if it needs memory before they are written again.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[allow(unsafe_code, reason = "advice that changes what the pages hold")]
fn lend(pages: &MmapMut) {
    // SAFETY: the call may turn bytes into zeros at any time before they are next written. `Pages::drop` gave up the only
    // owner of the mapping, so no reference to its bytes is left; whoever takes it out of the pool is told by
    // `Pages::is_zeroed` that nothing is known of them. A refusal, as by old systems, costs nothing.
    let _ = unsafe { pages.unchecked_advise(memmap2::UncheckedAdvice::Free) };
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn lend(_: &MmapMut) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(len: usize) -> MmapMut {
        MmapMut::map_anon(len).unwrap()
    }

    fn pool() -> Pool {
        Pool(Mutex::new(Vec::new()))
    }

    impl Pool {
        fn lens(&self) -> Vec<usize> {
            self.with(|kept| kept.iter().map(|pages| pages.len()).collect()).unwrap()
        }
    }

    #[test]
    fn the_pool_keeps_what_was_used_last() {
        let pool = pool();
        pool.put(map(MOST + 4096));
        assert!(pool.lens().is_empty());
        pool.put(map(MOST / 2));
        pool.put(map(MOST / 4));
        pool.put(map(MOST / 2));
        assert_eq!(pool.lens(), [MOST / 4, MOST / 2]);
    }

    #[test]
    fn what_fits_best_is_taken() {
        let pool = pool();
        for len in [5 << 20, 4 << 20, 6 << 20, 4 << 20] {
            pool.put(map(len));
        }
        assert_eq!(pool.take((4 << 20) - 9).unwrap().len(), 4 << 20);
        assert_eq!(pool.take(4 << 20).unwrap().len(), 4 << 20);
        assert_eq!(pool.take(4 << 20).unwrap().len(), 5 << 20);
        assert!(pool.take(4 << 20).is_none(), "more than a quarter too long");
        assert!(pool.take((6 << 20) + 1).is_none(), "too short");
        assert_eq!(pool.lens(), [6 << 20]);
    }

    #[test]
    fn fresh_pages_come_in_the_place_of_kept_ones() {
        let pool = pool();
        let lens = [ALWAYS / 2, ALWAYS, ALWAYS / 2, ALWAYS / 2];
        for len in lens {
            pool.put(map(len));
        }
        assert!(pool.take(1 << 20).is_none());
        assert_eq!(pool.lens(), lens[1..], "at least as much as is needed, oldest first");
        assert!(pool.take(8 * ALWAYS).is_none());
        assert_eq!(pool.lens(), lens[2..], "all but what is always kept");
        assert!(pool.take(8 * ALWAYS).is_none());
        assert_eq!(pool.lens(), lens[2..]);
    }

    #[test]
    fn the_process_is_never_larger_than_its_results_were() {
        let pool = pool();
        let mut random = crate::random::Bits(1);
        let (mut live, mut most) = (Vec::<MmapMut>::new(), 0);
        for _ in 0..2_000 {
            let live_bytes = bytes(&live);
            if live_bytes > 0 && random.below(2) == 0 {
                pool.put(live.swap_remove(random.below(live.len() as u64) as usize));
            } else if live_bytes < 16 * ALWAYS {
                let len = (random.below(1 << 28) + (1 << 20)) as usize;
                live.push(pool.take(len).unwrap_or_else(|| map(size_class(len))));
            }
            most = most.max(bytes(&live));
            let kept: usize = pool.lens().iter().sum();
            assert!(kept <= MOST);
            assert!(bytes(&live) + kept <= most + ALWAYS, "{live_bytes} {kept} {most}");
        }
    }

    #[test]
    fn pages_come_back_and_say_that_they_are_not_zeroed() {
        // A length that no other test uses.
        let len = 5 << 20;
        let mut first = pages(len).unwrap();
        first.as_mut().fill(1);
        drop(first);
        let mut second = pages(len).unwrap();
        assert!(second.is_zeroed() || second.as_ref().iter().all(|&byte| byte <= 1));
        second.as_mut().fill(2);
        assert!(second.as_ref().iter().all(|&byte| byte == 2));
    }
}
