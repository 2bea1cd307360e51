//! Read-ahead: keeps a cold disk busy with the read chunks that come next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How many read chunks after the current one the disk is told of.
const DISTANCE: usize = 32;

/// A read from the page cache is faster than this for each so many bytes.
const WARM: Duration = Duration::from_micros(300);
const WARM_BYTES: u32 = 256 << 10;

/// Which read chunks the disk was told of. Nothing is told until a read was slow: on a warm cache, telling costs a
/// system call for each chunk and gains nothing.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    cold: AtomicBool,
    told: AtomicUsize,
}

impl Ahead {
    /// Takes note of how long a read of `bytes` took.
    pub(super) fn observe(&self, bytes: usize, took: Duration) {
        let expected = WARM * (1 + bytes as u32 / WARM_BYTES);
        if took > expected && !self.cold.load(Ordering::Relaxed) {
            self.cold.store(true, Ordering::Relaxed);
        }
    }

    /// Calls `tell` for each read chunk after `current` that the disk should be told of and was not, of `chunks`.
    pub(super) fn tell(&self, current: usize, chunks: usize, mut tell: impl FnMut(usize)) {
        if !self.cold.load(Ordering::Relaxed) {
            return;
        }
        let end = (current + 1 + DISTANCE).min(chunks);
        loop {
            let next = self.told.load(Ordering::Relaxed);
            let chunk = next.max(current + 1);
            if chunk >= end {
                return;
            }
            if self.told.compare_exchange(next, chunk + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                tell(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_each_chunk_once_and_only_when_cold() {
        let ahead = Ahead::default();
        let mut told = Vec::new();
        ahead.tell(0, 100, |chunk| told.push(chunk));
        ahead.observe(1 << 20, Duration::from_micros(900));
        ahead.tell(0, 100, |chunk| told.push(chunk));
        assert!(told.is_empty());
        ahead.observe(1 << 20, Duration::from_millis(5));
        ahead.tell(0, 100, |chunk| told.push(chunk));
        ahead.tell(1, 100, |chunk| told.push(chunk));
        ahead.tell(90, 100, |chunk| told.push(chunk));
        ahead.tell(99, 100, |chunk| told.push(chunk));
        assert_eq!(told, (1..34).chain(91..100).collect::<Vec<_>>());
    }
}
