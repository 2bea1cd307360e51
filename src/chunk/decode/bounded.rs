//! Decompression of streams whose length is not known, but bounded: whatever a header claims, no more is allocated.
//!
//! Each gives `None` where a stream decodes to more than `bound` bytes, and else a buffer without room to spare.

use std::io::Read;

use bzip2::read::MultiBzDecoder;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

use super::blosc::Blosc;
use super::corrupt;
use crate::error::Result;
use crate::memory::{grow_chunk, reserve_chunk};

/// A length that a header claims is believed up to so many times the encoded length.
const BELIEVED: usize = 64;

/// Most bytes that `codecs` codecs make of a read chunk of `decoded_len` bytes, in array to bytes and bytes to bytes
/// codecs together: generous, but a bound.
pub(super) fn after(decoded_len: usize, codecs: usize) -> usize {
    let once = decoded_len.saturating_mul(4).saturating_add(64 << 10);
    (0..codecs).fold(once, |len, _| len.saturating_add(len / 4).saturating_add(64 << 10))
}

pub(super) fn gzip(encoded: &[u8], bound: usize) -> Result<Option<Vec<u8>>> {
    read(MultiGzDecoder::new(encoded), bound)
}

pub(super) fn zlib(encoded: &[u8], bound: usize) -> Result<Option<Vec<u8>>> {
    read(ZlibDecoder::new(encoded), bound)
}

pub(super) fn bz2(encoded: &[u8], bound: usize) -> Result<Option<Vec<u8>>> {
    read(MultiBzDecoder::new(encoded), bound)
}

pub(super) fn blosc(encoded: &[u8], bound: usize) -> Result<Option<Vec<u8>>> {
    let blosc = Blosc::new(encoded).ok_or_else(corrupt)?;
    if blosc.decoded_len() > bound {
        return Ok(None);
    }
    let mut decoded = reserve_chunk(blosc.decoded_len())?;
    decoded.resize(blosc.decoded_len(), 0);
    blosc.decode(&mut decoded).ok_or_else(corrupt)?;
    Ok(Some(decoded))
}

pub(super) fn zstd(encoded: &[u8], bound: usize) -> Result<Option<Vec<u8>>> {
    let failed = |code| corrupt().source(std::io::Error::other(zstd_safe::get_error_name(code)));
    let mut context = DCtx::create();
    if let Ok(Some(claimed)) = zstd_safe::get_frame_content_size(encoded)
        && claimed as usize <= bound.min(encoded.len().saturating_mul(BELIEVED))
        && zstd_safe::find_frame_compressed_size(encoded) == Ok(encoded.len())
    {
        let mut decoded = reserve_chunk(claimed as usize)?;
        decoded.resize(claimed as usize, 0);
        let len = context.decompress(&mut decoded[..], encoded).map_err(failed)?;
        decoded.truncate(len);
        return Ok(Some(decoded));
    }
    let mut decoded = Vec::new();
    let mut input = InBuffer::around(encoded);
    let mut block = vec![0; DCtx::out_size()];
    loop {
        let mut output = OutBuffer::around(&mut block[..]);
        let left = context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        let len = output.pos();
        if decoded.len() + len > bound {
            return Ok(None);
        }
        grow_chunk(&mut decoded, len)?;
        decoded.extend_from_slice(&block[..len]);
        let at_end = input.pos() == encoded.len();
        if at_end && left == 0 {
            decoded.shrink_to_fit();
            return Ok(Some(decoded));
        }
        if at_end && len < block.len() {
            // The stream wants more bytes than there are.
            return Err(corrupt().expected("a whole zstd stream"));
        }
    }
}

fn read(mut stream: impl Read, bound: usize) -> Result<Option<Vec<u8>>> {
    let mut decoded = Vec::new();
    loop {
        let step = decoded.len().clamp(64 << 10, 64 << 20);
        grow_chunk(&mut decoded, step)?;
        let read = stream.by_ref().take(step as u64).read_to_end(&mut decoded);
        if read.map_err(|source| corrupt().source(source))? == 0 {
            decoded.shrink_to_fit();
            return Ok(Some(decoded));
        }
        if decoded.len() > bound {
            return Ok(None);
        }
    }
}
