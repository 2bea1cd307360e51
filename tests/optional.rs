//! Optional values whose compressors lie about their lengths.

mod common;

use std::num::NonZeroU64;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray};
use arrow::datatypes::Int32Type;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, ArrayToBytesCodecTraits, CodecOptions, FillValue, data_type};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{ErrorKind, ReadOptions, Selections};

use crate::common as lib;

fn compressors() -> Vec<Value> {
    vec![
        lib::gzip_codec(),
        json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}}),
        json!({"name": "numcodecs.zlib", "configuration": {"level": 1}}),
        json!({"name": "numcodecs.bz2", "configuration": {"level": 1}}),
    ]
}

fn compress(bytes: Vec<u8>, codec: &Value) -> Vec<u8> {
    let chain = lib::codec_chain(&[json!({"name": "bytes"}), codec.clone()]);
    let shape = [NonZeroU64::new(bytes.len() as u64).expect("bytes")];
    let (bytes, fill) = (ArrayBytes::new_flen(bytes), FillValue::from(0_u8));
    chain.encode(bytes, &shape, &data_type::uint8(), &fill, &CodecOptions::default()).expect("compressed").into_owned()
}

/// A chunk of four values: lengths of mask and values, then both.
fn chunk(mask: &[u8], values: &[u8]) -> Vec<u8> {
    [&(mask.len() as u64).to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), mask, values].concat()
}

fn store(compressor: &Value, chunk: Vec<u8>) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let codecs = json!([{"name": "zarrs.optional", "configuration": {
        "mask_codecs": [{"name": "bytes"}, compressor], "data_codecs": [lib::bytes_codec(), compressor],
    }}]);
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [4], "fill_value": null, "codecs": codecs, "attributes": {},
        "data_type": {"name": "zarrs.optional", "configuration": {"name": "int32", "configuration": {}}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    });
    lib::set(&store, "a/zarr.json", metadata.to_string());
    lib::set(&store, "a/c/0", chunk);
    store
}

#[test]
fn bombs_inside_are_refused() {
    let values: Vec<u8> = [7_i32, -9].into_iter().flat_map(i32::to_le_bytes).collect();
    let ranges = || Selections::ranges(vec![0], vec![4]).expect("ranges");
    for codec in compressors() {
        let mask = compress(vec![1, 0, 0, 1], &codec);
        let whole = chunk(&mask, &compress(values.clone(), &codec));
        let array = lib::open(&store(&codec, whole.clone()), "/a").expect("array");
        let ragged = array.read(&ranges(), &ReadOptions::default()).expect("read");
        let read = ragged.values().as_primitive::<Int32Type>();
        assert!(read.iter().eq([Some(7), None, None, Some(-9)]), "{codec}");
        assert_eq!(read.null_count(), 2);
        let bomb = compress(vec![1; 4 << 20], &codec);
        let cut = whole[..whole.len() - 1].to_vec();
        for damaged in [chunk(&mask, &bomb), chunk(&bomb, &compress(values.clone(), &codec)), cut, vec![0; 15]] {
            let array = lib::open(&store(&codec, damaged), "/a").expect("array");
            let error = array.read(&ranges(), &ReadOptions::default()).expect_err("damaged");
            lib::assert_error(&error, ErrorKind::Decode);
            assert!(error.to_string().contains("c/0"), "{error}");
        }
    }
}
