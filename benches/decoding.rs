//! Decoding, by the paths that most chunks take. The arrays lie in memory.

mod support;

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use serde_json::{Value, json};
use support::{Spec, boxes, one_thread, windows};
use zarrow::{Array, Selections};

/// Elements of four bytes in a chunk: 1 MiB.
const CHUNK: i64 = 1 << 18;
const CHUNKS: usize = 8;

fn main() {
    let mut criterion = support::criterion();
    zstd(&mut criterion);
    blosc(&mut criterion);
    others(&mut criterion);
    sharded(&mut criterion);
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
    let mut group = criterion.benchmark_group("decoding/blosc lz4");
    let blosc = json!({"name": "blosc", "configuration":
        {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 1 << 16}});
    let line = array(&[bytes("little"), blosc]);
    decode(&mut group, "in place", &line, &whole());
    decode(&mut group, "single blocks", &line, &at(CHUNK / 4));
    group.finish();
}

fn others(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding");
    let gzip = json!({"name": "gzip", "configuration": {"level": 5}});
    decode(&mut group, "gzip", &array(&[bytes("little"), gzip]), &whole());
    let zlib = json!({"name": "numcodecs.zlib", "configuration": {"level": 5}});
    decode(&mut group, "zlib", &array(&[bytes("little"), zlib]), &whole());
    decode(&mut group, "big endian", &array(&[bytes("big")]), &whole());
    decode(&mut group, "crc32c", &array(&[bytes("little"), json!({"name": "crc32c"})]), &whole());

    // A direct path for its codecs, but the copy has to walk in strides.
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let image = Spec::new(&[1024, 2048], &[512, 512], 4).codecs([transpose, bytes("little"), zstd_codec(false)]);
    decode(&mut group, "transposed zstd", &image.written(), &boxes(&[1024, 2048], 1, &[1024..=1024, 2048..=2048]));

    // No direct path: codec by codec.
    let bz2 = json!({"name": "numcodecs.bz2", "configuration": {"level": 1}});
    decode(&mut group, "chain, bz2", &array(&[bytes("little"), bz2]), &whole());
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

fn array(codecs: &[Value]) -> Array {
    Spec::new(&[CHUNKS as u64 * CHUNK as u64], &[CHUNK as u64], 4).codecs(codecs).written()
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
