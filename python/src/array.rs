//! `zarrow.Array`: a handle on an open array.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use zarrow::{ElementType, OpenOptions, ZarrFormat};

use crate::attach::{called, detach};
use crate::error::to_python;
use crate::foreign::ForeignCodecs;
use crate::fork::Held;

/// A Zarr array that is open for reading. Made by `zarrow.open_array`; may be used from many threads.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Array {
    pub(crate) inner: zarrow::Array,
    /// What decodes chunks with codecs that zarrow does not have.
    pub(crate) foreign: Option<Py<PyAny>>,
    /// The arguments of `_open_remote`, if that made it.
    pub(crate) remote: Option<Held<Py<PyDict>>>,
}

/// Opens the array in the directory `root`, or at node path `inside` of the zip file `root`; `zarr_format` is 2, 3 or
/// None for either. Of its elements, `fields` are read, or all. `foreign` makes decoders for codecs that zarrow does not
/// have.
#[pyfunction]
#[pyo3(signature = (root, zarr_format, fields = None, foreign = None, inside = None))]
pub(crate) fn _open_local(
    py: Python<'_>,
    root: PathBuf,
    zarr_format: Option<u8>,
    fields: Option<Vec<String>>,
    foreign: Option<Py<PyAny>>,
    inside: Option<String>,
) -> PyResult<Array> {
    let _inside = called(py);
    let format = zarr_format.map(|format| if format == 2 { ZarrFormat::V2 } else { ZarrFormat::V3 });
    let codecs = foreign.as_ref().map(|foreign| Arc::new(ForeignCodecs::new(foreign.clone_ref(py))) as Arc<_>);
    let options = OpenOptions::from(format).with_foreign_codecs(codecs);
    let open = || {
        let array = match &inside {
            Some(path) => zarrow::Array::open_zip(&root, path, options)?,
            None => zarrow::Array::open_local(&root, options)?,
        };
        let Some(fields) = fields else { return Ok(array) };
        array.with_fields(&fields.iter().map(String::as_str).collect::<Vec<_>>())
    };
    detach(py, open).map(|inner| Array { inner, foreign, remote: None }).map_err(|error| to_python(py, &error))
}

#[pymethods]
impl Array {
    /// Length of each axis, in elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let _inside = called(py);
        PyTuple::new(py, self.inner.shape())
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.inner.shape().len()
    }

    /// NumPy data type that holds one element, in native byte order; as in zarr-python, text of variable length is of
    /// NumPy's `StringDType`, and of objects where NumPy 1 has no such type.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = called(py);
        py.import("numpy")?.call_method1("dtype", (numpy_dtype(py, self.inner.element_type())?,))
    }

    /// Zarr v3's name of the data type.
    #[getter]
    fn zarr_dtype(&self) -> Cow<'static, str> {
        self.inner.element_type().zarr_name()
    }

    /// The fields that are read of a structured data type, or None if all are.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let _inside = called(py);
        self.inner.fields().map(|names| PyTuple::new(py, names)).transpose()
    }

    /// The same array, of whose structured elements only some fields are read.
    fn _with_fields(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Self> {
        let _inside = called(py);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let inner = self.inner.with_fields(&names).map_err(|error| to_python(py, &error))?;
        Ok(Self {
            inner,
            foreign: self.foreign.as_ref().map(|foreign| foreign.clone_ref(py)),
            remote: match &self.remote {
                Some(remote) => Some(Held::new(remote.get(py)?.clone().unbind())),
                None => None,
            },
        })
    }

    /// Whether elements differ in length.
    #[getter]
    fn _is_variable(&self) -> bool {
        self.inner.element_type().is_variable()
    }

    /// Whether the array lies on this machine.
    #[getter]
    fn _is_local(&self) -> bool {
        self.remote.is_none()
    }

    /// NumPy data type of the items of an element, where elements are lists; None elsewhere.
    #[getter]
    fn _item_dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _inside = called(py);
        let ElementType::List(item) = self.inner.element_type() else { return Ok(None) };
        py.import("numpy")?.call_method1("dtype", (item.numpy_name(),)).map(Some)
    }

    /// Shape of a read chunk, in elements: a subchunk where the array is sharded. Not where they differ in shape.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let _inside = called(py);
        if !self.inner.has_equal_chunks() {
            return Err(differing(&self.inner, "chunks", "read_chunk_sizes"));
        }
        PyTuple::new(py, self.inner.chunk_shape())
    }

    /// Shape of a shard, in elements, or None where the array is not sharded. Not where they differ in shape.
    #[getter]
    fn shards<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let _inside = called(py);
        if !self.inner.has_equal_shards() {
            return Err(differing(&self.inner, "shards", "write_chunk_sizes"));
        }
        self.inner.shard_shape().map(|shape| PyTuple::new(py, shape)).transpose()
    }

    /// The length of each read chunk, for each axis, cut where the array ends.
    #[getter]
    fn read_chunk_sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let _inside = called(py);
        sizes(py, &self.inner, zarrow::Array::chunk_lengths)
    }

    /// The length of what each key of the store holds, for each axis, cut where the array ends.
    #[getter]
    fn write_chunk_sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let _inside = called(py);
        sizes(py, &self.inner, zarrow::Array::shard_lengths)
    }

    /// The user attributes of the array.
    #[getter]
    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = called(py);
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

    /// The directory of the array; in a zip file, the path of that and the path in it.
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
        let _inside = called(py);
        let shape = |shape: &[u64], is_equal: bool| -> PyResult<String> {
            Ok(if is_equal { PyTuple::new(py, shape)?.to_string() } else { "<variable>".to_owned() })
        };
        let shards = match self.inner.shard_shape() {
            Some(shards) => format!(", shards={}", shape(shards, self.inner.has_equal_shards())?),
            None => String::new(),
        };
        Ok(format!(
            "<zarrow.Array {} shape={} dtype={} chunks={}{shards}>",
            PyString::new(py, self.inner.location()).repr()?,
            self.shape(py)?,
            self.zarr_dtype(),
            shape(self.inner.chunk_shape(), self.inner.has_equal_chunks())?,
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let _inside = called(py);
        if let Some(arguments) = &self.remote {
            return crate::remote::reduce(py, arguments, self.fields(py)?);
        }
        let open = py.import("zarrow._zarrow")?.getattr("_open_local")?;
        let (root, inside) = match self.inner.zip_file() {
            Some(file) => (file.as_os_str().to_owned(), Some(self.inner.node_path())),
            None => (self.path(), None),
        };
        Ok((open, (root, self.zarr_format(), self.fields(py)?, &self.foreign, inside).into_pyobject(py)?))
    }
}

/// What is wrong with asking for one shape where there are several, in the words of zarr-python.
fn differing(array: &zarrow::Array, asked: &str, instead: &str) -> PyErr {
    PyNotImplementedError::new_err(format!(
        "array '{}': its {asked} differ in shape; `{instead}` has the lengths of all",
        array.location()
    ))
}

/// For each axis, the lengths that `of` gives.
fn sizes<'py>(
    py: Python<'py>,
    array: &zarrow::Array,
    of: fn(&zarrow::Array, usize) -> zarrow::Result<Vec<u64>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let axis = |axis| PyTuple::new(py, of(array, axis).map_err(|error| to_python(py, &error))?);
    PyTuple::new(py, (0..array.shape().len()).map(axis).collect::<PyResult<Vec<_>>>()?)
}

/// What `numpy.dtype` makes the type of.
fn numpy_dtype<'py>(py: Python<'py>, element: &ElementType) -> PyResult<Bound<'py, PyAny>> {
    match element {
        ElementType::Struct(structure) => {
            let fields = PyList::empty(py);
            for member in structure.members() {
                let (name, dtype) = (member.name(), numpy_dtype(py, member.element_type())?);
                if member.shape().is_empty() {
                    fields.append((name, dtype))?;
                } else {
                    fields.append((name, dtype, PyTuple::new(py, member.shape())?))?;
                }
            }
            Ok(fields.into_any())
        }
        ElementType::Optional(inner) => numpy_dtype(py, inner),
        ElementType::Utf8 => match py.import("numpy.dtypes")?.getattr("StringDType") {
            Ok(string) => string.call0(),
            Err(_) => Ok(PyString::new(py, "object").into_any()),
        },
        _ => Ok(PyString::new(py, &element.numpy_name()).into_any()),
    }
}
