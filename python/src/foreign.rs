//! Codecs that zarrow does not have, undone by Python.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zarrow::{ForeignDecoder, ForeignError, ZarrFormat};

/// A callable that takes a metadata document and a format, and returns one that takes the bytes of a chunk.
pub(crate) struct ForeignCodecs(pub(crate) Py<PyAny>);

/// A callable that takes the bytes of a chunk, and returns its elements as something with a buffer.
struct Decoder(Py<PyAny>);

impl zarrow::ForeignCodecs for ForeignCodecs {
    fn decoder(&self, metadata: &str, format: ZarrFormat) -> Result<Arc<dyn ForeignDecoder>, ForeignError> {
        let format = match format {
            ZarrFormat::V2 => 2,
            ZarrFormat::V3 => 3,
        };
        Python::attach(|py| match self.0.call1(py, (metadata, format)) {
            Ok(decoder) => Ok(Arc::new(Decoder(decoder)) as Arc<dyn ForeignDecoder>),
            // The text alone: which exception it was says nothing more.
            Err(error) => Err(error.value(py).to_string().into()),
        })
    }
}

impl ForeignDecoder for Decoder {
    fn decode(&self, encoded: &[u8], target: &mut [u8]) -> Result<(), ForeignError> {
        Python::attach(|py| {
            let decoded = self.0.call1(py, (PyBytes::new(py, encoded),))?;
            // Of other items, NumPy gives bytes.
            let bytes = decoded.call_method1(py, "view", ("uint8",))?;
            let buffer = PyBuffer::<u8>::get(bytes.bind(py))?;
            if buffer.item_count() != target.len() {
                return Err(format!("{} bytes; expected {}", buffer.item_count(), target.len()).into());
            }
            buffer.copy_to_slice(py, target)?;
            Ok(())
        })
    }
}
