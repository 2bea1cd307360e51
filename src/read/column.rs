//! The read of one array: what is done with one of its read chunks.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use zarrs::storage::StoreKey;

use super::MissingChunks;
use super::budget::Reservation;
use super::demand::{Demand, Need};
use super::fetch::{Fetch, Fetched, Place, READ_GAP};
use super::run::locate;
use super::scatter::{Claim, PieceScratch, Scatter};
use super::stats::Counters;
use super::validity::Validity;
use crate::arrow::{ElementType, cast};
use crate::chunk::{Array, DirectScratch, Extent, Granularity};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Scratch, room};
use crate::store::Encoded;

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
    /// Type of the result's elements, where it is not the array's.
    cast_to: Option<ElementType>,
    fill_value: Cow<'a, [u8]>,
    fetch: Fetch<'a>,
    missing: AtomicUsize,
}

/// Buffers and contexts that one worker reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct WorkerScratch {
    encoded: Scratch,
    index: Scratch,
    direct: DirectScratch,
    /// Elements of another type than the array's.
    cast: Scratch,
    /// Encoded bytes of the current read chunk that the store handed out.
    shared: usize,
    pieces: PieceScratch,
}

/// What the second stage works with.
struct Buffers<'s> {
    direct: &'s mut DirectScratch,
    cast: &'s mut Scratch,
    pieces: &'s mut PieceScratch,
}

impl WorkerScratch {
    /// Bytes of the large buffers.
    pub(super) fn len(&self) -> usize {
        self.shared + self.encoded.len() + self.index.len() + self.direct.len() + self.cast.len()
    }

    /// Bytes of the large buffers once there is room for `need` in them.
    fn len_with(&self, need: &Need) -> usize {
        let of = |has: usize, needs: usize| has.max(needs);
        of(self.encoded.len(), need.encoded)
            .saturating_add(of(self.index.len(), need.index))
            .saturating_add(of(self.direct.len(), need.decoded))
            .saturating_add(of(self.cast.len(), need.cast))
    }

    /// Frees the large buffers.
    pub(super) fn clear(&mut self) {
        self.encoded = Scratch::default();
        self.index = Scratch::default();
        self.direct.clear();
        self.cast = Scratch::default();
    }
}

impl<'a> ColumnRead<'a> {
    /// The read of `array` into an output of elements of type `element`, by `scatter`.
    pub(super) fn new(
        array: &'a Array,
        element: ElementType,
        scatter: Scatter<'a>,
        missing_chunks: MissingChunks,
        validity: &'a Validity,
    ) -> Self {
        let fetch = Fetch::new(array, scatter.part());
        let cast_to = (array.element_type() != element).then_some(element);
        let fill_value = fill_value(array, element);
        Self { array, fetch, scatter, missing_chunks, validity, cast_to, fill_value, missing: AtomicUsize::new(0) }
    }

    /// The next read chunk that nobody has claimed yet.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.scatter.claim()
    }

    /// Fetches, decodes and scatters the claimed read chunk.
    pub(super) fn chunk(
        &self,
        claim: Claim,
        scratch: &mut WorkerScratch,
        reservation: &mut Reservation<'_>,
        counters: &Counters,
    ) -> Result<()> {
        let part = self.scatter.part();
        let id = part.groups().chunks()[claim.chunk()];
        let key = self.array.chunk_key(&part.grid().shard_indices(id));
        counters.pieces.fetch_add(part.groups().rows(claim.chunk()).len(), Ordering::Relaxed);
        self.fetch.read_ahead(claim.chunk());
        let outcome = self.locate_and_read(claim, id, &key, scratch, reservation, counters);
        reservation.hold(scratch.len());
        if std::mem::take(&mut scratch.shared) > 0 {
            reservation.hold(scratch.len());
        }
        self.fetch.release(id)?;
        match outcome.map_err(|error| error.at_key(key.as_str()).at_array(self.array.location()))? {
            None => Ok(()),
            Some(claim) => {
                self.missing.fetch_add(1, Ordering::Relaxed);
                self.fill(claim, &key, &mut scratch.pieces)
            }
        }
    }

    /// Gives the claim back if the store does not hold the read chunk.
    fn locate_and_read(
        &self,
        claim: Claim,
        id: u64,
        key: &StoreKey,
        scratch: &mut WorkerScratch,
        reservation: &mut Reservation<'_>,
        counters: &Counters,
    ) -> Result<Option<Claim>> {
        let index = Need { index: self.fetch.index_memory(), ..Need::default() };
        require(reservation, &index, "the index of a shard", scratch)?;
        let Some(place) = self.fetch.locate(id, key, &mut scratch.index, counters)? else { return Ok(Some(claim)) };
        let demand = self.demand(&claim, &place, &mut scratch.pieces)?;
        require(reservation, &self.need(&place, &demand), "one chunk", scratch)?;
        self.read(claim, &place, key, &demand, scratch, counters)
    }

    /// What has to be fetched and decoded of the claimed read chunk.
    fn demand(&self, claim: &Claim, place: &Place, pieces: &mut PieceScratch) -> Result<Demand> {
        let decoder = self.array.decoder();
        let (len, granularity) = (decoder.decoded_len(), decoder.granularity());
        let in_ranges = granularity == Granularity::Stored && len > READ_GAP && place.known_len() == Some(len as u64);
        if !in_ranges && granularity != Granularity::Blocks && self.cast_to.is_none() {
            return Ok(Demand::default());
        }
        if let Some(run) = self.scatter.only_run(claim, pieces)? {
            let run = self.uncast(run.source)..self.uncast(run.source + run.len);
            let wanted = (in_ranges || run != (0..len)).then(|| vec![run]);
            return Ok(Demand { wanted, in_ranges, one_run: true });
        }
        let gap = if in_ranges { READ_GAP } else { 0 };
        let wanted = self.scatter.wanted(claim, self.after_cast(gap), ranges_limit(len), pieces)?;
        let mut wanted = wanted.map(std::mem::take);
        for range in wanted.iter_mut().flatten() {
            *range = self.uncast(range.start)..self.uncast(range.end);
        }
        if in_ranges {
            wanted = wanted.filter(|wanted| wanted.iter().map(Range::len).sum::<usize>() <= len / 8 * 7);
        }
        Ok(Demand { in_ranges: in_ranges && wanted.is_some(), wanted, one_run: false })
    }

    /// What reading the read chunk at `place` takes of memory, at most.
    fn need(&self, place: &Place, demand: &Demand) -> Need {
        let decoder = self.array.decoder();
        let wanted = demand.wanted_len().unwrap_or(decoder.decoded_len());
        // A single run goes straight to its place.
        let cast = if self.cast_to.is_none() || demand.one_run { 0 } else { self.after_cast(wanted) };
        let (encoded, decoded) = match (demand.in_ranges, place.known_len()) {
            (true, _) if demand.one_run && self.cast_to.is_none() => (0, 0),
            (true, _) => (wanted, 0),
            (false, Some(len)) => (len as usize, decoder.working_len()),
            (false, None) => (encoded_bound(decoder.decoded_len()), decoder.working_len()),
        };
        Need { encoded: room(encoded), decoded: room(decoded), cast: room(cast), index: self.fetch.index_memory() }
    }

    /// How many bytes `bytes` of the array's elements are after the cast, in whole elements.
    fn after_cast(&self, bytes: usize) -> usize {
        self.cast_to.map_or(bytes, |to| (bytes / self.array.element_type().size()).saturating_mul(to.size()))
    }

    /// How many bytes of the array's elements become `bytes` by the cast.
    fn uncast(&self, bytes: usize) -> usize {
        self.cast_to.map_or(bytes, |to| bytes / to.size() * self.array.element_type().size())
    }

    /// Does with a read chunk that the store does not hold what the caller asked for.
    fn fill(&self, claim: Claim, key: &StoreKey, pieces: &mut PieceScratch) -> Result<()> {
        let fill_value = &self.fill_value;
        match self.missing_chunks {
            MissingChunks::Fill => self.scatter.fill(claim, fill_value, pieces, None),
            MissingChunks::Null => self.scatter.fill(claim, fill_value, pieces, Some(self.validity)),
            MissingChunks::Error => Err(Error::new(ErrorKind::NotFound, "the store does not hold a chunk")
                .at_key(key.as_str())
                .at_array(self.array.location())
                .remedy("Write the chunk, or have missing chunks read as the fill value or as null.")),
        }
    }

    /// Fetches, decodes and scatters. Gives the claim back if the store does not hold the read chunk.
    fn read(
        &self,
        claim: Claim,
        place: &Place,
        key: &StoreKey,
        demand: &Demand,
        scratch: &mut WorkerScratch,
        counters: &Counters,
    ) -> Result<Option<Claim>> {
        if let (true, Some(wanted)) = (demand.in_ranges, &demand.wanted) {
            self.read_ranges(claim, place, key, demand, wanted, scratch, counters)?;
            return Ok(None);
        }
        let WorkerScratch { encoded, direct, cast, pieces, shared, .. } = scratch;
        let fetched = self.fetch.fetch(place, key, demand.wanted.as_deref(), encoded, counters)?;
        let Fetched::Encoded(encoded) = fetched else { return Ok(Some(claim)) };
        if let Encoded::Shared(bytes) = &encoded {
            *shared = bytes.len();
        }
        self.decode(claim, encoded.as_ref(), demand, Buffers { direct, cast, pieces }, counters)?;
        Ok(None)
    }

    /// The second stage: decodes what was fetched, at least what is demanded of it, and scatters it.
    fn decode(
        &self,
        claim: Claim,
        encoded: &[u8],
        demand: &Demand,
        buffers: Buffers<'_>,
        counters: &Counters,
    ) -> Result<()> {
        let decoder = self.array.decoder();
        let len = decoder.decoded_len();
        let Buffers { direct, cast, pieces } = buffers;
        if self.cast_to.is_some() {
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

    /// Reads only the `wanted` bytes of a read chunk that is stored as it is.
    #[expect(clippy::too_many_arguments, reason = "what is read, and what with")]
    fn read_ranges(
        &self,
        claim: Claim,
        place: &Place,
        key: &StoreKey,
        demand: &Demand,
        wanted: &[Range<usize>],
        scratch: &mut WorkerScratch,
        counters: &Counters,
    ) -> Result<()> {
        let decoder = self.array.decoder();
        let WorkerScratch { encoded, cast, pieces, .. } = scratch;
        let bytes = wanted.iter().map(Range::len).sum();
        counters.fetched(bytes);
        counters.decoded(bytes);
        if demand.one_run && self.cast_to.is_none() {
            return self.write_run(claim, pieces, |_, target| {
                self.fetch.fetch_stored(place, key, wanted, target)?;
                decoder.to_native(target);
                Ok(())
            });
        }
        let buffer = encoded.grow(bytes)?;
        let extents = self.fetch.fetch_stored(place, key, wanted, buffer)?;
        decoder.to_native(buffer);
        self.copy(claim, buffer, &extents, demand, cast, pieces)
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
        let Some(to) = self.cast_to else { return self.scatter.copy(claim, bytes, extents, gap, pieces) };
        let from = self.array.element_type();
        let source = |range: Range<usize>| {
            locate(extents, range.start, range.len())
                .and_then(|at| bytes.get(at..at + range.len()))
                .ok_or_else(|| Error::new(ErrorKind::Internal, "a piece reaches beyond its buffer"))
        };
        if demand.one_run {
            return self.write_run(claim, pieces, |run, target| {
                cast(from, to, source(self.uncast(run.start)..self.uncast(run.end))?, target);
                Ok(())
            });
        }
        let whole = 0..self.array.decoder().decoded_len();
        let wanted = demand.wanted.as_deref().unwrap_or(std::slice::from_ref(&whole));
        let mut rest = buffer.grow(self.after_cast(wanted.iter().map(Range::len).sum()))?;
        let mut cast_extents = Vec::with_capacity(wanted.len());
        let mut at = 0;
        for range in wanted {
            let (target, left) = rest.split_at_mut(self.after_cast(range.len()));
            cast(from, to, source(range.clone())?, target);
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

    /// Gives back the scatter, and the number of read chunks that the store does not hold.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if chunks are missing because the array itself is gone: their fill values would be made up.
    pub(super) fn finish(self) -> Result<(Scatter<'a>, usize)> {
        let missing = self.missing.load(Ordering::Relaxed);
        if missing > 0 && !self.array.source().holds(self.array.metadata_key())? {
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

/// Makes sure that `need` may be held beside what `scratch` keeps, or without it.
fn require(reservation: &mut Reservation<'_>, need: &Need, what: &str, scratch: &mut WorkerScratch) -> Result<()> {
    reservation.require(need.total(), scratch.len_with(need), what, || scratch.clear())
}

/// The bytes of an array's fill value as an element of another type.
pub(super) fn fill_value(array: &Array, element: ElementType) -> Cow<'_, [u8]> {
    if array.element_type() == element {
        return Cow::Borrowed(array.fill_value());
    }
    let mut bytes = vec![0; element.size()];
    cast(array.element_type(), element, array.fill_value(), &mut bytes);
    Cow::Owned(bytes)
}
