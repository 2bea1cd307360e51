//! The direct path: at most one compressor, a shuffle and checksums, decompressed by one call into its place.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use libdeflater::Decompressor;
use zarrs::array::CodecChain;
use zarrs::array::codec::api::{CodecMetadataOptions, CodecTraits};
use zarrs::array::codec::{
    BloscCodec, BytesCodec, Bz2Codec, Crc32cCodec, GzipCodec, ShuffleCodec, TransposeCodec, ZlibCodec, ZstdCodec,
};
use zarrs::metadata::Configuration;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::ZarrVersion;
use zstd_safe::DCtx;

use super::blosc::{Blosc, Header, lz4};
use super::blosc_blocks::Blocks;
use super::shuffle::unshuffle;
use super::swap::{Stored, Swap};
use super::zstd_front;
use super::{Decoded, Extent, Granularity, corrupt, wrong_length};
use crate::error::{Error, Result};
use crate::memory::Scratch;

const CHECKSUM_LEN: usize = 4;

/// What decoding bzip2 takes at most: 100,000 bytes, and 4 for each of a block's 900,000 (its manual, section 2.5).
const BZ2_STATE_LEN: usize = 3_700_000;

/// A chain of `bytes`, optional checksums, at most one compressor, and optional checksums. Numbers may be shuffled
/// inside of all of these.
pub(super) struct Direct {
    compressor: Option<Compressor>,
    /// Bytes of each of the numbers that are shuffled, 1 where none are.
    shuffled: usize,
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
    Bz2,
    /// numcodecs' own frame: the decoded length, and an LZ4 block.
    Lz4,
}

/// Contexts and buffers that one thread reuses from chunk to chunk.
#[derive(Default)]
pub(crate) struct DirectScratch {
    zstd: Option<DCtx<'static>>,
    deflate: Option<Decompressor>,
    decoded: Scratch,
    /// A read chunk whose numbers are shuffled.
    shuffled: Scratch,
    /// A block before its bytes are put in order.
    pub(super) block: Scratch,
    /// Whether less memory is worth more time.
    pub(crate) is_limited: bool,
}

impl DirectScratch {
    /// Bytes of the large buffers.
    pub(crate) fn len(&self) -> usize {
        self.decoded.len() + self.shuffled.len() + self.block.len()
    }

    /// Frees the large buffers.
    pub(crate) fn clear(&mut self) {
        self.decoded = Scratch::default();
        self.shuffled = Scratch::default();
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
        let mut direct =
            Self { compressor: None, shuffled: 1, inner_checksums: 0, outer_checksums: 0, swap, decoded_len };
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
            if let Some(shuffle) = codec.downcast_ref::<ShuffleCodec>() {
                let is_innermost = direct.compressor.is_none() && direct.inner_checksums == 0 && direct.shuffled == 1;
                let number = configuration(shuffle)?.get("elementsize")?.as_u64()? as usize;
                if !is_innermost || number == 0 || !decoded_len.is_multiple_of(number) {
                    return None;
                }
                direct.shuffled = number;
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
            } else if codec.is::<Bz2Codec>() {
                Compressor::Bz2
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

    /// Takes what was stored as it is for compressed with LZ4, in numcodecs' frame, inside the last `checksums`
    /// checksums. `false` if it was not.
    pub(super) fn compressed_with_lz4(&mut self, checksums: usize) -> bool {
        let Some(inner) = self.inner_checksums.checked_sub(checksums) else { return false };
        (self.inner_checksums, self.outer_checksums) = (inner, checksums);
        self.compressor.replace(Compressor::Lz4).is_none()
    }

    pub(super) fn granularity(&self) -> Granularity {
        match self.compressor {
            _ if self.inner_checksums > 0 || self.shuffled > 1 => Granularity::Whole,
            None if self.outer_checksums > 0 => Granularity::Whole,
            None => Granularity::Stored,
            Some(Compressor::Zstd) if self.decoded_len > zstd_front::BLOCK_LEN => {
                Granularity::Prefix(zstd_front::BLOCK_LEN)
            }
            Some(Compressor::Blosc) => Granularity::Blocks,
            Some(_) => Granularity::Whole,
        }
    }

    pub(super) fn reads_in_part(&self) -> bool {
        self.granularity() == Granularity::Blocks && self.outer_checksums == 0
    }

    /// Bytes of memory that decoding takes at most beside the encoded bytes.
    pub(super) fn working_len(&self) -> usize {
        let decoded = self.decoded_len + self.inner_checksums * CHECKSUM_LEN;
        let shuffled = if self.shuffled > 1 { decoded } else { 0 };
        let decompressed = match self.compressor {
            // A block before its bytes are put in order, or the three that the library takes, are no longer than that.
            Some(Compressor::Blosc) => decoded.saturating_mul(2),
            Some(Compressor::Bz2) => decoded.saturating_add(BZ2_STATE_LEN),
            // The encoded bytes are the decoded ones.
            None if self.swap == Swap::None => 0,
            _ => decoded,
        };
        decompressed.saturating_add(shuffled)
    }

    /// As [`working_len`](Self::working_len), where all is decoded into its place.
    pub(super) fn working_len_into(&self) -> usize {
        let in_place = self.shuffled > 1 || (self.compressor.is_some() && self.inner_checksums == 0);
        self.working_len().saturating_sub(if in_place { self.decoded_len } else { 0 })
    }

    /// Whether [`to_native`](Self::to_native) changes nothing.
    pub(super) fn is_native(&self) -> bool {
        self.swap == Swap::None
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
        if self.shuffled > 1 {
            let mut buffer = std::mem::take(&mut scratch.decoded);
            let outcome = buffer.grow(self.decoded_len).and_then(|target| self.decode_into(encoded, target, scratch));
            scratch.decoded = buffer;
            return outcome.map(|()| Decoded::whole(Cow::Borrowed(scratch.decoded.front(self.decoded_len))));
        }
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
                let DirectScratch { zstd, decoded, .. } = &mut *scratch;
                let context = zstd.get_or_insert_with(DCtx::create);
                if end < self.decoded_len && zstd_front::decode(context, encoded, decoded.grow(self.decoded_len)?, end)
                {
                    let decoded = scratch.decoded.grow(end)?;
                    self.swap.apply(decoded);
                    return Ok(Decoded::whole(Cow::Borrowed(decoded)));
                }
            }
            (Some(wanted), Granularity::Blocks)
                if is_part(wanted, self.decoded_len) && self.blocks_end_between_numbers(encoded, wanted) =>
            {
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

    /// Whether what [`decode_blocks`](Self::decode_blocks) decodes for `wanted` are whole numbers, whose bytes can be
    /// put in native order.
    fn blocks_end_between_numbers(&self, encoded: &[u8], wanted: &[Range<usize>]) -> bool {
        let unit = self.swap.unit();
        let Some(blosc) = Blosc::new(encoded).filter(|_| unit > 1) else { return true };
        let blocks = Blocks::new(blosc.header(), encoded);
        wanted.iter().all(|range| match &blocks {
            Some(blocks) => is_of_units(&blocks.widen(range), unit),
            None => is_of_units(&blosc.whole_blocks(range.clone()), unit),
        })
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
        if let Some(blocks) = blocks.filter(Blocks::are_decoded_here) {
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
        if !wanted.iter().all(|range| is_of_units(range, self.swap.unit())) {
            return None;
        }
        let mut ranges = blocks.encoded_ranges(&wanted)?;
        ranges.push(0..blocks.head_len());
        Some(ranges)
    }

    /// Decodes all of a read chunk into `target`.
    pub(super) fn decode_into(&self, encoded: &[u8], target: &mut [u8], scratch: &mut DirectScratch) -> Result<()> {
        if target.len() != self.decoded_len {
            return Err(wrong_length(target.len(), self.decoded_len));
        }
        match self.compressor {
            _ if self.shuffled > 1 => self.decode_shuffled(encoded, target, scratch)?,
            Some(compressor) if self.inner_checksums == 0 => {
                let encoded = strip_checksums(encoded, self.outer_checksums)?;
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

    /// Decodes all of a read chunk whose numbers are shuffled into `target`.
    fn decode_shuffled(&self, encoded: &[u8], target: &mut [u8], scratch: &mut DirectScratch) -> Result<()> {
        let encoded = strip_checksums(encoded, self.outer_checksums)?;
        let Some(compressor) = self.compressor else {
            return self.put_in_order(strip_checksums(encoded, self.inner_checksums)?, target);
        };
        // Taken out for the call, because the rest of the scratch is needed with it.
        let mut buffer = std::mem::take(&mut scratch.shuffled);
        let outcome = buffer.grow(self.decoded_len + self.inner_checksums * CHECKSUM_LEN).and_then(|block| {
            decompress(compressor, encoded, block, scratch)?;
            self.put_in_order(strip_checksums(block, self.inner_checksums)?, target)
        });
        scratch.shuffled = buffer;
        outcome
    }

    /// Puts the bytes of shuffled numbers together in `target`.
    fn put_in_order(&self, shuffled: &[u8], target: &mut [u8]) -> Result<()> {
        if shuffled.len() != self.decoded_len {
            return Err(wrong_length(shuffled.len(), self.decoded_len));
        }
        unshuffle(shuffled, self.decoded_len / self.shuffled, self.shuffled, &(0..self.decoded_len), target);
        self.swap.apply(target);
        Ok(())
    }
}

/// Whether `wanted` is so little of `len` bytes that single blocks are decoded faster than everything.
fn is_part(wanted: &[Range<usize>], len: usize) -> bool {
    wanted.iter().map(Range::len).sum::<usize>() <= len / 2
}

/// Whether `range` begins and ends between two units.
fn is_of_units(range: &Range<usize>, unit: usize) -> bool {
    range.start.is_multiple_of(unit) && range.end.is_multiple_of(unit)
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
                // Several members are valid gzip too, and most else behind the first is not.
                _ => fill(MultiGzDecoder::new(encoded), target).map_err(|source| corrupt().source(source))?,
            }
        }
        Compressor::Zlib => {
            let deflate = scratch.deflate();
            deflate.zlib_decompress(encoded, target).map_err(|source| corrupt().source(source))?
        }
        Compressor::Blosc => {
            let blosc = Blosc::new(encoded).ok_or_else(lying_header)?;
            if blosc.decoded_len() == len {
                // The library, which is a little faster, would take memory for three.
                let are_long = scratch.is_limited && blosc.header().block_len > len / 3;
                let blocks = are_long.then(|| Blocks::new(blosc.header(), encoded)).flatten();
                match blocks.filter(Blocks::are_decoded_here) {
                    Some(blocks) => blocks.decode(std::slice::from_ref(&(0..len)), target, scratch)?.map(drop),
                    None => blosc.decode(target),
                }
                .ok_or_else(|| reason("blosc failed"))?;
            }
            blosc.decoded_len()
        }
        // Its library cannot use a context again.
        Compressor::Bz2 => fill(MultiBzDecoder::new(encoded), target).map_err(|source| corrupt().source(source))?,
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

/// Whether a gzip file that starts with a member of `len` bytes has nothing else. The member ends in that length: where
/// only the file's end is that length, both end there. libdeflate does not tell where it stopped. `false` also where
/// some of what is compressed only looks like the length.
///
/// Source: RFC 1952, section 2.3.
fn is_one_member(encoded: &[u8], len: usize) -> bool {
    // A header, the shortest compressed bytes, a checksum.
    const LEN_AT_LEAST_AT: usize = 10 + 2 + 4;
    let len = (len as u32).to_le_bytes();
    let Some(rest) = encoded.get(LEN_AT_LEAST_AT..) else { return false };
    memchr::memmem::find(rest, &len).is_some_and(|at| at + len.len() == rest.len())
}

/// Decompresses a file of any number of members or streams, and returns the decoded length, or more than `target` has
/// where it does not fit.
fn fill(mut decoder: impl Read, target: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < target.len() {
        match decoder.read(&mut target[len..])? {
            0 => return Ok(len),
            read => len += read,
        }
    }
    Ok(len + decoder.read(&mut [0])?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_gzip_member() {
        use std::io::Write;

        use flate2::Compression;
        use flate2::write::GzEncoder;

        let member = |values: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
            encoder.write_all(values).unwrap();
            encoder.finish().unwrap()
        };
        // Stored as it is, what begins like a member.
        let values = [&[7; 1000][..], &[0x1f, 0x8b, 8, 0], &[9; 1000]].concat();
        let one = member(&values);
        assert!(is_one_member(&one, values.len()));
        assert!(!is_one_member(&one, values.len() - 1));
        assert!(!is_one_member(&[&one[..], b"more"].concat(), values.len()));
        for more in [&one[..], &member(&[])] {
            assert!(!is_one_member(&[&one, more].concat(), values.len()));
        }
        // What ends as the member does.
        let mut target = vec![0; values.len()];
        for more in [&[&[0; 9], &one[..]].concat()[..], &one[one.len() - 9..]] {
            let more = [&one, more].concat();
            assert!(!is_one_member(&more, values.len()));
            decompress(Compressor::Gzip, &more, &mut target, &mut DirectScratch::default()).unwrap_err();
        }
        let halves = [member(&values[..900]), member(&values[900..])].concat();
        for encoded in [one, halves] {
            decompress(Compressor::Gzip, &encoded, &mut target, &mut DirectScratch::default()).unwrap();
            assert!(target == values);
        }
    }
}
