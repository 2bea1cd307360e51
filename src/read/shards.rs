//! The shards of one read: opened and their index read once, closed after the last subchunk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zarrs::storage::StoreKey;

use super::stats::Counters;
use crate::chunk::{Array, Entry, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scratch;
use crate::plan::Part;
use crate::store::Value;

/// A shard that is open: its value and its index.
pub(super) struct Shard {
    pub(super) value: Value,
    pub(super) index: ShardIndex,
}

/// The shards that a read touches, each opened and its index read when its first subchunk is wanted, and closed after
/// its last, so that no more are open than are being read.
pub(super) struct Shards {
    numbers: Vec<u64>,
    slots: Vec<Slot>,
}

struct Slot {
    state: Mutex<State>,
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
            for &chunk in part.groups().chunks() {
                let number = part.grid().shard(chunk);
                match slots.last_mut() {
                    Some(slot) if numbers.last() == Some(&number) => *slot.left.get_mut() += 1,
                    _ => {
                        numbers.push(number);
                        slots.push(Slot { state: Mutex::new(State::Closed), left: AtomicUsize::new(1) });
                    }
                }
            }
        }
        Self { numbers, slots }
    }

    fn slot(&self, number: u64) -> Result<&Slot> {
        let at = self.numbers.binary_search(&number);
        at.map(|at| &self.slots[at]).map_err(|_| Error::new(ErrorKind::Internal, "a shard outside the plan"))
    }

    /// The shard, opened if this is its first use, or `None` if the store does not hold it.
    pub(super) fn get(
        &self,
        array: &Array,
        number: u64,
        key: &StoreKey,
        scratch: &mut Scratch,
        counters: &Counters,
    ) -> Result<Option<Arc<Shard>>> {
        let mut state = self.slot(number)?.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(shard) => return Ok(Some(shard.clone())),
            State::Absent => return Ok(None),
            State::Closed => {}
        }
        if let (Some(sharding), Some(value)) = (array.sharding(), array.source().open(key)?)
            && let Some(index) = sharding.read(&value, key, scratch)?
        {
            counters.fetched_index(sharding.encoded_len() as usize);
            let shard = Arc::new(Shard { value, index });
            *state = State::Open(shard.clone());
            return Ok(Some(shard));
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
