//! The read itself, and what it did.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyArray;
use zarrow::{ElementType, MissingChunks, ReadOptions};

use crate::array::Array;
use crate::error::{exception, to_python};
use crate::selections::{Selections, Targets, from_python};

/// What one read did.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct ReadStats {
    inner: zarrow::ReadStats,
}

/// How to carry out a read: threads, memory limit, missing chunks, and the bytes that fill what is out of bounds.
#[derive(Clone)]
pub(crate) struct Options {
    threads: Option<usize>,
    memory_limit: Option<usize>,
    missing_chunks: MissingChunks,
    fill: Option<Vec<u8>>,
}

impl<'py> FromPyObject<'_, 'py> for Options {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Parts = (Option<usize>, Option<usize>, String, Option<Vec<u8>>);
        let (threads, memory_limit, missing_chunks, fill): Parts = options.extract()?;
        let missing_chunks = match missing_chunks.as_str() {
            "fill" => MissingChunks::Fill,
            "null" => MissingChunks::Null,
            "error" => MissingChunks::Error,
            other => return Err(PyValueError::new_err(format!("missing_chunks is {other:?}"))),
        };
        Ok(Self { threads, memory_limit, missing_chunks, fill })
    }
}

impl Options {
    pub(crate) fn to_core(&self) -> ReadOptions {
        ReadOptions::default()
            .with_threads(self.threads)
            .with_memory_limit(self.memory_limit)
            .with_missing_chunks(self.missing_chunks)
            .with_fill(self.fill.as_deref())
    }
}

/// The values of a uint32 array without nulls.
pub(crate) fn sources(array: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let array: PyArray = array.extract()?;
    let values = array.array().as_primitive_opt::<UInt32Type>();
    values.map(|values| values.values().to_vec()).ok_or_else(|| PyTypeError::new_err("expected uint32"))
}

/// Reads `selections` (`zarrow.Selections` or an iterable) of `arrays`: a pyarrow array and the stats.
#[pyfunction]
#[pyo3(signature = (arrays, of, selections, indexing, promote, options))]
pub(crate) fn _read<'py>(
    py: Python<'py>,
    arrays: Vec<Bound<'py, Array>>,
    of: Option<Bound<'py, PyAny>>,
    selections: &Bound<'py, PyAny>,
    indexing: &str,
    promote: bool,
    options: Options,
) -> PyResult<(Bound<'py, PyAny>, ReadStats)> {
    let arrays: Vec<_> = arrays.iter().map(|array| array.get().inner.clone()).collect();
    let of = of.map(|of| sources(&of)).transpose()?;
    let selections = match selections.cast::<Selections>() {
        Ok(selections) => selections.get().inner.clone(),
        Err(_) => from_python(py, selections, indexing, Targets { arrays: &arrays, of: of.as_deref() })?,
    };
    read_interruptibly(py, options.to_core(), |options| match (&arrays[..], &of) {
        ([array], None) => array.read(&selections, options),
        (_, of) if promote => zarrow::Plan::promoting(&arrays, of.as_deref(), &selections)?.read(options),
        _ => zarrow::read_ragged(&arrays, of.as_deref().unwrap_or_default(), &selections, options),
    })
}

/// The C data interface of pyarrow takes lists of this depth.
const MAX_DEPTH: usize = 63;

/// How often a read looks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Reads on another thread, while this one, which Python hands signals to, waits for the end or for Ctrl-C.
pub(crate) fn read_interruptibly(
    py: Python<'_>,
    options: ReadOptions,
    read: impl FnOnce(&ReadOptions) -> zarrow::Result<zarrow::Ragged> + Send,
) -> PyResult<(Bound<'_, PyAny>, ReadStats)> {
    let cancel = Arc::new(AtomicBool::new(false));
    let options = options.with_cancel(cancel.clone());
    let mut interrupt = None;
    let outcome = py.detach(|| {
        let (done, wait) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            let options = &options;
            scope.spawn(move || {
                // A panic leaves nothing sent, which the other end sees.
                if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| read(options))) {
                    let _ = done.send(outcome);
                }
            });
            loop {
                match wait.recv_timeout(PATIENCE) {
                    Ok(outcome) => return Some(outcome),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {
                        let signals: PyResult<()> = Python::attach(|py| {
                            py.check_signals()?;
                            Ok(())
                        });
                        if let (None, Err(error)) = (&interrupt, signals) {
                            interrupt = Some(error);
                            cancel.store(true, Ordering::Relaxed);
                        }
                    }
                }
            }
        })
    });
    let ragged = match (interrupt, outcome) {
        (Some(interrupt), _) => return Err(interrupt),
        (None, Some(outcome)) => outcome.map_err(|error| to_python(py, &error))?,
        (None, None) => {
            return Err(exception(py, "ZarrowError", "the reading thread panicked; please report this".to_owned()));
        }
    };
    let stats = ReadStats { inner: *ragged.stats() };
    let lists = match ragged.element_type() {
        ElementType::Complex64 | ElementType::Complex128 => 1,
        ElementType::List(item) => 1 + usize::from(matches!(**item, ElementType::Complex64 | ElementType::Complex128)),
        _ => 0,
    };
    let depth = ragged.offsets().len() + lists;
    if depth > MAX_DEPTH {
        let message =
            format!("the selections keep {depth} axes; expected at most {MAX_DEPTH}: pyarrow takes no deeper lists");
        return Err(exception(py, "SelectionError", message));
    }
    let rows = PyArray::from_array_ref(ragged.into_array());
    // pyarrow takes it over through the C data interface: no copy.
    Ok((py.import("pyarrow")?.call_method1("array", (rows,))?, stats))
}

#[pymethods]
impl ReadStats {
    /// Selections read: the length of the result.
    #[getter]
    fn rows(&self) -> usize {
        self.inner.rows
    }

    /// Read chunks whose encoded bytes were fetched from the store.
    #[getter]
    fn chunks_fetched(&self) -> usize {
        self.inner.chunks_fetched
    }

    /// Read chunks that were decoded.
    #[getter]
    fn chunks_decoded(&self) -> usize {
        self.inner.chunks_decoded
    }

    /// Read chunks that the store does not hold; they read as the fill value.
    #[getter]
    fn chunks_missing(&self) -> usize {
        self.inner.chunks_missing
    }

    /// Encoded bytes fetched from the store, shard indices included.
    #[getter]
    fn bytes_fetched(&self) -> u64 {
        self.inner.bytes_fetched
    }

    /// Bytes that came out of decoding.
    #[getter]
    fn bytes_decoded(&self) -> u64 {
        self.inner.bytes_decoded
    }

    /// Bytes of the values in the result.
    #[getter]
    fn bytes_out(&self) -> u64 {
        self.inner.bytes_out
    }

    /// Parts of selections that were copied, each from one read chunk.
    #[getter]
    fn pieces(&self) -> usize {
        self.inner.pieces
    }

    /// The most bytes of encoded and decoded chunks that were held at once, beside the result.
    #[getter]
    fn bytes_held(&self) -> u64 {
        self.inner.bytes_held
    }

    /// Wall time of planning, in seconds.
    #[getter]
    fn plan_seconds(&self) -> f64 {
        self.inner.plan_time.as_secs_f64()
    }

    /// Wall time of fetching, decoding and copying, in seconds.
    #[getter]
    fn read_seconds(&self) -> f64 {
        self.inner.read_time.as_secs_f64()
    }

    /// All counters by name.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("rows", self.rows())?;
        dict.set_item("chunks_fetched", self.chunks_fetched())?;
        dict.set_item("chunks_decoded", self.chunks_decoded())?;
        dict.set_item("chunks_missing", self.chunks_missing())?;
        dict.set_item("bytes_fetched", self.bytes_fetched())?;
        dict.set_item("bytes_decoded", self.bytes_decoded())?;
        dict.set_item("bytes_out", self.bytes_out())?;
        dict.set_item("pieces", self.pieces())?;
        dict.set_item("bytes_held", self.bytes_held())?;
        dict.set_item("plan_seconds", self.plan_seconds())?;
        dict.set_item("read_seconds", self.read_seconds())?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let stats = &self.inner;
        format!(
            "<zarrow.ReadStats: {} rows in {} pieces from {} chunks; fetched {} ({} bytes), decoded {} ({} bytes), \
             missing {}; planned in {:.6} s, read in {:.6} s>",
            stats.rows,
            stats.pieces,
            stats.chunks_fetched + stats.chunks_missing,
            stats.chunks_fetched,
            stats.bytes_fetched,
            stats.chunks_decoded,
            stats.bytes_decoded,
            stats.chunks_missing,
            self.plan_seconds(),
            self.read_seconds(),
        )
    }
}
