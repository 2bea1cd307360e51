//! Shared by the tests: arrays that zarrs writes, naive answers to compare with, and stores that watch or misbehave.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod cases;
pub(crate) mod damage;
pub(crate) mod encoded;
pub(crate) mod meaning;
pub(crate) mod naive;
pub(crate) mod selections;
pub(crate) mod store;
pub(crate) mod vocabulary;

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::ProptestConfig;
use serde_json::{Value, json};
use zarrow::zarrs::array::{Array as ZarrsArray, ArrayBuilder, ArrayBytes, CodecChain, DataType, FillValue, data_type};
use zarrow::zarrs::metadata::v3::MetadataV3;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{
    Bytes, ListableStorageTraits, ReadableStorage, ReadableStorageTraits, StoreKey, WritableStorageTraits,
};
use zarrow::{Array, ElementType, Error, ErrorKind};

pub(crate) const ELEMENTS: [ElementType; 14] = [
    ElementType::Bool,
    ElementType::Int8,
    ElementType::Int16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt8,
    ElementType::UInt16,
    ElementType::UInt32,
    ElementType::UInt64,
    ElementType::Float16,
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Complex64,
    ElementType::Complex128,
];

pub(crate) fn zarrs_type(element: &ElementType) -> DataType {
    match element {
        ElementType::Bool => data_type::bool(),
        ElementType::Int8 => data_type::int8(),
        ElementType::Int16 => data_type::int16(),
        ElementType::Int32 => data_type::int32(),
        ElementType::Int64 => data_type::int64(),
        ElementType::UInt8 => data_type::uint8(),
        ElementType::UInt16 => data_type::uint16(),
        ElementType::UInt32 => data_type::uint32(),
        ElementType::UInt64 => data_type::uint64(),
        ElementType::Float16 => data_type::float16(),
        ElementType::Float32 => data_type::float32(),
        ElementType::Float64 => data_type::float64(),
        ElementType::Complex64 => data_type::complex64(),
        ElementType::Complex128 => data_type::complex128(),
        other => panic!("{other:?} has no zarrs type here"),
    }
}

/// The codecs of a JSON list, for the setters of [`ArrayBuilder`].
pub(crate) fn codec_chain(codecs: &[Value]) -> CodecChain {
    let metadata: Vec<MetadataV3> =
        codecs.iter().map(|codec| serde_json::from_value(codec.clone()).expect("codec metadata")).collect();
    CodecChain::from_metadata(&metadata).expect("codecs")
}

/// Creates an array at `path` with the codecs of a JSON list and writes its metadata.
pub(crate) fn create(
    store: &Arc<MemoryStore>,
    path: &str,
    shape: &[u64],
    chunk: &[u64],
    element: &ElementType,
    fill: &[u8],
    codecs: &[Value],
) -> ZarrsArray<MemoryStore> {
    let chain = codec_chain(codecs);
    let fill = FillValue::new(fill.to_vec());
    let array = ArrayBuilder::new(shape.to_vec(), chunk.to_vec(), zarrs_type(element), fill)
        .array_to_array_codecs(chain.array_to_array_codecs().to_vec())
        .array_to_bytes_codec(chain.array_to_bytes_codec().clone())
        .bytes_to_bytes_codecs(chain.bytes_to_bytes_codecs().to_vec())
        .build(store.clone(), path)
        .expect("array");
    array.store_metadata().expect("metadata");
    array
}

/// A `u16` array whose elements count up in C order, wrapping, with fill value 9.
pub(crate) fn counting_array(store: &Arc<MemoryStore>, path: &str, shape: &[u64], chunk: &[u64], codecs: &[Value]) {
    let array = create(store, path, shape, chunk, &ElementType::UInt16, &9_u16.to_ne_bytes(), codecs);
    for index in naive::coordinates(&naive::grid(shape, chunk)) {
        let mut bytes = Vec::new();
        for at in naive::coordinates(chunk) {
            let at = at.iter().zip(&index).zip(chunk).map(|((at, index), chunk)| index * chunk + at);
            let element = at.zip(shape).fold(0_u64, |element, (at, len)| element.wrapping_mul(*len).wrapping_add(at));
            bytes.extend_from_slice(&(element as u16).to_ne_bytes());
        }
        array.store_chunk(&index, ArrayBytes::new_flen(bytes)).expect("chunk");
    }
}

pub(crate) fn bytes_codec() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

pub(crate) fn gzip_codec() -> Value {
    json!({"name": "gzip", "configuration": {"level": 1}})
}

/// The sharding codec; the index is checked by `crc32c` and lies at `index_location`.
pub(crate) fn sharding_codec(subchunk: &[u64], inner: &[Value], index_location: &str) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": subchunk,
        "codecs": inner,
        "index_codecs": [bytes_codec(), {"name": "crc32c"}],
        "index_location": index_location,
    }})
}

/// Copies the node at `path` (such as "/a") into the directory `root`.
pub(crate) fn export(store: &MemoryStore, path: &str, root: &Path) {
    let prefix = path.trim_matches('/');
    for key in store.list().expect("keys") {
        let Some(below) = key.as_str().strip_prefix(prefix) else { continue };
        let file = root.join(below.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("directory");
        std::fs::write(file, get(store, key.as_str())).expect("file");
    }
}

pub(crate) fn get(store: &MemoryStore, key: &str) -> Bytes {
    store.get(&StoreKey::new(key).expect("key")).expect("value").unwrap_or_else(|| panic!("no value at {key}"))
}

/// A store with the same values.
pub(crate) fn copy(store: &MemoryStore) -> Arc<MemoryStore> {
    let copy = MemoryStore::new();
    for key in store.list().expect("keys") {
        set(&copy, key.as_str(), get(store, key.as_str()));
    }
    Arc::new(copy)
}

pub(crate) fn set(store: &MemoryStore, key: &str, value: impl Into<Bytes>) {
    // The store writes in place: what is longer must go first.
    store.erase(&StoreKey::new(key).expect("key")).expect("erased");
    store.set(&StoreKey::new(key).expect("key"), value.into()).expect("written");
}

/// Opens an array of a store in memory.
pub(crate) fn open(store: &Arc<MemoryStore>, path: &str) -> zarrow::Result<Array> {
    let storage: ReadableStorage = store.clone();
    Array::open(storage, path)
}

/// An array whose store holds no chunk, of fill value 0.
pub(crate) fn empty_array(shape: &[u64], chunk: &[u64], data_type: &str, codecs: &Value) -> zarrow::Result<Array> {
    let store = Arc::new(MemoryStore::new());
    let metadata = json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": if data_type.starts_with("complex") { json!([0.0, 0.0]) } else { json!(0) },
        "codecs": codecs,
        "attributes": {},
    });
    set(&store, "a/zarr.json", metadata.to_string());
    open(&store, "/a")
}

/// So many cases, unless the environment variable `PROPTEST_CASES` asks for another number. Cases that fail are printed,
/// not kept in files.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 5000, ..default }
}

/// Asserts the kind of an error, and that its message says what was expected or what to do about it.
#[track_caller]
pub(crate) fn assert_error(error: &Error, kind: ErrorKind) {
    if let Some(complaint) = complaint(error, kind) {
        panic!("{complaint}");
    }
}

/// What [`assert_error`] has to say against an error.
pub(crate) fn complaint(error: &Error, kind: ErrorKind) -> Option<String> {
    let message = error.to_string();
    if error.kind() != kind {
        return Some(format!("{:?} instead of {kind:?}: {message}", error.kind()));
    }
    // A remedy begins as a sentence of its own.
    let sentence = message.match_indices(". ").any(|(at, _)| message[at + 2..].starts_with(char::is_uppercase));
    let helps = message.contains("; expected ") || sentence;
    (!helps).then(|| format!("{kind:?} with neither expectation nor remedy: {message}"))
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
}
