//! Arbitrary small arrays: data type, shape, chunks, shards, codecs, fill value, contents, missing chunks.

use std::fmt;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zarrow::ElementType;
use zarrow::zarrs::array::{Array as ZarrsArray, ArrayBytes, CodecOptions};
use zarrow::zarrs::storage::store::MemoryStore;

use super::naive::{self, Padded};
use super::{Bits, ELEMENTS, bytes_codec, create, gzip_codec};

/// An array to write and to read.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<u64>,
    /// Shape of what one key holds.
    pub(crate) chunk: Vec<u64>,
    /// Shape of what decodes alone.
    pub(crate) read_chunk: Vec<u64>,
    pub(crate) sharded: bool,
    pub(crate) codecs: Vec<Value>,
    pub(crate) contents: Contents,
    /// Whether chunks that are all fill value are written nevertheless.
    pub(crate) store_empty: bool,
}

/// What the chunks hold.
#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) fill: Vec<u8>,
    pub(crate) seed: u64,
    /// Few different small values, which compress, instead of arbitrary bits.
    pub(crate) small: bool,
    /// How many in a hundred of the smallest units of encoding are all fill value.
    pub(crate) missing: u64,
    /// The smallest unit of encoding.
    pub(crate) unit: Vec<u64>,
}

/// On a few lines: a case that fails is to be read by people.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element, shape, chunk, read_chunk, sharded, codecs, contents, store_empty } = self;
        writeln!(f, "{element:?} {shape:?} in chunks {chunk:?}, read chunks {read_chunk:?}, sharded: {sharded}")?;
        writeln!(f, "    codecs {}", Value::from(codecs.clone()))?;
        write!(f, "    {contents:?}, empty chunks stored: {store_empty}")
    }
}

pub(crate) const PATH: &str = "/group/array";

impl Case {
    /// Creates the array through zarrs at [`PATH`], without chunks.
    pub(crate) fn create(&self, store: &Arc<MemoryStore>) -> ZarrsArray<MemoryStore> {
        create(store, PATH, &self.shape, &self.chunk, &self.element, &self.contents.fill, &self.codecs)
    }

    /// Whether the store holds the box of `shape` at `index` of the array in memory: it must hold anything but fill
    /// value, unless empty chunks are stored.
    pub(crate) fn stores(&self, padded: &Padded, index: &[u64], shape: &[u64]) -> bool {
        let fill = &self.contents.fill[..];
        self.store_empty || chunk_bytes(padded, index, shape).chunks_exact(fill.len()).any(|element| element != fill)
    }

    /// Writes the array through zarrs at [`PATH`], and returns its naive twin.
    pub(crate) fn write(&self) -> (Arc<MemoryStore>, Padded) {
        let store = Arc::new(MemoryStore::new());
        let array = self.create(&store);
        let padded = self.contents.padded(&self.element, &self.shape, &self.chunk);
        let options = CodecOptions::default().with_store_empty_chunks(self.store_empty);
        for index in naive::coordinates(&naive::grid(&self.shape, &self.chunk)) {
            let bytes = ArrayBytes::new_flen(chunk_bytes(&padded, &index, &self.chunk));
            array.store_chunk_opt(&index, bytes, &options).expect("chunk");
        }
        (store, padded)
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fill, seed, small, missing, unit } = self;
        write!(f, "fill {fill:?}, seed {seed}, small: {small}, {missing} of 100 missing in units {unit:?}")
    }
}

impl Contents {
    pub(crate) fn padded(&self, element: &ElementType, shape: &[u64], chunk: &[u64]) -> Padded {
        let shape: Vec<u64> = shape.iter().zip(chunk).map(|(len, chunk)| len.next_multiple_of(*chunk)).collect();
        let item = element.size();
        let mut bits = Bits(self.seed);
        let mut bytes = Vec::new();
        naive::for_each(&shape, |at| {
            let unit = at.iter().zip(&self.unit).fold(self.seed, |hash, (at, unit)| Bits(hash ^ (at / unit)).next());
            if Bits(unit).below(100) < self.missing {
                bytes.extend_from_slice(&self.fill);
            } else if element == &ElementType::Bool {
                bytes.push(u8::from(bits.next() > u64::MAX / 3));
            } else if self.small {
                let small = bits.below(4) as u8;
                bytes.extend((0..item).map(|at| if at == 0 { small } else { 0 }));
            } else {
                let random = u128::from(bits.next()) << 64 | u128::from(bits.next());
                bytes.extend_from_slice(&random.to_ne_bytes()[..item]);
            }
        });
        Padded { shape, item, bytes }
    }
}

/// The elements of the chunk at `index`, in C order.
pub(crate) fn chunk_bytes(padded: &Padded, index: &[u64], chunk: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut element = vec![0; chunk.len()];
    naive::for_each(chunk, |at| {
        for (axis, element) in element.iter_mut().enumerate() {
            *element = index[axis] * chunk[axis] + at[axis];
        }
        bytes.extend_from_slice(padded.element(&element));
    });
    bytes
}

/// Longest axis by rank, so that arrays stay small.
pub(crate) const LONGEST: [u64; 7] = [1, 48, 14, 7, 5, 3, 3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layers {
    Chunks,
    Shards,
    Nested,
    ShardsBehindTranspose,
    ShardsBehindCompressor,
}

/// Length, unit, units in a subchunk, subchunks in a shard.
type Axis = (u64, u64, u64, u64);

pub(crate) fn case() -> impl Strategy<Value = Case> {
    (select(&ELEMENTS[..]), 0_usize..LONGEST.len()).prop_flat_map(|(element, rank)| case_of(element, rank))
}

/// An array of so many axes.
pub(crate) fn case_of(element: ElementType, rank: usize) -> impl Strategy<Value = Case> {
    let layers = select(vec![
        Layers::Chunks,
        Layers::Chunks,
        Layers::Shards,
        Layers::Shards,
        Layers::Nested,
        Layers::ShardsBehindTranspose,
        Layers::ShardsBehindCompressor,
    ]);
    layers.prop_flat_map(move |layers| {
        let longest = LONGEST[rank];
        let axes = prop::collection::vec((0..=longest, 1..=longest + 2, 1_u64..4, 1_u64..3), rank);
        let chains = (chain(element.clone(), rank), chain(element.clone(), rank));
        let element = element.clone();
        (axes, chains, 0_u8..6, permutation(rank), contents(&element), any::<bool>()).prop_map(
            move |(axes, (inner, outer), index, order, contents, store_empty)| {
                build(element.clone(), layers, axes, &inner, &outer, index, &order, contents, store_empty)
            },
        )
    })
}

/// Arrays of a few chunks that are large enough to be fetched and decoded in part.
pub(crate) fn large_case() -> impl Strategy<Value = Case> {
    let elements = vec![
        ElementType::Bool,
        ElementType::UInt8,
        ElementType::Int16,
        ElementType::Float32,
        ElementType::UInt64,
        ElementType::Complex128,
    ];
    (select(elements), 1_usize..4).prop_flat_map(|(element, rank)| {
        // Up to 2^21 bytes.
        let longest = [0, 1 << 17, 360, 50][rank].min(if element.size() > 8 { 1 << 16 } else { u64::MAX });
        let axes = prop::collection::vec((longest / 4..=longest, 1_u64..4, 1_u64..4), rank);
        (axes, large_chain(&element, rank), any::<bool>(), 0_u8..6, contents(&element)).prop_map(
            move |(axes, chain, sharded, index, mut contents)| {
                let shape: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
                let read_chunk: Vec<u64> = axes.iter().map(|(len, parts, _)| len.div_ceil(*parts)).collect();
                let chunk = if sharded {
                    axes.iter().zip(&read_chunk).map(|((_, _, times), read_chunk)| read_chunk * times).collect()
                } else {
                    read_chunk.clone()
                };
                contents.unit = read_chunk.iter().map(|len| len.div_ceil(2)).collect();
                // zarrs 0.23 does not write shards of zlib streams that are longer than their contents.
                contents.small |= sharded && chain.iter().any(|codec| codec["name"] == "numcodecs.zlib");
                let codecs = if sharded { vec![sharding(&read_chunk, &chain, index)] } else { chain };
                let element = element.clone();
                Case { element, shape, chunk, read_chunk, sharded, codecs, contents, store_empty: false }
            },
        )
    })
}

/// A codec chain of those that can be decoded in part, or not quite.
fn large_chain(element: &ElementType, rank: usize) -> impl Strategy<Value = Vec<Value>> + use<> {
    let order = prop_oneof![3 => Just(None), 1 => permutation(rank).prop_map(Some)];
    let blosc = (
        select(vec![1, 2, 3, 4, 8, 255]),
        select(vec!["noshuffle", "shuffle", "bitshuffle"]),
        select(vec![0, 1000, 4096]),
    );
    let blosc = blosc.prop_map(|(typesize, shuffle, blocksize)| {
        json!({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": shuffle,
            "typesize": typesize, "blocksize": blocksize}})
    });
    let compressor = prop_oneof![
        2 => Just(None),
        2 => any::<bool>().prop_map(|checksum| {
            Some(json!({"name": "zstd", "configuration": {"level": 1, "checksum": checksum}}))
        }),
        3 => blosc.prop_map(Some),
        1 => Just(Some(gzip_codec())),
        1 => Just(Some(json!({"name": "numcodecs.zlib", "configuration": {"level": 1}}))),
        1 => Just(Some(json!({"name": "numcodecs.bz2", "configuration": {"level": 1}}))),
    ];
    let shuffled = prop::bool::weighted(0.15);
    let checksums = (prop::bool::weighted(0.15), prop::bool::weighted(0.15));
    let size = element.size();
    (order, any::<bool>(), shuffled, compressor, checksums).prop_map(
        move |(order, big, shuffled, compressor, (inner, outer))| {
            let shuffle = json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": size}});
            let checksum = |wanted: bool| wanted.then(|| json!({"name": "crc32c"}));
            let endian = if big && size > 1 { "big" } else { "little" };
            let serializer = json!({"name": "bytes", "configuration": {"endian": endian}});
            let transposed = order.map(|order| transpose(&order));
            [transposed, Some(serializer), shuffled.then_some(shuffle), checksum(inner), compressor, checksum(outer)]
                .into_iter()
                .flatten()
                .collect()
        },
    )
}

#[allow(clippy::too_many_arguments, reason = "one argument for each choice")]
fn build(
    element: ElementType,
    layers: Layers,
    mut axes: Vec<Axis>,
    inner: &[Value],
    outer: &[Value],
    index: u8,
    order: &[usize],
    mut contents: Contents,
    store_empty: bool,
) -> Case {
    keep_small(&mut axes, layers);
    let shape: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
    let unit: Vec<u64> = axes.iter().map(|axis| axis.1).collect();
    let subchunk: Vec<u64> = axes.iter().map(|axis| axis.1 * axis.2).collect();
    let shard: Vec<u64> = axes.iter().map(|axis| axis.1 * axis.2 * axis.3).collect();
    contents.unit.clone_from(&unit);
    let identity: Vec<usize> = (0..axes.len()).collect();
    let (chunk, read_chunk, codecs) = match layers {
        Layers::Chunks => (unit.clone(), unit, inner.to_vec()),
        Layers::Shards => (subchunk, unit.clone(), vec![sharding(&unit, inner, index)]),
        Layers::Nested => {
            // The subchunks are shards themselves, perhaps transposed or compressed as a whole.
            let innermost: Vec<u64> = transposition(outer).unwrap_or(identity).iter().map(|&axis| unit[axis]).collect();
            let nested = around(outer, sharding(&innermost, inner, index / 2));
            (shard, subchunk.clone(), vec![sharding(&subchunk, &nested, index)])
        }
        Layers::ShardsBehindTranspose if order.is_empty() => {
            (subchunk, unit.clone(), vec![sharding(&unit, inner, index)])
        }
        Layers::ShardsBehindTranspose => {
            let transposed: Vec<u64> = order.iter().map(|&axis| unit[axis]).collect();
            let codecs = vec![transpose(order), sharding(&transposed, inner, index)];
            (subchunk.clone(), subchunk, codecs)
        }
        Layers::ShardsBehindCompressor => {
            (subchunk.clone(), subchunk, vec![sharding(&unit, inner, index), gzip_codec()])
        }
    };
    let sharded = match layers {
        Layers::Shards | Layers::Nested => true,
        Layers::ShardsBehindTranspose => order.is_empty(),
        Layers::Chunks | Layers::ShardsBehindCompressor => false,
    };
    Case { element, shape, chunk, read_chunk, sharded, codecs, contents, store_empty }
}

/// Bounds the elements of a chunk and the number of chunks: the cases shall be many, not large.
fn keep_small(axes: &mut [Axis], layers: Layers) {
    if layers == Layers::Chunks {
        for axis in &mut *axes {
            axis.2 = 1;
        }
    }
    if layers != Layers::Nested {
        for axis in &mut *axes {
            axis.3 = 1;
        }
    }
    let chunk_len = |axis: &Axis| axis.1 * axis.2 * axis.3;
    while axes.iter().map(chunk_len).product::<u64>() > 2048 {
        let longest = axes.iter_mut().max_by_key(|axis| chunk_len(axis)).expect("an axis");
        *longest = if longest.2 * longest.3 > 1 { (longest.0, longest.1, 1, 1) } else { (longest.0, 1, 1, 1) };
    }
    let chunks = |axis: &Axis| axis.0.div_ceil(chunk_len(axis));
    while axes.iter().map(chunks).product::<u64>() > 64 {
        let most = axes.iter_mut().max_by_key(|axis| chunks(axis)).expect("an axis");
        most.1 += 1;
    }
}

fn contents(element: &ElementType) -> impl Strategy<Value = Contents> + use<> {
    let fill = prop_oneof![Just([0; 16]), any::<[u8; 16]>(), any::<u8>().prop_map(|byte| [byte; 16])];
    let missing = select(vec![0, 20, 60, 100]);
    let element = element.clone();
    (fill, any::<u64>(), any::<bool>(), missing).prop_map(move |(fill, seed, small, missing)| {
        let mut fill = fill[..element.size()].to_vec();
        if element == ElementType::Bool {
            fill[0] &= 1;
        }
        Contents { fill, seed, small, missing, unit: Vec::new() }
    })
}

fn permutation(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..rank).collect::<Vec<_>>()).prop_shuffle()
}

/// A codec chain without sharding.
fn chain(element: ElementType, rank: usize) -> impl Strategy<Value = Vec<Value>> {
    let compressors = prop_oneof![
        2 => Just(Vec::new()),
        3 => (0_u8..6).prop_map(|compressor| vec![compressor]),
        1 => prop::collection::vec(0_u8..6, 2),
    ];
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let order = prop_oneof![3 => Just(None), 1 => Just(Some(reversed)), 2 => permutation(rank).prop_map(Some)];
    (order, 0_u8..5, compressors).prop_map(move |(order, serializer, compressors)| {
        let order = order.filter(|order| !order.is_empty());
        let mut codecs: Vec<Value> = order.map(|order| transpose(&order)).into_iter().collect();
        codecs.push(match serializer {
            2 => json!({"name": "bytes", "configuration": {"endian": "big"}}),
            3 if element.size() == 1 => json!({"name": "bytes"}),
            4 if element.size() > 1 => json!({"name": "numcodecs.pcodec", "configuration": {"level": 2}}),
            _ => bytes_codec(),
        });
        codecs.extend(compressors.iter().map(|compressor| match compressor {
            0 => json!({"name": "zstd", "configuration": {"level": 1, "checksum": element.size() == 2}}),
            1 => blosc(&element),
            2 => gzip_codec(),
            3 => json!({"name": "numcodecs.zlib", "configuration": {"level": 1}}),
            4 => json!({"name": "numcodecs.bz2", "configuration": {"level": 1}}),
            _ => json!({"name": "crc32c"}),
        }));
        codecs
    })
}

fn blosc(element: &ElementType) -> Value {
    let (compressor, shuffle) = match element.size() {
        1 => ("lz4", "noshuffle"),
        2 => ("zstd", "shuffle"),
        4 => ("blosclz", "bitshuffle"),
        _ => ("zlib", "shuffle"),
    };
    json!({"name": "blosc", "configuration": {
        "cname": compressor, "clevel": 5, "shuffle": shuffle, "typesize": element.size(), "blocksize": 0,
    }})
}

fn transpose(order: &[usize]) -> Value {
    json!({"name": "transpose", "configuration": {"order": order}})
}

/// The order of a chain's transpose codec, if it begins with one.
fn transposition(chain: &[Value]) -> Option<Vec<usize>> {
    let order = chain.first()?.pointer("/configuration/order")?.as_array()?;
    Some(order.iter().map(|axis| axis.as_u64().expect("an axis") as usize).collect())
}

/// The chain `outer` with `serializer` in place of its codec from array to bytes.
fn around(outer: &[Value], serializer: Value) -> Vec<Value> {
    let at = usize::from(transposition(outer).is_some());
    let mut codecs = outer.to_vec();
    codecs[at] = serializer;
    codecs
}

/// A sharding codec with one of six kinds of index: at either end; little-endian, big-endian, without a checksum.
fn sharding(subchunk: &[u64], inner: &[Value], index: u8) -> Value {
    let index_codecs = match index / 2 {
        0 => json!([bytes_codec(), {"name": "crc32c"}]),
        1 => json!([{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]),
        _ => json!([bytes_codec()]),
    };
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": subchunk,
        "codecs": inner,
        "index_codecs": index_codecs,
        "index_location": if index.is_multiple_of(2) { "end" } else { "start" },
    }})
}
