//! The output buffer: one allocation, zeroed, aligned to at least 64 bytes.

use arrow_buffer::{Buffer, MutableBuffer};
use memmap2::MmapMut;

use crate::error::{Error, ErrorKind, Result};

/// From this length on, memory comes from the system as untouched zero pages, so that no pass over it zeroes it.
const MAPPED_FROM: usize = 256 << 10;

/// A zeroed buffer that becomes an Arrow buffer without a copy.
pub(crate) enum Output {
    Heap(MutableBuffer),
    Mapped { pages: MmapMut, len: usize },
}

impl Output {
    /// A buffer of `len` zero bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if the system has no room for it.
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        if len < MAPPED_FROM {
            return Ok(Self::Heap(MutableBuffer::from_len_zeroed(len)));
        }
        let no_room = |source| {
            Error::new(ErrorKind::Allocation, format!("no room for a result of {len} bytes"))
                .source(source)
                .remedy("Read fewer or smaller selections at a time.")
        };
        let pages = MmapMut::map_anon(len).map_err(no_room)?;
        // Fewer page faults. A refusal costs speed only.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Self::Mapped { pages, len })
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(buffer) => buffer.as_slice_mut(),
            Self::Mapped { pages, len } => &mut pages[..*len],
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
    fn zeroed_aligned_and_handed_over_in_place() {
        for len in [0, 1, 1000, MAPPED_FROM - 1, MAPPED_FROM, 3 * MAPPED_FROM + 7] {
            let mut output = Output::zeroed(len).unwrap();
            let slice = output.as_mut_slice();
            assert_eq!(slice.len(), len);
            assert!(slice.iter().all(|&byte| byte == 0));
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
        assert_eq!(Output::zeroed(isize::MAX as usize).err().unwrap().kind(), ErrorKind::Allocation);
    }
}
