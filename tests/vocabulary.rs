//! Selections of every kind, in any mixture, under every policy, from one array or several: the result is what `NumPy`
//! gives for the whole array, nulls and all, and the plan counts right.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use proptest::prelude::*;
use proptest::sample::select;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ElementType, ErrorKind, MissingChunks, OutOfBounds, Plan, ReadOptions, read_batch, read_ragged};

use crate::common::cases::{self, Case, PATH};
use crate::common::meaning::{self, Expected, Row};
use crate::common::naive::Padded;
use crate::common::store::{Watched, assert_nothing_twice};
use crate::common::vocabulary::{self, Call, Size};
use crate::common::{self as lib, ELEMENTS, assert_error};

/// An array, and what it holds.
struct Twin {
    case: Case,
    store: Arc<MemoryStore>,
    watched: Arc<Watched>,
    array: Array,
    padded: Padded,
}

impl Twin {
    fn write(mut case: Case) -> Self {
        // Which empty subchunks zarrs writes if it is told to write empty chunks depends on the codecs.
        case.store_empty &= !case.sharded;
        let (store, padded) = case.write();
        let watched = Watched::new(store.clone());
        let array = Array::open(watched.storage(), PATH).expect("array");
        watched.take_log();
        Self { case, store, watched, array, padded }
    }

    fn chunk_of(&self, cell: &[u64]) -> Vec<u64> {
        cell.iter().zip(&self.case.read_chunk).map(|(at, chunk)| at / chunk).collect()
    }

    fn stores(&self, chunk: &[u64]) -> bool {
        self.case.stores(&self.padded, chunk, &self.case.read_chunk)
    }

    /// Bytes of a read chunk.
    fn chunk_len(&self) -> u64 {
        self.case.read_chunk.iter().product::<u64>() * self.case.element.size() as u64
    }
}

/// How the rows are read.
#[derive(Debug, Clone)]
struct Policies {
    missing_chunks: MissingChunks,
    fill: Option<[u8; 16]>,
}

fn policies() -> impl Strategy<Value = Policies> {
    let missing = vec![MissingChunks::Fill, MissingChunks::Fill, MissingChunks::Null, MissingChunks::Error];
    let fill = prop::option::weighted(0.3, prop_oneof![Just([0; 16]), any::<[u8; 16]>()]);
    (select(missing), fill).prop_map(|(missing_chunks, fill)| Policies { missing_chunks, fill })
}

impl Policies {
    fn options(&self, element: ElementType, threads: usize) -> ReadOptions {
        ReadOptions::default()
            .with_threads(Some(threads))
            .with_missing_chunks(self.missing_chunks)
            .with_fill(self.fill(element).as_deref())
    }

    fn fill(&self, element: ElementType) -> Option<Vec<u8>> {
        let mut fill = self.fill?[..element.size()].to_vec();
        if element == ElementType::Bool {
            fill[0] &= 1;
        }
        Some(fill)
    }

    /// Bytes and validity of a cell.
    fn element(&self, twin: &Twin, policy: OutOfBounds, stored: &Stored, cell: Option<&[u64]>) -> (Vec<u8>, bool) {
        let fill = || self.fill(twin.case.element.clone()).unwrap_or_else(|| twin.case.contents.fill.clone());
        match cell {
            None if policy == OutOfBounds::Null => (vec![0; twin.padded.item], false),
            None => (fill(), true),
            Some(at) => {
                let valid = self.missing_chunks != MissingChunks::Null || stored[&twin.chunk_of(at)];
                (twin.padded.element(at).to_vec(), valid)
            }
        }
    }
}

/// The touched read chunks of one array, and whether the store holds each.
type Stored = BTreeMap<Vec<u64>, bool>;

/// Plans and reads on one thread and on four, and compares all there is to compare.
fn check(twins: &[Twin], twice: bool, call: &Call, policies: &Policies) {
    let element = twins[0].case.element.clone();
    let selections = call.selections();
    let mut arrays: Vec<Array> = twins.iter().map(|twin| twin.array.clone()).collect();
    let mut sources: Vec<u32> = call.sources.iter().map(|&source| source as u32).collect();
    if twice {
        // The first array once more: half of its rows are read from there.
        arrays.push(arrays[0].clone());
        for source in sources.iter_mut().filter(|source| **source == 0).step_by(2) {
            *source = twins.len() as u32;
        }
    }
    let given = (arrays.len() > 1).then_some(&sources[..]);
    let plan = Plan::new(&arrays, given, &selections);
    let rows = match call.rows() {
        Ok(rows) => rows,
        Err(row) => {
            let error = plan.expect_err("out of bounds");
            assert_eq!(error.selection(), Some(row), "{error}");
            return assert_error(&error, ErrorKind::Selection);
        }
    };
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));

    // What is touched, element by element.
    let mut touched: Vec<BTreeMap<Vec<u64>, BTreeSet<usize>>> = vec![BTreeMap::new(); twins.len()];
    for (number, row) in rows.iter().enumerate() {
        let source = call.sources[number];
        for cell in row.iter().flat_map(|row| &row.cells).flatten() {
            touched[source].entry(twins[source].chunk_of(cell)).or_default().insert(number);
        }
    }
    let of = |(twin, touched): (&Twin, &BTreeMap<Vec<u64>, BTreeSet<usize>>)| -> Stored {
        touched.keys().map(|chunk| (chunk.clone(), twin.stores(chunk))).collect()
    };
    let stored: Vec<Stored> = twins.iter().zip(&touched).map(of).collect();
    let levels = call.levels(&rows);
    let mut expected = Expected::new(levels);
    for (row, &source) in rows.iter().zip(&call.sources) {
        expected.push(row.as_ref(), element.size(), |cell| {
            policies.element(&twins[source], call.out_of_bounds, &stored[source], cell.as_deref())
        });
    }
    check_plan(&plan, twins, &touched, &rows, &expected);

    assert!(twins.iter().all(|twin| twin.watched.take_log().is_empty()), "planning reads nothing");
    for threads in [1, 4] {
        let options = policies.options(element.clone(), threads);
        let read = match threads {
            1 => plan.read(&options),
            _ if given.is_some() => read_ragged(&arrays, &sources, &selections, &options),
            _ => arrays[0].read(&selections, &options),
        };
        let missing: usize = stored.iter().flat_map(BTreeMap::values).filter(|stored| !**stored).count();
        if policies.missing_chunks == MissingChunks::Error && missing > 0 {
            let error = read.expect_err("a chunk is missing");
            assert!(error.array() == Some(PATH) && error.key().is_some(), "{error}");
            assert_error(&error, ErrorKind::NotFound);
            for twin in twins {
                assert_nothing_twice(&twin.watched.take_log());
            }
            continue;
        }
        let ragged = read.unwrap_or_else(|error| panic!("{error}"));
        let stats = *ragged.stats();
        assert_eq!(stats.pieces, plan.pieces());
        assert_eq!(stats.chunks_missing, missing);
        assert_eq!(stats.chunks_fetched, plan.read_chunks() - missing);
        assert_eq!(stats.chunks_decoded, stats.chunks_fetched);
        assert!(stats.bytes_decoded <= plan.bytes_to_decode());
        let mut bytes = 0;
        for twin in twins {
            let log = twin.watched.take_log();
            assert_nothing_twice(&log);
            bytes += log.iter().map(|read| read.range.end - read.range.start).sum::<u64>();
        }
        assert_eq!(bytes, stats.bytes_fetched);
        if given.is_none() {
            // As columns of a batch, two of the same array.
            let columns = [("one", &arrays[0]), ("two", &arrays[0])];
            let batch = read_batch(&columns, &selections, &options).expect("batch");
            let expected = ragged.clone().into_array().to_data();
            assert!(batch.columns().iter().all(|column| column.to_data() == expected));
            assert_nothing_twice(&twins[0].watched.take_log());
        }
        meaning::check(ragged, element.clone(), &expected);
    }
}

/// Compares what a plan says with what was counted.
fn check_plan(
    plan: &Plan,
    twins: &[Twin],
    touched: &[BTreeMap<Vec<u64>, BTreeSet<usize>>],
    rows: &[Option<Row>],
    expected: &Expected,
) {
    assert_eq!(plan.rows(), rows.len());
    assert_eq!(plan.read_chunks(), touched.iter().map(BTreeMap::len).sum::<usize>());
    assert_eq!(plan.pieces(), touched.iter().flat_map(BTreeMap::values).map(BTreeSet::len).sum::<usize>());
    let bytes = touched.iter().zip(twins).map(|(touched, twin)| touched.len() as u64 * twin.chunk_len()).sum::<u64>();
    assert_eq!((plan.bytes_to_decode(), plan.bytes_out()), (bytes, expected.values.len() as u64));
    let count = |n: usize| f64::from(u32::try_from(n).expect("small"));
    let amplification = count(bytes as usize) / count(expected.values.len());
    let off = (plan.amplification() - amplification).abs();
    assert!(off < 1e-9 || expected.values.is_empty() && plan.amplification().is_nan());
    assert_eq!(plan.layout().row_starts(), expected.row_starts);
    let bound = plan.selections();
    let levels = expected.offsets.len();
    assert_eq!((bound.len(), bound.levels()), (rows.len(), levels));
    for (number, row) in rows.iter().enumerate() {
        let extents = row.as_ref().map_or_else(|| vec![0; levels], |row| row.extents.clone());
        assert_eq!(bound.extents(number), extents, "row {number}");
    }

    // Of each read chunk: its array, its indices, the rows that it serves.
    let chunks = plan.chunks().expect("chunks");
    let column = |at: usize| chunks.column(at).as_primitive::<UInt64Type>().values().to_vec();
    let sources = chunks.column(0).as_primitive::<UInt32Type>().values();
    let indices = chunks.column(2).as_list::<i32>();
    let mut seen = BTreeSet::new();
    for (at, (&source, (serves, bytes))) in sources.iter().zip(column(3).into_iter().zip(column(4))).enumerate() {
        let values = indices.value(at);
        let index: Vec<u64> = values.as_primitive::<Int64Type>().values().iter().map(|&index| index as u64).collect();
        let twin = source as usize;
        assert_eq!((serves, bytes), (touched[twin][&index].len() as u64, twins[twin].chunk_len()));
        assert!(seen.insert((twin, index)), "a read chunk occurs twice");
    }
    assert_eq!(seen.len(), plan.read_chunks());
}

fn arrays_and_call() -> impl Strategy<Value = (Vec<Case>, bool, Call)> {
    let arrays = (select(&ELEMENTS[..]), 0_usize..5, prop_oneof![3 => Just(1_usize), 1 => Just(2), 1 => Just(3)]);
    let arrays = arrays.prop_flat_map(|(element, rank, count)| {
        (prop::collection::vec(cases::case_of(element, rank), count), prop::bool::weighted(0.2))
    });
    arrays.prop_flat_map(|(cases, twice)| {
        let shapes: Vec<Vec<u64>> = cases.iter().map(|case| case.shape.clone()).collect();
        let call = vocabulary::call(&shapes, Size::Any);
        (Just(cases), Just(twice), call)
    })
}

proptest! {
    #![proptest_config(lib::config(1500))]

    #[test]
    fn any_selection_reads_as_numpy_gives((cases, twice, call) in arrays_and_call(), policies in policies()) {
        let twins: Vec<Twin> = cases.into_iter().map(Twin::write).collect();
        check(&twins, twice, &call, &policies);
    }
}

proptest! {
    #![proptest_config(lib::config(300))]

    /// Chunks of which little is wanted are fetched and decoded in part.
    #[test]
    fn large_chunks_read_as_numpy_gives(
        (case, call) in cases::large_case().prop_flat_map(|case| {
            let call = vocabulary::call(std::slice::from_ref(&case.shape), Size::Narrow);
            (Just(case), call)
        }),
        policies in policies(),
    ) {
        let mut twin = Twin::write(case);
        check(std::slice::from_ref(&twin), false, &call, &policies);
        // From files too, of which less is read.
        let directory = tempfile::tempdir().expect("directory");
        lib::export(&twin.store, PATH, directory.path());
        twin.array = Array::open_local(directory.path(), None).expect("array in a directory");
        read_from_files(&twin, &call, &policies);
    }
}

/// Reads the same from files and from memory.
fn read_from_files(twin: &Twin, call: &Call, policies: &Policies) {
    let in_memory = lib::open(&twin.store, PATH).expect("array");
    let options = policies.options(twin.case.element.clone(), 2);
    let read = |array: &Array| array.read(&call.selections(), &options);
    match (read(&twin.array), read(&in_memory)) {
        (Ok(files), Ok(memory)) => {
            assert_eq!(files.stats().chunks_decoded, memory.stats().chunks_decoded);
            // Bit for bit: numbers that are not numbers differ from themselves.
            assert_eq!(files.into_array().to_data(), memory.into_array().to_data());
        }
        (files, memory) => {
            let kind = |outcome: Result<_, zarrow::Error>| outcome.err().map(|error| error.kind());
            assert_eq!(kind(files.map(|_| ())), kind(memory.map(|_| ())));
        }
    }
}
