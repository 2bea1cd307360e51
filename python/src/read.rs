//! The read itself, and what it did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::{PyArray, PyRecordBatch};
use zarrow::{MissingChunks, PlanOptions, Progress, ReadOptions};

use crate::array::Array;
use crate::attach::{called, detach};
use crate::cache::ChunkCache;
use crate::error::exception;
use crate::interrupt::{Canceller, Teller, interruptibly};
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
    concurrency: Option<usize>,
    max_gap: Option<usize>,
    timeout: Option<f64>,
}

/// What watches over one read, or ends it.
#[derive(FromPyObject, Default)]
#[pyo3(from_item_all)]
pub(crate) struct Watch<'py> {
    /// Called with the chunks and the bytes that are done, each followed by all there are to do.
    progress: Option<Bound<'py, PyAny>>,
    cancel: Option<Bound<'py, Canceller>>,
    cache: Option<Bound<'py, ChunkCache>>,
    /// Seconds that opening took of the timeout.
    elapsed: f64,
}

impl<'py> FromPyObject<'_, 'py> for Options {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Parts = (Option<usize>, Option<usize>, String, Option<Vec<u8>>, Option<usize>, Option<usize>, Option<f64>);
        let (threads, memory_limit, missing_chunks, fill, concurrency, max_gap, timeout): Parts = options.extract()?;
        let missing_chunks = match missing_chunks.as_str() {
            "fill" => MissingChunks::Fill,
            "null" => MissingChunks::Null,
            "error" => MissingChunks::Error,
            other => return Err(PyValueError::new_err(format!("missing_chunks is {other:?}"))),
        };
        Ok(Self { threads, memory_limit, missing_chunks, fill, concurrency, max_gap, timeout })
    }
}

impl Options {
    pub(crate) fn to_core(&self) -> ReadOptions {
        ReadOptions::default()
            .with_threads(self.threads)
            .with_memory_limit(self.memory_limit)
            .with_missing_chunks(self.missing_chunks)
            .with_fill(self.fill.as_deref())
            .with_concurrency(self.concurrency)
            .with_max_gap(self.max_gap)
            .with_timeout(self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }
}

/// The values of a uint32 array without nulls.
pub(crate) fn sources(array: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let array: PyArray = array.extract()?;
    let values = array.array().as_primitive_opt::<UInt32Type>();
    values.map(|values| values.values().to_vec()).ok_or_else(|| PyTypeError::new_err("expected uint32"))
}

/// Give memory that is kept for results to come back to the system.
///
/// Memory of results that are gone, from 256 KiB each up to 1 GiB in all, is kept for those to
/// come: to be given fresh memory costs a read from a warm cache about a fifth of its time. It
/// counts as memory of this process, though the system may take it back at any time where it can
/// be told so (``MADV_FREE`` on Linux and macOS; elsewhere 32 MiB are kept). A read with a
/// `memory_limit` lets go of what it does not take for its result.
///
///     >>> import zarrow
///     >>> zarrow.release_unused()
#[pyfunction]
pub(crate) fn release_unused(py: Python<'_>) {
    detach(py, zarrow::release_unused);
}

/// Reads `selections` (`zarrow.Selections` or an iterable) of `arrays`: a pyarrow array and the stats.
#[pyfunction]
#[pyo3(signature = (arrays, of, selections, meaning, options, watch))]
pub(crate) fn _read<'py>(
    py: Python<'py>,
    arrays: Vec<Bound<'py, Array>>,
    of: Option<Bound<'py, PyAny>>,
    selections: &Bound<'py, PyAny>,
    meaning: (String, bool),
    options: Options,
    watch: Watch<'py>,
) -> PyResult<(Bound<'py, PyAny>, ReadStats)> {
    let _inside = called(py);
    let arrays: Vec<_> = arrays.iter().map(|array| array.get().inner.clone()).collect();
    let (indexing, promote) = meaning;
    let of = of.map(|of| sources(&of)).transpose()?;
    let selections = match selections.cast::<Selections>() {
        Ok(selections) => selections.get().inner.clone(),
        Err(_) => from_python(py, selections, &indexing, Targets { arrays: &arrays, of: of.as_deref() })?,
    };
    read_interruptibly(py, options.to_core(), &watch, |options| match (&arrays[..], &of) {
        ([array], None) => array.read(&selections, options),
        (_, of) if promote => {
            let how = PlanOptions::from(options).with_promote(true);
            zarrow::Plan::new(&arrays, of.as_deref(), &selections, &how)?.read(options)
        }
        _ => zarrow::read_ragged(&arrays, of.as_deref().unwrap_or_default(), &selections, options),
    })
}

/// Reads `selections` (`zarrow.Selections` or an iterable) of each of `arrays`: a pyarrow record batch with a column of
/// that name for each, and the stats.
#[pyfunction]
#[pyo3(signature = (arrays, selections, indexing, options, watch))]
pub(crate) fn _read_batch<'py>(
    py: Python<'py>,
    arrays: Vec<(String, Bound<'py, Array>)>,
    selections: &Bound<'py, PyAny>,
    indexing: &str,
    options: Options,
    watch: Watch<'py>,
) -> PyResult<(Bound<'py, PyAny>, ReadStats)> {
    let _inside = called(py);
    let (names, arrays): (Vec<String>, Vec<zarrow::Array>) =
        arrays.into_iter().map(|(name, array)| (name, array.get().inner.clone())).unzip();
    // What is for all of them is for the one with the fewest axes.
    let least = arrays.iter().min_by_key(|array| array.shape().len());
    let targets = Targets { arrays: least.map(std::slice::from_ref).unwrap_or_default(), of: None };
    let selections = match selections.cast::<Selections>() {
        Ok(selections) => selections.get().inner.clone(),
        Err(_) => from_python(py, selections, indexing, targets)?,
    };
    let arrays: Vec<_> = names.iter().map(String::as_str).zip(&arrays).collect();
    let (batch, inner) =
        watched(py, options.to_core(), &watch, |options| zarrow::read_batch_with_stats(&arrays, &selections, options))?;
    for column in batch.columns() {
        check_depth(py, column.data_type(), MAX_DEPTH - 1)?;
    }
    Ok((py.import("pyarrow")?.call_method1("record_batch", (PyRecordBatch::new(batch),))?, ReadStats { inner }))
}

/// The C data interface of pyarrow takes lists of this depth, in an array; a record batch is one level more.
const MAX_DEPTH: usize = 63;

/// How many lists or structs lie in each other.
fn depth(data_type: &DataType) -> usize {
    match data_type {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => 1 + depth(item.data_type()),
        DataType::Struct(fields) => 1 + fields.iter().map(|field| depth(field.data_type())).max().unwrap_or(0),
        _ => 0,
    }
}

fn check_depth(py: Python<'_>, data_type: &DataType, most: usize) -> PyResult<()> {
    let depth = depth(data_type);
    if depth <= most {
        return Ok(());
    }
    let message = format!("the selections keep {depth} axes; expected at most {most}: pyarrow takes no deeper lists");
    Err(exception(py, "SelectionError", message))
}

/// Reads, watched over.
fn watched<T: Send>(
    py: Python<'_>,
    options: ReadOptions,
    watch: &Watch<'_>,
    read: impl FnOnce(&ReadOptions) -> zarrow::Result<T> + Send,
) -> PyResult<T> {
    let progress = Arc::new(Progress::default());
    let teller = watch.progress.as_ref().map(|callable| Teller { callable: callable.clone().unbind(), progress });
    let mut options = options.with_progress(teller.as_ref().map(|teller| teller.progress.clone()));
    let elapsed = Duration::try_from_secs_f64(watch.elapsed).unwrap_or_default();
    options = options.with_time_since(Instant::now().checked_sub(elapsed));
    if let Some(cache) = &watch.cache {
        options = options.with_cache(Some(cache.get().inner.clone()));
    }
    if let Some(canceller) = &watch.cancel {
        options = options.with_cancel(canceller.get().0.clone());
    }
    interruptibly(py, teller.as_ref(), |cancel| read(&options.with_cancel(cancel)))
}

/// Reads, and hands the result to pyarrow.
pub(crate) fn read_interruptibly<'py>(
    py: Python<'py>,
    options: ReadOptions,
    watch: &Watch<'_>,
    read: impl FnOnce(&ReadOptions) -> zarrow::Result<zarrow::Ragged> + Send,
) -> PyResult<(Bound<'py, PyAny>, ReadStats)> {
    let ragged = watched(py, options, watch, read)?;
    let stats = ReadStats { inner: *ragged.stats() };
    let rows = ragged.into_array();
    check_depth(py, rows.data_type(), MAX_DEPTH)?;
    let rows = PyArray::from_array_ref(rows);
    // pyarrow takes it over through the C data interface: no copy.
    Ok((py.import("pyarrow")?.call_method1("array", (rows,))?, stats))
}

/// The stats of which `values` is the `as_dict`, for pickle.
#[pyfunction]
pub(crate) fn _read_stats(values: &Bound<'_, PyDict>) -> PyResult<ReadStats> {
    let _inside = called(values.py());
    let get = |name: &str| values.as_any().get_item(name);
    let count = |name: &str| get(name)?.extract::<usize>();
    let seconds = |name: &str| Ok::<_, PyErr>(Duration::try_from_secs_f64(get(name)?.extract()?).unwrap_or_default());
    let mut inner = zarrow::ReadStats::default();
    inner.rows = count("rows")?;
    inner.chunks_fetched = count("chunks_fetched")?;
    inner.chunks_decoded = count("chunks_decoded")?;
    inner.chunks_foreign = count("chunks_foreign")?;
    inner.chunks_missing = count("chunks_missing")?;
    inner.chunks_cached = count("chunks_cached")?;
    inner.bytes_fetched = get("bytes_fetched")?.extract()?;
    inner.bytes_decoded = get("bytes_decoded")?.extract()?;
    inner.bytes_out = get("bytes_out")?.extract()?;
    inner.pieces = count("pieces")?;
    inner.requests = count("requests")?;
    inner.max_in_flight = count("max_in_flight")?;
    inner.bytes_held = get("bytes_held")?.extract()?;
    inner.plan_time = seconds("plan_seconds")?;
    inner.read_time = seconds("read_seconds")?;
    Ok(ReadStats { inner })
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

    /// Of these, read chunks that zarr-python decoded, because zarrow does not have their codecs.
    #[getter]
    fn chunks_foreign(&self) -> usize {
        self.inner.chunks_foreign
    }

    /// Read chunks that the store does not hold; they read as the fill value.
    #[getter]
    fn chunks_missing(&self) -> usize {
        self.inner.chunks_missing
    }

    /// Read chunks that were found decoded in a cache.
    #[getter]
    fn chunks_cached(&self) -> usize {
        self.inner.chunks_cached
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

    /// Requests to a store that is not on this machine.
    #[getter]
    fn requests(&self) -> usize {
        self.inner.requests
    }

    /// The most requests that were in flight at once.
    #[getter]
    fn max_in_flight(&self) -> usize {
        self.inner.max_in_flight
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
        let _inside = called(py);
        let dict = PyDict::new(py);
        dict.set_item("rows", self.rows())?;
        dict.set_item("chunks_fetched", self.chunks_fetched())?;
        dict.set_item("chunks_decoded", self.chunks_decoded())?;
        dict.set_item("chunks_foreign", self.chunks_foreign())?;
        dict.set_item("chunks_missing", self.chunks_missing())?;
        dict.set_item("chunks_cached", self.chunks_cached())?;
        dict.set_item("bytes_fetched", self.bytes_fetched())?;
        dict.set_item("bytes_decoded", self.bytes_decoded())?;
        dict.set_item("bytes_out", self.bytes_out())?;
        dict.set_item("requests", self.requests())?;
        dict.set_item("max_in_flight", self.max_in_flight())?;
        dict.set_item("pieces", self.pieces())?;
        dict.set_item("bytes_held", self.bytes_held())?;
        dict.set_item("plan_seconds", self.plan_seconds())?;
        dict.set_item("read_seconds", self.read_seconds())?;
        Ok(dict)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let _inside = called(py);
        Ok((py.import("zarrow._zarrow")?.getattr("_read_stats")?, (self.as_dict(py)?,)))
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
