//! Metadata, chunks and selections that anybody may have written: a read gives values or an error, and nothing else.
//!
//! An input is a metadata document, a zero byte, six bytes of a selection, and the bytes of every chunk. Documents that
//! ask for much are passed over, because to have much is no fault.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{Bytes, StoreKey, WritableStorageTraits};
use zarrow::{Array, Item, ReadOptions, Selections};

/// Elements of an array, and bytes of a chunk, that are worth a try.
const MOST: u64 = 1 << 16;

// Panics of codecs are caught, and become errors: only one that comes up to here is a fault.
fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |input: &[u8]| -> Corpus { if run(input).is_some() { Corpus::Keep } else { Corpus::Reject } }
);

fn run(input: &[u8]) -> Option<()> {
    let cut = input.iter().position(|&byte| byte == 0)?;
    let (document, rest) = (&input[..cut], &input[cut + 1..]);
    let (numbers, chunk) = rest.split_first_chunk::<6>()?;
    let metadata: Value = serde_json::from_slice(document).ok()?;
    let is_v2 = metadata.get("zarr_format") == Some(&Value::from(2));
    let lengths = |name: &str| metadata.pointer(name).and_then(Value::as_array).cloned().unwrap_or_default();
    // Of an axis that is cut into chunks of several lengths, the longest.
    let longest = |len: &Value| len.as_u64().or_else(|| len.as_array()?.iter().filter_map(Value::as_u64).max());
    let small = |lengths: Vec<Value>| {
        lengths.iter().try_fold(1_u64, |all, len| all.checked_mul(longest(len)?.max(1))).is_some_and(|all| all <= MOST)
    };
    let grid = if is_v2 { "/chunks" } else { "/chunk_grid/configuration/chunk_shape" };
    if !small(lengths("/shape")) || !small(lengths(grid)) {
        return None;
    }
    let store = Arc::new(MemoryStore::new());
    let set = |key: &str, value: &[u8]| {
        let key = StoreKey::new(key).ok()?;
        store.set(&key, Bytes::copy_from_slice(value)).ok()
    };
    set(if is_v2 { ".zarray" } else { "zarr.json" }, document)?;
    let array = Array::open(store.clone(), "/").ok()?;
    // The same bytes for the first chunks, whatever their keys are.
    let ndim = array.shape().len();
    for number in 0..4_usize {
        let index = |axis: usize| number >> (ndim - 1 - axis).min(8) & 1;
        let parts: Vec<String> = (0..ndim).map(|axis| index(axis).to_string()).collect();
        for key in [
            parts.join("."),
            parts.join("/"),
            ["c".to_owned()].into_iter().chain(parts.iter().cloned()).collect::<Vec<_>>().join("/"),
            ["c".to_owned()].into_iter().chain(parts.iter().cloned()).collect::<Vec<_>>().join("."),
        ] {
            set(if key.is_empty() { "0" } else { &key }, chunk)?;
        }
    }
    let item = |at: usize| {
        let (start, len) = (i64::from(numbers[at % 6] as i8), i64::from(numbers[(at + 1) % 6]));
        match numbers[(at + 2) % 6] % 3 {
            0 => Item::FULL,
            1 => Item::slice(start, start + len),
            _ => Item::Slice { start: Some(start), stop: None, step: if len % 2 == 0 { -2 } else { 3 } },
        }
    };
    let rows = [(0..ndim).map(item).collect::<Vec<_>>(), vec![Item::FULL; ndim], vec![Item::Ellipsis]];
    let options = ReadOptions::default().with_threads(Some(1)).with_memory_limit(Some(1 << 26));
    if let Ok(ragged) = array.read(&Selections::items(rows), &options) {
        let data = ragged.into_array().to_data();
        data.validate_full().expect("valid Arrow");
    }
    Some(())
}
