//! Neighbouring subchunks of a shard are fetched with one request: a store that counts its requests proves it.

mod common;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt16Type;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, ArraySubset};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ErrorKind, Item, Ragged, ReadOptions, Selections};

use crate::common::store::{Read, Watched, assert_nothing_twice};
use crate::common::{self as lib, Bits};

/// Nothing between two subchunks that is longer is read over.
const READ_GAP: u64 = 16 << 10;

fn options(threads: usize) -> ReadOptions {
    ReadOptions::default().with_threads(Some(threads))
}

fn watched(store: Arc<MemoryStore>) -> (Arc<Watched>, Array) {
    let watched = Watched::new(store);
    let array = Array::open(watched.storage(), "/a").expect("array");
    watched.take_log();
    (watched, array)
}

fn blosc_codec() -> Value {
    json!({"name": "blosc", "configuration":
        {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 4096}})
}

/// The row of all values.
fn all(values: &[u16]) -> Vec<Range<usize>> {
    std::iter::once(0..values.len()).collect()
}

/// Numbers that do not compress.
fn noise(len: usize) -> Vec<u16> {
    let mut bits = Bits(3);
    (0..len).map(|_| bits.next() as u16).collect()
}

/// One shard of `values` in subchunks of `subchunk` elements, which lie in it in the order of `order`, `gap` bytes apart.
fn shard(values: &[u16], subchunk: usize, inner: &[Value], order: &[usize], gap: usize) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let len = values.len() as u64;
    let codecs = [lib::sharding_codec(&[subchunk as u64], inner, "end")];
    lib::create(&store, "/a", &[len], &[len], &zarrow::ElementType::UInt16, &[9, 0], &codecs);
    // The same subchunks as chunks of their own, to have them encoded.
    let alone = Arc::new(MemoryStore::new());
    let array = lib::create(&alone, "/a", &[len], &[subchunk as u64], &zarrow::ElementType::UInt16, &[9, 0], inner);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    array.store_array_subset(&ArraySubset::new_with_shape(vec![len]), ArrayBytes::new_flen(bytes)).expect("written");
    let mut encoded = Vec::new();
    let mut index = vec![[u64::MAX; 2]; values.len().div_ceil(subchunk)];
    for &at in order {
        let chunk = lib::get(&alone, &format!("a/c/{at}"));
        index[at] = [encoded.len() as u64, chunk.len() as u64];
        encoded.extend_from_slice(&chunk);
        encoded.resize(encoded.len() + gap, 0xee);
    }
    let index: Vec<u8> = index.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
    encoded.extend_from_slice(&index);
    encoded.extend_from_slice(&crc32c(&index).to_le_bytes());
    lib::set(&store, "a/c/0", encoded);
    store
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

fn flat(ragged: &Ragged) -> Vec<u16> {
    ragged.values().as_primitive::<UInt16Type>().values().to_vec()
}

fn bytes(log: &[Read]) -> u64 {
    log.iter().map(|read| read.range.end - read.range.start).sum()
}

/// Reads `rows` and checks the values, the counters and that nothing was read twice. Gives the log without the index.
fn read(store: Arc<MemoryStore>, values: &[u16], rows: &[Range<usize>], options: &ReadOptions) -> (Vec<Read>, Ragged) {
    let (watched, array) = watched(store);
    let bound = |bound: fn(&Range<usize>) -> usize| -> Vec<i64> { rows.iter().map(|row| bound(row) as i64).collect() };
    let selections = Selections::boxes(1, bound(|row| row.start), bound(|row| row.end)).expect("boxes");
    let ragged = array.read(&selections, options).expect("read");
    let expected: Vec<u16> = rows.iter().flat_map(|row| values[row.clone()].iter().copied()).collect();
    assert_eq!(flat(&ragged), expected);
    let mut log = watched.take_log();
    assert_nothing_twice(&log);
    assert_eq!(bytes(&log), ragged.stats().bytes_fetched);
    assert_eq!(ragged.stats().chunks_fetched, ragged.stats().chunks_decoded);
    let index =
        log.iter().position(|read| read.range.end == log.iter().map(|read| read.range.end).max().expect("reads"));
    log.remove(index.expect("an index"));
    (log, ragged)
}

#[test]
fn neighbours_are_one_request() {
    let values = noise(256 * 500);
    let in_order: Vec<usize> = (0..256).collect();
    let backwards: Vec<usize> = (0..256).rev().collect();
    // As zarr-python writes shards of several axes.
    let morton: Vec<usize> = (0..256_usize)
        .map(|at| {
            (0..4).fold(0, |index, bit| index | (at >> (2 * bit) & 1) << bit | (at >> (2 * bit + 1) & 1) << (bit + 4))
        })
        .collect();
    for inner in
        [vec![lib::bytes_codec(), lib::gzip_codec()], vec![lib::bytes_codec()], vec![lib::bytes_codec(), blosc_codec()]]
    {
        for order in [&in_order, &backwards, &morton] {
            let store = shard(&values, 500, &inner, order, 0);
            let (log, ragged) = read(store.clone(), &values, &all(&values), &options(1));
            assert_eq!((log.len(), ragged.stats().chunks_fetched), (1, 256));
            // Little of each, and every other one: gaps are read over.
            let some: Vec<_> = (0..128).map(|at| at * 1000 + 7..at * 1000 + 9).collect();
            let (log, ragged) = read(store.clone(), &values, &some, &options(1));
            assert_eq!((log.len(), ragged.stats().chunks_fetched), (1, 128));
            // With others, each gets its share.
            for threads in [2, 4, 8] {
                let (log, ragged) = read(store.clone(), &values, &all(&values), &options(threads));
                assert_eq!(ragged.stats().chunks_fetched, 256);
                assert!(log.len() <= 64, "{} requests on {threads} threads", log.len());
            }
        }
    }
}

#[test]
fn large_subchunks_are_shared_out() {
    // 64 of 64 KiB: no worker takes more than a quarter of what is left for two.
    let values = noise(64 << 15);
    let order: Vec<usize> = (0..64).collect();
    let store = shard(&values, 1 << 15, &[lib::bytes_codec(), lib::gzip_codec()], &order, 0);
    let (log, _) = read(store.clone(), &values, &all(&values), &options(2));
    assert!(log.iter().all(|read| read.range.end - read.range.start <= 16 * (66 << 10)));
    assert!((5..=24).contains(&log.len()), "{}", log.len());
    // On one thread, requests are as long as a store's may be.
    let (log, _) = read(store, &values, &all(&values), &options(1));
    assert!((2..=3).contains(&log.len()), "{}", log.len());
    assert!(log.iter().all(|read| read.range.end - read.range.start <= 4 << 20));
}

#[test]
fn large_gaps_are_not_read() {
    let values = noise(16 * 1000);
    let order: Vec<usize> = (0..16).collect();
    let inner = [lib::bytes_codec(), lib::gzip_codec()];
    for (gap, requests) in [(READ_GAP, 1), (READ_GAP + 1, 16)] {
        let store = shard(&values, 1000, &inner, &order, gap as usize);
        let (log, _) = read(store, &values, &all(&values), &options(1));
        assert_eq!(log.len(), requests);
    }
    // Nor are subchunks that nobody wants, if they are longer.
    let store = shard(&noise(16 << 14), 1 << 14, &inner, &order, 0);
    let rows: Vec<_> = (0..8).map(|at| at << 15..(at << 15) + 1).collect();
    let (log, ragged) = read(store, &noise(16 << 14), &rows, &options(1));
    assert_eq!((log.len(), ragged.stats().chunks_fetched), (8, 8));
}

#[test]
fn parts_of_raw_and_of_blosc_subchunks_stay_parts() {
    let values: Vec<u16> = noise(16 << 15).iter().map(|value| value & 0xff).collect();
    let order: Vec<usize> = (0..16).collect();
    for inner in [vec![lib::bytes_codec()], vec![lib::bytes_codec(), blosc_codec()]] {
        let store = shard(&values, 1 << 15, &inner, &order, 0);
        let rows: Vec<_> = (0..16).map(|at| (at << 15) + 9..(at << 15) + 11).collect();
        let (log, ragged) = read(store.clone(), &values, &rows, &options(2));
        assert_eq!(ragged.stats().chunks_fetched, 16);
        assert!(bytes(&log) < 16 * (40 << 10), "{}", bytes(&log));
        // Wholes and parts in turn.
        let rows: Vec<_> = (0..16).map(|at| at << 15..(at << 15) + if at % 3 == 0 { 5 } else { 1 << 15 }).collect();
        let (log, ragged) = read(store.clone(), &values, &rows, &options(1));
        assert_eq!(ragged.stats().chunks_fetched, 16);
        assert!(bytes(&log) < 11 * (66 << 10) + 6 * (40 << 10));
        assert!(log.len() <= 5 + 6 * 3, "{} requests", log.len());
        // Wholes alone.
        let (log, _) = read(store, &values, &all(&values), &options(1));
        assert_eq!(log.len(), 1);
    }
}

#[test]
fn a_limit_makes_requests_shorter() {
    let values = noise(256 << 10);
    let order: Vec<usize> = (0..256).collect();
    let store = shard(&values, 1 << 10, &[lib::bytes_codec(), lib::gzip_codec()], &order, 0);
    let mut before = 0;
    for limit in [1 << 24, 100_000, 30_000, 15_000] {
        for threads in [1, 4] {
            let limited = options(threads).with_memory_limit(Some(limit));
            let (log, ragged) = read(store.clone(), &values, &all(&values), &limited);
            assert!(ragged.stats().bytes_held <= limit as u64, "{:?}", ragged.stats());
            assert!(ragged.stats().bytes_held > 0);
            if threads == 1 {
                assert!(log.len() > before, "{limit}: {} requests", log.len());
                before = log.len();
            }
        }
    }
    let (watched, array) = watched(store);
    let tiny = options(1).with_memory_limit(Some(12_000));
    let error = array.read(&Selections::items([[Item::Index(3)]]), &tiny).expect_err("too little");
    assert_eq!(error.kind(), ErrorKind::Allocation);
    assert!(error.to_string().contains("takes 1"), "{error}");
    assert_eq!(watched.take_log().len(), 1);
}

#[test]
fn subchunks_that_share_bytes_are_read_each() {
    // Two entries for the same bytes, and one inside another.
    let values: Vec<u16> = (0..40).map(|at| at % 10).collect();
    let store = shard(&values, 10, &[lib::bytes_codec()], &[0, 1, 2, 3], 0);
    let mut bytes = lib::get(&store, "a/c/0").to_vec();
    let index = bytes.len() - 68;
    for at in [1, 3] {
        bytes[index + 16 * at..index + 16 * at + 8].copy_from_slice(&0_u64.to_le_bytes());
    }
    let sum = crc32c(&bytes[index..index + 64]);
    bytes[index + 64..].copy_from_slice(&sum.to_le_bytes());
    lib::set(&store, "a/c/0", bytes);
    for threads in [1, 2, 5] {
        let array = lib::open(&store, "/a").expect("array");
        let ragged =
            array.read(&Selections::items([[Item::Slice { start: None, stop: None, step: 1 }]]), &options(threads));
        assert_eq!(flat(&ragged.expect("read")), values);
    }
}

proptest! {
    #![proptest_config(lib::config(60))]

    /// Whatever the order, the gaps and the rows.
    #[test]
    fn any_shard(
        seed in any::<u64>(),
        codec in select(vec!["raw", "gzip", "blosc"]),
        subchunk in select(vec![8, 100, 9000, 20_000]),
        gap in select(vec![0, 1, 5000, 16 << 10, 17 << 10]),
        threads in select(vec![1, 2, 5]),
        limit in select(vec![None, Some(200_000)]),
    ) {
        let mut bits = Bits(seed);
        let chunks = 1 + bits.below(20) as usize;
        let values = noise(chunks * subchunk);
        let mut order: Vec<usize> = (0..chunks).collect();
        for at in (1..chunks).rev() {
            if bits.below(2) == 0 {
                order.swap(at, bits.below(at as u64 + 1) as usize);
            }
        }
        let inner = match codec {
            "raw" => vec![lib::bytes_codec()],
            "gzip" => vec![lib::bytes_codec(), lib::gzip_codec()],
            _ => vec![lib::bytes_codec(), blosc_codec()],
        };
        let store = shard(&values, subchunk, &inner, &order, gap);
        let rows: Vec<Range<usize>> = (0..=bits.below(12)).map(|_| {
            let (a, b) = (bits.below(values.len() as u64 + 1) as usize, bits.below(values.len() as u64 + 1) as usize);
            let to = if bits.below(2) == 0 { a.min(b) + 3 } else { a.max(b) };
            a.min(b)..to.min(values.len()).max(a.min(b))
        }).filter(|row| !row.is_empty()).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let options = options(threads).with_memory_limit(limit);
        let (log, ragged) = read(store, &values, &rows, &options);
        let touched: std::collections::BTreeSet<usize> =
            rows.iter().flat_map(|row| row.start / subchunk..=(row.end - 1) / subchunk).collect();
        prop_assert_eq!(ragged.stats().chunks_fetched, touched.len());
        prop_assert!(limit.is_none_or(|limit| ragged.stats().bytes_held <= limit as u64));
        if gap as u64 > READ_GAP {
            prop_assert!(log.len() >= touched.len());
        }
    }
}
