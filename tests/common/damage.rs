//! Stored chunks that are damaged or lie, format by format.

use std::io::{Read, Write};
use std::ops::Range;

use bzip2::read::BzDecoder;
use bzip2::write::BzEncoder;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use zstd_safe::{CCtx, CParameter};

/// How stored bytes are made up, for damages that know what they do.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    /// Elements as they are.
    Plain,
    Zstd,
    Blosc,
    Gzip,
    Zlib,
    Bz2,
    /// The decoded length, and a block.
    Lz4,
    /// Followed by the CRC-32C of all before it.
    Sealed(Box<Format>),
    Shard {
        index: Index,
        subchunk: Box<Format>,
    },
}

/// Bytes in the place of intact ones.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    pub(crate) what: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) outcome: Outcome,
}

/// What a read of damaged bytes may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An error, or any values: all checksums may be right, although the bytes are not those that were written.
    Forged,
    /// An error, or what was written; any values if no checksum tells.
    Damaged,
    /// An error, or what was written. Other readers give that, because they do not look at what lies behind.
    Same,
    /// What was written: it is there in another form, which other readers take.
    Valid,
    /// An error, as other readers give, at least where all of the chunk is read.
    Invalid,
}

impl Outcome {
    /// Whether it tells more than that bytes are wrong.
    pub(crate) fn is_precise(self) -> bool {
        matches!(self, Self::Same | Self::Valid | Self::Invalid)
    }
}

impl Damage {
    pub(crate) fn new(what: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { what: what.into(), bytes, outcome: Outcome::Damaged }
    }

    pub(crate) fn forged(what: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::new(what, bytes).with(Outcome::Forged)
    }

    fn with(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    fn same(what: &str, bytes: Vec<u8>) -> Self {
        Self::new(what, bytes).with(Outcome::Same)
    }

    fn valid(what: &str, bytes: Vec<u8>) -> Self {
        Self::new(what, bytes).with(Outcome::Valid)
    }

    fn invalid(what: &str, bytes: Vec<u8>) -> Self {
        Self::new(what, bytes).with(Outcome::Invalid)
    }
}

/// Damages of `intact`, which is of `format`.
pub(crate) fn damages(format: &Format, intact: &[u8]) -> Vec<Damage> {
    let mut all = cut_and_longer(format, intact);
    match format {
        Format::Plain => all.extend(set_bytes(intact, 0..6)),
        Format::Zstd => all.extend(zstd_lies(intact)),
        Format::Blosc => all.extend(blosc_lies(intact)),
        Format::Gzip => all.extend(gzip_lies(intact)),
        Format::Zlib => all.extend(zlib_lies(intact)),
        Format::Bz2 => all.extend(bz2_lies(intact)),
        Format::Lz4 => {
            let decoded = number(intact, 0).expect("a length");
            all.extend(set_numbers(intact, "decoded length", 0, [-1, 0, 1, decoded - 1, decoded + 1, MIN, MAX]));
            all.extend(set_bytes(intact, 0..4));
            all.extend(stream_lies(intact, 4..intact.len()));
        }
        Format::Sealed(inner) => {
            let (content, seal) = intact.split_at(intact.len() - SEAL_LEN);
            all.extend(set_bytes(intact, content.len()..content.len() + seal.len()));
            let seal = |lie: Damage| {
                let outcome = if lie.outcome.is_precise() { lie.outcome } else { Outcome::Forged };
                Damage::new(format!("{}, with a fitting checksum", lie.what), sealed(lie.bytes)).with(outcome)
            };
            all.extend(damages(inner, content).into_iter().map(seal));
        }
        Format::Shard { index, subchunk } => {
            all.extend(set_bytes(intact, index.range(intact.len())));
            all.extend(index.lies(intact));
            all.extend(index.damaged_subchunks(intact, subchunk));
        }
    }
    all
}

/// `intact` with `bytes` at `at`, as far as they fit.
fn with(intact: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut damaged = intact.to_vec();
    for (to, byte) in damaged.iter_mut().skip(at).zip(bytes) {
        *to = *byte;
    }
    damaged
}

/// Every length near either end, and some between; and more bytes than there should be.
fn cut_and_longer(format: &Format, intact: &[u8]) -> Vec<Damage> {
    let len = intact.len();
    let mut cuts: Vec<usize> = (0..=40).chain(len.saturating_sub(24)..len).collect();
    cuts.extend([len / 4, len / 2, len / 2 + 1, len / 4 * 3]);
    cuts.retain(|cut| *cut < len);
    cuts.sort_unstable();
    cuts.dedup();
    // The subchunks that are asked for may still be where a shard's index says.
    let is_shard = matches!(format, Format::Shard { .. });
    let invalid = |damage: Damage| if is_shard { damage } else { damage.with(Outcome::Invalid) };
    let cut = |to: usize| invalid(Damage::new(format!("cut from {len} bytes to {to}"), intact[..to].to_vec()));
    let more: [&[u8]; 7] = [&[0], &[0xff], &[0; 4], &[0x1f, 0x8b, 8, 0], &[0; 17], &[0xa5; 1000], intact];
    let longer = |more: &[u8]| {
        let what = format!("{} bytes too many, {:02x?} ...", more.len(), &more[..more.len().min(4)]);
        Damage::new(what, [intact, more].concat()).with(format.longer(more, intact))
    };
    let shifted = invalid(Damage::new("one byte too many in front", [&[0], intact].concat()));
    cuts.into_iter().map(cut).chain(more.into_iter().map(longer)).chain([shifted]).collect()
}

impl Format {
    /// What a read gives if there is `more` behind what is `intact`.
    fn longer(&self, more: &[u8], intact: &[u8]) -> Outcome {
        match self {
            Self::Plain | Self::Zstd | Self::Lz4 | Self::Sealed(_) => Outcome::Invalid,
            // Files may be padded with zeros.
            Self::Gzip if more.iter().any(|&byte| byte != 0) => Outcome::Invalid,
            Self::Bz2 if more == intact => Outcome::Invalid,
            Self::Gzip | Self::Zlib | Self::Bz2 | Self::Blosc => Outcome::Same,
            // It depends on where the index is.
            Self::Shard { .. } => Outcome::Damaged,
        }
    }
}

/// Each byte of `range` set to what overflows most.
fn set_bytes(intact: &[u8], range: Range<usize>) -> Vec<Damage> {
    let range = range.start.min(intact.len())..range.end.min(intact.len());
    let set = |at: usize, byte: u8| Damage::new(format!("byte {at} set to {byte:#04x}"), with(intact, at, &[byte]));
    range.flat_map(|at| [0x00, 0x7f, 0x80, 0xff].map(|byte| set(at, byte))).collect()
}

/// The little-endian numbers at `at`, each in the place of what is there.
fn set_numbers(intact: &[u8], what: &str, at: usize, numbers: impl IntoIterator<Item = i64>) -> Vec<Damage> {
    let set = |number: i64| Damage::new(format!("{what} {number}"), with(intact, at, &(number as i32).to_le_bytes()));
    numbers.into_iter().map(set).collect()
}

fn number(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)))
}

const MAX: i64 = i32::MAX as i64;
const MIN: i64 = i32::MIN as i64;

// Blosc. Source: the c-blosc header format, `README_CHUNK_FORMAT.rst`.

/// So much of a block is one stream at least, where a block is split into streams.
const SPLIT_FROM: i64 = 128;

struct Blosc<'a> {
    bytes: &'a [u8],
    typesize: i64,
    decoded: i64,
    block: i64,
    len: i64,
}

fn blosc_lies(intact: &[u8]) -> Vec<Damage> {
    let [decoded, block] = [4, 8].map(|at| number(intact, at).expect("a header"));
    let blosc = Blosc { bytes: intact, typesize: i64::from(intact[3]), decoded, block, len: intact.len() as i64 };
    let mut lies = set_bytes(intact, 0..16);
    lies.extend(blosc.header_lies());
    // What cannot be compressed is stored as it is, and there are no blocks.
    if intact[2] & 2 == 0 {
        let blocks = (decoded + block - 1) / block.max(1);
        // The first two, and the last, which may be shorter than the others.
        let mut chosen = vec![0, 1, blocks - 1];
        chosen.retain(|index| (0..blocks).contains(index));
        chosen.dedup();
        for index in chosen {
            lies.extend(blosc.block_lies(index, blocks));
        }
    }
    lies
}

impl Blosc<'_> {
    fn header_lies(&self) -> Vec<Damage> {
        let Self { bytes, typesize, decoded, block, len } = *self;
        let mut lies = Vec::new();
        for (what, at, right) in [("nbytes", 4, decoded), ("blocksize", 8, block), ("cbytes", 12, len)] {
            let near = [right - 1, right + 1, right / 2, right * 2, decoded, len, len + 16, typesize, typesize + 1];
            let far = [-1, MIN, MAX, 0, 1, 2, 15, 16, 127, 128, MAX / 3, 1 << 24];
            lies.extend(set_numbers(bytes, what, at, near.into_iter().chain(far)));
        }
        for both in [0, 1, decoded - 1, decoded + 1, 1 << 20, MAX / 3, MAX] {
            let what = format!("nbytes {both}, blocksize");
            lies.extend(set_numbers(&with(bytes, 4, &(both as i32).to_le_bytes()), &what, 8, [both]));
        }
        for other in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 64, 128, 254, 255] {
            let what = format!("typesize {other}, blocksize");
            let blocks = [block, 1, i64::from(other), i64::from(other) - 1, decoded, decoded - 1, block - 1];
            lies.extend(set_numbers(&with(bytes, 3, &[other]), &what, 8, blocks));
        }
        lies.extend((0..=255).map(|flags| Damage::new(format!("flags {flags:#04x}"), with(bytes, 2, &[flags]))));
        lies.extend(self.stored_lies());
        lies
    }

    /// Buffers that say that they are stored as they are, which is true of some.
    fn stored_lies(&self) -> Vec<Damage> {
        let stored = |more: i64, claimed: i64| {
            let mut bytes = with(&self.bytes[..16], 2, &[self.bytes[2] | 2]);
            bytes.resize((16 + self.decoded + more) as usize, 0x5a);
            with(&bytes, 12, &(claimed as i32).to_le_bytes())
        };
        let lie = |[more, claimed]: [i64; 2]| {
            let claimed = 16 + self.decoded + claimed;
            Damage::forged(format!("stored, {more} bytes too many, cbytes {claimed}"), stored(more, claimed))
        };
        [[0, 0], [-1, -1], [1, 1], [-16, -16], [0, 1], [0, -1], [-1, 0]].map(lie).to_vec()
    }

    /// Lies about where a block starts, how long its streams are, and what is in them.
    fn block_lies(&self, index: i64, blocks: i64) -> Vec<Damage> {
        let Self { bytes, typesize, decoded, block, len } = *self;
        let at = 16 + 4 * index as usize;
        let Some(start) = number(bytes, at) else { return Vec::new() };
        let first = 16 + 4 * blocks;
        let mut starts = vec![-1, MIN, MAX, 0, 1, 12, 15, 16, first - 1, first, start - 4, start - 1, start + 1];
        starts.extend([len - 8, len - 5, len - 4, len - 3, len - 1, len, len + 1]);
        starts.extend((0..blocks).filter_map(|other| number(bytes, 16 + 4 * other as usize)));
        let mut lies = set_numbers(bytes, &format!("start of block {index}"), at, starts);

        let block_len = if index == blocks - 1 { decoded - index * block } else { block };
        let split = bytes[2] & 0x10 == 0 && typesize <= 16 && block / typesize >= SPLIT_FROM && block_len == block;
        let streams = if split { typesize } else { 1 };
        let stream_len = block_len / streams;
        let mut at = start;
        for stream in 0..streams {
            let Some(right) = number(bytes, at as usize) else { break };
            let rest = len - at - 4;
            let near = [right - 1, right + 1, rest - 1, rest, rest + 1, stream_len - 1, stream_len, stream_len + 1];
            let what = format!("stream {stream} of block {index}, length");
            lies.extend(set_numbers(bytes, &what, at as usize, near.into_iter().chain([-1, MIN, MAX, 0, 1, 4])));
            let content = (at + 4) as usize..(at + 4 + right) as usize;
            if content.end <= bytes.len() {
                lies.extend(stream_lies(bytes, content));
            }
            at += 4 + right;
        }
        lies
    }
}

/// What an LZ decoder must not follow: literals and matches that are longer than there is, or begin before it.
fn stream_lies(bytes: &[u8], stream: Range<usize>) -> Vec<Damage> {
    let lies: [&[u8]; 9] = [
        // LZ4: a run of literals, or a match, of a length without an end.
        &[0xff; 24],
        &[0x1f, 0x41, 0x01, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        // LZ4: matches 0, 65535 and 2 bytes back, after one literal.
        &[0x10, 0x41, 0x00, 0x00, 0x10, 0x41],
        &[0x10, 0x41, 0xff, 0xff, 0x10, 0x41],
        &[0x1f, 0x41, 0x02, 0x00, 0x00, 0x10, 0x41],
        // BloscLZ: a match after one literal, far back; the same with the longest distance.
        &[0x00, 0x41, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x00, 0x41, 0x3f, 0xfe, 0x00, 0x41, 0x3f, 0xff, 0xff, 0xff],
        // Snappy: a length of 2^32 - 1, and one of 10 with a copy from before the start.
        &[0xff, 0xff, 0xff, 0xff, 0x0f, 0xfc, 0xff, 0xff, 0xff, 0xff],
        &[0x0a, 0x00, 0x41, 0x09, 0xff, 0xfe, 0xff, 0xff],
    ];
    let lie = |lie: &[u8]| {
        let lie = &lie[..lie.len().min(stream.len())];
        Damage::new(format!("bytes {lie:02x?} at {}", stream.start), with(bytes, stream.start, lie))
    };
    // Cut off inside the stream, too, by what its last bytes say.
    let end = set_bytes(bytes, stream.end.saturating_sub(3).max(stream.start)..stream.end);
    lies.into_iter()
        .map(lie)
        .chain(set_bytes(bytes, stream.start..stream.end.min(stream.start + 6)))
        .chain(end)
        .collect()
}

// Zstd. Source: RFC 8878.

fn zstd_lies(intact: &[u8]) -> Vec<Damage> {
    let mut lies = set_bytes(intact, 0..24);
    let descriptor = intact[4];
    lies.extend((0..8).map(|bit| {
        Damage::new(format!("bit {bit} of the descriptor flipped"), with(intact, 4, &[descriptor ^ 1 << bit]))
    }));
    let single_segment = descriptor >> 5 & 1;
    let content_size_at = 5 + usize::from(single_segment == 0) + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size_len = [usize::from(single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
    let mut content_size = [0; 8];
    content_size[..content_size_len].copy_from_slice(&intact[content_size_at..content_size_at + content_size_len]);
    let right = u64::from_le_bytes(content_size);
    for size in
        [0, 1, right.wrapping_sub(1), right.wrapping_add(1), right * 2, 1 << 31, 1 << 47, u64::MAX - 1, u64::MAX]
    {
        let bytes = &size.to_le_bytes()[..content_size_len];
        lies.push(Damage::new(format!("content size {bytes:02x?}"), with(intact, content_size_at, bytes)));
    }
    let checksum_len = usize::from(descriptor >> 2 & 1) * 4;
    let mut at = content_size_at + content_size_len;
    for block in 0..4 {
        let Some(&[a, b, c]) = intact.get(at..at + 3) else { break };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let is_last = header & 1 == 1;
        let (kind, len) = (header >> 1 & 3, header >> 3);
        let rest = (intact.len() - at - 3 - checksum_len) as u32;
        let lens = [0, 1, len.wrapping_sub(1), len + 1, rest, rest + 1, 128 << 10, (128 << 10) + 1, (1 << 21) - 1];
        let headers = (0..4).map(|kind| header & !6 | kind << 1).chain(lens.map(|len| header & 7 | len << 3));
        lies.extend(headers.chain([header ^ 1]).map(|header| {
            let bytes = &header.to_le_bytes()[..3];
            Damage::new(format!("header of block {block} {header:#x}"), with(intact, at, bytes))
        }));
        lies.extend(set_bytes(intact, at + 3..at + 12));
        if is_last {
            break;
        }
        at += 3 + if kind == 1 { 1 } else { len as usize };
    }
    lies.extend(zstd_frames(intact));
    lies
}

/// Frames in the place of one, or beside it.
fn zstd_frames(intact: &[u8]) -> Vec<Damage> {
    let len = zstd_safe::get_frame_content_size(intact).expect("a frame").expect("a length") as usize;
    let mut decoded = vec![0; len];
    zstd_safe::decompress(&mut decoded[..], intact).expect("decoded");
    let [front, back] = halves(&decoded).map(|half| frame(half, &[]));
    let empty = frame(&[], &[]);
    let skipped = |len: u32, content: &[u8]| [&0x184d_2a50_u32.to_le_bytes(), &len.to_le_bytes(), content].concat();
    vec![
        Damage::valid("two frames", [&front[..], &back].concat()),
        Damage::valid("a frame without its length", frame(&decoded, &[CParameter::ContentSizeFlag(false)])),
        Damage::valid("a frame with a checksum", frame(&decoded, &[CParameter::ChecksumFlag(true)])),
        Damage::valid("an empty frame in front", [&empty, intact].concat()),
        Damage::valid("an empty frame behind", [intact, &empty].concat()),
        Damage::valid("a skippable frame in front", [&skipped(3, &[1; 3]), intact].concat()),
        Damage::valid("a skippable frame behind", [intact, &skipped(0, &[])].concat()),
        Damage::invalid("a cut skippable frame behind", [intact, &skipped(u32::MAX, &[1; 9])].concat()),
        Damage::invalid("half an empty frame behind", [intact, &empty[..empty.len() / 2]].concat()),
        Damage::invalid("an empty frame alone", empty),
        Damage::invalid("two frames with bytes between", [&front[..], &[0; 5], &back].concat()),
        Damage::invalid("the first of two frames", front.clone()),
        Damage::invalid("the first of two frames again behind both", [&front[..], &back, &front].concat()),
    ]
}

fn frame(decoded: &[u8], parameters: &[CParameter]) -> Vec<u8> {
    let mut context = CCtx::create();
    for parameter in parameters {
        context.set_parameter(*parameter).expect("a parameter");
    }
    let mut encoded = vec![0; zstd_safe::compress_bound(decoded.len())];
    let len = context.compress2(&mut encoded[..], decoded).expect("compressed");
    encoded.truncate(len);
    encoded
}

/// Two parts, cut within a number.
fn halves(decoded: &[u8]) -> [&[u8]; 2] {
    let (front, back) = decoded.split_at(decoded.len() / 4 * 2 + 1);
    [front, back]
}

fn read_all(mut decoder: impl Read) -> Vec<u8> {
    let mut decoded = Vec::new();
    decoder.read_to_end(&mut decoded).expect("decoded");
    decoded
}

// Gzip. Source: RFC 1952.

fn gzip_lies(intact: &[u8]) -> Vec<Damage> {
    let mut lies = set_bytes(intact, 0..20);
    let end = intact.len();
    lies.extend(set_bytes(intact, end - 8..end - 4));
    let right = number(intact, end - 4).expect("a trailer");
    lies.extend(set_numbers(intact, "length in the trailer", end - 4, [0, 1, right - 1, right + 1, -1, MIN, MAX]));
    // Fields after the header that have no end: extra, name, comment; and a header checksum that is not there.
    for (flag, more) in
        [(4_u8, &[0xff, 0xff][..]), (4, &[0, 0]), (8, b"name\0"), (8, b"name"), (16, b"x\0"), (2, &[1, 2])]
    {
        let header = with(&intact[..10], 3, &[flag]);
        let bytes = [&header, more, &intact[10..]].concat();
        lies.push(Damage::new(format!("flag {flag} with {more:02x?}"), bytes));
    }
    lies.extend(gzip_members(intact));
    lies
}

/// Members in the place of one, or beside it.
fn gzip_members(intact: &[u8]) -> Vec<Damage> {
    let decoded = read_all(GzDecoder::new(intact));
    let [front, back] = halves(&decoded).map(member);
    let empty = member(&[]);
    // What a member would end in.
    let len = [&[0xa5; 9], &intact[intact.len() - 4..]].concat();
    let trailer = [&[0xa5; 9], &intact[intact.len() - 8..]].concat();
    vec![
        Damage::valid("two members", [&front[..], &back].concat()),
        Damage::valid("an empty member behind", [intact, &empty].concat()),
        Damage::valid("an empty member in front", [&empty, intact].concat()),
        Damage::same("two members with zeros between", [&front[..], &[0; 5], &back].concat()),
        Damage::invalid("an empty member alone", empty.clone()),
        Damage::invalid("half an empty member behind", [intact, &empty[..12]].concat()),
        Damage::invalid("two members with bytes between", [&front[..], &[0xa5; 5], &back].concat()),
        Damage::invalid("the first of two members", front.clone()),
        Damage::invalid("the first of two members again behind both", [&front[..], &back, &front].concat()),
        Damage::invalid("the same again behind zeros", [intact, &[0; 9], intact].concat()),
        Damage::invalid("the length again behind more", [intact, &len].concat()),
        Damage::invalid("the trailer again behind more", [intact, &trailer].concat()),
    ]
}

fn member(decoded: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(decoded).expect("encoded");
    encoder.finish().expect("encoded")
}

// Zlib. Source: RFC 1950.

fn zlib_lies(intact: &[u8]) -> Vec<Damage> {
    let decoded = read_all(ZlibDecoder::new(intact));
    let stream = |decoded: &[u8], level: u32| {
        let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
        encoder.write_all(decoded).expect("encoded");
        encoder.finish().expect("encoded")
    };
    let [front, back] = halves(&decoded).map(|half| stream(half, 1));
    let empty = stream(&[], 1);
    let mut lies = set_bytes(intact, 0..12);
    lies.extend(set_bytes(intact, intact.len() - 4..intact.len()));
    lies.extend([
        Damage::valid("a stream of what is not compressed", stream(&decoded, 0)),
        Damage::same("an empty stream behind", [intact, &empty].concat()),
        Damage::same("half an empty stream behind", [intact, &empty[..4]].concat()),
        Damage::invalid("an empty stream in front", [&empty, intact].concat()),
        Damage::invalid("an empty stream alone", empty),
        // A stream is all that there is: nobody looks for another.
        Damage::invalid("two streams", [&front[..], &back].concat()),
        Damage::invalid("the first of two streams", front),
    ]);
    lies
}

// Bzip2: `BZh` and the level; blocks, each of a magic number and its CRC; another magic number and the CRC of all.

fn bz2_lies(intact: &[u8]) -> Vec<Damage> {
    let mut lies = set_bytes(intact, 0..24);
    lies.extend(set_bytes(intact, intact.len() - 11..intact.len()));
    let decoded = read_all(BzDecoder::new(intact));
    let [front, back] = halves(&decoded).map(|half| {
        let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(half).expect("encoded");
        encoder.finish().expect("encoded")
    });
    let empty = [&b"BZh9"[..], &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90, 0, 0, 0, 0]].concat();
    lies.extend([
        Damage::valid("two streams", [&front[..], &back].concat()),
        Damage::valid("an empty stream behind", [intact, &empty].concat()),
        Damage::valid("an empty stream in front", [&empty, intact].concat()),
        Damage::same("what is no stream behind", [intact, &b"BZh9"[..], &[0xa5; 20]].concat()),
        Damage::invalid("an empty stream alone", empty.clone()),
        Damage::invalid("half an empty stream behind", [intact, &empty[..7]].concat()),
        Damage::invalid("two streams with bytes between", [&front[..], &[0; 5], &back].concat()),
        Damage::invalid("the first of two streams", front.clone()),
        Damage::invalid("the first of two streams again behind both", [&front[..], &back, &front].concat()),
    ]);
    lies
}

// Checksums and shards.

const SEAL_LEN: usize = 4;

/// `bytes` with their CRC32C behind them.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The index of a shard: offset and length of each subchunk, little-endian.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index {
    pub(crate) subchunks: usize,
    pub(crate) at_end: bool,
    /// Whether a checksum follows.
    pub(crate) sealed: bool,
}

impl Index {
    fn len(self) -> usize {
        self.subchunks * 16 + if self.sealed { SEAL_LEN } else { 0 }
    }

    fn range(self, shard: usize) -> Range<usize> {
        if self.at_end { shard - self.len()..shard } else { 0..self.len() }
    }

    fn decode(self, shard: &[u8]) -> Vec<[u64; 2]> {
        let index = &shard[self.range(shard.len())][..self.subchunks * 16];
        let numbers: Vec<u64> = index.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        numbers.as_chunks().0.to_vec()
    }

    fn encode(self, entries: &[[u64; 2]]) -> Vec<u8> {
        let bytes = entries.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        if self.sealed { sealed(bytes) } else { bytes }
    }

    /// An index with a fitting checksum that says where a subchunk cannot be, or where another or the index is.
    fn lies(self, shard: &[u8]) -> Vec<Damage> {
        let entries = self.decode(shard);
        let len = shard.len() as u64;
        let index = self.range(shard.len());
        let (index_start, index_len) = (index.start as u64, index.len() as u64);
        let mut lies = Vec::new();
        for at in [0, 1, self.subchunks - 1] {
            let [start, length] = entries[at];
            let mut wrong = vec![
                [len, 0],
                [len, 1],
                [len + 1, 0],
                [0, len],
                [0, len + 1],
                [0, 1 << 62],
                [1 << 62, 16],
                [1 << 63, 1 << 63],
                [u64::MAX - 3, 8],
                [8, u64::MAX - 3],
                [u64::MAX - 1, u64::MAX - 1],
                [u64::MAX - length, length],
                [i64::MAX as u64, length],
                [0, 0],
                [u64::MAX, 8],
                [8, u64::MAX],
                [u64::MAX, 0],
                [0, u64::MAX],
                [u64::MAX, u64::MAX],
                [index_start, index_len],
                [index_start.saturating_sub(4), 8],
                [(index_start + index_len).saturating_sub(length), length],
                [index_start, length],
                [start, length - 1],
                [start, length + 1],
                [start, length / 2],
                [start, length * 2],
                [start + 1, length],
                [start + 1, length - 1],
                [start.saturating_sub(1), length],
            ];
            wrong.extend(entries.iter().filter(|other| **other != entries[at]));
            for entry in wrong {
                let mut entries = entries.clone();
                entries[at] = entry;
                let bytes = with(shard, index.start, &self.encode(&entries));
                lies.push(Damage::forged(format!("subchunk {at} at {entry:?}"), bytes));
            }
        }
        let none = with(shard, index.start, &self.encode(&vec![[u64::MAX; 2]; self.subchunks]));
        lies.push(Damage::forged("no subchunk at all", none));
        lies
    }

    /// Well built shards of which one subchunk is damaged.
    fn damaged_subchunks(self, shard: &[u8], format: &Format) -> Vec<Damage> {
        let entries = self.decode(shard);
        let subchunks: Vec<&[u8]> =
            entries.iter().map(|[start, len]| &shard[*start as usize..(start + len) as usize]).collect();
        let at = self.subchunks / 2;
        let damaged = |damage: Damage| {
            let mut subchunks = subchunks.clone();
            subchunks[at] = &damage.bytes;
            let what = format!("in subchunk {at}: {}", damage.what);
            Damage::new(what, self.build(&subchunks)).with(damage.outcome)
        };
        damages(format, subchunks[at]).into_iter().map(damaged).collect()
    }

    /// The same shard with what `change` makes of each subchunk.
    pub(crate) fn rebuilt(self, shard: &[u8], change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let entries = self.decode(shard).into_iter();
        let changed = entries.map(|[start, len]| change(&shard[start as usize..(start + len) as usize]));
        self.build(&changed.collect::<Vec<_>>().iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn build(self, subchunks: &[&[u8]]) -> Vec<u8> {
        let mut start = if self.at_end { 0 } else { self.len() as u64 };
        let mut entries = Vec::new();
        for subchunk in subchunks {
            entries.push([start, subchunk.len() as u64]);
            start += subchunk.len() as u64;
        }
        let (index, contents) = (self.encode(&entries), subchunks.concat());
        if self.at_end { [contents, index].concat() } else { [index, contents].concat() }
    }
}
