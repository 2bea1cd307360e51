//! What a caller may ask of an array, and its normalised form.
//!
//! * [`Selections`]: as asked, not yet tied to an array: columns of ranges or boxes, or lists of [`Item`]s.
//! * [`BoundSelections`]: the same, bound to a shape: one box per row, in bounds, in flat columns.

mod bind;
mod item;

use arrow_buffer::ScalarBuffer;

pub use self::bind::BoundSelections;
pub use self::item::Item;
use crate::error::{Error, ErrorKind, Result};

/// Many selections, one per row of the result, not yet bound to an array.
///
/// Held in columns: ten million ranges are two flat buffers. Cloning shares the buffers.
#[derive(Debug, Clone)]
pub struct Selections {
    rows: usize,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// `starts` and `stops` have shape (rows, axes), row-major; the axes after them are taken whole.
    Boxes { axes: usize, starts: ScalarBuffer<i64>, stops: ScalarBuffer<i64> },
    /// Row `i` is `items[offsets[i]..offsets[i + 1]]`.
    Items { items: Vec<Item>, offsets: Vec<usize> },
}

impl Selections {
    /// Half-open ranges `starts[i]..stops[i]` on the first axis, in elements; further axes are taken whole.
    ///
    /// The bounds are strict: reading fails where a range reaches beyond the array.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if the columns differ in length.
    pub fn ranges(starts: impl Into<ScalarBuffer<i64>>, stops: impl Into<ScalarBuffer<i64>>) -> Result<Self> {
        Self::boxes(1, starts, stops)
    }

    /// Boxes on the first `axes` axes, in elements; further axes are taken whole.
    ///
    /// `starts` and `stops` have shape (rows, `axes`), row-major: box `i` spans `starts[i, a]..stops[i, a]` on axis
    /// `a`. The bounds are strict: reading fails where a box reaches beyond the array.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if `axes` is zero, or the columns differ in length or are no multiple of `axes`.
    pub fn boxes(
        axes: usize,
        starts: impl Into<ScalarBuffer<i64>>,
        stops: impl Into<ScalarBuffer<i64>>,
    ) -> Result<Self> {
        let (starts, stops) = (starts.into(), stops.into());
        if axes == 0 {
            return Err(Error::new(ErrorKind::Selection, "boxes on zero axes")
                .expected("at least one axis")
                .remedy("Select single elements with one integer per axis instead."));
        }
        if starts.len() != stops.len() {
            let got = format!("{} starts and {} stops", starts.len(), stops.len());
            return Err(Error::new(ErrorKind::Selection, got).expected("one stop for each start"));
        }
        if starts.len() % axes != 0 {
            let got = format!("{} bounds for boxes on {axes} axes", starts.len());
            return Err(Error::new(ErrorKind::Selection, got).expected(format!("a multiple of {axes}")));
        }
        Ok(Self { rows: starts.len() / axes, form: Form::Boxes { axes, starts, stops } })
    }

    /// One list of [`Item`]s per selection, as in `NumPy`'s basic indexing: slices clip at the edge, integers may be
    /// negative and drop their axis, axes that are not named are taken whole.
    pub fn items<S: AsRef<[Item]>>(selections: impl IntoIterator<Item = S>) -> Self {
        let mut items = Vec::new();
        let mut offsets = vec![0];
        for selection in selections {
            items.extend_from_slice(selection.as_ref());
            offsets.push(items.len());
        }
        Self { rows: offsets.len() - 1, form: Form::Items { items, offsets } }
    }

    /// Number of selections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no selection at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Leading axes on which the selections have bounds of their own; `None` if that depends on the rank of the array.
    pub(crate) fn bounded_axes(&self) -> Option<usize> {
        match &self.form {
            Form::Boxes { axes, .. } => Some(*axes),
            Form::Items { items, .. } if items.contains(&Item::Ellipsis) => None,
            Form::Items { offsets, .. } => offsets.windows(2).map(|w| w[1] - w[0]).max().or(Some(0)),
        }
    }

    /// Normalises the selections for an array of shape `shape`.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`], naming the selection, for one that is out of bounds, has more axes than the array,
    /// or keeps another number of axes than the first.
    pub fn bind(&self, shape: &[u64]) -> Result<BoundSelections> {
        match &self.form {
            Form::Boxes { axes, starts, stops } => {
                BoundSelections::from_boxes(shape, *axes, starts.clone(), stops.clone())
            }
            Form::Items { items, offsets } => {
                BoundSelections::from_items(shape, offsets.windows(2).map(|w| &items[w[0]..w[1]]))
            }
        }
    }
}
