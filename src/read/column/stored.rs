//! Read chunks that are stored as they are decoded: only what is wanted of them is read.

use std::ops::Range;
use std::time::Instant;

use zarrs::storage::StoreKey;

use super::{ColumnRead, Member};
use crate::chunk::{Decoder, Extent, Granularity};
use crate::error::Result;
use crate::read::demand::Demand;
use crate::read::fetch::READ_GAP;
use crate::read::scatter::{Claim, PieceScratch};
use crate::read::worker::{Worker, WorkerScratch};
use crate::store::{Held, Value};

impl ColumnRead<'_> {
    /// Whether read chunks that `decoder` decodes are stored as they are decoded.
    pub(in crate::read) fn is_stored_as_is(&self, decoder: &Decoder) -> bool {
        decoder.granularity() == Granularity::Stored && self.variable.is_none()
    }

    /// Of a claimed read chunk that `decoder` decodes and that is stored as it is, the bytes that are wanted, with gaps of up
    /// to `gap` bytes read over. `None` if that is all of it.
    pub(in crate::read) fn ranges(
        &self,
        decoder: &Decoder,
        claim: &Claim,
        gap: usize,
        pieces: &mut PieceScratch,
    ) -> Result<Option<Vec<Range<usize>>>> {
        if !self.is_stored_as_is(decoder) || self.cache.is_some() || decoder.decoded_len() <= READ_GAP {
            return Ok(None);
        }
        let len = decoder.decoded_len();
        let demand = self.ranges_or_all(claim, len, gap.max(READ_GAP), pieces)?;
        // A server that knows no ranges can be asked for all.
        let is_all = |wanted: &Vec<Range<usize>>| matches!(&wanted[..], [all] if *all == (0..len));
        Ok(demand.wanted.filter(|wanted| demand.in_ranges && !is_all(wanted)))
    }

    /// The bytes that are wanted of a read chunk of `len` bytes that is stored as it is, if they are not nearly all.
    pub(super) fn ranges_or_all(
        &self,
        claim: &Claim,
        len: usize,
        gap: usize,
        pieces: &mut PieceScratch,
    ) -> Result<Demand> {
        if let Some(run) = self.scatter.only_run(claim, pieces)? {
            let run = self.uncast(run.source)..self.uncast(run.source + run.len);
            return Ok(Demand { wanted: Some(vec![run]), in_ranges: true, one_run: true });
        }
        let wanted = self.wanted(claim, len, gap, pieces)?;
        let wanted = wanted.filter(|wanted| wanted.iter().map(Range::len).sum::<usize>() <= len / 8 * 7);
        Ok(Demand { in_ranges: wanted.is_some(), wanted, one_run: false })
    }

    /// As [`ranges_or_all`](Self::ranges_or_all), where that was asked before, with gaps that the link called for: what is
    /// `held` is what is wanted.
    pub(super) fn ranges_of_held(&self, claim: &Claim, held: &Held, pieces: &mut PieceScratch) -> Result<Demand> {
        if let Some(run) = self.scatter.only_run(claim, pieces)? {
            let run = self.uncast(run.source)..self.uncast(run.source + run.len);
            return Ok(Demand { wanted: Some(vec![run]), in_ranges: true, one_run: true });
        }
        let ranges = held.ranges();
        if ranges.iter().map(|range| range.len() as u64).sum::<u64>() == held.len() {
            return Ok(Demand::default());
        }
        Ok(Demand { wanted: Some(ranges), in_ranges: true, one_run: false })
    }

    /// How many bytes of what is `held` are copied before they are decoded.
    pub(super) fn copied_of(&self, held: &Held, decoder: &Decoder, demand: &Demand) -> usize {
        match (&demand.wanted, demand.in_ranges) {
            (_, true) if demand.one_run && self.cast.is_none() => 0,
            (Some(wanted), true) if is_one(wanted, held, decoder) => 0,
            (Some(wanted), true) => wanted.iter().map(Range::len).sum(),
            _ if held.is_one() => 0,
            _ => held.len() as usize,
        }
    }

    /// Reads only the wanted bytes of a read chunk that is stored as it is.
    pub(super) fn read_ranges(&self, member: Member, key: &StoreKey, worker: &mut Worker<'_>) -> Result<()> {
        let Member { mut claim, place, demand } = member;
        let decoder = self.fetch.decoder(&place);
        let wanted = demand.wanted.as_deref().unwrap_or_default();
        let WorkerScratch { encoded, cast, pieces, .. } = &mut worker.scratch;
        let bytes = wanted.iter().map(Range::len).sum();
        if !place.value().is_held() {
            worker.counters.fetched(bytes);
        }
        worker.counters.decoded(bytes);
        if demand.one_run && self.cast.is_none() {
            return self.write_run(claim, pieces, |_, target| {
                self.fetch.fetch_stored(&place, key, wanted, target, self.scatter.crew()).map(|_| ())
            });
        }
        self.fetch.expect_ranges(&place, wanted);
        if self.cast.is_none() {
            // As many ranges as pieces: each is one.
            let began = Instant::now();
            let left = self.scatter.write_lines(claim, wanted.len(), pieces, |run, target| {
                place.read_into(key, run.start, target)?;
                decoder.to_native(target);
                Ok(())
            })?;
            let Some(left) = left else {
                self.fetch.observe(bytes, wanted.len(), began);
                return Ok(());
            };
            claim = left;
        }
        if let (Value::Held(held), [range]) = (place.value(), wanted)
            && is_one(wanted, held, decoder)
        {
            let held = held.read(range.start as u64, bytes as u64, encoded)?;
            let extents = [Extent { source: range.clone(), at: 0 }];
            return self.copy(claim, held.as_ref(), &extents, &demand, cast, pieces);
        }
        let buffer = encoded.grow(bytes)?;
        let extents = self.fetch.fetch_stored(&place, key, wanted, buffer, self.scatter.crew())?;
        self.copy(claim, buffer, &extents, &demand, cast, pieces)
    }
}

/// Whether what is wanted of what is `held` is there as it is needed.
fn is_one(wanted: &[Range<usize>], held: &Held, decoder: &Decoder) -> bool {
    wanted.len() == 1 && held.is_one() && decoder.is_native()
}
