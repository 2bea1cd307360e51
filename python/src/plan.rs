//! `zarrow.Plan`: what a read will do.

use arrow_array::{Int64Array, RecordBatch};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3_arrow::{PyArray, PyRecordBatch};
use zarrow::PlanOptions;

use crate::array::Array;
use crate::attach::called;
use crate::error::to_python;
use crate::interrupt::interruptibly;
use crate::read::{Options, Watch, read_interruptibly};
use crate::selections::Selections;

/// What a read will do. Made by `zarrow.plan`.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Plan {
    inner: zarrow::Plan,
    /// The arguments of `_plan`, for pickle.
    made: Py<PyTuple>,
    options: Options,
}

/// Plans a read of `selections`, each from the array of its entry in the uint32 array `sources`.
#[pyfunction]
#[pyo3(signature = (*args))]
pub(crate) fn _plan(py: Python<'_>, args: Bound<'_, PyTuple>) -> PyResult<Plan> {
    type Args<'py> = (Vec<Bound<'py, Array>>, Option<Bound<'py, PyAny>>, Bound<'py, Selections>, bool, Options);
    let _inside = called(py);
    let (arrays, sources, selections, promote, options): Args<'_> = args.extract()?;
    let arrays: Vec<_> = arrays.iter().map(|array| array.get().inner.clone()).collect();
    let sources = sources.map(|sources| crate::read::sources(&sources)).transpose()?;
    let selections = &selections.get().inner;
    let inner = interruptibly(py, None, |cancel| {
        let options = PlanOptions::default().with_promote(promote).with_cancel(cancel);
        zarrow::Plan::new(&arrays, sources.as_deref(), selections, &options)
    })?;
    Ok(Plan { inner, made: args.unbind(), options })
}

#[pymethods]
impl Plan {
    /// Number of rows of the result.
    #[getter]
    fn rows(&self) -> usize {
        self.inner.rows()
    }

    /// Shape of each row in the result: int64 of shape (rows, kept axes).
    #[getter]
    fn row_shapes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = called(py);
        let selections = self.inner.selections();
        let extents = (0..selections.len()).flat_map(|row| selections.extents(row));
        let extents: Int64Array = extents.map(|extent| extent as i64).collect();
        let flat =
            py.import("pyarrow")?.call_method1("array", (PyArray::from_array_ref(std::sync::Arc::new(extents)),))?;
        flat.call_method0("to_numpy")?.call_method1("reshape", (selections.len(), selections.levels()))
    }

    /// Bytes of the values of the result.
    #[getter]
    fn bytes_out(&self) -> u64 {
        self.inner.bytes_out()
    }

    /// Read chunks that are touched.
    #[getter]
    fn read_chunks(&self) -> usize {
        self.inner.read_chunks()
    }

    /// Bytes of the touched read chunks, decoded.
    #[getter]
    fn bytes_to_decode(&self) -> u64 {
        self.inner.bytes_to_decode()
    }

    /// Parts of selections, each in one read chunk.
    #[getter]
    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    /// Bytes to decode for each byte of the result.
    #[getter]
    fn amplification(&self) -> f64 {
        self.inner.amplification()
    }

    /// The read chunks as a pyarrow record batch.
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = called(py);
        let batch: RecordBatch = self.inner.chunks().map_err(|error| to_python(py, &error))?;
        py.import("pyarrow")?.call_method1("record_batch", (PyRecordBatch::new(batch),))
    }

    /// Carries the plan out: a pyarrow array. Threads and memory limit are those of the plan where they are None.
    #[pyo3(signature = (*, return_stats = false, threads = None, memory_limit = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        return_stats: bool,
        threads: Option<usize>,
        memory_limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _inside = called(py);
        let mut options = self.options.to_core();
        if threads.is_some() {
            options = options.with_threads(threads);
        }
        if memory_limit.is_some() {
            options = options.with_memory_limit(memory_limit);
        }
        let (rows, stats) = read_interruptibly(py, options, &Watch::default(), |options| self.inner.read(options))?;
        Ok(if return_stats { (rows, stats).into_pyobject(py)?.into_any() } else { rows })
    }

    fn __repr__(&self) -> String {
        let plan = &self.inner;
        let arrays = match plan.arrays().len() {
            1 => String::new(),
            n => format!(" of {n} arrays"),
        };
        format!(
            "<zarrow.Plan: {} rows of {} bytes from {} read chunks{arrays} in {} pieces; {} bytes to decode, {:.2} for \
             each of the result>",
            plan.rows(),
            plan.bytes_out(),
            plan.read_chunks(),
            plan.pieces(),
            plan.bytes_to_decode(),
            plan.amplification(),
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let _inside = called(py);
        Ok((py.import("zarrow._zarrow")?.getattr("_plan")?, self.made.bind(py).clone()))
    }
}
