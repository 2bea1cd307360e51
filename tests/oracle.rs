//! Reads of arbitrary arrays equal a naive gather over an array in memory, bit for bit.

mod common;

use std::sync::Arc;

use arrow::datatypes::{ArrowPrimitiveType, Float16Type};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, ArrayToBytesCodecTraits, CodecOptions, FillValue, data_type};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ElementType, ReadOptions, Selections, ZarrFormat};

use crate::common::cases::{self, Case, Contents, LONGEST, PATH};
use crate::common::naive::{self, Padded};
use crate::common::selections::{self, Rows};
use crate::common::{self as lib, ELEMENTS};

/// A number of half precision.
type Half = <Float16Type as ArrowPrimitiveType>::Native;

fn options(threads: usize) -> ReadOptions {
    ReadOptions::default().with_threads(Some(threads))
}

/// Reads `rows` from the array in `store` and from its copy in a directory, on 1, 2 and 5 threads.
fn check_everywhere(store: &Arc<MemoryStore>, padded: &Padded, element: ElementType, rows: &Rows) {
    let directory = tempfile::tempdir().expect("directory");
    lib::export(store, PATH, directory.path());
    let expected = naive::gather(padded, &rows.spans, rows.levels);
    let selections = rows.selections();
    let arrays = [
        lib::open(store, PATH).expect("array in memory"),
        Array::open_local(directory.path(), None).expect("array in a directory"),
    ];
    for array in &arrays {
        assert_eq!(*array.element_type(), element);
        let plan = array.plan(&selections).expect("plan");
        for threads in [1, 2, 5] {
            let ragged = array.read(&selections, &options(threads)).expect("read");
            let stats = *ragged.stats();
            assert_eq!(stats.pieces, plan.pieces());
            assert_eq!(stats.chunks_fetched + stats.chunks_missing, plan.read_chunks());
            assert_eq!(stats.chunks_decoded, stats.chunks_fetched);
            naive::check(ragged, element.clone(), &expected);
        }
    }
}

fn case_and_rows() -> impl Strategy<Value = (Case, Rows)> {
    cases::case().prop_flat_map(|case| {
        let rows = selections::rows(&case.shape);
        (Just(case), rows)
    })
}

proptest! {
    #![proptest_config(lib::config(400))]

    #[test]
    fn v3_arrays_read_as_a_naive_gather((case, rows) in case_and_rows()) {
        let (store, padded) = case.write();
        let array = lib::open(&store, PATH).expect("array");
        prop_assert_eq!(array.shape(), &case.shape[..]);
        prop_assert_eq!(array.chunk_shape(), &case.read_chunk[..]);
        prop_assert_eq!(array.shard_shape(), case.sharded.then_some(&case.chunk[..]));
        prop_assert_eq!(array.format(), ZarrFormat::V3);
        check_everywhere(&store, &padded, case.element, &rows);
    }
}

proptest! {
    #![proptest_config(lib::config(250))]

    /// Chunks of which little is wanted are fetched and decoded in part.
    #[test]
    fn large_chunks_read_as_a_naive_gather(
        (case, rows) in cases::large_case().prop_flat_map(|case| {
            let rows = selections::narrow_boxes(&case.shape);
            (Just(case), rows)
        })
    ) {
        let (store, padded) = case.write();
        check_everywhere(&store, &padded, case.element, &rows);
    }
}

/// Streams of several frames or members are valid: parallel compressors write them, and other readers take them.
#[test]
fn streams_of_several_parts_read_as_one() {
    for codec in [lib::gzip_codec(), json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}})] {
        let store = Arc::new(MemoryStore::new());
        lib::counting_array(&store, "/a", &[400, 300], &[400, 300], &[lib::bytes_codec()]);
        let stored = lib::get(&store, "a/c/0/0").to_vec();
        let parts = stored.chunks(stored.len() / 3 + 1).map(|part| compress(part.to_vec(), &codec));
        let chunk: Vec<u8> = parts.collect::<Vec<_>>().concat();
        lib::counting_array(&store, "/a", &[400, 300], &[400, 300], &[lib::bytes_codec(), codec.clone()]);
        lib::set(&store, "a/c/0/0", chunk);
        let array = lib::open(&store, "/a").expect("array");
        let padded = Padded { shape: vec![400, 300], item: 2, bytes: stored };
        for spans in [vec![(0, 400, true), (0, 300, true)], vec![(3, 5, true), (1, 9, true)]] {
            let bounds = |bound: fn(&naive::Span) -> u64| spans.iter().map(|s| bound(s) as i64).collect::<Vec<_>>();
            let boxes = Selections::boxes(2, bounds(|span| span.0), bounds(|span| span.1)).expect("boxes");
            let ragged = array.read(&boxes, &options(1)).unwrap_or_else(|error| panic!("{codec}: {error}"));
            naive::check(ragged, ElementType::UInt16, &naive::gather(&padded, &[spans], 2));
        }
    }
}

/// A v2 array, to be written without the help of zarrs but for the compressor.
#[derive(Debug, Clone)]
struct CaseV2 {
    element: ElementType,
    shape: Vec<u64>,
    chunk: Vec<u64>,
    big_endian: bool,
    fortran: bool,
    separator: Option<&'static str>,
    compressor: Option<usize>,
    fill: Value,
    contents: Contents,
}

/// The compressors of v2, each with the v3 codec that encodes alike.
fn compressors() -> [(Value, Value); 5] {
    [
        (json!({"id": "zlib", "level": 1}), json!({"name": "numcodecs.zlib", "configuration": {"level": 1}})),
        (json!({"id": "gzip", "level": 1}), lib::gzip_codec()),
        (json!({"id": "bz2", "level": 1}), json!({"name": "numcodecs.bz2", "configuration": {"level": 1}})),
        (json!({"id": "zstd", "level": 1}), json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}})),
        (
            json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
            json!({"name": "blosc", "configuration":
                {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}}),
        ),
    ]
}

impl CaseV2 {
    fn write(&self) -> (Arc<MemoryStore>, Padded) {
        let store = Arc::new(MemoryStore::new());
        let padded = self.contents.padded(self.element.clone(), &self.shape, &self.chunk);
        let prefix = PATH.trim_matches('/');
        let compressor = self.compressor.map(|compressor| compressors()[compressor].clone());
        let mut metadata = json!({
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunk,
            "dtype": dtype_v2(self.element.clone(), self.big_endian),
            "compressor": compressor.as_ref().map(|(v2, _)| v2),
            "fill_value": self.fill,
            "order": if self.fortran { "F" } else { "C" },
            "filters": null,
        });
        if let Some(separator) = self.separator {
            metadata["dimension_separator"] = json!(separator);
        }
        lib::set(&store, &format!("{prefix}/.zarray"), metadata.to_string());
        lib::set(&store, &format!("{prefix}/.zattrs"), r#"{"note": "by hand"}"#);
        for index in naive::coordinates(&naive::grid(&self.shape, &self.chunk)) {
            let native = cases::chunk_bytes(&padded, &index, &self.chunk);
            if native.chunks_exact(padded.item).all(|element| element == self.contents.fill) {
                continue;
            }
            let encoded = self.encode(&Padded { shape: self.chunk.clone(), item: padded.item, bytes: native });
            let encoded = match &compressor {
                None => encoded,
                Some((_, v3)) => compress(encoded, v3),
            };
            let separator = self.separator.unwrap_or(".");
            let name = index.iter().map(u64::to_string).collect::<Vec<_>>().join(separator);
            let name = if name.is_empty() { "0" } else { &name };
            lib::set(&store, &format!("{prefix}/{name}"), encoded);
        }
        (store, padded)
    }

    /// A chunk's elements in the order and with the byte order of the metadata.
    fn encode(&self, chunk: &Padded) -> Vec<u8> {
        let mut bytes = Vec::new();
        let shape: Vec<u64> =
            if self.fortran { chunk.shape.iter().rev().copied().collect() } else { chunk.shape.clone() };
        for mut at in naive::coordinates(&shape) {
            if self.fortran {
                at.reverse();
            }
            let part = match self.element {
                ElementType::Complex64 | ElementType::Complex128 => chunk.item / 2,
                _ => chunk.item,
            };
            for part in chunk.element(&at).chunks_exact(part) {
                if self.big_endian == cfg!(target_endian = "big") {
                    bytes.extend_from_slice(part);
                } else {
                    bytes.extend(part.iter().rev());
                }
            }
        }
        bytes
    }
}

fn compress(bytes: Vec<u8>, codec: &Value) -> Vec<u8> {
    let chain = lib::codec_chain(&[json!({"name": "bytes"}), codec.clone()]);
    let shape = [std::num::NonZeroU64::new(bytes.len() as u64).expect("bytes")];
    let bytes = ArrayBytes::new_flen(bytes);
    chain
        .encode(bytes, &shape, &data_type::uint8(), &FillValue::from(0_u8), &CodecOptions::default())
        .expect("compressed")
        .into_owned()
}

fn dtype_v2(element: ElementType, big_endian: bool) -> String {
    let kind = match element {
        ElementType::Bool => "b",
        ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64 => "i",
        ElementType::UInt8 | ElementType::UInt16 | ElementType::UInt32 | ElementType::UInt64 => "u",
        ElementType::Float16 | ElementType::Float32 | ElementType::Float64 => "f",
        _ => "c",
    };
    let order = match element.size() {
        1 => "|",
        _ if big_endian => ">",
        _ => "<",
    };
    format!("{order}{kind}{}", element.size())
}

/// A fill value as JSON and as bytes.
fn fill_v2(element: ElementType) -> BoxedStrategy<(Value, Vec<u8>)> {
    let float = select(vec![json!(0.0), json!(-1.5), json!(-0.0), json!("NaN"), json!("Infinity"), json!("-Infinity")]);
    let number = |value: &Value| match value {
        Value::Null => 0.0,
        Value::String(name) if name == "NaN" => f64::NAN,
        Value::String(name) if name == "Infinity" => f64::INFINITY,
        Value::String(_) => f64::NEG_INFINITY,
        value => value.as_f64().expect("a number"),
    };
    let or_null = |fill: BoxedStrategy<Value>| prop_oneof![1 => Just(Value::Null), 3 => fill];
    match element {
        ElementType::Bool => or_null(any::<bool>().prop_map(Value::from).boxed())
            .prop_map(|fill| (fill.clone(), vec![u8::from(fill.as_bool().unwrap_or(false))]))
            .boxed(),
        ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64 => {
            let bits = 8 * element.size() as u32;
            let fill = any::<i64>().prop_map(move |fill| Value::from(fill >> (64 - bits))).boxed();
            or_null(fill)
                .prop_map(move |fill| {
                    (fill.clone(), narrow(&fill.as_i64().unwrap_or(0).to_le_bytes()[..element.size()]))
                })
                .boxed()
        }
        ElementType::UInt8 | ElementType::UInt16 | ElementType::UInt32 | ElementType::UInt64 => {
            let bits = 8 * element.size() as u32;
            let fill = any::<u64>().prop_map(move |fill| Value::from(fill >> (64 - bits))).boxed();
            or_null(fill)
                .prop_map(move |fill| {
                    (fill.clone(), narrow(&fill.as_u64().unwrap_or(0).to_le_bytes()[..element.size()]))
                })
                .boxed()
        }
        ElementType::Float16 => or_null(float.boxed())
            .prop_map(move |fill| (fill.clone(), Half::from_f64(number(&fill)).to_ne_bytes().to_vec()))
            .boxed(),
        ElementType::Float32 => or_null(float.boxed())
            .prop_map(move |fill| (fill.clone(), (number(&fill) as f32).to_ne_bytes().to_vec()))
            .boxed(),
        ElementType::Float64 => {
            or_null(float.boxed()).prop_map(move |fill| (fill.clone(), number(&fill).to_ne_bytes().to_vec())).boxed()
        }
        ElementType::Complex64 => (float.clone(), float)
            .prop_map(move |(re, im)| {
                let bytes = [(number(&re) as f32).to_ne_bytes(), (number(&im) as f32).to_ne_bytes()].concat();
                (json!([re, im]), bytes)
            })
            .boxed(),
        _ => (float.clone(), float)
            .prop_map(move |(re, im)| {
                let bytes = [number(&re).to_ne_bytes(), number(&im).to_ne_bytes()].concat();
                (json!([re, im]), bytes)
            })
            .boxed(),
    }
}

/// Little-endian bytes in native order.
fn narrow(little: &[u8]) -> Vec<u8> {
    let mut bytes = little.to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}

fn case_v2_and_rows() -> impl Strategy<Value = (CaseV2, Rows)> {
    let case = (select(&ELEMENTS[..]), 0_usize..5).prop_flat_map(|(element, rank)| {
        let longest = LONGEST[rank].min(9);
        let axes = prop::collection::vec((0..=longest, 1..=longest + 2), rank);
        let style = (any::<bool>(), any::<bool>(), select(vec![None, Some("."), Some("/")]));
        let compressor = prop::option::of(0..compressors().len());
        (axes, style, compressor, fill_v2(element.clone()), any::<u64>(), any::<bool>(), select(vec![0, 30, 100]))
            .prop_map(
                move |(
                    axes,
                    (big_endian, fortran, separator),
                    compressor,
                    (fill, fill_bytes),
                    seed,
                    small,
                    missing,
                )| {
                    let (shape, mut chunk): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
                    while naive::grid(&shape, &chunk).iter().product::<u64>() > 64 {
                        chunk = chunk.iter().map(|chunk| chunk + 1).collect();
                    }
                    let contents = Contents { fill: fill_bytes, seed, small, missing, unit: chunk.clone() };
                    CaseV2 {
                        element: element.clone(),
                        shape,
                        chunk,
                        big_endian,
                        fortran,
                        separator,
                        compressor,
                        fill,
                        contents,
                    }
                },
            )
    });
    case.prop_flat_map(|case| {
        let rows = selections::rows(&case.shape);
        (Just(case), rows)
    })
}

proptest! {
    #![proptest_config(lib::config(300))]

    #[test]
    fn v2_arrays_read_as_a_naive_gather((case, rows) in case_v2_and_rows()) {
        let (store, padded) = case.write();
        let array = lib::open(&store, PATH).expect("array");
        prop_assert_eq!(array.shape(), &case.shape[..]);
        prop_assert_eq!(array.chunk_shape(), &case.chunk[..]);
        prop_assert_eq!(array.shard_shape(), None);
        prop_assert_eq!(array.format(), ZarrFormat::V2);
        prop_assert_eq!(&array.attributes()["note"], &json!("by hand"));
        check_everywhere(&store, &padded, case.element, &rows);
    }
}
