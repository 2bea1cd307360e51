//! Chunks that zfp encoded: in all of its modes, of all types and numbers of axes, and damaged.
#![cfg(feature = "zfp")]

#[path = "../common/mod.rs"]
mod common;
mod encoder;

use proptest::prelude::*;
use serde_json::{Value, json};
use zarrow::{Array, ErrorKind, Item, ReadOptions, Selections, ZarrFormat};

use crate::common::encoded::{self, Encoded, PATH};
use crate::common::naive::value_bytes;
use crate::common::{self as lib, Bits};
use crate::encoder::Mode;

const TYPES: [(&str, usize); 10] = [
    ("int8", 1),
    ("uint8", 1),
    ("int16", 2),
    ("uint16", 2),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float32", 4),
    ("float64", 8),
];

const NAMES: [&str; 3] = ["zfp", "zarrs.zfp", "https://codec.zarrs.dev/array_to_bytes/zfp"];
const ZFPY_NAMES: [&str; 2] = ["numcodecs.zfpy", "https://codec.zarrs.dev/array_to_bytes/zfpy"];

fn modes(data_type: &str) -> Vec<Mode> {
    let mut modes = vec![
        Mode::Expert { minbits: 1, maxbits: 200, maxprec: 19, minexp: -20 },
        Mode::Expert { minbits: 600, maxbits: 5000, maxprec: 64, minexp: -1000 },
        // Without loss: the library itself cannot read a block of zeros of more than one bit there.
        Mode::Expert { minbits: 1, maxbits: 20_000, maxprec: 64, minexp: -2000 },
        Mode::Expert { minbits: 0, maxbits: 12, maxprec: 64, minexp: -1074 },
        Mode::Rate(10.5),
        Mode::Rate(0.3),
        Mode::Precision(13),
        Mode::Precision(0),
        Mode::Reversible,
    ];
    if data_type.starts_with("float") {
        modes.extend([Mode::Accuracy(0.05), Mode::Accuracy(0.0), Mode::Accuracy(1e-310), Mode::Accuracy(3e5)]);
    }
    modes
}

fn codec(mode: Mode, number: usize) -> Value {
    let configuration = match mode {
        Mode::Expert { minbits, maxbits, maxprec, minexp } => {
            json!({"mode": "expert", "minbits": minbits, "maxbits": maxbits, "maxprec": maxprec, "minexp": minexp})
        }
        Mode::Rate(rate) => json!({"mode": "fixed_rate", "rate": rate}),
        Mode::Precision(precision) => json!({"mode": "fixed_precision", "precision": precision}),
        Mode::Accuracy(tolerance) => json!({"mode": "fixed_accuracy", "tolerance": tolerance}),
        Mode::Reversible => json!({"mode": "reversible"}),
    };
    json!({"name": NAMES[number % NAMES.len()], "configuration": configuration})
}

fn codec_with_header(number: usize) -> Value {
    // As numcodecs writes it; the chunk tells which mode it really is.
    let configuration = json!({"mode": 4, "tolerance": -1, "rate": -1, "precision": -1});
    json!({"name": ZFPY_NAMES[number % ZFPY_NAMES.len()], "configuration": configuration})
}

fn recipe(data_type: (&'static str, usize), axes: usize, codec: Value) -> Encoded {
    Encoded {
        data_type: data_type.0,
        item: data_type.1,
        shape: [11, 7, 9, 5][..axes].to_vec(),
        chunk: [5, 3, 8, 2][..axes].to_vec(),
        subchunk: None,
        codecs: vec![codec],
        sealed: false,
    }
}

/// Numbers of a chunk, some of whose blocks are zero: as the library has them, in the first bytes of each word.
#[allow(clippy::cast_precision_loss, reason = "small numbers")]
fn numbers(data_type: &str, count: usize, bits: &mut Bits) -> Vec<u64> {
    let seed = bits.below(5) as f64;
    let wide = |number: i64| number.cast_unsigned();
    let short = |number: i64| u64::from((number as i32).cast_unsigned());
    let number = |at: usize, bits: &mut Bits| {
        let noise = bits.below(200) as i64;
        let smooth = (at as f64 / 7.0 + seed).sin() * 1e4 + noise as f64 / 10.0;
        if seed == 0.0 && at < 40 {
            return 0;
        }
        match data_type {
            "float32" => u64::from((smooth as f32).to_bits()),
            "float64" => smooth.to_bits(),
            "int64" => wide((smooth * 1e9) as i64),
            "uint64" => wide(((smooth + 1e4) * 1e9) as i64),
            "int32" => short((smooth * 1e3) as i64),
            "uint32" => short(((smooth + 1e4) * 1e3) as i64),
            "int8" => short((noise - 100) << 23),
            "uint8" => short((noise - 0x80) << 23),
            "int16" => short((noise * 300 - 30_000) << 15),
            _ => short((noise * 300 - 0x8000) << 15),
        }
    };
    (0..count).map(|at| number(at, bits)).collect()
}

/// Packs numbers of four bytes to eight bytes apart, or of eight, one behind the other; and what such words hold.
fn packed(numbers: &[u64], data_type: &str) -> Vec<u64> {
    if data_type.ends_with("64") {
        return numbers.to_vec();
    }
    let mut words: Vec<u64> = numbers.chunks(2).map(|two| two[0] | two.get(1).map_or(0, |high| high << 32)).collect();
    words.resize(numbers.len(), 0);
    words
}

fn unpacked(words: &[u64], count: usize, data_type: &str) -> Vec<u8> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let ints =
        || bytes.chunks(4).take(count).map(|four| i32::from_le_bytes(four.try_into().expect("four bytes"))).collect();
    match data_type {
        "float64" | "int64" => bytes[..count * 8].to_vec(),
        "float32" | "int32" => bytes[..count * 4].to_vec(),
        "uint64" => words[..count].iter().flat_map(|word| word.cast_signed().max(0).to_ne_bytes()).collect(),
        _ => encoder::demote(ints(), data_type),
    }
}

/// A chunk, and what it decodes to.
fn chunk(recipe: &Encoded, mode: Mode, header: bool, bits: &mut Bits) -> (Vec<u8>, Vec<u8>) {
    let count = recipe.read_chunk().iter().product::<u64>() as usize;
    let words = packed(&numbers(recipe.data_type, count, bits), recipe.data_type);
    let (encoded, decoded) = encoder::encode(&words, recipe.data_type, recipe.read_chunk(), mode, header);
    (encoded, unpacked(&decoded, count, recipe.data_type))
}

#[track_caller]
fn check(recipe: &Encoded, mode: Mode, header: bool, bits: &mut Bits) {
    let (store, padded) = recipe.write(|_| chunk(recipe, mode, header, bits));
    let array = lib::open(&store, PATH).unwrap_or_else(|error| panic!("{recipe:?}: {error}"));
    encoded::check(&array, &padded, bits);
}

#[test]
fn all_modes_types_and_numbers_of_axes() {
    let mut bits = Bits(1);
    for axes in 1..=4 {
        for (number, data_type) in TYPES.into_iter().enumerate() {
            for mode in modes(data_type.0) {
                check(&recipe(data_type, axes, codec(mode, number)), mode, false, &mut bits);
                check(&recipe(data_type, axes, codec_with_header(number)), mode, true, &mut bits);
            }
        }
    }
}

#[test]
fn in_shards_and_with_checksums() {
    let mut bits = Bits(2);
    for (number, data_type) in TYPES.into_iter().enumerate() {
        for mode in modes(data_type.0) {
            for header in [true, false] {
                let codec = if header { codec_with_header(number) } else { codec(mode, number) };
                let sealed = Encoded { sealed: true, ..recipe(data_type, 2, codec) };
                check(&sealed, mode, header, &mut bits);
                check(&Encoded { chunk: vec![10, 6], subchunk: Some(vec![5, 3]), ..sealed }, mode, header, &mut bits);
            }
        }
    }
}

/// Chunks that are a thousand times longer.
#[test]
fn large_chunks() {
    let mut bits = Bits(3);
    for (number, data_type) in [("float32", 4), ("float64", 8), ("uint16", 2)].into_iter().enumerate() {
        for mode in [Mode::Rate(4.0), Mode::Precision(20), Mode::Reversible] {
            let plain = recipe(data_type, 3, codec(mode, number));
            let large = Encoded { shape: vec![50, 70, 90], chunk: vec![50, 33, 61], ..plain };
            check(&large, mode, false, &mut bits);
        }
    }
}

/// `.zarray` with `zfpy` as the compressor, and as the last filter.
#[test]
fn version_2() {
    let zfpy =
        json!({"id": "zfpy", "mode": 4, "tolerance": 0.05, "rate": -1, "precision": -1, "compression_kwargs": {}});
    for (filters, compressor) in [
        (Value::Null, zfpy.clone()),
        (json!([zfpy.clone()]), Value::Null),
        (json!([zfpy.clone()]), json!({"id": "zlib", "level": 1})),
    ] {
        let recipe = recipe(("float64", 8), 2, codec_with_header(0));
        let mut bits = Bits(4);
        let (store, padded) = recipe.write(|_| chunk(&recipe, Mode::Accuracy(0.05), true, &mut bits));
        let document = json!({
            "zarr_format": 2, "shape": recipe.shape, "chunks": recipe.chunk, "dtype": "<f8", "fill_value": 0,
            "order": "C", "filters": filters, "compressor": compressor, "dimension_separator": "/",
        });
        let directory = tempfile::tempdir().expect("directory");
        lib::export(&store, PATH, directory.path());
        std::fs::remove_file(directory.path().join("zarr.json")).expect("removed");
        std::fs::write(directory.path().join(".zarray"), document.to_string()).expect("written");
        for (row, name) in ["0", "1", "2"].into_iter().enumerate() {
            std::fs::rename(directory.path().join("c").join(name), directory.path().join(name)).expect("renamed");
            for column in 0..3 {
                let path = directory.path().join(name).join(column.to_string());
                let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("chunk {row}, {column}: {error}"));
                if !compressor.is_null() && compressor["id"] == "zlib" {
                    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                    std::io::Write::write_all(&mut zlib, &bytes).expect("compressed");
                    std::fs::write(&path, zlib.finish().expect("compressed")).expect("written");
                }
            }
        }
        let array = Array::open_local(directory.path(), ZarrFormat::V2).expect("opened");
        encoded::check(&array, &padded, &mut bits);
    }
    // numcodecs writes no numbers of the other byte order.
    let document = json!({
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": ">f8", "fill_value": 0, "order": "C", "filters": null,
        "compressor": zfpy,
    });
    let directory = tempfile::tempdir().expect("directory");
    std::fs::write(directory.path().join(".zarray"), document.to_string()).expect("written");
    let error = Array::open_local(directory.path(), ZarrFormat::V2).unwrap_err();
    lib::assert_error(&error, ErrorKind::Unsupported);
    assert!(error.to_string().contains("zfpy"), "{error}");
}

#[test]
fn what_zfp_cannot_hold_is_refused() {
    let refused = |shape: &[u64], data_type: &str, codec: Value| {
        let error = lib::empty_array(shape, shape, data_type, &json!([codec])).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Metadata | ErrorKind::Unsupported), "{error}");
        assert!(error.to_string().contains("'zfp"), "{error}");
        assert!(!error.to_string().contains("zarrow.zfp"), "{error}");
    };
    let zfp = |configuration: Value| json!({"name": "zfp", "configuration": configuration});
    refused(&[2; 5], "float32", codec(Mode::Reversible, 0));
    refused(&[2; 5], "float32", codec_with_header(0));
    refused(&[], "float32", codec(Mode::Reversible, 0));
    for data_type in ["float16", "complex64", "bfloat16"] {
        refused(&[2], data_type, codec(Mode::Reversible, 0));
        refused(&[2], data_type, codec_with_header(0));
    }
    refused(&[2], "int32", codec(Mode::Accuracy(0.1), 0));
    for rate in [0.0, -1.0, 0.001, 1e9, 1e300] {
        refused(&[2], "float32", codec(Mode::Rate(rate), 0));
    }
    refused(&[2], "float32", codec(Mode::Accuracy(-1.0), 0));
    let expert = |minbits: u32, maxbits: u32, maxprec: u32, minexp: i32| {
        codec(Mode::Expert { minbits, maxbits, maxprec, minexp }, 0)
    };
    refused(&[2], "float32", expert(9, 8, 4, 0));
    refused(&[2], "float32", expert(1, 8, 0, 0));
    refused(&[2], "float32", expert(1, 8, 65, 0));
    refused(&[2], "float32", expert(1, 8, 64, i32::MIN));
    refused(&[2], "float32", zfp(json!({"mode": "fixed_rate"})));
    refused(&[2], "float32", zfp(json!({"mode": "other"})));
    refused(&[2], "float32", zfp(json!({})));
}

/// One chunk of an array, to be replaced.
struct Target {
    array: Array,
    store: std::sync::Arc<zarrow::zarrs::storage::store::MemoryStore>,
    intact: Vec<u8>,
    key: String,
}

impl Target {
    fn new(recipe: &Encoded, mode: Mode, header: bool) -> Self {
        let mut bits = Bits(5);
        let (store, _) = recipe.write(|_| chunk(recipe, mode, header, &mut bits));
        let key = encoded::key(&vec![0; recipe.shape.len()]);
        let intact = lib::get(&store, &key).to_vec();
        Self { array: lib::open(&store, PATH).expect("opened"), store, intact, key }
    }

    fn fails(&self, bytes: &[u8]) -> bool {
        encoded::fails_with(&self.array, &self.store, &self.key, bytes)
    }
}

fn targets() -> Vec<(Target, bool)> {
    let mut targets = Vec::new();
    for axes in 1..=4 {
        for data_type in [("uint8", 1), ("int32", 4), ("int64", 8), ("float32", 4), ("float64", 8)] {
            for mode in modes(data_type.0) {
                targets.push((Target::new(&recipe(data_type, axes, codec(mode, 0)), mode, false), false));
                targets.push((Target::new(&recipe(data_type, axes, codec_with_header(0)), mode, true), true));
            }
        }
    }
    targets
}

#[test]
fn truncated_and_longer_chunks() {
    let most = lib::config(u32::MAX).cases as usize;
    for (target, _) in targets() {
        let read = |bytes: &[u8]| encoded::read_with(&target.array, &target.store, &target.key, bytes);
        let intact = read(&target.intact).expect("intact");
        let len = target.intact.len();
        for cut in (0..len).step_by((len / most.min(len)).max(1)) {
            if let Some(values) = read(&target.intact[..cut]) {
                // What is missing of the last word may be none of the numbers' bits.
                assert!(cut.div_ceil(8) == len.div_ceil(8) && values == intact, "{cut} of {len}");
            }
        }
        // A library with shorter words writes no more than the bytes that the numbers need.
        let needed = (len - 7..=len).find(|cut| read(&target.intact[..*cut]).is_some()).expect("the whole chunk");
        assert!((needed..len).all(|cut| read(&target.intact[..cut]).is_some()), "{needed} of {len}");
        for more in [8, 16, 1 << 16] {
            assert!(target.fails(&[&target.intact[..], &vec![0; more]].concat()));
            assert!(target.fails(&[&target.intact[..], &vec![0xff; more]].concat()));
        }
    }
}

/// Headers of other types and shapes, and of parameters that ask for more than there is.
#[test]
fn headers_that_lie() {
    let own = recipe(("float32", 4), 2, codec_with_header(0));
    let target = Target::new(&own, Mode::Precision(12), true);
    let other = |data_type: (&'static str, usize), chunk: &[u64], mode: Mode| {
        let recipe = Encoded { chunk: chunk.to_vec(), ..recipe(data_type, chunk.len(), codec_with_header(0)) };
        self::chunk(&recipe, mode, true, &mut Bits(6)).0
    };
    let same = Mode::Precision(12);
    assert!(!target.fails(&other(("float32", 4), &[5, 3], same)));
    // All in one row, as a codec in front of it may leave it.
    assert!(!target.fails(&other(("float32", 4), &[15], same)));
    for chunk in
        [&[3_u64, 5][..], &[5], &[14], &[16], &[5, 4], &[6, 3], &[5, 3, 1], &[1, 15], &[1, 5, 3, 1], &[500, 300]]
    {
        assert!(target.fails(&other(("float32", 4), chunk, same)), "{chunk:?}");
    }
    for data_type in [("float64", 8), ("int32", 4), ("int64", 8)] {
        assert!(target.fails(&other(data_type, &[5, 3], same)), "{data_type:?}");
    }
    // Any mode is the chunk's own affair.
    for mode in modes("float32") {
        assert!(!target.fails(&other(("float32", 4), &[5, 3], mode)), "{mode:?}");
    }
    // The mode stands behind 84 bits; of the 64 of a long one, the first twelve are set.
    let with_mode = |mode: u64| {
        let mut bytes = target.intact.clone();
        bytes.resize(64, 0xff);
        let front = u128::from_le_bytes(bytes[..16].try_into().expect("sixteen bytes")) & ((1 << 84) - 1);
        bytes[..16].copy_from_slice(&(front | u128::from(mode) << 84).to_le_bytes());
        bytes[16..20].copy_from_slice(&((mode >> 44) as u32).to_le_bytes());
        bytes
    };
    let mut bits = Bits(7);
    for mode in (0..4096).chain((0..5000).map(|_| bits.next() | 0xfff)) {
        target.fails(&with_mode(mode));
    }
    let mut lying = target.intact.clone();
    lying[0] ^= 1;
    assert!(target.fails(&lying));
}

/// A chunk of the largest field that a header can hold makes no room for it.
#[test]
fn headers_of_huge_fields() {
    let target = Target::new(&recipe(("float32", 4), 2, codec_with_header(0)), Mode::Reversible, true);
    for meta in 0..16_u64 {
        let mut bytes = target.intact.clone();
        let front = 0x0570_667a | u128::from(((1_u64 << 48) - 1) << 4 | meta) << 32 | 2176 << 84;
        bytes[..12].copy_from_slice(&front.to_le_bytes()[..12]);
        assert!(target.fails(&bytes), "{meta}");
    }
}

#[test]
fn all_bytes_alike() {
    for (target, _) in targets() {
        for byte in [0, 0xff, 0x55, 1, 0x80] {
            for len in [0, 1, 8, target.intact.len(), target.intact.len() * 8] {
                target.fails(&vec![byte; len]);
            }
        }
    }
}

#[test]
fn a_memory_limit_holds_for_what_decoding_takes() {
    let mode = Mode::Reversible;
    let recipe = Encoded { shape: vec![64, 64], chunk: vec![32, 32], ..recipe(("uint8", 1), 2, codec(mode, 0)) };
    let mut bits = Bits(8);
    let (store, padded) = recipe.write(|_| chunk(&recipe, mode, false, &mut bits));
    let array = lib::open(&store, PATH).expect("opened");
    let options = ReadOptions::default().with_memory_limit(Some(1 << 20));
    let ragged = array.read(&Selections::items([[Item::Ellipsis]]), &options).expect("read");
    assert_eq!(value_bytes(ragged.values()), padded.bytes);
}

proptest! {
    #![proptest_config(lib::config(2000))]

    #[test]
    fn damaged_chunks(
        number in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..10),
        random in prop::option::weighted(0.3, prop::collection::vec(any::<u8>(), 0..400)),
    ) {
        thread_local!(static TARGETS: Vec<(Target, bool)> = targets());
        TARGETS.with(|targets| {
            let (target, has_header) = number.get(targets);
            let mut bytes = target.intact.clone();
            for (at, bit) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            if let Some(random) = &random {
                // Behind the header, or all of it.
                let start = if *has_header { 12 } else { 0 };
                bytes.truncate(start);
                bytes.extend(random);
            }
            target.fails(&bytes);
        });
    }
}
