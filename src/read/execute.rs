//! The workers: each claims read chunks, one after the other, and fetches, decodes and scatters them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::output::Output;
use super::scatter::{Claim, PieceScratch, Scatter};
use super::{ReadOptions, ReadStats, pool};
use crate::chunk::{Array, DirectScratch, Entry, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::plan::tiling::Tiling;
use crate::store::Value;

/// Carries out one plan per array, all on one pool, and returns one output per plan. Counters are added to `stats`.
pub(crate) fn execute(
    columns: &[(&Array, &Plan)],
    options: &ReadOptions,
    stats: &mut ReadStats,
) -> Result<Vec<Output>> {
    let pool = pool::pool(options.threads())?;
    let mut outputs = Vec::with_capacity(columns.len());
    for (array, plan) in columns {
        let len =
            plan.layout().elements().checked_mul(array.element_type().size()).filter(|&len| len <= isize::MAX as usize);
        let len = len.ok_or_else(|| {
            Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 bytes")
                .remedy("Read fewer or smaller selections at a time.")
        })?;
        outputs.push(Output::zeroed(len)?);
    }
    let mut reads = Vec::with_capacity(columns.len());
    for ((array, plan), output) in columns.iter().zip(&mut outputs) {
        let item = array.element_type().size();
        let strides = array.decoder().strides();
        let scatter = Scatter::new(Tiling::check(plan)?, output.as_mut_slice(), item, strides)?;
        reads.push(ColumnRead { array, shards: Shards::new(array, plan), scatter, missing: AtomicUsize::new(0) });
    }

    let counters = Counters::default();
    let failure = Failure::default();
    let chunks: usize = columns.iter().map(|(_, plan)| plan.read_chunks()).sum();
    let work = || {
        let mut scratch = WorkerScratch::default();
        for read in &reads {
            while let Some(claim) = read.scatter.claim() {
                if failure.is_set() {
                    return;
                }
                if let Err(error) = read.chunk(claim, &mut scratch, &counters) {
                    failure.set(error.at_array(read.array.location()));
                    return;
                }
            }
        }
    };
    // One chunk is not worth waking the pool.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if chunks <= 1 {
            work();
        } else {
            pool.broadcast(|_| work());
        }
    }));
    if outcome.is_err() {
        return Err(Error::new(ErrorKind::Internal, "a worker panicked").remedy("Please report this."));
    }
    failure.into_result()?;
    for read in reads {
        stats.chunks_missing += read.check_missing()?;
        read.scatter.finish()?;
    }
    counters.add_to(stats);
    Ok(outputs)
}

/// The read of one array.
struct ColumnRead<'a> {
    array: &'a Array,
    scatter: Scatter<'a>,
    shards: Shards,
    missing: AtomicUsize,
}

#[derive(Default)]
struct WorkerScratch {
    encoded: Vec<u8>,
    direct: DirectScratch,
    index: Vec<u8>,
    pieces: PieceScratch,
}

impl ColumnRead<'_> {
    /// Fetches, decodes and scatters the claimed read chunk.
    fn chunk(&self, claim: Claim, scratch: &mut WorkerScratch, counters: &Counters) -> Result<()> {
        let plan = self.scatter.tiling().plan();
        let id = plan.groups().chunks()[claim.chunk()];
        let key = self.array.chunk_key(&plan.grid().shard_indices(id));
        counters.pieces.fetch_add(plan.groups().rows(claim.chunk()).len(), Ordering::Relaxed);
        let encoded = if self.array.sharding().is_some() {
            let shard = self.shards.get(self.array, plan.grid().shard(id), &key, &mut scratch.index, counters)?;
            let bytes = match shard.as_deref() {
                None => None,
                Some(Shard { value, index }) => match index.entry(plan.grid().in_shard(id)) {
                    Entry::Missing => None,
                    Entry::Bytes { start, len } => Some(value.read_range(&key, start, len, &mut scratch.encoded)?),
                },
            };
            self.shards.release(plan.grid().shard(id))?;
            bytes
        } else {
            self.array.source().get(&key, &mut scratch.encoded)?
        };
        let Some(encoded) = encoded else {
            self.missing.fetch_add(1, Ordering::Relaxed);
            return self.scatter.fill(claim, self.array.fill_value(), &mut scratch.pieces);
        };
        counters.fetched.fetch_add(1, Ordering::Relaxed);
        counters.bytes_fetched.fetch_add(encoded.as_ref().len(), Ordering::Relaxed);
        let encoded = encoded.as_ref();
        let decoder = self.array.decoder();
        let at_key = |error: Error| error.at_key(key.as_str());
        let len = decoder.decoded_len();
        let left = self.scatter.write_whole(claim, len, &mut scratch.pieces, |target| {
            decoder.decode_into(encoded, target, &mut scratch.direct).map_err(at_key)
        })?;
        let mut produced = len;
        if let Some(claim) = left {
            let decoded = decoder.decode(encoded, 0..len, &mut scratch.direct).map_err(at_key)?;
            produced = decoded.produced;
            self.scatter.copy(claim, &decoded.bytes, &mut scratch.pieces)?;
        }
        counters.decoded.fetch_add(1, Ordering::Relaxed);
        counters.bytes_decoded.fetch_add(produced, Ordering::Relaxed);
        Ok(())
    }

    /// The number of read chunks that the store does not hold.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if there are any because the array itself is gone: their fill values would be made up.
    fn check_missing(&self) -> Result<usize> {
        let missing = self.missing.load(Ordering::Relaxed);
        if missing > 0 && !self.array.source().holds(self.array.metadata_key())? {
            return Err(Error::new(ErrorKind::Store, "the array vanished after it was opened")
                .at_array(self.array.location())
                .remedy("Open it again."));
        }
        Ok(missing)
    }
}

/// A shard that is open: its value and its index.
struct Shard {
    value: Value,
    index: ShardIndex,
}

/// The shards that a plan touches, each opened and its index read when its first subchunk is wanted, and closed after
/// its last, so that no more are open than are being read.
struct Shards {
    numbers: Vec<u64>,
    slots: Vec<Slot>,
}

struct Slot {
    state: Mutex<Option<Option<Arc<Shard>>>>,
    /// Subchunks that still have to be read.
    left: AtomicUsize,
}

impl Shards {
    fn new(array: &Array, plan: &Plan) -> Self {
        let (mut numbers, mut slots) = (Vec::new(), Vec::<Slot>::new());
        if array.sharding().is_some() {
            for &chunk in plan.groups().chunks() {
                let number = plan.grid().shard(chunk);
                match slots.last_mut() {
                    Some(slot) if numbers.last() == Some(&number) => *slot.left.get_mut() += 1,
                    _ => {
                        numbers.push(number);
                        slots.push(Slot { state: Mutex::new(None), left: AtomicUsize::new(1) });
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
    fn get(
        &self,
        array: &Array,
        number: u64,
        key: &zarrs::storage::StoreKey,
        scratch: &mut Vec<u8>,
        counters: &Counters,
    ) -> Result<Option<Arc<Shard>>> {
        let mut state = self.slot(number)?.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = state.as_ref() {
            return Ok(shard.clone());
        }
        let mut shard = None;
        if let (Some(sharding), Some(value)) = (array.sharding(), array.source().open(key)?) {
            if let Some(index) = sharding.read(&value, key, scratch)? {
                counters.bytes_fetched.fetch_add(sharding.encoded_len() as usize, Ordering::Relaxed);
                shard = Some(Arc::new(Shard { value, index }));
            }
        }
        *state = Some(shard.clone());
        Ok(shard)
    }

    /// Counts one subchunk as read; closes the shard after its last.
    fn release(&self, number: u64) -> Result<()> {
        let slot = self.slot(number)?;
        if slot.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *slot.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Counters {
    fetched: AtomicUsize,
    decoded: AtomicUsize,
    bytes_fetched: AtomicUsize,
    bytes_decoded: AtomicUsize,
    pieces: AtomicUsize,
}

impl Counters {
    fn add_to(self, stats: &mut ReadStats) {
        stats.chunks_fetched += self.fetched.into_inner();
        stats.chunks_decoded += self.decoded.into_inner();
        stats.bytes_fetched += self.bytes_fetched.into_inner() as u64;
        stats.bytes_decoded += self.bytes_decoded.into_inner() as u64;
        stats.pieces += self.pieces.into_inner();
    }
}

/// The first error of any worker; the others stop when they see it.
#[derive(Default)]
struct Failure {
    is_set: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Failure {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    fn set(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn into_result(self) -> Result<()> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}
