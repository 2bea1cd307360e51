//! Whatever the selections, one call fetches and decodes each read chunk once: a store that counts proves it.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt16Type;
use proptest::prelude::*;
use proptest::sample::select;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, Item, ReadOptions, ReadStats, Selections, read_batch, read_batch_with_stats};

use crate::common::cases::{self, Case, PATH};
use crate::common::naive::{self, Padded};
use crate::common::selections::{self, Rows};
use crate::common::store::{Read, Watched, assert_nothing_twice};
use crate::common::{self as lib, Bits};

fn options(threads: usize) -> ReadOptions {
    ReadOptions::default().with_threads(Some(threads))
}

/// An array of a watched store; what opening reads is not in the log.
fn watched(store: Arc<MemoryStore>, path: &str) -> (Arc<Watched>, Array) {
    let watched = Watched::new(store);
    let array = Array::open(watched.storage(), path).expect("array");
    watched.take_log();
    watched.take_absent();
    (watched, array)
}

#[track_caller]
fn assert_bytes(log: &[Read], stats: &ReadStats) {
    assert_eq!(log.iter().map(|read| read.range.end - read.range.start).sum::<u64>(), stats.bytes_fetched);
}

fn case_and_rows() -> impl Strategy<Value = (Case, Rows)> {
    cases::case().prop_flat_map(|mut case| {
        // Which empty subchunks zarrs writes if it is told to write empty chunks depends on the codecs.
        case.store_empty &= !case.sharded;
        let rows = selections::rows(&case.shape);
        (Just(case), rows)
    })
}

proptest! {
    #![proptest_config(lib::config(300))]

    #[test]
    fn each_read_chunk_is_fetched_once((case, rows) in case_and_rows(), threads in select(vec![1, 2, 5])) {
        let (store, padded) = case.write();
        let (watched, array) = watched(store, PATH);
        let plan = array.plan(&rows.selections()).expect("plan");
        prop_assert!(watched.take_log().is_empty(), "planning reads nothing");
        let ragged = array.read(&rows.selections(), &options(threads)).expect("read");
        let stats = *ragged.stats();
        let (log, absent) = (watched.take_log(), watched.take_absent());
        naive::check(ragged, &case.element, &naive::gather(&padded, &rows.spans, rows.levels));

        let pieces = naive::pieces(&rows.spans, &case.read_chunk);
        let touched: BTreeSet<Vec<u64>> = pieces.iter().map(|(_, chunk)| chunk.clone()).collect();
        let stored = |index: &[u64], shape: &[u64]| case.stores(&padded, index, shape);
        let fetched = touched.iter().filter(|index| stored(index, &case.read_chunk)).count();
        prop_assert_eq!(stats.chunks_fetched, fetched);
        prop_assert_eq!(stats.chunks_decoded, fetched);
        prop_assert_eq!(stats.chunks_missing, touched.len() - fetched);
        prop_assert_eq!(stats.pieces, pieces.len());
        prop_assert_eq!(plan.read_chunks(), touched.len());
        let read_chunk_len = case.read_chunk.iter().product::<u64>() * case.element.size() as u64;
        prop_assert!(stats.bytes_decoded <= fetched as u64 * read_chunk_len);
        assert_nothing_twice(&log);
        assert_bytes(&log, &stats);

        let per_chunk = |axis: usize| case.chunk[axis] / case.read_chunk[axis];
        let chunk = |index: &Vec<u64>| -> Vec<u64> {
            index.iter().enumerate().map(|(axis, index)| index / per_chunk(axis)).collect()
        };
        let chunks: BTreeSet<Vec<u64>> = touched.iter().map(chunk).collect();
        let stored_chunks = chunks.iter().filter(|index| stored(index, &case.chunk)).count();
        let keys: BTreeSet<&str> = log.iter().map(|read| read.key.as_str()).collect();
        prop_assert_eq!(keys.len(), stored_chunks);
        prop_assert_eq!(absent.len(), chunks.len() - stored_chunks, "absent keys are asked for once: {:?}", absent);
        if case.sharded {
            prop_assert!(log.iter().all(|read| read.partial), "shards are read by ranges");
            prop_assert!(log.len() <= stored_chunks + fetched, "one index for each shard, one range for each subchunk");
        } else {
            prop_assert_eq!(log.len(), fetched);
        }
    }
}

proptest! {
    #![proptest_config(lib::config(120))]

    /// Chunks of which little is wanted are fetched in part, but no part of them twice.
    #[test]
    fn no_part_of_a_large_chunk_is_fetched_twice(
        (case, rows) in cases::large_case().prop_flat_map(|case| {
            let rows = selections::narrow_boxes(&case.shape);
            (Just(case), rows)
        }),
        threads in select(vec![1, 2, 5]),
    ) {
        let (store, padded) = case.write();
        let (watched, array) = watched(store, PATH);
        let ragged = array.read(&rows.selections(), &options(threads)).expect("read");
        let stats = *ragged.stats();
        let log = watched.take_log();
        naive::check(ragged, &case.element, &naive::gather(&padded, &rows.spans, rows.levels));
        assert_nothing_twice(&log);
        assert_bytes(&log, &stats);
        let touched: BTreeSet<Vec<u64>> =
            naive::pieces(&rows.spans, &case.read_chunk).into_iter().map(|(_, chunk)| chunk).collect();
        let stored = |index: &&Vec<u64>| case.stores(&padded, index, &case.read_chunk);
        let fetched = touched.iter().filter(stored).count();
        prop_assert_eq!((stats.chunks_fetched, stats.chunks_decoded), (fetched, fetched));
        prop_assert_eq!(stats.chunks_missing, touched.len() - fetched);
        let read_chunk_len = case.read_chunk.iter().product::<u64>() * case.element.size() as u64;
        prop_assert!(stats.bytes_decoded <= fetched as u64 * read_chunk_len);
    }
}

/// Columns of `u16` in one row after the other.
fn flat(array: &arrow::array::ArrayRef) -> Vec<u16> {
    let mut array = array.clone();
    while let Some(lists) = array.as_list_opt::<i64>() {
        array = lists.values().clone();
    }
    array.as_primitive::<UInt16Type>().values().to_vec()
}

#[test]
fn shuffled_rows_of_one_chunk_are_one_decode_in_request_order() {
    let store = Arc::new(MemoryStore::new());
    lib::counting_array(&store, "/a", &[20, 3], &[10, 3], &[lib::bytes_codec(), lib::gzip_codec()]);
    let (watched, array) = watched(store, "/a");
    let selections = Selections::items([1, 5, 8, 3, 2, 5].map(|row| [Item::Index(row)]));
    let ragged = array.read(&selections, &options(2)).expect("read");
    assert_eq!((ragged.stats().chunks_fetched, ragged.stats().chunks_decoded, ragged.stats().pieces), (1, 1, 6));
    assert_eq!(flat(ragged.values()), [3, 4, 5, 15, 16, 17, 24, 25, 26, 9, 10, 11, 6, 7, 8, 15, 16, 17]);
    let log = watched.take_log();
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].key.as_str(), log[0].partial), ("a/c/0/0", false));
}

#[test]
fn one_shard_is_one_index_and_each_subchunk_once() {
    for location in ["start", "end"] {
        let store = Arc::new(MemoryStore::new());
        let codecs = [lib::sharding_codec(&[4, 5], &[lib::bytes_codec(), lib::gzip_codec()], location)];
        lib::counting_array(&store, "/a", &[16, 20], &[8, 20], &codecs);
        let size = lib::get(&store, "a/c/0/0").len() as u64;
        let (watched, array) = watched(store, "/a");
        // Five rows that overlap in the subchunks (0, 0) to (1, 1) of the first shard, of eight subchunks.
        let boxes = Selections::boxes(2, vec![0, 0, 3, 4, 2, 2, 3, 4, 7, 9], vec![8, 10, 5, 6, 6, 7, 5, 6, 8, 10])
            .expect("boxes");
        for threads in [1, 2, 5] {
            let ragged = array.read(&boxes, &options(threads)).expect("read");
            let log = watched.take_log();
            assert!(log.iter().all(|read| read.key == "a/c/0/0" && read.partial));
            assert_nothing_twice(&log);
            assert_bytes(&log, ragged.stats());
            // Offset and length of each subchunk, eight bytes each, and the checksum.
            let index = 8 * 16 + 4;
            let expected = if location == "start" { 0..index } else { size - index..size };
            assert!(log.iter().any(|read| read.range.start <= expected.start && expected.end <= read.range.end));
            assert!(log.len() <= 5);
            assert_eq!((ragged.stats().chunks_fetched, ragged.stats().chunks_decoded), (4, 4));
            assert_eq!(&flat(ragged.values())[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        }
    }
}

#[test]
fn columns_of_one_array_are_read_once() {
    let inner = [lib::bytes_codec(), lib::gzip_codec()];
    for codecs in [inner.to_vec(), vec![lib::sharding_codec(&[3, 2], &inner, "end")]] {
        let store = Arc::new(MemoryStore::new());
        lib::counting_array(&store, "/a", &[12, 8], &[6, 4], &codecs);
        let (watched, array) = watched(store, "/a");
        let boxes = Selections::boxes(2, vec![0, 0, 2, 1, 5, 5], vec![12, 8, 9, 6, 7, 6]).expect("boxes");
        let twin = array.clone();
        // Which neighbours two threads fetch together is up to chance, and so is the number of requests.
        for threads in [1, 2] {
            let once = array.read(&boxes, &options(threads)).expect("read");
            let log_once = watched.take_log();
            assert_nothing_twice(&log_once);
            let columns = [("a", &array), ("b", &twin), ("c", &array)];
            let (batch, stats) = read_batch_with_stats(&columns, &boxes, &options(threads)).expect("batch");
            let log = watched.take_log();
            let counts = |stats: &ReadStats| (stats.chunks_fetched, stats.chunks_decoded, stats.bytes_out);
            assert_eq!(counts(&stats), counts(once.stats()));
            assert_nothing_twice(&log);
            if threads == 1 {
                assert_eq!(log.len(), log_once.len());
            }
            let expected = once.into_array();
            for column in batch.columns() {
                assert_eq!(column, &expected);
            }
        }
    }
}

#[test]
fn several_arrays_are_each_read_once() {
    let store = Arc::new(MemoryStore::new());
    let sharded = lib::sharding_codec(&[2, 2], &[lib::bytes_codec()], "start");
    lib::counting_array(&store, "/a", &[12, 8], &[5, 3], &[lib::bytes_codec()]);
    lib::counting_array(&store, "/b", &[12, 8], &[6, 4], &[sharded]);
    let watched = Watched::new(store);
    let open = |path| Array::open(watched.storage(), path).expect("array");
    let (a, b) = (open("/a"), open("/b"));
    watched.take_log();
    let boxes = Selections::boxes(2, vec![0, 0, 2, 1, 2, 1], vec![12, 8, 9, 6, 9, 6]).expect("boxes");
    let batch = read_batch(&[("a", &a), ("b", &b), ("a again", &a)], &boxes, &options(5)).expect("batch");
    assert_eq!(batch.column(0), batch.column(2));
    assert_eq!(flat(batch.column(0)), flat(batch.column(1)));
    let log = watched.take_log();
    assert_nothing_twice(&log);
    assert_eq!(log.iter().filter(|read| read.key.starts_with("a/")).count(), 9);
    assert!(log.iter().filter(|read| read.key.starts_with("b/")).count() <= 4 + 24);
}

#[test]
fn one_handle_serves_many_threads_at_once() {
    let store = Arc::new(MemoryStore::new());
    let sharded = lib::sharding_codec(&[2, 5], &[lib::bytes_codec(), lib::gzip_codec()], "end");
    lib::counting_array(&store, "/plain", &[40, 30], &[7, 9], &[lib::bytes_codec(), lib::gzip_codec()]);
    lib::counting_array(&store, "/sharded", &[40, 30], &[10, 15], &[sharded]);
    let bytes = (0..1200_u16).flat_map(u16::to_ne_bytes).collect();
    let padded = Padded { shape: vec![40, 30], item: 2, bytes };
    for path in ["/plain", "/sharded"] {
        let (watched, array) = watched(store.clone(), path);
        let (array, padded) = (&array, &padded);
        let stats: Vec<ReadStats> = std::thread::scope(|scope| {
            let readers = (0..8).map(|reader| {
                scope.spawn(move || {
                    let mut bits = Bits(reader);
                    let mut all = Vec::new();
                    for read in 0..20 {
                        let spans: Vec<Vec<naive::Span>> = (0..5).map(|_| random_box(&mut bits, &[40, 30])).collect();
                        let flat =
                            |bound: fn(&naive::Span) -> u64| spans.iter().flatten().map(|s| bound(s) as i64).collect();
                        let (starts, stops): (Vec<i64>, Vec<i64>) = (flat(|span| span.0), flat(|span| span.1));
                        let boxes = Selections::boxes(2, starts, stops).expect("boxes");
                        // Differing numbers of threads, so that pools come and go meanwhile.
                        let ragged = array.read(&boxes, &options(1 + read % 3)).expect("read");
                        all.push(*ragged.stats());
                        naive::check(ragged, array.element_type(), &naive::gather(padded, &spans, 2));
                    }
                    all
                })
            });
            let readers: Vec<_> = readers.collect();
            readers.into_iter().flat_map(|reader| reader.join().expect("a reader")).collect()
        });
        let log = watched.take_log();
        assert_eq!(stats.len(), 160);
        assert_eq!(
            log.iter().map(|read| read.range.end - read.range.start).sum::<u64>(),
            stats.iter().map(|stats| stats.bytes_fetched).sum::<u64>()
        );
        assert!(stats.iter().all(|stats| stats.chunks_decoded == stats.chunks_fetched));
    }
}

fn random_box(bits: &mut Bits, shape: &[u64]) -> Vec<naive::Span> {
    let span = |len: &u64| {
        let (a, b) = (bits.below(len + 1), bits.below(len + 1));
        (a.min(b), a.max(b), true)
    };
    shape.iter().map(span).collect()
}
