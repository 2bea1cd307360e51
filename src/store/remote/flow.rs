//! How many requests a store is sent at once, and how large a gap between two ranges is read over.
//!
//! A link needs as many requests in flight as keep it busy: bandwidth times latency, over the bytes of one. None of these
//! is known beforehand. The number starts at [`START`] and grows as long as answers take no longer for it; while the link
//! is silent for no longer than its latency explains, nothing can be too many, and the number grows with time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::fork;

/// Requests in flight at first.
pub(crate) const START: usize = 64;

/// The most requests in flight, where the process may have so many files open.
pub(crate) const MOST: usize = 1024;

/// How many more may be in flight after each [`TICK`] of silence.
const STEP: usize = 64;

/// How often a silent link is looked at.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// The least gap that is read over, in bytes.
pub(crate) const LEAST_GAP: usize = 16 << 10;

/// The largest gap that is read over by default, in bytes.
pub(crate) const MOST_GAP: usize = 1 << 20;

/// Bytes a second of all requests together, before any were seen.
const BANDWIDTH: f64 = 400e6;

/// Fewer bytes tell nothing about bandwidth.
const TELLING: usize = 4 << 20;

/// Bytes a second that are decoded at most: in a round trip, as many are on their way.
const DECODED: f64 = 1e9;

/// Bytes that may be on their way however near the store is.
const LEAST_DUE: f64 = (24 << 20) as f64;

/// What a request costs beside waiting, in seconds: both ends work for it.
const OVERHEAD: f64 = 60e-6;

/// What was seen of one store. Shared by all reads of it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    seen: Mutex<Seen>,
    pushbacks: AtomicUsize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// In seconds, from a request to the first byte of its answer, when the link was not busy.
    latency: Option<f64>,
    /// Bytes a second of all answers together.
    bandwidth: Option<f64>,
    /// Requests in flight that a read found to be good.
    limit: Option<usize>,
}

impl Flow {
    fn seen(&self) -> Seen {
        *fork::lock(&self.seen)
    }

    fn update(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut fork::lock(&self.seen));
    }

    /// Takes note of an answer that began after `waited`.
    pub(crate) fn answered(&self, waited: Duration) {
        let waited = waited.as_secs_f64();
        // The least counts, for more is waiting of another kind; but a link may also become slower.
        self.update(|seen| seen.latency = Some(seen.latency.map_or(waited, |known| known.min(waited) * 1.002)));
    }

    /// How many bytes may be on their way: more would only wait to be decoded.
    pub(crate) fn reach(&self) -> usize {
        let latency = self.seen().latency;
        latency.map_or(usize::MAX, |latency| (LEAST_DUE + latency * DECODED) as usize)
    }

    /// Takes note of a read that got `bytes` in so much time.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn received(&self, bytes: usize, took: Duration) {
        if bytes >= TELLING && !took.is_zero() {
            let now = bytes as f64 / took.as_secs_f64();
            self.update(|seen| seen.bandwidth = Some(seen.bandwidth.map_or(now, |known| known.midpoint(now))));
        }
    }

    /// Takes note that `count` answers so far asked for fewer requests: 429, 503, or none in time.
    pub(crate) fn pushed_back(&self, count: usize) {
        self.pushbacks.fetch_max(count, Ordering::Relaxed);
    }

    /// The largest gap between two ranges that is better read over than asked around, in bytes, at most `most`: what the
    /// link carries in the time that a request takes. Many are in flight at once, so that is a small part of its latency.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn gap(&self, most: usize) -> usize {
        let seen = self.seen();
        let latency = seen.latency.unwrap_or(0.0);
        let in_flight = (START as f64 + STEP as f64 * latency / TICK.as_secs_f64()).min(MOST as f64);
        let gap = (latency / in_flight + OVERHEAD) * seen.bandwidth.unwrap_or(BANDWIDTH);
        // Also right for what is no number.
        if gap >= most as f64 { most } else { (gap as usize).max(LEAST_GAP.min(most)) }
    }
}

/// How many requests one read may have in flight.
#[derive(Debug)]
pub(crate) struct Window<'f> {
    flow: &'f Flow,
    limit: usize,
    /// The most that it may become.
    most: usize,
    fixed: bool,
    /// Pushbacks that were answered by fewer requests.
    pushbacks: usize,
    /// So many answers are to requests that were sent before the number was halved.
    settling: usize,
    /// Answers since the number last grew, once it was halved.
    since: Option<usize>,
}

impl<'f> Window<'f> {
    /// As many as `fixed` says; else, as the link allows.
    pub(crate) fn new(flow: &'f Flow, fixed: Option<usize>) -> Self {
        let most = MOST.min(files() / 4 * 3);
        let limit = fixed.unwrap_or_else(|| flow.seen().limit.unwrap_or(START).min(most));
        let pushbacks = flow.pushbacks.load(Ordering::Relaxed);
        Self { flow, limit, most, fixed: fixed.is_some(), pushbacks, settling: 0, since: None }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether waiting may make the number grow.
    pub(crate) fn may_grow(&self) -> bool {
        !self.fixed && self.since.is_none() && self.limit < self.most
    }

    /// Takes note that as many requests as may be are in flight, and nothing came for `silence`.
    pub(crate) fn silent(&mut self, silence: Duration) {
        let explained = self.flow.seen().latency.is_some_and(|latency| silence.as_secs_f64() <= latency * 1.5);
        if self.may_grow() && explained {
            self.limit = (self.limit + STEP).min(self.most);
        }
    }

    /// Takes note of an answer that began after `waited`. `was_full` if as many requests as may be were in flight.
    pub(crate) fn answered(&mut self, waited: Duration, was_full: bool) {
        if self.fixed {
            return;
        }
        let pushbacks = self.flow.pushbacks.load(Ordering::Relaxed);
        if self.settling > 0 {
            // Requests that were sent together are pushed back together: that is one reason, not many.
            self.settling -= 1;
            self.pushbacks = pushbacks;
        } else if pushbacks > self.pushbacks {
            self.pushbacks = pushbacks;
            self.settling = self.limit;
            self.limit = (self.limit / 2).max(1);
            self.since = Some(0);
        } else if let Some(since) = &mut self.since {
            *since += 1;
            if *since >= self.limit && was_full {
                *since = 0;
                self.limit = (self.limit + 1).min(self.most);
            }
        } else if was_full && self.flow.seen().latency.is_none_or(|latency| waited.as_secs_f64() <= latency * 2.0) {
            self.limit = (self.limit + 1).min(self.most);
        }
    }
}

/// How many files, and so connections, the process may have open.
fn files() -> usize {
    #[cfg(target_os = "linux")]
    if let Some(files) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        return usize::try_from(files).unwrap_or(usize::MAX).max(8);
    }
    usize::MAX
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if !self.fixed {
            let limit = self.limit;
            self.flow.update(|seen| seen.limit = Some(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn silence_that_latency_explains_makes_room_for_more() {
        let flow = Flow::default();
        let mut window = Window::new(&flow, None);
        window.silent(10 * MS);
        assert_eq!(window.limit(), START, "the latency is not known yet");
        flow.answered(100 * MS);
        for tick in 1..=20 {
            window.silent(tick * TICK);
        }
        assert_eq!(window.limit(), MOST);
        drop(window);
        let flow = Flow::default();
        flow.answered(MS);
        let mut window = Window::new(&flow, None);
        for tick in 1..=20 {
            window.silent(tick * TICK);
        }
        assert_eq!(window.limit(), START, "silence for longer than the latency has another cause");
    }

    #[test]
    fn quick_answers_make_room_for_more_and_slow_ones_do_not() {
        let flow = Flow::default();
        flow.answered(10 * MS);
        let mut window = Window::new(&flow, None);
        for _ in 0..64 {
            window.answered(12 * MS, true);
        }
        assert_eq!(window.limit(), 128);
        for _ in 0..64 {
            window.answered(30 * MS, true);
            window.answered(10 * MS, false);
        }
        assert_eq!(window.limit(), 128);
        drop(window);
        assert_eq!(Window::new(&flow, None).limit(), 128, "the next read knows");
        assert_eq!(Window::new(&flow, Some(7)).limit(), 7);
    }

    #[test]
    fn a_pushback_halves_once_for_all_that_were_sent_together() {
        let flow = Flow::default();
        flow.answered(10 * MS);
        let mut window = Window::new(&flow, None);
        for count in 1..=64 {
            flow.pushed_back(count);
            window.answered(10 * MS, true);
        }
        assert_eq!(window.limit(), 32);
        window.answered(10 * MS, true);
        flow.pushed_back(65);
        window.answered(10 * MS, true);
        window.answered(10 * MS, true);
        assert_eq!(window.limit(), 16);
        for _ in 0..200 {
            window.answered(10 * MS, true);
            window.silent(MS);
        }
        assert!((17..32).contains(&window.limit()), "it creeps: {}", window.limit());
        let mut fixed = Window::new(&flow, Some(5));
        flow.pushed_back(66);
        fixed.answered(10 * MS, true);
        assert_eq!(fixed.limit(), 5);
    }

    #[test]
    fn what_may_be_on_its_way_follows_latency() {
        let flow = Flow::default();
        assert_eq!(flow.reach(), usize::MAX);
        flow.answered(100 * MS);
        assert_eq!(flow.reach(), (24 << 20) + 100_000_000);
        flow.answered(Duration::ZERO);
        assert_eq!(flow.reach(), 24 << 20);
    }

    #[test]
    fn the_gap_follows_latency_and_bandwidth() {
        let gap = |latency: Duration, bandwidth: usize| {
            let flow = Flow::default();
            flow.answered(latency);
            if bandwidth > 0 {
                flow.received(bandwidth, 1000 * MS);
            }
            flow.gap(MOST_GAP)
        };
        assert_eq!(Flow::default().gap(MOST_GAP), 24_000);
        let unseen = [1, 10, 100, 1000].map(|latency| gap(latency * MS, 0));
        assert!(unseen.is_sorted() && unseen[0] < 30_000 && unseen[3] > 400_000, "{unseen:?}");
        let at_100_ms = [10, 100, 1000, 10_000].map(|bandwidth| gap(100 * MS, bandwidth * 1_000_000));
        assert_eq!((at_100_ms[0], at_100_ms[3]), (LEAST_GAP, MOST_GAP));
        assert!(at_100_ms.is_sorted() && at_100_ms[2] < 200_000, "{at_100_ms:?}");
        let flow = Flow::default();
        flow.received(1 << 10, MS);
        assert_eq!((flow.gap(MOST_GAP), flow.gap(0)), (24_000, 0), "what is too little tells nothing");
    }
}
