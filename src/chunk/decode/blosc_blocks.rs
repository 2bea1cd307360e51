//! Parts of a blosc buffer: of each block only the streams, and of each stream only the front, that hold wanted bytes.
//!
//! Blocks whose bits are shuffled, and those of compressors that are not here, are left to the C library, whole; where they
//! lie is found here.
//!
//! Source: the c-blosc format, `README_CHUNK_FORMAT.rst`. After the header stand the offsets of the blocks. A block is
//! one stream, or as many as a number has bytes; each is preceded by its length, and stored as it is where that is its
//! decoded length. Shuffled, a block holds the first bytes of all its numbers, then their second bytes, and so on.

use std::ops::Range;

use super::blosc::{HEADER_LEN, Header, lz4};
use super::direct::DirectScratch;
use super::shuffle::unshuffle;
use crate::error::Result;

const SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BIT_SHUFFLED: u8 = 0x04;
const ONE_STREAM: u8 = 0x10;

/// Numbers of more bytes are never split.
const MAX_STREAMS: usize = 16;
/// Nor are blocks of fewer numbers.
const MIN_SPLIT: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Lz4,
    Zlib,
    Zstd,
}

/// The blocks of a blosc buffer.
pub(super) struct Blocks<'a> {
    /// The buffer, or its front, which holds at least the header and the offsets of the blocks.
    bytes: &'a [u8],
    header: Header,
    /// `None` if the C library has to decode them.
    format: Option<Format>,
    stored: bool,
    shuffled: bool,
    /// Where the blocks begin, in this order in the buffer, and where it ends.
    borders: Vec<usize>,
}

impl<'a> Blocks<'a> {
    /// `None` if single blocks cannot be asked for, the header makes no sense, or `bytes` ends before the blocks.
    pub(super) fn new(header: &Header, bytes: &'a [u8]) -> Option<Self> {
        let Header { flags, typesize, decoded_len, block_len, encoded_len } = *header;
        let stored = flags & STORED != 0;
        let format = match flags >> 5 {
            _ if stored => Some(Format::Lz4),
            _ if flags & BIT_SHUFFLED != 0 => None,
            1 => Some(Format::Lz4),
            3 => Some(Format::Zlib),
            4 => Some(Format::Zstd),
            _ => None,
        };
        let whole = block_len > 0 && block_len.is_multiple_of(typesize) && decoded_len.is_multiple_of(typesize);
        if !whole || (stored && encoded_len != HEADER_LEN + decoded_len) {
            return None;
        }
        let mut blocks = Self {
            bytes,
            header: *header,
            format,
            stored,
            shuffled: flags & SHUFFLED != 0 && typesize > 1,
            borders: Vec::new(),
        };
        if !stored {
            let table = bytes.get(HEADER_LEN..blocks.head_len())?;
            let mut borders = table.as_chunks::<4>().0.iter().copied().map(offset).collect::<Option<Vec<_>>>()?;
            borders.push(encoded_len);
            // Blocks that several threads compressed stand in any order.
            borders.sort_unstable();
            if borders[0] < blocks.head_len() || borders[borders.len() - 1] > encoded_len {
                return None;
            }
            blocks.borders = borders;
        }
        Some(blocks)
    }

    /// Length of the header and the offsets of the blocks, in bytes.
    pub(super) fn head_len(&self) -> usize {
        let blocks = if self.stored { 0 } else { self.header.decoded_len.div_ceil(self.header.block_len) };
        HEADER_LEN + blocks * 4
    }

    /// Whether [`decode`](Self::decode) can be asked.
    pub(super) fn are_decoded_here(&self) -> bool {
        self.format.is_some()
    }

    /// Widens `range` to what can be decoded: whole numbers, or whole blocks.
    pub(super) fn widen(&self, range: &Range<usize>) -> Range<usize> {
        let unit = if self.format.is_some() { self.header.typesize } else { self.header.block_len };
        range.start / unit * unit..range.end.next_multiple_of(unit).min(self.header.decoded_len)
    }

    /// Decodes `ranges`, sorted, disjoint and of whole numbers, one after the other into `target`. Returns how many
    /// bytes were decompressed, or `None` if the buffer is corrupt or [not decoded here](Self::are_decoded_here).
    pub(super) fn decode(
        &self,
        ranges: &[Range<usize>],
        target: &mut [u8],
        scratch: &mut DirectScratch,
    ) -> Result<Option<usize>> {
        let mut decompressed = 0;
        let mut at = 0;
        // Ranges of one block, in the block, and where their bytes go.
        let mut parts: Vec<(Range<usize>, usize)> = Vec::new();
        let mut current = usize::MAX;
        for range in ranges {
            let mut start = range.start;
            while start < range.end {
                let block = start / self.header.block_len;
                let end = range.end.min((block + 1) * self.header.block_len);
                if block != current {
                    match self.block(current, &parts, target, scratch)? {
                        Some(bytes) => decompressed += bytes,
                        None => return Ok(None),
                    }
                    parts.clear();
                    current = block;
                }
                let origin = block * self.header.block_len;
                parts.push((start - origin..end - origin, at));
                at += end - start;
                start = end;
            }
        }
        Ok(self.block(current, &parts, target, scratch)?.map(|bytes| decompressed + bytes))
    }

    /// The encoded bytes of the buffer that `ranges` need, besides header and offsets, sorted.
    pub(super) fn encoded_ranges(&self, ranges: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        let mut needed = Vec::new();
        let mut last = None;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            if self.stored {
                needed.push(HEADER_LEN + range.start..HEADER_LEN + range.end);
                continue;
            }
            for block in range.start / self.header.block_len..=(range.end - 1) / self.header.block_len {
                if last.replace(block) != Some(block) {
                    needed.push(self.encoded_block(block)?);
                }
            }
        }
        needed.sort_unstable_by_key(|range| range.start);
        Some(needed)
    }

    /// Where the encoded bytes of a block lie. They end where those of another block begin, or the buffer ends.
    fn encoded_block(&self, block: usize) -> Option<Range<usize>> {
        let entry = self.bytes.get(HEADER_LEN + block * 4..)?.first_chunk::<4>()?;
        let start = offset(*entry)?;
        let end = self.borders.get(self.borders.partition_point(|&border| border <= start))?;
        Some(start..*end)
    }

    /// Decodes parts of one block.
    fn block(
        &self,
        block: usize,
        parts: &[(Range<usize>, usize)],
        target: &mut [u8],
        scratch: &mut DirectScratch,
    ) -> Result<Option<usize>> {
        let Some((last, _)) = parts.last() else { return Ok(Some(0)) };
        let origin = block * self.header.block_len;
        let len = self.header.block_len.min(self.header.decoded_len - origin);
        if self.stored {
            let stored = self.bytes.get(HEADER_LEN + origin..HEADER_LEN + origin + len);
            let Some(stored) = stored else { return Ok(None) };
            copy_parts(stored, parts, target);
            return Ok(Some(parts.iter().map(|(part, _)| part.len()).sum()));
        }
        let encoded = self.encoded_block(block).and_then(|range| self.bytes.get(range));
        let Some(mut rest) = encoded else { return Ok(None) };
        let splits = self.header.flags & ONE_STREAM == 0
            && self.header.typesize <= MAX_STREAMS
            && len / self.header.typesize >= MIN_SPLIT
            && len == self.header.block_len;
        let streams = if splits { self.header.typesize } else { 1 };
        let stream_len = len / streams;
        let numbers = len / self.header.typesize;

        let mut decoded = std::mem::take(&mut scratch.block);
        let bytes = decoded.grow(len)?;

        let mut decompressed = 0;
        let mut sound = true;
        for (stream, bytes) in bytes.chunks_exact_mut(stream_len).enumerate() {
            let front = match (self.shuffled, splits) {
                (true, true) => last.end / self.header.typesize,
                (true, false) => len - numbers + last.end / self.header.typesize,
                (false, _) => front_of(parts, stream * stream_len..(stream + 1) * stream_len),
            };
            let Some((encoded, behind)) = take_stream(rest) else {
                sound = false;
                break;
            };
            rest = behind;
            if front == 0 {
                continue;
            }
            decompressed += front;
            if encoded.len() == stream_len {
                bytes[..front].copy_from_slice(&encoded[..front]);
            } else if !self.decompress(encoded, bytes, front, scratch) {
                sound = false;
                break;
            }
        }
        if sound {
            if self.shuffled {
                for (part, at) in parts {
                    unshuffle(bytes, numbers, self.header.typesize, part, &mut target[*at..*at + part.len()]);
                }
            } else {
                copy_parts(bytes, parts, target);
            }
        }
        scratch.block = decoded;
        Ok(sound.then_some(decompressed))
    }

    /// Decompresses a stream into `target`, at least its first `front` bytes. False if it is corrupt.
    fn decompress(&self, encoded: &[u8], target: &mut [u8], front: usize, scratch: &mut DirectScratch) -> bool {
        let len = target.len();
        match self.format {
            Some(Format::Lz4) => lz4(encoded, target, front),
            Some(Format::Zlib) => scratch.deflate().zlib_decompress(encoded, target) == Ok(len),
            Some(Format::Zstd) => scratch.zstd().decompress(target, encoded) == Ok(len),
            None => false,
        }
    }
}

/// How much of the front of a stream, which holds the bytes `stream` of a block, the parts need.
fn front_of(parts: &[(Range<usize>, usize)], stream: Range<usize>) -> usize {
    let within = parts.iter().rev().find(|(part, _)| part.start < stream.end);
    within.map_or(0, |(part, _)| part.end.min(stream.end).saturating_sub(stream.start))
}

/// One of the offsets of the blocks.
fn offset(entry: [u8; 4]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(entry)).ok()
}

/// Splits the next stream off the encoded bytes of a block.
fn take_stream(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = encoded.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(i32::from_le_bytes(*len)).ok()?)
}

fn copy_parts(block: &[u8], parts: &[(Range<usize>, usize)], target: &mut [u8]) {
    for (part, at) in parts {
        target[*at..*at + part.len()].copy_from_slice(&block[part.clone()]);
    }
}
