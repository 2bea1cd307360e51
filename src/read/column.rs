//! The read of one array: what is done with one of its read chunks.

mod stored;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zarrs::storage::StoreKey;

use super::MissingChunks;
use super::demand::{Demand, Need};
use super::fetch::{Fetch, Fetched, Place, READ_GAP};
use super::run::locate;
use super::scatter::{Claim, PieceScratch, Scatter};
use super::stats::Counters;
use super::stretch::Stretch;
use super::validity::Validity;
use super::variable::VariableRead;
use super::worker::{Worker, WorkerScratch, shared_len};
use crate::arrow::ElementType;
use crate::cache::{Cached, CachedPart, ChunkCache, Found as Lookup, Key as CacheKey, Promise, Version};
use crate::cancel::Cancel;
use crate::chunk::{Array, CELL_LEN, Cast, Decoder, DirectScratch, Elements, Extent, Granularity};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Scratch, reserve_chunk, room};
use crate::plan::Part;
use crate::store::remote::Remote;
use crate::store::{Held, Value};

/// The version of a file that there is not.
const ABSENT: &str = "absent";

/// So many wanted ranges are worth sorting for a read chunk of `len` bytes; with more, all of it is wanted.
fn ranges_limit(len: usize) -> usize {
    64 + len / (8 << 10)
}

/// The read of one array.
pub(super) struct ColumnRead<'a> {
    array: &'a Array,
    scatter: Scatter<'a>,
    missing_chunks: MissingChunks,
    validity: &'a Validity,
    /// What makes elements of the result of those that are decoded, where they differ.
    cast: Option<Cast<'a>>,
    fill_value: Cow<'a, [u8]>,
    /// Where elements are of variable length.
    variable: Option<VariableRead<'a>>,
    fetch: Fetch<'a>,
    /// Where read chunks are kept, and the number of the array there.
    cache: Option<(&'a ChunkCache, u64)>,
    /// How many workers share the read.
    workers: usize,
    missing: AtomicUsize,
    /// Those of which the cache knew it, so that nobody was asked.
    known_missing: AtomicUsize,
}

/// The right to a read chunk, where it lies, and what is needed of it.
struct Member {
    claim: Claim,
    place: Place,
    demand: Demand,
}

/// What came of a read chunk.
pub(super) enum Arrived {
    /// The store does not hold it; `is_known` if it was not asked because the cache knew.
    Missing {
        is_known: bool,
    },
    Encoded(Held),
    Decoded(Arc<Vec<u8>>),
    Values(Arc<Elements<'static>>),
}

/// What was claimed with a read chunk.
struct Gathered<'a> {
    stretch: Stretch<'a>,
    /// What is fetched with it.
    members: Vec<Member>,
    /// What is not.
    alone: Vec<Member>,
}

impl Gathered<'_> {
    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.alone.is_empty()
    }

    /// The last of the read chunks, by the plan.
    fn last(&self) -> usize {
        self.members.iter().chain(&self.alone).map(|member| member.claim.chunk()).max().unwrap_or(0)
    }
}

/// What the second stage works with.
struct Buffers<'s> {
    direct: &'s mut DirectScratch,
    cast: &'s mut Scratch,
    pieces: &'s mut PieceScratch,
}

impl<'a> ColumnRead<'a> {
    /// The read of `array` into an output of elements of type `element`, by `scatter`.
    pub(super) fn new(
        array: &'a Array,
        element: &ElementType,
        scatter: Scatter<'a>,
        missing_chunks: MissingChunks,
        validity: &'a Validity,
        workers: usize,
        variable: Option<VariableRead<'a>>,
    ) -> Self {
        let fetch = Fetch::new(array, scatter.part());
        let cast = array.cast_to(element);
        let fill_value = match &variable {
            Some(variable) => Cow::Owned(variable.fill_value().to_vec()),
            None => fill_value(array, element),
        };
        let (missing, known_missing) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self {
            array,
            scatter,
            missing_chunks,
            validity,
            cast,
            fill_value,
            variable,
            fetch,
            cache: None,
            workers,
            missing,
            known_missing,
        }
    }

    /// The same that keeps read chunks in `cache`.
    pub(super) fn with_cache(mut self, cache: Option<&'a ChunkCache>) -> Self {
        self.cache = cache.map(|cache| (cache, cache.array(self.array.identity())));
        self
    }

    /// The next read chunk that nobody has claimed yet.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.scatter.claim()
    }

    /// Fetches, decodes and scatters the claimed read chunk, and others that are worth fetching with it.
    pub(super) fn chunks(&self, claim: Claim, worker: &mut Worker<'_>) -> Result<()> {
        let (id, key) = (self.id(claim.chunk()), self.key(claim.chunk()));
        self.count_pieces(&claim, worker);
        let outcome = self.locate_and_read(claim, id, &key, worker);
        worker.hold(0);
        self.fetch.release(id)?;
        self.conclude(outcome, &key, worker)
    }

    /// Names where an error is; fills in what the store turned out not to hold.
    fn conclude(&self, outcome: Result<Option<Claim>>, key: &StoreKey, worker: &mut Worker<'_>) -> Result<()> {
        match outcome.map_err(|error| self.name_error(error.at_key(key.as_str())))? {
            None => Ok(()),
            Some(claim) => {
                self.missing.fetch_add(1, Ordering::Relaxed);
                self.fill(claim, key, &mut worker.scratch.pieces)
            }
        }
    }

    /// Decodes and scatters the claimed read chunk, of which `held` was fetched before, and keeps it as was promised.
    pub(super) fn arrived(
        &self,
        claim: Claim,
        held: Arrived,
        keep: Option<(Promise, Option<Version>)>,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let key = self.key(claim.chunk());
        self.count_pieces(&claim, worker);
        let outcome = match (held, keep) {
            (Arrived::Missing { is_known }, keep) => {
                if let Some((promise, version)) = keep {
                    promise.keep(Cached::Absent, version);
                }
                if is_known {
                    self.known_missing.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Some(claim))
            }
            (Arrived::Decoded(bytes), _) => self.copy_cached(claim, &bytes, worker).map(|()| None),
            (Arrived::Values(values), _) => self.copy_values(claim, &values, worker).map(|()| None),
            (Arrived::Encoded(held), keep) => self.read_held(claim, held, &key, keep, worker),
        };
        worker.hold(0);
        self.conclude(outcome, &key, worker)
    }

    fn read_held(
        &self,
        claim: Claim,
        held: Held,
        key: &StoreKey,
        keep: Option<(Promise, Option<Version>)>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<Claim>> {
        let place = self.fetch.place(self.id(claim.chunk()), Value::Held(held))?;
        if let Some(keep) = keep {
            return self.read_to_keep(claim, &place, key, keep, worker);
        }
        if let Some(variable) = &self.variable {
            return variable.chunk(claim, (&self.fetch, &place, key), &self.scatter, None, worker);
        }
        let demand = self.demand(&claim, &place, &mut worker.scratch.pieces)?;
        self.read(Member { claim, place, demand }, key, worker)
    }

    /// Decodes all of a read chunk, keeps that for others, and scatters it.
    fn read_to_keep(
        &self,
        claim: Claim,
        place: &Place,
        key: &StoreKey,
        (promise, version): (Promise, Option<Version>),
        worker: &mut Worker<'_>,
    ) -> Result<Option<Claim>> {
        if let Some(variable) = &self.variable {
            let keep = Some((promise, version));
            return variable.chunk(claim, (&self.fetch, place, key), &self.scatter, keep, worker);
        }
        let decoder = self.fetch.decoder(place);
        let need = self.need(decoder, place, &Demand::default());
        // What is kept has memory of its own, into which it is decoded.
        let decoded = room(decoder.working_len_into().saturating_add(decoder.decoded_len()));
        let need = Need { decoded, ..need };
        worker.require(&need, "one chunk")?;
        let WorkerScratch { encoded, direct, .. } = &mut worker.scratch;
        let Fetched::Encoded(bytes) = self.fetch.fetch(place, key, None, encoded, worker.counters)? else {
            promise.keep(Cached::Absent, version);
            return Ok(Some(claim));
        };
        let mut decoded = reserve_chunk(decoder.decoded_len())?;
        decoded.resize(decoder.decoded_len(), 0);
        if decoder.is_foreign() {
            worker.counters.foreign.fetch_add(1, Ordering::Relaxed);
        }
        decoder.decode_into(bytes.as_ref(), &mut decoded, direct)?;
        worker.counters.decoded(decoded.len());
        let shared = if place.value().is_held() { 0 } else { shared_len(&bytes) };
        drop(bytes);
        worker.hold(shared);
        let decoded = Arc::new(decoded);
        promise.keep(Cached::Chunk(decoded.clone()), version);
        let WorkerScratch { cast, pieces, .. } = &mut worker.scratch;
        let extents = [Extent { source: 0..decoded.len(), at: 0 }];
        self.copy(claim, &decoded, &extents, &Demand::default(), cast, pieces).map(|()| None)
    }

    /// Scatters a read chunk that was decoded before.
    fn copy_cached(&self, claim: Claim, decoded: &[u8], worker: &mut Worker<'_>) -> Result<()> {
        worker.counters.cached();
        let WorkerScratch { cast, pieces, .. } = &mut worker.scratch;
        let extents = [Extent { source: 0..decoded.len(), at: 0 }];
        self.copy(claim, decoded, &extents, &Demand::default(), cast, pieces)
    }

    /// As [`copy_cached`](Self::copy_cached), where elements are of variable length.
    fn copy_values(&self, claim: Claim, values: &Elements<'_>, worker: &mut Worker<'_>) -> Result<()> {
        worker.counters.cached();
        let fixed = || Error::new(ErrorKind::Internal, "values of variable length, kept for elements of fixed width");
        self.variable.as_ref().ok_or_else(fixed)?.copy_cached(claim, values, &self.scatter, worker)
    }

    /// The cache, and where in it the read chunk of this key is.
    pub(super) fn cached(&self, id: u64) -> Option<(&'a ChunkCache, CacheKey)> {
        self.cache.map(|(cache, array)| (cache, CacheKey { array, part: CachedPart::Chunk(id) }))
    }

    /// The cache, and where in it the index of this shard is.
    pub(super) fn cached_index(&self, shard: u64) -> Option<(&'a ChunkCache, CacheKey)> {
        self.cache.map(|(cache, array)| (cache, CacheKey { array, part: CachedPart::Index(shard) }))
    }

    /// The remote store of the array, if it is in one.
    pub(super) fn remote(&self) -> Option<&'a Arc<Remote>> {
        self.array.source().remote()
    }

    pub(super) fn array(&self) -> &'a Array {
        self.array
    }

    pub(super) fn part(&self) -> &'a Part {
        self.scatter.part()
    }

    /// The right to the read chunk at position `chunk` of the plan, if nobody has it.
    pub(super) fn claim_chunk(&self, chunk: usize) -> Option<Claim> {
        self.scatter.claim_chunk(chunk)
    }

    /// The key in the grid of the read chunk at position `chunk` of the plan.
    fn id(&self, chunk: usize) -> u64 {
        self.part().groups().chunks()[chunk]
    }

    /// The key of the store that holds the read chunk at position `chunk` of the plan.
    pub(super) fn key(&self, chunk: usize) -> StoreKey {
        self.array.chunk_key(&self.part().grid().shard_indices(self.id(chunk)))
    }

    /// What decodes the read chunk at position `chunk` of the plan, if that is not the decoder of the array.
    ///
    /// # Errors
    /// As [`Array::decoder_of`].
    pub(super) fn differing_decoder(&self, chunk: usize) -> Result<Option<Arc<Decoder>>> {
        self.array.decoder_of(self.id(chunk))
    }

    /// Says of which array an error is.
    pub(super) fn name_error(&self, error: Error) -> Error {
        error.at_array(self.array.location())
    }

    /// Says at which key and of which array an error is.
    pub(super) fn locate_error(&self, error: Error, chunk: usize) -> Error {
        self.name_error(error.at_key(self.key(chunk).as_str()))
    }

    fn count_pieces(&self, claim: &Claim, worker: &Worker<'_>) {
        let pieces = self.scatter.part().groups().rows(claim.chunk()).len();
        worker.counters.took(pieces, self.array.decoded_len_of(self.id(claim.chunk())) as usize);
    }

    /// Gives the claim back if the store does not hold the read chunk.
    fn locate_and_read(&self, claim: Claim, id: u64, key: &StoreKey, worker: &mut Worker<'_>) -> Result<Option<Claim>> {
        let chunk = claim.chunk();
        if self.array.sharding().is_some() {
            let index = Need { index: self.fetch.index_memory(), ..Need::default() };
            worker.require(&index, "the index of a shard")?;
        } else {
            self.fetch.read_ahead(chunk);
        }
        let cached_index = self.array.sharding().and_then(|_| self.cached_index(self.part().grid().shard(id)));
        let located = self.fetch.locate(id, (key, cached_index), &mut worker.scratch.index, worker.counters)?;
        let Some(place) = located else {
            if let Some((cache, at)) = self.cached(id)
                && let Lookup::Miss(promise) = cache.look(at, Some(&Version::from(ABSENT)))
            {
                promise.keep(Cached::Absent, Some(ABSENT.into()));
            }
            return Ok(Some(claim));
        };
        if let Some(cached) = self.cached(id) {
            let (cache, at) = cached;
            let version = place.value().version();
            let found = match cache.look(at, version.as_ref()) {
                Lookup::Busy => {
                    // Who makes it may wait for memory that is reserved here.
                    worker.let_go();
                    cache.look_or_wait(at, version.as_ref(), worker.go_on)
                }
                found => Some(found),
            };
            return match found {
                // The read is over.
                None | Some(Lookup::Busy) => Ok(None),
                Some(Lookup::Hit(Cached::Chunk(bytes), _)) => self.copy_cached(claim, &bytes, worker).map(|()| None),
                Some(Lookup::Hit(Cached::Values(values), _)) => self.copy_values(claim, &values, worker).map(|()| None),
                Some(Lookup::Hit(..)) => Ok(Some(claim)),
                Some(Lookup::Miss(promise)) => self.read_to_keep(claim, &place, key, (promise, version), worker),
            };
        }
        if let Some(variable) = &self.variable {
            if self.array.sharding().is_some() {
                self.fetch.read_ahead(chunk);
            }
            return variable.chunk(claim, (&self.fetch, &place, key), &self.scatter, None, worker);
        }
        let demand = self.demand(&claim, &place, &mut worker.scratch.pieces)?;
        self.fetch.count_part(&place, &demand);
        let first = Member { claim, place, demand };
        let gathered = self.gather(&first, worker)?.filter(|gathered| !gathered.is_empty());
        if self.array.sharding().is_some() {
            self.fetch.read_ahead(gathered.as_ref().map_or(chunk, |gathered| gathered.last().max(chunk)));
        }
        match gathered {
            Some(gathered) => self.read_together(first, gathered, key, worker).map(|()| None),
            None => self.read(first, key, worker),
        }
    }

    /// How many read chunks one worker takes at once: fewer and fewer, so that all end at about the same time.
    fn fair_share(&self) -> usize {
        if self.workers == 1 {
            return usize::MAX;
        }
        let least = self.array.source().request().worth / self.array.decoder().decoded_len().max(1);
        (self.scatter.unclaimed() / (2 * self.workers)).max(least)
    }

    /// The most bytes of a stretch of a shard.
    fn longest_stretch(&self, worker: &Worker<'_>) -> u64 {
        let most = self.array.source().request().most;
        let most = worker.reservation.limit().map_or(most, |limit| {
            let others = self.need_of(self.array.decoder(), None, &Demand::default());
            let others = Need { encoded: 0, ..others }.total();
            // Buffers are rounded up by an eighth or a page.
            most.min((limit / self.workers).saturating_sub(others).saturating_sub(1 << 12) / 9 * 8)
        });
        most as u64
    }

    /// Claims neighbours of `first` that are worth fetching with it: those that are fetched together, with `first`, and
    /// those that turned out to be better fetched alone.
    fn gather(&self, first: &Member, worker: &mut Worker<'_>) -> Result<Option<Gathered<'_>>> {
        let Place::Shard { shard, start, len } = &first.place else { return Ok(None) };
        let chunks = self.fair_share();
        let together = self.fetch.fetches_all(&first.place, &first.demand);
        // What is too long is refused alone.
        if chunks < 2 || !together || self.fetch.check_len(&first.place).is_err() {
            return Ok(None);
        }
        let (chunk, bytes) = (first.claim.chunk(), *start..*start + *len);
        let part = self.scatter.part();
        let stretch = Stretch::new(shard, part, chunk, bytes, self.longest_stretch(worker));
        let Some(stretch) = stretch else { return Ok(None) };
        let mut gathered = Gathered { stretch, members: Vec::new(), alone: Vec::new() };
        for after in [true, false] {
            while gathered.members.len() + 1 < chunks
                && let Some(neighbour) = gathered.stretch.neighbour(after)
                && let place = gathered.stretch.place(&neighbour)
                && self.fetch.check_len(&place).is_ok()
                && let Some(claim) = self.scatter.claim_chunk(neighbour.chunk)
            {
                self.count_pieces(&claim, worker);
                // The shard stays open for as long as this worker has it.
                self.fetch.release(part.groups().chunks()[neighbour.chunk])?;
                let demand = self.demand(&claim, &place, &mut worker.scratch.pieces)?;
                let together = self.fetch.fetches_all(&place, &demand);
                let member = Member { claim, place, demand };
                if !together {
                    gathered.alone.push(member);
                    break;
                }
                gathered.stretch.extend(after, &neighbour);
                gathered.members.push(member);
            }
        }
        Ok(Some(gathered))
    }

    /// Fetches several read chunks of one shard with one request, decodes and scatters them.
    fn read_together(
        &self,
        first: Member,
        gathered: Gathered<'_>,
        key: &StoreKey,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let Gathered { stretch, mut members, alone } = gathered;
        members.push(first);
        let span = stretch.span();
        let mut need = Need { encoded: room((span.end - span.start) as usize), ..Need::default() };
        for member in &members {
            let decoder = self.fetch.decoder(&member.place);
            let Need { decoded, cast, index, .. } = self.need(decoder, &member.place, &member.demand);
            need = Need {
                decoded: need.decoded.max(decoded),
                cast: need.cast.max(cast),
                index: need.index.max(index),
                ..need
            };
        }
        worker.require(&need, "neighbouring chunks")?;
        let WorkerScratch { encoded, direct, cast, pieces, .. } = &mut worker.scratch;
        let bytes = self.fetch.fetch_span(stretch.shard(), key, span, members.len(), encoded, worker.counters)?;
        let shared = shared_len(&bytes);
        // In the order of the plan, which writes the result front to back.
        members.sort_unstable_by_key(|member| member.claim.chunk());
        for Member { claim, place, demand } in members {
            if !(worker.go_on)() {
                return Ok(());
            }
            let at = (place.start() - span.start) as usize;
            let beyond = || Error::new(ErrorKind::Internal, "a subchunk beyond what was fetched");
            let bytes = place.known_len().and_then(|len| bytes.as_ref().get(at..)?.get(..len as usize));
            let buffers = Buffers { direct: &mut *direct, cast: &mut *cast, pieces: &mut *pieces };
            self.decode(
                claim,
                self.fetch.decoder(&place),
                bytes.ok_or_else(beyond)?,
                &demand,
                buffers,
                worker.counters,
            )?;
        }
        drop(bytes);
        worker.hold(shared);
        for member in alone {
            self.read(member, key, worker)?;
        }
        Ok(())
    }

    /// What has to be fetched and decoded of the claimed read chunk.
    fn demand(&self, claim: &Claim, place: &Place, pieces: &mut PieceScratch) -> Result<Demand> {
        let decoder = self.fetch.decoder(place);
        let (len, granularity) = (decoder.decoded_len(), decoder.granularity());
        let in_ranges = granularity == Granularity::Stored && len > READ_GAP && place.known_len() == Some(len as u64);
        if !in_ranges && granularity != Granularity::Blocks && self.cast.is_none() {
            return Ok(Demand::default());
        }
        if in_ranges {
            return match place.value() {
                Value::Held(held) => self.ranges_of_held(claim, held, pieces),
                _ => self.ranges_or_all(claim, len, READ_GAP, pieces),
            };
        }
        if let Some(run) = self.scatter.only_run(claim, pieces)? {
            let run = self.uncast(run.source)..self.uncast(run.source + run.len);
            return Ok(Demand { wanted: (run != (0..len)).then(|| vec![run]), in_ranges, one_run: true });
        }
        Ok(Demand { wanted: self.wanted(claim, len, 0, pieces)?, in_ranges, one_run: false })
    }

    /// The bytes of the claimed read chunk of `len` bytes that are wanted, with gaps of up to `gap` bytes read over. `None` if
    /// that is all.
    fn wanted(
        &self,
        claim: &Claim,
        len: usize,
        gap: usize,
        pieces: &mut PieceScratch,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let wanted = self.scatter.wanted(claim, self.after_cast(gap), ranges_limit(len), pieces)?;
        let mut wanted = wanted.map(std::mem::take);
        for range in wanted.iter_mut().flatten() {
            *range = self.uncast(range.start)..self.uncast(range.end);
        }
        Ok(wanted)
    }

    /// What reading the read chunk at `place` takes of memory, at most.
    fn need(&self, decoder: &Decoder, place: &Place, demand: &Demand) -> Need {
        let need = self.need_of(decoder, place.known_len(), demand);
        match place.value() {
            // Its encoded bytes are there already, and may have to be put together.
            Value::Held(held) => Need { encoded: room(self.copied_of(held, decoder, demand)), index: 0, ..need },
            _ => need,
        }
    }

    /// What reading a read chunk takes of memory, at most. `known_len` is its encoded length, if that is known.
    fn need_of(&self, decoder: &Decoder, known_len: Option<u64>, demand: &Demand) -> Need {
        let wanted = demand.wanted_len().unwrap_or(decoder.decoded_len());
        // A single run goes straight to its place.
        let cast = if self.cast.is_none() || demand.one_run { 0 } else { self.after_cast(wanted) };
        let (encoded, decoded) = match (demand.in_ranges, known_len) {
            (true, _) if demand.one_run && self.cast.is_none() => (0, 0),
            (true, _) => (wanted, 0),
            (false, Some(len)) => (len as usize, decoder.working_len()),
            (false, None) => (encoded_bound(decoder.decoded_len()), decoder.working_len()),
        };
        Need { encoded: room(encoded), decoded: room(decoded), cast: room(cast), index: self.fetch.index_memory() }
    }

    /// How many bytes `bytes` of the array's elements are after the cast, in whole elements.
    fn after_cast(&self, bytes: usize) -> usize {
        self.cast.as_ref().map_or(bytes, |cast| cast.len(bytes))
    }

    /// How many bytes of the array's elements become `bytes` by the cast.
    fn uncast(&self, bytes: usize) -> usize {
        self.cast.as_ref().map_or(bytes, |cast| cast.source_len(bytes))
    }

    /// Does with a read chunk that the store does not hold what the caller asked for.
    fn fill(&self, claim: Claim, key: &StoreKey, pieces: &mut PieceScratch) -> Result<()> {
        let fill_value = &self.fill_value;
        match self.missing_chunks {
            MissingChunks::Fill => self.scatter.fill(claim, fill_value, pieces, None),
            MissingChunks::Null => {
                // Nothing of variable length lies behind a null.
                let empty = [0; CELL_LEN];
                let value = if self.variable.is_some() { &empty[..] } else { fill_value };
                self.scatter.fill(claim, value, pieces, Some(self.validity))
            }
            MissingChunks::Error => Err(Error::new(ErrorKind::NotFound, "the store does not hold a chunk")
                .at_key(key.as_str())
                .at_array(self.array.location())
                .remedy("Write the chunk, or have missing chunks read as the fill value or as null.")),
        }
    }

    /// Fetches, decodes and scatters. Gives the claim back if the store does not hold the read chunk.
    fn read(&self, member: Member, key: &StoreKey, worker: &mut Worker<'_>) -> Result<Option<Claim>> {
        let is_held = member.place.value().is_held();
        let decoder = self.fetch.decoder(&member.place);
        worker.require(&self.need(decoder, &member.place, &member.demand), "one chunk")?;
        if member.demand.in_ranges {
            self.read_ranges(member, key, worker)?;
            worker.hold(0);
            return Ok(None);
        }
        let Member { claim, place, demand } = member;
        let WorkerScratch { encoded, direct, cast, pieces, .. } = &mut worker.scratch;
        let fetched = self.fetch.fetch(&place, key, demand.wanted.as_deref(), encoded, worker.counters)?;
        let Fetched::Encoded(encoded) = fetched else { return Ok(Some(claim)) };
        // What was fetched before is not this worker's.
        let shared = if is_held { 0 } else { shared_len(&encoded) };
        let buffers = Buffers { direct, cast, pieces };
        self.decode(claim, self.fetch.decoder(&place), encoded.as_ref(), &demand, buffers, worker.counters)?;
        drop(encoded);
        worker.hold(shared);
        Ok(None)
    }

    /// The second stage: decodes what was fetched, at least what is demanded of it, and scatters it.
    fn decode(
        &self,
        claim: Claim,
        decoder: &Decoder,
        encoded: &[u8],
        demand: &Demand,
        buffers: Buffers<'_>,
        counters: &Counters,
    ) -> Result<()> {
        let len = decoder.decoded_len();
        let Buffers { direct, cast, pieces } = buffers;
        if decoder.is_foreign() {
            counters.foreign.fetch_add(1, Ordering::Relaxed);
        }
        if self.cast.is_some() {
            let out = decoder.decode(encoded, demand.wanted.as_deref(), direct)?;
            counters.decoded(out.decompressed);
            return self.copy(claim, &out.bytes, &out.extents, demand, cast, pieces);
        }
        let whole = |run: &Range<usize>| *run == (0..len);
        let left = self.scatter.write_run(claim, pieces, whole, |_, target| {
            counters.decoded(len);
            decoder.decode_into(encoded, target, direct)
        })?;
        let Some(claim) = left else { return Ok(()) };
        let prefix;
        let wanted = match decoder.granularity() {
            Granularity::Prefix(block) => {
                // In the last block there is nothing left to save.
                let limit = (len - 1) / block * block;
                prefix = self.scatter.wanted_end(&claim, limit, pieces)?.map(|end| 0..end);
                prefix.as_ref().map(std::slice::from_ref)
            }
            _ => demand.wanted.as_deref(),
        };
        let out = decoder.decode(encoded, wanted, direct)?;
        counters.decoded(out.decompressed);
        self.copy(claim, &out.bytes, &out.extents, demand, cast, pieces)
    }

    /// Copies the pieces of the claimed read chunk from its bytes, which are in native byte order, and casts them where
    /// the result is of another type.
    fn copy(
        &self,
        claim: Claim,
        bytes: &[u8],
        extents: &[Extent],
        demand: &Demand,
        buffer: &mut Scratch,
        pieces: &mut PieceScratch,
    ) -> Result<()> {
        let gap = if demand.in_ranges { READ_GAP } else { 0 };
        let Some(cast) = &self.cast else { return self.scatter.copy(claim, bytes, extents, gap, pieces) };
        let source = |range: Range<usize>| {
            locate(extents, range.start, range.len())
                .and_then(|at| bytes.get(at..at + range.len()))
                .ok_or_else(|| Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer"))
        };
        if demand.one_run {
            return self.write_run(claim, pieces, |run, target| {
                cast.apply(source(self.uncast(run.start)..self.uncast(run.end))?, target);
                Ok(())
            });
        }
        // Where it is not known what is wanted, all was decoded.
        let whole = 0..extents.iter().map(|extent| extent.source.end).max().unwrap_or(0);
        let wanted = demand.wanted.as_deref().unwrap_or(std::slice::from_ref(&whole));
        let mut rest = buffer.grow(self.after_cast(wanted.iter().map(Range::len).sum()))?;
        let mut cast_extents = Vec::with_capacity(wanted.len());
        let mut at = 0;
        for range in wanted {
            let (target, left) = rest.split_at_mut(self.after_cast(range.len()));
            cast.apply(source(range.clone())?, target);
            cast_extents.push(Extent { source: self.after_cast(range.start)..self.after_cast(range.end), at });
            at += target.len();
            rest = left;
        }
        self.scatter.copy(claim, buffer.front(at), &cast_extents, self.after_cast(gap), pieces)
    }

    /// Has `write` fill the only piece of the claimed read chunk, which is one run.
    fn write_run(
        &self,
        claim: Claim,
        pieces: &mut PieceScratch,
        write: impl FnOnce(Range<usize>, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        match self.scatter.write_run(claim, pieces, |_| true, write)? {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::Internal, "a piece is not the run that it was")),
        }
    }

    /// Whether the store still holds the metadata.
    fn is_there(&self, key: &StoreKey, counters: &Counters, cancel: &Cancel) -> Result<bool> {
        if self.remote().is_some() {
            counters.requested();
        }
        self.array.source().holds(key, cancel).map_err(|error| self.name_error(error))
    }

    /// Gives back the scatter, and the number of read chunks that the store does not hold.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if chunks are missing because the array itself is gone: their fill values would be made up.
    pub(super) fn finish(self, counters: &Counters, cancel: &Cancel) -> Result<(Scatter<'a>, usize)> {
        let missing = self.missing.load(Ordering::Relaxed);
        if missing > self.known_missing.load(Ordering::Relaxed)
            && let Some(key) = self.array.metadata_key()
            && !self.is_there(key, counters, cancel)?
        {
            return Err(Error::new(ErrorKind::Store, "the array vanished after it was opened")
                .at_array(self.array.location())
                .remedy("Open it again."));
        }
        Ok((self.scatter, missing))
    }
}

/// No compressor makes more of `len` bytes that it cannot compress.
fn encoded_bound(len: usize) -> usize {
    len.saturating_add(len / 128).saturating_add(1 << 10)
}

/// The bytes of an array's fill value as an element of another type.
pub(super) fn fill_value<'a>(array: &'a Array, element: &ElementType) -> Cow<'a, [u8]> {
    if array.element_type() == element {
        return Cow::Borrowed(array.fill_value());
    }
    let Some(cast) = array.cast_to(element) else { return Cow::Borrowed(array.fill_value()) };
    let mut bytes = vec![0; element.size()];
    cast.apply(array.fill_value(), &mut bytes);
    Cow::Owned(bytes)
}
