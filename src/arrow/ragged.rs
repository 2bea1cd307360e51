//! The result of one read: offsets and one values buffer, and the nested list array made of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, LargeListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use super::ElementType;
use crate::plan::Layout;
use crate::read::ReadStats;

/// What Zarr's metadata tells of the elements: the metadata of their field.
pub(crate) type Description = Arc<HashMap<String, String>>;

/// Rows of differing shape: list offsets per kept axis over one values array.
///
/// Row `i` is selection `i`, in C order of its kept axes.
#[derive(Debug, Clone)]
pub struct Ragged {
    layout: Layout,
    offsets: Vec<OffsetBuffer<i64>>,
    values: ArrayRef,
    /// Which rows are null. Without kept axes, the values say.
    nulls: Option<NullBuffer>,
    element: ElementType,
    described: Description,
    stats: ReadStats,
}

impl Ragged {
    pub(super) fn new(
        layout: Layout,
        offsets: Vec<OffsetBuffer<i64>>,
        values: ArrayRef,
        nulls: Option<NullBuffer>,
        element: ElementType,
        described: Description,
        stats: ReadStats,
    ) -> Self {
        let nulls = nulls.filter(|_| !offsets.is_empty());
        Self { layout, offsets, values, nulls, element, described, stats }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.row_starts().len() - 1
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One offsets buffer per kept axis, outermost first, with one entry per list plus one. The lists of the first are
    /// the rows, those of the next the lists in them, and so on; those of the last hold the values.
    #[must_use]
    pub fn offsets(&self) -> &[OffsetBuffer<i64>] {
        &self.offsets
    }

    /// All values, flat: the values of row `i` are `row_starts()[i]..row_starts()[i + 1]`.
    #[must_use]
    pub fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// Which rows are null; `None` if none is, or if no axis is kept, because the [`values`](Self::values) say it then.
    #[must_use]
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// The element at which each row starts, and the number of elements.
    #[must_use]
    pub fn row_starts(&self) -> &[i64] {
        self.layout.row_starts()
    }

    /// Type of one element.
    #[must_use]
    pub fn element_type(&self) -> &ElementType {
        &self.element
    }

    /// What the read did.
    #[must_use]
    pub fn stats(&self) -> &ReadStats {
        &self.stats
    }

    /// The Arrow type of the rows: one `LargeList` per kept axis, the innermost item's field with metadata such
    /// as `zarr:dtype`, the name of the Zarr data type. Nullable are the elements if there are nulls among them, and nothing else.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.fields().last().map_or_else(|| self.values.data_type().clone(), |field| DataType::LargeList(field.clone()))
    }

    /// A record batch field of these rows, nullable only if some are null, with metadata such as `zarr:dtype`.
    #[must_use]
    pub fn field(&self, name: &str) -> Field {
        let nullable = match self.offsets[..] {
            [] => self.values.is_nullable(),
            _ => self.nulls.is_some(),
        };
        Field::new(name, self.data_type(), nullable).with_metadata(self.metadata())
    }

    /// The rows as one array: a [`LargeListArray`] nested once per kept axis, or the flat values if no axis is kept.
    ///
    /// Offset 0, all fields named `item`, no validity bitmap where there are no nulls. Nothing is copied.
    ///
    /// # Panics
    /// Never: the offsets were laid out for these values.
    #[must_use]
    pub fn into_array(self) -> ArrayRef {
        let fields = self.fields();
        let mut array = self.values;
        let mut nulls = self.nulls;
        for ((level, offsets), field) in self.offsets.into_iter().enumerate().rev().zip(fields) {
            let nulls = if level == 0 { nulls.take() } else { None };
            array = Arc::new(LargeListArray::new(field, offsets, array, nulls));
        }
        array
    }

    fn metadata(&self) -> HashMap<String, String> {
        (*self.described).clone()
    }

    /// The item fields of the list levels, innermost first.
    fn fields(&self) -> Vec<FieldRef> {
        let mut fields: Vec<FieldRef> = Vec::new();
        for _ in &self.offsets {
            fields.push(Arc::new(match fields.last() {
                None => {
                    let nullable = self.values.is_nullable();
                    Field::new("item", self.values.data_type().clone(), nullable).with_metadata(self.metadata())
                }
                Some(inner) => Field::new("item", DataType::LargeList(inner.clone()), false),
            }));
        }
        fields
    }
}
