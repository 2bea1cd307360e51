//! The proof that the pieces of a plan tile its output.

use super::segments::{Segment, ones};
use super::{Part, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::selection::BoundForm;
use crate::selection::boxes::Boxes;
use crate::selection::rows::{Axis, Rows};

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
    /// Checks `plan`, in time linear in its pieces and rows.
    pub(crate) fn check(plan: &'a Plan) -> Result<Self> {
        let broken = |what: &str| Error::new(ErrorKind::Internal, format!("broken plan: {what}"));
        let selections = plan.selections();
        let rows = selections.len();
        for (number, part) in plan.parts().iter().enumerate() {
            let groups = part.groups();
            if !groups.chunks().windows(2).all(|pair| pair[0] < pair[1]) {
                return Err(broken("a read chunk occurs twice"));
            }
            for chunk in 0..groups.chunks().len() {
                let served = groups.rows(chunk);
                if !served.windows(2).all(|pair| pair[0] < pair[1])
                    || served.last().is_some_and(|&row| row as usize >= rows)
                {
                    return Err(broken("a read chunk serves a row twice"));
                }
                if selections.nulls().is_some() && served.iter().any(|&row| selections.is_null(row as usize)) {
                    return Err(broken("a read chunk serves a null row"));
                }
                if plan.parts().len() > 1
                    && served.iter().any(|&row| selections.shapes().source(row as usize) != number)
                {
                    return Err(broken("a read chunk serves a row of another array"));
                }
            }
        }
        let starts = plan.layout().row_starts();
        if starts.len() != rows + 1 || starts[0] < 0 {
            return Err(broken("not one span for each row"));
        }
        if let Some(elements) = lines_fit(plan) {
            return Ok(Self { plan, elements });
        }
        let mut elements = 0;
        let mut seen = Vec::new();
        let mut padded = selections.padded().iter().peekable();
        for row in 0..rows {
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
            match inside {
                Some(inside) if inside == span || is_padded => elements += inside,
                _ => return Err(broken("a row's span does not fit its axes")),
            }
        }
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
            let found = segments.with_key(number, key);
            if found.is_empty() {
                return Err(apart());
            }
            for segment in found {
                product.spans.push(span(rows, axis, segment, chunk, strides).ok_or_else(apart)?);
            }
            product.ends.push(product.spans.len());
        }
        Ok(())
    }
}

fn apart() -> Error {
    Error::new(ErrorKind::Internal, "a row does not meet its read chunk")
}

/// The elements of all rows, where they are ranges of one axis in bounds and their spans fit; `None` elsewhere, which says
/// nothing against the plan.
fn lines_fit(plan: &Plan) -> Option<usize> {
    let BoundForm::Boxes(boxes) = plan.selections().form() else { return None };
    let (starts, stops) = boxes.first_axis()?;
    let unit = (1..plan.ndim()).try_fold(1_i64, |unit, axis| {
        unit.checked_mul(i64::try_from(plan.selections().shapes().common(axis)?).ok()?)
    })?;
    let rows = plan.layout().row_starts();
    let mut fit = plan.selections().nulls().is_none() && plan.selections().padded().is_empty();
    for ((start, stop), row) in starts.iter().zip(stops).zip(rows.windows(2)) {
        let (len, over) = (stop - start).overflowing_mul(unit);
        fit &= !over && len >= 0 && row[1].wrapping_sub(row[0]) == len && row[0] <= row[1];
    }
    fit.then_some((rows[rows.len() - 1] - rows[0]) as usize)
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
        return numbers.into_iter().all(|number| segments.of(number).is_empty()).then_some(0);
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
