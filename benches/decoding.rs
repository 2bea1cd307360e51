//! Decoding, by the paths that most chunks take. The arrays lie in memory.

#[path = "../tests/gdeflate/encoder.rs"]
mod gdeflate;
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
/// Subchunks in a shard, for the most part.
const SUBCHUNKS: usize = 16;
/// Texts in a chunk.
const TEXTS: u64 = 1 << 16;

fn main() {
    let mut criterion = support::criterion();
    zstd(&mut criterion);
    blosc(&mut criterion);
    others(&mut criterion);
    in_part(&mut criterion);
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
    decode(&mut group, "crc32c around", &array(&[bytes("little"), zstd_codec(false), crc32c()]), &whole());
    decode(&mut group, "crc32c inside", &array(&[bytes("little"), crc32c(), zstd_codec(false)]), &whole());
    let small = 1 << 12;
    let line = Spec::new(&[256 * small], &[small], 4).codecs([bytes("little"), zstd_codec(false)]).written();
    decode(&mut group, "small chunks, 16 KiB", &line, &windows(256, small as i64, small as i64));
    group.finish();
}

fn blosc(criterion: &mut Criterion) {
    // The last two are decoded by the C library alone.
    for compressor in ["lz4", "zstd", "zlib", "blosclz", "snappy"] {
        let mut group = criterion.benchmark_group(format!("decoding/blosc {compressor}"));
        let line = array(&[bytes("little"), blosc_codec(compressor, "shuffle", 4, 1 << 16)]);
        decode(&mut group, "in place", &line, &whole());
        decode(&mut group, "single blocks", &line, &at(CHUNK / 4));
        if ["lz4", "zstd"].contains(&compressor) {
            for shuffle in ["bitshuffle", "noshuffle"] {
                let line = array(&[bytes("little"), blosc_codec(compressor, shuffle, 4, 1 << 16)]);
                decode(&mut group, &format!("{shuffle}, in place"), &line, &whole());
                decode(&mut group, &format!("{shuffle}, single blocks"), &line, &at(CHUNK / 4));
            }
            let line = array(&[bytes("big"), blosc_codec(compressor, "shuffle", 4, 1 << 16)]);
            decode(&mut group, "big endian, in place", &line, &whole());
            decode(&mut group, "big endian, single blocks", &line, &at(CHUNK / 4));
        }
        group.finish();
    }
}

fn others(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding");
    decode(&mut group, "gzip", &array(&[bytes("little"), gzip(5)]), &whole());
    let members = line(&[bytes("little")]).rewritten(&[bytes("little"), gzip(5)], two_members);
    decode(&mut group, "gzip of two members", &members, &whole());
    decode(&mut group, "zlib", &array(&[bytes("little"), zlib()]), &whole());
    decode(&mut group, "bz2", &array(&[bytes("little"), bz2()]), &whole());
    let quarter = CHUNK / 4;
    decode(&mut group, "lz4", &lz4_blocks(), &windows(4 * CHUNKS, quarter, quarter));
    decode(&mut group, "shuffle", &array(&[bytes("little"), shuffle()]), &whole());
    decode(&mut group, "shuffle, zlib", &array(&[bytes("little"), shuffle(), zlib()]), &whole());
    decode(&mut group, "shuffle, zstd", &array(&[bytes("little"), shuffle(), zstd_codec(false)]), &whole());
    decode(&mut group, "raw", &array(&[bytes("little")]), &whole());
    decode(&mut group, "big endian", &array(&[bytes("big")]), &whole());
    decode(&mut group, "crc32c", &array(&[bytes("little"), crc32c()]), &whole());

    // A direct path for its codecs, but the copy has to walk in strides.
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let image = Spec::new(&[1024, 2048], &[512, 512], 4).codecs([transpose, bytes("little"), zstd_codec(false)]);
    decode(&mut group, "transposed zstd", &image.written(), &boxes(&[1024, 2048], 1, &[1024..=1024, 2048..=2048]));

    // No direct path: codec by codec.
    let codecs = [bytes("little"), json!({"name": "zarrs.gdeflate", "configuration": {"level": 1}})];
    let pages = line(&[bytes("little")]).rewritten(&codecs, |decoded| gdeflate::encode(decoded, true));
    decode(&mut group, "chain, gdeflate", &pages, &whole());
    let pcodec = json!({"name": "numcodecs.pcodec", "configuration": {"level": 2}});
    decode(&mut group, "chain, pcodec", &array(&[pcodec]), &whole());
    let zstd = [bytes("little"), zstd_codec(false)];
    decode(&mut group, "chain, shards in gzip", &array(&[shards(SUBCHUNKS, &zstd), gzip(1)]), &whole());
    group.finish();
}

/// Little is wanted of chunks that have to be decoded whole, into a buffer that is used again.
fn in_part(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoding/to scratch");
    decode(&mut group, "gzip", &array(&[bytes("little"), gzip(5)]), &at(CHUNK / 4));
    decode(&mut group, "zlib", &array(&[bytes("little"), zlib()]), &at(CHUNK / 4));
    decode(&mut group, "bz2", &array(&[bytes("little"), bz2()]), &at(CHUNK / 4));
    decode(&mut group, "lz4", &lz4_blocks(), &at(CHUNK / 8));
    decode(&mut group, "shuffle", &array(&[bytes("little"), shuffle()]), &at(CHUNK / 4));
    decode(&mut group, "shuffle, zlib", &array(&[bytes("little"), shuffle(), zlib()]), &at(CHUNK / 4));
    decode(&mut group, "big endian", &array(&[bytes("big")]), &at(CHUNK / 4));
    decode(&mut group, "crc32c", &array(&[bytes("little"), crc32c()]), &at(CHUNK / 4));
    group.finish();
}

/// Shards of [`SUBCHUNKS`] subchunks, or of two.
fn sharded(criterion: &mut Criterion) {
    let subchunk = CHUNK / SUBCHUNKS as i64;
    let all = windows(CHUNKS * SUBCHUNKS, subchunk, subchunk);
    let zstd = [bytes("little"), zstd_codec(false)];
    let mut group = criterion.benchmark_group("decoding/sharded zstd");
    let shards_of_zstd = array(&[shards(SUBCHUNKS, &zstd)]);
    decode(&mut group, "all subchunks", &shards_of_zstd, &all);
    decode(&mut group, "one subchunk of each shard", &shards_of_zstd, &at(CHUNK / 4));
    decode(&mut group, "prefix", &array(&[shards(2, &zstd)]), &at(CHUNK / 16));
    group.finish();

    let mut group = criterion.benchmark_group("decoding/sharded");
    let sharded = |codecs: &[Value]| array(&[shards(SUBCHUNKS, codecs)]);
    decode(&mut group, "raw", &sharded(&[bytes("little")]), &all);
    decode(&mut group, "big endian", &sharded(&[bytes("big")]), &all);
    decode(&mut group, "crc32c", &sharded(&[bytes("little"), crc32c()]), &all);
    decode(&mut group, "gzip", &sharded(&[bytes("little"), gzip(5)]), &all);
    decode(&mut group, "zlib", &sharded(&[bytes("little"), zlib()]), &all);
    decode(&mut group, "bz2", &sharded(&[bytes("little"), bz2()]), &all);
    decode(&mut group, "shuffle", &sharded(&[bytes("little"), shuffle()]), &all);
    decode(&mut group, "shuffle, zlib", &sharded(&[bytes("little"), shuffle(), zlib()]), &all);
    let blosc = blosc_codec("lz4", "noshuffle", 1, 4 * subchunk as usize);
    let blocks = line(&[shards(SUBCHUNKS, &[bytes("little"), blosc])]);
    let blocks = blocks.rewritten(&[shards(SUBCHUNKS, &[bytes("little"), lz4()])], shard_of_lz4);
    decode(&mut group, "lz4", &blocks, &all);
    let blosc = sharded(&[bytes("little"), blosc_codec("lz4", "shuffle", 4, 1 << 13)]);
    decode(&mut group, "blosc lz4", &blosc, &all);
    decode(&mut group, "blosc lz4, single blocks", &blosc, &at(CHUNK / 4));
    let blosc = sharded(&[bytes("little"), blosc_codec("zstd", "bitshuffle", 4, 1 << 13)]);
    decode(&mut group, "blosc zstd, bitshuffle", &blosc, &all);
    decode(&mut group, "blosc zstd, bitshuffle, single blocks", &blosc, &at(CHUNK / 4));
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
    let big = open("big", &[bytes("big")]);
    decode(&mut group, "raw, big endian, far apart", &big, &windows(CHUNKS * 12, CHUNK / 12, 1000));
    let raw = open("raw in shards", &[shards(2, &[bytes("little")])]);
    decode(&mut group, "raw in shards, far apart", &raw, &windows(CHUNKS * 12, CHUNK / 12, 1000));
    let blosc = open("blosc", &[bytes("little"), blosc_codec("lz4", "shuffle", 4, 1 << 16)]);
    decode(&mut group, "blosc lz4, one block of each chunk", &blosc, &at(CHUNK / 4));
    let blosc = [bytes("little"), blosc_codec("lz4", "shuffle", 4, 1 << 16)];
    let blosc = open("blosc in shards", &[shards(2, &blosc)]);
    decode(&mut group, "blosc lz4 in shards, one block of each", &blosc, &at(CHUNK / 4));
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

/// Chunks of a quarter of the usual length, of one block of LZ4 each.
fn lz4_blocks() -> Array {
    let quarter = CHUNK / 4;
    let blosc = blosc_codec("lz4", "noshuffle", 1, 4 * quarter as usize);
    let blocks = Spec::new(&[CHUNKS as u64 * CHUNK as u64], &[quarter as u64], 4).codecs([bytes("little"), blosc]);
    blocks.rewritten(&[bytes("little"), lz4()], lz4_of_blosc)
}

/// numcodecs' frame around the only stream of a blosc buffer of one block, of at most 256 KiB: that is a block of LZ4.
fn lz4_of_blosc(buffer: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().expect("four bytes")) as usize;
    let stream = number(16);
    let block = &buffer[stream + 4..stream + 4 + number(stream)];
    assert!(number(4) == number(8) && block.len() < number(4), "not one compressed block");
    [&buffer[4..8], block].concat()
}

/// A shard of [`SUBCHUNKS`] subchunks with what [`lz4_of_blosc`] makes of each.
fn shard_of_lz4(shard: &[u8]) -> Vec<u8> {
    let (contents, index) = shard.split_at(shard.len() - 16 * SUBCHUNKS - 4);
    let (mut new, mut new_index) = (Vec::new(), Vec::new());
    for entry in index[..16 * SUBCHUNKS].chunks(16) {
        let [start, len] = [0, 8].map(|at| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes")));
        let encoded = lz4_of_blosc(&contents[start as usize..(start + len) as usize]);
        new_index.extend([new.len(), encoded.len()].into_iter().flat_map(|number| (number as u64).to_le_bytes()));
        new.extend(encoded);
    }
    let checksum = crc32c::crc32c(&new_index).to_le_bytes();
    [&new[..], &new_index, &checksum].concat()
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

fn gzip(level: u32) -> Value {
    json!({"name": "gzip", "configuration": {"level": level}})
}

fn zlib() -> Value {
    json!({"name": "numcodecs.zlib", "configuration": {"level": 5}})
}

fn bz2() -> Value {
    json!({"name": "numcodecs.bz2", "configuration": {"level": 1}})
}

fn lz4() -> Value {
    json!({"name": "numcodecs.lz4", "configuration": {}})
}

fn shuffle() -> Value {
    json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}})
}

fn crc32c() -> Value {
    json!({"name": "crc32c"})
}

/// Shards of so many subchunks.
fn shards(subchunks: usize, codecs: &[Value]) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [CHUNK as usize / subchunks],
        "codecs": codecs,
        "index_codecs": [bytes("little"), crc32c()],
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
