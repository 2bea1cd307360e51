//! The read of one array: what is done with one of its read chunks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use zarrs::storage::StoreKey;

use super::ahead::Ahead;
use super::scatter::{Claim, PieceScratch, Scatter};
use super::shards::{Shard, Shards};
use super::stats::Counters;
use crate::chunk::{Array, DirectScratch, Entry, Extent, Granularity};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::store::Value;

/// Stored bytes that nobody wants are read over where they are no more than this: a read costs as much as they do.
const READ_GAP: usize = 16 << 10;

/// So many wanted ranges are worth sorting for a read chunk of `len` bytes; with more, all of it is wanted.
fn ranges_limit(len: usize) -> usize {
    64 + len / (8 << 10)
}

/// The read of one array.
pub(super) struct ColumnRead<'a> {
    array: &'a Array,
    scatter: Scatter<'a>,
    shards: Shards,
    ahead: Ahead,
    missing: AtomicUsize,
}

/// Buffers and contexts that one worker reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct WorkerScratch {
    encoded: Vec<u8>,
    index: Vec<u8>,
    direct: DirectScratch,
    pieces: PieceScratch,
}

impl WorkerScratch {
    /// Bytes of the large buffers.
    pub(super) fn len(&self) -> usize {
        self.encoded.len() + self.index.len() + self.direct.len()
    }
}

/// Where the encoded bytes of a read chunk lie in the store.
enum Place {
    /// They are the whole value.
    Value(Value),
    /// They are `len` bytes of a shard.
    Shard { shard: Arc<Shard>, start: u64, len: u64 },
}

impl Place {
    fn value(&self) -> &Value {
        match self {
            Self::Value(value) => value,
            Self::Shard { shard, .. } => &shard.value,
        }
    }

    fn start(&self) -> u64 {
        match self {
            Self::Value(_) => 0,
            Self::Shard { start, .. } => *start,
        }
    }

    /// Encoded length in bytes, where it is known.
    fn known_len(&self) -> Option<u64> {
        match self {
            Self::Value(value) => value.known_len(),
            Self::Shard { len, .. } => Some(*len),
        }
    }
}

impl<'a> ColumnRead<'a> {
    pub(super) fn new(array: &'a Array, plan: &Plan, scatter: Scatter<'a>) -> Self {
        Self { array, shards: Shards::new(array, plan), scatter, ahead: Ahead::default(), missing: AtomicUsize::new(0) }
    }

    /// The next read chunk that nobody has claimed yet.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.scatter.claim()
    }

    /// Fetches, decodes and scatters the claimed read chunk.
    pub(super) fn chunk(&self, claim: Claim, scratch: &mut WorkerScratch, counters: &Counters) -> Result<()> {
        let plan = self.scatter.plan();
        let id = plan.groups().chunks()[claim.chunk()];
        let key = self.array.chunk_key(&plan.grid().shard_indices(id));
        counters.pieces.fetch_add(plan.groups().rows(claim.chunk()).len(), Ordering::Relaxed);
        let chunks = plan.groups().chunks();
        self.ahead.tell(claim.chunk(), chunks.len(), |next| self.tell(id, chunks[next]));
        let located = self.locate(id, &key, scratch, counters).and_then(|place| match place {
            Some(place) => self.read(claim, &place, &key, scratch, counters),
            None => Ok(Some(claim)),
        });
        if self.array.sharding().is_some() {
            self.shards.release(plan.grid().shard(id))?;
        }
        match located.map_err(|error| error.at_key(key.as_str()).at_array(self.array.location()))? {
            None => Ok(()),
            Some(claim) => {
                self.missing.fetch_add(1, Ordering::Relaxed);
                self.scatter.fill(claim, self.array.fill_value(), &mut scratch.pieces)
            }
        }
    }

    /// Tells the disk that the read chunk `next` will be read soon. `current` is being read.
    fn tell(&self, current: u64, next: u64) {
        let grid = self.scatter.plan().grid();
        if self.array.sharding().is_none() {
            self.array.source().hint(&self.array.chunk_key(&grid.shard_indices(next)));
        } else if grid.shard(current) == grid.shard(next) {
            // Where the subchunks of other shards lie is not known before their index is read.
            self.shards.hint(grid.shard(next), grid.in_shard(next));
        }
    }

    /// Where the read chunk `id` lies, or `None` if the store does not hold it.
    fn locate(
        &self,
        id: u64,
        key: &StoreKey,
        scratch: &mut WorkerScratch,
        counters: &Counters,
    ) -> Result<Option<Place>> {
        if self.array.sharding().is_none() {
            return Ok(self.array.source().open(key)?.map(Place::Value));
        }
        let grid = self.scatter.plan().grid();
        let shard = self.shards.get(self.array, grid.shard(id), key, &mut scratch.index, counters)?;
        let Some(shard) = shard else { return Ok(None) };
        Ok(match shard.index.entry(grid.in_shard(id))? {
            Entry::Missing => None,
            Entry::Bytes { start, len } => Some(Place::Shard { shard, start, len }),
        })
    }

    /// Fetches, decodes and scatters. Gives the claim back if the store does not hold the read chunk.
    fn read(
        &self,
        claim: Claim,
        place: &Place,
        key: &StoreKey,
        scratch: &mut WorkerScratch,
        counters: &Counters,
    ) -> Result<Option<Claim>> {
        let decoder = self.array.decoder();
        let len = decoder.decoded_len();
        let granularity = decoder.granularity();
        let WorkerScratch { encoded, direct, pieces, .. } = scratch;

        if let (Some(known), Some(most)) = (place.known_len(), decoder.max_encoded_len())
            && known > most
        {
            return Err(Error::new(ErrorKind::Decode, format!("the chunk has {known} encoded bytes"))
                .expected(format!("at most {most}, because it decodes to {len}"))
                .remedy("The chunk is corrupt; write it again."));
        }
        let mut claim = claim;
        let stored = granularity == Granularity::Stored && len > READ_GAP;
        if stored && place.known_len().is_some_and(|known| known == len as u64) {
            match self.read_stored(claim, place, key, encoded, pieces, counters)? {
                None => return Ok(None),
                Some(back) => claim = back,
            }
        }

        let start = Instant::now();
        let encoded = match place {
            Place::Value(value) => match value.read_all(key, encoded)? {
                Some(encoded) => encoded,
                None => return Ok(Some(claim)),
            },
            Place::Shard { shard, start, len } => shard.value.read_range(key, *start, *len, encoded)?,
        };
        let encoded = encoded.as_ref();
        self.ahead.observe(encoded.len(), start.elapsed());
        counters.fetched.fetch_add(1, Ordering::Relaxed);
        counters.bytes_fetched.fetch_add(encoded.len(), Ordering::Relaxed);
        let whole = |run: &std::ops::Range<usize>| *run == (0..len);
        let left = self.scatter.write_run(claim, pieces, whole, |_, target| {
            counters.bytes_decoded.fetch_add(len, Ordering::Relaxed);
            decoder.decode_into(encoded, target, direct)
        })?;
        if let Some(claim) = left {
            let prefix;
            let wanted = match granularity {
                Granularity::Prefix(block) => {
                    // In the last block there is nothing left to save.
                    let limit = (len - 1) / block * block;
                    prefix = self.scatter.wanted_end(&claim, limit, pieces)?.map(|end| 0..end);
                    prefix.as_ref().map(std::slice::from_ref)
                }
                Granularity::Blocks => {
                    self.scatter.wanted(&claim, 0, ranges_limit(len), pieces)?.map(|ranges| &**ranges)
                }
                Granularity::Whole | Granularity::Stored => None,
            };
            let out = decoder.decode(encoded, wanted, direct)?;
            counters.bytes_decoded.fetch_add(out.bytes.len(), Ordering::Relaxed);
            self.scatter.copy(claim, &out.bytes, &out.extents, 0, pieces)?;
        }
        counters.decoded.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    /// Reads only the wanted bytes of a read chunk that is stored as it is. Gives the claim back if that does not pay.
    fn read_stored(
        &self,
        claim: Claim,
        place: &Place,
        key: &StoreKey,
        buffer: &mut Vec<u8>,
        pieces: &mut PieceScratch,
        counters: &Counters,
    ) -> Result<Option<Claim>> {
        let decoder = self.array.decoder();
        let done = |bytes: usize| {
            counters.fetched.fetch_add(1, Ordering::Relaxed);
            counters.decoded.fetch_add(1, Ordering::Relaxed);
            counters.bytes_fetched.fetch_add(bytes, Ordering::Relaxed);
            counters.bytes_decoded.fetch_add(bytes, Ordering::Relaxed);
        };
        let left = self.scatter.write_run(
            claim,
            pieces,
            |_| true,
            |run, target| {
                place.value().read_into(key, place.start() + run.start as u64, target)?;
                decoder.to_native(target);
                done(run.len());
                Ok(())
            },
        )?;
        let Some(claim) = left else { return Ok(None) };

        let limit = ranges_limit(decoder.decoded_len());
        let Some(wanted) = self.scatter.wanted(&claim, READ_GAP, limit, pieces)? else { return Ok(Some(claim)) };
        let bytes: usize = wanted.iter().map(ExactSizeIterator::len).sum();
        if bytes > decoder.decoded_len() / 8 * 7 {
            return Ok(Some(claim));
        }
        let mut extents = Vec::with_capacity(wanted.len());
        let mut at = 0;
        let buffer = crate::store::grow(buffer, bytes)?;
        for range in wanted.drain(..) {
            let target = &mut buffer[at..at + range.len()];
            place.value().read_into(key, place.start() + range.start as u64, target)?;
            extents.push(Extent { at, source: range });
            at += target.len();
        }
        decoder.to_native(buffer);
        done(bytes);
        self.scatter.copy(claim, buffer, &extents, READ_GAP, pieces)?;
        Ok(None)
    }

    /// Checks that everything was read, and returns the number of read chunks that the store does not hold.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if chunks are missing because the array itself is gone: their fill values would be made up.
    pub(super) fn finish(self) -> Result<usize> {
        let missing = self.missing.load(Ordering::Relaxed);
        if missing > 0 && !self.array.source().holds(self.array.metadata_key())? {
            return Err(Error::new(ErrorKind::Store, "the array vanished after it was opened")
                .at_array(self.array.location())
                .remedy("Open it again."));
        }
        self.scatter.finish()?;
        Ok(missing)
    }
}
