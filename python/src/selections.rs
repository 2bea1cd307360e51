//! Selections from Python: columns of bounds or indices, or lists of what NumPy indexes with.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, BooleanArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyFloat, PyInt, PySlice, PyString, PyTuple};
use pyo3_arrow::PyArray;
use zarrow::{Indexing, Indices, Item, Mask, OutOfBounds, Points};

use crate::array::Array;
use crate::attach::called;
use crate::error::{exception, to_python};

/// Many selections. Made by `zarrow.ranges` and its like.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Selections {
    pub(crate) inner: zarrow::Selections,
    /// For the repr: which function made it, and of what.
    kind: &'static str,
    /// The function of this module and its arguments, for pickle.
    made: (&'static str, Py<PyTuple>),
}

#[pymethods]
impl Selections {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __repr__(&self) -> String {
        format!("<zarrow.Selections: {} {}>", self.inner.len(), self.kind)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let _inside = called(py);
        Ok((py.import("zarrow._zarrow")?.getattr(self.made.0)?, self.made.1.bind(py).clone()))
    }
}

/// Boxes on the axes `first..first + ndim`, from int64 columns of shape (`rows`, `ndim`) in C order, without nulls.
#[pyfunction]
#[pyo3(signature = (*args))]
pub(crate) fn _boxes(py: Python<'_>, args: Bound<'_, PyTuple>) -> PyResult<Selections> {
    type Args<'py> =
        (String, Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, usize, usize, usize, String);
    let _inside = called(py);
    let (kind, starts, stops, steps, rows, ndim, first, out_of_bounds): Args<'_> = args.extract()?;
    let inner = if ndim == 0 {
        zarrow::Selections::items(std::iter::repeat_n([], rows))
    } else {
        let selections = zarrow::Selections::boxes(ndim, integers(&starts)?, integers(&stops)?);
        let selections = selections.and_then(|selections| match &steps {
            Some(steps) => selections.with_steps(integers(steps).unwrap_or_default()),
            None => Ok(selections),
        });
        selections.map_err(|error| to_python(py, &error))?.with_first_axis(first)
    };
    let inner = inner.with_out_of_bounds(policy(&out_of_bounds)?);
    let kind = match kind.as_str() {
        "ranges" => "ranges",
        "windows" => "windows",
        "rows" => "rows",
        _ => "boxes",
    };
    Ok(Selections { inner, kind, made: ("_boxes", args.unbind()) })
}

/// Lists of indices of `axis`: int64 offsets and values without nulls, and a bool array that is false for null lists.
#[pyfunction]
#[pyo3(signature = (*args))]
pub(crate) fn _lists(py: Python<'_>, args: Bound<'_, PyTuple>) -> PyResult<Selections> {
    let _inside = called(py);
    let (offsets, values, valid, axis): (Bound<'_, PyAny>, Bound<'_, PyAny>, Option<PyArray>, usize) =
        args.extract()?;
    let valid = valid.map(|valid| Ok::<_, PyErr>(NullBuffer::new(booleans(&valid)?.values().clone()))).transpose()?;
    let inner = zarrow::Selections::indices(integers(&offsets)?, integers(&values)?)
        .map(|selections| selections.with_first_axis(axis))
        .and_then(|selections| selections.with_nulls(valid))
        .map_err(|error| to_python(py, &error))?;
    Ok(Selections { inner, kind: "lists of indices", made: ("_lists", args.unbind()) })
}

/// Selections of a list: tuples of what NumPy indexes with, single items, transforms, or None. Each reads from the array
/// of its entry in the uint32 array `of`, which matters to transforms.
#[pyfunction]
#[pyo3(signature = (*args))]
pub(crate) fn _items(py: Python<'_>, args: Bound<'_, PyTuple>) -> PyResult<Selections> {
    type Args<'py> = (Bound<'py, PyAny>, String, Vec<Bound<'py, Array>>, Option<Bound<'py, PyAny>>);
    let _inside = called(py);
    let (selections, indexing, arrays, of): Args<'_> = args.extract()?;
    let arrays: Vec<_> = arrays.iter().map(|array| array.get().inner.clone()).collect();
    let of = of.map(|of| crate::read::sources(&of)).transpose()?;
    let inner = from_python(py, &selections, &indexing, Targets { arrays: &arrays, of: of.as_deref() })?;
    Ok(Selections { inner, kind: "selections", made: ("_items", args.unbind()) })
}

/// The arrays that selections are for.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub(crate) arrays: &'a [zarrow::Array],
    /// The array of each selection; without it, there is one array.
    pub(crate) of: Option<&'a [u32]>,
}

impl<'a> Targets<'a> {
    /// Shape of the array that `row` reads from, if it has one.
    fn shape(&self, row: usize) -> Option<&'a [u64]> {
        let of = self.of.map_or(Some(0), |of| of.get(row).map(|&of| of as usize))?;
        self.arrays.get(of).map(zarrow::Array::shape)
    }
}

fn integers(array: &Bound<'_, PyAny>) -> PyResult<ScalarBuffer<i64>> {
    let array: PyArray = array.extract()?;
    let values = array.array().as_primitive_opt::<Int64Type>();
    let values = values.filter(|values| arrow_array::Array::null_count(*values) == 0);
    values.map(|values| values.values().clone()).ok_or_else(|| PyTypeError::new_err("expected int64 without nulls"))
}

fn booleans(array: &PyArray) -> PyResult<BooleanArray> {
    let values = array.array().as_boolean_opt().filter(|values| values.null_count() == 0);
    values.cloned().ok_or_else(|| PyTypeError::new_err("expected bool without nulls"))
}

fn policy(name: &str) -> PyResult<OutOfBounds> {
    match name {
        "error" => Ok(OutOfBounds::Error),
        "clip" => Ok(OutOfBounds::Clip),
        "fill" => Ok(OutOfBounds::Fill),
        "null" => Ok(OutOfBounds::Null),
        _ => Err(PyValueError::new_err(format!("out_of_bounds is {name:?}"))),
    }
}

/// Selections from an iterable of tuples of items, of single items, and of None.
pub(crate) fn from_python(
    py: Python<'_>,
    selections: &Bound<'_, PyAny>,
    indexing: &str,
    targets: Targets<'_>,
) -> PyResult<zarrow::Selections> {
    let pointwise = match indexing {
        "orthogonal" => false,
        "pointwise" => true,
        _ => return Err(PyValueError::new_err(format!("indexing is {indexing:?}"))),
    };
    let mut rows: Vec<Vec<Item>> = Vec::new();
    let mut nulls: Vec<usize> = Vec::new();
    let iterator = selections.try_iter().map_err(|_| {
        let got = selections.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "selections is of type {got}; expected a list of selections, zarrow.ranges(...) or zarrow.boxes(...)"
        ))
    })?;
    for selection in iterator {
        let selection = selection?;
        let row = rows.len();
        rows.push(if selection.is_none() {
            nulls.push(row);
            Vec::new()
        } else if let Ok(tuple) = selection.cast::<PyTuple>() {
            tuple.iter().map(|item| to_item(&item, row)).collect::<PyResult<_>>()?
        } else {
            bare(&selection, row, pointwise, targets)?
        });
    }
    let valid = (!nulls.is_empty()).then(|| {
        let mut valid = vec![true; rows.len()];
        for &row in &nulls {
            valid[row] = false;
        }
        NullBuffer::from(valid)
    });
    let indexing = if pointwise { Indexing::Pointwise } else { Indexing::Orthogonal };
    zarrow::Selections::items(rows).with_indexing(indexing).with_nulls(valid).map_err(|error| to_python(py, &error))
}

/// A selection that is one item, a transform, or, pointwise, an array of coordinates.
fn bare(selection: &Bound<'_, PyAny>, row: usize, pointwise: bool, targets: Targets<'_>) -> PyResult<Vec<Item>> {
    let py = selection.py();
    if selection.is_instance_of::<PySlice>() || selection.is_instance_of::<PyInt>() {
        return Ok(vec![to_item(selection, row)?]);
    }
    let Some(shape) = targets.shape(row) else {
        return Ok(Vec::new()); // There are fewer sources than rows: binding refuses that.
    };
    let args = (selection, PyTuple::new(py, shape)?, row, pointwise);
    let helpers = py.import("zarrow._items")?;
    let items = helpers.call_method1("transform_items", args)?;
    if let Some(items) = items.extract::<Option<Vec<Bound<'_, PyAny>>>>()? {
        return items.iter().map(|item| to_item(item, row)).collect();
    }
    if pointwise
        && let Some(columns) =
            helpers.call_method1("coordinates", (selection,))?.extract::<Option<Vec<Bound<'_, PyAny>>>>()?
    {
        return columns.iter().map(|column| to_item(column, row)).collect();
    }
    Ok(vec![to_item(selection, row)?])
}

fn to_item(item: &Bound<'_, PyAny>, row: usize) -> PyResult<Item> {
    let py = item.py();
    if let Ok(slice) = item.cast::<PySlice>() {
        return Ok(Item::Slice {
            start: bound(&slice.getattr("start")?, row)?,
            stop: bound(&slice.getattr("stop")?, row)?,
            step: bound(&slice.getattr("step")?, row)?.unwrap_or(1),
        });
    }
    if item.is(PyEllipsis::get(py)) {
        return Ok(Item::Ellipsis);
    }
    if item.is_none() {
        return Ok(Item::NewAxis);
    }
    if !(item.is_instance_of::<PyBool>() || item.is_instance_of::<PyFloat>() || item.is_instance_of::<PyString>()) {
        match item.extract::<i64>() {
            Ok(index) => return Ok(Item::Index(index)),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) => {
                let message = format!("selection {row}: index {item} is out of bounds for any axis");
                return Err(exception(py, "SelectionError", message));
            }
            Err(_) if item.is_instance(&py.import("zarrow._items")?.getattr("Points")?)? => return points_item(item),
            // What has a length is an index array or a mask.
            Err(_) if item.len().is_ok() || item.hasattr("__array__")? => return array_item(item, row),
            Err(_) => {}
        }
    }
    let got = item.get_type().name()?;
    let expected = "slices, integers, index arrays, masks, None and Ellipsis";
    Err(exception(py, "SelectionError", format!("selection {row}: an item of type {got}; expected {expected}")))
}

fn points_item(item: &Bound<'_, PyAny>) -> PyResult<Item> {
    let columns: Vec<PyArray> = item.getattr("coordinates")?.extract()?;
    let columns = columns.iter().map(integers_of).collect::<PyResult<Vec<_>>>()?;
    let points = Points::try_new(columns, item.getattr("shape")?.extract()?);
    points.map(Item::from).map_err(|error| to_python(item.py(), &error))
}

/// An index array or a mask.
fn array_item(item: &Bound<'_, PyAny>, row: usize) -> PyResult<Item> {
    let py = item.py();
    let helpers = py.import("zarrow._items")?;
    let (values, shape): (PyArray, Vec<usize>) = helpers.call_method1("array_item", (item, row))?.extract()?;
    let item = match values.array().as_boolean_opt() {
        Some(mask) => Mask::try_new(mask.values().clone(), shape).map(Item::from),
        None => Indices::try_new(integers_of(&values)?, shape).map(Item::from),
    };
    item.map_err(|error| to_python(py, &error))
}

fn integers_of(array: &PyArray) -> PyResult<ScalarBuffer<i64>> {
    let values = array.array().as_primitive_opt::<Int64Type>();
    values.map(|values| values.values().clone()).ok_or_else(|| PyTypeError::new_err("expected int64"))
}

/// A bound or the step of a slice. NumPy clips bounds of any size.
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
