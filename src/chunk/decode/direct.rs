//! The direct path: at most one compressor and checksums, decompressed by one call into its place.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use flate2::read::MultiGzDecoder;
use libdeflater::Decompressor;
use zarrs::array::CodecChain;
use zarrs::array::codec::api::{CodecMetadataOptions, CodecTraits};
use zarrs::array::codec::{BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZlibCodec, ZstdCodec};
use zarrs::metadata::Configuration;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::ZarrVersion;
use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::blosc::{Blosc, Header, lz4};
use super::blosc_blocks::Blocks;
use super::swap::{Stored, Swap};
use super::{Decoded, Extent, Granularity, corrupt, wrong_length};
use crate::error::{Error, Result};
use crate::memory::Scratch;

const CHECKSUM_LEN: usize = 4;

/// A zstd block decodes to at most so many bytes (RFC 8878, section 3.1.1.2.3).
const ZSTD_BLOCK_LEN: usize = 128 << 10;

/// A chain of `bytes`, optional checksums, at most one compressor, and optional checksums.
pub(super) struct Direct {
    compressor: Option<Compressor>,
    /// Checksums around the decoded bytes, inside the compressor.
    inner_checksums: usize,
    /// Checksums around the compressed bytes.
    outer_checksums: usize,
    /// What has to be done for the native byte order.
    swap: Swap,
    decoded_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compressor {
    Zstd,
    Gzip,
    Zlib,
    Blosc,
    /// numcodecs' own frame: the decoded length, and an LZ4 block.
    Lz4,
}

/// Contexts and buffers that one thread reuses from chunk to chunk.
#[derive(Default)]
pub(crate) struct DirectScratch {
    zstd: Option<DCtx<'static>>,
    deflate: Option<Decompressor>,
    decoded: Scratch,
    /// A block before its bytes are put in order.
    pub(super) block: Scratch,
}

impl DirectScratch {
    /// Bytes of the large buffers.
    pub(crate) fn len(&self) -> usize {
        self.decoded.len() + self.block.len()
    }

    /// Frees the large buffers.
    pub(crate) fn clear(&mut self) {
        self.decoded = Scratch::default();
        self.block = Scratch::default();
    }

    pub(super) fn zstd(&mut self) -> &mut DCtx<'static> {
        self.zstd.get_or_insert_with(DCtx::create)
    }

    pub(super) fn deflate(&mut self) -> &mut Decompressor {
        self.deflate.get_or_insert_with(Decompressor::new)
    }
}

impl Direct {
    /// The direct path for `codecs`, and the order in which the stored axes lie where it is not C order. `None` if
    /// there is no direct path for them.
    pub(super) fn new(
        codecs: &CodecChain,
        configurations: Option<&[MetadataV3]>,
        decoded_len: usize,
        stored: &Stored,
    ) -> Option<(Self, Option<Vec<usize>>)> {
        let order = match codecs.array_to_array_codecs() {
            [] => None,
            [only] => Some(transpose_order(only.as_any().downcast_ref::<TransposeCodec>()?)?),
            _ => return None,
        };
        let swap = swap(codecs.array_to_bytes_codec().as_any().downcast_ref::<BytesCodec>()?, stored)?;
        let mut direct = Self { compressor: None, inner_checksums: 0, outer_checksums: 0, swap, decoded_len };
        for codec in codecs.bytes_to_bytes_codecs() {
            let codec = codec.as_any();
            if codec.is::<Crc32cCodec>() {
                if !checksums_are_suffixes(configurations) {
                    return None;
                }
                match direct.compressor {
                    None => direct.inner_checksums += 1,
                    Some(_) => direct.outer_checksums += 1,
                }
                continue;
            }
            let compressor = if codec.is::<ZstdCodec>() {
                Compressor::Zstd
            } else if codec.is::<GzipCodec>() {
                Compressor::Gzip
            } else if codec.is::<ZlibCodec>() {
                Compressor::Zlib
            } else if codec.is::<BloscCodec>() {
                Compressor::Blosc
            } else {
                return None;
            };
            if direct.compressor.replace(compressor).is_some() {
                return None;
            }
        }
        decoded_len.checked_add(direct.inner_checksums * CHECKSUM_LEN)?;
        Some((direct, order))
    }

    /// Takes what was stored as it is for compressed with LZ4, in numcodecs' frame. `false` if it was not.
    pub(super) fn compressed_with_lz4(&mut self) -> bool {
        self.outer_checksums == 0 && self.compressor.replace(Compressor::Lz4).is_none()
    }

    pub(super) fn granularity(&self) -> Granularity {
        match self.compressor {
            _ if self.inner_checksums > 0 => Granularity::Whole,
            None if self.outer_checksums > 0 => Granularity::Whole,
            None => Granularity::Stored,
            Some(Compressor::Zstd) if self.decoded_len > ZSTD_BLOCK_LEN => Granularity::Prefix(ZSTD_BLOCK_LEN),
            // Blocks need not end between two numbers.
            Some(Compressor::Blosc) if self.swap == Swap::None => Granularity::Blocks,
            Some(_) => Granularity::Whole,
        }
    }

    pub(super) fn reads_in_part(&self) -> bool {
        self.granularity() == Granularity::Blocks && self.outer_checksums == 0
    }

    /// Bytes of memory that decoding takes at most beside the encoded bytes.
    pub(super) fn working_len(&self) -> usize {
        let decoded = self.decoded_len + self.inner_checksums * CHECKSUM_LEN;
        match self.compressor {
            // A block before and after its bytes are put in order, and what the library takes, are about as long.
            Some(Compressor::Blosc) => decoded.saturating_mul(2),
            // The encoded bytes are the decoded ones.
            None if self.swap == Swap::None => 0,
            _ => decoded,
        }
    }

    pub(super) fn to_native(&self, bytes: &mut [u8]) {
        self.swap.apply(bytes);
    }

    /// Decodes at least the bytes in `wanted`.
    pub(super) fn decode<'a>(
        &self,
        encoded: &'a [u8],
        wanted: Option<&[Range<usize>]>,
        scratch: &'a mut DirectScratch,
    ) -> Result<Decoded<'a>> {
        let encoded = strip_checksums(encoded, self.outer_checksums)?;
        let Some(compressor) = self.compressor else {
            let stored = strip_checksums(encoded, self.inner_checksums)?;
            if stored.len() != self.decoded_len {
                return Err(wrong_length(stored.len(), self.decoded_len));
            }
            if self.swap == Swap::None {
                return Ok(Decoded::whole(Cow::Borrowed(stored)));
            }
            let decoded = scratch.decoded.grow(stored.len())?;
            decoded.copy_from_slice(stored);
            self.swap.apply(decoded);
            return Ok(Decoded::whole(Cow::Borrowed(decoded)));
        };
        match (wanted, self.granularity()) {
            (Some(wanted), Granularity::Prefix(_)) => {
                let end = wanted.last().map_or(0, |range| range.end);
                if end < self.decoded_len && zstd_prefix_is_sound(encoded, self.decoded_len) {
                    let DirectScratch { zstd, decoded, .. } = scratch;
                    let decoded = decoded.grow(end)?;
                    zstd_prefix(zstd.get_or_insert_with(DCtx::create), encoded, decoded)?;
                    self.swap.apply(decoded);
                    return Ok(Decoded::whole(Cow::Borrowed(decoded)));
                }
            }
            (Some(wanted), Granularity::Blocks) if is_part(wanted, self.decoded_len) => {
                return self.decode_blocks(encoded, wanted, scratch);
            }
            _ => {}
        }
        let len = self.decoded_len + self.inner_checksums * CHECKSUM_LEN;
        // Taken out for the call, because the rest of the scratch is needed with it.
        let mut decoded = std::mem::take(&mut scratch.decoded);
        let outcome = decoded.grow(len).and_then(|target| decompress(compressor, encoded, target, scratch));
        scratch.decoded = decoded;
        outcome?;
        let kept = strip_checksums(scratch.decoded.front(len), self.inner_checksums)?.len();
        let decoded = scratch.decoded.grow(kept)?;
        self.swap.apply(decoded);
        Ok(Decoded::whole(Cow::Borrowed(decoded)))
    }

    /// Decodes the blosc blocks that hold the bytes in `wanted`.
    fn decode_blocks<'a>(
        &self,
        encoded: &[u8],
        wanted: &[Range<usize>],
        scratch: &'a mut DirectScratch,
    ) -> Result<Decoded<'a>> {
        let blosc = Blosc::new(encoded).ok_or_else(lying_header)?;
        if blosc.decoded_len() != self.decoded_len {
            return Err(wrong_length(blosc.decoded_len(), self.decoded_len));
        }
        let blocks = Blocks::new(blosc.header(), encoded);
        let mut extents: Vec<Extent> = Vec::new();
        let mut len = 0;
        for range in wanted.iter().filter(|range| !range.is_empty()) {
            let range = match &blocks {
                Some(blocks) => blocks.widen(range),
                None => blosc.whole_blocks(range.clone()),
            };
            if let Some(last) = extents.last_mut().filter(|last| range.start <= last.source.end) {
                len += range.end.saturating_sub(last.source.end);
                last.source.end = last.source.end.max(range.end);
            } else {
                len += range.len();
                extents.push(Extent { at: len - range.len(), source: range });
            }
        }
        let failed = || reason("blosc failed");
        // Taken out for the call, because the rest of the scratch is needed with it.
        let mut buffer = std::mem::take(&mut scratch.decoded);
        let decoded = buffer.grow(len)?;
        let mut decompressed = len;
        if let Some(blocks) = &blocks {
            let ranges: Vec<_> = extents.iter().map(|extent| extent.source.clone()).collect();
            decompressed = blocks.decode(&ranges, decoded, scratch)?.ok_or_else(failed)?;
        } else {
            for extent in &extents {
                let target = &mut decoded[extent.at..extent.at + extent.source.len()];
                blosc.decode_range(&extent.source, target).ok_or_else(failed)?;
            }
        }
        scratch.decoded = buffer;
        let decoded = scratch.decoded.grow(len)?;
        self.swap.apply(decoded);
        Ok(Decoded { bytes: Cow::Borrowed(decoded), extents, decompressed })
    }

    /// The ranges of the encoded bytes that have to be read to decode the bytes in `wanted`, by the buffer's first bytes
    /// `head` and its length. `None` if it is all of them, or that cannot be told from the head.
    pub(super) fn encoded_ranges(&self, head: &[u8], len: usize, wanted: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        if !is_part(wanted, self.decoded_len) {
            return None;
        }
        let header = Header::new(head).filter(|header| header.encoded_len == len)?;
        let blocks = Blocks::new(&header, head)?;
        let wanted: Vec<_> = wanted.iter().map(|range| blocks.widen(range)).collect();
        let mut ranges = blocks.encoded_ranges(&wanted)?;
        ranges.push(0..blocks.head_len());
        Some(ranges)
    }

    /// Decodes all of a read chunk into `target`.
    pub(super) fn decode_into(&self, encoded: &[u8], target: &mut [u8], scratch: &mut DirectScratch) -> Result<()> {
        match self.compressor {
            Some(compressor) if self.inner_checksums == 0 => {
                let encoded = strip_checksums(encoded, self.outer_checksums)?;
                if target.len() != self.decoded_len {
                    return Err(wrong_length(target.len(), self.decoded_len));
                }
                decompress(compressor, encoded, target, scratch)?;
                self.swap.apply(target);
            }
            _ => {
                let decoded = self.decode(encoded, None, scratch)?;
                if decoded.bytes.len() != target.len() {
                    return Err(wrong_length(decoded.bytes.len(), target.len()));
                }
                target.copy_from_slice(&decoded.bytes);
            }
        }
        Ok(())
    }
}

/// Whether `wanted` is so little of `len` bytes that single blocks are decoded faster than everything.
fn is_part(wanted: &[Range<usize>], len: usize) -> bool {
    wanted.iter().map(Range::len).sum::<usize>() <= len / 2
}

/// Decompresses all of `encoded` into all of `target`.
fn decompress(compressor: Compressor, encoded: &[u8], target: &mut [u8], scratch: &mut DirectScratch) -> Result<()> {
    let len = target.len();
    let decoded = match compressor {
        Compressor::Zstd => {
            scratch.zstd().decompress(target, encoded).map_err(|code| reason(zstd_safe::get_error_name(code)))?
        }
        Compressor::Gzip => {
            let deflate = scratch.deflate();
            match deflate.gzip_decompress(encoded, target) {
                Ok(decoded) if decoded == len && is_one_member(encoded, len) => decoded,
                // Several members are valid gzip too, and anything else behind the first is not.
                _ => gzip_members(encoded, target).map_err(|source| corrupt().source(source))?,
            }
        }
        Compressor::Zlib => {
            let deflate = scratch.deflate();
            deflate.zlib_decompress(encoded, target).map_err(|source| corrupt().source(source))?
        }
        Compressor::Blosc => {
            let blosc = Blosc::new(encoded).ok_or_else(lying_header)?;
            if blosc.decoded_len() == len {
                blosc.decode(target).ok_or_else(|| reason("blosc failed"))?;
            }
            blosc.decoded_len()
        }
        Compressor::Lz4 => {
            let (header, block) = encoded.split_first_chunk::<4>().ok_or_else(corrupt)?;
            let decoded = u32::from_le_bytes(*header) as usize;
            if decoded == len && !lz4(block, target, len) {
                return Err(reason("lz4 failed"));
            }
            decoded
        }
    };
    if decoded != len {
        return Err(wrong_length(decoded, len));
    }
    Ok(())
}

/// Whether a gzip file that starts with a member of `len` bytes ends with it: no other member can start in it, and it
/// ends in the member's length. libdeflate does not tell where it stopped.
///
/// Source: RFC 1952, section 2.3.
fn is_one_member(encoded: &[u8], len: usize) -> bool {
    let member_start = [0x1f, 0x8b, 8];
    let ends_in_len = encoded.last_chunk::<4>() == Some(&(len as u32).to_le_bytes());
    ends_in_len && memchr::memmem::rfind(encoded, &member_start) == Some(0)
}

/// Decompresses a gzip file of any number of members, and returns the decoded length, or more than `target` has where
/// it does not fit.
fn gzip_members(encoded: &[u8], target: &mut [u8]) -> std::io::Result<usize> {
    let mut decoder = MultiGzDecoder::new(encoded);
    let mut len = 0;
    while len < target.len() {
        match decoder.read(&mut target[len..])? {
            0 => return Ok(len),
            read => len += read,
        }
    }
    Ok(len + decoder.read(&mut [0])?)
}

/// Decompresses the first bytes of a zstd stream, as many as `target` has.
fn zstd_prefix(context: &mut DCtx<'static>, encoded: &[u8], target: &mut [u8]) -> Result<()> {
    let failed = |code| reason(zstd_safe::get_error_name(code));
    context.reset(ResetDirective::SessionOnly).map_err(failed)?;
    let len = target.len();
    let mut input = InBuffer::around(encoded);
    let mut output = OutBuffer::around(target);
    while output.pos() < len {
        let before = (input.pos(), output.pos());
        context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        if (input.pos(), output.pos()) == before {
            return Err(wrong_length(before.1, len));
        }
    }
    Ok(())
}

/// Whether a zstd stream may be decoded in part: it is one whole frame, by its block headers, says that it has `len`
/// bytes, and has no checksum that only decoding all of it would check.
///
/// Source: RFC 8878, section 3.1.1.1.1: bit 2 of the frame header descriptor, after the magic number, is the checksum
/// flag.
fn zstd_prefix_is_sound(encoded: &[u8], len: usize) -> bool {
    let has_checksum = encoded.get(4).is_none_or(|descriptor| descriptor & 4 != 0);
    !has_checksum
        && zstd_safe::find_frame_compressed_size(encoded) == Ok(encoded.len())
        && matches!(zstd_safe::get_frame_content_size(encoded), Ok(Some(size)) if size == len as u64)
}

fn lying_header() -> Error {
    reason("the blosc header does not fit the chunk")
}

fn reason(what: &str) -> Error {
    corrupt().source(std::io::Error::other(what.to_owned()))
}

/// Checks and removes `count` checksums, CRC-32C in little-endian order, from the end.
fn strip_checksums(mut bytes: &[u8], count: usize) -> Result<&[u8]> {
    for _ in 0..count {
        let Some((data, checksum)) = bytes.split_last_chunk::<CHECKSUM_LEN>() else {
            return Err(wrong_length(bytes.len(), CHECKSUM_LEN));
        };
        if crc32c::crc32c(data) != u32::from_le_bytes(*checksum) {
            return Err(reason("the checksum is invalid"));
        }
        bytes = data;
    }
    Ok(bytes)
}

fn configuration(codec: &dyn CodecTraits) -> Option<Configuration> {
    codec.configuration(ZarrVersion::V3, &CodecMetadataOptions::default())
}

/// The stored order of axes: the outermost stored axis first.
pub(super) fn transpose_order(codec: &TransposeCodec) -> Option<Vec<usize>> {
    let order = configuration(codec)?.get("order")?.as_array()?.clone();
    order.iter().map(|axis| axis.as_u64().map(|axis| axis as usize)).collect()
}

/// What has to be done for the native byte order; `None` if the codec does not say.
fn swap(codec: &BytesCodec, stored: &Stored) -> Option<Swap> {
    if let Some(swap) = &stored.swap {
        return Some(swap.clone());
    }
    let number = stored.element.number_size();
    if number == 1 {
        return Some(Swap::None);
    }
    let configuration = configuration(codec)?;
    let little = match configuration.get("endian")?.as_str()? {
        "little" => true,
        "big" => false,
        _ => return None,
    };
    Some(if little == cfg!(target_endian = "little") { Swap::None } else { Swap::Numbers(number) })
}

/// Whether CRC-32C checksums stand at the end: numcodecs can write them at the start, and zarrs does not tell.
fn checksums_are_suffixes(configurations: Option<&[MetadataV3]>) -> bool {
    configurations.is_some_and(|configurations| {
        configurations
            .iter()
            .filter(|codec| codec.name().contains("crc32c"))
            .all(|codec| codec.configuration().is_none_or(|configuration| configuration.is_empty()))
    })
}
