//! The result of one read: offsets and one values buffer, and the nested list array made of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, LargeListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use super::ElementType;
use crate::plan::Layout;
use crate::read::ReadStats;

/// Rows of differing shape: list offsets per kept axis over one values array.
///
/// Row `i` is selection `i`, in C order of its kept axes.
#[derive(Debug, Clone)]
pub struct Ragged {
    layout: Layout,
    values: ArrayRef,
    /// Which rows are null. Without kept axes, the values say.
    nulls: Option<NullBuffer>,
    element: ElementType,
    stats: ReadStats,
}

impl Ragged {
    pub(super) fn new(
        layout: Layout,
        values: ArrayRef,
        nulls: Option<NullBuffer>,
        element: ElementType,
        stats: ReadStats,
    ) -> Self {
        let nulls = nulls.filter(|_| !layout.offsets().is_empty());
        Self { layout, values, nulls, element, stats }
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

    /// One offsets buffer per kept axis, outermost first; see [`Layout::offsets`].
    #[must_use]
    pub fn offsets(&self) -> &[OffsetBuffer<i64>] {
        self.layout.offsets()
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

    /// The Arrow type of the rows: one `LargeList` per kept axis, the innermost item's field with the metadata
    /// `zarr:dtype`. Nullable are the elements if there are nulls among them, and nothing else.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.fields().last().map_or_else(|| self.element.arrow_type(), |field| DataType::LargeList(field.clone()))
    }

    /// A record batch field of these rows, nullable only if some are null, with the metadata `zarr:dtype`.
    #[must_use]
    pub fn field(&self, name: &str) -> Field {
        let nullable = match self.layout.offsets() {
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
        for ((level, offsets), field) in self.layout.offsets().iter().enumerate().rev().zip(fields) {
            let nulls = if level == 0 { nulls.take() } else { None };
            array = Arc::new(LargeListArray::new(field, offsets.clone(), array, nulls));
        }
        array
    }

    fn metadata(&self) -> HashMap<String, String> {
        HashMap::from([("zarr:dtype".to_owned(), self.element.zarr_name().to_owned())])
    }

    /// The item fields of the list levels, innermost first.
    fn fields(&self) -> Vec<FieldRef> {
        let mut fields: Vec<FieldRef> = Vec::new();
        for _ in self.layout.offsets() {
            fields.push(Arc::new(match fields.last() {
                None => {
                    let nullable = self.values.is_nullable();
                    Field::new("item", self.element.arrow_type(), nullable).with_metadata(self.metadata())
                }
                Some(inner) => Field::new("item", DataType::LargeList(inner.clone()), false),
            }));
        }
        fields
    }
}
