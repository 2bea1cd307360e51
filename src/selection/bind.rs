//! Selections bound to a shape: one in-bounds box per row, in flat columns.

use arrow_buffer::ScalarBuffer;

use super::Item;
use crate::error::{Error, ErrorKind, Result};

/// At most this many axes: which axes a row keeps is a bit mask.
const MAX_AXES: usize = 64;

/// Selections that were checked against an array's shape.
///
/// Row `r` spans `start(r, a)..stop(r, a)` on axis `a`, with `0 <= start <= stop <= shape[a] <= i64::MAX`. This holds
/// for every value of this type: the fields are private and only the checking constructors below set them.
#[derive(Debug, Clone)]
pub struct BoundSelections {
    shape: Vec<u64>,
    rows: usize,
    /// Leading axes with bounds of their own; the axes after them are whole in every row.
    axes: usize,
    /// Shape (rows, axes), row-major.
    starts: ScalarBuffer<i64>,
    stops: ScalarBuffer<i64>,
    kept: Kept,
    levels: usize,
}

/// Which axes a row keeps.
#[derive(Debug, Clone)]
enum Kept {
    All,
    /// Bit `a` of entry `r`: row `r` keeps axis `a`. Each has `levels` bits set.
    PerRow(Vec<u64>),
}

impl BoundSelections {
    pub(super) fn from_boxes(
        shape: &[u64],
        axes: usize,
        starts: ScalarBuffer<i64>,
        stops: ScalarBuffer<i64>,
    ) -> Result<Self> {
        check_rank(shape)?;
        if axes > shape.len() {
            return Err(Error::new(ErrorKind::Selection, format!("boxes on {axes} axes"))
                .expected(format!("at most {}, because the array has shape {shape:?}", shape.len())));
        }
        for (row, (from, to)) in starts.chunks_exact(axes).zip(stops.chunks_exact(axes)).enumerate() {
            for axis in 0..axes {
                let (start, stop) = (from[axis], to[axis]);
                if start < 0 || start > stop || stop as u64 > shape[axis] {
                    return Err(Error::new(
                        ErrorKind::Selection,
                        format!("{start}..{stop} on axis {axis} of length {}", shape[axis]),
                    )
                    .at_selection(row)
                    .expected(format!("0 <= start <= stop <= {}", shape[axis]))
                    .remedy("Clip the bounds first, or use slices, which clip."));
                }
            }
        }
        Ok(Self {
            rows: starts.len() / axes,
            axes,
            starts,
            stops,
            kept: Kept::All,
            levels: shape.len(),
            shape: shape.to_vec(),
        })
    }

    pub(super) fn from_items<'a>(shape: &[u64], selections: impl Iterator<Item = &'a [Item]>) -> Result<Self> {
        check_rank(shape)?;
        let axes = shape.len();
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        let mut masks = Vec::new();
        let all = u64::MAX.checked_shr(64 - axes as u32).unwrap_or(0);
        let mut levels = None;
        for (row, items) in selections.enumerate() {
            let mask = push_row(shape, items, &mut starts, &mut stops).map_err(|error| error.at_selection(row))?;
            let kept = mask.count_ones() as usize;
            let first = *levels.get_or_insert(kept);
            if kept != first {
                return Err(Error::new(ErrorKind::Selection, format!("keeps {kept} axes"))
                    .at_selection(row)
                    .expected(format!("{first}, as selection 0 keeps"))
                    .remedy("Write i:i+1 in the place of an integer i to keep its axis."));
            }
            masks.push(mask);
        }
        Ok(Self {
            rows: masks.len(),
            axes,
            starts: starts.into(),
            stops: stops.into(),
            kept: if masks.iter().all(|&mask| mask == all) { Kept::All } else { Kept::PerRow(masks) },
            levels: levels.unwrap_or(axes),
            shape: shape.to_vec(),
        })
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

    /// Shape of the array that the selections are bound to, in elements.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Number of axes that every row keeps: the depth of the nested lists.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// First index of `row` on `axis`.
    #[must_use]
    pub fn start(&self, row: usize, axis: usize) -> u64 {
        if axis < self.axes { self.starts[row * self.axes + axis] as u64 } else { 0 }
    }

    /// One past the last index of `row` on `axis`.
    #[must_use]
    pub fn stop(&self, row: usize, axis: usize) -> u64 {
        if axis < self.axes { self.stops[row * self.axes + axis] as u64 } else { self.shape[axis] }
    }

    /// Number of indices of `row` on `axis`.
    #[must_use]
    pub fn extent(&self, row: usize, axis: usize) -> u64 {
        self.stop(row, axis) - self.start(row, axis)
    }

    /// Whether `row` keeps `axis`; an axis indexed by an integer is dropped.
    #[must_use]
    pub fn keeps(&self, row: usize, axis: usize) -> bool {
        match &self.kept {
            Kept::All => true,
            Kept::PerRow(masks) => masks[row] >> axis & 1 == 1,
        }
    }

    /// The bounds of all rows where only the first axis is bounded: (starts, stops).
    pub(crate) fn first_axis(&self) -> Option<(&[i64], &[i64])> {
        (self.axes == 1).then_some((&self.starts[..], &self.stops[..]))
    }
}

fn check_rank(shape: &[u64]) -> Result<()> {
    if shape.len() > MAX_AXES {
        return Err(Error::new(ErrorKind::Unsupported, format!("an array of {} axes", shape.len()))
            .expected(format!("at most {MAX_AXES}")));
    }
    Ok(())
}

/// Appends the bounds of one selection and returns the mask of the axes that it keeps.
fn push_row(shape: &[u64], items: &[Item], starts: &mut Vec<i64>, stops: &mut Vec<i64>) -> Result<u64> {
    let named = items.iter().filter(|item| !matches!(item, Item::Ellipsis)).count();
    if items.len() - named > 1 {
        return Err(Error::new(ErrorKind::Selection, "more than one Ellipsis").expected("at most one"));
    }
    if named > shape.len() {
        return Err(Error::new(ErrorKind::Selection, format!("{named} items"))
            .expected(format!("at most {}, because the array has shape {shape:?}", shape.len())));
    }
    let whole = shape.len() - named;
    let spread = |item: &Item| std::iter::repeat_n(*item, if matches!(item, Item::Ellipsis) { whole } else { 1 });
    let trailing = if items.len() == named { whole } else { 0 };
    let expanded = items.iter().flat_map(spread).chain(std::iter::repeat_n(Item::FULL, trailing));
    let mut mask = 0;
    for (axis, (item, &len)) in expanded.zip(shape).enumerate() {
        let (start, stop) = item.resolve(axis, len as i64)?;
        starts.push(start);
        stops.push(stop);
        if !matches!(item, Item::Index(_)) {
            mask |= 1 << axis;
        }
    }
    Ok(mask)
}
