//! Pieces tile the output exactly once, read chunks occur once, and nothing lies out of bounds; or the plan is refused.

use std::num::NonZeroU64;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::*;
use crate::cancel::Cancel;
use crate::error::ErrorKind;
use crate::plan::blocks::Threads;
use crate::plan::grid::Grid;
use crate::plan::group::Groups;
use crate::plan::lengths::Lengths;
use crate::random::Bits;
use crate::selection::{BoundSelections, Indexing, Indices, Item, Mask, OutOfBounds, Selections, Shapes};

/// Any indices of an axis, some in runs.
fn indices(bits: &mut Bits, len: u64, count: u64) -> Vec<i64> {
    if len == 0 {
        return vec![];
    }
    let len = len as i64;
    let mut at = bits.between(-len, len - 1);
    let next = |_| {
        at = if bits.below(3) == 0 { bits.between(-len, len - 1) } else { (at + 1).min(len - 1) };
        at
    };
    (0..count).map(next).collect()
}

/// Most lists are short; long ones are kept in another way.
fn list_len(bits: &mut Bits) -> u64 {
    if bits.below(20) == 0 { 60 + bits.below(40) } else { bits.below(8) }
}

fn nonzero(lengths: &[u64]) -> Vec<NonZeroU64> {
    lengths.iter().map(|&len| NonZeroU64::new(len).unwrap()).collect()
}

/// Arrays of one rank: the shape of each, and the lengths of its read chunks along each axis.
struct Arrays {
    shapes: Vec<Vec<u64>>,
    chunks: Vec<Vec<Vec<u64>>>,
    grids: Vec<Grid>,
}

/// Lengths of read chunks that cover an axis, all the same or not, and of shards of them, in read chunks.
fn random_lengths(bits: &mut Bits, len: u64, longest: u64) -> (Vec<u64>, Lengths, Lengths) {
    let one = |len: u64| (nonzero(&[len])[0], NonZeroU64::MIN);
    let cut = |bits: &mut Bits, len: u64, longest: u64| {
        let equal = (bits.below(2) == 0).then(|| 1 + bits.below(longest));
        let (mut lengths, mut left) = (vec![], len);
        while left > 0 || lengths.is_empty() {
            let next = equal.unwrap_or_else(|| 1 + bits.below(longest));
            lengths.push(next);
            left = left.saturating_sub(next);
        }
        lengths
    };
    let chunks = cut(bits, len, longest / 2 + 1);
    let shards = cut(bits, chunks.len() as u64, 3);
    let lengths = |axis: u64, lengths: &[u64]| Lengths::new(axis, lengths.iter().map(|&len| one(len))).unwrap();
    let found = (lengths(len, &chunks), lengths(chunks.len() as u64, &shards));
    (chunks, found.0, found.1)
}

/// Number, first index and length of the read chunk that holds `index`.
fn of(lengths: &[u64], index: u64) -> (u64, u64, u64) {
    let mut start = 0;
    let number = lengths.iter().position(|len| {
        start += len;
        index < start
    });
    let number = number.expect("an index of the axis");
    (number as u64, start - lengths[number], lengths[number])
}

fn random_arrays(bits: &mut Bits) -> Arrays {
    let rank = bits.below(4) as usize;
    let longest = [0, 30, 9, 6][rank];
    let mut arrays = Arrays { shapes: vec![], chunks: vec![], grids: vec![] };
    for _ in 0..=bits.below(3) / 2 {
        let shape: Vec<u64> = (0..rank).map(|_| bits.below(longest + 1)).collect();
        let (mut all, mut chunks, mut shards) = (vec![], vec![], vec![]);
        for &len in &shape {
            let (lengths, chunk, in_shard) = random_lengths(bits, len, longest);
            all.push(lengths);
            chunks.push(chunk);
            shards.push(in_shard);
        }
        arrays.grids.push(Grid::with_lengths(&shape, chunks, shards).unwrap());
        arrays.shapes.push(shape);
        arrays.chunks.push(all);
    }
    arrays
}

/// Rows of every form.
fn random_selections(bits: &mut Bits, shapes: &Shapes, rows: usize) -> Selections {
    let rank = shapes.ndim();
    let policy = [OutOfBounds::Clip, OutOfBounds::Fill, OutOfBounds::Null][bits.below(3) as usize];
    match bits.below(5) {
        0 | 1 if rank > 0 => {
            let first = bits.below(rank as u64) as usize;
            let axes = 1 + bits.below((rank - first) as u64) as usize;
            let (mut starts, mut stops, mut steps) = (vec![], vec![], vec![]);
            for row in 0..rows {
                for &len in &shapes.of(row)[first..first + axes] {
                    let start = bits.between(-3, len as i64 + 3);
                    let len = bits.between(0, 9);
                    let (step, forth) = (bits.between(1, 4), bits.below(2) == 0);
                    starts.push(if forth { start } else { start + len - 1 });
                    stops.push(if forth { start + len } else { start - 1 });
                    steps.push(if forth { step } else { -step });
                }
            }
            let (stepped, boxes) = (bits.below(2) == 0, |starts, stops| Selections::boxes(axes, starts, stops));
            let boxes = if stepped {
                boxes(starts, stops).unwrap().with_steps(steps).unwrap().with_out_of_bounds(OutOfBounds::Clip)
            } else {
                let ordered = starts.iter().zip(&stops).map(|(&a, &b): (&i64, &i64)| (a.min(b), a.max(b)));
                let (starts, stops): (Vec<i64>, Vec<i64>) = ordered.unzip();
                boxes(starts, stops).unwrap().with_out_of_bounds(policy)
            };
            boxes.with_first_axis(first)
        }
        2 if rank > 0 => {
            let axis = bits.below(rank as u64) as usize;
            let (mut offsets, mut values) = (vec![0], vec![]);
            for row in 0..rows {
                let count = list_len(bits);
                values.extend(indices(bits, shapes.of(row)[axis], count));
                offsets.push(values.len() as i64);
            }
            Selections::indices(offsets, values).unwrap().with_first_axis(axis)
        }
        form => {
            // The axes that have index arrays, the same in all rows, so that these keep equally many.
            let listed = bits.below(1 << rank);
            let indexing = if form == 3 { Indexing::Orthogonal } else { Indexing::Pointwise };
            let mut all = Vec::new();
            for row in 0..rows {
                let shape = shapes.of(row);
                let lists = || (0..rank).filter(|axis| listed >> axis & 1 == 1);
                let count = if lists().any(|axis| shape[axis] == 0) { 0 } else { list_len(bits) };
                let mut items = vec![];
                for (axis, &len) in shape.iter().enumerate() {
                    items.push(if listed >> axis & 1 == 0 {
                        let bound = |bits: &mut Bits| Some(bits.between(-12, 12)).filter(|bound| *bound != 0);
                        let step = [1, 1, 2, 3, -1, -2][bits.below(6) as usize];
                        Item::Slice { start: bound(bits), stop: bound(bits), step }
                    } else if form == 3 && bits.below(3) == 0 {
                        Mask::new((0..len).map(|_| bits.below(2) == 0).collect::<BooleanBuffer>()).into()
                    } else {
                        Indices::new(indices(bits, len, count)).into()
                    });
                }
                items.insert(bits.below(rank as u64 + 1) as usize, Item::NewAxis);
                all.push(items);
            }
            Selections::items(all).with_indexing(indexing)
        }
    }
}

/// All positions below `lengths`, in C order.
fn positions(lengths: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &len in lengths {
        all = all.iter().flat_map(|at| (0..len).map(|i| [&at[..], &[i]].concat())).collect();
    }
    all
}

/// The element of its array that each element of the output is, by its coordinates; none beyond the array.
fn cells(bound: &BoundSelections) -> Vec<Option<Vec<u64>>> {
    let rank = bound.shapes().ndim();
    let mut cells = Vec::new();
    for row in 0..bound.len() {
        if bound.is_null(row) {
            cells.resize(cells.len() + usize::from(bound.levels() == 0), None);
            continue;
        }
        match bound.form() {
            BoundForm::Boxes(boxes) => {
                let sides: Vec<_> = (0..rank).map(|axis| boxes.side(row, axis)).collect();
                for at in positions(&sides.iter().map(|side| side.extent as usize).collect::<Vec<_>>()) {
                    let index = at.iter().zip(&sides).map(|(&at, side)| {
                        let index = (side.start + at as u64).checked_sub(side.before)?;
                        (side.start..side.stop).contains(&index).then_some(index)
                    });
                    cells.push(index.collect());
                }
            }
            BoundForm::Rows(rows) => {
                let axes = &rows.axes()[rows.of(row)];
                for at in positions(&axes.iter().map(Axis::len).collect::<Vec<_>>()) {
                    let mut cell = vec![0; rank];
                    for (axis, &position) in axes.iter().zip(&at) {
                        let of = match *axis {
                            Axis::Steps { axis, .. } => vec![axis],
                            Axis::Points { axes, .. } => ones(axes).collect(),
                        };
                        for number in of {
                            cell[number] = rows.index(axis, number, position);
                        }
                    }
                    cells.push(Some(cell));
                }
            }
        }
    }
    cells
}

/// Walks through every piece, and marks what it writes.
fn check(plan: &Plan, arrays: &Arrays) {
    let tiling = Tiling::check(plan, Threads::ONE).unwrap();
    let cells = cells(plan.selections());
    assert_eq!(cells.len(), plan.layout().elements());
    let mut written = vec![0; cells.len()];
    let (mut at, mut piece, mut pieces) = (ChunkAt::default(), PieceBuffers::default(), 0);
    for (source, part) in plan.parts().iter().enumerate() {
        let (chunks, groups) = (&arrays.chunks[source], part.groups());
        assert!(groups.chunks().is_sorted_by(|a, b| a < b), "a read chunk occurs twice");
        for (number, &key) in groups.chunks().iter().enumerate() {
            let mut index = Vec::new();
            part.grid().chunk_indices(key, &mut index);
            at.set(part, key, true);
            let shape: Vec<u64> = chunks.iter().zip(&index).map(|(lengths, &at)| lengths[at as usize]).collect();
            let strides: Vec<usize> =
                (0..shape.len()).map(|axis| shape[axis + 1..].iter().product::<u64>() as usize).collect();
            assert!(shape.iter().enumerate().all(|(axis, &len)| at.len(axis) == len));
            assert!(!groups.rows(number).is_empty());
            for &row in groups.rows(number) {
                assert_eq!(plan.selections().shapes().source(row as usize), source);
                pieces += 1;
                let visit = |piece: &Piece| {
                    let lengths: Vec<usize> = piece.spans.iter().map(|span| span.len).collect();
                    for places in positions(&lengths) {
                        let (mut from, mut to) = (0_isize, 0);
                        for (span, &place) in piece.spans.iter().zip(&places) {
                            from += span.source as isize + place as isize * span.stride;
                            assert!(span.target + place < span.row_len);
                            to = to * span.row_len + span.target + place;
                        }
                        let to = piece.row_start + to;
                        let cell = cells[to].as_ref().expect("an element of the array");
                        let own: Vec<u64> = cell.iter().zip(chunks).map(|(&at, lengths)| of(lengths, at).0).collect();
                        assert_eq!(own, index, "an element of another read chunk");
                        let local = cell
                            .iter()
                            .zip(chunks)
                            .zip(&strides)
                            .map(|((&at, lengths), stride)| (at - of(lengths, at).1) * *stride as u64);
                        assert_eq!(from as u64, local.sum::<u64>());
                        written[to] += 1;
                    }
                    assert!(lengths.iter().all(|&len| len > 0), "a piece of nothing");
                    Ok(())
                };
                tiling.for_each(row, &at, &strides, &mut piece, visit).unwrap();
            }
        }
    }
    assert_eq!(pieces, plan.pieces());
    for (times, cell) in written.iter().zip(&cells) {
        assert_eq!(*times, i32::from(cell.is_some()), "each element once");
    }
    assert_eq!(tiling.elements(), written.len() - cells.iter().filter(|cell| cell.is_none()).count());
}

/// Checks that two plans are the same.
fn assert_same(one: &Plan, other: &Plan) {
    assert_eq!(one.layout(), other.layout());
    assert!(one.parts().iter().map(Part::groups).eq(other.parts().iter().map(Part::groups)));
    let (Some(segments), Some(others)) = (one.segments(), other.segments()) else {
        return assert!(one.segments().is_none() && other.segments().is_none());
    };
    let BoundForm::Rows(rows) = one.selections().form() else { panic!("no rows") };
    for axis in 0..rows.axes().len() {
        let (mut keys, mut other_keys) = (vec![], vec![]);
        segments.keys(axis, &mut keys);
        others.keys(axis, &mut other_keys);
        assert_eq!(keys, other_keys);
        assert!(keys.iter().all(|&key| segments.with_key(axis, key) == others.with_key(axis, key)));
    }
}

#[test]
fn pieces_tile_the_output_exactly_once() {
    let mut bits = Bits(3);
    for number in 0..if cfg!(miri) { 25 } else { 10_000 } {
        let arrays = random_arrays(&mut bits);
        let rows = bits.below(7) as usize;
        let count = arrays.shapes.len() as u64;
        let sources = (count > 1).then(|| (0..rows).map(|_| bits.below(count) as u32).collect::<Arc<[u32]>>());
        let shapes = Shapes::new(arrays.shapes.clone(), sources).unwrap();
        let selections = random_selections(&mut bits, &shapes, rows);
        let nulls = (bits.below(3) == 0).then(|| (0..rows).map(|_| bits.below(4) > 0).collect::<Vec<bool>>());
        let selections = selections.with_nulls(nulls.map(NullBuffer::from)).unwrap();
        let bound = selections.bind_to(&shapes).unwrap_or_else(|error| panic!("{error}\n{selections:?}"));
        let plan = Plan::new(bound.clone(), arrays.grids.clone(), Some(1), Threads::ONE, &Cancel::default()).unwrap();
        check(&plan, &arrays);
        if number % 5 != 0 {
            continue;
        }
        let threads = Threads::exactly(2 + bits.below(6) as usize);
        let shared = Plan::new(bound, arrays.grids.clone(), Some(1), threads, &Cancel::default()).unwrap();
        assert_same(&plan, &shared);
        let elements = Tiling::check(&plan, Threads::ONE).unwrap().elements();
        assert_eq!(Tiling::check(&shared, threads).unwrap().elements(), elements);
    }
}

/// A plan of four rows of an array of 5 read chunks, of which the second is null.
fn plan_of(selections: Selections) -> Plan {
    let grid = Grid::new(&[10], &nonzero(&[2]), &nonzero(&[1])).unwrap();
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let bound = selections.with_nulls(Some(nulls)).unwrap().bind(&[10]).unwrap();
    Plan::new(bound, vec![grid], Some(1), Threads::ONE, &Cancel::default()).unwrap()
}

fn plans() -> [Plan; 2] {
    let boxes = Selections::ranges(vec![0, 0, 3, 9], vec![3, 0, 6, 10]).unwrap();
    let steps = boxes.clone().with_steps(vec![1, 1, 2, 1]).unwrap();
    [plan_of(boxes), plan_of(steps)]
}

#[track_caller]
fn assert_broken(plan: &Plan, why: &str) {
    for threads in [Threads::ONE, Threads::exactly(2), Threads::exactly(5)] {
        let error = Tiling::check(plan, threads).err().unwrap_or_else(|| panic!("'{why}' was not seen"));
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn plans_that_do_not_tile_are_refused() {
    for plan in plans() {
        assert_eq!(plan.parts()[0].groups().chunks(), [0, 1, 2, 4]);
        Tiling::check(&plan, Threads::ONE).unwrap();
        let with = |chunks: &[u64], offsets: &[usize], rows: &[u32]| {
            let mut plan = plan.clone();
            plan.parts[0].groups = Groups::unchecked(chunks.to_vec(), offsets.to_vec(), rows.to_vec());
            plan
        };
        assert_broken(&with(&[1, 1], &[0, 1, 2], &[0, 2]), "a read chunk occurs twice");
        let beyond = plan.parts()[0].grid().keys();
        assert_broken(&with(&[1, 1 + beyond], &[0, 1, 2], &[0, 2]), "a key of no read chunk");
        assert_broken(&with(&[2, 1], &[0, 1, 2], &[2, 0]), "a read chunk occurs twice");
        assert_broken(&with(&[1], &[0, 2], &[0, 0]), "serves a row twice");
        assert_broken(&with(&[1], &[0, 2], &[2, 0]), "serves a row twice");
        assert_broken(&with(&[1], &[0, 1], &[4]), "serves a row twice");
        assert_broken(&with(&[1], &[0, 1], &[u32::MAX]), "serves a row twice");
        assert_broken(&with(&[0, 1], &[0, 1, 3], &[0, 1, 2]), "serves a null row");
    }
    let [boxes, steps] = plans();
    for (mut plan, other) in [(boxes.clone(), &steps), (steps.clone(), &boxes)] {
        // The rows of another plan, which are of other lengths.
        plan.layout = other.layout.clone();
        assert_broken(&plan, "a row's span does not fit its axes");
        let fewer = Selections::ranges(vec![0], vec![3]).unwrap().bind(&[10]).unwrap();
        plan.layout = crate::plan::Layout::new(&fewer).unwrap();
        assert_broken(&plan, "not one span for each row");
    }
    // Segments that are missing, or of other rows.
    let mut plan = steps.clone();
    plan.segments = None;
    assert_broken(&plan, "a row's span does not fit its axes");
    let others = Selections::ranges(vec![0, 0, 2, 9], vec![3, 0, 3, 10]).unwrap().with_steps(vec![1, 1, 2, 1]).unwrap();
    plan.segments = plan_of(others).segments;
    assert_broken(&plan, "a row's span does not fit its axes");
}

#[test]
fn rows_of_another_array_are_refused() {
    let shapes = Shapes::new(vec![vec![10], vec![10]], Some(vec![0, 1].into())).unwrap();
    let grid = || Grid::new(&[10], &nonzero(&[2]), &nonzero(&[1])).unwrap();
    let bound = Selections::ranges(vec![0, 0], vec![4, 4]).unwrap().bind_to(&shapes).unwrap();
    let mut plan = Plan::new(bound, vec![grid(), grid()], Some(1), Threads::ONE, &Cancel::default()).unwrap();
    Tiling::check(&plan, Threads::ONE).unwrap();
    plan.parts.swap(0, 1);
    assert_broken(&plan, "a row of another array");
}

#[test]
fn rows_and_chunks_that_do_not_meet_have_no_piece() {
    for plan in plans() {
        let tiling = Tiling::check(&plan, Threads::ONE).unwrap();
        let (mut at, mut piece) = (ChunkAt::default(), PieceBuffers::default());
        for (key, row, meets) in
            [(0, 0, true), (2, 0, false), (4, 0, false), (0, 2, false), (4, 3, true), (3, 3, false)]
        {
            at.set(&plan.parts()[0], key, true);
            let mut elements = 0;
            let outcome = tiling.for_each(row, &at, &[1], &mut piece, |piece| {
                elements += piece.spans[0].len;
                Ok(())
            });
            assert_eq!(outcome.is_ok() && elements > 0, meets, "row {row} and read chunk {key}");
        }
    }
}
