//! What a caller may ask of an array, and its normalised form.
//!
//! * [`Selections`]: as asked, not yet tied to an array: columns of bounds or indices, or lists of [`Item`]s.
//! * [`item`]: one item of a selection, as in `NumPy`'s indexing.
//! * [`BoundSelections`]: the same, bound to the shape of an array, or of several.
//! * [`boxes`]: rows that are boxes, in flat columns.
//! * [`rows`]: all other rows, axis by axis.

mod bind;
pub(crate) mod boxes;
mod item;
pub(crate) mod rows;

use arrow_buffer::{NullBuffer, ScalarBuffer};

pub use self::bind::BoundSelections;
pub(crate) use self::bind::{Form as BoundForm, MAX_AXES, Shapes};
pub(crate) use self::item::Progression;
pub use self::item::{Indices, Item, Mask, Points};
use crate::error::{Error, ErrorKind, Result};

/// Many selections, one per row of the result, not yet bound to an array.
///
/// Held in columns: ten million ranges are two flat buffers. Cloning shares the buffers.
#[derive(Debug, Clone)]
pub struct Selections {
    rows: usize,
    form: Form,
    indexing: Indexing,
    out_of_bounds: OutOfBounds,
    nulls: Option<NullBuffer>,
}

/// How the index arrays and masks of one selection belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Indexing {
    /// Each selects along its own axis, as Zarr's `oindex` and `numpy.ix_`.
    #[default]
    Orthogonal,
    /// Together they are the coordinates of points, as Zarr's `vindex` and `NumPy`'s own indexing.
    Pointwise,
}

/// What becomes of the part of a box or range that lies outside its array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutOfBounds {
    /// The read fails.
    #[default]
    Error,
    /// It is cut off.
    Clip,
    /// Its elements have the fill value.
    Fill,
    /// Its elements are null.
    Null,
}

#[derive(Debug, Clone)]
enum Form {
    /// `starts`, `stops` and `steps` have shape (rows, axes), row-major, and are bounds on the axes from `first` on;
    /// all others are whole.
    Boxes {
        first: usize,
        axes: usize,
        starts: ScalarBuffer<i64>,
        stops: ScalarBuffer<i64>,
        steps: Option<ScalarBuffer<i64>>,
    },
    /// Row `i` is `items[offsets[i]..offsets[i + 1]]`.
    Items { items: Vec<Item>, offsets: Vec<usize> },
    /// Row `i` has the indices `values[offsets[i]..offsets[i + 1]]` on `axis`; all other axes are whole.
    Lists { axis: usize, offsets: ScalarBuffer<i64>, values: ScalarBuffer<i64> },
}

impl Selections {
    fn new(rows: usize, form: Form) -> Self {
        Self { rows, form, indexing: Indexing::default(), out_of_bounds: OutOfBounds::default(), nulls: None }
    }

    /// Half-open ranges `starts[i]..stops[i]` on the first axis, in elements; further axes are taken whole.
    ///
    /// Reading fails where a range reaches beyond the array, unless
    /// [`with_out_of_bounds`](Self::with_out_of_bounds) says otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if the columns differ in length.
    pub fn ranges(starts: impl Into<ScalarBuffer<i64>>, stops: impl Into<ScalarBuffer<i64>>) -> Result<Self> {
        Self::boxes(1, starts, stops)
    }

    /// The rows of a ragged array by its offsets: row `i` is the range `offsets[i]..offsets[i + 1]` of the first axis.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there is no offset.
    pub fn rows(offsets: impl Into<ScalarBuffer<i64>>) -> Result<Self> {
        let offsets = offsets.into();
        let Some(rows) = offsets.len().checked_sub(1) else {
            return Err(Error::new(ErrorKind::Selection, "no offsets").expected("one more than there are rows"));
        };
        Self::ranges(offsets.slice(0, rows), offsets.slice(1, rows))
    }

    /// Some [`rows`](Self::rows) of a ragged array, in any order: those that `chosen` selects of all of them, a slice,
    /// indices or a mask.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there is no offset, or `chosen` does not fit the number of rows.
    ///
    /// ```
    /// # use zarrow::{Indices, Selections};
    /// let rows = Selections::some_rows(vec![0, 2, 2, 5], Indices::new(vec![2, 0, -1]))?;
    /// let bound = rows.bind(&[5])?;
    /// assert_eq!([0, 1, 2].map(|row| bound.extents(row)[0]), [3, 2, 3]);
    /// # Ok::<(), zarrow::Error>(())
    /// ```
    pub fn some_rows(offsets: impl Into<ScalarBuffer<i64>>, chosen: impl Into<Item>) -> Result<Self> {
        let offsets = offsets.into();
        let Some(rows) = offsets.len().checked_sub(1) else {
            return Err(Error::new(ErrorKind::Selection, "no offsets").expected("one more than there are rows"));
        };
        let chosen = rows::positions(&chosen.into(), rows as u64)?;
        let at = |shift: usize| chosen.iter().map(|&row| offsets[row as usize + shift]).collect::<Vec<_>>();
        Self::ranges(at(0), at(1))
    }

    /// Boxes on the first `axes` axes, in elements; further axes are taken whole.
    ///
    /// `starts` and `stops` have shape (rows, `axes`), row-major: box `i` spans `starts[i, a]..stops[i, a]` on axis
    /// `a`. Reading fails where a box reaches beyond the array, unless
    /// [`with_out_of_bounds`](Self::with_out_of_bounds) says otherwise.
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
        Ok(Self::new(starts.len() / axes, Form::Boxes { first: 0, axes, starts, stops, steps: None }))
    }

    /// Windows of one `shape`, in elements, around points: window `i` spans `shape[a]` elements on axis `a`, from
    /// `centers[i, a] - shape[a] / 2` on. `centers` has shape (rows, number of axes in `shape`), row-major.
    ///
    /// # Errors
    /// As [`boxes`](Self::boxes); if a length is negative, or a window reaches beyond 64-bit numbers.
    pub fn windows(centers: impl Into<ScalarBuffer<i64>>, shape: &[i64]) -> Result<Self> {
        let centers = centers.into();
        if let Some(len) = shape.iter().find(|&&len| len < 0) {
            return Err(Error::new(ErrorKind::Selection, format!("windows of length {len}")).expected("0 or more"));
        }
        let axes = shape.len();
        let mut starts = Vec::with_capacity(centers.len());
        let mut stops = Vec::with_capacity(centers.len());
        for (at, (&center, &len)) in centers.iter().zip(shape.iter().cycle()).enumerate() {
            let start = center.checked_sub(len / 2);
            let (Some(start), Some(stop)) = (start, start.and_then(|start| start.checked_add(len))) else {
                return Err(Error::new(ErrorKind::Selection, format!("a window of length {len} around {center}"))
                    .at_selection(at / axes)
                    .expected("bounds of 64 bits"));
            };
            starts.push(start);
            stops.push(stop);
        }
        Self::boxes(axes, starts, stops)
    }

    /// One list of indices of the first axis per selection, in any order, negative ones counted from the end; further
    /// axes are taken whole. Row `i` has the indices `values[offsets[i]..offsets[i + 1]]`.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if the offsets do not ascend or reach beyond the values, or there are none.
    pub fn indices(offsets: impl Into<ScalarBuffer<i64>>, values: impl Into<ScalarBuffer<i64>>) -> Result<Self> {
        let (offsets, values) = (offsets.into(), values.into());
        if offsets.is_empty() {
            return Err(Error::new(ErrorKind::Selection, "no offsets").expected("one more than there are lists"));
        }
        let fits = |pair: &[i64]| 0 <= pair[0] && pair[0] <= pair[1] && pair[1] as u64 <= values.len() as u64;
        if let Some(row) = offsets.windows(2).position(|pair| !fits(pair)) {
            return Err(Error::new(ErrorKind::Selection, format!("offsets {} and {}", offsets[row], offsets[row + 1]))
                .at_selection(row)
                .expected(format!(
                    "offsets that ascend from 0 or more to at most {}, the number of indices",
                    values.len()
                )));
        }
        Ok(Self::new(offsets.len() - 1, Form::Lists { axis: 0, offsets, values }))
    }

    /// One list of [`Item`]s per selection, as in `NumPy`'s indexing: slices clip at the edge, integers may be negative
    /// and drop their axis, axes that are not named are taken whole.
    pub fn items<S: AsRef<[Item]>>(selections: impl IntoIterator<Item = S>) -> Self {
        let mut items = Vec::new();
        let mut offsets = vec![0];
        for selection in selections {
            items.extend_from_slice(selection.as_ref());
            offsets.push(items.len());
        }
        Self::new(offsets.len() - 1, Form::Items { items, offsets })
    }

    /// Takes every `steps[i, a]`-th element only; a negative step goes backwards from a start down to before a stop.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if these are no ranges or boxes, there is not one step for each start, or one is zero.
    pub fn with_steps(mut self, steps: impl Into<ScalarBuffer<i64>>) -> Result<Self> {
        let new = steps.into();
        let Form::Boxes { axes, starts, steps, .. } = &mut self.form else {
            return Err(Error::new(ErrorKind::Selection, "steps").expected("no steps, except of ranges and boxes"));
        };
        if new.len() != starts.len() {
            let got = format!("{} starts and {} steps", starts.len(), new.len());
            return Err(Error::new(ErrorKind::Selection, got).expected("one step for each start"));
        }
        if let Some(at) = new.iter().position(|&step| step == 0) {
            let error = Error::new(ErrorKind::Selection, "step 0").at_selection(at / *axes);
            return Err(error.expected("a step that is not 0"));
        }
        *steps = new.iter().any(|&step| step != 1).then_some(new);
        Ok(self)
    }

    /// Has ranges and boxes bound the axes from `first` on, and index lists the axis `first`, instead of those from 0.
    #[must_use]
    pub fn with_first_axis(mut self, first_axis: usize) -> Self {
        match &mut self.form {
            Form::Boxes { first, .. } => *first = first_axis,
            Form::Lists { axis, .. } => *axis = first_axis,
            Form::Items { .. } => {}
        }
        self
    }

    /// How the index arrays of one selection belong together.
    #[must_use]
    pub fn with_indexing(mut self, indexing: Indexing) -> Self {
        self.indexing = indexing;
        self
    }

    /// What becomes of the parts of ranges, boxes and windows outside the array. Of [`items`](Self::items), slices clip
    /// and indices must be in bounds whatever this says.
    #[must_use]
    pub fn with_out_of_bounds(mut self, out_of_bounds: OutOfBounds) -> Self {
        self.out_of_bounds = out_of_bounds;
        self
    }

    /// Makes rows null: those that `nulls` says are. What they select is not looked at.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if `nulls` has another length.
    pub fn with_nulls(mut self, nulls: Option<NullBuffer>) -> Result<Self> {
        if let Some(nulls) = nulls.as_ref().filter(|nulls| nulls.len() != self.rows) {
            let got = format!("{} rows and validity of {}", self.rows, nulls.len());
            return Err(Error::new(ErrorKind::Selection, got).expected("equal lengths"));
        }
        self.nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(self)
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
            Form::Boxes { first, axes, .. } => Some(first + axes),
            Form::Lists { axis, .. } => Some(axis + 1),
            Form::Items { items, offsets } => {
                let axes = |row: &[Item]| {
                    let row = row.strip_suffix(&[Item::Ellipsis]).unwrap_or(row);
                    (!row.contains(&Item::Ellipsis)).then(|| row.iter().filter_map(Item::axes).sum::<usize>())
                };
                offsets.windows(2).try_fold(0, |most, w| Some(axes(&items[w[0]..w[1]])?.max(most)))
            }
        }
    }

    /// Normalises the selections for an array of shape `shape`.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`], naming the selection, for one that is out of bounds, has more axes than the array,
    /// or keeps another number of axes than the first.
    pub fn bind(&self, shape: &[u64]) -> Result<BoundSelections> {
        self.bind_to(&Shapes::one(shape)?)
    }

    /// Normalises the selections, each for the array that it reads from.
    pub(crate) fn bind_to(&self, shapes: &Shapes) -> Result<BoundSelections> {
        if let Some(sources) = shapes.sources().filter(|sources| sources.len() != self.rows) {
            let got = format!("{} selections and {} sources", self.rows, sources.len());
            return Err(Error::new(ErrorKind::Selection, got).expected("one source for each selection"));
        }
        let nulls = self.nulls.as_ref();
        let axes = shapes.ndim();
        let check_axes = |used: usize, what: &str| {
            let got = || format!("{what} on axis {}", used - 1);
            if used > axes {
                let expected = format!("an axis below {axes}, because the array has shape {:?}", shapes.of(0));
                return Err(Error::new(ErrorKind::Selection, got()).expected(expected));
            }
            Ok(())
        };
        let (form, padded) = match &self.form {
            Form::Boxes { first: 0, axes: used, .. } if *used > axes => {
                let expected = format!("at most {axes}, because the array has shape {:?}", shapes.of(0));
                return Err(Error::new(ErrorKind::Selection, format!("boxes on {used} axes")).expected(expected));
            }
            Form::Boxes { first, axes, starts, stops, steps } => {
                check_axes(first.saturating_add(*axes), "bounds")?;
                let bounds = boxes::Bounds { first: *first, axes: *axes, starts, stops };
                if let Some(steps) = steps {
                    (BoundForm::Rows(rows::Rows::from_steps(shapes, &bounds, steps, self.out_of_bounds, nulls)?), None)
                } else {
                    let (boxes, padded) = boxes::Boxes::bind(shapes, &bounds, self.out_of_bounds, nulls)?;
                    (BoundForm::Boxes(boxes), padded)
                }
            }
            Form::Lists { axis, offsets, values } => {
                check_axes(axis.saturating_add(1), "indices")?;
                (BoundForm::Rows(rows::Rows::from_lists(shapes, *axis, offsets, values, nulls)?), None)
            }
            Form::Items { items, offsets } => {
                let simple =
                    |item: &Item| matches!(item, Item::Index(_) | Item::Slice { step: 1, .. } | Item::Ellipsis);
                if items.iter().all(simple) {
                    (BoundForm::Boxes(boxes::Boxes::from_items(shapes, items, offsets, nulls)?), None)
                } else {
                    (BoundForm::Rows(rows::Rows::from_items(shapes, items, offsets, self.indexing, nulls)?), None)
                }
            }
        };
        Ok(BoundSelections::new(self.rows, shapes.clone(), form, self.nulls.clone(), padded, self.out_of_bounds))
    }
}
