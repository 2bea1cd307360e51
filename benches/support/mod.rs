//! Shared by the benchmarks: arrays in memory, and selections that are the same in every run.
#![allow(dead_code, reason = "each benchmark uses a part of this")]

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBuilder, ArrayBytes, ArrayBytesOffsets, CodecChain, DataType, FillValue, data_type};
use zarrow::zarrs::metadata::v3::MetadataV3;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{ListableStorageTraits, ReadableStorageTraits, WritableStorageTraits};
use zarrow::{Array, ReadOptions, Selections};

/// Times that keep a run of all benchmarks short. The command line can ask for others.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(20)
        .configure_from_args()
}

/// One thread: its time says more about the code than that of many, which share caches and memory.
pub(crate) fn one_thread() -> ReadOptions {
    ReadOptions::default().with_threads(Some(1))
}

/// An array in a store of its own, in memory, which hands out its values without copying them.
pub(crate) struct Spec {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    item: usize,
    fill: Vec<u8>,
    codecs: Vec<Value>,
}

impl Spec {
    /// An array without a compressor, of elements of `item` bytes.
    pub(crate) fn new(shape: &[u64], chunk: &[u64], item: usize) -> Self {
        let codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
        Self { shape: shape.to_vec(), chunk: chunk.to_vec(), item, fill: vec![0; item], codecs }
    }

    pub(crate) fn codecs(self, codecs: impl Into<Vec<Value>>) -> Self {
        Self { codecs: codecs.into(), ..self }
    }

    /// `fill` are the bytes of one element.
    pub(crate) fn fill(self, fill: &[u8]) -> Self {
        Self { fill: fill.to_vec(), ..self }
    }

    /// The array without any chunk.
    pub(crate) fn empty(&self) -> Array {
        let store = Arc::new(MemoryStore::new());
        self.create(&store);
        Array::open(store, "/").expect("an array")
    }

    /// The array with all chunks, of numbers that grow slowly under some noise.
    pub(crate) fn written(&self) -> Array {
        Array::open(self.stored(), "/").expect("an array")
    }

    /// As [`written`](Self::written), but with other codecs: what `encode` makes of each chunk as stored.
    pub(crate) fn rewritten(&self, codecs: &[Value], encode: impl Fn(&[u8]) -> Vec<u8>) -> Array {
        let store = self.stored();
        for key in store.list().expect("keys") {
            let value = store.get(&key).expect("a value").expect("a value");
            let value = if key.as_str() == "zarr.json" {
                let mut metadata: Value = serde_json::from_slice(&value).expect("metadata");
                metadata["codecs"] = Value::from(codecs.to_vec());
                metadata.to_string().into_bytes()
            } else {
                encode(&value)
            };
            store.set(&key, value.into()).expect("stored");
        }
        Array::open(store, "/").expect("an array")
    }

    /// As [`written`](Self::written), in files of a new folder.
    pub(crate) fn in_files(&self, folder: &Path) -> Array {
        let store = self.stored();
        for key in store.list().expect("keys") {
            let file = folder.join(key.as_str());
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, store.get(&key).expect("a value").expect("a value")).expect("written");
        }
        Array::open_local(folder, None).expect("an array")
    }

    fn stored(&self) -> Arc<MemoryStore> {
        let store = Arc::new(MemoryStore::new());
        let array = self.create(&store);
        let len: u64 = self.chunk.iter().product();
        let mut bits = Bits(1);
        let grid: Vec<u64> = self.shape.iter().zip(&self.chunk).map(|(shape, chunk)| shape.div_ceil(*chunk)).collect();
        for chunk in 0..grid.iter().product() {
            let mut bytes = Vec::with_capacity(len as usize * self.item);
            for element in 0..len {
                let value = u128::from((chunk * len + element) / 16 + bits.below(16));
                bytes.extend_from_slice(&value.to_le_bytes()[..self.item]);
            }
            let mut left = chunk;
            let mut indices: Vec<u64> = grid
                .iter()
                .rev()
                .map(|len| {
                    let index = left % len;
                    left /= len;
                    index
                })
                .collect();
            indices.reverse();
            array.store_chunk(&indices, ArrayBytes::new_flen(bytes)).expect("a chunk");
        }
        store
    }

    fn create(&self, store: &Arc<MemoryStore>) -> zarrow::zarrs::array::Array<MemoryStore> {
        let codecs: Vec<MetadataV3> =
            self.codecs.iter().map(|codec| serde_json::from_value(codec.clone()).expect("a codec")).collect();
        let codecs = CodecChain::from_metadata(&codecs).expect("codecs");
        let fill = FillValue::new(self.fill.clone());
        let array = ArrayBuilder::new(self.shape.clone(), self.chunk.clone(), data_type(self.item), fill)
            .array_to_array_codecs(codecs.array_to_array_codecs().to_vec())
            .array_to_bytes_codec(codecs.array_to_bytes_codec().clone())
            .bytes_to_bytes_codecs(codecs.bytes_to_bytes_codecs().to_vec())
            .build(store.clone(), "/")
            .expect("an array");
        array.store_metadata().expect("metadata");
        array
    }
}

/// `chunks` chunks of `len` texts, of no to eleven bytes each.
pub(crate) fn text(chunks: u64, len: u64, codecs: &[Value]) -> Array {
    let store = Arc::new(MemoryStore::new());
    let codecs: Vec<MetadataV3> =
        codecs.iter().map(|codec| serde_json::from_value(codec.clone()).expect("a codec")).collect();
    let codecs = CodecChain::from_metadata(&codecs).expect("codecs");
    let array = ArrayBuilder::new(vec![chunks * len], vec![len], data_type::string(), "")
        .array_to_bytes_codec(codecs.array_to_bytes_codec().clone())
        .bytes_to_bytes_codecs(codecs.bytes_to_bytes_codecs().to_vec())
        .build(store.clone(), "/")
        .expect("an array");
    array.store_metadata().expect("metadata");
    let mut bits = Bits(3);
    for chunk in 0..chunks {
        let mut values = Vec::new();
        let mut offsets = vec![0];
        for _ in 0..len {
            let text = format!("{:011}", bits.below(1000));
            values.extend_from_slice(&text.as_bytes()[bits.below(12) as usize..]);
            offsets.push(values.len());
        }
        let offsets = ArrayBytesOffsets::new(offsets).expect("offsets");
        array.store_chunk(&[chunk], ArrayBytes::new_vlen(values, offsets).expect("texts")).expect("a chunk");
    }
    Array::open(store, "/").expect("an array")
}

fn data_type(item: usize) -> DataType {
    match item {
        1 => data_type::uint8(),
        2 => data_type::uint16(),
        4 => data_type::uint32(),
        8 => data_type::uint64(),
        16 => data_type::complex128(),
        other => panic!("no element has {other} bytes"),
    }
}

/// Boxes in no order, anywhere in `shape`, their extent on each axis one of `extents`.
pub(crate) fn boxes(shape: &[u64], count: usize, extents: &[RangeInclusive<u64>]) -> Selections {
    let mut bits = Bits(2);
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    for _ in 0..count {
        for (len, extents) in shape.iter().zip(extents) {
            let [start, stop] = bits.range(*len, extents);
            starts.push(start);
            stops.push(stop);
        }
    }
    Selections::boxes(shape.len(), starts, stops).expect("boxes")
}

/// Ranges in no order on an axis of `len` elements, each of one of `extents`.
pub(crate) fn ranges(len: u64, count: usize, extents: RangeInclusive<u64>) -> Selections {
    boxes(&[len], count, &[extents])
}

/// As [`ranges`], in order.
pub(crate) fn sorted_ranges(len: u64, count: usize, extents: &RangeInclusive<u64>) -> Selections {
    let mut bits = Bits(2);
    let mut ranges: Vec<[i64; 2]> = (0..count).map(|_| bits.range(len, extents)).collect();
    ranges.sort_unstable();
    columns(ranges)
}

/// `lists` rows of `count` random indices each.
pub(crate) fn index_lists(len: u64, lists: usize, count: usize) -> Selections {
    let mut bits = Bits(9);
    let offsets: Vec<i64> = (0..=lists).map(|list| (list * count) as i64).collect();
    let values: Vec<i64> = (0..lists * count).map(|_| bits.below(len) as i64).collect();
    Selections::indices(offsets, values).expect("lists of indices")
}

/// `count` ranges of `extent`, one every `step`.
pub(crate) fn windows(count: usize, step: i64, extent: i64) -> Selections {
    columns((0..count as i64).map(|window| [window * step, window * step + extent]))
}

fn columns(ranges: impl IntoIterator<Item = [i64; 2]>) -> Selections {
    let (starts, stops): (Vec<i64>, Vec<i64>) = ranges.into_iter().map(|[start, stop]| (start, stop)).unzip();
    Selections::ranges(starts, stops).expect("ranges")
}

/// A small generator of reproducible bits (`SplitMix64`).
pub(crate) struct Bits(pub(crate) u64);

impl Bits {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Start and stop of a range of one of `extents`, anywhere on an axis of `len` elements.
    pub(crate) fn range(&mut self, len: u64, extents: &RangeInclusive<u64>) -> [i64; 2] {
        let extent = extents.start() + self.below(extents.end() - extents.start() + 1);
        let start = self.below(len - extent + 1);
        [start as i64, (start + extent) as i64]
    }
}
