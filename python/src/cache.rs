//! `zarrow.ChunkCache`: decoded chunks that calls share. Its lock is never waited for with Python's: who holds the one may
//! wait for the other, where the process forks.

use pyo3::prelude::*;

use crate::attach::{called, detach};

/// Decoded chunks that calls and threads share.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct ChunkCache {
    pub(crate) inner: zarrow::ChunkCache,
    recheck: bool,
}

#[pymethods]
impl ChunkCache {
    #[new]
    #[pyo3(signature = (max_bytes, *, recheck = true))]
    fn new(max_bytes: usize, recheck: bool) -> Self {
        let inner =
            if recheck { zarrow::ChunkCache::new(max_bytes) } else { zarrow::ChunkCache::without_rechecks(max_bytes) };
        Self { inner, recheck }
    }

    /// The most bytes that it holds.
    #[getter]
    fn max_bytes(&self) -> usize {
        self.inner.max_bytes()
    }

    /// Whether remote stores are asked if what is held has changed.
    #[getter]
    fn recheck(&self) -> bool {
        self.recheck
    }

    /// Bytes that it holds now.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        detach(py, || self.inner.bytes())
    }

    /// Chunks that were found.
    #[getter]
    fn hits(&self, py: Python<'_>) -> u64 {
        detach(py, || self.inner.hits())
    }

    /// Chunks that were not found, or were stale.
    #[getter]
    fn misses(&self, py: Python<'_>) -> u64 {
        detach(py, || self.inner.misses())
    }

    /// Values that were let go of to make room for others.
    #[getter]
    fn evictions(&self, py: Python<'_>) -> u64 {
        detach(py, || self.inner.evictions())
    }

    /// Lets go of everything.
    fn clear(&self, py: Python<'_>) {
        detach(py, || self.inner.clear());
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        detach(py, || self.inner.len())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        detach(py, || {
            format!(
                "<zarrow.ChunkCache: {} of {} bytes in {} entries; {} hits, {} misses>",
                self.inner.bytes(),
                self.inner.max_bytes(),
                self.inner.len(),
                self.inner.hits(),
                self.inner.misses(),
            )
        })
    }

    /// An empty one of the same size: another process has memory of its own.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (usize, bool))> {
        let _inside = called(py);
        Ok((py.import("zarrow._zarrow")?.getattr("_chunk_cache")?, (self.inner.max_bytes(), self.recheck)))
    }
}

/// A cache, for pickle.
#[pyfunction]
pub(crate) fn _chunk_cache(max_bytes: usize, recheck: bool) -> ChunkCache {
    ChunkCache::new(max_bytes, recheck)
}
