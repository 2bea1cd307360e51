//! Decoded read chunks that calls share.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::chunk::{Elements, ShardIndex};
use crate::fork::{self, Locked};

/// How often who waits for a chunk looks whether it still should.
const LOOK: Duration = Duration::from_millis(20);

/// With more arrays than this, those of which nothing is held are forgotten.
const MOST_ARRAYS: usize = 1 << 10;

/// Bytes that an entry takes beside what it holds, about.
const ENTRY: usize = 128;

/// Decoded read chunks, shard indices, and the knowledge that chunks are missing, for any number of reads and threads.
///
/// What was used longest ago is let go of where all would be more than `max_bytes`. Of several reads that need a chunk at
/// once, one decodes it and the others wait. A chunk that was written anew since is told apart where its store gives a
/// time of modification or an `ETag`: then a read of a remote store asks for each chunk (of shards, for the index of each)
/// whether it has changed, which takes a round trip but no bytes, unless the cache was made without
/// [rechecks](Self::without_rechecks).
///
/// Cloning shares the cache.
#[derive(Clone)]
pub struct ChunkCache(Arc<Inner>);

struct Inner {
    max_bytes: usize,
    rechecks: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// The entries that hold something, by when they were used last.
    order: BTreeMap<u64, Key>,
    clock: u64,
    bytes: usize,
    /// Numbers of arrays, by what tells them apart.
    arrays: HashMap<String, u64>,
    /// How many numbers were given: none is given again.
    numbers: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    /// Counts the clears: what was begun before one is not kept.
    epoch: u64,
    /// Those that wait for what others make.
    waiting: Vec<Thread>,
    /// Where it was used last: in a forked child, nobody makes what its parent had begun.
    process: u32,
}

/// What is cached, of which array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) array: u64,
    pub(crate) part: CachedPart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CachedPart {
    /// A read chunk, by its key in the array's grid.
    Chunk(u64),
    /// The index of a shard, by its number.
    Index(u64),
}

/// What tells one writing of a value from another: an `ETag`, or a length and a time of modification.
pub(crate) type Version = Arc<str>;

enum Entry {
    /// Somebody makes it.
    Busy,
    Ready {
        value: Cached,
        version: Option<Version>,
        bytes: usize,
        used: u64,
    },
}

/// A cached value.
#[derive(Clone)]
pub(crate) enum Cached {
    /// The store does not hold it.
    Absent,
    Chunk(Arc<Vec<u8>>),
    /// Values of variable length: bytes, and cells that name them as those of buffer 0.
    Values(Arc<Elements<'static>>),
    Index(Arc<ShardIndex>),
}

/// What a lookup found.
pub(crate) enum Found {
    Hit(Cached, Option<Version>),
    /// Nothing: who looks has to make it.
    Miss(Promise),
    /// Somebody else makes it.
    Busy,
}

/// The duty to make a value that others may wait for. Dropped, another has it.
pub(crate) struct Promise {
    cache: ChunkCache,
    key: Key,
    epoch: u64,
}

impl ChunkCache {
    /// A cache of at most `max_bytes` of decoded chunks.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self(Arc::new(Inner { max_bytes, rechecks: true, state: Mutex::default() }))
    }

    /// A cache of at most `max_bytes` that takes it that remote stores do not change: what it holds is read without asking.
    #[must_use]
    pub fn without_rechecks(max_bytes: usize) -> Self {
        Self(Arc::new(Inner { max_bytes, rechecks: false, state: Mutex::default() }))
    }

    /// The most bytes that it holds.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.0.max_bytes
    }

    /// Bytes that it holds now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Values that it holds now: read chunks, indices and missing chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().order.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Read chunks that were found, since the last [`clear`](Self::clear).
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.lock().hits
    }

    /// Read chunks that were not found, or were stale.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.lock().misses
    }

    /// Values that were let go of to make room for others.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.lock().evictions
    }

    /// Lets go of everything, and counts from 0 again.
    pub fn clear(&self) {
        let mut state = self.lock();
        let busy = state.entries.drain().filter(|(_, entry)| matches!(entry, Entry::Busy)).collect();
        let (numbers, epoch) = (state.numbers, state.epoch + 1);
        let (waiting, process) = (std::mem::take(&mut state.waiting), state.process);
        *state = State { entries: busy, numbers, epoch, waiting, process, ..State::default() };
    }

    /// Whether remote stores are asked if what is held has changed.
    pub(crate) fn rechecks(&self) -> bool {
        self.0.rechecks
    }

    fn lock(&self) -> Locked<'_, State> {
        let mut state = fork::lock(&self.0.state);
        let process = std::process::id();
        if state.process != process {
            state.process = process;
            state.waiting.clear();
            state.entries.retain(|_, entry| !matches!(entry, Entry::Busy));
        }
        state
    }

    /// The number of the array that `identity` tells apart from all others.
    pub(crate) fn array(&self, identity: &str) -> u64 {
        let mut state = self.lock();
        if let Some(&number) = state.arrays.get(identity) {
            return number;
        }
        let state = &mut *state;
        if state.arrays.len() >= MOST_ARRAYS.max(2 * state.entries.len()) {
            // Handles that nobody has any more leave their names behind.
            let used: HashSet<u64> = state.entries.keys().map(|key| key.array).collect();
            state.arrays.retain(|_, number| used.contains(number));
        }
        let number = state.numbers;
        state.numbers += 1;
        state.arrays.insert(identity.to_owned(), number);
        number
    }

    /// Looks for a value. One whose version is not `current` counts as none; `None` takes any.
    pub(crate) fn look(&self, key: Key, current: Option<&Version>) -> Found {
        let mut state = self.lock();
        let state = &mut *state;
        state.clock += 1;
        let is_chunk = matches!(key.part, CachedPart::Chunk(_));
        match state.entries.get_mut(&key) {
            Some(Entry::Busy) => return Found::Busy,
            Some(Entry::Ready { value, version, used, .. }) if current.is_none() || version.as_ref() == current => {
                state.order.remove(used);
                *used = state.clock;
                state.order.insert(*used, key);
                state.hits += u64::from(is_chunk);
                return Found::Hit(value.clone(), version.clone());
            }
            _ => {}
        }
        state.misses += u64::from(is_chunk);
        self.promise(state, key)
    }

    /// Takes it that the value is stale: who calls has to make it.
    pub(crate) fn renew(&self, key: Key) -> Found {
        let mut state = self.lock();
        let state = &mut *state;
        if matches!(state.entries.get(&key), Some(Entry::Busy)) {
            return Found::Busy;
        }
        if matches!(key.part, CachedPart::Chunk(_)) {
            state.hits = state.hits.saturating_sub(1);
            state.misses += 1;
        }
        self.promise(state, key)
    }

    fn promise(&self, state: &mut State, key: Key) -> Found {
        state.remove(key);
        state.entries.insert(key, Entry::Busy);
        Found::Miss(Promise { cache: self.clone(), key, epoch: state.epoch })
    }

    /// As [`look`](Self::look), and waits while another makes it. `None` if it is not to `go_on`.
    pub(crate) fn look_or_wait(
        &self,
        key: Key,
        current: Option<&Version>,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Option<Found> {
        loop {
            match self.look(key, current) {
                Found::Busy if !go_on() => return None,
                Found::Busy => {
                    let mut state = self.lock();
                    if matches!(state.entries.get(&key), Some(Entry::Busy)) {
                        let this = thread::current();
                        if state.waiting.iter().all(|waiting| waiting.id() != this.id()) {
                            state.waiting.push(this);
                        }
                        drop(state);
                        // Not on the lock, which one that wakes up would hold.
                        thread::park_timeout(LOOK);
                    }
                }
                found => return Some(found),
            }
        }
    }
}

impl State {
    fn remove(&mut self, key: Key) {
        if let Some(Entry::Ready { bytes, used, .. }) = self.entries.remove(&key) {
            self.order.remove(&used);
            self.bytes -= bytes;
        }
    }
}

impl Promise {
    /// Keeps what was made, if it fits in.
    pub(crate) fn keep(self, value: Cached, version: Option<Version>) {
        let bytes = ENTRY
            + match &value {
                Cached::Absent => 0,
                Cached::Chunk(bytes) => bytes.len(),
                Cached::Values(values) => values.cells.len() + values.bytes.len(),
                Cached::Index(index) => index.bytes(),
            };
        let mut state = self.cache.lock();
        let state = &mut *state;
        // Otherwise, dropping the promise lets others try.
        if bytes > self.cache.0.max_bytes || self.epoch != state.epoch {
            return;
        }
        state.clock += 1;
        let used = state.clock;
        state.entries.insert(self.key, Entry::Ready { value, version, bytes, used });
        state.order.insert(used, self.key);
        state.bytes += bytes;
        while state.bytes > self.cache.0.max_bytes
            && let Some((_, &oldest)) = state.order.first_key_value()
        {
            state.remove(oldest);
            state.evictions += 1;
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if matches!(state.entries.get(&self.key), Some(Entry::Busy)) {
            state.entries.remove(&self.key);
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for thread in waiting {
            thread.unpark();
        }
    }
}

impl fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("ChunkCache")
            .field("max_bytes", &self.0.max_bytes)
            .field("bytes", &state.bytes)
            .field("len", &state.order.len())
            .field("hits", &state.hits)
            .field("misses", &state.misses)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(part: u64) -> Key {
        Key { array: 0, part: CachedPart::Chunk(part) }
    }

    fn keep(cache: &ChunkCache, part: u64, len: usize, version: Option<&str>) {
        match cache.look(key(part), None) {
            Found::Miss(promise) => promise.keep(Cached::Chunk(Arc::new(vec![7; len])), version.map(Into::into)),
            _ => panic!("{part} is there already"),
        }
    }

    fn holds(cache: &ChunkCache, part: u64) -> bool {
        matches!(cache.look(key(part), None), Found::Hit(..))
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let cache = ChunkCache::new(3 * (100 + ENTRY));
        for part in 0..3 {
            keep(&cache, part, 100, None);
        }
        assert!(holds(&cache, 0));
        keep(&cache, 3, 100, None);
        assert_eq!([0, 1, 2, 3].map(|part| holds(&cache, part)), [true, false, true, true]);
        assert_eq!((cache.len(), cache.bytes(), cache.evictions()), (3, 3 * (100 + ENTRY), 1));
        assert_eq!((cache.hits(), cache.misses()), (4, 5));
        keep(&cache, 9, 1000, None);
        assert_eq!((cache.len(), holds(&cache, 9)), (3, false), "what does not fit pushes nothing out");
        cache.clear();
        assert_eq!((cache.len(), cache.bytes(), cache.hits()), (0, 0, 0));
    }

    #[test]
    fn another_version_is_none() {
        let cache = ChunkCache::new(1 << 20);
        keep(&cache, 0, 10, Some("a"));
        assert!(matches!(cache.look(key(0), Some(&"a".into())), Found::Hit(..)));
        let Found::Miss(promise) = cache.look(key(0), Some(&"b".into())) else { panic!("stale") };
        assert!(matches!(cache.look(key(0), None), Found::Busy));
        drop(promise);
        assert!(matches!(cache.look(key(0), None), Found::Miss(_)));
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_is_made_while_the_cache_is_cleared_is_not_kept() {
        let cache = ChunkCache::new(1 << 20);
        let Found::Miss(promise) = cache.look(key(0), None) else { panic!("empty") };
        cache.clear();
        promise.keep(Cached::Absent, None);
        assert!(cache.is_empty());
        assert!(matches!(cache.look(key(0), None), Found::Miss(_)));
    }

    #[test]
    fn arrays_are_told_apart_and_forgotten() {
        let cache = ChunkCache::new(1 << 20);
        let first = cache.array("first");
        let Found::Miss(promise) = cache.look(Key { array: first, part: CachedPart::Chunk(0) }, None) else { panic!() };
        promise.keep(Cached::Absent, None);
        let mut seen = HashSet::from([first]);
        for at in 0..3 * MOST_ARRAYS {
            assert!(seen.insert(cache.array(&at.to_string())), "a number is given twice");
        }
        assert_eq!(cache.array("first"), first, "something is held of it");
        assert!(cache.lock().arrays.len() <= MOST_ARRAYS);
        cache.clear();
        assert!(seen.insert(cache.array("first")));
        assert_eq!(cache.lock().arrays.len(), 1);
    }

    #[test]
    fn one_makes_it_and_all_have_it() {
        let cache = ChunkCache::new(1 << 20);
        let made = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for part in 0..50 {
                        match cache.look_or_wait(key(part), None, &|| true) {
                            Some(Found::Miss(promise)) => {
                                made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                                std::thread::yield_now();
                                promise.keep(Cached::Absent, None);
                            }
                            Some(Found::Hit(Cached::Absent, None)) => {}
                            _ => panic!("neither"),
                        }
                    }
                });
            }
        });
        assert_eq!((made.into_inner(), cache.misses()), (50, 50));
        let _busy = cache.look(key(99), None);
        assert!(cache.look_or_wait(key(99), None, &|| false).is_none());
    }
}
