//! How many requests a store is sent at once, and how large a gap between two ranges is read over.
//!
//! A link needs as many requests in flight as keep it busy: bandwidth times latency, over the bytes of one. None of these
//! is known beforehand. The number starts at [`START`] and grows as long as answers take no longer for it; while the link
//! is silent for no longer than its latency explains, nothing can be too many, and the number grows with time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
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

/// What was seen of one link. Shared by all reads of all arrays behind it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    seen: Mutex<Seen>,
    pushbacks: Pushbacks,
}

/// How many answers asked for fewer requests: 429, 503, or none in time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pushbacks(Arc<AtomicUsize>);

impl Pushbacks {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The links of arrays that are open, by a hash of what tells them apart, which may hold secrets.
static LINKS: Mutex<Option<Links>> = Mutex::new(None);

#[derive(Default)]
struct Links {
    hasher: RandomState,
    flows: HashMap<u64, Weak<Flow>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// In seconds, from a request to the first byte of its answer, when the link was not busy.
    latency: Option<f64>,
    /// Bytes a second of all answers together.
    bandwidth: Option<f64>,
    /// Requests in flight that a read found to be good.
    limit: Option<usize>,
    /// Whether the last read was pushed back: then the next one only creeps up, too.
    was_pushed_back: bool,
}

impl Flow {
    /// That of a link: as long as an array behind it is open, all others get the same.
    pub(crate) fn of(link: &str) -> Arc<Self> {
        let mut links = fork::lock(&LINKS);
        let links = links.get_or_insert_default();
        let key = links.hasher.hash_one(link);
        if let Some(flow) = links.flows.get(&key).and_then(Weak::upgrade) {
            return flow;
        }
        links.flows.retain(|_, flow| flow.strong_count() > 0);
        let flow = Arc::new(Self::default());
        links.flows.insert(key, Arc::downgrade(&flow));
        flow
    }

    /// The counter of its pushbacks.
    pub(crate) fn pushbacks(&self) -> &Pushbacks {
        &self.pushbacks
    }

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

/// How many requests one read may have in flight, on all links together.
#[derive(Debug)]
pub(crate) struct Window {
    flows: Vec<Arc<Flow>>,
    limit: usize,
    /// How many files the process may have open, of which reads share the half: there may be more connections than requests.
    files: usize,
    fixed: bool,
    /// Pushbacks of each link before the read.
    before: Vec<usize>,
    /// Pushbacks that were answered by fewer requests.
    pushbacks: usize,
    /// So many answers are to requests that were sent before the number was halved.
    settling: usize,
    /// Answers since the number last grew, once it was halved.
    since: Option<usize>,
}

impl Window {
    /// As many as `fixed` says; else, as the links allow.
    pub(crate) fn new(flows: Vec<Arc<Flow>>, fixed: Option<usize>) -> Self {
        share(1);
        let known = flows.iter().filter_map(|flow| flow.seen().limit).min();
        let before: Vec<_> = flows.iter().map(|flow| flow.pushbacks.count()).collect();
        let pushbacks = before.iter().sum();
        let limit = fixed.or(known).unwrap_or(START);
        let since = flows.iter().any(|flow| flow.seen().was_pushed_back).then_some(0);
        Self { flows, limit, files: files(), fixed: fixed.is_some(), before, pushbacks, settling: 0, since }
    }

    pub(crate) fn limit(&self) -> usize {
        if self.fixed { self.limit } else { self.limit.min(self.most()) }
    }

    /// The most that it may become now.
    fn most(&self) -> usize {
        MOST.min(self.files / 2 / share(0).max(1)).max(1)
    }

    /// Whether waiting may make the number grow.
    pub(crate) fn may_grow(&self) -> bool {
        !self.fixed && self.since.is_none() && self.limit < self.most()
    }

    /// Takes note that as many requests as may be are in flight, and nothing came for `silence`.
    pub(crate) fn silent(&mut self, silence: Duration) {
        let explains = |latency: f64| silence.as_secs_f64() <= latency * 1.5;
        if self.may_grow() && self.flows.iter().any(|flow| flow.seen().latency.is_some_and(explains)) {
            self.grow(STEP);
        }
    }

    /// Takes note of an answer on `flow` that began after `waited`. `was_full` if as many requests as may be were in flight.
    pub(crate) fn answered(&mut self, flow: &Flow, waited: Duration, was_full: bool) {
        if self.fixed {
            return;
        }
        if self.settling > 0 {
            // Requests that were sent together are pushed back together: that is one reason, not many.
            self.settling -= 1;
            self.pushbacks = count(&self.flows);
        } else if self.heed() {
            // It makes no room for more.
        } else if let Some(since) = &mut self.since {
            *since += 1;
            if *since >= self.limit && was_full {
                *since = 0;
                self.grow(1);
            }
        } else if was_full && flow.seen().latency.is_none_or(|latency| waited.as_secs_f64() <= latency * 2.0) {
            self.grow(1);
        }
    }

    /// Halves the number if there were pushbacks since it was last halved, of requests that were sent after that. Gives whether
    /// it did.
    pub(crate) fn heed(&mut self) -> bool {
        let pushbacks = count(&self.flows);
        if self.fixed || self.settling > 0 || pushbacks <= self.pushbacks {
            return false;
        }
        self.pushbacks = pushbacks;
        self.settling = self.limit();
        self.limit = (self.limit() / 2).max(1);
        self.since = Some(0);
        true
    }

    /// Makes room for more, as far as that goes. What other reads take of it now they may give back.
    fn grow(&mut self, more: usize) {
        self.limit = (self.limit + more).min(self.most()).max(self.limit);
    }
}

fn count(flows: &[Arc<Flow>]) -> usize {
    flows.iter().map(|flow| flow.pushbacks.count()).sum()
}

/// Adds to the number of reads that this process has under way, and gives it.
fn share(more: isize) -> usize {
    static READS: Mutex<(u32, usize)> = Mutex::new((0, 0));
    let mut reads = fork::lock(&READS);
    let process = std::process::id();
    if reads.0 != process {
        // Those of the parent process are not of this one.
        *reads = (process, 0);
    }
    reads.1 = reads.1.saturating_add_signed(more);
    reads.1
}

/// How many files, and so connections, the process may have open.
fn files() -> usize {
    #[cfg(target_os = "linux")]
    if let Some(files) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        return usize::try_from(files).unwrap_or(usize::MAX).max(8);
    }
    usize::MAX
}

impl Drop for Window {
    fn drop(&mut self) {
        // A read may end by them.
        self.heed();
        share(-1);
        if !self.fixed {
            let is_one = self.flows.len() == 1;
            for (flow, before) in self.flows.iter().zip(&self.before) {
                // A link that was not pushed back is not to blame for another.
                let was_pushed_back = flow.pushbacks.count() > *before;
                let is_to_blame = is_one || was_pushed_back;
                let limit = self.limit;
                flow.update(|seen| {
                    seen.was_pushed_back = was_pushed_back;
                    let known = seen.limit.unwrap_or(START);
                    seen.limit = Some(if is_to_blame { limit } else { limit.max(known) });
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn window(flow: &Arc<Flow>, fixed: Option<usize>) -> Window {
        Window::new(vec![flow.clone()], fixed)
    }

    #[test]
    fn silence_that_latency_explains_makes_room_for_more() {
        let flow = Arc::<Flow>::default();
        let mut far = window(&flow, None);
        far.files = usize::MAX;
        far.silent(10 * MS);
        assert_eq!(far.limit(), START, "the latency is not known yet");
        flow.answered(100 * MS);
        for tick in 1..=20 {
            far.silent(tick * TICK);
        }
        assert_eq!(far.limit(), MOST);
        drop(far);
        let flow = Arc::<Flow>::default();
        flow.answered(MS);
        let mut near = window(&flow, None);
        for tick in 1..=20 {
            near.silent(tick * TICK);
        }
        assert_eq!(near.limit(), START, "silence for longer than the latency has another cause");
    }

    #[test]
    fn quick_answers_make_room_for_more_and_slow_ones_do_not() {
        let flow = Arc::<Flow>::default();
        flow.answered(10 * MS);
        let mut grown = window(&flow, None);
        for _ in 0..64 {
            grown.answered(&flow, 12 * MS, true);
        }
        assert_eq!(grown.limit(), 128);
        for _ in 0..64 {
            grown.answered(&flow, 30 * MS, true);
            grown.answered(&flow, 10 * MS, false);
        }
        assert_eq!(grown.limit(), 128);
        drop(grown);
        assert_eq!(window(&flow, None).limit(), 128, "the next read knows");
        assert_eq!(window(&flow, Some(7)).limit(), 7);
    }

    #[test]
    fn a_pushback_halves_once_for_all_that_were_sent_together() {
        let flow = Arc::<Flow>::default();
        flow.answered(10 * MS);
        let mut halved = window(&flow, None);
        for _ in 0..64 {
            flow.pushbacks().add();
            halved.answered(&flow, 10 * MS, true);
        }
        assert_eq!(halved.limit(), 32);
        halved.answered(&flow, 10 * MS, true);
        flow.pushbacks().add();
        halved.answered(&flow, 10 * MS, true);
        halved.answered(&flow, 10 * MS, true);
        assert_eq!(halved.limit(), 16);
        for _ in 0..200 {
            halved.answered(&flow, 10 * MS, true);
            halved.silent(MS);
        }
        assert!((17..32).contains(&halved.limit()), "it creeps: {}", halved.limit());
        let crept = halved.limit();
        drop(halved);
        let mut next = window(&flow, None);
        (0..20).for_each(|tick| next.silent(tick * MS));
        assert_eq!(next.limit(), crept, "the next one creeps too");
        drop(next);
        let mut third = window(&flow, None);
        third.silent(MS);
        assert_eq!(third.limit(), crept + STEP, "until one was not pushed back");
        drop(third);
        // One that ends by what pushes it back.
        flow.update(|seen| seen.limit = Some(40));
        let ended = window(&flow, None);
        flow.pushbacks().add();
        drop(ended);
        assert_eq!(window(&flow, None).limit(), 20);
        let mut fixed = window(&flow, Some(5));
        flow.pushbacks().add();
        fixed.answered(&flow, 10 * MS, true);
        assert_eq!(fixed.limit(), 5);
    }

    #[test]
    fn a_read_of_two_links_heeds_both() {
        let (near, far) = (Arc::<Flow>::default(), Arc::<Flow>::default());
        near.answered(MS);
        far.answered(100 * MS);
        for (flow, limit) in [(&near, 200), (&far, START)] {
            flow.update(|seen| seen.limit = Some(limit));
        }
        let mut both = Window::new(vec![near.clone(), far.clone()], None);
        both.silent(50 * MS);
        assert_eq!(both.limit(), START + STEP, "the farther one explains it");
        both.answered(&far, 110 * MS, true);
        both.answered(&near, 50 * MS, true);
        assert_eq!(both.limit(), START + STEP + 1, "each answer is held against its own latency");
        far.pushbacks().add();
        both.answered(&near, MS, true);
        assert_eq!(both.limit(), (START + STEP).div_ceil(2));
        drop(both);
        assert_eq!([&near, &far].map(|flow| window(flow, None).limit()), [200, 64], "far was pushed back");
    }

    #[test]
    fn arrays_behind_one_link_share_what_was_seen() {
        let one = Flow::of("test://one");
        assert!(Arc::ptr_eq(&one, &Flow::of("test://one")) && !Arc::ptr_eq(&one, &Flow::of("test://two")));
        one.answered(100 * MS);
        drop(one);
        assert_eq!(Flow::of("test://one").reach(), usize::MAX, "nothing is kept once all are closed");
    }

    #[test]
    fn reads_share_the_files_that_may_be_open() {
        let flow = Arc::<Flow>::default();
        let few = || {
            let mut window = window(&flow, None);
            window.files = 40;
            window
        };
        let three = [few(), few(), few()];
        assert!(three.iter().all(|window| (1..=10).contains(&window.limit())), "{three:?}");
        assert!(three.iter().all(|window| window.limit == START), "what others take now is not forgotten");
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
