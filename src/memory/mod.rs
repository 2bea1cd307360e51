//! Memory: allocation that can fail, buffers that are reused.
//!
//! * [`output`]: buffers that become Arrow buffers.
//! * [`recycle`]: memory of results that are gone.

mod output;
mod recycle;

use memmap2::MmapMut;

pub(crate) use self::output::Output;
pub use self::recycle::release_unused;
use crate::error::{Error, ErrorKind, Result};

/// From this length on, a buffer has pages of its own, which the system zeroes when they are first touched.
const PAGES_FROM: usize = 256 << 10;

/// An empty vector with room for `len` values, which an error calls `what`.
///
/// # Errors
/// [`ErrorKind::Allocation`], with `remedy`, if there is no memory for them.
pub(crate) fn reserve<T>(len: usize, what: &str, remedy: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|source| no_memory(len, what, remedy, source))?;
    Ok(values)
}

/// An empty buffer with room for `len` bytes of a chunk.
///
/// # Errors
/// [`ErrorKind::Allocation`] if there is no memory for them.
pub(crate) fn reserve_chunk(len: usize) -> Result<Vec<u8>> {
    reserve(len, CHUNK, REMEDY)
}

/// Makes room for `more` bytes of a chunk, at least doubling what there is, so that appending stays cheap.
///
/// # Errors
/// As [`reserve_chunk`].
pub(crate) fn grow_chunk(bytes: &mut Vec<u8>, more: usize) -> Result<()> {
    let len = bytes.len().saturating_add(more);
    bytes.try_reserve(more).map_err(|source| no_memory(len, CHUNK, REMEDY, source))
}

const CHUNK: &str = "bytes of a chunk";
const REMEDY: &str = "Read with fewer threads, or on a machine with more memory.";

fn no_memory(len: usize, what: &str, remedy: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Allocation, format!("no memory for {len} {what}")).source(source).remedy(remedy)
}

/// Pages of zeros, at least `len` bytes. Lengths are rounded up by an eighth at most, so that buffers of about the same
/// length can take each other's place; pages that are never touched take no memory.
fn pages(len: usize) -> std::io::Result<MmapMut> {
    let pages = MmapMut::map_anon(size_class(len))?;
    // Fewer page faults. A refusal costs speed only.
    #[cfg(target_os = "linux")]
    let _ = pages.advise(memmap2::Advice::HugePage);
    Ok(pages)
}

/// The length that [`pages`] rounds `len` up to.
fn size_class(len: usize) -> usize {
    let step = (len.checked_next_power_of_two().unwrap_or(len) / 16).max(1 << 12);
    len.checked_next_multiple_of(step).unwrap_or(len)
}

/// Bytes of memory that a [`Scratch`] takes that grew to `len`.
pub(crate) fn room(len: usize) -> usize {
    if len < PAGES_FROM { len } else { size_class(len) }
}

/// A buffer that one thread reuses for chunk after chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Bytes);

#[derive(Debug)]
enum Bytes {
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Scratch {
    /// The first `len` bytes, whatever they hold. Grows as needed and never shrinks.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if there is no memory for them.
    pub(crate) fn grow(&mut self, len: usize) -> Result<&mut [u8]> {
        if self.len() < len {
            // Dropped first, so that there are never two.
            self.0 = Bytes::default();
            self.0 = if len < PAGES_FROM {
                let mut bytes = reserve_chunk(len)?;
                bytes.resize(len, 0);
                Bytes::Heap(bytes)
            } else {
                Bytes::Pages(pages(len).map_err(|source| no_memory(len, CHUNK, REMEDY, source))?)
            };
        }
        Ok(&mut self.bytes_mut()[..len])
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Bytes::Heap(bytes) => bytes.len(),
            Bytes::Pages(pages) => pages.len(),
        }
    }

    /// The first `len` bytes, or fewer if there are no more.
    pub(crate) fn front(&self, len: usize) -> &[u8] {
        let bytes = match &self.0 {
            Bytes::Heap(bytes) => &bytes[..],
            Bytes::Pages(pages) => &pages[..],
        };
        &bytes[..len.min(bytes.len())]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Heap(bytes) => bytes,
            Bytes::Pages(pages) => pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_round_up_by_an_eighth_at_most() {
        for len in [1, 4096, 4097, 300_000, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let class = size_class(len);
            assert!(class >= len && class <= (len + len / 8).max(4096 * 2), "{len} {class}");
            assert_eq!(class % 4096, 0);
            let mut scratch = Scratch::default();
            scratch.grow(len).unwrap();
            assert_eq!(scratch.len(), room(len));
        }
        assert_eq!(size_class(usize::MAX), usize::MAX);
    }

    #[test]
    fn scratch_grows_and_keeps_its_bytes_otherwise() {
        let mut scratch = Scratch::default();
        scratch.grow(10).unwrap().fill(1);
        assert_eq!(scratch.grow(5).unwrap(), [1; 5]);
        assert_eq!(scratch.grow(PAGES_FROM + 1).unwrap().len(), PAGES_FROM + 1);
        scratch.grow(PAGES_FROM).unwrap().fill(2);
        assert_eq!(scratch.front(3), [2; 3]);
        assert!(scratch.len() > PAGES_FROM);
        assert_eq!(scratch.grow(isize::MAX as usize).unwrap_err().kind(), ErrorKind::Allocation);
        assert_eq!(scratch.len(), 0);
    }
}
