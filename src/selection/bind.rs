//! Selections bound to the shape of an array, or each to that of one of several arrays.

use std::sync::Arc;

use arrow_buffer::NullBuffer;

use super::OutOfBounds;
use super::boxes::Boxes;
use super::rows::Rows;
use crate::error::{Error, ErrorKind, Result};

/// Of an array, whose axes that a row keeps are bits of a `u64`; and of a row, as in `NumPy`.
pub(crate) const MAX_AXES: usize = 64;

/// The shapes that selections are bound to.
#[derive(Debug, Clone)]
pub(crate) struct Shapes {
    /// One per array, all of one rank, in elements.
    shapes: Arc<[Vec<u64>]>,
    /// The array of each row; without it, there is one array.
    sources: Option<Arc<[u32]>>,
}

impl Shapes {
    /// Of one array.
    pub(crate) fn one(shape: &[u64]) -> Result<Self> {
        Self::new(vec![shape.to_vec()], None)
    }

    /// Of several arrays; row `i` reads from array `sources[i]`.
    pub(crate) fn new(shapes: Vec<Vec<u64>>, sources: Option<Arc<[u32]>>) -> Result<Self> {
        let Some(first) = shapes.first() else {
            return Err(Error::new(ErrorKind::Selection, "no arrays").expected("at least one"));
        };
        if first.len() > MAX_AXES {
            return Err(Error::new(ErrorKind::Unsupported, format!("an array of {} axes", first.len()))
                .expected(format!("at most {MAX_AXES}")));
        }
        if let Some(other) = shapes.iter().find(|shape| shape.len() != first.len()) {
            return Err(Error::new(ErrorKind::Selection, format!("arrays of shapes {first:?} and {other:?}"))
                .expected("one number of axes"));
        }
        if let Some(sources) = &sources
            && let Some(row) = sources.iter().position(|&source| source as usize >= shapes.len())
        {
            return Err(Error::new(ErrorKind::Selection, format!("source {}", sources[row]))
                .at_selection(row)
                .expected(format!("0 to {}, the last of the arrays", shapes.len() - 1)));
        }
        Ok(Self { shapes: shapes.into(), sources })
    }

    pub(crate) fn ndim(&self) -> usize {
        self.shapes[0].len()
    }

    /// The array that `row` reads from.
    pub(crate) fn source(&self, row: usize) -> usize {
        self.sources.as_ref().map_or(0, |sources| sources[row] as usize)
    }

    /// Shape of the array that `row` reads from. Of row 0, also if there is no row.
    pub(crate) fn of(&self, row: usize) -> &[u64] {
        match &self.sources {
            Some(sources) => &self.shapes[sources.get(row).map_or(0, |&source| source as usize)],
            None => &self.shapes[0],
        }
    }

    pub(crate) fn sources(&self) -> Option<&[u32]> {
        self.sources.as_deref()
    }

    /// The length of `axis`, if it is the same in all arrays.
    pub(crate) fn common(&self, axis: usize) -> Option<u64> {
        let len = self.shapes[0][axis];
        self.shapes.iter().all(|shape| shape[axis] == len).then_some(len)
    }
}

/// Selections bound to the shape of an array, in bounds.
#[derive(Debug, Clone)]
pub struct BoundSelections {
    rows: usize,
    shapes: Shapes,
    form: Form,
    nulls: Option<NullBuffer>,
    /// Rows that reach beyond their array, in ascending order.
    padded: Vec<u32>,
    out_of_bounds: OutOfBounds,
}

#[derive(Debug, Clone)]
pub(crate) enum Form {
    Boxes(Boxes),
    Rows(Rows),
}

impl BoundSelections {
    pub(super) fn new(
        rows: usize,
        shapes: Shapes,
        form: Form,
        nulls: Option<NullBuffer>,
        padded: Option<Vec<u32>>,
        out_of_bounds: OutOfBounds,
    ) -> Self {
        Self { rows, shapes, form, nulls, padded: padded.unwrap_or_default(), out_of_bounds }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Shape of the array that `row` reads from, in elements.
    #[must_use]
    pub fn shape(&self, row: usize) -> &[u64] {
        self.shapes.of(row)
    }

    /// Number of axes that every row keeps: the depth of the nested lists.
    #[must_use]
    pub fn levels(&self) -> usize {
        match &self.form {
            Form::Boxes(boxes) => boxes.levels(),
            Form::Rows(rows) => rows.levels(),
        }
    }

    /// Shape of `row` in the result, one length for each kept axis, in elements. All are 0 where the row is null.
    #[must_use]
    pub fn extents(&self, row: usize) -> Vec<u64> {
        match &self.form {
            _ if self.is_null(row) => vec![0; self.levels()],
            Form::Boxes(boxes) => boxes.extents(row).map(|extent| extent as u64).collect(),
            Form::Rows(rows) => rows.extents(row).iter().map(|&extent| extent as u64).collect(),
        }
    }

    /// Which rows are null.
    #[must_use]
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub(crate) fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    pub(crate) fn form(&self) -> &Form {
        &self.form
    }

    /// Rows that reach beyond their array, in ascending order. Their elements that no read chunk holds are the fill
    /// value, or null.
    pub(crate) fn padded(&self) -> &[u32] {
        &self.padded
    }

    /// What becomes of elements beyond the arrays.
    pub(crate) fn out_of_bounds(&self) -> OutOfBounds {
        self.out_of_bounds
    }
}
