//! Arrays that others wrote: what zarrow opens, it reads as zarrs does; what it does not open, it says so.
//!
//! They lie in `../shared/data`, a folder beside the checkout; the test passes where it is absent, and says so.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Array as _;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt8Type};
use zarrow::zarrs::array::{Array as ZarrsArray, ArrayBytes};
use zarrow::zarrs::filesystem::FilesystemStore;
use zarrow::zarrs::storage::ReadableStorage;
use zarrow::{Array, ElementType, ErrorKind, Item, MissingChunks, ReadOptions, Selections, ZarrFormat};

use crate::common::naive::{self, Padded, Span};
use crate::common::{Bits, complaint};

const BOXES: usize = 20;

/// The directories below `folder` that hold metadata of an array, each with its format.
fn arrays(folder: &Path, found: &mut Vec<(PathBuf, ZarrFormat)>) {
    let document = fs::read_to_string(folder.join("zarr.json")).ok();
    let document = document.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    if document.is_some_and(|document| document["node_type"] == "array") {
        found.push((folder.to_owned(), ZarrFormat::V3));
    }
    if folder.join(".zarray").is_file() {
        found.push((folder.to_owned(), ZarrFormat::V2));
    }
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    for folder in &folders {
        arrays(folder, found);
    }
}

/// All of an array as zarrs reads it.
///
/// Not box by box: zarrs 0.23 cannot read parts of chunks whose length is no multiple of blosc's `typesize`.
fn reference(path: &Path, array: &Array) -> Padded {
    let store = Arc::new(FilesystemStore::new(path).expect("a store"));
    let reference = ZarrsArray::open(store, "/").expect("zarrs opens what zarrow opens");
    assert_eq!(reference.shape(), array.shape());
    let bytes: ArrayBytes = reference.retrieve_array_subset(&reference.subset_all()).expect("zarrs reads it");
    let bytes = bytes.into_fixed().expect("elements of fixed width").into_owned();
    Padded { shape: array.shape().to_vec(), item: array.element_type().size(), bytes }
}

/// Compares the whole array and boxes of it with `reference`; gives the number of rows compared.
fn compare(array: &Array, reference: &Padded) -> usize {
    let shape = array.shape();
    let mut bits = Bits(shape.iter().fold(7, |seed, len| seed * 31 + len));
    let mut rows: Vec<Vec<Span>> = vec![shape.iter().map(|len| (0, *len, true)).collect()];
    let selections = if shape.is_empty() {
        Selections::items([[]])
    } else {
        let mut span = |len: &u64| {
            let (a, b) = (bits.below(len + 1), bits.below(len + 1));
            (a.min(b), a.max(b), true)
        };
        rows.extend((0..BOXES).map(|_| shape.iter().map(&mut span).collect::<Vec<Span>>()));
        let flat = |bound: fn(&Span) -> u64| rows.iter().flatten().map(|span| bound(span) as i64).collect::<Vec<_>>();
        Selections::boxes(shape.len(), flat(|span| span.0), flat(|span| span.1)).expect("boxes")
    };
    let ragged = array.read(&selections, &ReadOptions::default()).expect("read");
    naive::check(ragged, array.element_type(), &naive::gather(reference, &rows, shape.len()));
    rows.len()
}

/// The values that the array's own description shows, row by row: numbers, and N for none.
fn compare_optional(array: &Array) {
    let text = array.attributes()["description"].as_str().expect("a description");
    let shown = text.lines().skip(2).flat_map(str::split_whitespace).map(|value| value.parse::<u8>().ok());
    let ragged = array.read(&Selections::items([[]]), &ReadOptions::default()).expect("read");
    let values = ragged.values().as_primitive::<UInt8Type>().clone();
    assert!(values.iter().eq(shown), "{values:?}\n{text}");
}

fn is_zfpy(path: &Path, format: ZarrFormat) -> bool {
    let name = if format == ZarrFormat::V2 { ".zarray" } else { "zarr.json" };
    fs::read_to_string(path.join(name)).expect("a document").contains("zfpy")
}

fn compare_zfpy(array: &Array) {
    let ragged = array.read(&Selections::items([[Item::Ellipsis]]), &ReadOptions::default()).expect("read");
    let values = ragged.values().as_primitive::<Float32Type>().values();
    assert!(values.iter().zip(0_u16..).all(|(value, at)| (value - f32::from(at)).abs() <= 0.01), "{values:?}");
}

/// Compares all elements of variable length, which the store holds, with what zarrs reads.
fn compare_variable(path: &Path, array: &Array) {
    let reference =
        ZarrsArray::open(Arc::new(FilesystemStore::new(path).expect("a store")), "/").expect("zarrs opens it");
    let bytes: ArrayBytes = reference.retrieve_array_subset(&reference.subset_all()).expect("zarrs reads it");
    let (bytes, offsets) = bytes.into_variable().expect("elements of variable length").into_parts();
    let all = [Item::Ellipsis];
    let options = ReadOptions::default().with_missing_chunks(MissingChunks::Null);
    let ragged = array.read(&Selections::items([all]), &options).expect("read");
    let values = ragged.values();
    assert_eq!(values.len() + 1, offsets.len());
    for (at, range) in offsets.windows(2).enumerate().filter(|(at, _)| values.is_valid(*at)) {
        let value = match values.as_string_opt::<i64>() {
            Some(text) => text.value(at).as_bytes(),
            None => values.as_binary::<i64>().value(at),
        };
        assert_eq!(value, &bytes[range[0]..range[1]], "element {at} of {}", path.display());
    }
}

#[test]
fn arrays_that_others_wrote() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !folder.is_dir() {
        println!("skipped: there is no {}", folder.display());
        return;
    }
    let mut found = Vec::new();
    arrays(&folder, &mut found);
    let (mut compared, mut variable, mut others, mut rows) = (0, 0, 0, 0);
    let mut complaints = Vec::new();
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, format) in &found {
        let name = path.strip_prefix(&folder).expect("below the folder").display().to_string();
        match Array::open_local(path, Some(*format)) {
            // What is no number in Arrow as zarrs gives it; the Python tests compare these.
            Ok(array) if matches!(array.element_type(), ElementType::Time(_) | ElementType::Utf32(_)) => others += 1,
            // Named as zarrs does not know it without an alias.
            Ok(array) if matches!(array.element_type(), ElementType::Optional(_)) => {
                compare_optional(&array);
                others += 1;
            }
            // zarrs does not have its decoder here; the values of these are their numbers, as exactly as it keeps them.
            Ok(array) if is_zfpy(path, *format) => {
                compare_zfpy(&array);
                others += 1;
            }
            Ok(array) if array.element_type().is_variable() => {
                compare_variable(path, &array);
                variable += 1;
            }
            Ok(array) => {
                assert_eq!(array.format(), *format);
                let reference = reference(path, &array);
                rows += compare(&array, &reference);
                // Through a zarrs store as well as directly.
                let storage: ReadableStorage = Arc::new(FilesystemStore::new(path).expect("a store"));
                let stored = Array::open_with(storage, "/", Some(*format)).expect("opened directly");
                rows += compare(&stored, &reference);
                compared += 1;
            }
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Unsupported | ErrorKind::Metadata), "{error}");
                complaints.extend(complaint(&error, kind));
                refused.entry(format!("{kind:?}")).or_default().push(format!("{name}: {error}"));
            }
        }
    }
    println!(
        "{} arrays: {compared} of fixed width equal what zarrs reads, in {rows} rows, and {variable} of variable; {others} of \
         other types",
        found.len()
    );
    for (kind, errors) in &refused {
        println!("{} refused as {kind}:", errors.len());
        for error in errors {
            println!("    {error}");
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(compared > 0, "no array of {} could be read", folder.display());
}
