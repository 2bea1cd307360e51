//! What goes wrong is an error of the right kind that names the place and the remedy, and never a panic.

mod common;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::datatypes::UInt16Type;
use proptest::prelude::*;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, ArrayToBytesCodecTraits, CodecOptions, FillValue, data_type};
use zarrow::zarrs::storage::byte_range::ByteRange;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{ReadableStorageTraits, StoreKey, WritableStorageTraits};
use zarrow::{Array, ErrorKind, Item, Ragged, ReadOptions, Result, Selections, read_batch};

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

/// Where only the front of a chunk is decoded, that its end is cut off may stay unseen, but the values are right.
#[test]
fn truncated_chunks_read_in_part() {
    for intact in &INTACT[1] {
        let chunk = lib::get(intact, "a/c/1/0");
        let boxes = Selections::boxes(2, vec![150, 0, 170, 7], vec![151, 3, 172, 8]).expect("boxes");
        let expected: Vec<u16> = [60_000, 60_001, 60_002, 68_007, 68_407].map(|value: u32| value as u16).to_vec();
        for len in [0, 16, chunk.len() / 10, chunk.len() / 2, chunk.len() - 1, chunk.len()] {
            let store = lib::copy(intact);
            lib::set(&store, "a/c/1/0", chunk.slice(..len));
            for array in &Both::open(&store, "/a").arrays {
                match array.read(&boxes, &ReadOptions::default()) {
                    Ok(ragged) => assert_eq!(ragged.values().as_primitive::<UInt16Type>().values()[..], expected),
                    Err(error) => {
                        assert_error(&error, ErrorKind::Decode);
                        assert_ne!(len, chunk.len());
                    }
                }
            }
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

/// Intact arrays of shape (12, 8), and of (300, 400) to be decoded in part, one for each chain of codecs.
static INTACT: LazyLock<[Vec<Arc<MemoryStore>>; 2]> = LazyLock::new(|| {
    let array = |shape: [u64; 2], chunk: [u64; 2], codecs: &[Value]| {
        let store = Arc::new(MemoryStore::new());
        lib::counting_array(&store, "/a", &shape, &chunk, codecs);
        store
    };
    let small = chains().iter().map(|codecs| array([12, 8], [6, 8], codecs)).collect();
    let large = chains().iter().map(|codecs| array([300, 400], [150, 400], codecs)).collect();
    [small, large]
});

proptest! {
    #![proptest_config(lib::config(3000))]

    /// Whatever the bytes, the result is an error or has the right length.
    #[test]
    fn damaged_chunks_never_panic(
        chain in 0..chains().len(),
        large in prop::bool::weighted(0.3),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_front in any::<bool>(),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
        part in any::<bool>(),
    ) {
        let store = lib::copy(&INTACT[usize::from(large)][chain]);
        let mut chunk = lib::get(&store, "a/c/1/0").to_vec();
        for (at, byte) in damage {
            // Headers are in front.
            let at = at.index(if in_front { chunk.len().min(64) } else { chunk.len() });
            chunk[at] = byte;
        }
        if let Some(cut) = cut {
            chunk.truncate(cut.index(chunk.len()));
        }
        lib::set(&store, "a/c/1/0", chunk);
        let array = lib::open(&store, "/a").expect("array");
        let first = array.chunk_shape()[0] as i64;
        let selections = if part {
            Selections::boxes(2, vec![first + 1, 1, 2, 2], vec![first + 3, 3, 3, 4]).expect("boxes")
        } else {
            whole()
        };
        let elements = if part { 6 } else { array.shape().iter().product::<u64>() as usize };
        match array.read(&selections, &ReadOptions::default().with_threads(Some(2))) {
            Ok(ragged) => prop_assert_eq!(ragged.values().len(), elements),
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
    /// Offset and length of each of four subchunks, and the checksum.
    const INDEX_LEN: u64 = 4 * 16 + 4;
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
                    let index = range.is_some_and(|range| range.length(size) == INDEX_LEN);
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
    assert_error(&error, ErrorKind::Unsupported);
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
