//! Values of variable length: decoded once and held until the lengths of all are known, then copied to their places.
//!
//! A first pass scatters cells, which say where each value lies, as if they were numbers. A second makes offsets of their
//! lengths, and copies the values into one buffer of exactly their length.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use rayon::prelude::*;
use zarrs::storage::StoreKey;

use super::budget::Reservation;
use super::demand::Need;
use super::execute::Column;
use super::fetch::{Fetch, Fetched, Place};
use super::scatter::{Claim, PieceScratch, Scatter};
use super::validity::Validity;
use super::worker::{Worker, WorkerScratch, shared_len};
use crate::arrow::{ElementType, Rows, too_large};
use crate::cache::{Cached, Promise, Version};
use crate::cancel::Cancel;
use crate::chunk::{CELL_LEN, Cell, Elements, Extent, cells};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Output, reserve_chunk, room};

/// Without a memory limit, a read chunk may decode to so many bytes, and to [`BOMB`] times its encoded length.
const LARGE: usize = 1 << 30;
const BOMB: usize = 1 << 10;

/// With a memory limit, a read chunk is at first thought to decode to so many times its encoded length.
const USUAL: usize = 8;

/// What an error says that memory is lacking for.
const CHUNK: &str = "one chunk";

/// So many elements are copied in one go.
const AT_ONCE: usize = 1 << 12;

/// The buffers that the cells of one column name: an empty one, fill values, then one for each read chunk.
pub(super) struct Held {
    buffers: Vec<OnceLock<Vec<u8>>>,
    /// For each array of the column, the buffer of its first read chunk.
    first: Vec<usize>,
    /// For each array, whether its fill value is null.
    null_fill: Vec<bool>,
    has_fill: bool,
}

impl Held {
    /// Buffers for `column`, where elements out of bounds have the value `fill` or their array's fill value.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if `fill` is no value of the column's type.
    pub(super) fn new(column: &Column<'_>, fill: Option<&[u8]>) -> Result<Self> {
        if let Some(fill) = fill {
            let unit = column.element.unit();
            if !fill.len().is_multiple_of(unit) {
                return Err(Error::new(ErrorKind::Selection, format!("a fill of {} bytes", fill.len()))
                    .expected(format!("a multiple of {unit}")));
            }
            if column.element == ElementType::Utf8 && std::str::from_utf8(fill).is_err() {
                return Err(Error::new(ErrorKind::Selection, "a fill that is no valid UTF-8").expected("text"));
            }
        }
        let mut buffers = vec![OnceLock::from(Vec::new())];
        buffers.extend(column.arrays.iter().map(|array| OnceLock::from(array.fill_value().to_vec())));
        buffers.extend(fill.map(|fill| OnceLock::from(fill.to_vec())));
        let mut first = Vec::with_capacity(column.arrays.len());
        for part in column.plan.parts() {
            first.push(buffers.len());
            let chunks = part.groups().chunks().len();
            buffers.try_reserve(chunks).map_err(|source| {
                Error::new(ErrorKind::Allocation, format!("no memory for {chunks} read chunks")).source(source)
            })?;
            buffers.resize_with(buffers.len() + chunks, OnceLock::new);
        }
        let null_fill = column.arrays.iter().map(|array| array.has_null_fill()).collect();
        Ok(Self { buffers, first, null_fill, has_fill: fill.is_some() })
    }

    fn whole(&self, buffer: usize) -> [u8; CELL_LEN] {
        let len = self.buffers[buffer].get().map_or(0, Vec::len);
        Cell { buffer: buffer as u64, start: 0, len: len as u64 }.to_bytes()
    }

    /// The cell of an array's fill value.
    pub(super) fn fill_value(&self, array: usize) -> [u8; CELL_LEN] {
        if self.null_fill[array] {
            return Cell { buffer: Cell::NULL, start: 0, len: 0 }.to_bytes();
        }
        self.whole(1 + array)
    }

    /// The cell of elements out of an array's bounds.
    pub(super) fn beyond(&self, array: usize) -> [u8; CELL_LEN] {
        if self.has_fill { self.whole(1 + self.first.len()) } else { self.fill_value(array) }
    }

    fn of(&self, cell: &Cell) -> Result<&[u8]> {
        if cell.len == 0 {
            // Of a read chunk without any bytes, nothing is held.
            return Ok(&[]);
        }
        let buffer = self.buffers.get(cell.buffer as usize).and_then(OnceLock::get);
        buffer
            .and_then(|buffer| cell.of(buffer))
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a value of variable length that is not held"))
    }

    /// The second pass: makes the values of `column` of its scattered `cells`, and gives their bytes with the offsets'.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`], naming the key, if text is no valid UTF-8.
    pub(super) fn gather(
        &self,
        column: &Column<'_>,
        of: &[u8],
        validity: Validity,
        cancel: &Cancel,
    ) -> Result<(ArrayRef, u64)> {
        let of = of.as_chunks::<CELL_LEN>().0;
        let unit = column.element.unit() as u64;
        let mut offsets = Output::new((of.len() + 1).checked_mul(8).ok_or_else(too_large)?)?;
        let mut len = 0_u64;
        let mut ends = Vec::with_capacity(of.len() / AT_ONCE + 1);
        let (first, places) = offsets.as_mut_slice().as_chunks_mut::<8>().0.split_at_mut(1);
        first[0] = [0; 8];
        for (of, places) in of.chunks(AT_ONCE).zip(places.chunks_mut(AT_ONCE)) {
            for (number, (cell, place)) in of.iter().zip(places).enumerate() {
                let cell = Cell::from_bytes(*cell);
                if cell.buffer >= Cell::OTHER {
                    let element = ends.len() * AT_ONCE + number;
                    self.null_or_other(column, &cell, element, &validity)?;
                }
                // No sum of so few lengths below 2^40 wraps around between two checks.
                len += cell.len;
                *place = ((len / unit) as i64).to_ne_bytes();
            }
            if i64::try_from(len).is_err() {
                return Err(too_large());
            }
            ends.push(len as usize);
        }
        let mut values = Output::new(len as usize)?;
        let mut parts = Vec::with_capacity(ends.len());
        let (mut rest, mut start) = (values.as_mut_slice(), 0);
        for (of, end) in of.chunks(AT_ONCE).zip(ends) {
            let (part, behind) = rest.split_at_mut(end - start);
            parts.push((of, part));
            (rest, start) = (behind, end);
        }
        parts.into_par_iter().try_for_each(|(of, mut target)| {
            cancel.check()?;
            for cell in of {
                let value = self.of(&Cell::from_bytes(*cell))?;
                let (place, behind) = target.split_at_mut(value.len());
                place.copy_from_slice(value);
                target = behind;
            }
            Ok(())
        })?;
        let bytes = len + 8 * of.len() as u64;
        let nulls = validity.into_nulls();
        let array = column.element.wrap_variable(offsets.into_buffer(), values.into_buffer(), nulls);
        Ok((array.map_err(|error| self.blame(column, of, error))?, bytes))
    }

    /// Makes an element null whose cell says so.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`], naming the key, if there is something else than a value.
    fn null_or_other(&self, column: &Column<'_>, cell: &Cell, element: usize, validity: &Validity) -> Result<()> {
        if cell.buffer >= Cell::NULL {
            validity.clear(element..element + 1);
            return Ok(());
        }
        let cell = Cell { buffer: cell.buffer - Cell::OTHER, ..*cell };
        let name = String::from_utf8_lossy(self.of(&cell)?);
        let expected = if column.element == ElementType::Utf8 { "text, or none" } else { "bytes, or none" };
        let error = Error::new(ErrorKind::Unsupported, format!("an object of type {name}"))
            .at_selection(Rows::new(column.plan.layout().row_starts()).of(element))
            .expected(expected)
            .remedy("Leave it out of the selections, or write the array again as one of numbers, text or bytes.");
        Err(self.at_place(column, &cell, error))
    }

    /// Adds to an error about a cell where that was read.
    fn at_place(&self, column: &Column<'_>, cell: &Cell, error: Error) -> Error {
        let array = self.first.partition_point(|&first| first as u64 <= cell.buffer);
        let Some((array, chunk)) = array.checked_sub(1).map(|array| (array, cell.buffer as usize - self.first[array]))
        else {
            return error;
        };
        let (part, array) = (&column.plan.parts()[array], column.arrays[array]);
        let key = array.chunk_key(&part.grid().shard_indices(part.groups().chunks()[chunk]));
        error.at_key(key.as_str()).at_array(array.location())
    }

    /// Adds to an error about invalid text where that was read.
    fn blame(&self, column: &Column<'_>, of: &[[u8; CELL_LEN]], error: Error) -> Error {
        let is_invalid = |cell: &Cell| self.of(cell).is_ok_and(|value| std::str::from_utf8(value).is_err());
        let Some(cell) = of.iter().map(|cell| Cell::from_bytes(*cell)).find(is_invalid) else { return error };
        self.at_place(column, &cell, error)
            .expected("text in UTF-8")
            .remedy("The chunk is corrupt, or holds text in another encoding; write it again.")
    }
}

/// The first pass over one array of a column.
#[derive(Clone, Copy)]
pub(super) struct VariableRead<'a> {
    held: &'a Held,
    number: usize,
}

impl<'a> VariableRead<'a> {
    /// The read of the `number`-th array of a column whose values `held` holds.
    pub(super) fn new(held: &'a Held, number: usize) -> Self {
        Self { held, number }
    }

    pub(super) fn fill_value(&self) -> [u8; CELL_LEN] {
        self.held.fill_value(self.number)
    }

    /// Fetches and decodes the claimed read chunk, scatters its cells, and holds the bytes that they name. Keeps it for
    /// others as was promised, if there is memory to decode all of it. Gives the claim back if the store does not hold
    /// the read chunk.
    pub(super) fn chunk(
        &self,
        claim: Claim,
        (fetch, place, key): (&Fetch<'_>, &Place, &StoreKey),
        scatter: &Scatter<'_>,
        mut keep: Option<(Promise, Option<Version>)>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<Claim>> {
        let decoder = fetch.decoder(place);
        let buffer = self.held.first[self.number] + claim.chunk();
        let known = place.known_len().map_or(decoder.decoded_len(), |len| len as usize);
        // The cells, as decoded and as they are moved.
        let of_cells = decoder.decoded_len().saturating_mul(2);
        // Decoded bytes may be there twice: at two stages of a codec chain, or with those that are kept.
        let mut decoded = known.saturating_mul(2 * USUAL).saturating_add(1 << 16);
        loop {
            let Worker { scratch, reservation, counters, .. } = worker;
            let need = Need {
                encoded: room(known),
                decoded: decoded.saturating_add(of_cells),
                index: fetch.index_memory(),
                ..Need::default()
            };
            let keeping = scratch.len_with(&need);
            let granted = reservation.require_most(need.total(), keeping, || scratch.clear());
            let WorkerScratch { encoded: encoded_buffer, index, pieces, .. } = scratch;
            let (before, index) = (encoded_buffer.len(), index.len().max(need.index));
            let least = before.max(need.encoded).saturating_add(index).saturating_add(of_cells);
            if granted.is_some_and(|granted| granted < least) {
                return Err(reservation.too_little(CHUNK, &format!("more than {least}")));
            }
            let fetched = fetch.fetch(place, key, None, encoded_buffer, counters)?;
            let Fetched::Encoded(encoded) = fetched else {
                if let Some((promise, version)) = keep {
                    promise.keep(Cached::Absent, version);
                }
                return Ok(Some(claim));
            };
            let shared = shared_len(&encoded);
            let encoded = encoded.as_ref();
            let buffers = index + shared + if shared > 0 { before } else { before.max(room(encoded.len())) };
            let bound = match granted {
                None => encoded.len().saturating_mul(BOMB).max(LARGE).saturating_add(decoder.decoded_len()),
                Some(granted) => granted.saturating_sub(of_cells.saturating_add(buffers)) / 2,
            };
            if decoder.is_foreign() {
                counters.foreign.fetch_add(1, Ordering::Relaxed);
            }
            // What is kept names no buffer of this read.
            let name = if keep.is_some() { 0 } else { buffer };
            let mut elements = decoder.decode_variable(encoded, name as u64, bound)?;
            if let Some((promise, version)) = keep.take()
                && let Some(whole) = elements.take()
            {
                let all = Kept::new(whole, None)?;
                // What is wanted of it is held beside it.
                let memory = buffers + of_cells + all.memory() + all.len;
                if granted.is_none_or(|granted| memory <= granted) {
                    counters.decoded(all.elements.bytes.len());
                    reservation.hold(memory);
                    let (cells, mut bytes) = all.into_parts()?;
                    bytes.shrink_to_fit();
                    let values = Arc::new(Elements { cells, bytes: Cow::Owned(bytes) });
                    promise.keep(Cached::Values(values.clone()), version);
                    let wanted = scatter.wanted(&claim, 0, ranges_limit(decoder.decoded_len()), pieces)?;
                    let kept = Kept::new(renamed(&values, buffer)?, wanted.map(|wanted| &wanted[..]))?;
                    let (cells, bytes) = kept.into_parts()?;
                    self.place(claim, (buffer, &cells, bytes), scatter, pieces, (reservation, buffers))?;
                    return Ok(None);
                }
                let mut whole = all.elements;
                name_buffer(&mut whole.cells, buffer);
                elements = Some(whole);
            }
            let wanted = scatter.wanted(&claim, 0, ranges_limit(decoder.decoded_len()), pieces)?;
            let kept = elements.map(|elements| Kept::new(elements, wanted.map(|wanted| &wanted[..]))).transpose()?;
            let fits = |kept: &Kept<'_>| granted.is_none_or(|granted| buffers + of_cells + kept.memory() <= granted);
            let Some(kept) = kept.filter(fits) else {
                match granted {
                    None => return Err(bomb(encoded.len(), bound)),
                    Some(granted) if granted < need.total() => {
                        return Err(reservation.too_little(CHUNK, &format!("more than {granted}")));
                    }
                    // Once more, with all that is left.
                    Some(_) => decoded = usize::MAX,
                }
                continue;
            };
            counters.decoded(kept.elements.bytes.len());
            reservation.hold(buffers + kept.elements.cells.len() + kept.memory());
            let (cells, bytes) = kept.into_parts()?;
            self.place(claim, (buffer, &cells, bytes), scatter, pieces, (reservation, buffers))?;
            return Ok(None);
        }
    }

    /// Scatters the cells of a read chunk that was decoded before, and holds those of its `values` that are wanted.
    pub(super) fn copy_cached(
        &self,
        claim: Claim,
        values: &Elements<'_>,
        scatter: &Scatter<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let buffer = self.held.first[self.number] + claim.chunk();
        let need = Need { decoded: values.cells.len() + values.bytes.len(), ..Need::default() };
        worker.require(&need, CHUNK)?;
        let Worker { scratch, reservation, .. } = worker;
        let buffers = scratch.len();
        reservation.hold(buffers.saturating_add(need.decoded));
        let pieces = &mut scratch.pieces;
        let wanted = scatter.wanted(&claim, 0, ranges_limit(values.cells.len()), pieces)?;
        let (cells, bytes) = Kept::new(renamed(values, buffer)?, wanted.map(|wanted| &wanted[..]))?.into_parts()?;
        self.place(claim, (buffer, &cells, bytes), scatter, pieces, (reservation, buffers))
    }

    /// Scatters cells, and holds the bytes that they name, as those of a `buffer`. After it, only `buffers` bytes are for
    /// reuse.
    fn place(
        &self,
        claim: Claim,
        (buffer, cells, bytes): (usize, &[u8], Vec<u8>),
        scatter: &Scatter<'_>,
        pieces: &mut PieceScratch,
        (reservation, buffers): (&mut Reservation<'_>, usize),
    ) -> Result<()> {
        scatter.copy(claim, cells, &[Extent { source: 0..cells.len(), at: 0 }], 0, pieces)?;
        reservation.hold(buffers);
        if !bytes.is_empty() {
            reservation.keep(bytes.capacity());
            let twice = || Error::new(ErrorKind::Internal, "a read chunk was decoded twice");
            self.held.buffers[buffer].set(bytes).map_err(|_| twice())?;
        }
        Ok(())
    }
}

/// So many wanted runs of cells are worth telling apart in a read chunk whose cells take `len` bytes.
fn ranges_limit(len: usize) -> usize {
    64 + len / CELL_LEN / 8
}

/// Makes cells that name buffer 0 name `buffer`.
fn name_buffer(cells: &mut [u8], buffer: usize) {
    for place in cells.as_chunks_mut::<CELL_LEN>().0 {
        let cell = Cell::from_bytes(*place);
        *place = Cell { buffer: cell.buffer + buffer as u64, ..cell }.to_bytes();
    }
}

/// Values whose cells name buffer 0, with cells that name `buffer`.
fn renamed<'e>(values: &'e Elements<'_>, buffer: usize) -> Result<Elements<'e>> {
    let mut cells = reserve_chunk(values.cells.len())?;
    cells.extend_from_slice(&values.cells);
    name_buffer(&mut cells, buffer);
    Ok(Elements { cells, bytes: Cow::Borrowed(&values.bytes) })
}

fn bomb(encoded: usize, bound: usize) -> Error {
    Error::new(ErrorKind::Decode, format!("{encoded} encoded bytes decode to more than {bound}"))
        .expected("fewer, because no length is known from the metadata")
        .remedy(
            "The chunk is probably corrupt. If it is not, give a memory limit, which takes the place of this bound.",
        )
}

/// What has to be held of the elements of a read chunk.
struct Kept<'e> {
    elements: Elements<'e>,
    /// Where the cells lie that are wanted. All are, if it is `None`.
    wanted: Option<&'e [Range<usize>]>,
    /// Bytes of the wanted values.
    len: usize,
}

impl<'e> Kept<'e> {
    fn new(elements: Elements<'e>, wanted: Option<&'e [Range<usize>]>) -> Result<Self> {
        let mut len = 0;
        for range in wanted.unwrap_or(std::slice::from_ref(&(0..elements.cells.len()))) {
            let of = elements.cells.get(range.clone()).ok_or_else(beyond)?;
            len += cells(of).map(|cell| cell.len as usize).sum::<usize>();
        }
        Ok(Self { elements, wanted, len })
    }

    /// Bytes of the buffer of the values, if they lie in one of their own. Room to spare counts as well.
    fn owned(&self) -> usize {
        if let Cow::Owned(bytes) = &self.elements.bytes { bytes.capacity() } else { 0 }
    }

    /// Whether the wanted values are moved into a smaller buffer.
    fn moves(&self) -> bool {
        self.len <= self.owned() / 2 || matches!(self.elements.bytes, Cow::Borrowed(_))
    }

    /// Bytes of memory that the values take at most, until those are dropped that are not wanted.
    fn memory(&self) -> usize {
        self.owned() + if self.moves() { self.len } else { 0 }
    }

    /// The cells, and the bytes that they name.
    fn into_parts(self) -> Result<(Vec<u8>, Vec<u8>)> {
        let moves = self.moves();
        let Elements { cells: mut of, bytes } = self.elements;
        if !moves {
            return Ok((of, bytes.into_owned()));
        }
        let mut kept = reserve_chunk(self.len)?;
        let all = 0..of.len();
        for range in self.wanted.unwrap_or(std::slice::from_ref(&all)) {
            for place in of.get_mut(range.clone()).ok_or_else(beyond)?.as_chunks_mut::<CELL_LEN>().0 {
                let cell = Cell::from_bytes(*place);
                let value = cell.of(&bytes).ok_or_else(beyond)?;
                *place = Cell { start: kept.len() as u64, ..cell }.to_bytes();
                kept.extend_from_slice(value);
            }
        }
        Ok((of, kept))
    }
}

fn beyond() -> Error {
    Error::new(ErrorKind::Internal, "a piece reaches beyond its read chunk")
}
