//! The first stage of a read chunk: where its encoded bytes lie, and which of them are read.
//!
//! The second stage, decoding, gets the bytes as a [`Fetched`] and asks the store for nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Instant;

use zarrs::storage::StoreKey;

use super::ahead::Ahead;
use super::crew::Crew;
use super::demand::Demand;
use super::run::merge;
use super::shards::{Shard, Shards};
use super::stats::Counters;
use crate::cache::{ChunkCache, Key as CacheKey};
use crate::chunk::{Array, Decoder, Entry, Extent, Sharding};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scratch;
use crate::plan::Part;
use crate::store::{Encoded, Value, short};

/// Stored bytes that nobody wants are read over where they are no more than this: a read costs as much as they do.
pub(super) const READ_GAP: usize = 16 << 10;

/// So much of an encoded chunk is read to find the rest that is needed.
const HEAD: usize = 4 << 10;

/// Where the encoded bytes of a read chunk lie in the store.
pub(super) enum Place {
    /// They are the whole value. Where read chunks differ in shape, with what decodes it.
    Value(Value, Option<Arc<Decoder>>),
    /// They are `len` bytes of a shard.
    Shard { shard: Arc<Shard>, start: u64, len: u64 },
}

/// The encoded bytes of a read chunk.
pub(super) enum Fetched<'s> {
    /// The store does not hold it.
    Missing,
    /// All of them. Those that decoding the wanted bytes does not need may be anything.
    Encoded(Encoded<'s>),
}

/// Finds and reads the encoded bytes of the read chunks of one array.
pub(super) struct Fetch<'a> {
    array: &'a Array,
    part: &'a Part,
    shards: Shards,
    ahead: Ahead,
    /// How many more read chunks were wanted whole than in part.
    whole: AtomicIsize,
}

impl Place {
    pub(super) fn value(&self) -> &Value {
        match self {
            Self::Value(value, _) => value,
            Self::Shard { shard, .. } => &shard.value,
        }
    }

    pub(super) fn start(&self) -> u64 {
        match self {
            Self::Value(..) => 0,
            Self::Shard { start, .. } => *start,
        }
    }

    /// Reads encoded bytes from the `at`-th on into `target`.
    pub(super) fn read_into(&self, key: &StoreKey, at: usize, target: &mut [u8]) -> Result<()> {
        let end = at.checked_add(target.len()).map(|end| end as u64);
        if end.is_none_or(|end| self.known_len().is_some_and(|len| end > len)) {
            return Err(Error::new(ErrorKind::Internal, "a piece reaches beyond its read chunk"));
        }
        self.value().read_into(key, self.start() + at as u64, target)
    }

    /// Encoded length in bytes, where it is known.
    pub(super) fn known_len(&self) -> Option<u64> {
        match self {
            Self::Value(value, _) => value.known_len(),
            Self::Shard { len, .. } => Some(*len),
        }
    }
}

impl<'a> Fetch<'a> {
    pub(super) fn new(array: &'a Array, part: &'a Part) -> Self {
        Self { array, part, shards: Shards::new(array, part), ahead: Ahead::default(), whole: AtomicIsize::new(0) }
    }

    /// Tells a slow disk of the read chunks that come after the `chunk`-th of the plan, if most are read whole.
    pub(super) fn read_ahead(&self, chunk: usize) {
        if !self.array.source().takes_hints() || self.whole.load(Ordering::Relaxed) < 0 {
            return;
        }
        let chunks = self.part.groups().chunks();
        self.ahead.tell(chunk, chunks.len(), |next| self.tell(chunks[chunk], chunks[next]));
    }

    /// Tells a slow disk of the ranges of the read chunk at `place` that will be read.
    pub(super) fn expect_ranges(&self, place: &Place, ranges: &[Range<usize>]) {
        if self.ahead.is_cold() {
            for range in ranges {
                place.value().hint(place.start() + range.start as u64, range.len() as u64);
            }
        }
    }

    /// Takes note of whether the read chunk at `place` is read whole.
    pub(super) fn count_part(&self, place: &Place, demand: &Demand) {
        let decoder = self.decoder(place);
        let may_be_part = demand.in_ranges || decoder.reads_in_part();
        let is_part = may_be_part && demand.wanted_len().is_some_and(|len| len < decoder.decoded_len());
        self.whole.fetch_add(if is_part { -1 } else { 1 }, Ordering::Relaxed);
    }

    /// Takes note of how long `reads` reads, of so many bytes together, took.
    pub(super) fn observe(&self, bytes: usize, reads: usize, began: Instant) {
        self.ahead.observe(bytes, reads, began.elapsed());
    }

    /// Tells the disk that the read chunk `next` will be read soon. `current` is being read.
    fn tell(&self, current: u64, next: u64) {
        let grid = self.part.grid();
        if self.array.sharding().is_none() {
            self.array.source().hint(&self.array.chunk_key(&grid.shard_indices(next)));
        } else if grid.shard(current) == grid.shard(next) {
            // Where the subchunks of other shards lie is not known before their index is read.
            self.shards.hint(grid.shard(next), grid.in_shard(next));
        }
    }

    /// Where the read chunk `id`, part of the value of `key`, lies; the index of its shard may be `cached`. `None` if the store
    /// is known not to hold it.
    pub(super) fn locate(
        &self,
        id: u64,
        (key, cached): (&StoreKey, Option<(&ChunkCache, CacheKey)>),
        scratch: &mut Scratch,
        counters: &Counters,
    ) -> Result<Option<Place>> {
        if self.array.sharding().is_none() {
            let Some(value) = self.array.source().open(key)? else { return Ok(None) };
            return self.place(id, value).map(Some);
        }
        let grid = self.part.grid();
        let shard = self.shards.get(self.array, self.part, grid.shard(id), (key, cached), scratch, counters)?;
        let Some(shard) = shard else { return Ok(None) };
        Ok(match shard.index.entry(grid.in_shard(id))? {
            Entry::Missing => None,
            Entry::Bytes { start, len } => {
                if let Some(known) = shard.value.known_len().filter(|known| start.saturating_add(len) > *known) {
                    return Err(short(known, start.saturating_add(len)));
                }
                Some(Place::Shard { shard, start, len })
            }
        })
    }

    /// The place of the read chunk `id` that is all of `value`.
    ///
    /// # Errors
    /// As [`Array::decoder_of`].
    pub(super) fn place(&self, id: u64, value: Value) -> Result<Place> {
        Ok(Place::Value(value, self.array.decoder_of(id)?))
    }

    /// What decodes the read chunk at `place`.
    pub(super) fn decoder<'p>(&'p self, place: &'p Place) -> &'p Decoder {
        match place {
            Place::Value(_, Some(decoder)) => decoder,
            _ => self.array.decoder(),
        }
    }

    /// Lets go of the read chunk `id`: its shard is closed after the last.
    pub(super) fn release(&self, id: u64) -> Result<()> {
        if self.array.sharding().is_some() { self.shards.release(self.part.grid().shard(id)) } else { Ok(()) }
    }

    /// Whether all encoded bytes of the read chunk at `place` are fetched, in one request, to have what is demanded.
    pub(super) fn fetches_all(&self, place: &Place, demand: &Demand) -> bool {
        if demand.in_ranges {
            // Straight to their place, if there is a file.
            return !self.array.source().is_local() && demand.wanted_len() == Some(self.decoder(place).decoded_len());
        }
        let decoder = self.decoder(place);
        demand.wanted.is_none() || place.known_len().is_none_or(|len| !reads_in_part(decoder, len))
    }

    /// Checks that the read chunk at `place` can have the length that it has.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if it is too long.
    pub(super) fn check_len(&self, place: &Place) -> Result<()> {
        place.known_len().map_or(Ok(()), |known| check_encoded_len(self.decoder(place), known))
    }

    /// Bytes of memory that the index of one shard takes.
    pub(super) fn index_memory(&self) -> usize {
        let of = |sharding: &Sharding| {
            let len = sharding.encoded_len() as usize;
            // Encoded, decoded, and four bytes for each sixteen to order it.
            len.saturating_mul(2).saturating_add(len / 4)
        };
        self.array.sharding().map_or(0, of)
    }

    /// Reads the encoded bytes that decoding the bytes in `wanted` needs; of `None`, all.
    pub(super) fn fetch<'s>(
        &self,
        place: &Place,
        key: &StoreKey,
        wanted: Option<&[Range<usize>]>,
        scratch: &'s mut Scratch,
        counters: &Counters,
    ) -> Result<Fetched<'s>> {
        let decoder = self.decoder(place);
        self.check_len(place)?;
        let began = Instant::now();
        let (bytes, read) = match (wanted, place.known_len()) {
            (Some(wanted), Some(len)) if reads_in_part(decoder, len) && !place.value().is_held() => {
                let buffer = scratch.grow(len as usize)?;
                let read = read_in_part(decoder, place, key, wanted, buffer)?;
                (Encoded::Scratch(buffer), read)
            }
            _ => {
                let bytes = match place {
                    Place::Value(value, _) => value.read_all(key, scratch)?,
                    Place::Shard { shard, start, len } => Some(shard.value.read_range(key, *start, *len, scratch)?),
                };
                let Some(bytes) = bytes else { return Ok(Fetched::Missing) };
                let read = bytes.as_ref().len();
                (bytes, read)
            }
        };
        if !place.value().is_held() {
            self.ahead.observe(read, 1, began.elapsed());
            counters.fetched(read);
        }
        Ok(Fetched::Encoded(bytes))
    }

    /// Reads the bytes `span` of a shard, which hold `chunks` read chunks.
    pub(super) fn fetch_span<'s>(
        &self,
        shard: &Shard,
        key: &StoreKey,
        span: &Range<u64>,
        chunks: usize,
        scratch: &'s mut Scratch,
        counters: &Counters,
    ) -> Result<Encoded<'s>> {
        let began = Instant::now();
        let bytes = shard.value.read_range(key, span.start, span.end - span.start, scratch)?;
        self.ahead.observe(bytes.as_ref().len(), 1, began.elapsed());
        counters.fetched_together(chunks, bytes.as_ref().len());
        Ok(bytes)
    }

    /// Reads ranges of a read chunk that is stored as it is, one after the other into `target`, in native byte order. `crew`
    /// helps with many bytes.
    pub(super) fn fetch_stored(
        &self,
        place: &Place,
        key: &StoreKey,
        ranges: &[Range<usize>],
        target: &mut [u8],
        crew: &Crew<'_>,
    ) -> Result<Vec<Extent>> {
        let began = Instant::now();
        let decoder = self.decoder(place);
        let mut extents = Vec::with_capacity(ranges.len());
        let mut at = 0;
        for range in ranges {
            extents.push(Extent { at, source: range.clone() });
            at += range.len();
        }
        let read = |from: usize, target: &mut [u8]| {
            place.read_into(key, from, target)?;
            decoder.to_native(target);
            Ok(())
        };
        let mut rest = &mut target[..at];
        let mut each = extents.iter().map(|extent| {
            let target = rest.split_off_mut(..extent.source.len()).unwrap_or_default();
            (extent.source.start, target)
        });
        let worth = crew.worth().next_multiple_of(self.array.element_type().size().max(1));
        if at < 2 * worth || !place.value().is_read_in_place() {
            each.try_for_each(|(from, target)| read(from, target))?;
        } else {
            let parts = each.flat_map(|(from, target)| {
                target.chunks_mut(worth).enumerate().map(move |(number, part)| (from + number * worth, part))
            });
            crew.share(parts, &mut (), &|(from, target), ()| read(from, target))?;
        }
        self.ahead.observe(at, ranges.len(), began.elapsed());
        Ok(extents)
    }
}

/// Checks that a read chunk that `decoder` decodes can have `known` encoded bytes.
///
/// # Errors
/// [`ErrorKind::Decode`] if they are too many.
pub(super) fn check_encoded_len(decoder: &Decoder, known: u64) -> Result<()> {
    match decoder.max_encoded_len() {
        Some(most) if known > most => {
            Err(Error::new(ErrorKind::Decode, format!("the chunk has {known} encoded bytes"))
                .expected(format!("at most {most}, because it decodes to {}", decoder.decoded_len()))
                .remedy("The chunk is corrupt; write it again."))
        }
        _ => Ok(()),
    }
}

/// Whether so little may be wanted of a read chunk of `len` encoded bytes that they are not all read.
fn reads_in_part(decoder: &Decoder, len: u64) -> bool {
    decoder.reads_in_part() && len > (HEAD + READ_GAP) as u64
}

/// Reads of `len` encoded bytes only those that decoding `wanted` needs, each to its place; all where nearly all are
/// needed, or it cannot be told. Gives how many were read.
fn read_in_part(
    decoder: &Decoder,
    place: &Place,
    key: &StoreKey,
    wanted: &[Range<usize>],
    buffer: &mut [u8],
) -> Result<usize> {
    let len = buffer.len();
    place.read_into(key, 0, &mut buffer[..HEAD])?;
    let mut needed = decoder.encoded_ranges(&buffer[..HEAD], len, wanted).unwrap_or_default();
    needed.push(0..HEAD);
    merge(&mut needed, READ_GAP);
    // Blocks never lie in the head alone: it is all that is known to be needed where the rest cannot be told.
    let untold = needed.len() == 1 && needed[0].end == HEAD;
    if untold || needed.iter().map(Range::len).sum::<usize>() > len / 8 * 7 {
        needed.clear();
        needed.push(0..len);
    }
    for range in &needed {
        let range = range.start.max(HEAD)..range.end;
        if !range.is_empty() {
            place.read_into(key, range.start, &mut buffer[range])?;
        }
    }
    Ok(needed.iter().map(Range::len).sum())
}
