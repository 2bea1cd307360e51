//! The read of one array: what is done with one of its read chunks.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use zarrs::storage::StoreKey;

use super::MissingChunks;
use super::budget::Reservation;
use super::fetch::{Fetch, Fetched, Place, READ_GAP};
use super::scatter::{Claim, PieceScratch, Scatter};
use super::stats::Counters;
use super::validity::Validity;
use super::variable::VariableRead;
use crate::arrow::{ElementType, cast};
use crate::chunk::{Array, CELL_LEN, DirectScratch, Extent, Granularity};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Scratch, reserve_chunk};

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
    /// Where elements are of variable length.
    variable: Option<VariableRead<'a>>,
    fetch: Fetch<'a>,
    missing: AtomicUsize,
}

/// Buffers and contexts that one worker reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct WorkerScratch {
    pub(super) encoded: Scratch,
    index: Scratch,
    direct: DirectScratch,
    pub(super) pieces: PieceScratch,
}

impl WorkerScratch {
    /// Bytes of the large buffers.
    pub(super) fn len(&self) -> usize {
        self.encoded.len() + self.index.len() + self.direct.len()
    }

    /// Frees the large buffers.
    pub(super) fn clear(&mut self) {
        self.encoded = Scratch::default();
        self.index = Scratch::default();
        self.direct.clear();
    }
}

impl<'a> ColumnRead<'a> {
    /// The read of `array` into an output of elements of type `element`, by `scatter`.
    pub(super) fn new(
        array: &'a Array,
        element: &ElementType,
        scatter: Scatter<'a>,
        missing_chunks: MissingChunks,
        validity: &'a Validity,
        variable: Option<VariableRead<'a>>,
    ) -> Self {
        let fetch = Fetch::new(array, scatter.part());
        let cast_to = (array.element_type() != element).then(|| element.clone());
        let fill_value = match &variable {
            Some(variable) => Cow::Owned(variable.fill_value().to_vec()),
            None => fill_value(array, element),
        };
        let missing = AtomicUsize::new(0);
        Self { array, scatter, missing_chunks, validity, cast_to, fill_value, variable, fetch, missing }
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
        let located = self.fetch.locate(id, &key, &mut scratch.index, counters).and_then(|place| match place {
            Some(place) if let Some(variable) = &self.variable => {
                let fetch = (&self.fetch, &place, &key);
                variable.chunk(claim, fetch, &self.scatter, scratch, reservation, counters)
            }
            Some(place) => {
                let memory = self.fetch.memory(&place).saturating_add(self.cast_len());
                reservation.require(memory, || scratch.clear())?;
                self.read(claim, &place, &key, scratch, counters)
            }
            None => Ok(Some(claim)),
        });
        reservation.hold(scratch.len());
        self.fetch.release(id)?;
        match located.map_err(|error| error.at_key(key.as_str()).at_array(self.array.location()))? {
            None => Ok(()),
            Some(claim) => {
                self.missing.fetch_add(1, Ordering::Relaxed);
                self.fill(claim, &key, &mut scratch.pieces)
            }
        }
    }

    /// Bytes of a decoded read chunk after it is cast to another type; 0 if it is not.
    fn cast_len(&self) -> usize {
        let len = self.array.decoder().decoded_len() / self.array.element_type().size();
        self.cast_to.as_ref().map_or(0, |to| len.saturating_mul(to.size()))
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
        let mut claim = claim;
        if self.cast_to.is_none()
            && granularity == Granularity::Stored
            && len > READ_GAP
            && place.known_len().is_some_and(|known| known == len as u64)
        {
            match self.read_stored(claim, place, key, scratch, counters)? {
                None => return Ok(None),
                Some(back) => claim = back,
            }
        }
        let WorkerScratch { encoded, direct, pieces, .. } = scratch;
        let mut wanted = None;
        if self.cast_to.is_none()
            && granularity == Granularity::Blocks
            && !self.scatter.is_one_run_of(&claim, len, pieces)?
        {
            wanted = self.scatter.wanted(&claim, 0, ranges_limit(len), pieces)?.map(std::mem::take);
        }
        let fetched = self.fetch.fetch(place, key, wanted.as_deref(), encoded, counters)?;
        let Fetched::Encoded(encoded) = fetched else { return Ok(Some(claim)) };
        self.decode(claim, encoded.as_ref(), wanted.as_deref(), direct, pieces, counters)?;
        Ok(None)
    }

    /// The second stage: decodes what was fetched, at least the bytes in `wanted`, and scatters it.
    fn decode(
        &self,
        claim: Claim,
        encoded: &[u8],
        wanted: Option<&[Range<usize>]>,
        scratch: &mut DirectScratch,
        pieces: &mut PieceScratch,
        counters: &Counters,
    ) -> Result<()> {
        let decoder = self.array.decoder();
        let len = decoder.decoded_len();
        if let Some(to) = &self.cast_to {
            let out = decoder.decode(encoded, None, scratch)?;
            counters.decoded(out.decompressed);
            let from = self.array.element_type();
            let mut values = reserve_chunk(len / from.size() * to.size())?;
            values.resize(len / from.size() * to.size(), 0);
            cast(from, to, &out.bytes, &mut values);
            let whole = [Extent { source: 0..values.len(), at: 0 }];
            return self.scatter.copy(claim, &values, &whole, 0, pieces);
        }
        let whole = |run: &Range<usize>| *run == (0..len);
        let left = self.scatter.write_run(claim, pieces, whole, |_, target| {
            counters.decoded(len);
            decoder.decode_into(encoded, target, scratch)
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
            _ => wanted,
        };
        let out = decoder.decode(encoded, wanted, scratch)?;
        counters.decoded(out.decompressed);
        self.scatter.copy(claim, &out.bytes, &out.extents, 0, pieces)
    }

    /// Reads only the wanted bytes of a read chunk that is stored as it is. Gives the claim back if that does not pay.
    fn read_stored(
        &self,
        claim: Claim,
        place: &Place,
        key: &StoreKey,
        scratch: &mut WorkerScratch,
        counters: &Counters,
    ) -> Result<Option<Claim>> {
        let decoder = self.array.decoder();
        let WorkerScratch { encoded, pieces, .. } = scratch;
        let done = |bytes: usize| {
            counters.fetched(bytes);
            counters.decoded(bytes);
        };
        let left = self.scatter.write_run(
            claim,
            pieces,
            |_| true,
            |run, target| {
                done(run.len());
                self.fetch.fetch_stored(place, key, &[run], target)?;
                decoder.to_native(target);
                Ok(())
            },
        )?;
        let Some(claim) = left else { return Ok(None) };

        let limit = ranges_limit(decoder.decoded_len());
        let Some(wanted) = self.scatter.wanted(&claim, READ_GAP, limit, pieces)? else { return Ok(Some(claim)) };
        let bytes: usize = wanted.iter().map(Range::len).sum();
        if bytes > decoder.decoded_len() / 8 * 7 {
            return Ok(Some(claim));
        }
        let buffer = encoded.grow(bytes)?;
        let extents = self.fetch.fetch_stored(place, key, wanted, buffer)?;
        decoder.to_native(buffer);
        done(bytes);
        self.scatter.copy(claim, buffer, &extents, READ_GAP, pieces)?;
        Ok(None)
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

/// The bytes of an array's fill value as an element of another type.
pub(super) fn fill_value<'a>(array: &'a Array, element: &ElementType) -> Cow<'a, [u8]> {
    if array.element_type() == element {
        return Cow::Borrowed(array.fill_value());
    }
    let mut bytes = vec![0; element.size()];
    cast(array.element_type(), element, array.fill_value(), &mut bytes);
    Cow::Owned(bytes)
}
