//! Arrays whose chunks differ in shape, as zarrs writes them, against a gather element by element.

mod common;

use std::sync::Arc;

use arrow::array::AsArray;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zarrow::zarrs::array::{Array as ZarrsArray, ArrayBytes, ArrayBytesOffsets, ArrayMetadata, CodecOptions};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{
    Array, ElementType, ErrorKind, Indices, Item, MissingChunks, ReadOptions, Selections, ZarrFormat, read_ragged,
};

use crate::common::cases::{self, Case, PATH};
use crate::common::naive::{self, Padded};
use crate::common::selections::{self, Rows};
use crate::common::{self as lib};

/// An array of the codecs and contents of `of`, in chunks of these lengths along each axis.
#[derive(Debug, Clone)]
struct Differing {
    of: Case,
    lengths: Vec<Vec<u64>>,
    grid: Value,
}

/// How the lengths are written down.
fn grid(shape: &[u64], lengths: &[Vec<u64>], form: u8) -> Value {
    let covered = |(lengths, len): (&Vec<u64>, &u64)| lengths.iter().sum::<u64>() == *len;
    if form == 0 && lengths.iter().zip(shape).all(covered) {
        return json!({"name": "rectangular", "configuration": {"chunk_shape": lengths}});
    }
    let axes = lengths.iter().map(|lengths| {
        if form == 1 && lengths.iter().all(|len| *len == lengths[0]) {
            return json!(lengths[0]);
        }
        let runs = lengths.chunk_by(|a, b| a == b && form < 4);
        runs.map(|run| if run.len() > 1 || form == 2 { json!([run[0], run.len()]) } else { json!(run[0]) }).collect()
    });
    let axes: Value = axes.collect();
    json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": axes}})
}

fn differing() -> impl Strategy<Value = Differing> {
    cases::case().prop_flat_map(|of| {
        let plain = !of.codecs.iter().any(|codec| codec["name"] == "sharding_indexed");
        let axes = of.shape.iter().zip(&of.read_chunk).map(|(&len, &read_chunk)| {
            let unit = if plain { 1 } else { read_chunk };
            // At least one chunk, and sometimes one more than the axis needs.
            let most = (len.div_ceil(unit) / 3).max(2);
            (prop::collection::vec((1..=most, 1_usize..3), 1..9), prop::bool::weighted(0.2)).prop_map(
                move |(runs, beyond)| {
                    let (mut lengths, mut covered): (Vec<u64>, u64) = (vec![], 0);
                    for (times, count) in runs {
                        for _ in 0..count {
                            if covered < len {
                                covered += times * unit;
                                lengths.push(times * unit);
                            }
                        }
                    }
                    if covered < len || lengths.is_empty() {
                        lengths.push((len - covered).next_multiple_of(unit).max(unit));
                    }
                    if beyond {
                        lengths.push(unit);
                    }
                    lengths
                },
            )
        });
        let axes: Vec<_> = axes.collect();
        (Just(of), axes, 0_u8..6).prop_map(|(of, mut lengths, form)| {
            let chunks = |lengths: &[Vec<u64>]| lengths.iter().map(Vec::len).product::<usize>();
            while chunks(&lengths) > 100 {
                let most = lengths.iter_mut().max_by_key(|lengths| lengths.len()).expect("an axis");
                let last = most.pop().expect("a chunk");
                *most.last_mut().expect("a chunk") += last;
            }
            let grid = grid(&of.shape, &lengths, form);
            Differing { of, lengths, grid }
        })
    })
}

impl Differing {
    /// Writes the array through zarrs at [`PATH`], and returns its naive twin.
    fn write(&self) -> (Arc<MemoryStore>, Padded) {
        let store = Arc::new(MemoryStore::new());
        let ArrayMetadata::V3(mut metadata) = self.of.create(&store).metadata().clone() else { panic!("v3") };
        metadata.chunk_grid = serde_json::from_value(self.grid.clone()).expect("a grid");
        let array = ZarrsArray::new_with_metadata(store.clone(), PATH, metadata.into()).expect("array");
        array.store_metadata().expect("metadata");
        let end: Vec<u64> = self.lengths.iter().map(|lengths| lengths.iter().sum()).collect();
        let padded = self.of.contents.padded(&self.of.element, &end, &vec![1; end.len()]);
        let options = CodecOptions::default().with_store_empty_chunks(self.of.store_empty);
        let counts: Vec<u64> = self.lengths.iter().map(|lengths| lengths.len() as u64).collect();
        for index in naive::coordinates(&counts) {
            let bytes = ArrayBytes::new_flen(self.chunk(&padded, &index));
            array.store_chunk_opt(&index, bytes, &options).expect("chunk");
        }
        (store, padded)
    }

    /// The elements of the chunk at `index`, in C order.
    fn chunk(&self, padded: &Padded, index: &[u64]) -> Vec<u8> {
        let at =
            |lengths: &Vec<u64>, index: u64| (lengths[..index as usize].iter().sum::<u64>(), lengths[index as usize]);
        let (origin, shape): (Vec<u64>, Vec<u64>) =
            self.lengths.iter().zip(index).map(|(lengths, index)| at(lengths, *index)).unzip();
        let mut bytes = Vec::new();
        naive::for_each(&shape, |at| {
            let at: Vec<u64> = at.iter().zip(&origin).map(|(at, origin)| at + origin).collect();
            bytes.extend_from_slice(padded.element(&at));
        });
        bytes
    }

    /// The lengths of the chunks of the store along an axis, up to its end.
    fn within(&self, axis: usize) -> Vec<u64> {
        let mut left = self.of.shape[axis];
        let cut = |len: &u64| {
            let cut = left.min(*len);
            left -= cut;
            cut
        };
        self.lengths[axis].iter().map(cut).filter(|len| *len > 0).collect()
    }
}

fn differing_and_rows() -> impl Strategy<Value = (Differing, Rows)> {
    differing().prop_flat_map(|case| {
        let rows = selections::rows(&case.of.shape);
        (Just(case), rows)
    })
}

proptest! {
    #![proptest_config(lib::config(600))]

    #[test]
    fn differing_chunks_read_as_a_naive_gather((case, rows) in differing_and_rows()) {
        let (store, padded) = case.write();
        let expected = naive::gather(&padded, &rows.spans, rows.levels);
        let directory = tempfile::tempdir().expect("directory");
        lib::export(&store, PATH, directory.path());
        let arrays = [
            lib::open(&store, PATH).expect("array in memory"),
            Array::open_local(directory.path(), ZarrFormat::V3).expect("array in a directory"),
        ];
        for array in &arrays {
            prop_assert_eq!(array.shard_shape().is_some(), case.of.sharded);
            prop_assert!(array.has_equal_chunks() || !case.of.sharded);
            for axis in 0..case.of.shape.len() {
                prop_assert_eq!(array.shard_lengths(axis).expect("lengths"), case.within(axis));
                let chunks = array.chunk_lengths(axis).expect("lengths");
                prop_assert_eq!(chunks.iter().sum::<u64>(), case.of.shape[axis]);
                prop_assert!(case.of.sharded || chunks == case.within(axis));
                prop_assert!(chunks.iter().all(|len| *len <= array.chunk_shape()[axis]));
            }
            let selections = rows.selections();
            let plan = array.plan(&selections).expect("plan");
            let listed = plan.chunks().expect("chunks");
            let bytes: u64 = listed["bytes"].as_primitive::<arrow::datatypes::UInt64Type>().values().iter().sum();
            prop_assert_eq!(bytes, plan.bytes_to_decode());
            for (threads, limit) in [(1, None), (3, Some(1 << 26))] {
                let options = ReadOptions::default().with_threads(Some(threads)).with_memory_limit(limit);
                let ragged = array.read(&selections, &options).expect("read");
                let stats = *ragged.stats();
                prop_assert_eq!(stats.pieces, plan.pieces());
                prop_assert_eq!(stats.chunks_fetched + stats.chunks_missing, plan.read_chunks());
                naive::check(ragged, &case.of.element, &expected);
            }
        }
    }

    /// Index arrays go through segments, which are cut at the borders of read chunks.
    #[test]
    fn lists_of_indices_of_differing_chunks(
        case in differing().prop_filter("axes", |case| !case.of.shape.is_empty() && !case.of.shape.contains(&0)),
        raw in prop::collection::vec((any::<u32>(), prop::bool::ANY), 0..30),
        step in select(vec![1_i64, 2, 3, -1, -4]),
    ) {
        let (store, padded) = case.write();
        let shape = &case.of.shape;
        let last = shape.len() - 1;
        let mut index = 0;
        let indices: Vec<i64> = raw.iter().map(|(raw, follows)| {
            let len = shape[last] as i64;
            index = if *follows { (index + 1) % len } else { i64::from(*raw) % len };
            index
        }).collect();
        let mut items = vec![Item::Ellipsis, Indices::new(indices.clone()).into()];
        if shape.len() > 1 {
            items.insert(0, Item::Slice { start: None, stop: None, step });
        }
        let array = lib::open(&store, PATH).expect("array");
        let ragged = array.read(&Selections::items([items]), &ReadOptions::default()).expect("read");
        let mut values = Vec::new();
        let stepped = |len: u64| -> Vec<u64> {
            if step > 0 { (0..len).step_by(step as usize).collect() } else { (0..len).rev().step_by(-step as usize).collect() }
        };
        let axes: Vec<Vec<u64>> = (0..shape.len()).map(|axis| match axis {
            _ if axis == last => indices.iter().map(|index| *index as u64).collect(),
            0 => stepped(shape[0]),
            _ => (0..shape[axis]).collect(),
        }).collect();
        naive::for_each(&axes.iter().map(|axis| axis.len() as u64).collect::<Vec<_>>(), |at| {
            let at: Vec<u64> = at.iter().zip(&axes).map(|(at, axis)| axis[*at as usize]).collect();
            values.extend_from_slice(padded.element(&at));
        });
        prop_assert_eq!(naive::value_bytes(ragged.values()), values);
    }
}

fn metadata(shape: &Value, grid: &Value, codecs: &Value) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint16", "fill_value": 7,
        "chunk_grid": grid, "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": codecs, "attributes": {},
    })
}

fn rectilinear(chunk_shapes: &Value) -> Value {
    json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": chunk_shapes}})
}

/// The last chunks end with the array.
#[test]
fn bounded_chunks_are_shorter_at_the_end() {
    let store = Arc::new(MemoryStore::new());
    let grid = json!({"name": "zarrs.regular_bounded", "configuration": {"chunk_shape": [4, 5]}});
    let shards = lib::sharding_codec(&[2, 1], &[lib::bytes_codec(), lib::gzip_codec()], "end");
    for codecs in [json!([lib::bytes_codec()]), json!([lib::bytes_codec(), lib::gzip_codec()]), json!([shards])] {
        let metadata = metadata(&json!([10, 13]), &grid, &codecs);
        let metadata: ArrayMetadata = serde_json::from_value(metadata).expect("metadata");
        let writer = ZarrsArray::new_with_metadata(store.clone(), "/a", metadata).expect("array");
        writer.store_metadata().expect("metadata");
        let values: Vec<u16> = (0..130).collect();
        writer.store_array_subset(&[0..10, 0..13], values.clone()).expect("chunks");
        let array = lib::open(&store, "/a").expect("array");
        assert_eq!(array.shard_lengths(0).expect("lengths"), [4, 4, 2]);
        assert_eq!(array.shard_lengths(1).expect("lengths"), [5, 5, 3]);
        let boxes = Selections::boxes(2, vec![0, 0, 3, 9, 9, 12], vec![10, 13, 10, 11, 10, 13]).expect("boxes");
        let ragged = array.read(&boxes, &ReadOptions::default()).expect("read");
        let read = ragged.values().as_primitive::<arrow::datatypes::UInt16Type>().values().to_vec();
        let expected = (0..130).chain((3..10).flat_map(|y| [y * 13 + 9, y * 13 + 10])).chain([129]);
        assert_eq!(read, expected.collect::<Vec<u16>>());
    }
}

/// Text goes by cells.
#[test]
fn text_in_differing_chunks() {
    let store = Arc::new(MemoryStore::new());
    for codecs in [
        json!([{"name": "vlen-utf8"}, lib::gzip_codec()]),
        json!([{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "vlen-utf8"}]),
        json!([lib::sharding_codec(&[1, 2], &[json!({"name": "vlen-utf8"})], "end")]),
    ] {
        let mut metadata = metadata(&json!([5, 7]), &rectilinear(&json!([[2, 1, 3], [4, 2, 2]])), &codecs);
        metadata["data_type"] = json!("string");
        metadata["fill_value"] = json!("none");
        let metadata: ArrayMetadata = serde_json::from_value(metadata).expect("metadata");
        let writer = ZarrsArray::new_with_metadata(store.clone(), "/t", metadata).expect("array");
        writer.store_metadata().expect("metadata");
        let text = |y: u64, x: u64| "é".repeat((y * 3 + x) as usize % 5) + &format!("{y}{x}");
        for (row, (first, rows)) in [(0, 2), (2, 1), (3, 3)].into_iter().enumerate() {
            for (column, (left, columns)) in [(0, 4), (4, 2), (6, 2)].into_iter().enumerate() {
                if (row, column) == (1, 1) {
                    continue;
                }
                let texts: Vec<String> =
                    (0..rows * columns).map(|at| text(first + at / columns, left + at % columns)).collect();
                let mut offsets = vec![0];
                offsets.extend(texts.iter().scan(0, |end, text| {
                    *end += text.len();
                    Some(*end)
                }));
                let offsets = ArrayBytesOffsets::new(offsets).expect("offsets");
                let bytes = ArrayBytes::new_vlen(texts.concat().into_bytes(), offsets).expect("bytes");
                writer.store_chunk(&[row as u64, column as u64], bytes).expect("chunk");
            }
        }
        let array = lib::open(&store, "/t").expect("array");
        let boxes = Selections::boxes(2, vec![0, 0, 1, 3], vec![5, 7, 4, 6]).expect("boxes");
        let ragged = array.read(&boxes, &ReadOptions::default()).expect("read");
        let at = |y: u64, x: u64| if y == 2 && (4..6).contains(&x) { "none".to_owned() } else { text(y, x) };
        let expected: Vec<String> =
            (0..35).map(|i| at(i / 7, i % 7)).chain((0..9).map(|i| at(1 + i / 3, 3 + i % 3))).collect();
        let read: Vec<&str> = ragged.values().as_string::<i64>().iter().flatten().collect();
        assert_eq!(read, expected);
    }
}

/// Arrays of different grids in one call, and chunks that the store does not hold.
#[test]
fn arrays_of_different_grids_in_one_call() {
    let store = Arc::new(MemoryStore::new());
    let grids = [
        rectilinear(&json!([[1, 2, 4, 1]])),
        rectilinear(&json!([[[3, 2], 9]])),
        json!({"name": "regular", "configuration": {"chunk_shape": [3]}}),
    ];
    let mut arrays = Vec::new();
    for (number, grid) in grids.iter().enumerate() {
        let path = format!("/{number}");
        let metadata = metadata(&json!([8]), grid, &json!([lib::bytes_codec()]));
        let metadata: ArrayMetadata = serde_json::from_value(metadata).expect("metadata");
        let writer = ZarrsArray::new_with_metadata(store.clone(), &path, metadata).expect("array");
        writer.store_metadata().expect("metadata");
        let values: Vec<u16> = (0..8).map(|at| 100 + 10 * number as u16 + at).collect();
        let all = 0..8;
        writer.store_array_subset(&[all], values).expect("chunks");
        writer.erase_chunk(&[1]).expect("erased");
        arrays.push(lib::open(&store, &path).expect("array"));
    }
    let ranges = Selections::ranges(vec![0, 0, 0, 2], vec![8, 8, 8, 4]).expect("ranges");
    let options = ReadOptions::default().with_missing_chunks(MissingChunks::Null);
    let ragged = read_ragged(&arrays, &[0, 1, 2, 1], &ranges, &options).expect("read");
    let values = ragged.values().as_primitive::<arrow::datatypes::UInt16Type>();
    let read: Vec<Option<u16>> = values.iter().collect();
    let holes = [1..3, 3..6, 3..6];
    let expected = (0..24_u16).map(|at| {
        let (array, at) = (at / 8, at % 8);
        (!holes[array as usize].contains(&at)).then_some(100 + 10 * array + at)
    });
    let expected: Vec<_> = expected.chain([Some(112), None]).collect();
    assert_eq!(read, expected);
    assert_eq!(ragged.stats().chunks_missing, 3);
}

/// The metadata may name any number of chunks: memory goes by what is touched.
#[test]
fn grids_of_many_chunks() {
    let store = Arc::new(MemoryStore::new());
    let million: Vec<u64> = (0..1_000_000).map(|chunk| 1 + chunk % 3).collect();
    let len: u64 = million.iter().sum();
    let metadata_of =
        |shape: u64, shapes: &Value| metadata(&json!([shape]), &rectilinear(shapes), &json!([lib::bytes_codec()]));
    lib::set(&store, "m/zarr.json", metadata_of(len, &json!([million])).to_string());
    let chunk_999_999: Vec<u8> = [5_u16].iter().flat_map(|value| value.to_le_bytes()).collect();
    lib::set(&store, "m/c/999999", chunk_999_999);
    let array = lib::open(&store, "/m").expect("array");
    assert_eq!(array.chunk_lengths(0).expect("lengths"), million);
    let starts: Vec<i64> = (0..200_000).map(|row| row * 9 % len as i64).chain([len as i64 - 2]).collect();
    let stops: Vec<i64> = starts.iter().map(|start| (start + 2).min(len as i64)).collect();
    let ragged =
        array.read(&Selections::ranges(starts, stops).expect("ranges"), &ReadOptions::default()).expect("read");
    let values = ragged.values().as_primitive::<arrow::datatypes::UInt16Type>().values();
    assert_eq!(values.last(), Some(&5));
    assert_eq!((ragged.stats().chunks_fetched, values.iter().filter(|value| **value != 7).count()), (1, 1));

    let huge = 1_000_000_000_000_000_000_u64;
    lib::set(&store, "h/zarr.json", metadata_of(huge, &json!([[[1, 3], 2, [1, huge]]])).to_string());
    lib::set(&store, "h/c/999999999999999994", vec![1, 0]);
    let array = lib::open(&store, "/h").expect("array");
    let ranges = Selections::ranges(vec![0, huge as i64 - 9], vec![4, huge as i64]).expect("ranges");
    let ragged = array.read(&ranges, &ReadOptions::default()).expect("read");
    let values = ragged.values().as_primitive::<arrow::datatypes::UInt16Type>().values();
    assert_eq!(values[..], [7, 7, 7, 7, 7, 7, 7, 7, 1, 7, 7, 7, 7]);
    // Every length is asked for at one's own risk.
    lib::assert_error(&array.chunk_lengths(0).expect_err("no memory"), ErrorKind::Allocation);
    lib::assert_error(&array.chunk_lengths(1).expect_err("no axis"), ErrorKind::Selection);
}

#[test]
fn grids_that_do_not_fit_are_refused() {
    let shards = lib::sharding_codec(&[2], &[lib::bytes_codec()], "end");
    let behind = json!([shards, lib::gzip_codec()]);
    let bytes = json!([lib::bytes_codec()]);
    for (grid, codecs, told) in [
        (rectilinear(&json!([[4, 3]])), &bytes, "do not cover its 8 elements"),
        (rectilinear(&json!([[4, 4, 0]])), &bytes, "the number 0"),
        (rectilinear(&json!([[[4, 0], 8]])), &bytes, "the number 0"),
        (rectilinear(&json!([[4, 4], [1]])), &bytes, "of 2 axes"),
        (rectilinear(&json!([[5, 4]])), &json!([shards.clone()]), "subchunks of shape [2]"),
        (rectilinear(&json!([[4, 5]])), &json!([shards.clone()]), "subchunks of shape [2]"),
        (rectilinear(&json!([[4, 1, 4]])), &json!([shards.clone()]), "subchunks of shape [2]"),
        (rectilinear(&json!([[1_u64 << 63, 1]])), &bytes, "read chunks"),
        (json!({"name": "hexagonal"}), &bytes, "chunk grid 'hexagonal'"),
    ] {
        let store = Arc::new(MemoryStore::new());
        lib::set(&store, "a/zarr.json", metadata(&json!([8]), &grid, codecs).to_string());
        let error = lib::open(&store, "/a").expect_err("no fit");
        assert!(error.to_string().contains(told), "{error}");
        assert!(matches!(error.kind(), ErrorKind::Metadata | ErrorKind::Unsupported), "{error}");
        assert_eq!(lib::complaint(&error, error.kind()), None);
    }
    // What only some chunks have is told when they are read.
    let store = Arc::new(MemoryStore::new());
    lib::set(&store, "a/zarr.json", metadata(&json!([8]), &rectilinear(&json!([[4, 1, 4]])), &behind).to_string());
    lib::set(&store, "a/c/1", vec![0; 9]);
    let array = lib::open(&store, "/a").expect("array");
    let ranges = Selections::ranges(vec![0], vec![8]).expect("ranges");
    let error = array.read(&ranges, &ReadOptions::default()).expect_err("no fit");
    lib::assert_error(&error, ErrorKind::Metadata);
    assert!(error.to_string().contains("c/1"), "{error}");
    assert_eq!(array.element_type(), &ElementType::UInt16);
}
