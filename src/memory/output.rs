//! Buffers of results: one allocation each, aligned to at least 64 bytes, whose memory is reused by later reads.

use arrow_buffer::{Buffer, MutableBuffer};

use super::PAGES_FROM;
use super::recycle::{self, Pages};
use crate::error::{Error, ErrorKind, Result};

/// From this length on, results have pages of their own. With debug assertions, more results meet memory that others have
/// used, so that tests may see what is not written.
const RECYCLED_FROM: usize = if cfg!(all(debug_assertions, not(miri))) { 1 << 10 } else { PAGES_FROM };

/// A buffer that becomes an Arrow buffer without a copy.
pub(crate) enum Output {
    Heap(MutableBuffer),
    Mapped { pages: Pages, len: usize },
}

impl Output {
    /// A buffer of `len` bytes: zeros, or what an earlier result left behind; see [`is_zeroed`](Self::is_zeroed).
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if the system has no room for it.
    pub(crate) fn new(len: usize) -> Result<Self> {
        if len < RECYCLED_FROM {
            return Ok(Self::Heap(MutableBuffer::from_len_zeroed(len)));
        }
        let no_room = |source| {
            Error::new(ErrorKind::Allocation, format!("no room for a result of {len} bytes"))
                .source(source)
                .remedy("Read fewer or smaller selections at a time.")
        };
        Ok(Self::Mapped { pages: recycle::pages(len).map_err(no_room)?, len })
    }

    /// Whether all bytes are zero.
    pub(crate) fn is_zeroed(&self) -> bool {
        match self {
            Self::Heap(_) => true,
            Self::Mapped { pages, .. } => pages.is_zeroed(),
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(buffer) => buffer.as_slice_mut(),
            Self::Mapped { pages, len } => &mut pages.as_mut()[..*len],
        }
    }

    /// Hands the memory over to Arrow.
    pub(crate) fn into_buffer(self) -> Buffer {
        match self {
            Self::Heap(buffer) => buffer.into(),
            Self::Mapped { pages, len } => Buffer::from(bytes::Bytes::from_owner(pages)).slice_with_length(0, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_handed_over_in_place() {
        for len in [0, 1, 1000, PAGES_FROM - 1, PAGES_FROM, 3 * PAGES_FROM + 7] {
            let mut output = Output::new(len).unwrap();
            let zeroed = output.is_zeroed();
            let slice = output.as_mut_slice();
            assert_eq!(slice.len(), len);
            assert!(!zeroed || slice.iter().all(|&byte| byte == 0));
            slice.fill(7);
            let address = slice.as_ptr();
            let buffer = output.into_buffer();
            assert_eq!(buffer.len(), len);
            assert!(len == 0 || buffer.as_ptr() == address);
            assert_eq!(buffer.as_ptr().align_offset(64), 0);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn absurd_lengths_are_errors() {
        assert_eq!(Output::new(isize::MAX as usize).err().unwrap().kind(), ErrorKind::Allocation);
    }
}
