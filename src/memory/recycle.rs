//! Pages of results that are gone, kept for results to come: having the system zero fresh pages would cost a read from
//! a warm cache a tenth of its time.

use std::io;
use std::sync::{Mutex, TryLockError};

use memmap2::MmapMut;

/// At most so many bytes are kept.
const KEPT: usize = 64 << 20;

static POOL: Pool = Pool(Mutex::new(Vec::new()));

/// Memory of the system's own pages. Goes back to the pool when it is dropped.
pub(crate) struct Pages {
    /// `None` only while it is dropped.
    pages: Option<MmapMut>,
    zeroed: bool,
}

/// At least `len` bytes.
pub(super) fn pages(len: usize) -> io::Result<Pages> {
    if let Some(pages) = POOL.take(super::size_class(len)) {
        return Ok(Pages { pages: Some(pages), zeroed: false });
    }
    Ok(Pages { pages: Some(super::pages(len)?), zeroed: true })
}

impl Pages {
    /// Whether all bytes are zero.
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
    /// Takes pages of `len` bytes, if there are any.
    fn take(&self, len: usize) -> Option<MmapMut> {
        self.with(|kept| kept.iter().position(|pages| pages.len() == len).map(|at| kept.remove(at)))?
    }

    /// Keeps `pages` in the place of those longest unused.
    fn put(&self, pages: MmapMut) {
        if pages.len() > KEPT {
            return;
        }
        let released = self.with(|kept| {
            kept.push(pages);
            let mut excess = kept.iter().map(|pages| pages.len()).sum::<usize>().saturating_sub(KEPT);
            let mut released = Vec::new();
            while excess > 0 {
                let oldest = kept.remove(0);
                excess = excess.saturating_sub(oldest.len());
                released.push(oldest);
            }
            released
        });
        // Given back to the system outside the lock.
        drop(released);
    }

    /// Never waits: a fork may have left the lock taken for ever.
    fn with<T>(&self, work: impl FnOnce(&mut Vec<MmapMut>) -> T) -> Option<T> {
        match self.0.try_lock() {
            Ok(mut kept) => Some(work(&mut kept)),
            Err(TryLockError::Poisoned(kept)) => Some(work(&mut kept.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_keeps_what_was_used_last() {
        let pool = Pool(Mutex::new(Vec::new()));
        let map = |len| MmapMut::map_anon(len).unwrap();
        pool.put(map(KEPT + 4096));
        assert!(pool.take(KEPT + 4096).is_none());
        pool.put(map(KEPT / 2));
        pool.put(map(KEPT / 4));
        pool.put(map(KEPT / 2));
        assert!(pool.take(KEPT / 4).is_some());
        assert!(pool.take(KEPT / 2).is_some());
        assert!(pool.take(KEPT / 2).is_none());
    }

    #[test]
    fn pages_come_back_and_say_that_they_are_not_zeroed() {
        // A length that no other test uses.
        let len = 5 << 20;
        let mut first = pages(len).unwrap();
        first.as_mut().fill(1);
        drop(first);
        let second = pages(len).unwrap();
        assert!(second.is_zeroed() || second.as_ref()[..len].iter().all(|&byte| byte == 1));
    }
}
