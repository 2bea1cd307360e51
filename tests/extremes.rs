//! Selections at the ends of what numbers and arrays there are: huge shapes, bounds and steps at the ends of 64 bits, axes
//! without elements, as many axes as there may be, results of more than 2^31 elements.

mod common;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array as _, AsArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{UInt8Type, UInt16Type};
use serde_json::json;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{
    Array, ElementType, ErrorKind, Indexing, Indices, Item, Mask, MissingChunks, OutOfBounds, Points, ReadOptions,
    Selections,
};

use crate::common::meaning::{self, Row};
use crate::common::{self as lib, Bits, assert_error};

const POLICIES: [OutOfBounds; 4] = [OutOfBounds::Error, OutOfBounds::Clip, OutOfBounds::Fill, OutOfBounds::Null];

/// An array of bytes without chunks.
fn bytes(shape: &[u64], chunk: &[u64]) -> Array {
    lib::empty_array(shape, chunk, "uint8", &json!([{"name": "bytes"}])).expect("array")
}

/// An array whose elements count up.
fn counting(shape: &[u64], chunk: &[u64]) -> Array {
    let store = Arc::new(MemoryStore::new());
    lib::counting_array(&store, "/a", shape, chunk, &[lib::bytes_codec()]);
    lib::open(&store, "/a").expect("array")
}

fn read(array: &Array, selections: &Selections) -> Vec<u16> {
    let ragged = array.read(selections, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    ragged.values().as_primitive::<UInt16Type>().values().to_vec()
}

fn slice(start: impl Into<Option<i64>>, stop: impl Into<Option<i64>>, step: i64) -> Item {
    Item::Slice { start: start.into(), stop: stop.into(), step }
}

#[test]
fn a_dozen_points_of_10_to_the_11_chunks_plan_at_once() {
    let (len, chunk) = (1_i64 << 60, 11_529_215_i64);
    assert!(len / chunk >= 100_000_000_000);
    let array = bytes(&[len as u64], &[chunk as u64]);
    let mut bits = Bits(5);
    let mut points: Vec<i64> = (0..12).map(|_| bits.below(len as u64) as i64).collect();
    points.extend([0, len - 1, -1, -len, chunk - 1, chunk, -len + chunk]);
    let chunks: BTreeSet<i64> = points.iter().map(|point| point.rem_euclid(len) / chunk).collect();
    let one_row = Item::from(Indices::new(points.clone()));
    let offsets: Vec<i64> = (0..=points.len() as i64).collect();
    let coordinates = Points::try_new(vec![points.clone().into()], vec![points.len()]).expect("points");
    let all_ways = [
        (Selections::items([[one_row.clone()]]), chunks.len()),
        (Selections::items([[one_row]]).with_indexing(Indexing::Pointwise), chunks.len()),
        (Selections::items([[Item::from(coordinates)]]), chunks.len()),
        (Selections::items(points.iter().map(|&point| [Item::Index(point)])), points.len()),
        (Selections::indices(offsets, points.clone()).expect("lists"), points.len()),
        (
            Selections::windows(points.iter().map(|point| point.rem_euclid(len)).collect::<Vec<_>>(), &[1])
                .expect("ones"),
            points.len(),
        ),
    ];
    for (selections, pieces) in all_ways {
        let began = Instant::now();
        let plan = array.plan(&selections).expect("plan");
        let time = began.elapsed();
        assert_eq!((plan.pieces(), plan.read_chunks()), (pieces, chunks.len()));
        assert_eq!((plan.bytes_out(), plan.layout().elements()), (points.len() as u64, points.len()));
        // A table of all read chunks would take minutes, and more memory than there is.
        assert!(time < Duration::from_secs(1), "{time:?}");
        assert_eq!(plan.read(&ReadOptions::default()).expect("fill values").stats().chunks_missing, chunks.len());
    }
    // Steps from chunk to chunk, either way, cost what they take, not what they leap over.
    for (items, elements, chunks) in [
        (slice(None, None, 1 << 57), 8, 8),
        (slice(None, None, -(1 << 57)), 8, 8),
        (slice(None, None, i64::MAX), 1, 1),
        (slice(None, None, i64::MIN), 1, 1),
        (slice(-1, -chunk * 2, 1 - chunk), 3, 3),
        (slice(len - 5, i64::MAX, 2), 3, 1),
    ] {
        let plan = array.plan(&Selections::items([[items.clone()]])).expect("plan");
        assert_eq!((plan.layout().elements(), plan.read_chunks()), (elements, chunks), "{items:?}");
    }
    // Two axes as long: of a row of points, one read chunk each.
    let array = bytes(&[1 << 40, 1 << 40], &[1 << 20, 1 << 21]);
    let corner = vec![0, -1, 1 << 39, 0];
    let points = Points::try_new(vec![corner.clone().into(), corner.into()], vec![2, 2]).expect("points");
    let plan = array.plan(&Selections::items([[Item::from(points)]])).expect("plan");
    assert_eq!((plan.pieces(), plan.read_chunks()), (3, 3));
}

/// Bounds and steps near the ends of 64 bits, and near the array.
fn extremes(len: i64) -> Vec<i64> {
    let mut all = vec![i64::MIN, i64::MIN + 1, i64::MIN + 2, -len - 1, -len, -2, -1, 0, 1, 2];
    all.extend([len - 1, len, len + 1, i64::MAX - 2, i64::MAX - 1, i64::MAX]);
    all.sort_unstable();
    all.dedup();
    all
}

/// The values of rows of a counting array of one axis.
fn values(rows: &[Row]) -> Vec<u16> {
    rows.iter().flat_map(|row| &row.cells).map(|cell| cell.as_ref().map_or(0, |at| at[0] as u16)).collect()
}

#[test]
fn slices_at_the_ends_of_64_bits() {
    for len in [0, 1, 2, 10] {
        let array = counting(&[len as u64], &[3]);
        let bounds: Vec<Option<i64>> = extremes(len).into_iter().map(Some).chain([None]).collect();
        let steps: Vec<i64> = extremes(len).into_iter().filter(|&step| step != 0).chain([3, -3]).collect();
        let mut items = Vec::new();
        let mut rows = Vec::new();
        for &step in &steps {
            for &start in &bounds {
                for &stop in &bounds {
                    items.push([slice(start, stop, step)]);
                    let cells = meaning::slice(start, stop, step, len as u64).into_iter().map(|at| Some(vec![at]));
                    rows.push(Row { extents: vec![], cells: cells.collect() });
                }
            }
        }
        let plan = array.plan(&Selections::items(&items)).expect("plan");
        for (row, (items, expected)) in items.iter().zip(&rows).enumerate() {
            assert_eq!(plan.selections().extents(row), [expected.cells.len() as u64], "{items:?} of {len}");
        }
        assert_eq!(read(&array, &Selections::items(&items)), values(&rows));
    }
}

#[test]
fn ranges_at_the_ends_of_64_bits() {
    for len in [0_i64, 1, 10] {
        let array = counting(&[len as u64], &[3]);
        for policy in POLICIES {
            let steps: Vec<i64> = extremes(len).into_iter().filter(|&step| step != 0).chain([3, 7, -7]).collect();
            let steps = if policy == OutOfBounds::Error || policy == OutOfBounds::Clip { steps } else { vec![1] };
            let (mut bounds, mut rows) = (Vec::new(), Vec::new());
            for step in steps {
                for start in extremes(len) {
                    for stop in extremes(len) {
                        let padded = matches!(policy, OutOfBounds::Fill | OutOfBounds::Null);
                        // Too long to be padded: refused one by one.
                        let many = padded && start <= stop && stop.checked_sub(start).is_none_or(|len| len > 100);
                        let of = |bounds: [i64; 3]| meaning::of_bounds(&[bounds], 0, &[len as u64], policy);
                        match (!many).then(|| of([start, stop, step])).flatten() {
                            Some(row) => {
                                bounds.push([start, stop, step]);
                                rows.push(row);
                            }
                            None => refused(&array, [start, stop, step], policy),
                        }
                    }
                }
            }
            let column = |at: usize| bounds.iter().map(|bounds| bounds[at]).collect::<Vec<_>>();
            let ranges = Selections::ranges(column(0), column(1)).and_then(|ranges| ranges.with_steps(column(2)));
            let ranges = ranges.expect("ranges").with_out_of_bounds(policy);
            let plan = array.plan(&ranges).expect("plan");
            for (row, expected) in rows.iter().enumerate() {
                assert_eq!(plan.selections().extents(row), expected.extents, "{:?} of {len}, {policy:?}", bounds[row]);
            }
            // Beyond the array lies zero here.
            let options = ReadOptions::default().with_fill(Some(&[0; 2]));
            let ragged = array.read(&ranges, &options).expect("read");
            assert_eq!(ragged.values().as_primitive::<UInt16Type>().values()[..], values(&rows));
        }
    }
}

fn refused(array: &Array, [start, stop, step]: [i64; 3], policy: OutOfBounds) {
    let ranges = Selections::ranges(vec![0, start], vec![0, stop]).and_then(|ranges| ranges.with_steps(vec![1, step]));
    let ranges = ranges.expect("ranges").with_out_of_bounds(policy);
    let error = match array.plan(&ranges) {
        // Small enough to be planned on a machine that promises more memory than it has.
        Ok(plan) => return assert!(plan.bytes_out() > 100, "{start}..{stop} by {step}, {policy:?}"),
        Err(error) => error,
    };
    if error.kind() == ErrorKind::Selection {
        assert_eq!(error.selection(), Some(1), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{start}..{stop}")) && text.contains("axis 0"), "{text}");
        assert_error(&error, ErrorKind::Selection);
    } else {
        assert_error(&error, ErrorKind::Allocation);
    }
}

#[test]
fn windows_at_the_ends_of_64_bits() {
    let array = counting(&[10], &[3]);
    for (center, len) in [(i64::MIN, 2), (i64::MAX, 1), (i64::MAX, i64::MAX), (i64::MIN + 1, 5), (0, -1), (5, i64::MIN)]
    {
        let error = Selections::windows(vec![0, center], &[len]).expect_err("no such window");
        assert_error(&error, ErrorKind::Selection);
        assert!(error.to_string().contains(&len.to_string()), "{error}");
    }
    for center in [i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1, -1, 0, 5, 9, 10] {
        for len in [0, 1] {
            let Ok(window) = Selections::windows(vec![center], &[len]) else {
                assert_eq!((center, len), (i64::MAX, 1));
                continue;
            };
            let inside = (0..10).contains(&center);
            let clip = window.clone().with_out_of_bounds(OutOfBounds::Clip);
            assert_eq!(read(&array, &clip), if inside && len == 1 { vec![center as u16] } else { vec![] });
            let pad = window.with_out_of_bounds(OutOfBounds::Fill);
            assert_eq!(read(&array, &pad), vec![if inside { center as u16 } else { 9 }; len as usize]);
        }
    }
    assert_error(&Selections::windows(vec![1, 2, 3], &[2, 2]).expect_err("half a point"), ErrorKind::Selection);
    assert_error(&Selections::windows(vec![], &[]).expect_err("no axis"), ErrorKind::Selection);
}

#[test]
fn axes_without_elements() {
    for shape in [vec![0], vec![0, 3], vec![3, 0], vec![2, 0, 2]] {
        let chunk = vec![2; shape.len()];
        let array = counting(&shape, &chunk);
        let at = shape.iter().position(|&len| len == 0).expect("such an axis");
        let prefix = |item: Item| [vec![Item::FULL; at], vec![item]].concat();
        let mut extents: Vec<u64> = shape.clone();
        let mut check = |item: Item, len: Option<u64>, pointwise: bool| {
            let indexing = if pointwise { Indexing::Pointwise } else { Indexing::Orthogonal };
            let selections = Selections::items([prefix(item.clone()), prefix(item.clone())]).with_indexing(indexing);
            let plan = array.plan(&selections).unwrap_or_else(|error| panic!("{error}"));
            extents[at] = len.unwrap_or(0);
            assert_eq!(plan.selections().extents(1), extents, "{item:?} of {shape:?}");
            assert_eq!((plan.read_chunks(), plan.pieces(), plan.layout().elements()), (0, 0, 0));
            let ragged = plan.read(&ReadOptions::default()).expect("nothing");
            assert_eq!((ragged.len(), ragged.values().len(), ragged.offsets().len()), (2, 0, shape.len()));
        };
        for pointwise in [false, true] {
            for step in [1, -1, i64::MIN, i64::MAX] {
                for bound in [None, Some(0), Some(-1), Some(5), Some(i64::MIN), Some(i64::MAX)] {
                    check(slice(bound, None, step), None, pointwise);
                    check(slice(None, bound, step), None, pointwise);
                }
            }
            check(Indices::new(Vec::<i64>::new()).into(), None, pointwise);
            check(Mask::new(BooleanBuffer::new_set(0)).into(), None, pointwise);
            check(Points::try_new(vec![vec![].into()], vec![0]).expect("no points").into(), None, pointwise);
        }
        for item in [Item::Index(0), Item::Index(-1), Indices::new(vec![0]).into(), Indices::new(vec![-1]).into()] {
            let error =
                array.plan(&Selections::items([prefix(slice(None, None, 1)), prefix(item)])).expect_err("empty");
            assert_error(&error, ErrorKind::Selection);
            assert_eq!(error.selection(), Some(1), "{error}");
            assert!(error.to_string().contains(&format!("axis {at}")), "{error}");
        }
        // All that lies around nothing.
        let window = Selections::windows(vec![0, 7], &[4]).expect("windows").with_first_axis(at);
        let others: usize = shape.iter().filter(|&&len| len > 0).product::<u64>() as usize;
        for policy in POLICIES {
            let read = array.read(&window.clone().with_out_of_bounds(policy), &ReadOptions::default());
            if policy == OutOfBounds::Error {
                assert_error(&read.expect_err("beyond"), ErrorKind::Selection);
                continue;
            }
            let values = read.expect("read").values().clone();
            let expected = if policy == OutOfBounds::Clip { 0 } else { 8 * others };
            assert_eq!(
                (values.len(), values.null_count()),
                (expected, if policy == OutOfBounds::Null { expected } else { 0 })
            );
            let filled =
                policy == OutOfBounds::Fill && values.as_primitive::<UInt16Type>().values().iter().any(|&v| v != 9);
            assert!(!filled);
        }
    }
}

#[test]
fn arrays_of_as_many_axes_as_there_may_be() {
    let mut shape = vec![1; 64];
    (shape[0], shape[20], shape[63]) = (2, 3, 5);
    let mut chunk = vec![1; 64];
    chunk[63] = 2;
    let array = counting(&shape, &chunk);
    let all: Vec<u16> = (0..30).collect();
    assert_eq!(read(&array, &Selections::items([[Item::Ellipsis]])), all);
    let reversed: Vec<u16> = (0..30).rev().collect();
    let backwards = slice(None, None, -1);
    assert_eq!(read(&array, &Selections::items([vec![backwards.clone(); 64]])), reversed);
    assert_eq!(read(&array, &Selections::items([vec![Item::Index(-1); 64]])), [29]);
    let last = [Item::Ellipsis, Indices::new(vec![4, 0, -1]).into()];
    let expected: Vec<u16> = (0..6).flat_map(|row| [4, 0, 4].map(|at| row * 5 + at)).collect();
    for indexing in [Indexing::Orthogonal, Indexing::Pointwise] {
        assert_eq!(read(&array, &Selections::items([last.clone()]).with_indexing(indexing)), expected);
    }
    let mut mask = vec![false; 30];
    (mask[3], mask[29]) = (true, true);
    let of = shape.iter().map(|&len| len as usize).collect();
    let mask = Mask::try_new(BooleanBuffer::from(mask), of).expect("a mask");
    assert_eq!(read(&array, &Selections::items([[Item::from(mask)]])), [3, 29]);
    let coordinates: Vec<_> = (0..64).map(|axis| vec![i64::from(axis == 0), -1].into()).collect();
    let points = Points::try_new(coordinates, vec![2]).expect("points");
    assert_eq!(read(&array, &Selections::items([[Item::from(points)]])), [15, 29]);
    let boxes = |step: i64| {
        let starts = shape.iter().map(|&len| if step > 0 { 0 } else { len as i64 - 1 }).collect::<Vec<_>>();
        let stops = shape.iter().map(|&len| if step > 0 { len as i64 } else { -1 }).collect::<Vec<_>>();
        Selections::boxes(64, starts, stops).expect("boxes").with_steps(vec![step; 64]).expect("steps")
    };
    assert_eq!(read(&array, &boxes(1)), all);
    assert_eq!(read(&array, &boxes(-1)), reversed);
    let window = Selections::windows(vec![0, 4], &[2]).expect("windows").with_first_axis(63);
    assert_eq!(read(&array, &window.clone().with_out_of_bounds(OutOfBounds::Fill))[..4], [9, 0, 9, 5]);
    let lists = Selections::indices(vec![0, 1, 3], vec![4, 0, 1]).expect("lists").with_first_axis(63);
    assert_eq!(read(&array, &lists)[..2], [4, 9]);

    // One more, of the array or of a row.
    let error = bytes(&[1; 65], &[1; 65]).plan(&Selections::items([[Item::Ellipsis]])).expect_err("65 axes");
    assert_error(&error, ErrorKind::Unsupported);
    for items in [vec![Item::NewAxis], vec![Item::NewAxis; 1_000_000]] {
        let error = array.plan(&Selections::items([vec![Item::Ellipsis], items])).expect_err("more than 64 axes");
        assert_eq!(error.selection(), Some(1), "{error}");
        assert_error(&error, ErrorKind::Selection);
    }
    let deep = Indices::try_new(vec![0], vec![1; 65]).expect("indices");
    let deep = Selections::items([[Item::from(deep)]]).with_indexing(Indexing::Pointwise);
    assert_error(&counting(&[3], &[2]).plan(&deep).expect_err("65 axes"), ErrorKind::Selection);
    // As many as there may be, out of thin air.
    let array = counting(&[3], &[2]);
    let ragged = array.read(&Selections::items([vec![Item::NewAxis; 63]]), &ReadOptions::default()).expect("read");
    assert_eq!((ragged.offsets().len(), ragged.offsets()[63].last()), (64, Some(&3)));
    ragged.into_array().to_data().validate_full().expect("valid Arrow");
}

/// The lists that a null row does not have cost nothing, however long the axes are.
#[test]
fn null_rows_of_huge_arrays() {
    let array = bytes(&[1 << 40, 1 << 20], &[1 << 10, 1 << 10]);
    let nulls = Some(NullBuffer::from(vec![false, false]));
    let empty = NullBuffer::from(vec![false, true]);
    let any = &POLICIES[..];
    let ranges = |starts: Vec<i64>, stops: Vec<i64>| Selections::ranges(starts, stops).expect("ranges");
    for (selections, policies) in [
        (ranges(vec![5, i64::MIN], vec![1, i64::MAX]), any),
        (ranges(vec![5, i64::MIN], vec![1, i64::MAX]).with_first_axis(1), any),
        (Selections::windows(vec![i64::MIN + 2, 9], &[4]).expect("windows").with_first_axis(1), any),
        (Selections::indices(vec![0, 1, 2], vec![-1, i64::MAX]).expect("lists").with_first_axis(1), any),
        (ranges(vec![5, 3], vec![1, 1]).with_steps(vec![2, -2]).expect("steps"), &POLICIES[..2]),
        (Selections::items([vec![Item::Index(i64::MIN); 7], vec![Item::Ellipsis]]), any),
        (Selections::items([vec![Item::NewAxis; 200], vec![slice(None, None, 0)]]), any),
    ] {
        for &policy in policies {
            let selections = selections.clone().with_out_of_bounds(policy).with_nulls(nulls.clone()).expect("nulls");
            let plan = array.plan(&selections).unwrap_or_else(|error| panic!("{error}: {selections:?}"));
            assert_eq!((plan.rows(), plan.pieces(), plan.layout().elements()), (2, 0, 0));
            assert_eq!(plan.selections().extents(0), [0, 0]);
            assert_eq!(plan.layout().lists(), [2, 0]);
            let lists = plan.read(&ReadOptions::default()).expect("null rows").into_array();
            assert_eq!((lists.len(), lists.null_count()), (2, 2));
        }
    }
    // One that is null, beside one that is not.
    let beside = Selections::ranges(vec![0, 3], vec![0, 3]).expect("ranges").with_nulls(Some(empty)).expect("nulls");
    let lists = array.read(&beside, &ReadOptions::default()).expect("read").into_array();
    assert_eq!((lists.is_null(0), lists.is_valid(1), lists.as_list::<i64>().value_length(1)), (true, true, 0));
}

/// Rows of an array without axes have one element each, null rows too; with a new axis, null rows have none.
#[test]
fn arrays_without_axes() {
    let store = Arc::new(MemoryStore::new());
    lib::counting_array(&store, "/a", &[], &[], &[lib::bytes_codec()]);
    let array = lib::open(&store, "/a").expect("array");
    let nulls = NullBuffer::from(vec![true, false, true]);
    let rows =
        |items: &[Item]| Selections::items(vec![items.to_vec(); 3]).with_nulls(Some(nulls.clone())).expect("nulls");
    for items in [vec![], vec![Item::Ellipsis]] {
        let ragged = array.read(&rows(&items), &ReadOptions::default()).expect("read");
        assert_eq!((ragged.stats().pieces, ragged.stats().chunks_decoded), (2, 1));
        let values = ragged.into_array();
        assert_eq!((values.nulls(), values.as_primitive::<UInt16Type>().values()), (Some(&nulls), &vec![0; 3].into()));
    }
    for items in [vec![Item::NewAxis], vec![Item::NewAxis, Item::Ellipsis, Item::NewAxis]] {
        let ragged = array.read(&rows(&items), &ReadOptions::default()).expect("read");
        assert_eq!((ragged.values().len(), ragged.offsets().len()), (2, items.len().min(2)));
        assert_eq!(ragged.into_array().nulls(), Some(&nulls));
    }
    let error = array.plan(&Selections::ranges(vec![0], vec![1]).expect("ranges")).expect_err("no axis");
    assert_error(&error, ErrorKind::Selection);
}

/// What points broadcast to is counted before it is made.
#[test]
fn points_that_broadcast_beyond_all_memory() {
    let axes = 6;
    let array = bytes(&[2; 6], &[1; 6]);
    let along = |axis: usize, len: usize| {
        let mut shape = vec![1; axes];
        shape[axis] = len;
        Item::from(Indices::try_new(vec![0; len], shape).expect("indices"))
    };
    // 2^66 points, and 2^48.
    for len in [1 << 11, 1 << 8] {
        let row: Vec<Item> = (0..axes).map(|axis| along(axis, len)).collect();
        let error = array.plan(&Selections::items([row]).with_indexing(Indexing::Pointwise)).expect_err("too many");
        assert_error(&error, ErrorKind::Allocation);
        assert_eq!(error.selection(), Some(0), "{error}");
    }
}

/// A fill value that is zero is written where another was before, around the array.
#[test]
fn missing_chunks_in_padded_rows() {
    let array = bytes(&[4], &[2]);
    let window = Selections::windows(vec![2], &[8]).expect("windows").with_out_of_bounds(OutOfBounds::Fill);
    for missing in [MissingChunks::Fill, MissingChunks::Null] {
        let options = ReadOptions::default().with_fill(Some(&[7])).with_missing_chunks(missing);
        let ragged = array.read(&window, &options).expect("read");
        assert_eq!(ragged.values().as_primitive::<UInt8Type>().values()[..], [7, 7, 0, 0, 0, 0, 7, 7]);
        assert_eq!(ragged.values().null_count(), if missing == MissingChunks::Null { 4 } else { 0 });
    }
}

/// Memory of earlier results shows nowhere: not in null rows, nor beyond the array, nor where chunks are missing.
#[test]
fn results_in_memory_that_was_used_before() {
    const ROWS: usize = 600_000;
    let junk = Arc::new(MemoryStore::new());
    lib::create(&junk, "/a", &[2000], &[2000], &ElementType::UInt8, &[0xee], &[json!({"name": "bytes"})]);
    let junk = lib::open(&junk, "/a").expect("array");
    let used = |len: usize| {
        let all = Selections::items(vec![[Item::slice(None, len.min(2000) as i64)]; len.div_ceil(2000)]);
        let ragged = junk.read(&all, &ReadOptions::default()).expect("junk");
        assert!(ragged.values().as_primitive::<UInt8Type>().values().iter().all(|&value| value == 0xee));
    };
    let array = bytes(&[2000], &[100]);
    let nulls = Some((0..ROWS).map(|row| row % 3 == 0).collect::<NullBuffer>());
    let elements = Selections::items((0..ROWS).map(|row| [Item::Index(row as i64 % 2000)])).with_nulls(nulls);
    let points = Indices::new((0..ROWS as i64).map(|at| at * 7 % 2000).collect::<Vec<_>>());
    let starts: Vec<i64> = (0..300).map(|row| row * 13 - 1000).collect();
    let stops: Vec<i64> = starts.iter().map(|start| start + 2000).collect();
    let windows = Selections::ranges(starts, stops).expect("windows");
    for (selections, policies) in [
        (elements.expect("nulls"), &POLICIES[..1]),
        (Selections::items([[Item::from(points)]]), &POLICIES[..1]),
        (windows, &POLICIES[1..]),
    ] {
        for (&policy, missing) in
            policies.iter().flat_map(|policy| [(policy, MissingChunks::Fill), (policy, MissingChunks::Null)])
        {
            let selections = selections.clone().with_out_of_bounds(policy);
            used(array.plan(&selections).expect("plan").layout().elements());
            let options = ReadOptions::default().with_missing_chunks(missing);
            let ragged = array.read(&selections, &options).expect("zeros");
            assert!(ragged.values().len() > 1 << 18, "of pages of its own");
            let values = ragged.values().as_primitive::<UInt8Type>().values();
            assert!(values.iter().all(|&value| value == 0), "{policy:?}, {missing:?}");
        }
    }
}

/// An array without chunks, of more than 2^31 bytes of 7.
fn sevens(shape: &[u64], chunk: &[u64]) -> Array {
    let store = Arc::new(MemoryStore::new());
    lib::create(&store, "/a", shape, chunk, &ElementType::UInt8, &[7], &[json!({"name": "bytes"})]);
    lib::open(&store, "/a").expect("array")
}

#[test]
#[ignore = "takes 2.2 GiB of memory"]
fn more_than_2_to_the_31_elements() {
    let array = sevens(&[3, 1 << 40], &[3, 1 << 24]);
    let wanted = (1_i64 << 31) / 3 + 5_000_000;
    let half = wanted / 2;
    let far = 1 << 39;
    // Boxes, and the same by steps, beside an empty row, or one of one index, and one of two.
    let ranges = Selections::ranges(vec![far, 7, far + half, 5], vec![far + half, 7, far + wanted, 7]);
    let starts = vec![far + half - 1, 7, far + wanted - 1, 5];
    let steps = Selections::ranges(starts, vec![far - 1, 6, far + half - 1, 7]);
    let steps = steps.and_then(|steps| steps.with_steps(vec![-1, -2, -1, 1]));
    for (selections, second) in [(ranges, 0), (steps, 1)] {
        let selections = selections.expect("ranges").with_first_axis(1);
        let began = Instant::now();
        let plan = array.plan(&selections).expect("plan");
        let planned = began.elapsed();
        let ragged = plan.read(&ReadOptions::default()).expect("read");
        println!("{} elements: planned in {planned:?}, read in {:?}", ragged.values().len(), ragged.stats().read_time);
        assert!(ragged.values().len() > 1 << 31);
        let lengths = [half, second, wanted - half, 2];
        let mut ends = vec![0];
        ends.extend(lengths.iter().flat_map(|len| [len; 3]).scan(0, |end, len| {
            *end += len;
            Some(*end)
        }));
        assert_eq!((&ragged.offsets()[0][..], &ragged.offsets()[1][..]), (&[0, 3, 6, 9, 12][..], &ends[..]));
        assert_eq!(ragged.values().len() as i64, ends[12]);
        assert!(ragged.values().as_primitive::<UInt8Type>().values().iter().all(|&value| value == 7));
        let rows = ragged.into_array();
        let last = rows.as_list::<i64>().value(3);
        assert_eq!(last.as_list::<i64>().value(2).as_primitive::<UInt8Type>().values()[..], [7; 2]);
    }
}

/// Time that this process has had of the processors, where the system tells it.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        behind_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Plans, and says how long that took for each of `count`.
fn time(array: &Array, selections: &Selections, count: usize, name: &str) {
    let (began, busy) = (Instant::now(), processor_time());
    let plan = array.plan(black_box(selections)).expect("plan");
    let [wall, busy] = [began.elapsed(), processor_time().saturating_sub(busy)]
        .map(|time| time.as_secs_f64() * 1e9 / f64::from(count as u32));
    println!(
        "{count} {name}: {wall:.0} ns each, {busy:.0} ns of processors; {} pieces in {} read chunks",
        plan.pieces(),
        plan.read_chunks()
    );
}

/// Run by `cargo test --release --test extremes -- --ignored --nocapture planning`.
#[test]
#[ignore = "takes some gigabytes of memory, and says something in release mode only"]
fn planning_of_millions() {
    let mut bits = Bits(11);
    let count = 10_000_000;
    let line = bytes(&[1 << 33], &[1 << 16]);
    let mut starts: Vec<i64> = (0..count).map(|_| bits.below((1 << 33) - 200) as i64).collect();
    let lengths: Vec<i64> = (0..count).map(|_| 10 + bits.below(190) as i64).collect();
    let stops = |starts: &[i64]| starts.iter().zip(&lengths).map(|(start, len)| start + len).collect::<Vec<_>>();
    for order in ["shuffled", "sorted"] {
        let ranges = Selections::ranges(starts.clone(), stops(&starts)).expect("ranges");
        time(&line, &ranges, count, &format!("{order} ranges"));
        let steps = ranges.with_steps(vec![2; count]).expect("steps");
        time(&line, &steps, count, &format!("{order} ranges with steps"));
        starts.sort_unstable();
    }
    let indices: Vec<i64> = (0..count as i64 * 10).collect();
    let offsets: Vec<i64> = (0..=count as i64).map(|row| row * 10).collect();
    time(&line, &Selections::indices(offsets, indices).expect("lists"), count, "lists of ten indices in a run");
    for (name, stride) in [("sorted indices in a run", 1), ("sorted indices, every third", 3)] {
        let row = Indices::new((0..count as i64).map(|at| 1000 + at * stride).collect::<Vec<_>>());
        time(&line, &Selections::items([[Item::from(row)]]), count, name);
    }
    let mask = Mask::new((0..1 << 25).map(|at: u64| at % 64 < 32).collect());
    time(
        &bytes(&[1 << 25], &[1 << 16]),
        &Selections::items([[Item::from(mask)]]),
        1 << 25,
        "bits of a mask in runs of 32",
    );

    let (count, extents) = (1_000_000, [8, 16, 24]);
    let volume = bytes(&[1 << 12; 3], &[64; 3]);
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for _ in 0..count {
        for extent in extents {
            let start = bits.below((1 << 12) - extent) as i64;
            from.push(start);
            to.push(start + extent as i64);
        }
    }
    let boxes = Selections::boxes(3, from.clone(), to).expect("boxes");
    time(&volume, &boxes, count, "3-D boxes");
    time(&volume, &boxes.with_steps(vec![2; 3 * count]).expect("steps"), count, "3-D boxes with steps");
    let windows = Selections::windows(from, &[8, 16, 24]).expect("windows").with_out_of_bounds(OutOfBounds::Fill);
    time(&volume, &windows, count, "3-D windows, padded");
}
