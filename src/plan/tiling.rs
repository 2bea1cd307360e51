//! The proof that the pieces of a plan tile its output.

use std::ops::Range;

use super::blocks::{Threads, each};
use super::segments::{Found, Segment, ones};
use super::{Part, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::selection::boxes::Boxes;
use crate::selection::rows::{Axis, Rows};
use crate::selection::{BoundForm, MAX_AXES};

/// A plan whose pieces were checked to write no output element twice.
///
/// The piece of a row in a read chunk is not stored: it is what the row selects of the chunk, computed by
/// [`for_each`](Self::for_each), along each axis of the row: an intersection of ranges, or segments. So two pieces of
/// one row are disjoint as soon as they come from different chunks, because along some axis they have different
/// positions; pieces of different rows are disjoint because rows own disjoint spans of the output; and it suffices to
/// check that
///
/// 1. chunk keys ascend strictly: no read chunk occurs twice;
/// 2. the rows of each chunk ascend strictly, read from the chunk's array, and are not null: no chunk serves a row twice;
/// 3. row starts ascend, and each row's span is as long as the product of its axes, on each of which what lies in the
///    array lies in the row;
/// 4. where a row has segments, those of each axis ascend by key and hold each position once, and each axis of the array
///    belongs to one axis of the row; a row without elements has none.
///
/// Together with the count of copied elements, which readers compare with [`elements`](Self::elements), every element
/// that lies in an array is written exactly once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiling<'a> {
    plan: &'a Plan,
    elements: usize,
}

impl<'a> Tiling<'a> {
    /// Checks `plan`, in time linear in its pieces and rows, which `threads` share.
    pub(crate) fn check(plan: &'a Plan, threads: Threads) -> Result<Self> {
        for (source, part) in plan.parts().iter().enumerate() {
            let offsets = part.groups().offsets();
            let blocks = threads.cut_by(part.groups().chunks().len(), part.groups().pieces(), |chunk| offsets[chunk]);
            each(blocks, |chunks| check_chunks(plan, source, chunks))?;
        }
        let rows = plan.selections().len();
        let starts = plan.layout().row_starts();
        if starts.len() != rows + 1 || starts[0] < 0 {
            return Err(broken("not one span for each row"));
        }
        let lines = each(threads.cut(rows), |rows| Ok(lines_fit(plan, rows)))?;
        let elements = match sum(lines) {
            Some(elements) => elements,
            None => sum(each(threads.cut_rows(plan.selections()), |rows| check_rows(plan, rows).map(Some))?)
                .ok_or_else(|| broken("more elements than can be counted"))?,
        };
        Ok(Self { plan, elements })
    }

    pub(crate) fn plan(self) -> &'a Plan {
        self.plan
    }

    /// Number of elements that lie in an array: those of all pieces together.
    pub(crate) fn elements(self) -> usize {
        self.elements
    }

    /// Whether each row has at most one piece in each read chunk.
    pub(crate) fn one_piece_each(self) -> bool {
        matches!(self.plan.selections().form(), BoundForm::Boxes(_))
    }

    /// Computes the piece of `row` in a read chunk, where rows are boxes. Strides are those of the chunk, in elements.
    ///
    /// `None` where they do not meet, which a plan never asks.
    pub(crate) fn piece(self, row: u32, chunk: &ChunkAt, strides: &[usize], piece: &mut Piece) -> Option<()> {
        let row = row as usize;
        let BoundForm::Boxes(boxes) = self.plan.selections().form() else { return None };
        piece.row_start = self.plan.layout().row_starts()[row] as usize;
        piece.spans.clear();
        for (axis, (&(chunk_start, chunk_len), &stride)) in chunk.axes.iter().zip(strides).enumerate() {
            let side = boxes.side(row, axis);
            let from = side.start.max(chunk_start);
            let to = side.stop.min(chunk_start.saturating_add(chunk_len));
            piece.spans.push(Span {
                source: (from.checked_sub(chunk_start)? as usize).checked_mul(stride)?,
                stride: stride as isize,
                target: (from - side.start + side.before) as usize,
                len: to.checked_sub(from)? as usize,
                row_len: side.extent as usize,
            });
        }
        Some(())
    }

    /// Calls `visit` for each box of what `row` selects of a read chunk.
    ///
    /// # Errors
    /// Those of `visit`; [`ErrorKind::Internal`] where row and chunk do not meet, which a plan never asks.
    pub(crate) fn for_each(
        self,
        row: u32,
        chunk: &ChunkAt,
        strides: &[usize],
        PieceBuffers { piece, product }: &mut PieceBuffers,
        mut visit: impl FnMut(&Piece) -> Result<()>,
    ) -> Result<()> {
        if self.one_piece_each() {
            self.piece(row, chunk, strides, piece).ok_or_else(apart)?;
            return visit(piece);
        }
        self.product(row, chunk, strides, product)?;
        piece.row_start = product.row_start;
        product.at.clear();
        product.at.resize(product.axes(), 0);
        loop {
            piece.spans.clear();
            piece.spans.extend(product.at.iter().enumerate().map(|(axis, &at)| product.axis(axis)[at]));
            visit(piece)?;
            let more = (0..product.at.len()).rev().find(|&axis| product.at[axis] + 1 < product.axis(axis).len());
            let Some(axis) = more else { return Ok(()) };
            product.at[axis] += 1;
            product.at[axis + 1..].fill(0);
        }
    }

    /// What `row` selects of a read chunk, where that is single places along its only axis; `None` elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where row and chunk do not meet, which a plan never asks.
    pub(crate) fn picks(self, row: u32, chunk: &ChunkAt, strides: &[usize]) -> Result<Option<Picks<'a>>> {
        let row = row as usize;
        let (BoundForm::Rows(rows), Some(segments)) = (self.plan.selections().form(), self.plan.segments()) else {
            return Ok(None);
        };
        let number = rows.of(row).start;
        let [axis @ Axis::Points { axes, .. }] = &rows.axes()[rows.of(row)] else { return Ok(None) };
        let key = ones(*axes).map(|axis| chunk.keys[axis]).sum();
        let Found::Positions(positions) = segments.with_key(number, key).ok_or_else(apart)? else { return Ok(None) };
        let coordinate = |(of, indices): (usize, &'a [i64])| {
            let (start, len) = chunk.axes[of];
            let stride = strides[of];
            // Nothing below overflows.
            let reach = (len as usize).checked_mul(stride);
            reach.filter(|&reach| reach <= isize::MAX as usize / MAX_AXES).ok_or_else(apart)?;
            Ok(Coordinate { indices, start, len, stride })
        };
        let coordinates = rows.coordinates(axis).map(coordinate).collect::<Result<_>>()?;
        let row_start = self.plan.layout().row_starts()[row] as usize;
        Ok(Some(Picks { row_start, positions, coordinates }))
    }

    /// Computes what `row` selects of a read chunk, where rows are no boxes.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where row and chunk do not meet, which a plan never asks.
    pub(crate) fn product(self, row: u32, chunk: &ChunkAt, strides: &[usize], product: &mut Product) -> Result<()> {
        let row = row as usize;
        let (BoundForm::Rows(rows), Some(segments)) = (self.plan.selections().form(), self.plan.segments()) else {
            return Err(apart());
        };
        product.row_start = self.plan.layout().row_starts()[row] as usize;
        product.spans.clear();
        product.ends.clear();
        let numbers = rows.of(row);
        if numbers.is_empty() && self.plan.ndim() > 0 {
            return Err(apart());
        }
        for number in numbers {
            let axis = &rows.axes()[number];
            let key = match *axis {
                Axis::Steps { axis, .. } => chunk.keys[axis],
                Axis::Points { axes, .. } => ones(axes).map(|axis| chunk.keys[axis]).sum(),
            };
            match segments.with_key(number, key).ok_or_else(apart)? {
                Found::Segments(found) => {
                    for segment in found {
                        product.spans.push(span(rows, axis, segment, chunk, strides).ok_or_else(apart)?);
                    }
                }
                Found::Positions(found) => {
                    push_spans(rows, axis, found, chunk, strides, &mut product.spans).ok_or_else(apart)?;
                }
            }
            product.ends.push(product.spans.len());
        }
        Ok(())
    }
}

/// Single places of a read chunk that a row goes through along its only axis.
#[derive(Debug)]
pub(crate) struct Picks<'a> {
    row_start: usize,
    /// In ascending order.
    positions: &'a [u32],
    coordinates: Vec<Coordinate<'a>>,
}

/// The indices of points along one axis of the array, and the read chunk there.
#[derive(Debug, Clone, Copy)]
struct Coordinate<'a> {
    indices: &'a [i64],
    start: u64,
    len: u64,
    stride: usize,
}

impl Coordinate<'_> {
    /// What the point at `position` adds to its place in the read chunk; `None` if it lies in another.
    #[inline]
    fn place(&self, position: u32) -> Option<usize> {
        let index = *self.indices.get(position as usize)? as u64;
        let inside = index.wrapping_sub(self.start);
        (inside < self.len).then(|| inside as usize * self.stride)
    }
}

impl<'a> Picks<'a> {
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The same places, `len` at a time.
    pub(crate) fn parts(&self, len: usize) -> impl Iterator<Item = Picks<'a>> + Send {
        let part = |positions| Picks { positions, coordinates: self.coordinates.clone(), ..*self };
        self.positions.chunks(len).map(part)
    }

    /// Calls `visit(place, element)` with each place in the read chunk and its element of the output, until it gives
    /// `false`. Gives `false` then, or if a place lies in another read chunk, which a plan never asks.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, usize) -> bool) -> bool {
        let row_start = self.row_start;
        match &self.coordinates[..] {
            [x] => {
                self.positions.iter().all(|&at| x.place(at).is_some_and(|place| visit(place, row_start + at as usize)))
            }
            [y, x] => self.positions.iter().all(|&at| {
                let place = y.place(at).zip(x.place(at));
                place.is_some_and(|(y, x)| visit(y + x, row_start + at as usize))
            }),
            all => self.positions.iter().all(|&at| {
                let place = all.iter().try_fold(0, |sum, axis| Some(sum + axis.place(at)?));
                place.is_some_and(|place| visit(place, row_start + at as usize))
            }),
        }
    }
}

fn apart() -> Error {
    Error::new(ErrorKind::Internal, "a row does not meet its read chunk")
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("broken plan: {what}"))
}

fn sum(parts: Vec<Option<usize>>) -> Option<usize> {
    parts.into_iter().try_fold(0, |sum: usize, part| sum.checked_add(part?))
}

/// Checks some of the read chunks of the array `source`: that keys ascend up to the first of the chunks that follow, and
/// which rows each serves.
fn check_chunks(plan: &Plan, source: usize, chunks: Range<usize>) -> Result<()> {
    let groups = plan.parts()[source].groups();
    let selections = plan.selections();
    let grid = plan.parts()[source].grid();
    let keys = grid.keys();
    let up_to_next = chunks.start..groups.chunks().len().min(chunks.end + 1);
    if !groups.chunks()[up_to_next].windows(2).all(|pair| pair[0] < pair[1]) {
        return Err(broken("a read chunk occurs twice"));
    }
    for chunk in chunks {
        // Two keys of one read chunk would have it written twice.
        let key = groups.chunks()[chunk];
        let parts = (0..grid.ndim()).map(|axis| grid.key_part(axis, grid.chunk_index(key, axis)));
        if key >= keys || parts.sum::<u64>() != key {
            return Err(broken("a key of no read chunk"));
        }
        let served = groups.rows(chunk);
        if !served.windows(2).all(|pair| pair[0] < pair[1])
            || served.last().is_some_and(|&row| row as usize >= selections.len())
        {
            return Err(broken("a read chunk serves a row twice"));
        }
        if selections.nulls().is_some() && served.iter().any(|&row| selections.is_null(row as usize)) {
            return Err(broken("a read chunk serves a null row"));
        }
        if plan.parts().len() > 1 && served.iter().any(|&row| selections.shapes().source(row as usize) != source) {
            return Err(broken("a read chunk serves a row of another array"));
        }
    }
    Ok(())
}

/// Checks the spans of some rows, and gives how many of their elements lie in an array.
fn check_rows(plan: &Plan, rows: Range<usize>) -> Result<usize> {
    let selections = plan.selections();
    let starts = plan.layout().row_starts();
    let mut elements = 0_usize;
    let mut seen = Vec::new();
    let padded = selections.padded();
    let mut padded = padded[padded.partition_point(|&row| (row as usize) < rows.start)..].iter().peekable();
    for row in rows {
        let Some(span) = (starts[row + 1] as usize).checked_sub(starts[row] as usize) else {
            return Err(broken("rows overlap"));
        };
        let is_null = selections.is_null(row);
        let is_padded = padded.next_if(|&&padded| padded as usize == row).is_some() || is_null;
        let inside = match selections.form() {
            _ if is_null => Some(0),
            BoundForm::Boxes(boxes) => box_elements(boxes, row, plan.ndim(), span),
            BoundForm::Rows(of) => row_elements(plan, of, row, span, &mut seen),
        };
        let inside = inside.filter(|&inside| inside == span || is_padded);
        let sum = inside.and_then(|inside| elements.checked_add(inside));
        elements = sum.ok_or_else(|| broken("a row's span does not fit its axes"))?;
    }
    Ok(elements)
}

/// The elements of some rows, where they are ranges of one axis in bounds and their spans fit; `None` elsewhere, which
/// says nothing against the plan.
fn lines_fit(plan: &Plan, rows: Range<usize>) -> Option<usize> {
    let BoundForm::Boxes(boxes) = plan.selections().form() else { return None };
    let (starts, stops) = boxes.first_axis()?;
    let unit = (1..plan.ndim()).try_fold(1_i64, |unit, axis| {
        unit.checked_mul(i64::try_from(plan.selections().shapes().common(axis)?).ok()?)
    })?;
    let spans = &plan.layout().row_starts()[rows.start..=rows.end];
    let mut fit = plan.selections().nulls().is_none() && plan.selections().padded().is_empty();
    for ((start, stop), row) in starts[rows.clone()].iter().zip(&stops[rows]).zip(spans.windows(2)) {
        let (len, over) = (stop - start).overflowing_mul(unit);
        fit &= !over && len >= 0 && row[1].wrapping_sub(row[0]) == len && row[0] <= row[1];
    }
    fit.then_some((spans[spans.len() - 1] - spans[0]) as usize)
}

/// Elements of a row's box in its array; `None` if the row's span is not as long as its axes say.
fn box_elements(boxes: &Boxes, row: usize, ndim: usize, span: usize) -> Option<usize> {
    let (mut inside, mut all) = (1_usize, 1_usize);
    for axis in 0..ndim {
        let side = boxes.side(row, axis);
        let len = side.stop.checked_sub(side.start)?;
        if len > 0 && side.before.checked_add(len)? > side.extent {
            return None;
        }
        inside = inside.checked_mul(len as usize)?;
        all = all.checked_mul(side.extent as usize)?;
    }
    (inside == 0 || all == span).then_some(inside)
}

/// Elements of a row; `None` if its segments do not tile it.
fn row_elements(plan: &Plan, rows: &Rows, row: usize, span: usize, seen: &mut Vec<u64>) -> Option<usize> {
    let numbers = rows.of(row);
    let axes = &rows.axes()[numbers.clone()];
    if axes.is_empty() && plan.ndim() > 0 {
        return Some(0);
    }
    let elements = axes.iter().try_fold(1_usize, |n, axis| n.checked_mul(axis.len()));
    if axes.iter().any(|axis| axis.len() == 0) {
        // Without segments, no read chunk has a piece of it.
        let segments = plan.segments()?;
        return numbers.into_iter().all(|number| segments.is_empty(number)).then_some(0);
    }
    let mut covered = 0_u64;
    for (axis, number) in axes.iter().zip(numbers) {
        let of = match *axis {
            Axis::Steps { axis, .. } => 1 << axis,
            Axis::Points { axes, .. } => axes,
        };
        if covered & of != 0 || !plan.segments()?.tile(number, axis.len(), seen) {
            return None;
        }
        covered |= of;
    }
    (covered.count_ones() as usize == plan.ndim() && elements == Some(span)).then_some(span)
}

/// The span of one segment in a read chunk.
fn span(rows: &Rows, axis: &Axis, segment: &Segment, chunk: &ChunkAt, strides: &[usize]) -> Option<Span> {
    let place = |of: usize, position: usize| -> Option<usize> {
        let (start, len) = chunk.axes[of];
        let inside = rows.index(axis, of, position).checked_sub(start).filter(|&inside| inside < len)?;
        (inside as usize).checked_mul(strides[of])
    };
    let (source, stride) = match *axis {
        Axis::Steps { axis: of, range } => {
            place(of, segment.position + segment.len - 1)?;
            (
                place(of, segment.position)?,
                if segment.len == 1 { 0 } else { (range.step as isize).checked_mul(strides[of] as isize)? },
            )
        }
        Axis::Points { axes, .. } => {
            let mut source = 0;
            for of in ones(axes) {
                place(of, segment.position + segment.len - 1)?;
                source = usize::checked_add(source, place(of, segment.position)?)?;
            }
            (source, strides[63 - axes.leading_zeros() as usize] as isize)
        }
    };
    Some(Span { source, stride, target: segment.position, len: segment.len, row_len: axis.len() })
}

/// Appends the spans of single positions of an axis of points in a read chunk, neighbours as one.
fn push_spans(
    rows: &Rows,
    axis: &Axis,
    positions: &[u32],
    chunk: &ChunkAt,
    strides: &[usize],
    spans: &mut Vec<Span>,
) -> Option<()> {
    let Axis::Points { axes, .. } = *axis else { return None };
    let stride = strides[63 - axes.leading_zeros() as usize];
    let row_len = axis.len();
    let from = spans.len();
    for &position in positions {
        let position = position as usize;
        let mut source = 0;
        for (of, indices) in rows.coordinates(axis) {
            let (start, len) = chunk.axes[of];
            let inside = (*indices.get(position)? as u64).checked_sub(start).filter(|&inside| inside < len)?;
            source = usize::checked_add(source, (inside as usize).checked_mul(strides[of])?)?;
        }
        match spans[from..].last_mut() {
            Some(last) if last.target + last.len == position && last.source + last.len * stride == source => {
                last.len += 1;
            }
            _ => spans.push(Span { source, stride: stride as isize, target: position, len: 1, row_len }),
        }
    }
    Some(())
}

/// Where a read chunk lies in its array.
#[derive(Debug, Default)]
pub(crate) struct ChunkAt {
    /// First index and length along each axis, in elements.
    axes: Vec<(u64, u64)>,
    /// What its index along each axis adds to its key.
    keys: Vec<u64>,
}

impl ChunkAt {
    /// Looks up the read chunk `key`; what its indices add to the key only if asked for, as rows that are no boxes need it.
    pub(crate) fn set(&mut self, part: &Part, key: u64, with_keys: bool) {
        let grid = part.grid();
        self.axes.clear();
        self.keys.clear();
        for axis in 0..grid.ndim() {
            let index = grid.chunk_index(key, axis);
            self.axes.push(grid.chunks(axis).bounds(index));
            if with_keys {
                self.keys.push(grid.key_part(axis, index));
            }
        }
    }

    /// Its length along `axis`, in elements.
    pub(crate) fn len(&self, axis: usize) -> u64 {
        self.axes[axis].1
    }
}

/// A box of one row that lies in one read chunk.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Element of the output at which the row starts.
    pub(crate) row_start: usize,
    /// One per axis of the row.
    pub(crate) spans: Vec<Span>,
}

/// What one row selects of one read chunk: a product, along each axis of the row any of that axis' spans.
#[derive(Debug, Default)]
pub(crate) struct Product {
    /// Element of the output at which the row starts.
    pub(crate) row_start: usize,
    spans: Vec<Span>,
    /// Where the spans of each axis end.
    ends: Vec<usize>,
    /// The spans of the current piece, one number for each axis.
    at: Vec<usize>,
}

impl Product {
    /// Number of axes of the row.
    pub(crate) fn axes(&self) -> usize {
        self.ends.len()
    }

    /// The spans of an axis, at least one.
    pub(crate) fn axis(&self, axis: usize) -> &[Span] {
        let start = axis.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.spans[start..self.ends[axis]]
    }
}

/// Buffers for the pieces of a row, reused from row to row.
#[derive(Debug, Default)]
pub(crate) struct PieceBuffers {
    pub(crate) piece: Piece,
    pub(crate) product: Product,
}

impl PieceBuffers {
    /// Bytes of memory that the lists take which grow with rows.
    pub(crate) fn bytes(&self) -> usize {
        self.product.spans.capacity() * size_of::<Span>()
    }
}

/// One axis of a [`Piece`], in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// What the first position adds to the piece's place in the read chunk.
    pub(crate) source: usize,
    /// Distance of neighbours in the read chunk.
    pub(crate) stride: isize,
    /// The first position in the row.
    pub(crate) target: usize,
    /// Number of positions; `target + len` is at most `row_len`.
    pub(crate) len: usize,
    /// Number of positions in the row.
    pub(crate) row_len: usize,
}

#[cfg(test)]
#[path = "tiling_tests.rs"]
mod tests;
