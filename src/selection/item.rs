//! One item of a selection, for one axis.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use crate::error::{Error, ErrorKind, Result};

/// What a selection asks of one axis, as in `NumPy`'s basic indexing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// One index; negative counts from the end. Drops the axis.
    Index(i64),
    /// The half-open range `start..stop`. Negative bounds count from the end; bounds beyond the edge clip.
    Slice {
        /// First index, or from the start of the axis.
        start: Option<i64>,
        /// One past the last index, or to the end of the axis.
        stop: Option<i64>,
    },
    /// As many whole axes as are not named by the other items. At most one in a selection.
    Ellipsis,
}

impl Item {
    /// A whole axis.
    pub const FULL: Self = Self::Slice { start: None, stop: None };

    /// Resolves the item on an axis of `len` elements to `start..stop` with `start <= stop <= len`.
    pub(super) fn resolve(self, axis: usize, len: i64) -> Result<(i64, i64)> {
        match self {
            Self::Index(index) => {
                let at = if index < 0 { index.checked_add(len) } else { Some(index) };
                match at {
                    Some(at) if (0..len).contains(&at) => Ok((at, at + 1)),
                    _ => Err(Error::new(
                        ErrorKind::Selection,
                        format!("index {index} is out of bounds for axis {axis} of length {len}"),
                    )
                    .expected(if len == 0 {
                        "no integer, because the axis is empty".to_owned()
                    } else {
                        format!("{} to {}", -len, len - 1)
                    })),
                }
            }
            Self::Slice { start, stop } => {
                let clip = |bound: i64| if bound < 0 { bound.saturating_add(len).max(0) } else { bound.min(len) };
                let start = start.map_or(0, clip);
                let stop = stop.map_or(len, clip);
                Ok((start, stop.max(start)))
            }
            Self::Ellipsis => Ok((0, len)),
        }
    }
}

impl From<i64> for Item {
    fn from(index: i64) -> Self {
        Self::Index(index)
    }
}

impl From<Range<i64>> for Item {
    fn from(range: Range<i64>) -> Self {
        Self::Slice { start: Some(range.start), stop: Some(range.end) }
    }
}

impl From<RangeFrom<i64>> for Item {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::Slice { start: Some(range.start), stop: None }
    }
}

impl From<RangeTo<i64>> for Item {
    fn from(range: RangeTo<i64>) -> Self {
        Self::Slice { start: None, stop: Some(range.end) }
    }
}

impl From<RangeFull> for Item {
    fn from(_: RangeFull) -> Self {
        Self::FULL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_clip_like_numpy() {
        let slice = |start, stop| Item::Slice { start, stop }.resolve(0, 10).unwrap();
        assert_eq!(slice(None, None), (0, 10));
        assert_eq!(slice(Some(-3), None), (7, 10));
        assert_eq!(slice(Some(-30), Some(30)), (0, 10));
        assert_eq!(slice(Some(30), Some(40)), (10, 10));
        assert_eq!(slice(Some(7), Some(2)), (7, 7));
        assert_eq!(slice(Some(i64::MIN), Some(i64::MAX)), (0, 10));
        assert_eq!(slice(Some(i64::MAX), Some(i64::MIN)), (10, 10));
    }

    #[test]
    fn indices_wrap_once() {
        assert_eq!(Item::Index(-10).resolve(0, 10).unwrap(), (0, 1));
        assert_eq!(Item::Index(9).resolve(0, 10).unwrap(), (9, 10));
        for index in [-11, 10, i64::MIN, i64::MAX] {
            assert_eq!(Item::Index(index).resolve(0, 10).unwrap_err().kind(), ErrorKind::Selection);
        }
        assert!(Item::Index(0).resolve(0, 0).is_err());
    }
}
