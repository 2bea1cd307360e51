//! `zarrow.Array`: a handle on an open array.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use zarrow::{ElementType, ZarrFormat};

use crate::error::to_python;

/// A Zarr array that is open for reading. Made by `zarrow.open_array`; may be used from many threads.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Array {
    pub(crate) inner: zarrow::Array,
}

/// Opens the array in the directory `root`; `zarr_format` is 2, 3 or None for either.
#[pyfunction]
#[pyo3(signature = (root, zarr_format))]
pub(crate) fn _open_local(py: Python<'_>, root: PathBuf, zarr_format: Option<u8>) -> PyResult<Array> {
    let format = zarr_format.map(|format| if format == 2 { ZarrFormat::V2 } else { ZarrFormat::V3 });
    py.detach(|| zarrow::Array::open_local(&root, format))
        .map(|inner| Array { inner })
        .map_err(|error| to_python(py, &error))
}

#[pymethods]
impl Array {
    /// Length of each axis, in elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.inner.shape().len()
    }

    /// NumPy data type of one element, in native byte order; as in zarr-python, text is of NumPy's `StringDType`, and of
    /// objects where NumPy 1 has no such type.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if *self.inner.element_type() == ElementType::Utf8 {
            let dtypes = py.import("numpy.dtypes")?;
            if let Ok(string) = dtypes.getattr("StringDType") {
                return string.call0();
            }
            return py.import("numpy")?.call_method1("dtype", ("object",));
        }
        py.import("numpy")?.call_method1("dtype", (self.inner.element_type().numpy_name(),))
    }

    /// Zarr v3's name of the data type.
    #[getter]
    fn zarr_dtype(&self) -> &'static str {
        self.inner.element_type().zarr_name()
    }

    /// NumPy data type of the items of an element, where elements are lists; None elsewhere.
    #[getter]
    fn _item_dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ElementType::List(item) = self.inner.element_type() else { return Ok(None) };
        py.import("numpy")?.call_method1("dtype", (item.numpy_name(),)).map(Some)
    }

    /// Shape of a read chunk, in elements: a subchunk where the array is sharded.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.chunk_shape())
    }

    /// Shape of a shard, in elements, or None where the array is not sharded.
    #[getter]
    fn shards<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.inner.shard_shape().map(|shape| PyTuple::new(py, shape)).transpose()
    }

    /// The user attributes of the array.
    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // Parsed by Python, whose numbers have no bounds and which knows NaN.
        let document = self.inner.attributes_document();
        if document.is_empty() {
            return Ok(PyDict::new(py).into_any());
        }
        let document = py.import("json")?.call_method1("loads", (PyBytes::new(py, document),))?;
        if self.zarr_format() == 2 {
            return Ok(document);
        }
        let attributes = document.call_method1("get", ("attributes",))?;
        Ok(if attributes.is_none() { PyDict::new(py).into_any() } else { attributes })
    }

    /// The directory of the array.
    #[getter]
    fn path(&self) -> OsString {
        self.inner
            .directory()
            .map_or_else(|| self.inner.location().into(), |directory| directory.as_os_str().to_owned())
    }

    /// 2 or 3.
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
            PyString::new(py, self.inner.location()).repr()?,
            self.shape(py)?,
            self.zarr_dtype(),
            self.chunks(py)?,
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (OsString, u8))> {
        let open = py.import("zarrow._zarrow")?.getattr("_open_local")?;
        Ok((open, (self.path(), self.zarr_format())))
    }
}
