//! Selections from Python: columns of bounds, or lists of slices and integers.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyFloat, PyList, PySlice, PyString, PyTuple};
use pyo3_arrow::PyArray;
use zarrow::Item;

use crate::error::{exception, to_python};

/// Many selections in columns. Made by `zarrow.ranges` and `zarrow.boxes`.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Selections {
    pub(crate) inner: zarrow::Selections,
    /// For the repr: which function made it, and of how many axes.
    kind: &'static str,
    axes: usize,
}

#[pymethods]
impl Selections {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __repr__(&self) -> String {
        format!("<zarrow.Selections: {} {} on {} axes>", self.inner.len(), self.kind, self.axes)
            .replace("on 1 axes", "on the first axis")
    }
}

/// Ranges on the first axis, from int64 columns without nulls.
#[pyfunction]
#[pyo3(signature = (starts, stops))]
pub(crate) fn _ranges(py: Python<'_>, starts: PyArray, stops: PyArray) -> PyResult<Selections> {
    columns(py, "ranges", 1, &starts, &stops)
}

/// Boxes on the first `ndim` axes, from int64 columns of shape (`rows`, `ndim`) in C order, without nulls.
#[pyfunction]
#[pyo3(signature = (starts, stops, rows, ndim))]
pub(crate) fn _boxes(
    py: Python<'_>,
    starts: PyArray,
    stops: PyArray,
    rows: usize,
    ndim: usize,
) -> PyResult<Selections> {
    if ndim == 0 {
        let whole = std::iter::repeat_n([], rows);
        return Ok(Selections { inner: zarrow::Selections::items(whole), kind: "boxes", axes: 0 });
    }
    columns(py, "boxes", ndim, &starts, &stops)
}

fn columns(py: Python<'_>, kind: &'static str, axes: usize, starts: &PyArray, stops: &PyArray) -> PyResult<Selections> {
    let column = |array: &PyArray| {
        let values = array.array().as_primitive_opt::<Int64Type>();
        let values = values.filter(|values| arrow_array::Array::null_count(*values) == 0);
        values.map(|values| values.values().clone()).ok_or_else(|| PyTypeError::new_err("expected int64 without nulls"))
    };
    zarrow::Selections::boxes(axes, column(starts)?, column(stops)?)
        .map(|inner| Selections { inner, kind, axes })
        .map_err(|error| to_python(py, &error))
}

/// Selections from an iterable of tuples of slices, integers and Ellipsis, or of single such items.
pub(crate) fn from_python(selections: &Bound<'_, PyAny>) -> PyResult<zarrow::Selections> {
    let mut rows: Vec<Vec<Item>> = Vec::new();
    let iterator = selections.try_iter().map_err(|_| {
        let got = selections.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "selections is of type {got}; expected a list of selections, zarrow.ranges(...) or zarrow.boxes(...)"
        ))
    })?;
    for selection in iterator {
        let selection = selection?;
        let row = rows.len();
        let items = match selection.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().map(|item| to_item(&item, row)).collect::<PyResult<_>>()?,
            Err(_) => vec![to_item(&selection, row)?],
        };
        rows.push(items);
    }
    Ok(zarrow::Selections::items(rows))
}

fn to_item(item: &Bound<'_, PyAny>, row: usize) -> PyResult<Item> {
    let py = item.py();
    if let Ok(slice) = item.cast::<PySlice>() {
        let step = slice.getattr("step")?;
        if !step.is_none() && bound(&step, row)? != Some(1) {
            let message = format!("selection {row}: a slice with step {step}; expected no step, or 1");
            return Err(exception(py, "UnsupportedError", message));
        }
        return Ok(Item::Slice {
            start: bound(&slice.getattr("start")?, row)?,
            stop: bound(&slice.getattr("stop")?, row)?,
        });
    }
    if item.is(PyEllipsis::get(py)) {
        return Ok(Item::Ellipsis);
    }
    let class = if item.is_none() || item.is_instance_of::<PyBool>() || item.is_instance_of::<PyList>() {
        "UnsupportedError"
    } else if item.is_instance_of::<PyFloat>() || item.is_instance_of::<PyString>() {
        "SelectionError"
    } else {
        match item.extract::<i64>() {
            Ok(index) => return Ok(Item::Index(index)),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) => {
                let message = format!("selection {row}: index {item} is out of bounds for any axis");
                return Err(exception(py, "SelectionError", message));
            }
            // What has a length is an index array or a mask, which is valid elsewhere.
            Err(_) if item.len().is_ok() => "UnsupportedError",
            Err(_) => "SelectionError",
        }
    };
    let got = item.get_type().name()?;
    Err(exception(py, class, format!("selection {row}: an item of type {got}; expected slices, integers and Ellipsis")))
}

/// A bound of a slice. NumPy clips bounds of any size.
fn bound(value: &Bound<'_, PyAny>, row: usize) -> PyResult<Option<i64>> {
    let py = value.py();
    if value.is_none() {
        return Ok(None);
    }
    match value.extract::<i64>() {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) => {
            Ok(Some(if value.lt(0)? { i64::MIN } else { i64::MAX }))
        }
        Err(_) => {
            let got = value.get_type().name()?;
            let message = format!("selection {row}: a slice bound of type {got}; expected integers or None");
            Err(exception(py, "SelectionError", message))
        }
    }
}
