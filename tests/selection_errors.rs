//! Selections that are wrong: the error names the selection, or the arrays, says where, what was got and what was expected.

mod common;

use std::sync::Arc;

use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use serde_json::json;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{
    Array, ElementType, Error, ErrorKind, Indexing, Indices, Item, Mask, MissingChunks, OutOfBounds, Plan, Points,
    ReadOptions, Selections, read_ragged,
};

use crate::common::{self as lib, assert_error};

fn array(shape: &[u64], element: ElementType) -> Array {
    let store = Arc::new(MemoryStore::new());
    let chunk: Vec<u64> = shape.iter().map(|len| (*len).clamp(1, 4)).collect();
    lib::create(&store, "/a", shape, &chunk, element.clone(), &vec![0; element.size()], &[lib::bytes_codec()]);
    lib::open(&store, "/a").expect("array")
}

/// Asserts the kind, the selection, and that the message has these words, in this order.
#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, selection: Option<usize>, words: &[&str]) {
    assert_error(error, kind);
    let text = error.to_string();
    assert_eq!(error.selection(), selection, "{text}");
    let start = selection.map_or(String::new(), |row| format!("selection {row}: "));
    assert!(text.starts_with(&start), "{text}");
    let mut rest = &text[..];
    for word in words {
        let at = rest.find(word).unwrap_or_else(|| panic!("'{word}' is missing, or not where it should be: {text}"));
        rest = &rest[at + word.len()..];
    }
}

/// The error of the second of two selections, the first of which is right.
#[track_caller]
fn second(array: &Array, right: Item, wrong: Vec<Item>, indexing: Indexing) -> Error {
    let selections = Selections::items([vec![right], wrong]).with_indexing(indexing);
    array.plan(&selections).expect_err("a wrong selection")
}

fn mask(bits: usize, shape: &[usize]) -> Item {
    Mask::try_new(BooleanBuffer::new_set(bits), shape.to_vec()).expect("a mask").into()
}

fn indices(values: &[i64], shape: &[usize]) -> Item {
    Indices::try_new(values.to_vec(), shape.to_vec()).expect("indices").into()
}

fn points(coordinates: &[&[i64]]) -> Item {
    let columns = coordinates.iter().map(|values| values.to_vec().into()).collect();
    Points::try_new(columns, vec![coordinates[0].len()]).expect("points").into()
}

#[test]
fn items() {
    let array = array(&[10, 8, 3], ElementType::UInt16);
    for (wrong, words) in [
        // Masks of another length than their axes.
        (vec![mask(9, &[9])], &["mask of shape [9]", "axis 0", "expected shape [10]"][..]),
        (vec![mask(11, &[11])], &["mask of shape [11]", "axis 0", "expected shape [10]"]),
        (vec![mask(0, &[0])], &["mask of shape [0]", "axis 0", "expected shape [10]"]),
        (vec![Item::FULL, mask(10, &[10])], &["mask of shape [10]", "axis 1", "expected shape [8]"]),
        (vec![Item::Ellipsis, mask(4, &[4])], &["mask of shape [4]", "axis 2", "expected shape [3]"]),
        (vec![mask(80, &[8, 10])], &["mask of shape [8, 10]", "axis 0", "expected shape [10, 8]"]),
        (vec![Item::NewAxis, Item::FULL, mask(23, &[23, 1])], &["shape [23, 1]", "axis 1", "expected shape [8, 3]"]),
        // Indices beyond their axis.
        (vec![indices(&[0, 10], &[2])], &["index 10", "axis 0 of length 10", "expected -10 to 9"]),
        (vec![indices(&[-11, 0], &[2])], &["index -11", "axis 0 of length 10", "expected -10 to 9"]),
        (vec![Item::FULL, indices(&[i64::MIN], &[1])], &["index -9223372036854775808", "axis 1", "expected -8 to 7"]),
        (
            vec![Item::Ellipsis, indices(&[i64::MAX], &[1])],
            &["index 9223372036854775807", "axis 2", "expected -3 to 2"],
        ),
        (vec![Item::FULL, Item::NewAxis, Item::Index(8)], &["index 8", "axis 1 of length 8", "expected -8 to 7"]),
        (vec![Item::FULL, points(&[&[0, 7], &[2, 3]])], &["index 3", "axis 2 of length 3", "expected -3 to 2"]),
        (vec![points(&[&[0], &[-9]])], &["index -9", "axis 1 of length 8", "expected -8 to 7"]),
        // Slices that do not move.
        (vec![Item::Slice { start: None, stop: None, step: 0 }], &["step 0", "expected a step that is not 0"]),
        // More than the array has.
        (vec![Item::FULL; 4], &["4", "expected at most 3", "[10, 8, 3]"]),
        (vec![Item::FULL, Item::FULL, mask(24, &[8, 3])], &["4", "expected at most 3", "[10, 8, 3]"]),
        (vec![points(&[&[], &[], &[], &[]])], &["4", "expected at most 3", "[10, 8, 3]"]),
        (vec![Item::Ellipsis, Item::FULL, Item::Ellipsis], &["Ellipsis", "expected at most one"]),
        // Fewer or more axes than the first.
        (vec![Item::Index(0)], &["keeps 2 axes", "expected 3, as selection 0 keeps"]),
        (vec![Item::NewAxis], &["keeps 4 axes", "expected 3, as selection 0 keeps"]),
        (vec![mask(80, &[10, 8])], &["keeps 2 axes", "expected 3, as selection 0 keeps"]),
        (vec![Item::NewAxis; 62], &["keeps 65 axes", "expected at most 64"]),
    ] {
        for indexing in [Indexing::Orthogonal, Indexing::Pointwise] {
            let error = second(&array, Item::Ellipsis, wrong.clone(), indexing);
            assert_says(&error, ErrorKind::Selection, Some(1), words);
            assert_eq!(error.array(), Some("/a"));
            // As reads say it.
            let selections = Selections::items([vec![Item::Ellipsis], wrong.clone()]).with_indexing(indexing);
            let read = array.read(&selections, &ReadOptions::default()).expect_err("a wrong selection");
            assert_eq!(read.to_string(), error.to_string());
        }
    }
    let grid = vec![indices(&[0, 1, 2, 3], &[2, 2])];
    let error = second(&array, Item::Ellipsis, grid, Indexing::Orthogonal);
    assert_says(&error, ErrorKind::Selection, Some(1), &["shape [2, 2]", "axis 0", "expected", "of one axis"]);
    for (one, two) in [(vec![2], vec![3]), (vec![2, 1], vec![3, 3]), (vec![0], vec![2])] {
        let of = |shape: &[usize]| indices(&vec![0; shape.iter().product()], shape);
        let error = second(&array, Item::Ellipsis, vec![of(&one), of(&two)], Indexing::Pointwise);
        let shapes = [format!("{one:?}"), format!("{two:?}")];
        assert_says(&error, ErrorKind::Selection, Some(1), &[&shapes[0], &shapes[1], "expected", "broadcast"]);
    }
    // A mask counts its bits.
    let error = second(&array, Item::Ellipsis, vec![mask(10, &[10]), mask(8, &[8])], Indexing::Pointwise);
    assert_says(&error, ErrorKind::Selection, Some(1), &["[10]", "[8]", "broadcast"]);
}

#[test]
fn items_that_make_no_sense_alone() {
    let says = |error: Error, words: &[&str]| assert_says(&error, ErrorKind::Selection, None, words);
    says(Indices::try_new(vec![1, 2, 3], vec![2, 2]).expect_err("too few"), &["3 indices", "[2, 2]", "expected"]);
    says(Indices::try_new(vec![1], vec![0]).expect_err("too many"), &["1 indices", "[0]", "expected"]);
    says(Indices::try_new(vec![0; 4], vec![usize::MAX, usize::MAX]).expect_err("too few"), &["4 indices", "expected"]);
    says(Indices::try_new(Vec::<i64>::new(), vec![1 << 32, 1 << 32]).expect_err("too few"), &["0 indices", "expected"]);
    says(Mask::try_new(BooleanBuffer::new_set(5), vec![2, 3]).expect_err("too few"), &["5 bits", "[2, 3]", "expected"]);
    says(Mask::try_new(BooleanBuffer::new_set(1), vec![]).expect_err("no axis"), &["mask without axes", "expected"]);
    says(Points::try_new(vec![], vec![0]).expect_err("no axis"), &["points without axes", "expected"]);
    let uneven: Vec<ScalarBuffer<i64>> = vec![vec![1, 2].into(), vec![1].into()];
    says(Points::try_new(uneven, vec![2]).expect_err("uneven"), &["1 coordinates", "[2]", "expected"]);
}

#[test]
fn columns() {
    let ranges = |starts: &[i64], stops: &[i64]| Selections::ranges(starts.to_vec(), stops.to_vec());
    let says = |outcome: zarrow::Result<Selections>, selection: Option<usize>, words: &[&str]| {
        assert_says(&outcome.expect_err("no sense"), ErrorKind::Selection, selection, words);
    };
    says(ranges(&[1, 2], &[3]), None, &["2 starts and 1 stops", "expected"]);
    says(Selections::boxes(0, vec![], vec![]), None, &["zero axes", "expected at least one"]);
    says(Selections::boxes(2, vec![1; 3], vec![2; 3]), None, &["3 bounds", "2 axes", "expected a multiple of 2"]);
    says(Selections::rows(Vec::<i64>::new()), None, &["no offsets", "expected"]);
    says(Selections::indices(Vec::<i64>::new(), vec![1]), None, &["no offsets", "expected"]);
    says(Selections::indices(vec![0, 2, 1], vec![0; 3]), Some(1), &["offsets 2 and 1", "expected", "ascend"]);
    says(Selections::indices(vec![0, 1, 4], vec![0; 3]), Some(1), &["offsets 1 and 4", "expected", "at most 3"]);
    says(Selections::indices(vec![-1, 1], vec![0; 3]), Some(0), &["offsets -1 and 1", "expected", "0 or more"]);
    says(Selections::windows(vec![1; 4], &[2, -3]), None, &["length -3", "expected 0 or more"]);
    says(Selections::windows(vec![1, 1, i64::MIN, 1], &[2, 2]), Some(1), &["window of length 2", "expected"]);
    says(
        ranges(&[1], &[2]).and_then(|ranges| ranges.with_steps(vec![1, 1])),
        None,
        &["1 starts and 2 steps", "expected"],
    );
    says(
        Selections::boxes(2, vec![0; 6], vec![1; 6]).and_then(|boxes| boxes.with_steps(vec![1, 1, 1, 0, 1, 1])),
        Some(1),
        &["step 0", "expected a step that is not 0"],
    );
    says(Selections::items([[Item::FULL]]).with_steps(vec![1]), None, &["steps", "expected"]);
    says(
        ranges(&[1], &[2]).and_then(|ranges| ranges.with_nulls(Some(NullBuffer::new_null(2)))),
        None,
        &["1 rows and validity of 2", "expected"],
    );

    let array = array(&[10, 8], ElementType::UInt16);
    let says = |selections: zarrow::Result<Selections>, selection: Option<usize>, words: &[&str]| {
        let error = array.plan(&selections.expect("selections")).expect_err("a wrong selection");
        assert_says(&error, ErrorKind::Selection, selection, words);
        assert_eq!(error.array(), Some("/a"));
    };
    says(ranges(&[0, 5], &[10, 11]), Some(1), &["5..11", "axis 0 of length 10", "expected 0 <= start <= stop <= 10"]);
    says(ranges(&[0, -1], &[10, 5]), Some(1), &["-1..5", "axis 0 of length 10", "expected 0 <= start <= stop <= 10"]);
    says(ranges(&[0, 5], &[10, 4]), Some(1), &["5..4", "axis 0 of length 10", "expected", "start <= stop"]);
    let from = |axis: usize| ranges(&[0, 0], &[8, 9]).map(|ranges| ranges.with_first_axis(axis));
    says(from(1), Some(1), &["0..9", "axis 1 of length 8", "expected"]);
    says(from(2), None, &["axis 2", "expected an axis below 2", "[10, 8]"]);
    says(from(usize::MAX), None, &["axis", "expected an axis below 2", "[10, 8]"]);
    says(Selections::boxes(3, vec![0; 3], vec![1; 3]), None, &["3 axes", "expected at most 2", "[10, 8]"]);
    let list = |axis: usize| Selections::indices(vec![0, 1, 3], vec![7, 0, 8]).map(|lists| lists.with_first_axis(axis));
    says(list(1), Some(1), &["index 8", "axis 1 of length 8", "expected -8 to 7"]);
    says(list(2), None, &["axis 2", "expected an axis below 2", "[10, 8]"]);
    says(list(usize::MAX), None, &["axis", "expected an axis below 2", "[10, 8]"]);
    // Backwards, the bounds are in the other order.
    let steps = |start: i64, stop: i64, step: i64| ranges(&[0, start], &[1, stop])?.with_steps(vec![1, step]);
    says(steps(9, 11, 2), Some(1), &["9..11", "axis 0 of length 10", "expected 0 <= start <= stop <= 10"]);
    says(steps(3, 5, -1), Some(1), &["3..5 by -1", "axis 0 of length 10", "expected -1 <= stop <= start < 10"]);
    says(steps(10, 5, -1), Some(1), &["10..5 by -1", "axis 0 of length 10", "expected -1 <= stop <= start < 10"]);
    says(steps(5, -2, -3), Some(1), &["5..-2 by -3", "axis 0 of length 10", "expected -1 <= stop <= start < 10"]);
    let under = |selections: zarrow::Result<Selections>, policy| selections.map(|s| s.with_out_of_bounds(policy));
    for policy in [OutOfBounds::Clip, OutOfBounds::Fill, OutOfBounds::Null] {
        says(under(ranges(&[0, 5], &[99, 4]), policy), Some(1), &["5..4", "axis 0", "expected start <= stop"]);
    }
    for policy in [OutOfBounds::Fill, OutOfBounds::Null] {
        says(under(ranges(&[0, i64::MIN], &[9, 0]), policy), Some(1), &["..0 on axis 0", "expected", "2^63"]);
        says(under(steps(0, 5, 2), policy), None, &["steps", "padding", "expected"]);
    }
    says(under(steps(3, 5, -1), OutOfBounds::Clip), Some(1), &["3..5", "axis 0", "expected", "the step is negative"]);
}

#[test]
fn several_arrays() {
    let a = array(&[10, 8], ElementType::UInt16);
    let b = array(&[4, 8], ElementType::UInt16);
    let other_type = array(&[10, 8], ElementType::Float32);
    let other_rank = array(&[10], ElementType::UInt16);
    let ranges = Selections::ranges(vec![0, 5, 0], vec![4, 7, 1]).expect("ranges");
    let plan = |arrays: &[&Array], sources: Option<&[u32]>| {
        let arrays: Vec<Array> = arrays.iter().map(|&array| array.clone()).collect();
        let error = Plan::new(&arrays, sources, &ranges).expect_err("wrong");
        if let Some(sources) = sources {
            let read = read_ragged(&arrays, sources, &ranges, &ReadOptions::default()).expect_err("wrong");
            assert_eq!(read.to_string(), error.to_string());
        }
        error
    };
    let kind = ErrorKind::Selection;
    assert_says(&plan(&[], Some(&[])), kind, None, &["no arrays", "expected"]);
    assert_says(&plan(&[&a, &b], None), kind, None, &["2 arrays without sources", "expected"]);
    assert_says(&plan(&[&a, &b], Some(&[0, 0])), kind, None, &["3 selections and 2 sources", "expected"]);
    assert_says(&plan(&[&a, &b], Some(&[0, 2, 1])), kind, Some(1), &["source 2", "expected 0 to 1"]);
    assert_says(&plan(&[&a, &b], Some(&[0, u32::MAX, 1])), kind, Some(1), &["source 4294967295", "expected 0 to 1"]);
    assert_says(&plan(&[&a], Some(&[0, 0, 1])), kind, Some(2), &["source 1", "expected"]);
    assert_says(
        &plan(&[&a, &other_type], Some(&[0, 0, 0])),
        kind,
        None,
        &["uint16", "float32", "expected one data type"],
    );
    assert_says(
        &plan(&[&a, &other_rank], Some(&[0, 0, 0])),
        kind,
        None,
        &["[10, 8]", "[10]", "expected one number of axes"],
    );
    // The same range is in one array, and beyond the other.
    assert_says(&plan(&[&a, &b], Some(&[0, 1, 0])), kind, Some(1), &["5..7", "axis 0 of length 4", "expected"]);
    let arrays = [a, b];
    Plan::new(&arrays, Some(&[0, 0, 1]), &ranges).expect("a plan");
    for items in [vec![Item::Index(-5)], vec![indices(&[0, 4], &[2])], vec![mask(10, &[10])]] {
        let rows = Selections::items(vec![items; 2]);
        let error = Plan::new(&arrays, Some(&[0, 1]), &rows).expect_err("beyond the second");
        assert_says(&error, kind, Some(1), &["axis 0"]);
    }
}

#[test]
fn fills_of_another_size_and_missing_chunks() {
    let array = array(&[10], ElementType::UInt16);
    let ranges = Selections::ranges(vec![0, 8], vec![4, 9]).expect("ranges");
    for fill in [&[][..], &[1], &[1; 3], &[1; 16]] {
        let error = array.read(&ranges, &ReadOptions::default().with_fill(Some(fill))).expect_err("another size");
        assert_says(
            &error,
            ErrorKind::Selection,
            None,
            &[&format!("fill of {} bytes", fill.len()), "expected 2 bytes"],
        );
    }
    let options = ReadOptions::default().with_missing_chunks(MissingChunks::Error).with_threads(Some(1));
    let error = array.read(&ranges, &options).expect_err("missing");
    assert_says(&error, ErrorKind::NotFound, None, &["array '/a'", "key 'a/c/0'", "does not hold", "Write the chunk"]);
    assert_eq!((error.array(), error.key()), (Some("/a"), Some("a/c/0")));
    // Where nothing is asked of a chunk, it may be missing.
    let nothing = Selections::ranges(vec![3], vec![3]).expect("ranges");
    assert_eq!(array.read(&nothing, &options).expect("no chunk").values().len(), 0);
    let beyond = Selections::ranges(vec![10], vec![12]).expect("ranges").with_out_of_bounds(OutOfBounds::Fill);
    assert_eq!(array.read(&beyond, &options).expect("no chunk").values().len(), 2);
}

#[test]
fn columns_of_one_batch_that_differ_where_they_are_bounded() {
    let store = Arc::new(MemoryStore::new());
    lib::counting_array(&store, "/a", &[10, 8], &[4, 4], &[lib::bytes_codec()]);
    lib::counting_array(
        &store,
        "/b",
        &[10, 3],
        &[4, 4],
        &[json!({"name": "bytes", "configuration": {"endian": "big"}})],
    );
    let (a, b) = (lib::open(&store, "/a").expect("array"), lib::open(&store, "/b").expect("array"));
    let columns = [("a", &a), ("b", &b)];
    let options = ReadOptions::default();
    let ranges = Selections::ranges(vec![0, 9], vec![3, 10]).expect("ranges");
    assert_eq!(zarrow::read_batch(&columns, &ranges, &options).expect("batch").num_rows(), 2);
    let lists = Selections::indices(vec![0, 2], vec![0, 1]).expect("lists");
    assert_eq!(zarrow::read_batch(&columns, &lists, &options).expect("batch").num_rows(), 1);
    for selections in [
        ranges.with_first_axis(1),
        lists.with_first_axis(1),
        Selections::items([vec![mask(10, &[10]), Item::Index(0)]]),
        Selections::items([vec![points(&[&[0], &[0]])]]),
    ] {
        let error = zarrow::read_batch(&columns, &selections, &options).expect_err("they differ");
        assert_says(
            &error,
            ErrorKind::Selection,
            None,
            &["array 'b'", "[10, 3]", "array 'a'", "[10, 8]", "expected", "2 axes"],
        );
    }
}
