//! How an axis is cut into parts: all of one length, or not.

use std::num::NonZeroU64;
use std::sync::Arc;

/// The parts of an axis, one after the other. The last may reach beyond the axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lengths {
    Equal(Divisor),
    /// At least two series of parts of one length, the first from 0 on. The last has no end.
    Series(Arc<[Series]>),
}

/// Neighbouring parts of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Series {
    /// Where the first of them starts.
    start: u64,
    /// Its number.
    number: u64,
    /// The length of each.
    len: NonZeroU64,
}

impl Lengths {
    /// Parts that all have this length.
    pub(crate) fn regular(len: NonZeroU64) -> Self {
        Self::Equal(Divisor::new(len))
    }

    /// The parts of an axis of length `axis`: for each of `parts`, so many of a length. `None` if they do not cover it.
    ///
    /// This takes memory by how many `parts` there are, however many parts they stand for.
    pub(crate) fn new(axis: u64, parts: impl IntoIterator<Item = (NonZeroU64, NonZeroU64)>) -> Option<Self> {
        let mut series: Vec<Series> = Vec::new();
        let (mut start, mut number) = (0_u64, 0_u64);
        for (len, count) in parts {
            if series.last().is_none_or(|last| last.len != len) {
                series.push(Series { start, number, len });
            }
            start = start.saturating_add(len.get().saturating_mul(count.get()));
            if start >= axis {
                break;
            }
            // Of no less than one element each, they are fewer than the axis has.
            number += count.get();
        }
        if start < axis {
            return None;
        }
        match series[..] {
            [] => None,
            [only] => Some(Self::regular(only.len)),
            _ => Some(Self::Series(series.into())),
        }
    }

    /// How many parts there are up to `end`, counted from the first.
    pub(crate) fn count(&self, end: u64) -> u64 {
        match (self, end.checked_sub(1)) {
            (_, None) => 0,
            (Self::Equal(len), _) => end.div_ceil(len.get()),
            (Self::Series(_), Some(last)) => self.of(last) + 1,
        }
    }

    /// Number of the part that holds `index`.
    #[inline]
    pub(crate) fn of(&self, index: u64) -> u64 {
        match self {
            Self::Equal(len) => len.divide(index),
            Self::Series(series) => {
                let Series { start, number, len } = find(series, |series| series.start <= index);
                number + (index - start) / len
            }
        }
    }

    /// Where the part `number` starts, and its length.
    #[inline]
    pub(crate) fn bounds(&self, number: u64) -> (u64, u64) {
        match self {
            Self::Equal(len) => (number * len.get(), len.get()),
            Self::Series(series) => {
                let Series { start, number: first, len } = find(series, |series| series.number <= number);
                (start + (number - first) * len.get(), len.get())
            }
        }
    }

    /// The length of the longest part.
    pub(crate) fn longest(&self) -> NonZeroU64 {
        match self {
            Self::Equal(len) => len.by,
            Self::Series(series) => series.iter().map(|series| series.len).fold(NonZeroU64::MIN, NonZeroU64::max),
        }
    }

    /// The length of all parts, if they have one.
    #[inline]
    pub(crate) fn equal(&self) -> Option<NonZeroU64> {
        match self {
            Self::Equal(len) => Some(len.by),
            Self::Series(_) => None,
        }
    }

    /// The same parts, their lengths counted in units of `unit`. `None` if some length is no multiple of it.
    pub(crate) fn divided(&self, unit: NonZeroU64) -> Option<Self> {
        let divide =
            |len: NonZeroU64| NonZeroU64::new(len.get() / unit).filter(|_| len.get().is_multiple_of(unit.get()));
        Some(match self {
            Self::Equal(len) => Self::regular(divide(len.by)?),
            Self::Series(series) => {
                let divide = |series: &Series| {
                    Some(Series { start: series.start / unit, len: divide(series.len)?, number: series.number })
                };
                Self::Series(series.iter().map(divide).collect::<Option<_>>()?)
            }
        })
    }
}

/// The last series of which `is_before` holds, as it does of the first.
fn find(series: &[Series], is_before: impl Fn(&Series) -> bool) -> Series {
    series[series.partition_point(is_before).max(1) - 1]
}

/// What indices are divided by again and again: a multiplication takes a fraction of a division's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: NonZeroU64,
    /// 2^64 / `by`, rounded up; 0 where that is 2^64.
    reciprocal: u64,
    /// Up to here, the product with the reciprocal has the quotient in its upper half: it is too large by less than
    /// `index * by / 2^64` of one `by`-th.
    most: u64,
}

impl Divisor {
    fn new(by: NonZeroU64) -> Self {
        let most = if by.get() == 1 { 0 } else { u64::MAX / by };
        Self { by, reciprocal: (u64::MAX / by).wrapping_add(1), most }
    }

    fn get(self) -> u64 {
        self.by.get()
    }

    #[inline]
    fn divide(self, index: u64) -> u64 {
        if index <= self.most {
            return ((u128::from(index) * u128::from(self.reciprocal)) >> 64) as u64;
        }
        index / self.by
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn n(value: u64) -> NonZeroU64 {
        NonZeroU64::new(value).unwrap()
    }

    fn lengths(axis: u64, parts: &[(u64, u64)]) -> Option<Lengths> {
        Lengths::new(axis, parts.iter().map(|&(len, count)| (n(len), n(count))))
    }

    #[test]
    fn reciprocals_divide_exactly() {
        let near = |value: u64| (value.saturating_sub(3)..=value.saturating_add(3)).collect::<Vec<_>>();
        let bits = || (0..64).step_by(if cfg!(miri) { 21 } else { 1 });
        let interesting = || bits().map(|bit| 1_u64 << bit).chain([10, 1000, 100_000, 11_529_215, u64::MAX / 3]);
        for by in interesting().flat_map(near).filter_map(NonZeroU64::new) {
            let divisor = Divisor::new(by);
            let multiples = [1, 2, 7, 1 << 20, divisor.most / by].map(|times| by.get().saturating_mul(times));
            for index in interesting().chain([0, divisor.most, u64::MAX]).chain(multiples).flat_map(near) {
                assert_eq!(divisor.divide(index), index / by, "{index} / {by}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 256 }))]
        #[test]
        fn parts_are_those_of_a_list(
            parts in prop::collection::vec((1_u64..5, 1_u64..4), 1..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let list: Vec<u64> = parts.iter().flat_map(|&(len, count)| vec![len; count as usize]).collect();
            let all: u64 = list.iter().sum();
            let axis = cut.index(all as usize + 1) as u64;
            let lengths = lengths(axis, &parts).unwrap();
            let of = |index: u64| {
                let mut end = 0;
                list.iter().position(|len| { end += len; index < end }).unwrap() as u64
            };
            for index in 0..axis {
                let number = of(index);
                prop_assert_eq!(lengths.of(index), number);
                let start: u64 = list[..number as usize].iter().sum();
                prop_assert_eq!(lengths.bounds(number), (start, list[number as usize]));
                prop_assert_eq!(lengths.count(index + 1), number + 1);
                prop_assert!(lengths.longest().get() >= list[number as usize]);
            }
            prop_assert_eq!(lengths.count(0), 0);
            prop_assert!(Lengths::new(all + 1, parts.iter().map(|&(len, count)| (n(len), n(count)))).is_none());
            let doubled = Lengths::new(2 * axis, parts.iter().map(|&(len, count)| (n(2 * len), n(count)))).unwrap();
            prop_assert_eq!(doubled.divided(n(2)).unwrap(), lengths);
        }
    }

    #[test]
    fn numbers_allocate_nothing() {
        let huge = lengths(i64::MAX as u64, &[(2, 5), (1, u64::MAX), (3, u64::MAX)]).unwrap();
        assert_eq!(huge.of(1 << 62), (1 << 62) - 5);
        assert_eq!(huge.bounds((1 << 62) - 5), (1 << 62, 1));
        assert_eq!(huge.count(i64::MAX as u64), i64::MAX as u64 - 5);
        assert_eq!(lengths(1 << 60, &[(u64::MAX, u64::MAX)]), Some(Lengths::regular(n(u64::MAX))));
    }

    #[test]
    fn what_is_equal_is_told() {
        assert_eq!(lengths(10, &[(4, 1), (4, 2)]), Some(Lengths::regular(n(4))));
        // What lies beyond the axis does not matter.
        assert_eq!(lengths(8, &[(4, 2), (1, 9)]), Some(Lengths::regular(n(4))));
        assert_eq!(lengths(0, &[(4, 2), (1, 9)]), Some(Lengths::regular(n(4))));
        assert!(lengths(9, &[(4, 2), (1, 9)]).unwrap().equal().is_none());
        assert_eq!((lengths(0, &[]), lengths(3, &[(1, 2)])), (None, None));
        assert!(lengths(9, &[(4, 2), (1, 9)]).unwrap().divided(n(2)).is_none());
    }
}
