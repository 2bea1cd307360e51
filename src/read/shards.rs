//! The shards of one read: opened and their index read once, closed after the last subchunk.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zarrs::storage::StoreKey;

use super::stats::Counters;
use crate::cache::{Cached, ChunkCache, Found, Key as CacheKey};
use crate::chunk::{Array, Entry, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Scratch, reserve};
use crate::plan::Part;
use crate::store::Value;

/// A shard that is open: its value and its index.
pub(super) struct Shard {
    pub(super) value: Value,
    pub(super) index: Arc<ShardIndex>,
    /// The plan's read chunks that it stores, by where they start: their positions in the plan, counted from `first`.
    order: Vec<u32>,
    first: usize,
}

impl Shard {
    /// `chunks` are the positions in the plan of the read chunks that lie in the shard.
    fn new(value: Value, index: Arc<ShardIndex>, part: &Part, chunks: Range<usize>) -> Result<Self> {
        let mut shard = Self { value, index, order: Vec::new(), first: chunks.start };
        // A single one has no neighbours; more than this many have no room in memory.
        if chunks.len() > 1 && u32::try_from(chunks.len()).is_ok() {
            let mut order = reserve(chunks.len(), "read chunks of a shard", "Read fewer selections at a time.")?;
            order.extend((0..chunks.len() as u32).filter(|&at| shard.bytes(part, at).is_some()));
            let start = |at: &u32| shard.bytes(part, *at).map(|bytes| bytes.start);
            if !order.is_sorted_by_key(start) {
                order.sort_unstable_by_key(|at| (start(at), *at));
            }
            shard.order = order;
        }
        Ok(shard)
    }

    /// Where a read chunk lies, by its position counted from `first`. `None` if that is nowhere.
    fn bytes(&self, part: &Part, at: u32) -> Option<Range<u64>> {
        let id = part.groups().chunks()[self.first + at as usize];
        match self.index.entry(part.grid().in_shard(id)) {
            Ok(Entry::Bytes { start, len }) => Some(start..start + len),
            _ => None,
        }
    }

    /// Number of the plan's read chunks that it stores; 0 if there are fewer than two.
    pub(super) fn stored(&self) -> usize {
        self.order.len()
    }

    /// Which of them, by where they start, is the plan's `chunk`, which starts at `start`.
    pub(super) fn find(&self, part: &Part, chunk: usize, start: u64) -> Option<usize> {
        let at = u32::try_from(chunk.checked_sub(self.first)?).ok()?;
        let key = |at: u32| (self.bytes(part, at).map(|bytes| bytes.start), at);
        self.order.binary_search_by_key(&(Some(start), at), |&at| key(at)).ok()
    }

    /// The `nth` of them, by where they start: its position in the plan, and where it lies.
    pub(super) fn nth(&self, part: &Part, nth: usize) -> Option<(usize, Range<u64>)> {
        let at = *self.order.get(nth)?;
        Some((self.first + at as usize, self.bytes(part, at)?))
    }
}

/// The shards that a read touches, each opened and its index read when its first subchunk is wanted, and closed after
/// its last, so that no more are open than are being read.
pub(super) struct Shards {
    numbers: Vec<u64>,
    slots: Vec<Slot>,
}

struct Slot {
    state: Mutex<State>,
    /// Positions in the plan of its subchunks.
    chunks: Range<usize>,
    /// Subchunks that still have to be read.
    left: AtomicUsize,
}

enum State {
    /// Not yet wanted, or no longer.
    Closed,
    /// The store does not hold it.
    Absent,
    Open(Arc<Shard>),
}

impl Shards {
    pub(super) fn new(array: &Array, part: &Part) -> Self {
        let (mut numbers, mut slots) = (Vec::new(), Vec::<Slot>::new());
        if array.sharding().is_some() {
            for (at, &chunk) in part.groups().chunks().iter().enumerate() {
                let number = part.grid().shard(chunk);
                match slots.last_mut() {
                    Some(slot) if numbers.last() == Some(&number) => slot.chunks.end = at + 1,
                    _ => {
                        numbers.push(number);
                        let (state, left) = (Mutex::new(State::Closed), AtomicUsize::new(0));
                        slots.push(Slot { state, chunks: at..at + 1, left });
                    }
                }
            }
            for slot in &mut slots {
                *slot.left.get_mut() = slot.chunks.len();
            }
        }
        Self { numbers, slots }
    }

    fn slot(&self, number: u64) -> Result<&Slot> {
        let at = self.numbers.binary_search(&number);
        at.map(|at| &self.slots[at]).map_err(|_| Error::new(ErrorKind::Internal, "a shard outside the plan"))
    }

    /// The shard, opened if this is its first use, or `None` if the store does not hold it. Its index may be `cached`.
    pub(super) fn get(
        &self,
        array: &Array,
        part: &Part,
        number: u64,
        (key, cached): (&StoreKey, Option<(&ChunkCache, CacheKey)>),
        scratch: &mut Scratch,
        counters: &Counters,
    ) -> Result<Option<Arc<Shard>>> {
        let slot = self.slot(number)?;
        let mut state = slot.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(shard) => return Ok(Some(shard.clone())),
            State::Absent => return Ok(None),
            State::Closed => {}
        }
        if let (Some(sharding), Some(value)) = (array.sharding_of(number)?, array.source().open(key)?) {
            let version = value.version();
            let (known, promise) = match cached.map(|(cache, at)| cache.look(at, version.as_ref())) {
                Some(Found::Hit(Cached::Index(index), _)) => (Some(index), None),
                Some(Found::Miss(promise)) => (None, Some(promise)),
                // Another read makes it, which takes no longer here.
                _ => (None, None),
            };
            let index = match known {
                Some(index) => Some(index),
                None => sharding.read(&value, key, scratch)?.map(|index| {
                    counters.fetched_index(sharding.encoded_len() as usize);
                    let index = Arc::new(index);
                    if let Some(promise) = promise {
                        promise.keep(Cached::Index(index.clone()), version);
                    }
                    index
                }),
            };
            if let Some(index) = index {
                let shard = Arc::new(Shard::new(value, index, part, slot.chunks.clone())?);
                *state = State::Open(shard.clone());
                return Ok(Some(shard));
            }
        }
        *state = State::Absent;
        Ok(None)
    }

    /// Tells the disk that a subchunk of a shard that is open will be read soon.
    pub(super) fn hint(&self, number: u64, subchunk: u64) {
        let Ok(slot) = self.slot(number) else { return };
        let state = slot.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Open(shard) = &*state
            && let Ok(Entry::Bytes { start, len }) = shard.index.entry(subchunk)
        {
            shard.value.hint(start, len);
        }
    }

    /// Counts one subchunk as read; closes the shard after its last.
    pub(super) fn release(&self, number: u64) -> Result<()> {
        let slot = self.slot(number)?;
        if slot.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *slot.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed;
        }
        Ok(())
    }
}
