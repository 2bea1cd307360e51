//! Decoding, by the paths that most chunks take. The arrays lie in memory.

mod support;

use std::hint::black_box;
use std::io::Write;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use support::{Spec, boxes, one_thread, windows};
use zarrow::{Array, Selections};

/// Elements of four bytes in a chunk: 1 MiB.
const CHUNK: i64 = 1 << 18;
const CHUNKS: usize = 8;
/// Texts in a chunk.
const TEXTS: u64 = 1 << 16;

fn main() {
    let mut criterion = support::criterion();
    zstd(&mut criterion);
    blosc(&mut criterion);
    others(&mut criterion);
    sharded(&mut criterion);
    text(&mut criterion);
    files(&mut criterion);
    criterion.final_summary();
}

fn zstd(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding/zstd");
    let line = array(&[bytes("little"), zstd_codec(false)]);
    decode(&mut group, "in place", &line, &whole());
    decode(&mut group, "to scratch", &line, &at(CHUNK - 1000));
    decode(&mut group, "prefix", &line, &at(CHUNK / 4));
    let checked = array(&[bytes("little"), zstd_codec(true)]);
    decode(&mut group, "with checksum", &checked, &whole());
    decode(&mut group, "with checksum, no prefix", &checked, &at(CHUNK / 4));
    decode(&mut group, "big endian", &array(&[bytes("big"), zstd_codec(false)]), &whole());
    let small = 1 << 12;
    let line = Spec::new(&[256 * small], &[small], 4).codecs([bytes("little"), zstd_codec(false)]).written();
    decode(&mut group, "small chunks, 16 KiB", &line, &windows(256, small as i64, small as i64));
    group.finish();
}

fn blosc(criterion: &mut Criterion) {
    for compressor in ["lz4", "zstd", "zlib"] {
        let mut group = criterion.benchmark_group(format!("decoding/blosc {compressor}"));
        let line = array(&[bytes("little"), blosc_codec(compressor, "shuffle", 4, 1 << 16)]);
        decode(&mut group, "in place", &line, &whole());
        decode(&mut group, "single blocks", &line, &at(CHUNK / 4));
        group.finish();
    }
}

fn others(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding");
    let gzip = json!({"name": "gzip", "configuration": {"level": 5}});
    decode(&mut group, "gzip", &array(&[bytes("little"), gzip]), &whole());
    let members =
        line(&[bytes("little")]).rewritten(&json!({"name": "gzip", "configuration": {"level": 5}}), two_members);
    decode(&mut group, "gzip of two members", &members, &whole());
    let zlib = json!({"name": "numcodecs.zlib", "configuration": {"level": 5}});
    decode(&mut group, "zlib", &array(&[bytes("little"), zlib.clone()]), &whole());
    let bz2 = json!({"name": "numcodecs.bz2", "configuration": {"level": 1}});
    decode(&mut group, "bz2", &array(&[bytes("little"), bz2]), &whole());
    // One blosc block of one stream, of at most 256 KiB, is a block of LZ4.
    let quarter = CHUNK / 4;
    let blosc = blosc_codec("lz4", "noshuffle", 1, 4 * quarter as usize);
    let blocks = Spec::new(&[CHUNKS as u64 * CHUNK as u64], &[quarter as u64], 4).codecs([bytes("little"), blosc]);
    let lz4 = json!({"name": "numcodecs.lz4", "configuration": {}});
    let blocks = blocks.rewritten(&lz4, lz4_of_blosc);
    decode(&mut group, "lz4", &blocks, &windows(4 * CHUNKS, quarter, quarter));
    let shuffle = json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}});
    decode(&mut group, "shuffle", &array(&[bytes("little"), shuffle.clone()]), &whole());
    decode(&mut group, "shuffle, zlib", &array(&[bytes("little"), shuffle, zlib]), &whole());
    decode(&mut group, "big endian", &array(&[bytes("big")]), &whole());
    decode(&mut group, "crc32c", &array(&[bytes("little"), json!({"name": "crc32c"})]), &whole());

    // A direct path for its codecs, but the copy has to walk in strides.
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let image = Spec::new(&[1024, 2048], &[512, 512], 4).codecs([transpose, bytes("little"), zstd_codec(false)]);
    decode(&mut group, "transposed zstd", &image.written(), &boxes(&[1024, 2048], 1, &[1024..=1024, 2048..=2048]));

    // No direct path: codec by codec.
    let pcodec = json!({"name": "numcodecs.pcodec", "configuration": {"level": 2}});
    decode(&mut group, "chain, pcodec", &array(&[pcodec]), &whole());
    let gzip = json!({"name": "gzip", "configuration": {"level": 1}});
    decode(&mut group, "chain, shards in gzip", &array(&[shards(), gzip]), &whole());
    group.finish();
}

/// Shards of sixteen subchunks.
fn sharded(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding/sharded zstd");
    let line = array(&[shards()]);
    decode(&mut group, "all subchunks", &line, &windows(CHUNKS * 16, CHUNK / 16, CHUNK / 16));
    decode(&mut group, "one subchunk of each shard", &line, &at(CHUNK / 4));
    group.finish();
}

/// Values of variable length, which become cells.
fn text(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding/text");
    let utf8 = json!({"name": "vlen-utf8"});
    decode(&mut group, "vlen-utf8", &support::text(CHUNKS as u64, TEXTS, std::slice::from_ref(&utf8)), &texts());
    decode(&mut group, "vlen-utf8, zstd", &support::text(CHUNKS as u64, TEXTS, &[utf8, zstd_codec(false)]), &texts());
    group.finish();
}

/// Of files, only what is wanted is read.
fn files(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding/files");
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str, codecs: &[Value]| line(codecs).in_files(&folder.path().join(name));
    let raw = open("raw", &[bytes("little")]);
    decode(&mut group, "raw, far apart", &raw, &windows(CHUNKS * 12, CHUNK / 12, 1000));
    decode(&mut group, "raw, gaps read over", &raw, &windows(CHUNKS * 100, CHUNK / 100, 1000));
    decode(&mut group, "raw, whole chunks", &raw, &whole());
    let blosc = open("blosc", &[bytes("little"), blosc_codec("lz4", "shuffle", 4, 1 << 16)]);
    decode(&mut group, "blosc lz4, one block of each chunk", &blosc, &at(CHUNK / 4));
    group.finish();
}

fn line(codecs: &[Value]) -> Spec {
    Spec::new(&[CHUNKS as u64 * CHUNK as u64], &[CHUNK as u64], 4).codecs(codecs)
}

fn array(codecs: &[Value]) -> Array {
    line(codecs).written()
}

/// Two gzip members, one behind the other.
fn two_members(decoded: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for half in decoded.chunks(decoded.len() / 2) {
        let mut member = GzEncoder::new(&mut encoded, Compression::new(5));
        member.write_all(half).expect("written");
        member.finish().expect("written");
    }
    encoded
}

/// numcodecs' frame around the only stream of a blosc buffer.
fn lz4_of_blosc(buffer: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().expect("four bytes")) as usize;
    let stream = number(16);
    let block = &buffer[stream + 4..stream + 4 + number(stream)];
    assert!(number(4) == number(8) && block.len() < number(4), "not one compressed block");
    [&buffer[4..8], block].concat()
}

/// Each chunk of text as one selection.
fn texts() -> Selections {
    windows(CHUNKS, TEXTS as i64, TEXTS as i64)
}

/// Each chunk as one selection: it can be decoded into its place in the result.
fn whole() -> Selections {
    windows(CHUNKS, CHUNK, CHUNK)
}

/// A thousand elements of each chunk, from `at` on.
fn at(at: i64) -> Selections {
    let starts: Vec<i64> = (0..CHUNKS as i64).map(|chunk| chunk * CHUNK + at).collect();
    let stops: Vec<i64> = starts.iter().map(|start| start + 1000).collect();
    Selections::ranges(starts, stops).expect("ranges")
}

fn blosc_codec(compressor: &str, shuffle: &str, typesize: usize, blocksize: usize) -> Value {
    json!({"name": "blosc", "configuration":
        {"cname": compressor, "clevel": 5, "shuffle": shuffle, "typesize": typesize, "blocksize": blocksize}})
}

fn bytes(endian: &str) -> Value {
    json!({"name": "bytes", "configuration": {"endian": endian}})
}

fn zstd_codec(checksum: bool) -> Value {
    json!({"name": "zstd", "configuration": {"level": 3, "checksum": checksum}})
}

fn shards() -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [CHUNK / 16],
        "codecs": [bytes("little"), zstd_codec(false)],
        "index_codecs": [bytes("little"), {"name": "crc32c"}],
    }})
}

/// The throughput is in decoded bytes, which may be more than the result has, and fewer than its chunks have.
fn decode(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, array: &Array, selections: &Selections) {
    let options = one_thread();
    let bytes = array.read(selections, &options).expect("a result").stats().bytes_decoded;
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function(name, |bencher| {
        bencher.iter(|| array.read(black_box(selections), &options).expect("a result"));
    });
}
