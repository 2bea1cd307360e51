//! Reads of stores that answer after a while: as many requests as need be at once, each thing once, and never a hang.

#![expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "small whole numbers, which floats hold exactly")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use zarrow::zarrs::array::codec::{ShardingCodecBuilder, ZstdCodec};
use zarrow::zarrs::array::{Array as ZarrsArray, ArrayBuilder, ArrayMetadata, data_type};
use zarrow::zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{
    AsyncMaybeBytesIterator, AsyncReadableStorageTraits, Bytes, MaybeBytes, MaybeBytesIterator, ReadableStorageTraits,
    StorageError, StoreKey,
};
use zarrow::{
    Array, ChunkCache, ErrorKind, Indexing, Indices, Item, MissingChunks, Progress, ReadOptions, Selections,
    read_batch_async, read_batch_with_stats,
};

/// What a store does to a request.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Fail,
    Short,
    Hang,
    Panic,
}

/// A store in memory that answers after a while, and counts.
struct Slow {
    inner: Arc<MemoryStore>,
    latency: Duration,
    asked: Mutex<HashMap<String, Vec<ByteRange>>>,
    flying: AtomicUsize,
    most: AtomicUsize,
    fault: Mutex<Option<(String, Fault)>>,
}

impl Slow {
    fn new(inner: Arc<MemoryStore>, latency: Duration) -> Arc<Self> {
        let (asked, fault) = (Mutex::default(), Mutex::default());
        Arc::new(Self { inner, latency, asked, flying: AtomicUsize::new(0), most: AtomicUsize::new(0), fault })
    }

    fn requests(&self, key: &str) -> usize {
        self.asked.lock().unwrap().get(key).map_or(0, Vec::len)
    }

    fn all_requests(&self) -> usize {
        self.asked.lock().unwrap().values().map(Vec::len).sum()
    }

    fn forget(&self) {
        self.asked.lock().unwrap().clear();
        self.most.store(0, Ordering::Relaxed);
    }

    async fn answer(&self, key: &StoreKey, range: ByteRange) -> Result<MaybeBytes, StorageError> {
        self.asked.lock().unwrap().entry(key.as_str().to_owned()).or_default().push(range);
        let flying = self.flying.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(flying, Ordering::Relaxed);
        tokio::time::sleep(self.latency).await;
        self.flying.fetch_sub(1, Ordering::Relaxed);
        let fault = self.fault.lock().unwrap().as_ref().filter(|(at, _)| at == key.as_str()).map(|fault| fault.1);
        match fault {
            Some(Fault::Fail) => return Err(StorageError::Other("out of order".to_owned())),
            Some(Fault::Panic) => panic!("a panic that is meant"),
            Some(Fault::Hang) => std::future::pending::<()>().await,
            _ => {}
        }
        let bytes = self.inner.get_partial(key, range)?;
        Ok(match fault {
            Some(Fault::Short) => bytes.map(|bytes| bytes.slice(..bytes.len() / 2)),
            _ => bytes,
        })
    }
}

#[async_trait::async_trait]
impl AsyncReadableStorageTraits for Slow {
    async fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<AsyncMaybeBytesIterator<'a>, StorageError> {
        let mut found: Vec<Result<Bytes, StorageError>> = Vec::new();
        for range in ranges {
            match self.answer(key, range).await? {
                Some(bytes) => found.push(Ok(bytes)),
                None => return Ok(None),
            }
        }
        Ok(Some(Box::pin(futures_util::stream::iter(found))))
    }

    async fn get_partial<'a>(&'a self, key: &StoreKey, range: ByteRange) -> Result<MaybeBytes, StorageError> {
        self.answer(key, range).await
    }

    async fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Raw,
    Zstd,
    Sharded,
    RawSharded,
}

const LEN: u64 = 200_000;

/// Numbers that count up, in chunks of 1,000, those from 50,000 to 60,000 not written.
fn store(form: Form) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let sharded = matches!(form, Form::Sharded | Form::RawSharded);
    let chunk = if sharded { 10_000 } else { 1_000 };
    let mut builder = ArrayBuilder::new(vec![LEN], vec![chunk], data_type::float64(), -1.0_f64);
    let zstd = || vec![Arc::new(ZstdCodec::new(1, false)) as Arc<_>];
    match form {
        Form::Zstd => drop(builder.bytes_to_bytes_codecs(zstd())),
        Form::Sharded | Form::RawSharded => {
            let mut sharding = ShardingCodecBuilder::new(vec![1_000.try_into().unwrap()], &data_type::float64());
            if form == Form::Sharded {
                sharding.bytes_to_bytes_codecs(zstd());
            }
            builder.array_to_bytes_codec(sharding.build_arc());
        }
        Form::Raw => {}
    }
    let array = builder.build(store.clone(), "/").unwrap();
    array.store_metadata().unwrap();
    for at in 0..LEN / chunk {
        let start = at * chunk;
        if start / 10_000 != 5 {
            let values: Vec<f64> = (start..start + chunk).map(|value| value as f64).collect();
            array.store_chunk(&[at], values).unwrap();
        }
    }
    store
}

fn expected(start: i64, stop: i64) -> Vec<f64> {
    (start..stop).map(|at| if (50_000..60_000).contains(&at) { -1.0 } else { at as f64 }).collect()
}

fn ranges() -> (Vec<i64>, Vec<i64>) {
    let starts: Vec<i64> = (0..400).map(|at| (at * 7_919) % 195_000).collect();
    let stops = starts.iter().enumerate().map(|(at, start)| start + 1 + (at as i64 * 37) % 5_000).collect();
    (starts, stops)
}

fn check(array: &Array, options: &ReadOptions) -> zarrow::ReadStats {
    let (starts, stops) = ranges();
    let selections = Selections::ranges(starts.clone(), stops.clone()).unwrap();
    let read = array.read(&selections, options).unwrap();
    let stats = *read.stats();
    let rows = read.into_array();
    for (row, (start, stop)) in starts.into_iter().zip(stops).enumerate() {
        let row = rows.as_list::<i64>().value(row);
        assert_eq!(row.as_primitive::<Float64Type>().values().to_vec(), expected(start, stop));
    }
    stats
}

#[test]
fn all_forms_are_read_with_many_requests_at_once_and_each_chunk_once() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded, Form::RawSharded] {
        let slow = Slow::new(store(form), Duration::from_millis(10));
        let array = Array::open_async(slow.clone(), "/", None).unwrap();
        slow.forget();
        let (starts, stops) = ranges();
        let touched = array.plan(&Selections::ranges(starts, stops).unwrap()).unwrap().read_chunks();
        let stats = check(&array, &ReadOptions::default());
        assert_eq!((touched, stats.chunks_missing), (199, 10));
        let sharded = matches!(form, Form::Sharded | Form::RawSharded);
        assert_eq!((stats.chunks_decoded, stats.chunks_fetched), (189, 189), "{form:?}");
        assert_eq!(stats.requests, slow.all_requests(), "{form:?}");
        for at in 0..if sharded { 20 } else { 200 } {
            // An index, then one range of neighbours.
            let most = if sharded { 2 } else { 1 };
            assert!(slow.requests(&format!("c/{at}")) <= most, "{form:?} {at}");
        }
        let most = slow.most.load(Ordering::Relaxed);
        assert!(most >= if sharded { 18 } else { 64 }, "{form:?}: {most} in flight");
        assert!(stats.max_in_flight >= most, "{form:?}");
    }
}

/// Lengths of chunks along each axis; together they reach a bit beyond the array.
const DIFFERING: [&[u64]; 2] = [&[100, 40, 300, 20], &[50, 400, 150]];
const SHAPE: [u64; 2] = [447, 600];

/// Numbers that count up, in chunks of [`DIFFERING`] shapes, one of which is not written.
fn differing_store(form: Form) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let mut builder = ArrayBuilder::new(SHAPE.to_vec(), vec![460, 600], data_type::float64(), -1.0_f64);
    let zstd = || vec![Arc::new(ZstdCodec::new(1, false)) as Arc<_>];
    match form {
        Form::Zstd => drop(builder.bytes_to_bytes_codecs(zstd())),
        Form::Sharded | Form::RawSharded => {
            let subchunk = [20, 50].map(|len| len.try_into().unwrap()).to_vec();
            let mut sharding = ShardingCodecBuilder::new(subchunk, &data_type::float64());
            if form == Form::Sharded {
                sharding.bytes_to_bytes_codecs(zstd());
            }
            builder.array_to_bytes_codec(sharding.build_arc());
        }
        Form::Raw => {}
    }
    let ArrayMetadata::V3(mut metadata) = builder.build(store.clone(), "/").unwrap().metadata().clone() else {
        panic!("v3")
    };
    let grid = serde_json::json!({
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": DIFFERING},
    });
    metadata.chunk_grid = serde_json::from_value(grid).unwrap();
    let array = ZarrsArray::new_with_metadata(store.clone(), "/", metadata.into()).unwrap();
    array.store_metadata().unwrap();
    let mut top = 0;
    for (y, &height) in (0..).zip(DIFFERING[0]) {
        let mut left = 0;
        for (x, &width) in (0..).zip(DIFFERING[1]) {
            if (y, x) != (1, 2) {
                let at = |at: u64| ((top + at / width) * SHAPE[1] + left + at % width) as f64;
                array.store_chunk(&[y, x], (0..height * width).map(at).collect::<Vec<_>>()).unwrap();
            }
            left += width;
        }
        top += height;
    }
    store
}

/// Reads boxes, slices with steps and points from an array of a [`differing_store`].
fn check_differing(array: &Array, options: &ReadOptions) -> Vec<zarrow::ReadStats> {
    let number = |y: i64, x: i64| {
        if (100..140).contains(&y) && x >= 450 { -1.0 } else { (y * SHAPE[1] as i64 + x) as f64 }
    };
    let read = |selections: &Selections, expected: Vec<f64>| {
        let progress = Arc::new(Progress::default());
        let read = array.read(selections, &options.clone().with_progress(Some(progress.clone()))).unwrap();
        let planned = array.plan(selections).unwrap().bytes_to_decode();
        assert_eq!((progress.bytes(), progress.bytes_total()), (planned, planned));
        let stats = *read.stats();
        let mut values = read.into_array();
        while let Some(list) = values.clone().as_list_opt::<i64>() {
            values = list.values().clone();
        }
        assert!(values.as_primitive::<Float64Type>().values().to_vec() == expected, "{selections:?}");
        stats
    };
    let boxes: Vec<[i64; 4]> =
        (0..60).map(|at| [at * 7, at * 7 + 1 + at % 27, at * 41 % 560, at * 41 % 560 + 1 + at % 39]).collect();
    let axis = |of: usize| boxes.iter().map(|of_box| of_box[of]).collect::<Vec<_>>();
    let bounds = |of: usize| axis(of).into_iter().zip(axis(of + 2)).flat_map(|(y, x)| [y, x]).collect::<Vec<_>>();
    let in_box = |&[top, bottom, left, right]: &[i64; 4]| {
        (top..bottom).flat_map(move |y| (left..right).map(move |x| number(y, x))).collect::<Vec<_>>()
    };
    let of_boxes = Selections::boxes(2, bounds(0), bounds(1)).unwrap();
    let steps =
        [Item::Slice { start: Some(440), stop: None, step: -9 }, Item::Slice { start: Some(3), stop: None, step: 70 }];
    let of_steps = (0..=440).rev().step_by(9).flat_map(|y| (3..600).step_by(70).map(move |x| number(y, x)));
    // So scattered that single places are copied.
    let (ys, xs): (Vec<i64>, Vec<i64>) = (0..3_000).map(|at| (at * 7_919 % 447, at * 104_729 % 600)).unzip();
    let of_points = ys.iter().zip(&xs).map(|(&y, &x)| number(y, x)).collect();
    let points = Selections::items([[Item::from(Indices::new(ys)), Item::from(Indices::new(xs))]]);
    vec![
        read(&of_boxes, boxes.iter().flat_map(in_box).collect()),
        read(&Selections::items([steps]), of_steps.collect()),
        read(&points.with_indexing(Indexing::Pointwise), of_points),
    ]
}

#[test]
fn chunks_that_differ_in_shape_are_read_as_others() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded, Form::RawSharded] {
        let slow = Slow::new(differing_store(form), Duration::from_millis(1));
        let far = Array::open_async(slow.clone(), "/", None).unwrap();
        let near = Array::open(differing_store(form), "/").unwrap();
        for array in [&far, &near] {
            for limit in [None, Some(16 << 20)] {
                let options = ReadOptions::default().with_memory_limit(limit);
                let stats = check_differing(array, &options);
                assert!(stats.iter().all(|stats| stats.chunks_decoded > 0 && stats.chunks_cached == 0), "{form:?}");
                let cached = options.with_cache(Some(ChunkCache::new(1 << 30)));
                check_differing(array, &cached);
                for stats in check_differing(array, &cached) {
                    assert_eq!(stats.chunks_decoded, 0, "{form:?}");
                    assert!(stats.chunks_cached > 0, "{form:?}");
                }
            }
        }
    }
}

#[test]
fn few_pieces_of_a_raw_chunk_are_fetched_as_ranges() {
    let inner = Arc::new(MemoryStore::new());
    let builder = ArrayBuilder::new(vec![4_000_000], vec![4_000_000], data_type::float64(), 0.0_f64);
    let array = builder.build(inner.clone(), "/").unwrap();
    array.store_metadata().unwrap();
    array.store_chunk(&[0], (0..4_000_000).map(f64::from).collect::<Vec<_>>()).unwrap();
    let slow = Slow::new(inner, Duration::from_millis(1));
    let array = Array::open_async(slow.clone(), "/", None).unwrap();
    slow.forget();
    let selections = Selections::ranges(vec![5, 3_000_000, 10], vec![9, 3_000_100, 20]).unwrap();
    let options = ReadOptions::default().with_max_gap(Some(1 << 10));
    let read = array.read(&selections, &options).unwrap();
    assert_eq!(read.stats().bytes_fetched, 15 * 8 + 100 * 8);
    assert_eq!(slow.requests("c/0"), 2);
    // All of it: 32 MB in parts that are fetched at once.
    let all = Selections::ranges(vec![0], vec![4_000_000]).unwrap();
    let limited = ReadOptions::default().with_memory_limit(Some(1 << 20));
    let error = array.read(&all, &limited).unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Allocation, Some("c/0")), "{error}");
    slow.forget();
    let rows = array.read(&all, &ReadOptions::default()).unwrap().into_array();
    let row = rows.as_list::<i64>().value(0);
    assert!(row.as_primitive::<Float64Type>().values().iter().zip(0..).all(|(&got, at)| got == f64::from(at)));
    assert_eq!((slow.requests("c/0"), slow.most.load(Ordering::Relaxed)), (4, 4));
}

#[test]
fn the_number_of_requests_is_what_is_asked_for() {
    let slow = Slow::new(store(Form::Zstd), Duration::from_millis(2));
    let array = Array::open_async(slow.clone(), "/", None).unwrap();
    for concurrency in [1, 7] {
        slow.forget();
        let stats = check(&array, &ReadOptions::default().with_concurrency(Some(concurrency)));
        assert_eq!((stats.max_in_flight, slow.most.load(Ordering::Relaxed)), (concurrency, concurrency));
    }
}

/// A store whose methods block.
struct Blocking(Arc<Slow>);

impl Blocking {
    fn answer(&self, key: &StoreKey, range: ByteRange) -> Result<MaybeBytes, StorageError> {
        let flying = self.0.flying.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.most.fetch_max(flying, Ordering::Relaxed);
        self.0.asked.lock().unwrap().entry(key.as_str().to_owned()).or_default().push(range);
        std::thread::sleep(self.0.latency);
        self.0.flying.fetch_sub(1, Ordering::Relaxed);
        let fault = self.0.fault.lock().unwrap().clone();
        assert!(fault.is_none_or(|(at, _)| at != key.as_str()), "a panic that is meant");
        self.0.inner.get_partial(key, range)
    }
}

impl ReadableStorageTraits for Blocking {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let found: Result<Option<Vec<_>>, _> = ranges.map(|range| self.answer(key, range)).collect();
        Ok(found?.map(|found| Box::new(found.into_iter().map(Ok)) as _))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        self.0.inner.size_key(key)
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

#[test]
fn a_store_that_blocks_is_asked_by_many_threads() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded, Form::RawSharded] {
        let slow = Slow::new(store(form), Duration::from_millis(20));
        let array = Array::open_blocking(Arc::new(Blocking(slow.clone())), "/", None).unwrap();
        slow.forget();
        let stats = check(&array, &ReadOptions::default().with_concurrency(Some(16)));
        assert_eq!(stats.max_in_flight, slow.most.load(Ordering::Relaxed), "{form:?}");
        assert!((2..=16).contains(&stats.max_in_flight), "{form:?}: {}", stats.max_in_flight);
    }
    let slow = Slow::new(store(Form::Zstd), Duration::ZERO);
    let array = Array::open_blocking(Arc::new(Blocking(slow.clone())), "/", None).unwrap();
    *slow.fault.lock().unwrap() = Some(("c/0".to_owned(), Fault::Panic));
    let error = array.read(&Selections::items([vec![Item::FULL]]), &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    assert!(error.to_string().contains("key 'c/0'"), "{error}");
}

#[test]
fn a_memory_limit_holds_for_what_waits_to_be_decoded() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded, Form::RawSharded] {
        let slow = Slow::new(store(form), Duration::from_millis(1));
        let array = Array::open_async(slow, "/", None).unwrap();
        let stats = check(&array, &ReadOptions::default().with_memory_limit(Some(400_000)));
        assert!(stats.bytes_held <= 400_000, "{form:?}: {}", stats.bytes_held);
        let (starts, stops) = ranges();
        let selections = Selections::ranges(starts, stops).unwrap();
        let error = array.read(&selections, &ReadOptions::default().with_memory_limit(Some(1_000))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Allocation, "{form:?}: {error}");
    }
}

#[test]
fn faults_name_the_key() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded, Form::RawSharded] {
        let slow = Slow::new(store(form), Duration::from_millis(1));
        let array = Array::open_async(slow.clone(), "/", None).unwrap();
        let (starts, stops) = ranges();
        let selections = Selections::ranges(starts, stops).unwrap();
        for fault in [Fault::Fail, Fault::Short] {
            *slow.fault.lock().unwrap() = Some(("c/7".to_owned(), fault));
            let error = array.read(&selections, &ReadOptions::default()).unwrap_err();
            assert_eq!(error.key(), Some("c/7"), "{form:?}: {error}");
            let kind = if fault == Fault::Fail { ErrorKind::Store } else { ErrorKind::Decode };
            assert_eq!(error.kind(), kind, "{form:?}: {error}");
        }
        *slow.fault.lock().unwrap() = None;
        let missing = ReadOptions::default().with_missing_chunks(MissingChunks::Error);
        let error = array.read(&selections, &missing).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{form:?}: {error}");
    }
}

#[test]
fn a_store_that_panics_is_an_error() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded] {
        let slow = Slow::new(store(form), Duration::from_millis(1));
        let array = Array::open_async(slow.clone(), "/", None).unwrap();
        *slow.fault.lock().unwrap() = Some(("c/7".to_owned(), Fault::Panic));
        let (starts, stops) = ranges();
        let selections = Selections::ranges(starts, stops).unwrap();
        let error = array.read(&selections, &ReadOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Store, Some("c/7")), "{form:?}: {error}");
    }
}

#[test]
fn a_store_that_hangs_does_not_hang_who_cancels() {
    let slow = Slow::new(store(Form::Zstd), Duration::from_millis(1));
    let array = Array::open_async(slow.clone(), "/", None).unwrap();
    *slow.fault.lock().unwrap() = Some(("c/7".to_owned(), Fault::Hang));
    let cancel = Arc::new(AtomicBool::new(false));
    let stop = cancel.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        Instant::now()
    });
    let (starts, stops) = ranges();
    let selections = Selections::ranges(starts, stops).unwrap();
    let error = array.read(&selections, &ReadOptions::default().with_cancel(cancel)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(stopper.join().unwrap().elapsed() < Duration::from_secs(5));
}

#[test]
fn arrays_near_and_far_are_read_in_one_call() {
    let near = Array::open(store(Form::Raw), "/").unwrap();
    let far = Array::open_async(Slow::new(store(Form::Sharded), Duration::from_millis(5)), "/", None).unwrap();
    let (starts, stops) = ranges();
    let sources: Vec<u32> = (0..starts.len() as u32).map(|row| row % 2).collect();
    let selections = Selections::ranges(starts.clone(), stops.clone()).unwrap();
    let read = zarrow::read_ragged(&[near, far], &sources, &selections, &ReadOptions::default()).unwrap();
    let rows = read.into_array();
    for (row, (start, stop)) in starts.into_iter().zip(stops).enumerate() {
        let row = rows.as_list::<i64>().value(row);
        assert_eq!(row.as_primitive::<Float64Type>().values().to_vec(), expected(start, stop));
    }
}

/// What the numbers of stats tell that a cache and its reads have in common.
fn counts(stats: &zarrow::ReadStats) -> (usize, usize, usize) {
    (stats.chunks_cached, stats.chunks_decoded, stats.chunks_missing)
}

#[test]
fn a_cache_holds_what_was_decoded_near_and_far() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded, Form::RawSharded] {
        let slow = Slow::new(store(form), Duration::from_millis(1));
        let far = Array::open_async(slow.clone(), "/", None).unwrap();
        for array in [far, Array::open(store(form), "/").unwrap()] {
            let cache = ChunkCache::new(1 << 30);
            let options = ReadOptions::default().with_cache(Some(cache.clone()));
            assert_eq!(counts(&check(&array, &options)), (0, 189, 10), "{form:?}");
            slow.forget();
            assert_eq!(counts(&check(&array, &options)), (189, 0, 10), "{form:?}");
            assert_eq!(slow.requests("c/0"), 0, "{form:?}");
            cache.clear();
            assert_eq!(counts(&check(&array, &options)), (0, 189, 10), "{form:?}");
            let small = ChunkCache::new(100_000);
            let options = ReadOptions::default().with_cache(Some(small.clone()));
            for _ in 0..3 {
                check(&array, &options);
                assert!(small.bytes() <= 100_000 && small.evictions() > 0);
            }
        }
    }
}

#[test]
fn windows_that_slide_decode_each_chunk_once() {
    for form in [Form::Zstd, Form::Sharded] {
        let array = Array::open_async(Slow::new(store(form), Duration::ZERO), "/", None).unwrap();
        let cache = ChunkCache::new(1 << 20);
        let options = ReadOptions::default().with_cache(Some(cache.clone()));
        let mut decoded = 0;
        for start in (0..40_000).step_by(100) {
            let selections = Selections::ranges(vec![start], vec![start + 1_000]).unwrap();
            decoded += array.read(&selections, &options).unwrap().stats().chunks_decoded;
        }
        assert_eq!(decoded, 41, "{form:?}");
    }
}

#[test]
fn reads_at_once_share_what_one_decodes() {
    for form in [Form::Raw, Form::Zstd, Form::Sharded] {
        let slow = Slow::new(store(form), Duration::from_millis(5));
        let far = Array::open_async(slow.clone(), "/", None).unwrap();
        for array in [far, Array::open(store(form), "/").unwrap()] {
            let cache = ChunkCache::new(1 << 30);
            let options = ReadOptions::default().with_cache(Some(cache.clone()));
            let decoded = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| decoded.fetch_add(check(&array, &options).chunks_decoded, Ordering::Relaxed));
                }
            });
            assert_eq!(decoded.into_inner(), 189, "{form:?}");
        }
    }
}

#[test]
fn what_fails_leaves_the_cache_as_it_was() {
    let slow = Slow::new(store(Form::Zstd), Duration::from_millis(1));
    let array = Array::open_async(slow.clone(), "/", None).unwrap();
    let options = ReadOptions::default().with_cache(Some(ChunkCache::new(1 << 30)));
    *slow.fault.lock().unwrap() = Some(("c/7".to_owned(), Fault::Fail));
    let (starts, stops) = ranges();
    let selections = Selections::ranges(starts, stops).unwrap();
    for _ in 0..3 {
        assert_eq!(array.read(&selections, &options).unwrap_err().kind(), ErrorKind::Store);
    }
    *slow.fault.lock().unwrap() = None;
    check(&array, &options);
}

#[test]
fn a_future_may_be_awaited_anywhere_and_ends_its_read_when_dropped() {
    let slow = Slow::new(store(Form::Zstd), Duration::from_millis(1));
    let array = Array::open_async(slow.clone(), "/", None).unwrap();
    let selections = Selections::ranges(vec![0, 10], vec![5, 20_000]).unwrap();
    let options = ReadOptions::default();
    let read = futures_executor(array.read_async(&selections, &options)).unwrap();
    assert_eq!(read.stats().chunks_decoded, 20);
    *slow.fault.lock().unwrap() = Some(("c/7".to_owned(), Fault::Hang));
    let timed = options.clone().with_timeout(Some(Duration::from_millis(50)));
    assert_eq!(array.read(&selections, &timed).unwrap_err().kind(), ErrorKind::TimedOut);
    slow.forget();
    let mut future = Box::pin(array.read_async(&selections, &options));
    let waker = std::task::Waker::noop();
    assert!(future.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    while slow.requests("c/7") == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(future);
    // The hanging request is let go of: the store is nobody's but ours.
    let array = Arc::new(array);
    drop(array);
    let began = Instant::now();
    while Arc::strong_count(&slow) > 1 {
        assert!(began.elapsed() < Duration::from_secs(10), "the read goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn many_awaited_reads_leave_threads_to_the_stores_that_they_wait_for() {
    let slow = Slow::new(store(Form::Zstd), Duration::from_millis(20));
    let array = Array::open_blocking(Arc::new(Blocking(slow)), "/", None).unwrap();
    let selections = Selections::ranges(vec![0], vec![5]).unwrap();
    let options = ReadOptions::default().with_timeout(Some(Duration::from_mins(1)));
    // More than a runtime has threads that may block, before the first of them asks for anything.
    let reads = (0..3_000).map(|_| array.read_async(&selections, &options));
    for read in futures_executor(futures_util::future::join_all(reads)) {
        assert_eq!(read.unwrap().stats().chunks_decoded, 1);
    }
}

/// Waits for a future, as any executor may.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    let waker = std::task::Waker::noop();
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_batch_may_be_awaited_and_asks_for_all_its_columns_together() {
    let open = || Array::open_async(Slow::new(store(Form::Zstd), Duration::from_millis(50)), "/", None).unwrap();
    let arrays = [open(), open()];
    let columns = [("a", &arrays[0]), ("b", &arrays[1])];
    let selections = Selections::ranges(vec![0, 10], vec![5, 20_000]).unwrap();
    let options = ReadOptions::default();
    let batch = futures_executor(read_batch_async(&columns, &selections, &options)).unwrap();
    let alone = arrays[0].read(&selections, &options).unwrap();
    let (again, stats) = read_batch_with_stats(&columns, &selections, &options).unwrap();
    assert_eq!(stats.chunks_decoded, 2 * alone.stats().chunks_decoded);
    assert_eq!((stats.rows, stats.bytes_out), (selections.len(), 2 * alone.stats().bytes_out));
    assert_eq!((alone.stats().max_in_flight, stats.max_in_flight), (20, 40));
    let alone = alone.into_array();
    for column in batch.columns().iter().chain(again.columns()) {
        assert_eq!(column, &alone);
    }
}

#[test]
fn progress_ends_where_all_is_done() {
    let array = Array::open_async(Slow::new(store(Form::Sharded), Duration::ZERO), "/", None).unwrap();
    let progress = Arc::new(Progress::default());
    check(&array, &ReadOptions::default().with_progress(Some(progress.clone())));
    assert_eq!((progress.chunks(), progress.chunks_total()), (199, 199));
    assert_eq!((progress.bytes(), progress.bytes_total()), (199 * 8_000, 199 * 8_000));
}
