//! What goes wrong is an error of the right kind that names the place and the remedy, and never a panic.

mod common;

use std::num::NonZeroU64;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, ArrayToBytesCodecTraits, CodecOptions, FillValue, data_type};
use zarrow::zarrs::storage::byte_range::ByteRange;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{ReadableStorageTraits, StoreKey, WritableStorageTraits};
use zarrow::{Array, Error, ErrorKind, Item, Ragged, ReadOptions, Result, Selections, ZarrFormat, read_batch};

use crate::common::store::{Answer, Watched};
use crate::common::{self as lib, assert_error, bytes_codec, gzip_codec, sharding_codec};

fn whole() -> Selections {
    Selections::items([[Item::Ellipsis]])
}

fn read(array: &Array, threads: usize) -> Result<Ragged> {
    array.read(&whole(), &ReadOptions::default().with_threads(Some(threads)))
}

/// An array of a store in memory, and its copy in a directory that lives as long as this.
struct Both {
    arrays: [Array; 2],
    /// The array's path, as the errors name it.
    locations: [String; 2],
    directory: tempfile::TempDir,
}

impl Both {
    fn open(store: &Arc<MemoryStore>, path: &str) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        lib::export(store, path, directory.path());
        let arrays = [
            lib::open(store, path).expect("array in memory"),
            Array::open_local(directory.path(), None).expect("array in a directory"),
        ];
        let locations = [path.to_owned(), directory.path().display().to_string()];
        Self { arrays, locations, directory }
    }
}

/// Asserts that reading all of the array at "/a" fails with `kind` at the key "a/`name`", from memory as from a
/// directory, on one thread as on several.
#[track_caller]
fn assert_fails(store: &Arc<MemoryStore>, kind: ErrorKind, name: &str) {
    let both = Both::open(store, "/a");
    for (array, key) in both.arrays.iter().zip([format!("a/{name}"), name.to_owned()]) {
        for threads in [1, 3] {
            let Err(error) = read(array, threads) else { panic!("{} was read", array.location()) };
            assert_eq!(error.key(), Some(&key[..]), "{error}");
            assert_eq!(error.selection(), None);
            assert_error(&error, kind);
            assert!(error.to_string().contains(&key), "{error}");
        }
    }
}

/// Chains of codecs that detect any truncation.
fn chains() -> Vec<Vec<Value>> {
    let crc32c = json!({"name": "crc32c"});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let blosc = json!({"name": "blosc", "configuration":
        {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}});
    let big = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    vec![
        vec![bytes_codec()],
        vec![big.clone()],
        vec![transpose.clone(), bytes_codec()],
        vec![bytes_codec(), crc32c.clone()],
        vec![bytes_codec(), zstd.clone()],
        vec![bytes_codec(), json!({"name": "zstd", "configuration": {"level": 1, "checksum": true}})],
        vec![bytes_codec(), blosc.clone()],
        vec![
            bytes_codec(),
            json!({"name": "blosc", "configuration":
            {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}}),
        ],
        vec![bytes_codec(), gzip_codec()],
        vec![bytes_codec(), json!({"name": "numcodecs.zlib", "configuration": {"level": 1}})],
        vec![bytes_codec(), json!({"name": "numcodecs.bz2", "configuration": {"level": 1}})],
        vec![json!({"name": "numcodecs.pcodec", "configuration": {"level": 2}})],
        vec![transpose, big, crc32c.clone(), zstd.clone(), crc32c.clone()],
        vec![bytes_codec(), blosc, zstd],
        vec![sharding_codec(&[3, 4], &[bytes_codec()], "end"), gzip_codec()],
        vec![bytes_codec(), gzip_codec(), crc32c],
    ]
}

fn counting(codecs: &[Value]) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    lib::counting_array(&store, "/a", &[12, 8], &[6, 8], codecs);
    store
}

#[test]
fn truncated_chunks() {
    for codecs in chains() {
        let store = counting(&codecs);
        let chunk = lib::get(&store, "a/c/1/0");
        assert_eq!(read(&lib::open(&store, "/a").expect("array"), 2).expect("not yet truncated").values().len(), 96);
        for len in [0, 1, 4, 15, chunk.len() / 2, chunk.len() - 1] {
            lib::set(&store, "a/c/1/0", chunk.slice(..len));
            assert_fails(&store, ErrorKind::Decode, "c/1/0");
        }
    }
}

#[test]
fn chunks_of_another_shape() {
    // Whole and well encoded, but a chunk of more or fewer elements than the metadata says.
    for codecs in chains() {
        for shape in [[12, 8], [3, 8]] {
            let other = Arc::new(MemoryStore::new());
            lib::counting_array(&other, "/a", &[12, 8], &shape, &codecs);
            let store = counting(&codecs);
            lib::set(&store, "a/c/0/0", lib::get(&other, "a/c/0/0"));
            assert_fails(&store, ErrorKind::Decode, "c/0/0");
        }
    }
}

#[test]
fn checksums_find_every_flipped_bit() {
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    for codecs in [
        vec![bytes_codec(), json!({"name": "crc32c"})],
        vec![bytes_codec(), zstd, json!({"name": "crc32c"})],
        vec![sharding_codec(&[3, 8], &[bytes_codec(), json!({"name": "crc32c"})], "end")],
        vec![sharding_codec(&[3, 8], &[bytes_codec(), json!({"name": "crc32c"})], "start")],
    ] {
        let store = counting(&codecs);
        let chunk = lib::get(&store, "a/c/1/0");
        for at in 0..chunk.len() {
            let mut flipped = chunk.to_vec();
            flipped[at] ^= 1 << (at % 8);
            lib::set(&store, "a/c/1/0", flipped);
            let error = read(&lib::open(&store, "/a").expect("array"), 1).expect_err("flipped");
            assert_eq!(error.key(), Some("a/c/1/0"), "byte {at}: {error}");
            assert_error(&error, ErrorKind::Decode);
        }
    }
}

proptest! {
    #![proptest_config(lib::config(2000))]

    /// Whatever the bytes, the result is an error or has the right length.
    #[test]
    fn damaged_chunks_never_panic(
        codecs in select(chains()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
        part in any::<bool>(),
    ) {
        let store = counting(&codecs);
        let mut chunk = lib::get(&store, "a/c/1/0").to_vec();
        for (at, byte) in damage {
            let at = at.index(chunk.len());
            chunk[at] = byte;
        }
        if let Some(cut) = cut {
            chunk.truncate(cut.index(chunk.len()));
        }
        lib::set(&store, "a/c/1/0", chunk);
        let array = lib::open(&store, "/a").expect("array");
        let selections = if part {
            Selections::boxes(2, vec![7, 1, 2, 2], vec![9, 3, 3, 4]).expect("boxes")
        } else {
            whole()
        };
        match array.read(&selections, &ReadOptions::default().with_threads(Some(2))) {
            Ok(ragged) => prop_assert_eq!(ragged.values().len(), if part { 6 } else { 96 }),
            Err(error) => {
                prop_assert_eq!(error.key(), Some("a/c/1/0"), "{}", error);
                assert_error(&error, ErrorKind::Decode);
            }
        }
    }
}

/// Offset and length of each subchunk of a shard.
type Index = Vec<[u64; 2]>;

fn index_codecs() -> zarrow::zarrs::array::CodecChain {
    lib::codec_chain(&[bytes_codec(), json!({"name": "crc32c"})])
}

fn index_shape(subchunks: usize) -> [NonZeroU64; 2] {
    [subchunks as u64, 2].map(|len| NonZeroU64::new(len).expect("a length"))
}

/// The index with a valid checksum.
fn encode_index(index: &Index) -> Vec<u8> {
    let bytes: Vec<u8> = index.iter().flatten().flat_map(|number| number.to_ne_bytes()).collect();
    let (fill, options) = (FillValue::from(u64::MAX), CodecOptions::default());
    let shape = index_shape(index.len());
    let encoded = index_codecs().encode(ArrayBytes::new_flen(bytes), &shape, &data_type::uint64(), &fill, &options);
    encoded.expect("encoded").into_owned()
}

fn decode_index(encoded: &[u8]) -> Index {
    let (fill, options) = (FillValue::from(u64::MAX), CodecOptions::default());
    let shape = index_shape((encoded.len() - 4) / 16);
    let decoded = index_codecs().decode(encoded.into(), &shape, &data_type::uint64(), &fill, &options);
    let bytes = decoded.expect("decoded").into_fixed().expect("fixed").into_owned();
    let numbers: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
    numbers.as_chunks().0.to_vec()
}

/// Where the index of a shard of `subchunks` lies.
fn index_range(shard: &[u8], subchunks: usize, location: &str) -> std::ops::Range<usize> {
    let len = subchunks * 16 + 4;
    if location == "start" { 0..len } else { shard.len() - len..shard.len() }
}

/// Entries that no shard of `len` bytes may have.
fn impossible_entries(len: usize) -> Vec<[u64; 2]> {
    let len = len as u64;
    vec![
        [len, 1],
        [len + 1, 0],
        [0, len + 1],
        [0, 1 << 62],
        [1 << 62, 16],
        [1 << 63, 1 << 63],
        [u64::MAX - 3, 8],
        [u64::MAX - 8, 8],
        [8, u64::MAX - 3],
        [u64::MAX - 1, u64::MAX - 1],
        [0, 0],
        [16, 0],
        [u64::MAX, 8],
        [8, u64::MAX],
        [u64::MAX, 0],
        [0, u64::MAX],
    ]
}

#[test]
fn corrupt_shard_indices() {
    for (location, inner) in
        [("end", vec![bytes_codec()]), ("start", vec![bytes_codec()]), ("end", vec![bytes_codec(), gzip_codec()])]
    {
        let store = counting(&[sharding_codec(&[3, 4], &inner, location)]);
        let shard = lib::get(&store, "a/c/1/0").to_vec();
        let range = index_range(&shard, 4, location);
        for entry in impossible_entries(shard.len()) {
            let mut index = decode_index(&shard[range.clone()]);
            index[2] = entry;
            let mut corrupt = shard.clone();
            corrupt[range.clone()].copy_from_slice(&encode_index(&index));
            lib::set(&store, "a/c/1/0", corrupt);
            assert_fails(&store, ErrorKind::Decode, "c/1/0");
            // The subchunks beside it are as good as ever.
            let array = lib::open(&store, "/a").expect("array");
            let beside = Selections::boxes(2, vec![6, 0, 9, 4], vec![9, 8, 12, 8]).expect("boxes");
            assert_eq!(array.read(&beside, &ReadOptions::default()).expect("read").values().len(), 36);
        }
        for at in range.clone() {
            let mut corrupt = shard.clone();
            corrupt[at] ^= 0x10;
            lib::set(&store, "a/c/1/0", corrupt);
            let error = read(&lib::open(&store, "/a").expect("array"), 2).expect_err("corrupt");
            assert_eq!(error.key(), Some("a/c/1/0"));
            assert_error(&error, ErrorKind::Decode);
        }
    }
}

#[test]
fn truncated_shards() {
    for location in ["start", "end"] {
        let store = counting(&[sharding_codec(&[3, 4], &[bytes_codec()], location)]);
        let shard = lib::get(&store, "a/c/1/0");
        let index = index_range(&shard, 4, "start").len();
        for len in [0, 1, index - 1, index, index + 1, shard.len() - 1] {
            lib::set(&store, "a/c/1/0", shard.slice(..len));
            assert_fails(&store, ErrorKind::Decode, "c/1/0");
        }
    }
}

#[test]
fn corrupt_indices_of_nested_shards() {
    for location in ["start", "end"] {
        let inner = sharding_codec(&[3, 2], &[bytes_codec()], location);
        let store = counting(&[sharding_codec(&[6, 4], &[inner], "end")]);
        let shard = lib::get(&store, "a/c/1/0").to_vec();
        let [start, len] = decode_index(&shard[index_range(&shard, 2, "end")])[1].map(|number| number as usize);
        let subchunk = &shard[start..start + len];
        for corrupt in corrupt_shards(subchunk, location) {
            let mut shard = shard.clone();
            shard[start..start + len].copy_from_slice(&corrupt);
            lib::set(&store, "a/c/1/0", shard);
            assert_fails(&store, ErrorKind::Decode, "c/1/0");
        }
    }
}

#[test]
fn corrupt_indices_of_shards_behind_other_codecs() {
    for location in ["start", "end"] {
        for codecs in [
            vec![sharding_codec(&[3, 4], &[bytes_codec()], location), gzip_codec()],
            vec![
                json!({"name": "transpose", "configuration": {"order": [1, 0]}}),
                sharding_codec(&[4, 3], &[bytes_codec()], location),
            ],
        ] {
            let store = counting(&codecs);
            let gzip = lib::codec_chain(&[json!({"name": "bytes"}), gzip_codec()]);
            let (fill, options) = (FillValue::from(0_u8), CodecOptions::default());
            let shape = |len: usize| [NonZeroU64::new(len as u64).expect("bytes")];
            let compressed = codecs.len() == 2 && codecs[1] == gzip_codec();
            let stored = lib::get(&store, "a/c/1/0").to_vec();
            let shard = if compressed {
                // 4 subchunks of 12 elements of 2 bytes, and the index.
                let decoded = gzip.decode(stored.into(), &shape(4 * 24 + 68), &data_type::uint8(), &fill, &options);
                decoded.expect("decoded").into_fixed().expect("fixed").into_owned()
            } else {
                stored
            };
            for corrupt in corrupt_shards(&shard, location) {
                let stored = if compressed {
                    let bytes = ArrayBytes::new_flen(corrupt);
                    let encoded = gzip.encode(bytes, &shape(shard.len()), &data_type::uint8(), &fill, &options);
                    encoded.expect("encoded").into_owned()
                } else {
                    corrupt
                };
                lib::set(&store, "a/c/1/0", stored);
                assert_fails(&store, ErrorKind::Decode, "c/1/0");
            }
        }
    }
}

/// A shard of four subchunks with one impossible entry in its index, or with an index that its checksum disowns.
fn corrupt_shards(shard: &[u8], location: &str) -> Vec<Vec<u8>> {
    let range = index_range(shard, 4, location);
    let with_index = |encoded: &[u8]| {
        let mut corrupt = shard.to_vec();
        corrupt[range.clone()].copy_from_slice(encoded);
        corrupt
    };
    let entries = impossible_entries(shard.len()).into_iter().map(|entry| {
        let mut index = decode_index(&shard[range.clone()]);
        index[1] = entry;
        with_index(&encode_index(&index))
    });
    let mut disowned = shard[range.clone()].to_vec();
    disowned[9] ^= 1;
    entries.chain([with_index(&disowned)]).collect()
}

/// The metadata of a sharded array of `uint16`.
fn metadata() -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [12, 8],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6, 8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [sharding_codec(&[3, 4], &[bytes_codec(), gzip_codec()], "end")],
        "attributes": {},
    })
}

fn metadata_v2() -> Value {
    json!({
        "zarr_format": 2,
        "shape": [12, 8],
        "chunks": [6, 8],
        "dtype": "<u2",
        "compressor": {"id": "zlib", "level": 1},
        "fill_value": 0,
        "order": "C",
        "filters": null,
    })
}

/// Opens a document as the array at "/a", from memory and from a directory; both give the same error.
fn open_document(name: &str, document: &str) -> Result<Error, String> {
    let store = Arc::new(MemoryStore::new());
    lib::set(&store, &format!("a/{name}"), document.to_owned());
    let directory = tempfile::tempdir().expect("directory");
    lib::export(&store, "/a", directory.path());
    let outcome = catch_unwind(|| (Array::open_local(directory.path(), None), lib::open(&store, "/a")));
    let (local, memory) = outcome.map_err(|_| format!("panicked: {document}"))?;
    let (Err(local), Err(memory)) = (local, memory) else { return Err(format!("opened: {document}")) };
    for (error, location) in [(&local, &*directory.path().display().to_string()), (&memory, "/a")] {
        if !error.to_string().contains(location) || error.kind() != memory.kind() {
            return Err(format!("{document}: {location} is not in: {error}"));
        }
    }
    Ok(memory)
}

#[track_caller]
fn open_error(name: &str, document: &str) -> Error {
    open_document(name, document).unwrap_or_else(|complaint| panic!("{complaint}"))
}

/// Collects what is wrong with the errors of many documents, to report all of it.
#[derive(Default)]
struct Complaints(Vec<String>);

impl Complaints {
    /// Opens `document`, which differs from a valid one in `what`, and gives the message.
    fn check(&mut self, kind: ErrorKind, name: &str, document: &str, what: &str) -> String {
        match open_document(name, document) {
            Ok(error) => {
                let complaint = lib::complaint(&error, kind);
                self.0.extend(complaint.map(|complaint| format!("{what}: {complaint}")));
                error.to_string()
            }
            Err(complaint) => {
                self.0.push(format!("{what}: {complaint}"));
                String::new()
            }
        }
    }

    /// As [`check`](Self::check), with `value` in place of what the v3 metadata has at `pointer`.
    fn check_v3(&mut self, kind: ErrorKind, pointer: &str, value: &Value) {
        let mut document = metadata();
        *document.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value.clone();
        self.check(kind, "zarr.json", &document.to_string(), &format!("{pointer} = {value}"));
    }

    /// As [`check`](Self::check), with `value` in place of what the v2 metadata has in `field`.
    fn check_v2(&mut self, kind: ErrorKind, field: &str, value: &Value) {
        let mut document = metadata_v2();
        document[field] = value.clone();
        self.check(kind, ".zarray", &document.to_string(), &format!("{field} = {value}"));
    }

    fn names(&mut self, text: &str, name: &str) {
        if !text.contains(name) {
            self.0.push(format!("'{name}' is not named in: {text}"));
        }
    }

    #[track_caller]
    fn assert_none(self) {
        assert!(self.0.is_empty(), "{} complaints:\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[test]
fn documents_that_are_no_array_metadata() {
    let mut complaints = Complaints::default();
    for document in ["", " ", "zarr", "{", "[]", "null", "3", "\"array\"", "{}", "\u{0}", r#"{"zarr_format": 3}"#] {
        complaints.check(ErrorKind::Metadata, "zarr.json", document, &format!("zarr.json '{document}'"));
        complaints.check(ErrorKind::Metadata, ".zarray", document, &format!(".zarray '{document}'"));
    }
    let text = metadata().to_string();
    complaints.check(ErrorKind::Metadata, "zarr.json", &text[..text.len() / 2], "half of zarr.json");
    // Not even text.
    let store = Arc::new(MemoryStore::new());
    lib::set(&store, "a/zarr.json", vec![0xff, 0xfe, 0x00]);
    let error = lib::open(&store, "/a").expect_err("no text");
    complaints.0.extend(lib::complaint(&error, ErrorKind::Metadata));

    for field in ["zarr_format", "node_type", "shape", "data_type", "chunk_grid", "fill_value", "codecs"] {
        let mut document = metadata();
        document.as_object_mut().expect("an object").remove(field);
        let what = format!("without {field}");
        let text = complaints.check(ErrorKind::Metadata, "zarr.json", &document.to_string(), &what);
        complaints.names(&text, field);
    }
    for field in ["shape", "chunks", "dtype", "order"] {
        let mut document = metadata_v2();
        document.as_object_mut().expect("an object").remove(field);
        let what = format!("without {field}");
        let text = complaints.check(ErrorKind::Metadata, ".zarray", &document.to_string(), &what);
        complaints.names(&text, field);
    }
    complaints.assert_none();
}

#[test]
fn impossible_metadata() {
    use ErrorKind::{Metadata, Unsupported};
    let codec = "/codecs/0/configuration";
    let mut complaints = Complaints::default();
    for (kind, pointer, value) in [
        (Metadata, "/zarr_format", json!(4)),
        (Metadata, "/node_type", json!("table")),
        (Metadata, "/shape", json!([12])),
        (Metadata, "/shape", json!([12, 8, 1])),
        (Metadata, "/shape", json!([-1, 8])),
        (Metadata, "/shape", json!([1.5, 8])),
        (Metadata, "/shape", json!("12x8")),
        (Unsupported, "/shape", json!([1_u64 << 63, 8])),
        (Unsupported, "/shape", json!([u64::MAX, 8])),
        (Unsupported, "/shape", json!([i64::MAX, i64::MAX])),
        (Metadata, "/data_type", json!(3)),
        (Metadata, "/fill_value", json!("zero")),
        (Metadata, "/fill_value", json!(-1)),
        (Metadata, "/fill_value", json!(65536)),
        (Metadata, "/fill_value", json!(null)),
        (Metadata, "/chunk_grid/configuration/chunk_shape", json!([0, 8])),
        (Metadata, "/chunk_grid/configuration/chunk_shape", json!([6])),
        (Metadata, "/chunk_grid/configuration/chunk_shape", json!([6, 8, 1])),
        (Metadata, "/chunk_grid/configuration/chunk_shape", json!([-6, 8])),
        (Metadata, "/chunk_grid/configuration/chunk_shape", json!([7, 8])),
        (Metadata, "/chunk_grid/configuration", json!({})),
        (Metadata, "/codecs", json!([])),
        (Metadata, "/codecs", json!([gzip_codec()])),
        (Metadata, "/codecs", json!([bytes_codec(), bytes_codec()])),
        (Metadata, "/codecs", json!([gzip_codec(), bytes_codec()])),
        (Metadata, "/codecs", json!([{"name": "transpose", "configuration": {"order": [0, 0]}}, bytes_codec()])),
        (Metadata, "/codecs", json!([{"name": "transpose", "configuration": {"order": [0]}}, bytes_codec()])),
        (Metadata, "/codecs", json!([{"name": "transpose", "configuration": {"order": [2, 1, 0]}}, bytes_codec()])),
        (Metadata, "/codecs", json!([bytes_codec(), {"name": "gzip", "configuration": {"level": 99}}])),
        (Metadata, "/codecs", json!([{"name": "bytes"}])),
        (Metadata, &format!("{codec}/chunk_shape"), json!([4, 8])),
        (Metadata, &format!("{codec}/chunk_shape"), json!([3])),
        (Metadata, &format!("{codec}/chunk_shape"), json!([3, 4, 1])),
        (Metadata, &format!("{codec}/chunk_shape"), json!([12, 8])),
        (Metadata, &format!("{codec}/chunk_shape"), json!([0, 4])),
        (Metadata, &format!("{codec}/index_location"), json!("middle")),
        (Metadata, &format!("{codec}/index_codecs"), json!([])),
        (Metadata, &format!("{codec}/index_codecs"), json!([bytes_codec(), gzip_codec()])),
        (Metadata, &format!("{codec}/codecs"), json!([])),
        (Metadata, &format!("{codec}/codecs"), json!([gzip_codec(), bytes_codec()])),
        (Metadata, codec, json!({})),
    ] {
        complaints.check_v3(kind, pointer, &value);
    }
    for (field, value) in [
        ("zarr_format", json!(3)),
        ("shape", json!([12])),
        ("shape", json!([12, -8])),
        ("chunks", json!([6, 0])),
        ("chunks", json!([6])),
        ("chunks", json!(6)),
        ("order", json!("A")),
        ("dtype", json!(7)),
        ("fill_value", json!("zero")),
        ("dimension_separator", json!("-")),
        ("compressor", json!("zlib")),
    ] {
        complaints.check_v2(Metadata, field, &value);
    }
    complaints.assert_none();
}

#[test]
fn chunks_too_large_to_hold() {
    let chunk = "/chunk_grid/configuration/chunk_shape";
    let mut document = metadata();
    document["codecs"] = json!([bytes_codec()]);
    for shape in
        [json!([1_u64 << 62, 4]), json!([u64::MAX, 1]), json!([u64::MAX, u64::MAX]), json!([1_u64 << 32, 1_u64 << 31])]
    {
        *document.pointer_mut(chunk).expect("the chunk shape") = shape;
        assert_error(&open_error("zarr.json", &document.to_string()), ErrorKind::Unsupported);
    }
    // One that could be held in theory opens, and its chunk fails to decode.
    for (codecs, shape) in [
        (json!([bytes_codec()]), json!([1_u64 << 45, 8])),
        (json!([bytes_codec(), gzip_codec()]), json!([1_u64 << 45, 8])),
        (json!([bytes_codec(), gzip_codec(), {"name": "crc32c"}]), json!([1_u64 << 59, 1])),
        (json!([{"name": "numcodecs.pcodec", "configuration": {"level": 2}}]), json!([1_u64 << 45, 8])),
    ] {
        document["codecs"] = codecs;
        *document.pointer_mut(chunk).expect("the chunk shape") = shape;
        let store = Arc::new(MemoryStore::new());
        lib::set(&store, "a/zarr.json", document.to_string());
        let array = lib::open(&store, "/a").expect("array");
        // Without the chunk, the fill value is all there is to read.
        assert_eq!(read(&array, 1).expect("fill values").stats().chunks_missing, 1);
        lib::set(&store, "a/c/0/0", vec![7; 64]);
        let error = read(&array, 1).expect_err("too large");
        assert!(matches!(error.kind(), ErrorKind::Decode | ErrorKind::Allocation), "{error}");
        assert_eq!(error.key(), Some("a/c/0/0"), "{error}");
        assert_error(&error, error.kind());
    }
    // Shards: the index of 2^64 subchunks, and one that is merely enormous.
    let inner = "/codecs/0/configuration/chunk_shape";
    let mut document = metadata();
    *document.pointer_mut(chunk).expect("the chunk shape") = json!([3_u64 << 60, 1_u64 << 60]);
    *document.pointer_mut(inner).expect("the subchunk shape") = json!([3, 1]);
    let error = open_error("zarr.json", &document.to_string());
    assert!(matches!(error.kind(), ErrorKind::Metadata | ErrorKind::Unsupported), "{error}");
    assert_error(&error, error.kind());
    *document.pointer_mut(chunk).expect("the chunk shape") = json!([3_u64 << 40, 4]);
    *document.pointer_mut(inner).expect("the subchunk shape") = json!([3, 4]);
    let store = Arc::new(MemoryStore::new());
    lib::set(&store, "a/zarr.json", document.to_string());
    lib::set(&store, "a/c/0/0", vec![7; 64]);
    assert_fails(&store, ErrorKind::Decode, "c/0/0");
}

#[test]
fn what_is_valid_zarr_but_not_read_yet() {
    use ErrorKind::Unsupported;
    let mut complaints = Complaints::default();
    let unknown = json!({"name": "no_such_codec"});
    let inner = |codecs: Value| {
        json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [3, 4], "codecs": codecs, "index_codecs": [bytes_codec()], "index_location": "end"}}])
    };
    for (pointer, value) in [
        ("/codecs", json!([bytes_codec(), unknown])),
        ("/codecs", json!([unknown, bytes_codec()])),
        ("/codecs", json!([unknown])),
        ("/codecs", json!([bytes_codec(), {"name": "numcodecs.lzma", "configuration": {}}])),
        ("/codecs", inner(json!([bytes_codec(), unknown]))),
        ("/codecs/0/configuration/index_codecs", json!([bytes_codec(), unknown])),
        (
            "/chunk_grid",
            json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[6, 6], [8]]}}),
        ),
        ("/chunk_grid", json!({"name": "no_such_grid"})),
        ("/chunk_key_encoding", json!({"name": "no_such_encoding"})),
        ("/data_type", json!("no_such_type")),
    ] {
        complaints.check_v3(Unsupported, pointer, &value);
    }
    for (data_type, fill) in [
        (json!("string"), json!("")),
        (json!("variable_length_bytes"), json!("")),
        (json!("r16"), json!([0, 0])),
        (json!("bfloat16"), json!(0.0)),
        (json!("float8_e4m3"), json!(0.0)),
        (json!("int4"), json!(0)),
        (json!("complex_float32"), json!([0.0, 0.0])),
        (json!({"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}}), json!(0)),
        (json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}), json!("")),
    ] {
        let mut document = metadata();
        document["data_type"] = data_type.clone();
        document["fill_value"] = fill;
        document["codecs"] = json!([bytes_codec()]);
        let text = complaints.check(Unsupported, "zarr.json", &document.to_string(), &data_type.to_string());
        let name = data_type.as_str().or_else(|| data_type["name"].as_str()).expect("a name");
        complaints.names(&text, name);
    }
    for (field, value) in [
        ("storage_transformers", json!([{"name": "no_such_transformer"}])),
        ("no_such_extension", json!({"name": "x", "must_understand": true})),
    ] {
        let mut document = metadata();
        document[field] = value;
        complaints.check(Unsupported, "zarr.json", &document.to_string(), field);
    }
    for (field, value) in [
        ("compressor", json!({"id": "no_such_codec"})),
        ("filters", json!([{"id": "no_such_filter"}])),
        ("dtype", json!("|O")),
        ("dtype", json!("|S5")),
        ("dtype", json!("<U5")),
        ("dtype", json!("|V4")),
        ("dtype", json!("<M8[ns]")),
        ("dtype", json!([["x", "<f4"], ["y", "<f4"]])),
    ] {
        complaints.check_v2(Unsupported, field, &value);
    }
    complaints.assert_none();
}

#[test]
fn unknown_codecs_are_named() {
    let mut document = metadata();
    document["codecs"] = json!([bytes_codec(), {"name": "no_such_codec"}]);
    let error = open_error("zarr.json", &document.to_string());
    assert!(error.to_string().contains("no_such_codec"), "{error}");
    let mut document = metadata_v2();
    document["compressor"] = json!({"id": "no_such_codec"});
    let error = open_error(".zarray", &document.to_string());
    assert!(error.to_string().contains("no_such_codec"), "{error}");
}

/// All JSON pointers into `value`.
fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| pointers(item, &format!("{here}/{at}"), all));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| pointers(field, &format!("{here}/{name}"), all));
        }
        _ => {}
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(7),
        json!(1_u64 << 31),
        json!(1_u64 << 62),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(0.5),
        json!(""),
        json!("NaN"),
        json!("big"),
        json!("start"),
        json!("bytes"),
        json!("float64"),
        json!("crc32c"),
        json!([]),
        json!([1]),
        json!([2, 2]),
        json!([u64::MAX, u64::MAX]),
        json!([1_u64 << 40, 1_u64 << 40]),
        json!([0, 0]),
        json!({}),
        json!({"name": "bytes"}),
        json!({"name": "crc32c"}),
        json!([bytes_codec(), gzip_codec()]),
    ])
}

proptest! {
    #![proptest_config(lib::config(3000))]

    /// Odd metadata opens or does not, and what opens can be planned and read, or not; nothing panics.
    #[test]
    fn odd_metadata_never_panics(
        v2 in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 1..3),
    ) {
        let mut document = if v2 { metadata_v2() } else { metadata() };
        for (at, value) in changes {
            let mut all = Vec::new();
            pointers(&document, "", &mut all);
            // Not the document as a whole.
            let at = if all.len() > 1 { 1 + at.index(all.len() - 1) } else { 0 };
            *document.pointer_mut(&all[at]).expect("a pointer of the document") = value;
        }
        let store = Arc::new(MemoryStore::new());
        lib::set(&store, if v2 { "a/.zarray" } else { "a/zarr.json" }, document.to_string());
        match lib::open(&store, "/a") {
            Err(error) => {
                let kinds = [ErrorKind::Metadata, ErrorKind::Unsupported, ErrorKind::NotFound];
                prop_assert!(kinds.contains(&error.kind()), "{}: {}", document, error);
                prop_assert!(!error.to_string().is_empty());
            }
            Ok(array) => {
                let corner = Selections::items([vec![Item::from(-2..); array.shape().len()]]);
                let plan = array.plan(&corner).expect("a plan of few elements");
                prop_assert!(plan.layout().elements() <= 4);
                let ragged = array.read(&corner, &ReadOptions::default().with_threads(Some(1))).expect("fill values");
                prop_assert_eq!(ragged.stats().chunks_missing, plan.read_chunks());
            }
        }
    }
}

#[test]
fn nothing_there() {
    let store = Arc::new(MemoryStore::new());
    lib::set(&store, "a/zarr.json", metadata().to_string());
    lib::set(&store, "g/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    lib::set(&store, "old/.zgroup", r#"{"zarr_format": 2}"#);
    for path in ["/", "/b", "/a/b", "a", "", "/g", "/old"] {
        let error = lib::open(&store, path).expect_err(path);
        assert_error(&error, ErrorKind::NotFound);
    }
    let text = lib::open(&store, "/g").expect_err("a group").to_string();
    assert!(text.contains("a group") && text.contains("expected an array"), "{text}");
    let storage: zarrow::zarrs::storage::ReadableStorage = store;
    let error = Array::open_format(storage.clone(), "/a", Some(ZarrFormat::V2)).expect_err("it is v3");
    assert_error(&error, ErrorKind::NotFound);
    assert!(error.to_string().contains("'.zarray'"), "{error}");
    Array::open_format(storage, "/a", Some(ZarrFormat::V3)).expect("it is v3");

    let directory = tempfile::tempdir().expect("directory");
    for path in [directory.path().to_owned(), directory.path().join("none"), Path::new("/dev/null").to_owned()] {
        let error = Array::open_local(&path, None).expect_err("nothing there");
        assert_error(&error, ErrorKind::NotFound);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn stores_that_fail() {
    let sharded = counting(&[sharding_codec(&[3, 4], &[bytes_codec()], "end")]);
    let plain = counting(&[bytes_codec(), gzip_codec()]);
    let fails = |store: &Arc<MemoryStore>, at: &'static str| {
        Watched::with_rule(store.clone(), move |key, _| if key == at { Answer::Fails } else { Answer::Right })
    };
    for store in [&sharded, &plain] {
        let error = Array::open(fails(store, "a/zarr.json").storage(), "/a").expect_err("it fails");
        assert_error(&error, ErrorKind::Store);
        assert_eq!(error.key(), Some("a/zarr.json"), "{error}");
        assert!(std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("on fire")));

        let array = Array::open(fails(store, "a/c/1/0").storage(), "/a").expect("array");
        for threads in [1, 4] {
            let error = read(&array, threads).expect_err("it fails");
            assert_error(&error, ErrorKind::Store);
            assert_eq!(error.key(), Some("a/c/1/0"), "{error}");
            assert!(error.to_string().contains("on fire"), "{error}");
        }
        // The other chunk can be read all the same.
        let other = Selections::ranges(vec![0], vec![6]).expect("ranges");
        assert_eq!(array.read(&other, &ReadOptions::default()).expect("read").values().len(), 48);
    }
    // Only the subchunks fail, not the index.
    let size = lib::get(&sharded, "a/c/1/0").len() as u64;
    let watched = Watched::with_rule(sharded, move |key, range| match range {
        Some(range) if key == "a/c/1/0" && range.end(size) < size => Answer::Fails,
        _ => Answer::Right,
    });
    let error = read(&Array::open(watched.storage(), "/a").expect("array"), 2).expect_err("it fails");
    assert_error(&error, ErrorKind::Store);
    assert_eq!(error.key(), Some("a/c/1/0"), "{error}");
}

#[test]
fn stores_that_fail_when_asked_whether_the_array_is_still_there() {
    let store = counting(&[bytes_codec()]);
    store.erase(&StoreKey::new("a/c/1/0").expect("key")).expect("erased");
    let opened = Arc::new(AtomicUsize::new(0));
    let times = opened.clone();
    let watched = Watched::with_rule(store, move |key, _| {
        let again = key == "a/zarr.json" && times.fetch_add(1, Ordering::Relaxed) > 0;
        if again { Answer::Fails } else { Answer::Right }
    });
    let array = Array::open(watched.storage(), "/a").expect("array");
    let error = read(&array, 2).expect_err("it fails");
    assert_error(&error, ErrorKind::Store);
    assert_eq!(error.key(), Some("a/zarr.json"), "{error}");
    assert_eq!(opened.load(Ordering::Relaxed), 2);
}

#[test]
fn shards_that_vanish_between_index_and_subchunk() {
    for location in ["start", "end"] {
        let store = counting(&[sharding_codec(&[3, 4], &[bytes_codec()], location)]);
        let reads = AtomicUsize::new(0);
        let watched = Watched::with_rule(store, move |key, _| {
            let late = key == "a/c/1/0" && reads.fetch_add(1, Ordering::Relaxed) > 0;
            if late { Answer::Absent } else { Answer::Right }
        });
        let error = read(&Array::open(watched.storage(), "/a").expect("array"), 2).expect_err("it vanishes");
        assert_error(&error, ErrorKind::Store);
        assert_eq!(error.key(), Some("a/c/1/0"), "{error}");
    }
}

#[test]
fn stores_that_give_too_little_or_too_much() {
    for codecs in [
        vec![bytes_codec()],
        vec![sharding_codec(&[3, 4], &[bytes_codec()], "end")],
        vec![sharding_codec(&[3, 4], &[bytes_codec()], "start")],
        vec![sharding_codec(&[3, 4], &[bytes_codec(), gzip_codec()], "end")],
    ] {
        let store = counting(&codecs);
        let size = lib::get(&store, "a/c/1/0").len() as u64;
        for answer in [Answer::Short(1), Answer::Short(7), Answer::Short(1000), Answer::Long] {
            // All ranges; all but the index; the index alone.
            for part in 0..3 {
                let watched = Watched::with_rule(store.clone(), move |key, range: Option<ByteRange>| {
                    let index = range.is_some_and(|range| range.start(size) == 0 || range.end(size) == size);
                    let concerned = key == "a/c/1/0" && [true, !index, index][part];
                    if concerned { answer } else { Answer::Right }
                });
                let array = Array::open(watched.storage(), "/a").expect("array");
                if codecs == [bytes_codec()] && part == 2 {
                    continue;
                }
                let error = read(&array, 2).expect_err("not what was asked for");
                assert!(matches!(error.kind(), ErrorKind::Decode | ErrorKind::Store), "{error}");
                assert_error(&error, error.kind());
                assert_eq!(error.key(), Some("a/c/1/0"), "{error}");
            }
        }
    }
}

#[test]
fn arrays_deleted_after_opening() {
    for codecs in [vec![bytes_codec()], vec![sharding_codec(&[3, 4], &[bytes_codec()], "end")]] {
        let store = counting(&codecs);
        let both = Both::open(&store, "/a");
        for array in &both.arrays {
            read(array, 2).expect("still there");
        }
        // One chunk less is fill values: the array is there, and its chunks may be missing.
        std::fs::remove_file(both.directory.path().join("c/1/0")).expect("removed");
        store.erase(&StoreKey::new("a/c/1/0").expect("key")).expect("erased");
        for array in &both.arrays {
            assert!(read(array, 2).expect("fill values").stats().chunks_missing > 0);
        }
        std::fs::remove_dir_all(both.directory.path()).expect("removed");
        for key in ["a/zarr.json", "a/c/0/0"] {
            store.erase(&StoreKey::new(key).expect("key")).expect("erased");
        }
        assert!(store.get(&StoreKey::new("a/zarr.json").expect("key")).expect("get").is_none());
        for (array, location) in both.arrays.iter().zip(&both.locations) {
            for threads in [1, 3] {
                let error = read(array, threads).expect_err("deleted");
                assert_error(&error, ErrorKind::Store);
                assert!(error.to_string().contains(location), "{error}");
                // As a column beside others, too.
                let other = counting(&[bytes_codec()]);
                let other = lib::open(&other, "/a").expect("array");
                let error = read_batch(&[("other", &other), ("deleted", array)], &whole(), &ReadOptions::default());
                assert_error(&error.expect_err("deleted"), ErrorKind::Store);
            }
        }
    }
}

#[test]
fn a_directory_in_the_place_of_a_chunk() {
    for codecs in [vec![bytes_codec()], vec![sharding_codec(&[3, 4], &[bytes_codec()], "end")]] {
        let store = counting(&codecs);
        let both = Both::open(&store, "/a");
        let chunk = both.directory.path().join("c/1/0");
        std::fs::remove_file(&chunk).expect("removed");
        std::fs::create_dir(&chunk).expect("created");
        let error = read(&both.arrays[1], 2).expect_err("a directory");
        assert_error(&error, ErrorKind::Store);
        assert_eq!(error.key(), Some("c/1/0"), "{error}");
    }
}

#[test]
fn errors_leave_the_threads_usable() {
    let store = counting(&[bytes_codec(), gzip_codec()]);
    let good = lib::open(&store, "/a").expect("array");
    let bad = counting(&[sharding_codec(&[3, 4], &[bytes_codec()], "end"), gzip_codec()]);
    lib::set(&bad, "a/c/0/0", vec![1, 2, 3]);
    let bad = lib::open(&bad, "/a").expect("array");
    for _ in 0..20 {
        assert_error(&read(&bad, 3).expect_err("corrupt"), ErrorKind::Decode);
        assert_eq!(read(&good, 3).expect("read").values().len(), 96);
    }
}

#[test]
fn no_threads() {
    let array = lib::open(&counting(&[bytes_codec()]), "/a").expect("array");
    let error = read(&array, 0).expect_err("no threads");
    assert_error(&error, ErrorKind::Selection);
}

#[test]
fn selections_of_the_wrong_rank() {
    let array = lib::open(&counting(&[bytes_codec()]), "/a").expect("array");
    let options = ReadOptions::default();
    let boxes = Selections::boxes(3, vec![0; 3], vec![1; 3]).expect("boxes");
    assert_error(&array.read(&boxes, &options).expect_err("three axes"), ErrorKind::Selection);
    let items = Selections::items([vec![Item::Index(0)], vec![Item::Index(0), Item::Index(0), Item::Index(0)]]);
    let error = array.read(&items, &options).expect_err("three axes");
    assert_error(&error, ErrorKind::Selection);
    assert_eq!((error.selection(), error.key()), (Some(1), None));
}

#[test]
fn arrays_of_no_axis() {
    // Transposes of no axes do nothing; zarrs refuses them.
    let mut document = metadata();
    document["shape"] = json!([]);
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([]);
    let transpose = json!({"name": "transpose", "configuration": {"order": []}});
    for codecs in [
        json!([bytes_codec()]),
        json!([transpose, bytes_codec()]),
        json!([sharding_codec(&[], &[bytes_codec()], "end")]),
        json!([sharding_codec(&[], &[transpose.clone(), bytes_codec()], "end")]),
    ] {
        document["codecs"] = codecs.clone();
        let store = Arc::new(MemoryStore::new());
        lib::set(&store, "a/zarr.json", document.to_string());
        let array = lib::open(&store, "/a").unwrap_or_else(|error| panic!("{codecs}: {error}"));
        let ragged = read(&array, 1).expect("the fill value");
        assert_eq!((ragged.len(), ragged.offsets().len(), ragged.values().len()), (1, 0, 1));
        for selections in [Selections::ranges(vec![0], vec![0]), Selections::boxes(1, vec![], vec![])] {
            let error = array.plan(&selections.expect("selections")).expect_err("there is no axis");
            assert_error(&error, ErrorKind::Selection);
        }
    }
}
