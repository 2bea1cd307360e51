//! The direct path: at most one compressor and checksums, decompressed by one call into its place.

use std::borrow::Cow;
use std::ops::Range;

use libdeflater::Decompressor;
use zarrs::array::CodecChain;
use zarrs::array::codec::api::{CodecMetadataOptions, CodecTraits};
use zarrs::array::codec::{BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZlibCodec, ZstdCodec};
use zarrs::metadata::Configuration;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::ZarrVersion;
use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::blosc::Blosc;
use super::{Decoded, corrupt, wrong_length};
use crate::arrow::ElementType;
use crate::error::{Error, ErrorKind, Result};

const CHECKSUM_LEN: usize = 4;

/// A chain of `bytes`, optional checksums, at most one compressor, and optional checksums.
pub(super) struct Direct {
    compressor: Option<Compressor>,
    /// Checksums around the decoded bytes, inside the compressor.
    inner_checksums: usize,
    /// Checksums around the compressed bytes.
    outer_checksums: usize,
    /// Length of the numbers whose bytes have to be reversed, or 1 if none have to.
    swap: usize,
    decoded_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compressor {
    Zstd,
    Gzip,
    Zlib,
    Blosc,
}

/// Contexts and buffers that one thread reuses from chunk to chunk.
#[derive(Default)]
pub(crate) struct DirectScratch {
    zstd: Option<DCtx<'static>>,
    deflate: Option<Decompressor>,
    decoded: Vec<u8>,
}

impl Direct {
    /// The direct path for `codecs`, and the order in which the stored axes lie where it is not C order. `None` if
    /// there is no direct path for them.
    pub(super) fn new(
        codecs: &CodecChain,
        configurations: Option<&[MetadataV3]>,
        decoded_len: usize,
        element: ElementType,
    ) -> Option<(Self, Option<Vec<usize>>)> {
        let order = match codecs.array_to_array_codecs() {
            [] => None,
            [only] => Some(transpose_order(only.as_any().downcast_ref::<TransposeCodec>()?)?),
            _ => return None,
        };
        let swap = swap_len(codecs.array_to_bytes_codec().as_any().downcast_ref::<BytesCodec>()?, element)?;
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

    /// Decodes at least the bytes in `needed`.
    pub(super) fn decode<'a>(
        &self,
        encoded: &'a [u8],
        needed: Range<usize>,
        scratch: &'a mut DirectScratch,
    ) -> Result<Decoded<'a>> {
        let encoded = strip_checksums(encoded, self.outer_checksums)?;
        let Some(compressor) = self.compressor else {
            let stored = strip_checksums(encoded, self.inner_checksums)?;
            if stored.len() != self.decoded_len {
                return Err(wrong_length(stored.len(), self.decoded_len));
            }
            let produced = stored.len();
            if self.swap == 1 {
                return Ok(Decoded { bytes: Cow::Borrowed(stored), produced });
            }
            let decoded = buffer(&mut scratch.decoded, produced)?;
            decoded.copy_from_slice(stored);
            swap_bytes(decoded, self.swap);
            return Ok(Decoded { bytes: Cow::Borrowed(decoded), produced });
        };
        let len = self.decoded_len + self.inner_checksums * CHECKSUM_LEN;
        // A checksum inside the compressor covers the whole chunk.
        let needed = if self.inner_checksums > 0 { 0..len } else { needed.start..needed.end.min(len) };
        let produced = match compressor {
            Compressor::Zstd if needed.end < len && !has_zstd_checksum(encoded) => {
                let target = buffer(&mut scratch.decoded, needed.end)?;
                zstd_prefix(context(&mut scratch.zstd), encoded, target)?;
                0..needed.end
            }
            Compressor::Blosc if needed.len() < len => {
                let blosc = Blosc::new(encoded).ok_or_else(corrupt)?;
                if blosc.decoded_len() != len {
                    return Err(wrong_length(blosc.decoded_len(), len));
                }
                let blocks = blosc.whole_blocks(needed);
                let target = &mut buffer(&mut scratch.decoded, blocks.end)?[blocks.start..];
                blosc.decode_range(&blocks, target).ok_or_else(corrupt)?;
                blocks
            }
            _ => {
                let mut decoded = std::mem::take(&mut scratch.decoded);
                let outcome =
                    buffer(&mut decoded, len).and_then(|target| decompress(compressor, encoded, target, scratch));
                scratch.decoded = decoded;
                outcome?;
                0..len
            }
        };
        let decoded = &mut scratch.decoded[..produced.end];
        let kept = strip_checksums(decoded, self.inner_checksums)?.len();
        swap_bytes(&mut decoded[produced.start..kept], self.swap);
        Ok(Decoded { bytes: Cow::Borrowed(&decoded[..kept]), produced: produced.len() })
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
                swap_bytes(target, self.swap);
            }
            _ => {
                let decoded = self.decode(encoded, 0..self.decoded_len, scratch)?;
                if decoded.bytes.len() != target.len() {
                    return Err(wrong_length(decoded.bytes.len(), target.len()));
                }
                target.copy_from_slice(&decoded.bytes);
            }
        }
        Ok(())
    }
}

/// Decompresses all of `encoded` into all of `target`.
fn decompress(compressor: Compressor, encoded: &[u8], target: &mut [u8], scratch: &mut DirectScratch) -> Result<()> {
    let len = target.len();
    let decoded = match compressor {
        Compressor::Zstd => context(&mut scratch.zstd)
            .decompress(target, encoded)
            .map_err(|code| reason(zstd_safe::get_error_name(code)))?,
        Compressor::Gzip | Compressor::Zlib => {
            let deflate = scratch.deflate.get_or_insert_with(Decompressor::new);
            let outcome = match compressor {
                Compressor::Gzip => deflate.gzip_decompress(encoded, target),
                _ => deflate.zlib_decompress(encoded, target),
            };
            outcome.map_err(|source| corrupt().source(source))?
        }
        Compressor::Blosc => {
            let blosc = Blosc::new(encoded).ok_or_else(|| reason("the blosc header does not fit the chunk"))?;
            if blosc.decoded_len() == len {
                blosc.decode(target).ok_or_else(|| reason("blosc failed"))?;
            }
            blosc.decoded_len()
        }
    };
    if decoded != len {
        return Err(wrong_length(decoded, len));
    }
    Ok(())
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

/// Whether the first frame ends in a checksum, or cannot be told.
///
/// Source: RFC 8878, section 3.1.1.1.1: bit 2 of the frame header descriptor, after the magic number.
fn has_zstd_checksum(encoded: &[u8]) -> bool {
    let magic = encoded.get(..4) == Some(&[0x28, 0xb5, 0x2f, 0xfd]);
    !magic || encoded.get(4).is_none_or(|descriptor| descriptor & 4 != 0)
}

fn context<'a>(zstd: &'a mut Option<DCtx<'static>>) -> &'a mut DCtx<'static> {
    zstd.get_or_insert_with(DCtx::create)
}

fn reason(what: &str) -> Error {
    corrupt().source(std::io::Error::other(what.to_owned()))
}

/// The first `len` bytes of a buffer that grows as needed and never shrinks.
fn buffer(buffer: &mut Vec<u8>, len: usize) -> Result<&mut [u8]> {
    if buffer.len() < len {
        // Dropped first, so that the old contents are not copied into the larger buffer.
        *buffer = Vec::new();
        buffer.try_reserve_exact(len).map_err(|source| {
            Error::new(ErrorKind::Allocation, format!("no memory for a read chunk of {len} bytes")).source(source)
        })?;
        buffer.resize(len, 0);
    }
    Ok(&mut buffer[..len])
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

/// Reverses the bytes of each number of `len` bytes.
fn swap_bytes(bytes: &mut [u8], len: usize) {
    fn swap<const N: usize>(bytes: &mut [u8]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
    }
    match len {
        2 => swap::<2>(bytes),
        4 => swap::<4>(bytes),
        8 => swap::<8>(bytes),
        _ => {}
    }
}

fn configuration(codec: &dyn CodecTraits) -> Option<Configuration> {
    codec.configuration(ZarrVersion::V3, &CodecMetadataOptions::default())
}

/// The stored order of axes: the outermost stored axis first.
fn transpose_order(codec: &TransposeCodec) -> Option<Vec<usize>> {
    let order = configuration(codec)?.get("order")?.as_array()?.clone();
    order.iter().map(|axis| axis.as_u64().map(|axis| axis as usize)).collect()
}

/// The length of the numbers whose bytes have to be reversed, 1 if none have to; `None` if the codec does not say.
fn swap_len(codec: &BytesCodec, element: ElementType) -> Option<usize> {
    let number = element.number_size();
    if number == 1 {
        return Some(1);
    }
    let configuration = configuration(codec)?;
    let little = match configuration.get("endian")?.as_str()? {
        "little" => true,
        "big" => false,
        _ => return None,
    };
    Some(if little == cfg!(target_endian = "little") { 1 } else { number })
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
