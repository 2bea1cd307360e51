//! One item of a selection, for one axis or several.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use arrow_buffer::{BooleanBuffer, ScalarBuffer};

use crate::error::{Error, ErrorKind, Result};

/// What a selection asks of one axis, or several, as in `NumPy`'s indexing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// One index; negative counts from the end. Drops the axis.
    Index(i64),
    /// Every `step`-th index of the half-open range from `start` to `stop`. Negative bounds count from the end; bounds
    /// beyond the edge clip; a negative step goes backwards.
    Slice {
        /// First index, or from the start of the axis (the end, where the step is negative).
        start: Option<i64>,
        /// The index before which to stop, or at the end of the axis (the start, where the step is negative).
        stop: Option<i64>,
        /// Distance of neighbours. Not zero.
        step: i64,
    },
    /// Any indices of one axis, in any order.
    Indices(Indices),
    /// The positions of one axis, or of several at once, at which a mask is true.
    Mask(Mask),
    /// Points in several axes at once.
    Points(Points),
    /// A new axis of length one in the result.
    NewAxis,
    /// As many whole axes as are not named by the other items. At most one in a selection.
    Ellipsis,
}

/// Indices of one axis; negative ones count from the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices {
    values: ScalarBuffer<i64>,
    shape: Vec<usize>,
}

/// A mask over one axis or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    bits: BooleanBuffer,
    shape: Vec<usize>,
}

/// Points in as many axes as there are coordinates; negative ones count from the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Points {
    coordinates: Vec<ScalarBuffer<i64>>,
    shape: Vec<usize>,
}

impl Points {
    /// Points that have `shape` in the result, with their coordinates along each axis in C order.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there is no axis, or not one coordinate on each axis for each place of `shape`.
    pub fn try_new(coordinates: Vec<ScalarBuffer<i64>>, shape: Vec<usize>) -> Result<Self> {
        if coordinates.is_empty() {
            return Err(Error::new(ErrorKind::Selection, "points without axes").expected("one axis or more"));
        }
        for values in &coordinates {
            check_shape(values.len(), &shape, "coordinates")?;
        }
        Ok(Self { coordinates, shape })
    }

    pub(super) fn coordinates(&self) -> &[ScalarBuffer<i64>] {
        &self.coordinates
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl Indices {
    /// A list of indices.
    #[must_use]
    pub fn new(values: impl Into<ScalarBuffer<i64>>) -> Self {
        let values = values.into();
        Self { shape: vec![values.len()], values }
    }

    /// Indices of any number of axes, `values` in C order. More than one axis make sense in
    /// [`Pointwise`](super::Indexing::Pointwise) indexing alone.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there are not as many values as `shape` has places.
    pub fn try_new(values: impl Into<ScalarBuffer<i64>>, shape: Vec<usize>) -> Result<Self> {
        let values = values.into();
        check_shape(values.len(), &shape, "indices")?;
        Ok(Self { values, shape })
    }

    pub(super) fn values(&self) -> &[i64] {
        &self.values
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl Mask {
    /// A mask over one axis.
    #[must_use]
    pub fn new(bits: BooleanBuffer) -> Self {
        Self { shape: vec![bits.len()], bits }
    }

    /// A mask over as many axes as `shape` has, `bits` in C order.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there are not as many bits as `shape` has places, or the shape is empty.
    pub fn try_new(bits: BooleanBuffer, shape: Vec<usize>) -> Result<Self> {
        check_shape(bits.len(), &shape, "bits of a mask")?;
        if shape.is_empty() {
            return Err(Error::new(ErrorKind::Selection, "a mask without axes").expected("one axis or more"));
        }
        Ok(Self { bits, shape })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The positions of the true bits along each axis of the mask.
    pub(super) fn positions(&self) -> Vec<Vec<i64>> {
        let count = self.bits.count_set_bits();
        let mut positions: Vec<Vec<i64>> = self.shape.iter().map(|_| Vec::with_capacity(count)).collect();
        for mut at in self.bits.set_indices() {
            for (positions, &len) in positions.iter_mut().zip(&self.shape).rev() {
                positions.push((at % len) as i64);
                at /= len;
            }
        }
        positions
    }
}

fn check_shape(len: usize, shape: &[usize], what: &str) -> Result<()> {
    if shape.iter().try_fold(1_usize, |places, &len| places.checked_mul(len)) == Some(len) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Selection, format!("{len} {what} in shape {shape:?}")).expected("one for each place"))
}

/// Equally spaced indices of one axis, all in bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progression {
    pub(crate) start: i64,
    /// Not zero. One where there are fewer than two indices.
    pub(crate) step: i64,
    pub(crate) len: i64,
}

impl Item {
    /// A whole axis.
    pub const FULL: Self = Self::Slice { start: None, stop: None, step: 1 };

    /// The half-open range `start..stop`.
    #[must_use]
    pub fn slice(start: impl Into<Option<i64>>, stop: impl Into<Option<i64>>) -> Self {
        Self::Slice { start: start.into(), stop: stop.into(), step: 1 }
    }

    /// Number of axes of the array that the item stands for; `None` for an Ellipsis.
    pub(super) fn axes(&self) -> Option<usize> {
        match self {
            Self::Index(_) | Self::Slice { .. } | Self::Indices(_) => Some(1),
            Self::Mask(mask) => Some(mask.shape.len()),
            Self::Points(points) => Some(points.coordinates.len()),
            Self::NewAxis => Some(0),
            Self::Ellipsis => None,
        }
    }
}

/// Checks an index of `axis`, which has `len` elements, and counts it from the start.
pub(super) fn resolve_index(index: i64, axis: usize, len: i64) -> Result<i64> {
    let at = if index < 0 { index.checked_add(len) } else { Some(index) };
    at.filter(|at| (0..len).contains(at)).ok_or_else(|| {
        let got = format!("index {index} is out of bounds for axis {axis} of length {len}");
        Error::new(ErrorKind::Selection, got).expected(if len == 0 {
            "no integer, because the axis is empty".to_owned()
        } else {
            format!("{} to {}", -len, len - 1)
        })
    })
}

/// Resolves a slice on an axis of `len` elements, as Python's `slice.indices` does.
pub(super) fn resolve_slice(start: Option<i64>, stop: Option<i64>, step: i64, len: i64) -> Result<Progression> {
    if step == 0 {
        return Err(Error::new(ErrorKind::Selection, "a slice with step 0").expected("a step that is not 0"));
    }
    let (least, most) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clip = |bound: i64| if bound < 0 { bound.saturating_add(len).max(least) } else { bound.min(most) };
    let first = start.map_or(if step > 0 { least } else { most }, clip);
    let end = stop.map_or(if step > 0 { most } else { least }, clip);
    let distance = if step > 0 { end - first } else { first - end };
    let len = if distance <= 0 { 0 } else { ((distance - 1) as u64 / step.unsigned_abs() + 1) as i64 };
    Ok(if len == 0 {
        Progression { start: first.clamp(0, most.max(0)), step: 1, len }
    } else {
        Progression { start: first, step: if len == 1 { 1 } else { step }, len }
    })
}

impl From<i64> for Item {
    fn from(index: i64) -> Self {
        Self::Index(index)
    }
}

impl From<Range<i64>> for Item {
    fn from(range: Range<i64>) -> Self {
        Self::slice(range.start, range.end)
    }
}

impl From<RangeFrom<i64>> for Item {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::slice(range.start, None)
    }
}

impl From<RangeTo<i64>> for Item {
    fn from(range: RangeTo<i64>) -> Self {
        Self::slice(None, range.end)
    }
}

impl From<RangeFull> for Item {
    fn from(_: RangeFull) -> Self {
        Self::FULL
    }
}

impl From<Indices> for Item {
    fn from(indices: Indices) -> Self {
        Self::Indices(indices)
    }
}

impl From<Points> for Item {
    fn from(points: Points) -> Self {
        Self::Points(points)
    }
}

impl From<Mask> for Item {
    fn from(mask: Mask) -> Self {
        Self::Mask(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_clip_like_numpy() {
        let slice = |start, stop| {
            let found = resolve_slice(start, stop, 1, 10).unwrap();
            (found.start, found.start + found.len)
        };
        assert_eq!(slice(None, None), (0, 10));
        assert_eq!(slice(Some(-3), None), (7, 10));
        assert_eq!(slice(Some(-30), Some(30)), (0, 10));
        assert_eq!(slice(Some(30), Some(40)), (10, 10));
        assert_eq!(slice(Some(7), Some(2)), (7, 7));
        assert_eq!(slice(Some(i64::MIN), Some(i64::MAX)), (0, 10));
        assert_eq!(slice(Some(i64::MAX), Some(i64::MIN)), (10, 10));
    }

    #[test]
    fn steps_count_like_numpy() {
        let all: Vec<i64> = (0..10).collect();
        let bounds = || [None, Some(0), Some(1), Some(4), Some(9), Some(10), Some(99), Some(-1), Some(-10), Some(-99)];
        for step in [1, 2, 3, 9, 10, 11, i64::MAX, -1, -2, -3, -9, -10, i64::MIN] {
            for (start, stop) in bounds().into_iter().flat_map(|start| bounds().map(|stop| (start, stop))) {
                let found = resolve_slice(start, stop, step, 10).unwrap();
                let got: Vec<i64> = (0..found.len).map(|i| found.start + i * found.step).collect();
                // The definition: walk from the clipped start until the clipped stop is reached or passed.
                let clip = |bound: i64, least, most| (if bound < 0 { bound + 10 } else { bound }).clamp(least, most);
                let expected: Vec<i64> = if step > 0 {
                    let (from, to) = (start.map_or(0, |b| clip(b, 0, 10)), stop.map_or(10, |b| clip(b, 0, 10)));
                    all.iter().copied().filter(|&i| i >= from && i < to && (i - from) % step == 0).collect()
                } else {
                    let (from, to) = (start.map_or(9, |b| clip(b, -1, 9)), stop.map_or(-1, |b| clip(b, -1, 9)));
                    let hits =
                        |&i: &i64| i <= from && i > to && ((from - i) as u64).is_multiple_of(step.unsigned_abs());
                    all.iter().rev().copied().filter(hits).collect()
                };
                assert_eq!(got, expected, "{start:?}:{stop:?}:{step}");
            }
        }
        assert!(resolve_slice(None, None, 0, 10).is_err());
        assert_eq!(resolve_slice(None, None, -1, 0).unwrap().len, 0);
    }

    #[test]
    fn indices_wrap_once() {
        assert_eq!(resolve_index(-10, 0, 10).unwrap(), 0);
        assert_eq!(resolve_index(9, 0, 10).unwrap(), 9);
        for index in [-11, 10, i64::MIN, i64::MAX] {
            assert_eq!(resolve_index(index, 0, 10).unwrap_err().kind(), ErrorKind::Selection);
        }
        assert!(resolve_index(0, 0, 0).is_err());
    }

    #[test]
    fn masks_know_their_positions() {
        let mask = Mask::try_new([true, false, true, false, true, true].into_iter().collect(), vec![2, 3]).unwrap();
        assert_eq!(mask.positions(), [vec![0, 0, 1, 1], vec![0, 2, 1, 2]]);
        assert!(Mask::try_new(BooleanBuffer::new_set(5), vec![2, 3]).is_err());
        assert!(Indices::try_new(vec![1, 2], vec![3]).is_err());
    }
}
