//! Read-ahead: keeps a cold disk busy with the read chunks that come next.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// How many read chunks after the current one the disk is told of.
const DISTANCE: usize = 32;

/// A read from the page cache is faster than this for each so many bytes.
const WARM: Duration = Duration::from_micros(300);
const WARM_BYTES: usize = 256 << 10;
/// And than this for each read of few bytes.
const WARM_READ: Duration = Duration::from_micros(10);

/// What a slow read counts for, and of how much the disk is taken for cold. A fast read takes one off: a thread that lost
/// its core now and then is no cold disk, two slow reads in a row are.
const SLOW: u32 = 3;
const COLD: u32 = 5;

/// Which read chunks the disk was told of. Nothing is told until reads are slow: on a warm cache, telling costs
/// system calls for each chunk and gains nothing.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// At [`COLD`] it stays.
    slow: AtomicU32,
    told: AtomicUsize,
}

impl Ahead {
    /// Takes note of how long `reads` reads, of so many bytes together, took.
    pub(super) fn observe(&self, bytes: usize, reads: usize, took: Duration) {
        let slow = self.slow.load(Ordering::Relaxed);
        let times = |of: Duration, count: usize| of.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let expected = times(WARM, 1 + bytes / WARM_BYTES).saturating_add(times(WARM_READ, reads));
        let next = if took > expected { (slow + SLOW).min(COLD) } else { slow.saturating_sub(1) };
        if slow < COLD && next != slow {
            // Of threads that look at once one may be forgotten: there are more reads to come.
            let _ = self.slow.compare_exchange(slow, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether reads wait for the disk.
    pub(super) fn is_cold(&self) -> bool {
        self.slow.load(Ordering::Relaxed) >= COLD
    }

    /// Calls `tell` for each read chunk after `current` that the disk should be told of and was not, of `chunks`.
    pub(super) fn tell(&self, current: usize, chunks: usize, mut tell: impl FnMut(usize)) {
        if !self.is_cold() {
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
        for _ in 0..10 {
            ahead.observe(1 << 20, 1, Duration::from_micros(900));
            // One slow read among fast ones.
            ahead.observe(1 << 20, 1, Duration::from_millis(5));
            ahead.observe(8 << 30, 1, Duration::from_millis(900));
            ahead.observe(32 << 10, 4000, Duration::from_millis(4));
            ahead.tell(0, 100, |chunk| told.push(chunk));
        }
        assert!(told.is_empty());
        ahead.observe(1 << 20, 1, Duration::from_millis(5));
        ahead.observe(1 << 20, 1, Duration::from_millis(5));
        ahead.tell(0, 100, |chunk| told.push(chunk));
        ahead.tell(1, 100, |chunk| told.push(chunk));
        ahead.tell(90, 100, |chunk| told.push(chunk));
        ahead.tell(99, 100, |chunk| told.push(chunk));
        assert_eq!(told, (1..34).chain(91..100).collect::<Vec<_>>());
    }
}
