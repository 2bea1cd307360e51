//! How far a read is.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a read is, to look at from another thread while it goes on. For one read.
#[derive(Debug, Default)]
pub struct Progress {
    chunks: AtomicU64,
    chunks_total: AtomicU64,
    bytes: AtomicU64,
    bytes_total: AtomicU64,
}

impl Progress {
    /// Read chunks that were taken to be decoded.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Read chunks that the read needs; 0 until it is planned.
    #[must_use]
    pub fn chunks_total(&self) -> u64 {
        self.chunks_total.load(Ordering::Relaxed)
    }

    /// Decoded bytes of the chunks that were taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Decoded bytes of all chunks that the read needs.
    #[must_use]
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, chunks: u64, bytes: u64) {
        self.chunks_total.store(chunks, Ordering::Relaxed);
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn took(&self, bytes: u64) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
