//! The geometry of copies from many places of a read chunk, such as those of a list of indices: where single pieces cost
//! more than the bytes that they copy.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::tiling::{Product, Span};

/// What a row takes of a read chunk: the same hops from each place of its outer axes. In bytes.
#[derive(Debug, Default)]
pub(super) struct Hops {
    list: Vec<Hop>,
    /// Bytes of every hop, if they are all equally long.
    uniform: Option<usize>,
    /// Number of axes outside the one that the hops go along.
    outer: usize,
    /// Distance of neighbours in the output along each outer axis.
    target_strides: Vec<usize>,
    /// Bytes of one element.
    item: usize,
    /// Where the hops start in the read chunk and in the output, from the first place of the outer axes.
    source: usize,
    target: usize,
}

/// A contiguous run, relative to a place of the outer axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) len: usize,
}

/// What a product touches, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Touched {
    /// Of the read chunk, from the first byte to one past the last.
    pub(super) source: Range<usize>,
    /// One past the last byte of the output.
    pub(super) target_end: usize,
    /// How many bytes are copied.
    pub(super) bytes: usize,
}

impl Touched {
    /// What `product`, of elements of `item` bytes, touches: its corners, which are the extremes of each axis together.
    pub(super) fn of(product: &Product, item: usize) -> Result<Self> {
        Self::find(product, item).ok_or_else(|| Error::new(ErrorKind::Internal, "a piece overflows"))
    }

    fn find(product: &Product, item: usize) -> Option<Self> {
        let (mut low, mut high, mut target, mut elements, mut target_stride) = (0, 0, 0, 1, 1);
        for axis in (0..product.axes()).rev() {
            let spans = product.axis(axis);
            let (mut axis_low, mut axis_high, mut axis_target, mut positions) = (usize::MAX, 0, 0, 0);
            for span in spans {
                let last = span.len.checked_sub(1)?;
                let end = span.source.checked_add_signed(span.stride.checked_mul(isize::try_from(last).ok()?)?)?;
                axis_low = axis_low.min(span.source.min(end));
                axis_high = axis_high.max(span.source.max(end));
                axis_target = axis_target.max(span.target.checked_add(last)?);
                positions += span.len;
            }
            low = usize::checked_add(low, axis_low)?;
            high = usize::checked_add(high, axis_high)?;
            target = usize::checked_add(target, axis_target.checked_mul(target_stride)?)?;
            elements = usize::checked_mul(elements, positions)?;
            target_stride = target_stride.checked_mul(spans[0].row_len)?;
        }
        let target = product.row_start.checked_add(target)?;
        Some(Self {
            source: low.checked_mul(item)?..high.checked_add(1)?.checked_mul(item)?,
            target_end: target.checked_add(1)?.checked_mul(item)?,
            bytes: elements.checked_mul(item)?,
        })
    }
}

impl Hops {
    /// Finds the hops of `product`, which [`Touched::of`] has measured; `false` if it is better copied piece by piece.
    pub(super) fn set(&mut self, product: &Product, item: usize) -> bool {
        self.item = item;
        self.source = 0;
        self.target = product.row_start * item;
        self.target_strides.clear();
        let (mut run, mut target_stride, mut whole) = (item, item, true);
        let mut axis = product.axes();
        // Inner axes of one span that are one run, as in `Run::of`, or a single position.
        let inner = loop {
            let Some(next) = axis.checked_sub(1) else { return false };
            axis = next;
            let spans = product.axis(axis);
            let row_len = spans[0].row_len;
            let &[span] = spans else { break spans };
            if span.len > 1 {
                whole &= span.stride.wrapping_mul(item as isize) == run as isize && run == target_stride;
                if !whole {
                    return false;
                }
                run *= span.len;
            }
            self.source += span.source * item;
            self.target += span.target * target_stride;
            target_stride *= row_len;
        };
        self.make_list(inner, run, target_stride);
        self.outer = axis;
        target_stride *= inner[0].row_len;
        self.target_strides.resize(axis, 0);
        for outer in (0..axis).rev() {
            self.target_strides[outer] = target_stride;
            target_stride *= product.axis(outer)[0].row_len;
        }
        true
    }

    /// Lists the hops along an axis of runs of `run` bytes, which are `target_stride` apart in the output.
    fn make_list(&mut self, spans: &[Span], run: usize, target_stride: usize) {
        self.list.clear();
        for span in spans {
            let (source, target) = (span.source * self.item, span.target * target_stride);
            let stride = span.stride.wrapping_mul(self.item as isize);
            if span.len == 1 || (stride == run as isize && run == target_stride) {
                self.list.push(Hop { source, target, len: run * span.len });
            } else {
                let hop = |at: usize| Hop {
                    source: source.wrapping_add_signed(at as isize * stride),
                    target: target + at * target_stride,
                    len: run,
                };
                self.list.extend((0..span.len).map(hop));
            }
        }
        let first = self.list.first().map(|hop| hop.len);
        self.uniform = first.filter(|&len| self.list.iter().all(|hop| hop.len == len));
    }

    pub(super) fn list(&self) -> &[Hop] {
        &self.list
    }

    pub(super) fn uniform(&self) -> Option<usize> {
        self.uniform
    }

    /// Calls `visit(source, target)` with each place of the outer axes, from which the hops go.
    pub(super) fn for_each_place(&self, product: &Product, visit: &mut impl FnMut(usize, usize)) {
        self.descend(product, 0, self.source, self.target, visit);
    }

    fn descend(
        &self,
        product: &Product,
        axis: usize,
        source: usize,
        target: usize,
        visit: &mut impl FnMut(usize, usize),
    ) {
        if axis == self.outer {
            return visit(source, target);
        }
        for span in product.axis(axis) {
            let (stride, target_stride) = (span.stride.wrapping_mul(self.item as isize), self.target_strides[axis]);
            let mut source = source + span.source * self.item;
            let mut target = target + span.target * target_stride;
            for _ in 0..span.len {
                self.descend(product, axis + 1, source, target, visit);
                source = source.wrapping_add_signed(stride);
                target += target_stride;
            }
        }
    }
}
