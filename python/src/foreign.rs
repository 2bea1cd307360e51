//! Codecs that zarrow does not have, undone by Python.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zarrow::{ForeignDecoder, ForeignError, ForeignObjects, ZarrFormat};

use crate::attach::attach;
use crate::fork::Held;

/// A callable that takes a metadata document and a format, and returns one that takes the bytes of a chunk.
pub(crate) struct ForeignCodecs(Held<Py<PyAny>>);

impl ForeignCodecs {
    pub(crate) fn new(callable: Py<PyAny>) -> Self {
        Self(Held::new(callable))
    }
}

/// A callable that takes the bytes of a chunk, and returns its elements as something with a buffer. Of objects, it has the
/// methods `objects` and `holds_bytes`.
struct Decoder(Held<Py<PyAny>>);

/// The text alone: an exception is not for threads without Python, which may let go of it.
pub(crate) fn told(error: PyErr) -> ForeignError {
    error.to_string().into()
}

/// Where there is no Python any more.
pub(crate) fn ended<T>() -> Result<T, ForeignError> {
    Err("Python is ending".into())
}

impl zarrow::ForeignCodecs for ForeignCodecs {
    fn decoder(&self, metadata: &str, format: ZarrFormat) -> Result<Arc<dyn ForeignDecoder>, ForeignError> {
        let format = match format {
            ZarrFormat::V2 => 2,
            ZarrFormat::V3 => 3,
        };
        attach(|py| match self.0.get(py).and_then(|codecs| codecs.call1((metadata, format))) {
            Ok(decoder) => Ok(Arc::new(Decoder(Held::new(decoder.unbind()))) as Arc<dyn ForeignDecoder>),
            // Which exception it was says nothing more.
            Err(error) => Err(error.value(py).to_string().into()),
        })
        .unwrap_or_else(ended)
    }
}

impl ForeignDecoder for Decoder {
    fn decode(&self, encoded: &[u8], target: &mut [u8]) -> Result<(), ForeignError> {
        attach(|py| {
            let decode = || {
                let decoded = self.0.get(py)?.call1((PyBytes::new(py, encoded),))?;
                // Of other items, NumPy gives bytes.
                PyBuffer::<u8>::get(&decoded.call_method1("view", ("uint8",))?)
            };
            let buffer = decode().map_err(told)?;
            if buffer.item_count() != target.len() {
                return Err(format!("{} bytes; expected {}", buffer.item_count(), target.len()).into());
            }
            buffer.copy_to_slice(py, target).map_err(told)
        })
        .unwrap_or_else(ended)
    }

    fn decode_objects(&self, encoded: &[u8], is_text: bool) -> Result<ForeignObjects, ForeignError> {
        attach(|py| {
            let decode = || {
                let objects = self.0.get(py)?.call_method1("objects", (PyBytes::new(py, encoded), is_text))?;
                let (bytes, ends, others): (Bound<'_, PyBytes>, Bound<'_, PyAny>, _) = objects.extract()?;
                Ok((bytes, PyBuffer::<u64>::get(&ends)?.to_vec(py)?, others))
            };
            let (bytes, ends, others) = decode().map_err(told)?;
            let mut copied = Vec::new();
            copied.try_reserve_exact(bytes.as_bytes().len())?;
            copied.extend_from_slice(bytes.as_bytes());
            Ok(ForeignObjects { bytes: copied, ends, others })
        })
        .unwrap_or_else(ended)
    }

    fn holds_bytes(&self, encoded: &[u8]) -> Result<bool, ForeignError> {
        attach(|py| {
            let holds = || self.0.get(py)?.call_method1("holds_bytes", (PyBytes::new(py, encoded),))?.extract();
            holds().map_err(told)
        })
        .unwrap_or_else(ended)
    }
}
