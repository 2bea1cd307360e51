//! Elements of variable length as Arrow arrays: offsets over one buffer of values.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, LargeListArray, LargeStringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::ElementType;
use super::element::part;
use crate::error::{Error, ErrorKind, Result};

impl ElementType {
    /// Wraps the elements that lie between neighbouring `offsets` (64 bits, ascending from zero) in `values`, without
    /// copying them. Offsets count bytes; where elements are lists, the items of these.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if text is no valid UTF-8.
    pub(crate) fn wrap_variable(&self, offsets: Buffer, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let offsets: ScalarBuffer<i64> = offsets.into();
        let len = offsets.last().copied().unwrap_or_default() as usize;
        let offsets = OffsetBuffer::new(offsets);
        let invalid =
            |source: ArrowError| Error::new(ErrorKind::Internal, "the result is no valid Arrow array").source(source);
        Ok(match self {
            Self::Utf8 => Arc::new(
                LargeStringArray::try_new(offsets, values, nulls)
                    .map_err(|source| Error::new(ErrorKind::Decode, "text that is no valid UTF-8").source(source))?,
            ),
            Self::Binary => Arc::new(LargeBinaryArray::try_new(offsets, values, nulls).map_err(invalid)?),
            Self::List(item) => {
                let items = item.wrap(values, len, None)?;
                Arc::new(LargeListArray::try_new(part(item.arrow_type()), offsets, items, nulls).map_err(invalid)?)
            }
            _ => return Err(Error::new(ErrorKind::Internal, "elements of fixed width with offsets")),
        })
    }
}
