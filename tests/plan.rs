//! Plans against naive counts, on small arrays and on arrays far too large to enumerate.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ErrorKind, Indexing, Indices, Item, Layout, ReadOptions, Selections};

use crate::common::cases::{self, Case, PATH};
use crate::common::naive::{self, Padded};
use crate::common::selections::{self, Asked, Rows};
use crate::common::{self as lib, Bits, assert_error, empty_array};

fn bytes(shape: &[u64], chunk: &[u64]) -> Array {
    empty_array(shape, chunk, "uint8", &json!([{"name": "bytes"}])).expect("array")
}

fn case_and_rows() -> impl Strategy<Value = (Case, Rows)> {
    cases::case().prop_flat_map(|case| {
        let rows = selections::rows(&case.shape);
        (Just(case), rows)
    })
}

proptest! {
    #![proptest_config(lib::config(500))]

    #[test]
    fn plans_equal_naive_counts((case, rows) in case_and_rows()) {
        let store = Arc::new(MemoryStore::new());
        case.create(&store);
        let array = lib::open(&store, PATH).expect("array");
        let plan = array.plan(&rows.selections()).expect("plan");

        let pieces = naive::pieces(&rows.spans, &case.read_chunk);
        let chunks: BTreeSet<_> = pieces.iter().map(|(_, chunk)| chunk).collect();
        prop_assert_eq!(plan.pieces(), pieces.len());
        prop_assert_eq!(plan.read_chunks(), chunks.len());
        let elements = case.shape.iter().product::<u64>();
        let zeros = Padded { shape: case.shape.clone(), item: 1, bytes: vec![0; elements as usize] };
        let expected = naive::gather(&zeros, &rows.spans, rows.levels);
        let text = plan.to_string();
        for count in [rows.spans.len(), expected.values.len(), chunks.len(), pieces.len()] {
            prop_assert!(text.contains(&count.to_string()), "{} lacks {}", text, count);
        }

        let bound = plan.selections();
        prop_assert_eq!(bound.len(), rows.spans.len());
        prop_assert_eq!(bound.is_empty(), rows.spans.is_empty());
        prop_assert_eq!(bound.levels(), rows.levels);
        for (row, spans) in rows.spans.iter().enumerate() {
            prop_assert_eq!(bound.shape(row), &case.shape[..]);
            let extents: Vec<u64> = spans.iter().filter(|span| span.2).map(|span| span.1 - span.0).collect();
            prop_assert_eq!(bound.extents(row), extents);
        }

        for layout in [plan.layout(), &Layout::new(bound).expect("layout")] {
            prop_assert_eq!(layout.row_starts(), &expected.row_starts[..]);
            prop_assert_eq!(layout.elements(), expected.values.len());
            let lists: Vec<usize> = expected.offsets.iter().map(|offsets| offsets.len() - 1).collect();
            prop_assert_eq!(layout.lists(), &lists[..]);
        }
        let offsets = plan.offsets().expect("offsets");
        let offsets: Vec<&[i64]> = offsets.iter().map(|offsets| &offsets[..]).collect();
        prop_assert_eq!(&offsets, &expected.offsets);
    }

    /// Whatever else is asked for, the error names the selection that is wrong.
    #[test]
    fn the_wrong_selection_is_named(
        (case, rows) in case_and_rows(),
        at in any::<prop::sample::Index>(),
        axis in any::<prop::sample::Index>(),
        wrong in 0_usize..3,
        by in 1_i64..1000,
    ) {
        prop_assume!(!case.shape.is_empty());
        let store = Arc::new(MemoryStore::new());
        case.create(&store);
        let array = lib::open(&store, PATH).expect("array");
        let at = at.index(rows.spans.len() + 1);
        let bound = |len: u64| match wrong {
            0 => [0, len as i64 + by],
            1 => [-by, 0],
            _ => [by, by - 1],
        };
        let mut rows = rows;
        match &mut rows.asked {
            Asked::Ranges(ranges) => ranges.insert(at, bound(case.shape[0])),
            Asked::Boxes(axes, boxes) => {
                let axis = axis.index(*axes);
                let mut row: Vec<_> = case.shape[..*axes].iter().map(|len| [0, *len as i64]).collect();
                row[axis] = bound(case.shape[axis]);
                boxes.insert(at, row);
            }
            Asked::Items(items) => {
                let axis = axis.index(case.shape.len());
                let mut row = vec![Item::FULL; axis];
                let len = case.shape[axis] as i64;
                row.push(Item::Index(if wrong == 0 { len - 1 + by } else { -len - by }));
                items.insert(at, row);
            }
        }
        let error = array.plan(&rows.selections()).expect_err("out of bounds");
        prop_assert_eq!(error.selection(), Some(at), "{}", error);
        assert_error(&error, ErrorKind::Selection);
        prop_assert!(error.to_string().starts_with(&format!("selection {at}: ")), "{}", error);
        let error = array.read(&rows.selections(), &ReadOptions::default()).expect_err("out of bounds");
        prop_assert_eq!((error.kind(), error.selection()), (ErrorKind::Selection, Some(at)));
    }
}

#[test]
fn an_array_of_2_to_the_60_elements_in_10_to_the_11_chunks_plans_at_once() {
    let (len, chunk) = (1_u64 << 60, 11_529_215_u64);
    assert!(len / chunk >= 100_000_000_000);
    let array = bytes(&[len], &[chunk]);
    let mut bits = Bits(1);
    let (mut starts, mut stops) = (vec![0, len as i64 - 1, len as i64], vec![1, len as i64, len as i64]);
    for _ in 0..1000 {
        let start = bits.below(len - 3 * chunk);
        starts.push(start as i64);
        stops.push((start + bits.below(3 * chunk)) as i64);
    }
    let mut pieces = BTreeSet::new();
    for (row, (start, stop)) in starts.iter().zip(&stops).enumerate().filter(|(_, (start, stop))| start < stop) {
        pieces.extend((*start as u64 / chunk..=(*stop as u64 - 1) / chunk).map(|chunk| (row, chunk)));
    }
    let distinct: BTreeSet<u64> = pieces.iter().map(|(_, chunk)| *chunk).collect();
    let plan = array.plan(&Selections::ranges(starts.clone(), stops.clone()).expect("ranges")).expect("plan");
    assert_eq!((plan.pieces(), plan.read_chunks()), (pieces.len(), distinct.len()));
    let elements: i64 = starts.iter().zip(&stops).map(|(start, stop)| stop - start).sum();
    assert_eq!(plan.layout().elements(), elements as usize);
}

#[test]
fn grids_of_10_to_the_11_chunks_on_several_axes_plan_at_once() {
    let (len, chunk) = (1_u64 << 30, 3000_u64);
    assert!((len / chunk).pow(2) >= 100_000_000_000);
    let bytes_codec = json!([{"name": "bytes"}]);
    let sharded = |subchunk: &[u64]| json!([lib::sharding_codec(subchunk, &[json!({"name": "bytes"})], "end")]);
    let arrays = [
        (empty_array(&[len, len], &[chunk, chunk], "uint8", &bytes_codec), vec![chunk, chunk]),
        (empty_array(&[len, len], &[2 * chunk, 4 * chunk], "uint8", &sharded(&[chunk, chunk])), vec![chunk, chunk]),
        (empty_array(&[1 << 20; 3], &[64; 3], "uint8", &bytes_codec), vec![64; 3]),
        (empty_array(&[1 << 10; 6], &[10; 6], "uint8", &bytes_codec), vec![10; 6]),
    ];
    let mut bits = Bits(2);
    for (array, chunk) in arrays {
        let array = array.expect("array");
        let shape = array.shape().to_vec();
        let mut spans = Vec::new();
        for _ in 0..200 {
            // A few chunks on the first two axes, one element or so on the others.
            let row: Vec<naive::Span> = shape
                .iter()
                .zip(&chunk)
                .enumerate()
                .map(|(axis, (len, chunk))| {
                    let extent = if axis < 2 { bits.below(3 * chunk) } else { bits.below(3) };
                    let start = bits.below(len - extent);
                    (start, start + extent, true)
                })
                .collect();
            spans.push(row);
        }
        let pieces: usize = spans
            .iter()
            .map(|row| {
                let touched = row.iter().zip(&chunk).map(|((start, stop, _), chunk)| {
                    if start == stop { 0 } else { ((stop - 1) / chunk - start / chunk + 1) as usize }
                });
                touched.product::<usize>()
            })
            .sum();
        let flat = |bound: fn(&naive::Span) -> u64| spans.iter().flatten().map(|s| bound(s) as i64).collect::<Vec<_>>();
        let boxes = Selections::boxes(shape.len(), flat(|span| span.0), flat(|span| span.1)).expect("boxes");
        let plan = array.plan(&boxes).expect("plan");
        assert_eq!(plan.pieces(), pieces);
        assert!(plan.read_chunks() <= pieces);
        let corner: Vec<Item> = shape.iter().map(|_| Item::Index(-1)).collect();
        let corner = Selections::items([&corner, &vec![Item::Index(0); shape.len()], &corner]);
        let plan = array.plan(&corner).expect("plan");
        assert_eq!((plan.pieces(), plan.read_chunks(), plan.layout().elements()), (3, 2, 3));
        // None of the chunks is there: the fill value is read, without a look at the others.
        let ragged = array.read(&corner, &ReadOptions::default()).expect("read");
        assert_eq!((ragged.stats().chunks_missing, ragged.values().len()), (2, 3));
    }
}

#[test]
fn selections_of_no_element_touch_no_chunk() {
    let array = bytes(&[1 << 40, 1 << 20], &[1 << 10, 1 << 10]);
    for selections in [
        Selections::items([[Item::from(5..5), Item::FULL]]),
        Selections::boxes(2, vec![1 << 40, 7, 0, 9], vec![1 << 40, 9, 1, 9]).expect("boxes"),
        Selections::items::<[Item; 0]>([]),
        Selections::ranges(Vec::<i64>::new(), Vec::<i64>::new()).expect("ranges"),
    ] {
        let plan = array.plan(&selections).expect("plan");
        assert_eq!((plan.pieces(), plan.read_chunks(), plan.layout().elements()), (0, 0, 0));
        let offsets = plan.offsets().expect("offsets");
        assert_eq!(offsets.len(), 2);
        assert!(offsets.iter().all(|offsets| offsets[0] == 0));
    }
}

#[test]
fn results_beyond_64_bits_are_refused() {
    let whole = |rows: usize| Selections::items(vec![[Item::Ellipsis]; rows]);
    // 2^80 elements; three rows of 2^62; 2^64 lists of no element; a product and a sum that wrap to little.
    for (shape, rows) in [
        (vec![1 << 40, 1 << 40], 1),
        (vec![1 << 62], 3),
        (vec![1 << 62, 4, 0], 1),
        (vec![1 << 32, 1 << 32, 1], 1),
        (vec![1 << 62], 4),
        (vec![1 << 31, 1 << 31], 8),
    ] {
        let chunk: Vec<u64> = shape.iter().map(|len| (*len).clamp(1, 1 << 20)).collect();
        let error = bytes(&shape, &chunk).plan(&whole(rows)).expect_err("too large");
        assert_error(&error, ErrorKind::Allocation);
    }
    // The elements can be counted, their bytes cannot.
    let complex = empty_array(&[1 << 60], &[1 << 50], "complex128", &json!([lib::bytes_codec()])).expect("array");
    let error = complex.read(&whole(1), &ReadOptions::default()).expect_err("too large");
    assert_error(&error, ErrorKind::Allocation);
    // The bytes can be counted, no machine has them.
    let error = bytes(&[1 << 60], &[1 << 50]).read(&whole(1), &ReadOptions::default()).expect_err("too large");
    assert_error(&error, ErrorKind::Allocation);
}

/// In a process of its own with little memory: what is asked for here must be refused, not tried.
#[cfg(target_os = "linux")]
#[test]
fn plans_too_large_for_memory_are_refused() {
    let output = std::process::Command::new("sh")
        .args(["-c", r#"ulimit -v 4000000; exec "$0" --exact --ignored --nocapture too_large_for_memory"#])
        .arg(std::env::current_exe().expect("this test"))
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

#[test]
#[ignore = "run by `plans_too_large_for_memory_are_refused` in a process with little memory"]
fn too_large_for_memory() {
    // 10^11 read chunks in one selection, and in a list of lists as long.
    let pieces = bytes(&[1 << 60], &[11_529_215]);
    let lists = bytes(&[1 << 37, 0], &[1, 1]);
    for array in [pieces, lists] {
        let error = array.plan(&Selections::items([[Item::Ellipsis]])).expect_err("too large");
        assert_error(&error, ErrorKind::Allocation);
    }
    // 2^30 elements, each in a read chunk of its own, by steps; 2^32 points of two short lists.
    let strided = bytes(&[1 << 60], &[11_529_215]);
    let steps = Selections::items([[Item::Slice { start: None, stop: None, step: 1 << 30 }]]);
    let square = bytes(&[1, 1], &[1, 1]);
    let list = |shape: [usize; 2]| Item::from(Indices::try_new(vec![0; 1 << 16], shape.to_vec()).expect("indices"));
    let points = Selections::items([[list([1 << 16, 1]), list([1, 1 << 16])]]).with_indexing(Indexing::Pointwise);
    for (array, selections) in [(strided, steps), (square, points)] {
        let error = array.plan(&selections).expect_err("too large");
        assert_eq!(error.selection(), Some(0), "{error}");
        assert_error(&error, ErrorKind::Allocation);
    }
}

#[test]
fn wrong_selections_are_named() {
    let array = bytes(&[10, 8, 0], &[4, 4, 1]);
    let error = |selections: &Selections| {
        let error = array.plan(selections).expect_err("a wrong selection");
        assert_error(&error, ErrorKind::Selection);
        (error.selection(), error.to_string())
    };
    let good = vec![Item::FULL];
    let index = |index| Item::Index(index);

    let (row, text) = error(&Selections::items([good.clone(), vec![Item::FULL, index(8)]]));
    assert!(row == Some(1) && text.contains("axis 1") && text.contains('8'), "{text}");
    let (row, text) = error(&Selections::items([vec![index(-11)]]));
    assert!(row == Some(0) && text.contains("-11") && text.contains("axis 0"), "{text}");
    for extreme in [i64::MIN, i64::MAX] {
        assert_eq!(error(&Selections::items([good.clone(), good.clone(), vec![index(extreme)]])).0, Some(2));
    }
    let (row, text) = error(&Selections::items([vec![Item::Ellipsis, index(0)]]));
    assert!(row == Some(0) && text.contains("axis 2"), "{text}");
    let (row, text) = error(&Selections::items([good.clone(), vec![Item::FULL; 4]]));
    assert!(row == Some(1) && text.contains("[10, 8, 0]"), "{text}");
    assert_eq!(error(&Selections::items([vec![Item::Ellipsis, Item::FULL, Item::Ellipsis]])).0, Some(0));
    let (row, text) = error(&Selections::items([good.clone(), good, vec![index(0)]]));
    assert!(row == Some(2) && text.contains("keeps 2 axes"), "{text}");

    let (row, text) = error(&Selections::ranges(vec![0, 9], vec![10, 11]).expect("ranges"));
    assert!(row == Some(1) && text.contains("9..11") && text.contains("axis 0"), "{text}");
    assert_eq!(error(&Selections::ranges(vec![-1], vec![1]).expect("ranges")).0, Some(0));
    assert_eq!(error(&Selections::ranges(vec![5], vec![4]).expect("ranges")).0, Some(0));
    assert_eq!(error(&Selections::ranges(vec![i64::MIN], vec![i64::MAX]).expect("ranges")).0, Some(0));
    let (row, text) = error(&Selections::boxes(2, vec![0, 0, 0, 8], vec![1, 1, 1, 9]).expect("boxes"));
    assert!(row == Some(1) && text.contains("8..9") && text.contains("axis 1"), "{text}");
    // Wrong for the array as a whole: no single selection is to blame.
    let (row, text) = error(&Selections::boxes(4, vec![0; 4], vec![0; 4]).expect("boxes"));
    assert!(row.is_none() && text.contains("4 axes"), "{text}");
}

#[test]
fn selections_that_make_no_sense_are_refused_at_once() {
    for error in [
        Selections::ranges(vec![1, 2], vec![3]),
        Selections::boxes(2, vec![0, 1], vec![0]),
        Selections::boxes(2, vec![0, 1, 2], vec![0, 1, 2]),
        Selections::boxes(0, vec![], vec![]),
    ] {
        assert_error(&error.expect_err("no sense"), ErrorKind::Selection);
    }
}
