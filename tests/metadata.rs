//! Metadata that makes no sense, or asks for what is not there yet, is an error that says so, and never a panic.

mod common;

use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zarrow::zarrs::storage::ReadableStorage;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, Error, ErrorKind, Item, Ragged, ReadOptions, Result, Selections, ZarrFormat};

use crate::common::{self as lib, assert_error, bytes_codec, gzip_codec, sharding_codec};

fn read(array: &Array) -> Result<Ragged> {
    array.read(&Selections::items([[Item::Ellipsis]]), &ReadOptions::default().with_threads(Some(2)))
}

fn transpose(order: &[u64]) -> Value {
    json!({"name": "transpose", "configuration": {"order": order}})
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

#[cfg(not(feature = "zfp"))]
#[test]
fn codecs_of_zfp_are_refused_with_the_feature_that_they_need() {
    for name in ["zfp", "zarrs.zfp", "numcodecs.zfpy", "https://codec.zarrs.dev/array_to_bytes/zfp"] {
        let codecs = json!([{"name": name, "configuration": {"mode": "reversible"}}]);
        let error = lib::empty_array(&[4], &[2], "float32", &codecs).unwrap_err();
        assert_error(&error, ErrorKind::Unsupported);
        let message = error.to_string();
        assert!(message.contains("codec 'zfp") && message.contains("feature 'zfp'"), "{message}");
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
        (Metadata, "/codecs", json!([transpose(&[0, 0]), bytes_codec()])),
        (Metadata, "/codecs", json!([transpose(&[0]), bytes_codec()])),
        (Metadata, "/codecs", json!([transpose(&[2, 1, 0]), bytes_codec()])),
        (Metadata, "/codecs", json!([bytes_codec(), {"name": "gzip", "configuration": {"level": 99}}])),
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
        (Metadata, &format!("{codec}/codecs"), json!([transpose(&[0]), bytes_codec()])),
        (Metadata, &format!("{codec}/codecs"), json!([transpose(&[2, 1, 0]), bytes_codec()])),
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
        assert!(read(&array).expect("fill values").stats().chunks_missing > 0);
        lib::set(&store, "a/c/0/0", vec![7; 64]);
        let error = read(&array).expect_err("too large");
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
    let error = read(&lib::open(&store, "/a").expect("array")).expect_err("corrupt");
    assert_error(&error, ErrorKind::Decode);
    assert_eq!(error.key(), Some("a/c/0/0"), "{error}");
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
        ("/chunk_grid", json!({"name": "no_such_grid"})),
        ("/chunk_key_encoding", json!({"name": "no_such_encoding"})),
        ("/data_type", json!("no_such_type")),
    ] {
        complaints.check_v3(Unsupported, pointer, &value);
    }
    for (data_type, fill) in [
        (json!({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "string"}]}}), json!({})),
        (json!({"name": "struct", "configuration": {"fields": [["a", "no_such_type"]]}}), json!("")),
        (
            json!({"name": "optional", "configuration": {"name": "optional", "configuration": {"name": "int8"}}}),
            json!(null),
        ),
        (json!("r134217736"), json!("")),
        (json!({"name": "raw_bytes", "configuration": {"length_bytes": 1_u64 << 40}}), json!("")),
        (json!({"name": "numpy.datetime64", "configuration": {"unit": "generic", "scale_factor": 1}}), json!(0)),
        (json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 1_u64 << 40}}), json!("")),
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
        ("dtype", json!("|S16777217")),
        ("dtype", json!("<U4194305")),
        ("dtype", json!("|V99999999999999999999")),
        ("dtype", json!("<M8")),
        ("dtype", json!("<m8[M]")),
        ("dtype", json!([["x", "<f4"], ["y", "|O"]])),
        ("dtype", json!([["x", "<f4", [0, 3]]])),
        ("dtype", json!([["x", "<f4", [1_u64 << 40, 1_u64 << 40]]])),
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
    let storage: ReadableStorage = store;
    let error = Array::open_with(storage.clone(), "/a", Some(ZarrFormat::V2)).expect_err("it is v3");
    assert_error(&error, ErrorKind::NotFound);
    assert!(error.to_string().contains("'.zarray'"), "{error}");
    Array::open_with(storage, "/a", Some(ZarrFormat::V3)).expect("it is v3");

    let directory = tempfile::tempdir().expect("directory");
    for path in [directory.path().to_owned(), directory.path().join("none"), Path::new("/dev/null").to_owned()] {
        let error = Array::open_local(&path, None).expect_err("nothing there");
        assert_error(&error, ErrorKind::NotFound);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
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
        let ragged = read(&array).expect("the fill value");
        assert_eq!((ragged.len(), ragged.offsets().len(), ragged.values().len()), (1, 0, 1));
        for selections in [Selections::ranges(vec![0], vec![0]), Selections::boxes(1, vec![], vec![])] {
            let error = array.plan(&selections.expect("selections")).expect_err("there is no axis");
            assert_error(&error, ErrorKind::Selection);
        }
    }
}

/// Others read bytes without a byte order as little-endian, behind any codec and inside shards.
#[test]
fn bytes_without_a_byte_order_are_little_endian() {
    let bytes = json!({"name": "bytes"});
    let bz2 = json!({"name": "numcodecs.bz2", "configuration": {"level": 1}});
    let written = [bytes_codec(), gzip_codec()];
    for (with, without) in [
        (vec![bytes_codec()], vec![bytes.clone()]),
        (vec![bytes_codec(), bz2.clone()], vec![bytes.clone(), bz2]),
        (vec![sharding_codec(&[3, 4], &written, "end")], vec![sharding_codec(&[3, 4], &[bytes, gzip_codec()], "end")]),
    ] {
        let store = Arc::new(MemoryStore::new());
        lib::counting_array(&store, "/a", &[12, 8], &[6, 8], &with);
        let expected = read(&lib::open(&store, "/a").expect("array")).expect("values");
        let mut document: Value = serde_json::from_slice(&lib::get(&store, "a/zarr.json")).expect("JSON");
        document["codecs"] = json!(without);
        lib::set(&store, "a/zarr.json", document.to_string());
        let got = read(&lib::open(&store, "/a").expect("array")).expect("values");
        assert_eq!(got.values(), expected.values());
    }
}
