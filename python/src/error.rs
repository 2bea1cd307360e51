//! Errors of the core as Python exceptions of `zarrow.errors`.

use pyo3::prelude::*;
use zarrow::{Error, ErrorKind};

/// The Python exception for an error of the core.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, class_name(error.kind()), error.to_string())
}

/// The exception `name` of `zarrow.errors` with `message`.
pub(crate) fn exception(py: Python<'_>, name: &str, message: String) -> PyErr {
    let class = py.import("zarrow.errors").and_then(|errors| errors.getattr(name));
    match class.and_then(|class| class.call1((message,))) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Selection => "SelectionError",
        ErrorKind::Store => "StoreError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Metadata => "MetadataError",
        ErrorKind::Decode => "DecodeError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Allocation => "AllocationError",
        ErrorKind::TimedOut => "ReadTimeoutError",
        ErrorKind::Cancelled => "CancelledError",
        _ => "ZarrowError",
    }
}
