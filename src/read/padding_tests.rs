//! What lies beyond an array is filled or null, element by element, and nothing else is.

use std::num::NonZeroU64;
use std::sync::Arc;

use arrow_buffer::NullBuffer;

use super::*;
use crate::cancel::Cancel;
use crate::plan::blocks::Threads;
use crate::plan::grid::Grid;
use crate::selection::{Item, Selections, Shapes};

/// What is in the output before.
const JUNK: u8 = 0xee;

fn plan(shapes: &[&[u64]], sources: Option<&[u32]>, selections: &Selections) -> Plan {
    let grid = |shape: &&[u64]| {
        let ones = vec![NonZeroU64::MIN; shape.len()];
        Grid::new(shape, &vec![NonZeroU64::new(2).unwrap(); shape.len()], &ones).unwrap()
    };
    let all = shapes.iter().map(|shape| shape.to_vec()).collect();
    let bound = selections.bind_to(&Shapes::new(all, sources.map(Arc::from)).unwrap()).unwrap();
    Plan::new(bound, shapes.iter().map(grid).collect(), Some(2), Threads::ONE, &Cancel::default()).unwrap()
}

/// The output after padding, an entry of two bytes for each element, and which elements are null.
fn padded(plan: &Plan) -> (Vec<[u8; 2]>, Vec<bool>) {
    let elements = plan.layout().elements();
    let mut output = vec![JUNK; elements * 2];
    let validity = Validity::new(elements);
    let values = |source: usize| Cow::Owned(vec![1 + source as u8, 7]);
    pad(plan, &mut output, 2, &validity, &Cancel::default(), values).unwrap();
    let nulls = validity.into_nulls();
    let nulls = (0..elements).map(|at| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at))).collect();
    (output.as_chunks().0.to_vec(), nulls)
}

/// Calls `visit` with the indices of each element of windows of two axes, whether it lies in its array, and its place.
fn for_each(windows: &[[i64; 4]], shapes: &[[i64; 2]], mut visit: impl FnMut(usize, bool, usize)) {
    let mut place = 0;
    for (row, (&[y0, y1, x0, x1], &[height, width])) in windows.iter().zip(shapes).enumerate() {
        for (y, x) in (y0..y1).flat_map(|y| (x0..x1).map(move |x| (y, x))) {
            visit(row, (0..height).contains(&y) && (0..width).contains(&x), place);
            place += 1;
        }
    }
}

#[test]
fn windows_of_two_arrays() {
    let windows = [
        [0, 3, 0, 2],
        [-1, 2, -2, 3],
        [1, 5, 1, 2],
        [-4, -1, 0, 2],
        [0, 3, 2, 2],
        [2, 4, -1, 9],
        [-1, 1, 5, 7],
        [-2, 9, -2, 9],
        [1, 2, 1, 2],
        [9, 11, 9, 10],
    ];
    let shapes: [&[u64]; 2] = [&[3, 2], &[2, 6]];
    let sources: Vec<u32> = vec![0, 0, 0, 1, 0, 1, 1, 1, 0, 1];
    let of_row: Vec<[i64; 2]> = sources.iter().map(|&source| [[3, 2], [2, 6]][source as usize]).collect();
    let column = |at: usize| windows.iter().flat_map(|window| [window[at], window[at + 2]]).collect::<Vec<_>>();
    let boxes = Selections::boxes(2, column(0), column(1)).unwrap();
    for policy in [OutOfBounds::Fill, OutOfBounds::Null] {
        let plan = plan(&shapes, Some(&sources), &boxes.clone().with_out_of_bounds(policy));
        assert_eq!(plan.selections().padded(), [1, 2, 3, 5, 6, 7, 9]);
        let (output, nulls) = padded(&plan);
        let mut seen = 0;
        for_each(&windows, &of_row, |row, inside, place| {
            let is_null = policy == OutOfBounds::Null;
            assert_eq!(nulls[place], is_null && !inside, "row {row}, element {place}");
            if inside {
                assert_eq!(output[place], [JUNK; 2], "row {row}, element {place} is to be read");
            } else {
                let filled = if is_null { [0; 2] } else { [1 + sources[row] as u8, 7] };
                assert_eq!(output[place], filled, "row {row}, element {place}");
            }
            seen += 1;
        });
        assert_eq!(seen, output.len());
    }
    // Cut off, nothing is beyond.
    let plan = plan(&shapes, Some(&sources), &boxes.with_out_of_bounds(OutOfBounds::Clip));
    let (output, nulls) = padded(&plan);
    assert!(output.iter().all(|element| *element == [JUNK; 2]) && !nulls.contains(&true));
}

#[test]
fn null_rows_have_an_element_only_without_axes() {
    let valid = NullBuffer::from(vec![true, false, true, false]);
    let nulls = |selections: Selections| selections.with_nulls(Some(valid.clone())).unwrap();
    let (output, is_null) = padded(&plan(&[&[3]], None, &nulls(Selections::items(vec![[Item::Index(1)]; 4]))));
    assert_eq!(output, [[JUNK; 2], [0; 2], [JUNK; 2], [0; 2]]);
    assert_eq!(is_null, [false, true, false, true]);
    let (output, is_null) = padded(&plan(&[&[]], None, &nulls(Selections::items(vec![[Item::Ellipsis]; 4]))));
    assert_eq!((output[1], &is_null[..]), ([0; 2], &[false, true, false, true][..]));
    let ranges = Selections::ranges(vec![-1, -9, 2, 0], vec![1, 9, 2, 9]).unwrap();
    for (policy, beyond) in [(OutOfBounds::Fill, [1, 7]), (OutOfBounds::Null, [0, 0])] {
        let plan = plan(&[&[3]], None, &nulls(ranges.clone().with_out_of_bounds(policy)));
        let (output, is_null) = padded(&plan);
        assert_eq!((plan.layout().row_starts(), output[0]), (&[0, 2, 2, 2, 2][..], beyond));
        assert_eq!(is_null, [policy == OutOfBounds::Null, false]);
    }
}

/// An array without elements is all padding.
#[test]
fn windows_of_nothing() {
    let windows = Selections::windows(vec![0, 5], &[3]).unwrap().with_first_axis(1);
    for policy in [OutOfBounds::Fill, OutOfBounds::Null] {
        let (output, nulls) = padded(&plan(&[&[2, 0]], None, &windows.clone().with_out_of_bounds(policy)));
        let is_null = policy == OutOfBounds::Null;
        assert_eq!(output, vec![if is_null { [0; 2] } else { [1, 7] }; 12]);
        assert_eq!(nulls, vec![is_null; 12]);
    }
}
