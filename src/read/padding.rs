//! Elements of rows that lie beyond their array, and those of null rows: written before anything is read.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::run::{Run, for_each_run};
use super::scatter::fill_run;
use super::validity::Validity;
use crate::cancel::Cancel;
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::tiling::{Piece, Span};
use crate::selection::{BoundForm, OutOfBounds};

/// So many bytes take longer to fill than it takes to wake other threads.
const WORTH_SHARING: usize = 1 << 20;

/// Fills what the rows of `plan` have beyond their array, and nothing else: the rest is written by the read.
/// `fill_value` gives the bytes of one element, `item` of them, for an array of the plan. Many rows are filled by all
/// threads of the pool that this runs in.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) once the caller does not want it any more.
pub(super) fn pad<'f>(
    plan: &Plan,
    output: &mut [u8],
    item: usize,
    validity: &Validity,
    cancel: &Cancel,
    fill_value: impl Fn(usize) -> Cow<'f, [u8]> + Sync,
) -> Result<()> {
    let selections = plan.selections();
    let starts = plan.layout().row_starts();
    let elements = |row: usize| starts[row] as usize..starts[row + 1] as usize;
    let null_scalars = selections.nulls().filter(|_| selections.levels() == 0);
    let null_scalars = null_scalars.into_iter().flat_map(|nulls| {
        let is_null = move |row: &usize| nulls.is_null(*row);
        (0..selections.len()).filter(is_null)
    });
    for row in null_scalars {
        let of = elements(row);
        output[of.start * item..of.end * item].fill(0);
        validity.clear(of);
    }
    let is_null = selections.out_of_bounds() == OutOfBounds::Null;
    let fill = |row: usize, bytes: &mut [u8]| {
        let of = elements(row);
        if of.is_empty() {
            return;
        }
        let value = if is_null { Cow::Owned(vec![0; item]) } else { fill_value(selections.shapes().source(row)) };
        let mut done = of.start;
        let mut fill_up_to = |end: usize, next: usize| {
            if done < end {
                fill_run(&mut bytes[(done - of.start) * item..(end - of.start) * item], &value);
                if is_null {
                    validity.clear(done..end);
                }
            }
            done = next;
        };
        for_each_inside(plan, row, of.start, |inside| fill_up_to(inside.start, inside.end));
        fill_up_to(of.end, of.end);
    };
    // The bytes of each padded row, which ascend.
    let (mut rest, mut at) = (output, 0);
    let mut rows = Vec::with_capacity(selections.padded().len());
    for row in selections.padded().iter().map(|&row| row as usize) {
        let of = elements(row);
        let (_, after) = std::mem::take(&mut rest).split_at_mut(of.start * item - at);
        let (bytes, after) = after.split_at_mut(of.len() * item);
        (rest, at) = (after, of.end * item);
        rows.push((row, bytes));
    }
    let work = |(row, bytes): (usize, &mut [u8])| cancel.check().map(|()| fill(row, bytes));
    if rows.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < WORTH_SHARING {
        rows.into_iter().try_for_each(work)
    } else {
        rows.into_par_iter().try_for_each(work)
    }
}

/// Calls `visit` with the elements of a row that lie in its array: runs as long as can be, which ascend.
fn for_each_inside(plan: &Plan, row: usize, row_start: usize, mut visit: impl FnMut(Range<usize>)) {
    let BoundForm::Boxes(boxes) = plan.selections().form() else { return };
    let mut piece = Piece { row_start, spans: Vec::new() };
    // As if what is in the array lay there as it lies in the row.
    let mut stride = 1;
    for axis in (0..plan.ndim()).rev() {
        let side = boxes.side(row, axis);
        let len = (side.stop - side.start) as usize;
        if len == 0 {
            return;
        }
        let (target, row_len) = (side.before as usize, side.extent as usize);
        piece.spans.push(Span { source: 0, stride, target, len, row_len });
        stride *= row_len as isize;
    }
    piece.spans.reverse();
    let mut walk = Vec::new();
    if let Ok(run) = Run::of(&piece, 1, &mut walk) {
        for_each_run(run, &mut walk, |_, element| visit(element..element + run.len));
    }
}

#[cfg(test)]
#[path = "padding_tests.rs"]
mod tests;
