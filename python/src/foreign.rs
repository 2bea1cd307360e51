//! Codecs that zarrow does not have, undone by Python.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zarrow::{ForeignDecoder, ForeignError, ForeignObjects, ZarrFormat};

/// A callable that takes a metadata document and a format, and returns one that takes the bytes of a chunk.
pub(crate) struct ForeignCodecs(pub(crate) Py<PyAny>);

/// A callable that takes the bytes of a chunk, and returns its elements as something with a buffer. Of objects, it has the
/// methods `objects` and `holds_bytes`.
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

    fn decode_objects(&self, encoded: &[u8], is_text: bool) -> Result<ForeignObjects, ForeignError> {
        Python::attach(|py| {
            let objects = self.0.call_method1(py, "objects", (PyBytes::new(py, encoded), is_text))?;
            let (bytes, ends, others): (Bound<'_, PyBytes>, Bound<'_, PyAny>, _) = objects.extract(py)?;
            let ends = PyBuffer::<u64>::get(&ends)?.to_vec(py)?;
            let mut copied = Vec::new();
            copied.try_reserve_exact(bytes.as_bytes().len())?;
            copied.extend_from_slice(bytes.as_bytes());
            Ok(ForeignObjects { bytes: copied, ends, others })
        })
    }

    fn holds_bytes(&self, encoded: &[u8]) -> Result<bool, ForeignError> {
        Python::attach(|py| Ok(self.0.call_method1(py, "holds_bytes", (PyBytes::new(py, encoded),))?.extract(py)?))
    }
}
