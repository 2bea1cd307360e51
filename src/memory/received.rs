//! Buffers for what a store sends. Many are in use at once, of lengths that differ a little, on all threads: a heap would
//! keep twice the memory that they take.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use bytes::Bytes;
use memmap2::MmapMut;

use super::{no_memory, reserve};
use crate::error::Result;

/// From this length on, a buffer has pages of its own.
const PAGES_FROM: usize = 128 << 10;

/// At most so many bytes of buffers that are not in use are kept, where memory is not limited.
const KEPT: usize = 32 << 20;

const WHAT: &str = "bytes that the store sends";
const REMEDY: &str = "Give a memory_limit, or read on a machine with more memory.";

/// Buffers that one read uses again and again.
#[derive(Debug)]
pub(crate) struct Received {
    kept: Mutex<Vec<MmapMut>>,
    /// In bytes.
    most_kept: usize,
}

/// What of an answer has come.
#[derive(Debug)]
pub(crate) struct Body {
    memory: Memory,
    len: usize,
    filled: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Pages(Reused),
}

/// Pages that go back to where they are from.
#[derive(Debug)]
struct Reused {
    /// `None` only while it is dropped.
    pages: Option<MmapMut>,
    home: Weak<Received>,
}

impl Default for Received {
    fn default() -> Self {
        Self { kept: Mutex::default(), most_kept: KEPT }
    }
}

impl Received {
    /// Buffers that are used once, so that no more memory is held than is in use.
    pub(crate) fn once() -> Self {
        Self { kept: Mutex::default(), most_kept: 0 }
    }

    /// Room for `len` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`](crate::ErrorKind::Allocation) if there is no memory for them.
    pub(crate) fn body(self: &Arc<Self>, len: usize) -> Result<Body> {
        let memory = if len < PAGES_FROM {
            Memory::Heap(reserve(len, WHAT, REMEDY)?)
        } else {
            let pages = match self.take(super::size_class(len)) {
                Some(pages) => pages,
                None => super::pages(len).map_err(|source| no_memory(len, WHAT, REMEDY, source))?,
            };
            Memory::Pages(Reused { pages: Some(pages), home: Arc::downgrade(self) })
        };
        Ok(Body { memory, len, filled: 0 })
    }

    /// Takes pages of at least `len` bytes, and not many more.
    fn take(&self, len: usize) -> Option<MmapMut> {
        self.with(|kept| {
            let fits = |pages: &MmapMut| (len..=len + len / 4).contains(&pages.len());
            kept.iter().rposition(fits).map(|at| kept.swap_remove(at))
        })?
    }

    fn put(&self, pages: MmapMut) {
        let released = self.with(|kept| {
            let held: usize = kept.iter().map(|pages| pages.len()).sum();
            if held + pages.len() <= self.most_kept {
                kept.push(pages);
                return None;
            }
            Some(pages)
        });
        // Given back to the system outside the lock.
        drop(released);
    }

    /// Never waits: there are other pages.
    fn with<T>(&self, work: impl FnOnce(&mut Vec<MmapMut>) -> T) -> Option<T> {
        match self.kept.try_lock() {
            Ok(mut kept) => Some(work(&mut kept)),
            Err(TryLockError::Poisoned(kept)) => Some(work(&mut kept.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Body {
    /// Bytes that came.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Appends `bytes`. Says whether there is room for them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.filled + bytes.len();
        if end > self.len {
            return false;
        }
        match &mut self.memory {
            Memory::Heap(heap) => heap.extend_from_slice(bytes),
            Memory::Pages(pages) => pages.as_mut()[self.filled..end].copy_from_slice(bytes),
        }
        self.filled = end;
        true
    }

    /// The bytes that came.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.memory {
            Memory::Heap(heap) => heap.into(),
            Memory::Pages(pages) => Bytes::from_owner(pages).slice(..self.filled),
        }
    }
}

impl AsRef<[u8]> for Reused {
    fn as_ref(&self) -> &[u8] {
        self.pages.as_deref().unwrap_or_default()
    }
}

impl AsMut<[u8]> for Reused {
    fn as_mut(&mut self) -> &mut [u8] {
        self.pages.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Reused {
    fn drop(&mut self) {
        if let (Some(pages), Some(home)) = (self.pages.take(), self.home.upgrade()) {
            home.put(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(received: &Arc<Received>, len: usize, byte: u8) -> Bytes {
        let mut body = received.body(len).unwrap();
        let parts = vec![byte; len];
        for part in parts.chunks(1000) {
            assert!(body.push(part));
        }
        assert!(!body.push(&[0]));
        assert_eq!(body.filled(), len);
        body.into_bytes()
    }

    #[test]
    fn bytes_are_what_came_whatever_their_memory_held_before() {
        let received = Arc::new(Received::default());
        for len in [0, 1, PAGES_FROM - 1, PAGES_FROM, PAGES_FROM + 1, 300_000] {
            assert!(body(&received, len, 7).iter().all(|&byte| byte == 7));
            let bytes = body(&received, len, 9);
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|&byte| byte == 9));
        }
        let mut less = received.body(300_000).unwrap();
        assert!(less.push(b"less"));
        assert_eq!(&less.into_bytes()[..], b"less");
    }

    #[test]
    fn memory_is_used_again_by_what_is_about_as_long() {
        let received = Arc::new(Received::default());
        let first = body(&received, 300_000, 1);
        let address = first.as_ptr();
        let other = body(&received, 300_000, 2);
        assert_ne!(other.as_ptr(), address, "in use");
        drop(first);
        assert_eq!(body(&received, 290_000, 3).as_ptr(), address);
        assert_ne!(body(&received, 140_000, 3).as_ptr(), address, "too long");
        assert_ne!(body(&received, 400_000, 3).as_ptr(), address, "too short");
        // What outlives the read keeps its own memory alone.
        drop(received);
        assert!(other.iter().all(|&byte| byte == 2));
    }

    #[test]
    fn not_all_memory_is_kept() {
        let received = Arc::new(Received::default());
        let many: Vec<_> = (0..40).map(|_| body(&received, 1 << 20, 0)).collect();
        drop(many);
        assert_eq!(received.kept.lock().unwrap().len(), 32);
        let received = Arc::new(Received::once());
        drop(body(&received, 1 << 20, 0));
        assert!(received.kept.lock().unwrap().is_empty());
    }
}
