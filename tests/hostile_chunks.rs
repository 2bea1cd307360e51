//! Damaged chunks, through every path that decodes them: an error that names the chunk, or a result of the right length
//! in which nothing but the damaged chunk is wrong. Never a panic. Where a chunk has more than its values in it, or has
//! them in another form, a result is what zarr-python and numcodecs give.
//!
//! `PROPTEST_CASES` also bounds how many damages of each array are tried, of those whose outcome is known and of the
//! others, for tools under which all runs slowly.

mod common;

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use arrow::array::AsArray;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, ArrayToBytesCodecTraits, CodecOptions, FillValue, data_type};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ElementType, ErrorKind, NarrowFloat, Plan, PlanOptions, Ragged, ReadOptions, Selections};

use crate::common::damage::{self, Damage, Format, Index, Outcome};
use crate::common::naive::{self, Padded, Span};
use crate::common::{self as lib, Bits, bytes_codec, complaint, gzip_codec};

/// The array's node path, and the chunk that is damaged: the one in the middle.
const PATH: &str = "/a";
const CHUNK: &str = "c/1/0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Stored,
    Zstd,
    Deflate,
    Bz2,
    Lz4,
    Shuffle,
    Blosc,
    Shards,
    Cast,
    /// Chunks so large that they are read or decoded in part.
    Large,
}

/// An array of three chunks, one below the other.
#[derive(Clone)]
struct Recipe {
    family: Family,
    codecs: Vec<Value>,
    format: Format,
    element: ElementType,
    /// Shape of a chunk.
    chunk: [u64; 2],
    cast: Cast,
    /// Whether every damage is found out but a forged one, so that a result is an error or right.
    checked: bool,
    /// How many of the damages are tried.
    damages: usize,
    /// Blocks of a blosc buffer that zarrs does not write so small.
    blocks: Option<Blocks>,
}

/// What becomes of elements on their way to the result.
#[derive(Debug, Clone, PartialEq)]
enum Cast {
    Nothing,
    /// Floats that Arrow does not have are widened to float32.
    Widened(NarrowFloat),
    /// Unsigned integers become float64, because another array of the same read is of that type.
    Promoted,
    /// Of structs of two bytes and a number of two bytes, the number alone is read.
    Chosen,
}

/// The blocks of a blosc buffer.
#[derive(Debug, Clone)]
struct Blocks {
    compressor: &'static str,
    typesize: usize,
    /// Decoded length of each block but the last.
    len: usize,
    shuffled: bool,
    /// Whether each byte of the numbers has a stream of its own.
    split: bool,
}

/// What is asked of an array.
struct Ask {
    selections: Selections,
    expected: Vec<u8>,
    /// Bytes of the result that do not come from the damaged chunk.
    sound: Vec<Range<usize>>,
}

/// An array in memory and in a directory, whose middle chunk can be damaged in both.
struct Target {
    recipe: Recipe,
    store: Arc<MemoryStore>,
    arrays: [Array; 2],
    /// Another array, with nothing to read.
    wide: Array,
    locations: [String; 2],
    keys: [String; 2],
    asks: Vec<Ask>,
    intact: Vec<u8>,
    /// Chunks of other arrays, and of another place in this one.
    strangers: Vec<Vec<u8>>,
    directory: tempfile::TempDir,
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element, cast, chunk, blocks, .. } = self;
        let codecs = Value::from(self.codecs.clone());
        write!(f, "{element:?}, cast: {cast:?}, in chunks of {chunk:?}, {codecs}, {blocks:?}")
    }
}

impl Cast {
    /// The elements as a result has them.
    fn apply(&self, stored: Padded) -> Padded {
        let elements = stored.bytes.chunks(stored.item);
        let bytes: Vec<u8> = match self {
            Self::Nothing => return stored,
            // The upper half of a float32.
            Self::Widened(NarrowFloat::BFloat16) => elements.flat_map(|half| [0, 0, half[0], half[1]]).collect(),
            Self::Widened(float) => {
                let values = float.values();
                elements.flat_map(|code| values[usize::from(code[0])].to_le_bytes()).collect()
            }
            Self::Promoted => elements
                .flat_map(|number| {
                    let mut wide = [0; 4];
                    wide[..number.len()].copy_from_slice(number);
                    f64::from(u32::from_le_bytes(wide)).to_le_bytes()
                })
                .collect(),
            Self::Chosen => elements.flat_map(|members| [members[2], members[3]]).collect(),
        };
        let item = bytes.len() * stored.item / stored.bytes.len();
        Padded { shape: stored.shape, item, bytes }
    }

    /// Data type and fill value of the array, where these are not those that zarrs writes.
    fn declared(&self) -> Option<[Value; 2]> {
        match self {
            Self::Nothing | Self::Promoted => None,
            Self::Widened(float) => Some([json!(float.name()), json!(0)]),
            Self::Chosen => {
                let fields = json!([["a", "uint8"], ["b", "uint8"], ["c", "uint16"]]);
                let data_type = json!({"name": "struct", "configuration": {"fields": fields}});
                Some([data_type, json!({"a": 0, "b": 0, "c": 0})])
            }
        }
    }
}

impl Blocks {
    /// A blosc buffer of `decoded`.
    fn encode(&self, decoded: &[u8]) -> Vec<u8> {
        let format = match self.compressor {
            "blosclz" => 0,
            "lz4" | "lz4hc" => 1,
            "snappy" => 2,
            "zlib" => 3,
            _ => 4,
        };
        let flags = format << 5 | if self.split { 0 } else { 0x10 } | u8::from(self.shuffled);
        let blocks = decoded.chunks(self.len);
        let mut starts = Vec::new();
        let mut contents = Vec::new();
        for block in blocks.clone() {
            starts.push((16 + 4 * blocks.len() + contents.len()) as u32);
            let block = if self.shuffled { shuffled(block, self.typesize) } else { block.to_vec() };
            let streams = if self.split && block.len() == self.len { self.typesize } else { 1 };
            for part in block.chunks(block.len() / streams) {
                let stream = stream(self.compressor, part);
                contents.extend_from_slice(&(stream.len() as u32).to_le_bytes());
                contents.extend_from_slice(&stream);
            }
        }
        let encoded_len = 16 + 4 * starts.len() + contents.len();
        let mut encoded = vec![2, 1, flags, self.typesize as u8];
        for number in [decoded.len() as u32, self.len as u32, encoded_len as u32].iter().chain(&starts) {
            encoded.extend_from_slice(&number.to_le_bytes());
        }
        [encoded, contents].concat()
    }
}

/// The first bytes of all numbers, then their second bytes, and so on.
fn shuffled(block: &[u8], typesize: usize) -> Vec<u8> {
    (0..typesize).flat_map(|byte| block.iter().skip(byte).step_by(typesize).copied()).collect()
}

/// What a compressor of blosc makes of `part`, or `part` itself if it cannot be compressed.
fn stream(compressor: &str, part: &[u8]) -> Vec<u8> {
    let chain = lib::codec_chain(&[bytes_codec(), blosc(compressor, "noshuffle", 1, 0)]);
    let shape = [NonZeroU64::new(part.len() as u64).expect("bytes")];
    let (fill, options) = (FillValue::from(0_u8), CodecOptions::default());
    let bytes = ArrayBytes::new_flen(part.to_vec());
    let buffer = chain.encode(bytes, &shape, &data_type::uint8(), &fill, &options).expect("compressed");
    let number = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().expect("four bytes")) as usize;
    if buffer[2] & 2 != 0 {
        return part.to_vec();
    }
    let start = number(16);
    let len = number(start);
    if len < part.len() { buffer[start + 4..start + 4 + len].to_vec() } else { part.to_vec() }
}

impl Recipe {
    fn new(family: Family, format: Format, codecs: &[Value]) -> Self {
        let (element, codecs) = (ElementType::UInt16, codecs.to_vec());
        let (chunk, cast, damages) = ([30, 48], Cast::Nothing, usize::MAX);
        Self { family, codecs, format, element, chunk, cast, checked: false, damages, blocks: None }
    }

    fn large(format: Format, codecs: &[Value]) -> Self {
        Self { chunk: [200, 400], damages: 40, ..Self::new(Family::Large, format, codecs) }
    }

    fn checked(self) -> Self {
        Self { checked: true, ..self }
    }

    fn of(self, element: ElementType) -> Self {
        Self { element, ..self }
    }

    fn cast(self, cast: Cast) -> Self {
        Self { cast, ..self }
    }

    fn some(self, damages: usize) -> Self {
        Self { damages, ..self }
    }

    /// Whether there is nothing around what the format describes that could tell, or hide, that it is wrong.
    fn is_simple(&self) -> bool {
        let simple = ["bytes", "transpose", "crc32c", "numcodecs.shuffle"];
        let is_simple = |codec: &&Value| simple.contains(&codec["name"].as_str().expect("a name"));
        self.codecs.iter().filter(|codec| !is_simple(codec)).count() <= 1
    }

    /// Elements that compress somewhat, and no two chunks alike, as they are stored.
    fn padded(&self) -> Padded {
        let item = self.element.size();
        let shape = [3 * self.chunk[0], self.chunk[1]];
        let mut bits = Bits(item as u64);
        let mut bytes = Vec::new();
        for at in 0..shape[0] * shape[1] {
            let value = if at % 11 == 0 { bits.below(500) } else { at / 9 };
            bytes.extend((0..item).map(|byte| (value >> (byte % 3 * 4)) as u8));
        }
        Padded { shape: shape.to_vec(), item, bytes }
    }

    /// The array, and its elements as a result has them.
    fn write(&self) -> (Arc<MemoryStore>, Padded) {
        let store = Arc::new(MemoryStore::new());
        let padded = self.padded();
        let fill = vec![7; padded.item];
        let (known, behind) = known_to_zarrs(&self.codecs);
        let array = lib::create(&store, PATH, &padded.shape, &self.chunk, &self.element, &fill, &known);
        for (index, bytes) in padded.bytes.chunks(padded.bytes.len() / 3).enumerate() {
            array.store_chunk(&[index as u64, 0], ArrayBytes::new_flen(bytes.to_vec())).expect("chunk");
            let key = format!("a/c/{index}/0");
            if let Some(blocks) = &self.blocks {
                lib::set(&store, &key, blocks.encode(bytes));
            }
            if !behind.is_empty() {
                let stored = lib::get(&store, &key).to_vec();
                let encoded = match &self.format {
                    Format::Shard { index, .. } => index.rebuilt(&stored, |subchunk| behind_lz4(subchunk, &behind)),
                    _ => behind_lz4(&stored, &behind),
                };
                lib::set(&store, &key, encoded);
            }
        }
        let mut metadata: Value = serde_json::from_slice(&lib::get(&store, "a/zarr.json")).expect("JSON");
        if !behind.is_empty() {
            metadata["codecs"] = Value::from(self.codecs.clone());
        }
        if let Some([data_type, fill_value]) = self.cast.declared() {
            metadata["data_type"] = data_type;
            metadata["fill_value"] = fill_value;
        }
        lib::set(&store, "a/zarr.json", metadata.to_string().into_bytes());
        (store, self.cast.apply(padded))
    }

    /// The first chunk.
    fn stranger(&self) -> Vec<u8> {
        lib::get(&self.write().0, "a/c/0/0").to_vec()
    }

    fn asks(&self, padded: &Padded) -> Vec<Ask> {
        let [height, width] = self.chunk.map(|len| len as i64);
        // A few elements in each block of a codec that has blocks; and around the edges of the chunk.
        let step = (height / 25).max(1);
        let mut boxes: Vec<[i64; 4]> = (height..2 * height).step_by(step as usize).map(|y| [y, y + 1, 3, 7]).collect();
        boxes.extend([
            [height - 1, height + 2, 5, 9],
            [2 * height - 1, 2 * height, width - 1, width],
            [1, 3, 0, width],
        ]);
        let lines = |lines: &[[i64; 2]]| lines.iter().map(|[y, end]| [*y, *end, 0, width]).collect::<Vec<_>>();
        let whole = lines(&[[0, 3 * height]]);
        let front = lines(&[[height, height + 1], [height + 1, height + 3], [0, 2]]);
        let all =
            lines(&[[height - 1, 2 * height + 1], [height, 2 * height], [height, height], [height + 1, height + 2]]);
        vec![ask(padded, &whole, false), ask(padded, &boxes, false), ask(padded, &front, true), ask(padded, &all, true)]
    }
}

/// The codecs in front of the first that zarrs does not know, which is lz4, and those from there on; where there are
/// shards, of their subchunks.
fn known_to_zarrs(codecs: &[Value]) -> (Vec<Value>, Vec<Value>) {
    if let [shards] = codecs
        && let Some(inner) = shards["configuration"]["codecs"].as_array()
    {
        let (known, behind) = known_to_zarrs(inner);
        let mut shards = shards.clone();
        shards["configuration"]["codecs"] = Value::from(known);
        return (vec![shards], behind);
    }
    let at = codecs.iter().position(|codec| *codec == lz4()).unwrap_or(codecs.len());
    (codecs[..at].to_vec(), codecs[at..].to_vec())
}

/// What `codecs`, lz4 and checksums, make of `stored`.
fn behind_lz4(stored: &[u8], codecs: &[Value]) -> Vec<u8> {
    let block = stream("lz4", stored);
    assert!(block.len() < stored.len(), "not compressed");
    let mut bytes = [&(stored.len() as u32).to_le_bytes()[..], &block].concat();
    for codec in &codecs[1..] {
        assert_eq!(*codec, crc32c());
        bytes = damage::sealed(bytes);
    }
    bytes
}

/// Boxes of rows and columns, which are whole if the selections are `ranges`.
fn ask(padded: &Padded, rows: &[[i64; 4]], ranges: bool) -> Ask {
    let axes = if ranges { 1 } else { 2 };
    let column = |at: usize| rows.iter().flat_map(|row| (0..axes).map(move |axis| row[2 * axis + at])).collect();
    let (starts, stops): (Vec<i64>, Vec<i64>) = (column(0), column(1));
    let span = |start: i64, stop: i64| (start as u64, stop as u64, true);
    let spans: Vec<Vec<Span>> = rows.iter().map(|&[y, y_end, x, x_end]| vec![span(y, y_end), span(x, x_end)]).collect();
    let elements = padded.bytes.len() / padded.item;
    let damaged = (0..elements).map(|at| u8::from(at / (elements / 3) == 1)).collect();
    let damaged = naive::gather(&Padded { item: 1, bytes: damaged, shape: padded.shape.clone() }, &spans, 2).values;
    let mut sound: Vec<Range<usize>> = Vec::new();
    for at in (0..damaged.len()).filter(|&at| damaged[at] == 0) {
        let bytes = at * padded.item..(at + 1) * padded.item;
        match sound.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => sound.push(bytes),
        }
    }
    let selections = Selections::boxes(axes, starts, stops).expect("boxes");
    Ask { selections, expected: naive::gather(padded, &spans, 2).values, sound }
}

impl Target {
    fn new(recipe: Recipe) -> Self {
        let (store, padded) = recipe.write();
        let directory = tempfile::tempdir().expect("directory");
        lib::export(&store, PATH, directory.path());
        let arrays = [
            lib::open(&store, PATH).unwrap_or_else(|error| panic!("{recipe}: {error}")),
            Array::open_local(directory.path(), None).expect("array in a directory"),
        ];
        let is_chosen = recipe.cast == Cast::Chosen;
        let chosen = |array: Array| if is_chosen { array.with_fields(&["c"]).expect("a field") } else { array };
        let [height, width] = recipe.chunk;
        let plain = [bytes_codec()];
        let with = |codecs: Vec<Value>| Recipe { codecs, blocks: None, ..recipe.clone() };
        let strangers = vec![
            lib::get(&store, "a/c/0/0").to_vec(),
            Recipe { chunk: [2 * height, width], ..recipe.clone() }.stranger(),
            with(plain.to_vec()).stranger(),
            with([&plain[..], &[gzip_codec()]].concat()).stranger(),
            with([&plain[..], &[zstd(false)]].concat()).stranger(),
            with([&plain[..], &[blosc("lz4", "shuffle", 2, 512)]].concat()).stranger(),
        ];
        Self {
            asks: recipe.asks(&padded),
            intact: lib::get(&store, &format!("a/{CHUNK}")).to_vec(),
            keys: [format!("a/{CHUNK}"), CHUNK.to_owned()],
            locations: [PATH.to_owned(), directory.path().display().to_string()],
            recipe,
            store,
            arrays: arrays.map(chosen),
            wide: lib::empty_array(&[1, 1], &[1, 1], "float64", &json!([bytes_codec()])).expect("an array"),
            strangers,
            directory,
        }
    }

    fn put(&self, bytes: &[u8]) {
        lib::set(&self.store, &self.keys[0], bytes.to_vec());
        std::fs::write(self.directory.path().join(CHUNK), bytes).expect("written");
    }

    fn damages(&self) -> Vec<Damage> {
        let mut all = damage::damages(&self.recipe.format, &self.intact);
        let strangers = self.strangers.iter().enumerate();
        all.extend(strangers.map(|(at, bytes)| Damage::forged(format!("stranger {at}"), bytes.clone())));
        if !self.recipe.is_simple() {
            let invalid = all.iter_mut().filter(|damage| damage.outcome == Outcome::Invalid);
            invalid.for_each(|damage| damage.outcome = Outcome::Damaged);
        }
        // Evenly, and not the same for each array: together they try them all. Of those that are precise, as many as of
        // the others.
        let most = self.recipe.damages.min(lib::config(u32::MAX).cases as usize);
        let (precise, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|damage| damage.outcome.is_precise());
        let some = |damages: Vec<Damage>| {
            let step = damages.len().div_ceil(most).max(1);
            let from = Bits(self.intact.len() as u64).below(step as u64) as usize;
            damages.into_iter().skip(from).step_by(step)
        };
        some(precise).chain(some(others)).collect()
    }

    fn read(&self, source: usize, selections: &Selections, threads: usize) -> zarrow::Result<Ragged> {
        let array = &self.arrays[source];
        let options = ReadOptions::default().with_threads(Some(threads));
        if self.recipe.cast != Cast::Promoted {
            return array.read(selections, &options);
        }
        let sources = vec![0; selections.len()];
        let promote = PlanOptions::from(&options).with_promote(true);
        Plan::new(&[array.clone(), self.wide.clone()], Some(&sources), selections, &promote)?.read(&options)
    }

    /// The values of a result, without what is around a chosen field.
    fn values(&self, ragged: &Ragged) -> Vec<u8> {
        match self.recipe.cast {
            Cast::Chosen => naive::value_bytes(ragged.values().as_struct().column(0)),
            _ => naive::value_bytes(ragged.values()),
        }
    }

    /// All that is asked of the array, its chunk damaged, from memory and from the directory.
    fn check(&self, damage: &Damage, threads: usize) {
        self.put(&damage.bytes);
        for source in 0..2 {
            for (at, ask) in self.asks.iter().enumerate() {
                // The first ask is for all of the array.
                if let Some(complaint) = self.complaint(source, ask, at == 0, damage, threads) {
                    let (recipe, place) = (&self.recipe, &self.locations[source]);
                    let Damage { what, bytes, .. } = damage;
                    let bytes = &bytes[..bytes.len().min(200)];
                    panic!("{recipe}\n{what}, ask {at} of {place}, {threads} threads: {complaint}\n{bytes:02x?} ...");
                }
            }
        }
    }

    fn complaint(&self, source: usize, ask: &Ask, is_all: bool, damage: &Damage, threads: usize) -> Option<String> {
        let error = match self.read(source, &ask.selections, threads) {
            Ok(ragged) => {
                let values = self.values(&ragged);
                if values.len() != ask.expected.len() {
                    return Some("a result of another length".to_owned());
                }
                if ask.sound.iter().any(|range| values[range.clone()] != ask.expected[range.clone()]) {
                    return Some("what lies beside the damaged chunk is wrong".to_owned());
                }
                let is_right = values == ask.expected;
                return match damage.outcome {
                    Outcome::Forged => None,
                    Outcome::Damaged if !self.recipe.checked => None,
                    Outcome::Invalid if is_all => Some("no error".to_owned()),
                    _ => (!is_right).then(|| "wrong values".to_owned()),
                };
            }
            Err(error) if damage.outcome == Outcome::Valid => return Some(format!("an error: {error}")),
            Err(error) => error,
        };
        let (location, key, message) = (&self.locations[source], &self.keys[source], error.to_string());
        if !matches!(error.kind(), ErrorKind::Decode | ErrorKind::Store) {
            return Some(format!("{:?}: {message}", error.kind()));
        }
        let named = error.key() == Some(key) && error.array() == Some(location);
        if !named || !message.contains(&format!("array '{location}', key '{key}'")) {
            return Some(format!("an error that does not name array and key: {message}"));
        }
        complaint(&error, error.kind())
    }

    /// The intact array reads as it was written.
    fn check_intact(&self) {
        self.put(&self.intact);
        for source in 0..2 {
            for ask in &self.asks {
                let ragged = self.read(source, &ask.selections, 1);
                let ragged = ragged.unwrap_or_else(|error| panic!("{}: {error}", self.recipe));
                assert!(self.values(&ragged) == ask.expected, "{}", self.recipe);
            }
        }
    }
}

fn crc32c() -> Value {
    json!({"name": "crc32c"})
}

fn zstd(checksum: bool) -> Value {
    json!({"name": "zstd", "configuration": {"level": 1, "checksum": checksum}})
}

fn lz4() -> Value {
    json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}})
}

fn zlib() -> Value {
    json!({"name": "numcodecs.zlib", "configuration": {"level": 1}})
}

fn bz2() -> Value {
    json!({"name": "numcodecs.bz2", "configuration": {"level": 1}})
}

fn shuffle(number: usize) -> Value {
    json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": number}})
}

fn blosc(compressor: &str, shuffle: &str, typesize: usize, blocksize: usize) -> Value {
    json!({"name": "blosc", "configuration":
        {"cname": compressor, "clevel": 5, "shuffle": shuffle, "typesize": typesize, "blocksize": blocksize}})
}

fn big_endian() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "big"}})
}

fn transpose() -> Value {
    json!({"name": "transpose", "configuration": {"order": [1, 0]}})
}

/// Shards of `subchunks` of shape `subchunk`, with a checksum of their index or without.
fn shards(index: Index, subchunk: [u64; 2], format: &Format, inner: &[Value]) -> (Format, Value) {
    let mut index_codecs = vec![bytes_codec()];
    index_codecs.extend(index.sealed.then(crc32c));
    let codec = json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": subchunk,
        "codecs": inner,
        "index_codecs": index_codecs,
        "index_location": if index.at_end { "end" } else { "start" },
    }});
    (Format::Shard { index, subchunk: Box::new(format.clone()) }, codec)
}

fn sealed(format: Format) -> Format {
    Format::Sealed(Box::new(format))
}

fn stored_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Stored, format, codecs);
    vec![
        recipe(Format::Plain, &[bytes_codec()]),
        recipe(Format::Plain, &[big_endian()]).of(ElementType::Float64),
        recipe(Format::Plain, &[transpose(), bytes_codec()]),
        recipe(sealed(Format::Plain), &[bytes_codec(), crc32c()]).checked(),
        recipe(sealed(sealed(Format::Plain)), &[transpose(), big_endian(), crc32c(), crc32c()]).checked(),
    ]
}

fn zstd_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Zstd, format, codecs);
    vec![
        recipe(Format::Zstd, &[bytes_codec(), zstd(false)]),
        recipe(Format::Zstd, &[bytes_codec(), zstd(true)]).checked(),
        recipe(Format::Zstd, &[big_endian(), zstd(false)]).of(ElementType::Int32),
        recipe(Format::Zstd, &[transpose(), bytes_codec(), zstd(false)]).of(ElementType::UInt8),
        recipe(sealed(Format::Zstd), &[bytes_codec(), zstd(false), crc32c()]).checked(),
        recipe(Format::Zstd, &[bytes_codec(), crc32c(), zstd(false)]).checked(),
        // Two compressors have no direct path.
        recipe(Format::Zstd, &[bytes_codec(), gzip_codec(), zstd(false)]).some(100).checked(),
    ]
}

fn lz4_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Lz4, format, codecs);
    vec![
        recipe(Format::Lz4, &[bytes_codec(), lz4()]),
        recipe(Format::Lz4, &[big_endian(), lz4()]).of(ElementType::Int32),
        recipe(Format::Lz4, &[transpose(), bytes_codec(), lz4()]).of(ElementType::UInt8),
        recipe(sealed(Format::Lz4), &[bytes_codec(), lz4(), crc32c()]).checked(),
        recipe(sealed(sealed(Format::Lz4)), &[transpose(), big_endian(), lz4(), crc32c(), crc32c()]).checked(),
    ]
}

fn deflate_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Deflate, format, codecs).checked();
    vec![
        recipe(Format::Gzip, &[bytes_codec(), gzip_codec()]),
        recipe(Format::Gzip, &[transpose(), big_endian(), gzip_codec()]),
        recipe(sealed(Format::Gzip), &[bytes_codec(), gzip_codec(), crc32c()]),
        recipe(Format::Zlib, &[bytes_codec(), zlib()]),
        recipe(Format::Zlib, &[big_endian(), zlib()]).of(ElementType::Complex128),
        recipe(Format::Gzip, &[bytes_codec(), zlib(), gzip_codec()]).some(100),
    ]
}

fn bz2_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Bz2, format, codecs).checked();
    vec![
        recipe(Format::Bz2, &[bytes_codec(), bz2()]),
        recipe(Format::Bz2, &[transpose(), big_endian(), bz2()]),
        recipe(sealed(Format::Bz2), &[bytes_codec(), bz2(), crc32c()]),
        recipe(Format::Bz2, &[bytes_codec(), zlib(), bz2()]).some(100),
    ]
}

fn shuffle_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Shuffle, format, codecs);
    vec![
        recipe(Format::Plain, &[bytes_codec(), shuffle(2)]),
        recipe(sealed(Format::Plain), &[bytes_codec(), shuffle(2), crc32c()]).checked(),
        recipe(Format::Zlib, &[bytes_codec(), shuffle(2), zlib()]).checked(),
        recipe(Format::Zlib, &[big_endian(), shuffle(4), zlib()]).of(ElementType::Int32).checked(),
        recipe(Format::Zstd, &[bytes_codec(), shuffle(8), zstd(false)]).of(ElementType::Float64),
        recipe(Format::Lz4, &[transpose(), bytes_codec(), shuffle(3), lz4()]),
        recipe(Format::Blosc, &[bytes_codec(), shuffle(16), blosc("lz4", "noshuffle", 1, 512)]).some(60),
        recipe(Format::Zlib, &[bytes_codec(), shuffle(2), crc32c(), zlib()]).some(200).checked(),
        // No direct path: what is shuffled is not what the elements are, or not all of it.
        recipe(sealed(Format::Plain), &[bytes_codec(), crc32c(), shuffle(4), crc32c()]).some(100).checked(),
        recipe(Format::Zlib, &[bytes_codec(), shuffle(2), shuffle(3), zlib()]).some(100).checked(),
    ]
}

fn blosc_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Blosc, format, codecs).some(60);
    let written = |compressor: &str, shuffle: &str, typesize: usize, blocksize: usize| {
        recipe(Format::Blosc, &[bytes_codec(), blosc(compressor, shuffle, typesize, blocksize)])
    };
    let split = |compressor: &'static str, shuffled: bool, typesize: usize, split: bool| {
        let blocks = Blocks { compressor, typesize, len: 128 * typesize, shuffled, split };
        let shuffle = if shuffled { "shuffle" } else { "noshuffle" };
        Recipe { blocks: Some(blocks), ..written(compressor, shuffle, typesize, 0) }
    };
    let mut recipes = Vec::new();
    for compressor in ["blosclz", "lz4", "lz4hc", "zlib", "zstd", "snappy"] {
        for shuffle in ["noshuffle", "shuffle", "bitshuffle"] {
            recipes.push(written(compressor, shuffle, 2, 512));
            // Numbers of more than 16 bytes are never split, and their blocks may be small.
            recipes.push(written(compressor, shuffle, 32, 512));
        }
        recipes.push(split(compressor, false, 2, false));
        recipes.push(split(compressor, true, 2, true));
    }
    for (typesize, element) in [
        (1, ElementType::UInt8),
        (3, ElementType::UInt8),
        (4, ElementType::Float32),
        (8, ElementType::Int64),
        (16, ElementType::Complex128),
    ] {
        recipes.push(written("lz4", "bitshuffle", typesize, 512).of(element.clone()));
        recipes.push(split("lz4", true, typesize, true).of(element.clone()));
        recipes.push(split("blosclz", true, typesize, true).of(element.clone()));
        recipes.push(split("zstd", true, typesize, false).of(element.clone()));
    }
    recipes.push(written("blosclz", "shuffle", 255, 0));
    // A few with all damages.
    recipes.push(split("lz4", true, 2, true).some(usize::MAX));
    recipes.push(split("blosclz", false, 2, true).some(usize::MAX));
    recipes.push(written("zstd", "bitshuffle", 2, 512).some(usize::MAX));
    recipes.push(recipe(Format::Blosc, &[big_endian(), blosc("lz4", "shuffle", 2, 512)]));
    let codecs = [transpose(), bytes_codec(), blosc("lz4", "bitshuffle", 2, 512), crc32c()];
    recipes.push(recipe(sealed(Format::Blosc), &codecs).some(200).checked());
    recipes.push(recipe(Format::Blosc, &[bytes_codec(), zstd(false), blosc("lz4", "noshuffle", 1, 0)]));
    recipes
}

fn shard_recipes() -> Vec<Recipe> {
    let recipe = |(format, codec): (Format, Value)| Recipe::new(Family::Shards, format, &[codec]);
    let index = |at_end: bool, sealed: bool| Index { subchunks: 4, at_end, sealed };
    let subchunk = [15, 24];
    let blosc_codecs = [bytes_codec(), blosc("lz4", "shuffle", 2, 256)];
    let nested = shards(Index { subchunks: 2, at_end: false, sealed: true }, [5, 24], &Format::Plain, &[bytes_codec()]);
    let nested = |at_end: bool| shards(index(at_end, true), [10, 24], &nested.0, std::slice::from_ref(&nested.1));
    let nested = |at_end: bool| {
        let (format, codec) = nested(at_end);
        match format {
            // Six subchunks of two subchunks each.
            Format::Shard { index, subchunk } => {
                (Format::Shard { index: Index { subchunks: 6, ..index }, subchunk }, codec)
            }
            other => (other, codec),
        }
    };
    let behind_transpose = shards(index(true, true), [24, 15], &Format::Plain, &[bytes_codec()]);
    vec![
        recipe(shards(index(true, true), subchunk, &Format::Plain, &[bytes_codec()])),
        recipe(shards(index(false, false), subchunk, &Format::Plain, &[big_endian()])),
        recipe(shards(index(true, false), subchunk, &sealed(Format::Plain), &[bytes_codec(), crc32c()])),
        recipe(shards(index(true, true), subchunk, &sealed(Format::Plain), &[bytes_codec(), crc32c()])).checked(),
        recipe(shards(index(false, true), subchunk, &Format::Zstd, &[bytes_codec(), zstd(false)])).some(300),
        recipe(shards(index(true, true), subchunk, &Format::Gzip, &[bytes_codec(), gzip_codec()])).some(300).checked(),
        recipe(shards(index(true, true), subchunk, &Format::Blosc, &blosc_codecs)).some(500),
        // Shards that have to be decoded whole.
        recipe(nested(true)).some(300),
        recipe(nested(false)).some(300),
        Recipe::new(Family::Shards, behind_transpose.0.clone(), &[transpose(), behind_transpose.1.clone()]).some(300),
        Recipe::new(Family::Shards, Format::Gzip, &[transpose(), behind_transpose.1, gzip_codec()]).some(100).checked(),
    ]
}

/// Subchunks of each codec that lies in few shards.
fn other_shard_recipes() -> Vec<Recipe> {
    let recipe = |at_end: bool, format: &Format, inner: &[Value]| {
        let index = Index { subchunks: 4, at_end, sealed: true };
        let (format, codec) = shards(index, [15, 24], format, inner);
        Recipe::new(Family::Shards, format, &[codec]).some(200)
    };
    vec![
        recipe(true, &Format::Zstd, &[transpose(), big_endian(), zstd(true)]).checked(),
        recipe(false, &sealed(Format::Zstd), &[bytes_codec(), zstd(false), crc32c()]).checked(),
        recipe(true, &Format::Gzip, &[bytes_codec(), crc32c(), gzip_codec()]).checked(),
        recipe(false, &sealed(Format::Gzip), &[big_endian(), gzip_codec(), crc32c()])
            .of(ElementType::Float64)
            .checked(),
        recipe(true, &Format::Zlib, &[bytes_codec(), zlib()]).checked(),
        recipe(false, &sealed(Format::Zlib), &[big_endian(), zlib(), crc32c()]).of(ElementType::Int32).checked(),
        recipe(true, &Format::Bz2, &[bytes_codec(), bz2()]).checked(),
        recipe(false, &sealed(Format::Bz2), &[transpose(), bytes_codec(), bz2(), crc32c()]).checked(),
        recipe(true, &Format::Lz4, &[bytes_codec(), lz4()]),
        recipe(false, &Format::Lz4, &[transpose(), big_endian(), lz4()]).of(ElementType::Int64),
        recipe(true, &sealed(Format::Lz4), &[bytes_codec(), lz4(), crc32c()]).checked(),
        recipe(true, &Format::Plain, &[bytes_codec(), shuffle(2)]),
        recipe(false, &sealed(Format::Plain), &[big_endian(), shuffle(4), crc32c()]).of(ElementType::Float32).checked(),
        recipe(true, &Format::Zlib, &[bytes_codec(), shuffle(2), zlib()]).checked(),
        recipe(false, &Format::Gzip, &[bytes_codec(), shuffle(2), gzip_codec()]).checked(),
        recipe(true, &Format::Zstd, &[bytes_codec(), shuffle(2), zstd(false)]),
        recipe(false, &Format::Bz2, &[bytes_codec(), shuffle(8), bz2()]).of(ElementType::Float64).checked(),
        recipe(true, &Format::Lz4, &[bytes_codec(), shuffle(2), lz4()]),
        recipe(false, &Format::Blosc, &[bytes_codec(), shuffle(2), blosc("lz4", "noshuffle", 1, 256)]),
        recipe(true, &Format::Blosc, &[bytes_codec(), blosc("zstd", "bitshuffle", 2, 256)]),
        recipe(false, &Format::Blosc, &[transpose(), big_endian(), blosc("zlib", "shuffle", 2, 256)]),
    ]
}

/// Elements that are not in the result as they are decoded.
fn cast_recipes() -> Vec<Recipe> {
    let recipe = |format: Format, codecs: &[Value]| Recipe::new(Family::Cast, format, codecs).some(40);
    let stored: [(Format, Vec<Value>, bool); 11] = [
        (Format::Plain, vec![bytes_codec()], false),
        (sealed(Format::Plain), vec![bytes_codec(), crc32c()], true),
        (Format::Zstd, vec![bytes_codec(), zstd(false)], false),
        (Format::Zstd, vec![transpose(), bytes_codec(), zstd(true)], true),
        (Format::Gzip, vec![bytes_codec(), gzip_codec()], true),
        (Format::Zlib, vec![bytes_codec(), shuffle(2), zlib()], true),
        (Format::Bz2, vec![transpose(), bytes_codec(), bz2()], true),
        (Format::Lz4, vec![bytes_codec(), lz4()], false),
        (Format::Blosc, vec![bytes_codec(), blosc("lz4", "shuffle", 2, 512)], false),
        (Format::Blosc, vec![bytes_codec(), blosc("zstd", "bitshuffle", 2, 512)], false),
        // No direct path.
        (Format::Gzip, vec![bytes_codec(), zstd(false), gzip_codec()], true),
    ];
    let casts = [
        (Cast::Widened(NarrowFloat::BFloat16), ElementType::UInt16),
        (Cast::Widened(NarrowFloat::Float8E4M3), ElementType::UInt8),
        (Cast::Widened(NarrowFloat::Float8E5M2), ElementType::UInt8),
        (Cast::Promoted, ElementType::UInt16),
        (Cast::Promoted, ElementType::UInt32),
        (Cast::Chosen, ElementType::UInt32),
    ];
    let mut recipes = Vec::new();
    for (cast, element) in casts {
        for (format, codecs, checked) in &stored {
            let recipe = recipe(format.clone(), codecs).of(element.clone()).cast(cast.clone());
            recipes.push(Recipe { checked: *checked, ..recipe });
        }
        // Another order of bytes, which is put right before the cast. In a struct each number has its own.
        if cast != Cast::Chosen {
            recipes.push(recipe(Format::Plain, &[big_endian()]).of(element.clone()).cast(cast.clone()));
            recipes.push(recipe(Format::Zstd, &[big_endian(), zstd(false)]).of(element.clone()).cast(cast.clone()));
        }
        for (format, inner) in [
            (Format::Plain, vec![bytes_codec()]),
            (Format::Zstd, vec![bytes_codec(), zstd(false)]),
            (Format::Gzip, vec![bytes_codec(), gzip_codec()]),
            (Format::Blosc, vec![bytes_codec(), blosc("lz4", "shuffle", 2, 256)]),
        ] {
            let (format, codec) = shards(Index { subchunks: 4, at_end: true, sealed: true }, [15, 24], &format, &inner);
            recipes.push(recipe(format, &[codec]).of(element.clone()).cast(cast.clone()));
        }
    }
    recipes
}

fn large_recipes() -> Vec<Recipe> {
    let index = Index { subchunks: 2, at_end: true, sealed: true };
    let in_shards = |format: &Format, inner: &[Value]| {
        let (format, codec) = shards(index, [200, 400], format, inner);
        Recipe { chunk: [400, 400], ..Recipe::large(format, &[codec]) }
    };
    vec![
        Recipe::large(Format::Plain, &[bytes_codec()]),
        Recipe::large(Format::Plain, &[transpose(), big_endian()]),
        Recipe::large(Format::Zstd, &[bytes_codec(), zstd(false)]).some(100),
        Recipe::large(Format::Zstd, &[transpose(), big_endian(), zstd(false)]),
        Recipe::large(Format::Blosc, &[bytes_codec(), blosc("lz4", "shuffle", 2, 8192)]).some(100),
        Recipe::large(Format::Blosc, &[bytes_codec(), blosc("zstd", "shuffle", 2, 8192)]),
        Recipe::large(Format::Blosc, &[transpose(), bytes_codec(), blosc("zlib", "noshuffle", 2, 8192)]),
        Recipe::large(Format::Blosc, &[bytes_codec(), blosc("blosclz", "bitshuffle", 2, 8192)]),
        in_shards(&Format::Plain, &[bytes_codec()]),
        in_shards(&Format::Zstd, &[bytes_codec(), zstd(false)]),
        in_shards(&Format::Blosc, &[bytes_codec(), blosc("lz4", "noshuffle", 2, 8192)]),
        Recipe::large(Format::Plain, &[bytes_codec()]).cast(Cast::Promoted),
        Recipe::large(Format::Plain, &[big_endian()]).cast(Cast::Widened(NarrowFloat::BFloat16)),
        Recipe::large(Format::Plain, &[bytes_codec()]).of(ElementType::UInt32).cast(Cast::Chosen),
        Recipe::large(Format::Zstd, &[bytes_codec(), zstd(false)]).cast(Cast::Promoted),
        Recipe::large(Format::Zstd, &[bytes_codec(), zstd(false)]).cast(Cast::Widened(NarrowFloat::BFloat16)),
        Recipe::large(Format::Blosc, &[bytes_codec(), blosc("lz4", "shuffle", 2, 8192)]).cast(Cast::Promoted),
        Recipe::large(Format::Blosc, &[bytes_codec(), blosc("zstd", "noshuffle", 2, 8192)])
            .cast(Cast::Widened(NarrowFloat::BFloat16)),
        in_shards(&Format::Zstd, &[bytes_codec(), zstd(false)]).cast(Cast::Promoted),
    ]
}

/// All arrays; whoever damages one holds its lock.
static TARGETS: LazyLock<Vec<Mutex<Target>>> = LazyLock::new(|| {
    let recipes = [
        stored_recipes(),
        zstd_recipes(),
        deflate_recipes(),
        bz2_recipes(),
        lz4_recipes(),
        shuffle_recipes(),
        blosc_recipes(),
        shard_recipes(),
        other_shard_recipes(),
        cast_recipes(),
        large_recipes(),
    ];
    recipes.into_iter().flatten().map(|recipe| Mutex::new(Target::new(recipe))).collect()
});

/// Held by those who read on one thread, and alone by who reads on two: each change of the number makes new threads.
/// Taken before the lock of a target.
static THREADS: RwLock<()> = RwLock::new(());

fn one_thread() -> RwLockReadGuard<'static, ()> {
    THREADS.read().unwrap_or_else(PoisonError::into_inner)
}

fn lock(target: &Mutex<Target>) -> MutexGuard<'_, Target> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries all damages of all arrays of `family`.
fn check(family: Family) {
    for target in &*TARGETS {
        let _one = one_thread();
        let target = lock(target);
        if target.recipe.family == family {
            target.check_intact();
            for damage in target.damages() {
                target.check(&damage, 1);
            }
            target.check_intact();
        }
    }
}

#[test]
fn stored_chunks() {
    check(Family::Stored);
}

#[test]
fn zstd_chunks() {
    check(Family::Zstd);
}

#[test]
fn gzip_and_zlib_chunks() {
    check(Family::Deflate);
}

#[test]
fn bz2_chunks() {
    check(Family::Bz2);
}

#[test]
fn lz4_chunks() {
    check(Family::Lz4);
}

#[test]
fn shuffled_chunks() {
    check(Family::Shuffle);
}

#[test]
fn blosc_chunks() {
    check(Family::Blosc);
}

#[test]
fn shards_and_their_subchunks() {
    check(Family::Shards);
}

#[test]
fn elements_that_are_cast() {
    check(Family::Cast);
}

#[test]
fn chunks_read_in_part() {
    check(Family::Large);
}

/// Some damages of all arrays; the other thread reads what is intact, or sees the error.
#[test]
fn on_two_threads() {
    let _two = THREADS.write().unwrap_or_else(PoisonError::into_inner);
    for target in &*TARGETS {
        let target = lock(target);
        for damage in target.damages().iter().step_by(4) {
            target.check(damage, 2);
        }
    }
}

/// The damages above meet the paths that they are meant for: little is decoded, or read, where little is wanted.
#[test]
fn little_is_decoded_of_large_chunks() {
    for target in &*TARGETS {
        let _one = one_thread();
        let target = lock(target);
        if target.recipe.family != Family::Large {
            continue;
        }
        target.put(&target.intact);
        // From a directory, because only there the length of a value is known beforehand.
        let array = &target.arrays[1];
        let start = target.recipe.chunk[0] as i64;
        let element = Selections::boxes(2, vec![start, 0], vec![start + 1, 1]).expect("box");
        let stats = *target.read(1, &element, 1).expect("intact").stats();
        let all = array.chunk_shape().iter().product::<u64>() * target.recipe.element.size() as u64;
        assert!(stats.bytes_decoded < all, "{}: {stats:?}", target.recipe);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(20), ..lib::config(1500) })]

    #[test]
    fn flipped_bits(
        target in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..5),
        in_front in any::<bool>(),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let _one = one_thread();
        let target = lock(target.get(&TARGETS));
        let mut bytes = target.intact.clone();
        for (at, bit) in &flips {
            // Headers are in front.
            let at = at.index(if in_front { bytes.len().min(64) } else { bytes.len() });
            bytes[at] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        target.check(&Damage::new(format!("{flips:?} flipped"), bytes), 1);
    }
}
