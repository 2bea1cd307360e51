//! Elements of rows that lie beyond their array, and those of null rows: written before anything is read.

use std::borrow::Cow;

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

/// Fills the rows of `plan` that reach beyond their array, whole: what lies in the array is written over later.
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
        if is_null {
            let of = elements(row);
            bytes.fill(0);
            validity.clear(of.clone());
            set_inside(plan, row, of.start, validity);
        } else if !bytes.is_empty() {
            fill_run(bytes, &fill_value(selections.shapes().source(row)));
        }
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

/// Makes the elements of a row valid that lie in its array.
fn set_inside(plan: &Plan, row: usize, row_start: usize, validity: &Validity) {
    let BoundForm::Boxes(boxes) = plan.selections().form() else { return };
    let mut piece = Piece { row_start, spans: Vec::new() };
    for axis in 0..plan.ndim() {
        let side = boxes.side(row, axis);
        let len = (side.stop - side.start) as usize;
        if len == 0 {
            return;
        }
        let (target, row_len) = (side.before as usize, side.extent as usize);
        piece.spans.push(Span { source: 0, stride: 0, target, len, row_len });
    }
    let mut walk = Vec::new();
    if let Ok(run) = Run::of(&piece, 1, &mut walk) {
        for_each_run(run, &mut walk, |_, element| validity.set(element..element + run.len));
    }
}

#[cfg(test)]
#[path = "padding_tests.rs"]
mod tests;
