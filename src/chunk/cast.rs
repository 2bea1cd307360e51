//! Elements of a result that are not those of an array as it is decoded.

use std::ops::Range;
use std::sync::Arc;

use crate::arrow::{ElementType, StructType, cast};
use crate::error::{Error, ErrorKind, Result};

/// Some of the members of a struct.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) element: ElementType,
    /// Where their bytes lie in an element of the array.
    bytes: Vec<Range<usize>>,
    /// Bytes of an element of the array.
    width: usize,
    pub(super) fill_value: Vec<u8>,
}

impl Chosen {
    /// The members called `names`, of an array of `element` whose fill value is `fill_value`.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there are no such members.
    pub(super) fn new(element: &ElementType, names: &[&str], fill_value: &[u8]) -> Result<Self> {
        let ElementType::Struct(structure) = element else {
            return Err(Error::new(ErrorKind::Selection, format!("fields of {}", element.numpy_name()))
                .expected("a structured data type")
                .remedy("Read the array without naming fields."));
        };
        let (some, bytes): (StructType, _) = structure.select(names)?;
        let element = ElementType::Struct(Arc::new(some));
        let mut chosen = Self { bytes, width: structure.width().max(1), fill_value: vec![0; element.size()], element };
        let mut fill = std::mem::take(&mut chosen.fill_value);
        chosen.cast().apply(fill_value, &mut fill);
        chosen.fill_value = fill;
        Ok(chosen)
    }

    pub(super) fn cast(&self) -> Cast<'_> {
        Cast::Members { from: self.width, to: self.element.size(), bytes: &self.bytes }
    }
}

/// What makes elements of the result of those that are decoded.
pub(crate) enum Cast<'a> {
    Numbers {
        from: &'a ElementType,
        to: ElementType,
    },
    /// Some bytes of each element, one after the other.
    Members {
        from: usize,
        to: usize,
        bytes: &'a [Range<usize>],
    },
}

impl Cast<'_> {
    fn sizes(&self) -> (usize, usize) {
        match self {
            Self::Numbers { from, to } => (from.size(), to.size()),
            Self::Members { from, to, .. } => (*from, *to),
        }
    }

    /// Bytes of the elements that are `len` bytes as decoded.
    pub(crate) fn len(&self, len: usize) -> usize {
        let (from, to) = self.sizes();
        (len / from).saturating_mul(to)
    }

    /// Casts elements in native byte order, as many as `source` has.
    pub(crate) fn apply(&self, source: &[u8], target: &mut [u8]) {
        match self {
            Self::Numbers { from, to } => cast(from, to, source, target),
            Self::Members { from, to, bytes } => {
                for (source, target) in source.chunks_exact(*from).zip(target.chunks_exact_mut(*to)) {
                    let mut at = 0;
                    for range in *bytes {
                        target[at..at + range.len()].copy_from_slice(&source[range.clone()]);
                        at += range.len();
                    }
                }
            }
        }
    }
}
