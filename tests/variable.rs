//! Values of variable length in every layout that zarrs writes, against a gather element by element, and damaged.

mod common;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBuilder, ArrayBytes, ArrayBytesOffsets, DataType, FillValue, data_type};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{ListableStorageTraits, ReadableStorageTraits, StoreKey, WritableStorageTraits};
use zarrow::{Array, ElementType, ErrorKind, MissingChunks, OutOfBounds, ReadOptions, Selections, read_batch};

use crate::common::naive::{coordinates, grid};
use crate::common::{Bits, bytes_codec, codec_chain, complaint, gzip_codec, sharding_codec};

const PATH: &str = "/a";

/// An array, and its elements with those of whole chunks, in C order of each chunk.
#[derive(Debug, Clone)]
struct Case {
    is_text: bool,
    shape: Vec<u64>,
    chunk: Vec<u64>,
    codecs: Vec<Value>,
    fill: &'static str,
    seed: u64,
}

fn vlen(index_type: &str, location: &str, compressed: bool) -> Value {
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": true}});
    let (mut index, mut data) = (vec![bytes_codec()], vec![json!({"name": "bytes"})]);
    if compressed {
        index.push(gzip_codec());
        data.push(zstd);
    }
    json!({"name": "zarrs.vlen", "configuration": {
        "index_codecs": index, "data_codecs": data, "index_data_type": index_type, "index_location": location,
    }})
}

fn serializers() -> Vec<Value> {
    vec![
        json!({"name": "vlen-utf8"}),
        json!({"name": "vlen-bytes"}),
        json!({"name": "zarrs.vlen_v2"}),
        vlen("uint32", "start", false),
        vlen("uint64", "end", true),
        vlen("uint64", "start", true),
        vlen("uint32", "end", false),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let transpose = |order: Vec<usize>| json!({"name": "transpose", "configuration": {"order": order}});
    let axes = prop::collection::vec((0_u64..9, 1_u64..4, 1_u64..3), 0..4);
    let order = |rank: usize| Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    let compressors = select(vec![
        vec![],
        vec![gzip_codec()],
        vec![json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}}), json!({"name": "crc32c"})],
        vec![json!({"name": "numcodecs.zlib", "configuration": {"level": 1}})],
    ]);
    let chain = (select(serializers()), compressors, 0_usize..3);
    let rest = (any::<bool>(), select(vec!["", "fïll"]), any::<u64>(), 0_u8..5);
    (axes, chain, rest).prop_flat_map(move |(axes, (serializer, compressors, transposes), rest)| {
        let rank = axes.len();
        let orders = prop::collection::vec(order(rank), 2);
        (Just(axes), Just(serializer), Just(compressors), Just(transposes), Just(rest), orders).prop_map(
            move |(axes, serializer, compressors, transposes, (is_text, fill, seed, layers), orders)| {
                let shape = axes.iter().map(|axis| axis.0).collect();
                let read_chunk: Vec<u64> = axes.iter().map(|axis| axis.1).collect();
                let shard: Vec<u64> = axes.iter().map(|axis| axis.1 * axis.2).collect();
                let mut inner: Vec<Value> =
                    if rank == 0 { vec![] } else { orders[..transposes].iter().cloned().map(transpose).collect() };
                inner.push(serializer);
                inner.extend(compressors);
                let shards = sharding_codec(&read_chunk, &inner, "end");
                let (chunk, codecs) = match layers {
                    0 => (read_chunk, inner),
                    1 => (shard, vec![shards]),
                    // A shard behind a compressor, which has to be decoded whole.
                    2 => (shard, vec![shards, gzip_codec()]),
                    3 => (shard.clone(), vec![sharding_codec(&shard, &[shards], "start")]),
                    _ => {
                        let reversed: Vec<usize> = (0..rank).rev().collect();
                        let chunk = shard.iter().rev().copied().collect();
                        let codecs = if rank == 0 { vec![shards] } else { vec![transpose(reversed), shards] };
                        (chunk, codecs)
                    }
                };
                Case { is_text, shape, chunk, codecs, fill, seed }
            },
        )
    })
}

impl Case {
    fn data_type(&self) -> DataType {
        if self.is_text { data_type::string() } else { data_type::bytes() }
    }

    /// Writes the array; gives its elements in C order.
    fn write(&self, store: &Arc<MemoryStore>) -> Vec<Vec<u8>> {
        let chain = codec_chain(&self.codecs);
        let fill = FillValue::new(self.fill.as_bytes().to_vec());
        let array = ArrayBuilder::new(self.shape.clone(), self.chunk.clone(), self.data_type(), fill)
            .array_to_array_codecs(chain.array_to_array_codecs().to_vec())
            .array_to_bytes_codec(chain.array_to_bytes_codec().clone())
            .bytes_to_bytes_codecs(chain.bytes_to_bytes_codecs().to_vec())
            .build(store.clone(), PATH)
            .expect("array");
        array.store_metadata().expect("metadata");
        let mut elements = vec![self.fill.as_bytes().to_vec(); self.shape.iter().product::<u64>() as usize];
        let mut bits = Bits(self.seed | 1);
        for index in coordinates(&grid(&self.shape, &self.chunk)) {
            if bits.below(4) == 0 {
                continue;
            }
            let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
            for at in coordinates(&self.chunk) {
                let value = self.value(&mut bits);
                let at: Vec<u64> = at.iter().zip(&index).zip(&self.chunk).map(|((at, i), len)| i * len + at).collect();
                if at.iter().zip(&self.shape).all(|(at, len)| at < len) {
                    let number = at.iter().zip(&self.shape).fold(0, |number, (at, len)| number * len + at);
                    elements[number as usize].clone_from(&value);
                }
                bytes.extend(value);
                offsets.push(bytes.len());
            }
            let offsets = ArrayBytesOffsets::new(offsets).expect("offsets");
            array.store_chunk(&index, ArrayBytes::new_vlen(bytes, offsets).expect("elements")).expect("chunk");
        }
        elements
    }

    fn value(&self, bits: &mut Bits) -> Vec<u8> {
        let mut value = ["", "", "a", "né", "日本\0", "x y z"][bits.below(6) as usize].repeat(bits.below(4) as usize);
        if bits.below(20) == 0 {
            value += &"long".repeat(100);
        }
        let mut value = value.into_bytes();
        if !self.is_text && bits.below(3) == 0 {
            value.push(0xff);
        }
        value
    }
}

fn value(values: &ArrayRef, at: usize) -> &[u8] {
    match values.as_string_opt::<i64>() {
        Some(text) => text.value(at).as_bytes(),
        None => values.as_binary::<i64>().value(at),
    }
}

/// Random boxes, and the whole array.
fn boxes(shape: &[u64], seed: u64) -> Vec<Vec<(u64, u64)>> {
    let mut bits = Bits(seed | 1);
    let mut rows = vec![shape.iter().map(|len| (0, *len)).collect()];
    for _ in 0..6 {
        let mut span = |len: &u64| {
            let (a, b) = (bits.below(len + 1), bits.below(len + 1));
            (a.min(b), a.max(b))
        };
        rows.push(shape.iter().map(&mut span).collect());
    }
    rows
}

fn selections(shape: &[u64], rows: &[Vec<(u64, u64)>]) -> Selections {
    if shape.is_empty() {
        return Selections::items(rows.iter().map(|_| []));
    }
    let flat = |bound: fn(&(u64, u64)) -> u64| rows.iter().flatten().map(|span| bound(span) as i64).collect::<Vec<_>>();
    Selections::boxes(shape.len(), flat(|span| span.0), flat(|span| span.1)).expect("boxes")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_layout_reads_as_written(case in case(), threads in 1_usize..3, limit in any::<bool>()) {
        let store = Arc::new(MemoryStore::new());
        let elements = case.write(&store);
        let array = Array::open(store, PATH).expect("opened");
        let element = if case.is_text { ElementType::Utf8 } else { ElementType::Binary };
        prop_assert_eq!(array.element_type(), &element);
        let rows = boxes(&case.shape, case.seed);
        let options = ReadOptions::default().with_threads(Some(threads)).with_memory_limit(limit.then_some(16 << 20));
        let ragged = array.read(&selections(&case.shape, &rows), &options).expect("read");
        let values = ragged.values();
        prop_assert_eq!(values.data_type(), &element.arrow_type());
        prop_assert!(values.nulls().is_none());
        let (mut number, mut bytes) = (0, 0);
        for row in &rows {
            for at in coordinates(&row.iter().map(|(start, stop)| stop - start).collect::<Vec<_>>()) {
                let at = at.iter().zip(row).map(|(at, (start, _))| start + at);
                let from = at.zip(&case.shape).fold(0, |from, (at, len)| from * len + at);
                prop_assert_eq!(value(values, number), &elements[from as usize][..]);
                bytes += elements[from as usize].len();
                number += 1;
            }
        }
        prop_assert_eq!(values.len(), number);
        let stats = *ragged.stats();
        prop_assert_eq!(stats.bytes_out, (bytes + 8 * number) as u64);
        prop_assert_eq!(stats.chunks_decoded, stats.chunks_fetched);
        let array = ragged.into_array();
        array.to_data().validate_full().expect("valid Arrow");
    }

    #[test]
    fn damage_is_an_error_that_names_the_key(
        case in case(), at in any::<Index>(), of in any::<Index>(), how in 0_u8..6, byte in any::<u8>(),
    ) {
        let store = Arc::new(MemoryStore::new());
        case.write(&store);
        let is_chunk = |key: &StoreKey| !key.as_str().ends_with("zarr.json");
        let keys: Vec<StoreKey> = store.list().expect("keys").into_iter().filter(is_chunk).collect();
        prop_assume!(!keys.is_empty());
        let key = &keys[of.index(keys.len())];
        let mut bytes = store.get(key).expect("get").expect("a value").to_vec();
        let place = if bytes.is_empty() { 0 } else { at.index(bytes.len()) };
        match how {
            0 => bytes.truncate(place),
            1 => bytes.extend([byte; 3]),
            2 if !bytes.is_empty() => bytes[place] = byte,
            3 if !bytes.is_empty() => bytes[place] ^= 1 << (byte % 8),
            4 => bytes[place..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            _ => drop(bytes.splice(place..place, [byte])),
        }
        store.set(key, bytes.into()).expect("set");
        let array = Array::open(store, PATH).expect("opened");
        for limit in [None, Some(8 << 20)] {
            let options = ReadOptions::default().with_memory_limit(limit);
            let rows = boxes(&case.shape, case.seed);
            match array.read(&selections(&case.shape, &rows), &options) {
                Ok(ragged) => ragged.into_array().to_data().validate_full().expect("valid Arrow"),
                Err(error) => {
                    let allowed = error.kind() == ErrorKind::Decode
                        || (error.kind() == ErrorKind::Allocation && limit.is_some());
                    prop_assert!(allowed, "{:?}: {}", error.kind(), error);
                    prop_assert_eq!(error.key(), Some(key.as_str()));
                    let complaint = complaint(&error, error.kind());
                    prop_assert!(complaint.is_none(), "{:?}", complaint);
                }
            }
        }
    }
}

#[test]
fn columns_of_all_widths_in_one_batch() {
    let store = Arc::new(MemoryStore::new());
    let case = Case {
        is_text: true,
        shape: vec![20, 3],
        chunk: vec![6, 2],
        codecs: vec![json!({"name": "vlen-utf8"}), gzip_codec()],
        fill: "none",
        seed: 5,
    };
    let elements = case.write(&store);
    common::counting_array(&store, "/numbers", &[20, 3], &[7, 3], &[bytes_codec()]);
    let names = Array::open(store.clone(), PATH).expect("opened");
    let numbers = Array::open(store, "/numbers").expect("opened");
    let selections = Selections::boxes(1, vec![2, 9], vec![7, 10]).expect("boxes");
    let options = ReadOptions::default();
    let columns = [("name", &names), ("number", &numbers), ("again", &names)];
    let batch = read_batch(&columns, &selections, &options).expect("read");
    assert_eq!((batch.num_rows(), batch.num_columns()), (2, 3));
    let leaf = |column: usize| batch.column(column).as_list::<i64>().values().as_list::<i64>().values().clone();
    let of = |row: usize| elements[row * 3..][..3].to_vec();
    let expected: Vec<Vec<u8>> = (2..7).chain([9]).flat_map(of).collect();
    for column in [0, 2] {
        let values = leaf(column);
        assert!((0..18).all(|at| value(&values, at) == expected[at]));
    }
    let counted: Vec<u16> = (6..21).chain(27..30).collect();
    assert_eq!(leaf(1).as_primitive::<arrow_array::types::UInt16Type>().values(), &counted);
    let metadata = batch.schema().field(0).metadata().clone();
    assert_eq!(metadata["zarr:dtype"], "string");
}

#[test]
fn missing_chunks_and_fills() {
    let store = Arc::new(MemoryStore::new());
    let array =
        ArrayBuilder::new(vec![6], vec![2], data_type::string(), "gap").build(store.clone(), PATH).expect("array");
    array.store_metadata().expect("metadata");
    array.store_chunk(&[1], vec!["b", "ü"]).expect("chunk");
    let array = Array::open(store, PATH).expect("opened");
    let all = Selections::boxes(1, vec![0], vec![6]).expect("boxes");
    let text = |options: &ReadOptions, selections: &Selections| {
        let ragged = array.read(selections, options).expect("read");
        ragged.values().as_string::<i64>().iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    };
    let some = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
    let options = ReadOptions::default();
    assert_eq!(text(&options, &all), some(&["gap", "gap", "b", "ü", "gap", "gap"]));
    let mut expected = some(&["", "", "b", "ü", "", ""]);
    for text in expected.iter_mut().filter(|text| text.as_deref() == Some("")) {
        *text = None;
    }
    assert_eq!(text(&options.clone().with_missing_chunks(MissingChunks::Null), &all), expected);
    let beyond = Selections::boxes(1, vec![3], vec![8]).expect("boxes").with_out_of_bounds(OutOfBounds::Fill);
    let filled = options.clone().with_fill(Some("é".as_bytes()));
    assert_eq!(text(&options, &beyond), some(&["ü", "gap", "gap", "gap", "gap"]));
    assert_eq!(text(&filled, &beyond), some(&["ü", "gap", "gap", "é", "é"]));
    let error = array.read(&beyond, &options.with_fill(Some(&[0xff]))).expect_err("no text");
    assert_eq!(error.kind(), ErrorKind::Selection);
}
