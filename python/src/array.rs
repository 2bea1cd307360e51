//! `zarrow.Array`: a handle on an open array.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use zarrow::ZarrFormat;

use crate::error::to_python;

#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Array {
    pub(crate) inner: zarrow::Array,
}

/// Opens the array in the directory `root`; `zarr_format` is 2, 3 or None for either.
#[pyfunction]
#[pyo3(signature = (root, zarr_format))]
pub(crate) fn _open_local(py: Python<'_>, root: String, zarr_format: Option<u8>) -> PyResult<Array> {
    let format = zarr_format.map(|format| if format == 2 { ZarrFormat::V2 } else { ZarrFormat::V3 });
    py.detach(|| zarrow::Array::open_local(&root, format))
        .map(|inner| Array { inner })
        .map_err(|error| to_python(py, &error))
}

#[pymethods]
impl Array {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.inner.shape().len()
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (self.zarr_dtype(),))
    }

    #[getter]
    fn zarr_dtype(&self) -> &'static str {
        self.inner.element_type().zarr_name()
    }

    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.chunk_shape())
    }

    #[getter]
    fn shards<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.inner.shard_shape().map(|shape| PyTuple::new(py, shape)).transpose()
    }

    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = serde_json::to_string(self.inner.attributes())
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

    #[getter]
    fn path(&self) -> &str {
        self.inner.location()
    }

    #[getter]
    fn zarr_format(&self) -> u8 {
        match self.inner.format() {
            ZarrFormat::V2 => 2,
            ZarrFormat::V3 => 3,
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shards = match self.shards(py)? {
            Some(shards) => format!(", shards={shards}"),
            None => String::new(),
        };
        Ok(format!(
            "<zarrow.Array {} shape={} dtype={} chunks={}{shards}>",
            PyString::new(py, self.path()).repr()?,
            self.shape(py)?,
            self.zarr_dtype(),
            self.chunks(py)?,
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, u8))> {
        let open = py.import("zarrow._zarrow")?.getattr("_open_local")?;
        Ok((open, (self.path().to_owned(), self.zarr_format())))
    }
}
