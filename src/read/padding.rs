//! Elements of rows that lie beyond their array, and those of null rows: written before anything is read.

use std::borrow::Cow;

use super::run::{Run, for_each_run};
use super::scatter::fill_run;
use super::validity::Validity;
use crate::plan::Plan;
use crate::plan::tiling::{Piece, Span};
use crate::selection::{BoundForm, OutOfBounds};

/// Fills the rows of `plan` that reach beyond their array, whole: what lies in the array is written over later.
/// `fill_value` gives the bytes of one element, `item` of them, for an array of the plan.
pub(super) fn pad<'f>(
    plan: &Plan,
    output: &mut [u8],
    item: usize,
    validity: &Validity,
    fill_value: impl Fn(usize) -> Cow<'f, [u8]>,
) {
    let selections = plan.selections();
    let starts = plan.layout().row_starts();
    let elements = |row: usize| starts[row] as usize..starts[row + 1] as usize;
    let is_null = selections.out_of_bounds() == OutOfBounds::Null;
    for row in selections.padded().iter().map(|&row| row as usize) {
        let of = elements(row);
        let bytes = &mut output[of.start * item..of.end * item];
        if bytes.is_empty() {
            continue;
        }
        if is_null {
            bytes.fill(0);
            validity.clear(of.clone());
            set_inside(plan, row, of.start, validity);
        } else {
            fill_run(bytes, &fill_value(selections.shapes().source(row)));
        }
    }
    if let (Some(nulls), 0) = (selections.nulls(), selections.levels()) {
        for row in (0..selections.len()).filter(|&row| nulls.is_null(row)) {
            let of = elements(row);
            output[of.start * item..of.end * item].fill(0);
            validity.clear(of);
        }
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
