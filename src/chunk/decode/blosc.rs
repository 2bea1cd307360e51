//! Blosc 1 through its C library.
//!
//! The library trusts the header for the length of its input, so the header is checked against the buffer first.
//! Source: the c-blosc header format, `README_CHUNK_FORMAT.rst`.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::ops::Range;

use crate::memory::reserve_chunk;

pub(super) const HEADER_LEN: usize = 16;
const FORMAT: u8 = 2;
const FUTURE_FLAG: u8 = 0x08;

/// The library does not check that it got the memory for three blocks, so from this length on that is checked before.
const LARGE: usize = 1 << 20;

/// What a blosc buffer says of itself, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) flags: u8,
    /// Length of a number.
    pub(super) typesize: usize,
    pub(super) decoded_len: usize,
    /// Decoded length of each block but the last.
    pub(super) block_len: usize,
    /// Length of the buffer.
    pub(super) encoded_len: usize,
}

impl Header {
    /// Reads the header in front of `bytes`. `None` if it makes no sense.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| -> Option<usize> {
            let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(i32::from_le_bytes(bytes)).ok()
        };
        let (decoded_len, block_len, encoded_len) = (number(4)?, number(8)?, number(12)?);
        let header = Self { flags: bytes[2], typesize: usize::from(bytes[3]), decoded_len, block_len, encoded_len };
        let sound = bytes[0] == FORMAT
            && header.flags & FUTURE_FLAG == 0
            && encoded_len >= HEADER_LEN
            && header.typesize > 0
            && (decoded_len == 0 || (block_len > 0 && block_len <= decoded_len));
        sound.then_some(header)
    }
}

/// A blosc buffer whose header agrees with its length.
pub(super) struct Blosc<'a> {
    bytes: &'a [u8],
    header: Header,
}

impl<'a> Blosc<'a> {
    /// Checks the header. `None` if it lies about the length or makes no sense.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let header = Header::new(bytes)?;
        (header.encoded_len == bytes.len()).then_some(Self { bytes, header })
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// Decoded length, in bytes.
    pub(super) fn decoded_len(&self) -> usize {
        self.header.decoded_len
    }

    /// Widens `bytes` to whole blocks, or to the whole buffer where single blocks cannot be asked for.
    pub(super) fn whole_blocks(&self, bytes: Range<usize>) -> Range<usize> {
        if self.header.block_len == 0
            || !self.header.block_len.is_multiple_of(self.header.typesize)
            || !self.header.decoded_len.is_multiple_of(self.header.typesize)
        {
            return 0..self.header.decoded_len;
        }
        let start = bytes.start / self.header.block_len * self.header.block_len;
        start..bytes.end.next_multiple_of(self.header.block_len).min(self.header.decoded_len)
    }

    /// Whether there is memory for what the library takes. Asked when it is known that the decoded length is right, and so
    /// that blocks are no longer than that.
    fn check_memory(&self) -> Option<()> {
        let scratch = self.header.block_len.checked_mul(3)?;
        (scratch < LARGE || reserve_chunk(scratch).is_ok()).then_some(())
    }

    /// Decodes all of the buffer into `target`, which is as long as the header says.
    pub(super) fn decode(&self, target: &mut [u8]) -> Option<()> {
        if target.len() != self.header.decoded_len {
            return None;
        }
        self.check_memory()?;
        // SAFETY: `Blosc::new` checked that the input is as long as its header says, which is what the library reads;
        // it writes at most `target.len()` bytes to `target`, an exclusive and initialised slice.
        let decoded = unsafe {
            blosc_src::blosc_decompress_ctx(
                self.bytes.as_ptr().cast(),
                target.as_mut_ptr().cast(),
                target.len(),
                1 as c_int,
            )
        };
        (usize::try_from(decoded) == Ok(target.len())).then_some(())
    }

    /// Decodes the bytes `range`, a result of [`whole_blocks`](Self::whole_blocks), into `target` of the same length.
    pub(super) fn decode_range(&self, range: &Range<usize>, target: &mut [u8]) -> Option<()> {
        if *range == (0..self.header.decoded_len) {
            return self.decode(target);
        }
        let whole =
            range.start.is_multiple_of(self.header.typesize) && range.len().is_multiple_of(self.header.typesize);
        if !whole || range.end > self.header.decoded_len || target.len() != range.len() {
            return None;
        }
        self.check_memory()?;
        let start = c_int::try_from(range.start / self.header.typesize).ok()?;
        let items = c_int::try_from(range.len() / self.header.typesize).ok()?;
        // SAFETY: `Blosc::new` checked that the input is as long as its header says, which is what the library reads;
        // start and items lie in the decoded length (checked just above), so it writes `items * typesize` bytes, the
        // length of `target`, an exclusive and initialised slice.
        let decoded =
            unsafe { blosc_src::blosc_getitem(self.bytes.as_ptr().cast(), start, items, target.as_mut_ptr().cast()) };
        (usize::try_from(decoded) == Ok(target.len())).then_some(())
    }
}

unsafe extern "C" {
    /// Declared here, because `lz4-sys`, which builds the library, does not.
    fn LZ4_decompress_safe_partial(
        source: *const c_char,
        target: *mut c_char,
        source_len: c_int,
        wanted: c_int,
        target_len: c_int,
    ) -> c_int;
}

/// Decompresses an LZ4 block that has as many bytes as `target`, at least the first `front` of them. False if it is
/// corrupt.
pub(super) fn lz4(encoded: &[u8], target: &mut [u8], front: usize) -> bool {
    // The library takes about twice as long for a byte if it has to stop early.
    let partial = front <= target.len() / 2;
    let target = if partial { &mut target[..front] } else { target };
    let (Ok(encoded_len), Ok(target_len)) = (c_int::try_from(encoded.len()), c_int::try_from(target.len())) else {
        return false;
    };
    let (source, place) = (encoded.as_ptr().cast(), target.as_mut_ptr().cast());
    // SAFETY: the library reads at most `encoded_len` bytes of `encoded` and writes at most `target_len` to `target`,
    // the lengths of a shared and of an exclusive, initialised slice.
    let decoded = unsafe {
        if partial {
            LZ4_decompress_safe_partial(source, place, encoded_len, target_len, target_len)
        } else {
            lz4_sys::LZ4_decompress_safe(source, place, encoded_len, target_len)
        }
    };
    decoded == target_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lying_headers_are_refused() {
        assert!(Blosc::new(&[]).is_none());
        assert!(Blosc::new(&[2, 1, 0, 4]).is_none());
        let header = |decoded: i32, block: i32, encoded: i32, typesize: u8| {
            let mut bytes = vec![2, 1, 0, typesize];
            bytes.extend(decoded.to_le_bytes());
            bytes.extend(block.to_le_bytes());
            bytes.extend(encoded.to_le_bytes());
            bytes
        };
        assert!(Blosc::new(&header(0, 0, 16, 4)).is_some());
        // A length that is not the chunk's is refused when it is compared, not when the header is read.
        let huge = header(i32::MAX, i32::MAX, 16, 4);
        let huge = Blosc::new(&huge).unwrap();
        assert_eq!(huge.decoded_len(), i32::MAX as usize);
        assert!(huge.decode(&mut [0; 64]).is_none());
        for (decoded, block, encoded, typesize) in [
            (8, 8, 17, 4),
            (8, 8, 15, 4),
            (8, 8, 16, 0),
            (8, 0, 16, 4),
            (8, 9, 16, 4),
            (-8, 8, 16, 4),
            (8, -8, 16, 4),
            (8, 8, -16, 4),
        ] {
            assert!(Blosc::new(&header(decoded, block, encoded, typesize)).is_none());
        }
    }
}
