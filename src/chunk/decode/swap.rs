//! Native byte order: which bytes of an element have to be reversed.

use std::sync::Arc;

use crate::arrow::ElementType;

/// How the elements of an array are stored.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) element: ElementType,
    /// What has to be done for the native byte order, where zarrs takes the elements for opaque bytes. `None`: the
    /// codec `bytes` tells it.
    pub(crate) swap: Option<Swap>,
    /// The bytes of one element of the fill value, as decoded, where zarrs has none like it.
    pub(crate) fill_value: Option<Arc<[u8]>>,
}

/// Numbers whose bytes have to be reversed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Swap {
    None,
    /// All, of so many bytes each.
    Numbers(usize),
    /// Some, in elements of `width` bytes.
    Members {
        width: usize,
        members: Arc<[Swapped]>,
    },
}

/// Numbers in an element whose bytes have to be reversed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Swapped {
    /// `count` numbers of `width` bytes, one after the other.
    Numbers { at: usize, width: usize, count: usize },
    /// The same in each of `count` parts of `stride` bytes.
    Repeated { at: usize, stride: usize, count: usize, members: Vec<Swapped> },
}

impl Swap {
    /// What has to be done in elements of `width` bytes.
    pub(crate) fn of(width: usize, members: Vec<Swapped>) -> Self {
        match members[..] {
            [] => Self::None,
            [Swapped::Numbers { at: 0, width: number, count }] if number * count == width => Self::Numbers(number),
            _ => Self::Members { width, members: members.into() },
        }
    }

    /// How many bytes belong together: those of a number, or of an element in which numbers lie.
    pub(super) fn unit(&self) -> usize {
        match self {
            Self::None => 1,
            Self::Numbers(width) | Self::Members { width, .. } => *width,
        }
    }

    /// Reverses the bytes of the numbers in whole elements.
    pub(crate) fn apply(&self, bytes: &mut [u8]) {
        match self {
            Self::None => {}
            Self::Numbers(width) => reverse(bytes, *width),
            Self::Members { width, members } => {
                for element in bytes.chunks_exact_mut(*width) {
                    for member in &**members {
                        member.apply(element);
                    }
                }
            }
        }
    }
}

impl Swapped {
    fn apply(&self, element: &mut [u8]) {
        match self {
            Self::Numbers { at, width, count } => reverse(&mut element[*at..at + width * count], *width),
            Self::Repeated { at, stride, count, members } => {
                for part in element[*at..at + stride * count].chunks_exact_mut(*stride) {
                    for member in members {
                        member.apply(part);
                    }
                }
            }
        }
    }

    /// The same, so many bytes further on.
    pub(crate) fn shifted(self, by: usize) -> Self {
        match self {
            Self::Numbers { at, width, count } => Self::Numbers { at: at + by, width, count },
            Self::Repeated { at, stride, count, members } => Self::Repeated { at: at + by, stride, count, members },
        }
    }

    /// The same in each of `count` parts of `stride` bytes.
    pub(crate) fn repeated(members: Vec<Self>, stride: usize, count: usize) -> Vec<Self> {
        match members[..] {
            [] => Vec::new(),
            _ if count == 1 => members,
            [Self::Numbers { at: 0, width, count: numbers }] if width * numbers == stride => {
                vec![Self::Numbers { at: 0, width, count: numbers * count }]
            }
            _ => vec![Self::Repeated { at: 0, stride, count, members }],
        }
    }
}

/// Reverses the bytes of each number of `width` bytes.
fn reverse(bytes: &mut [u8], width: usize) {
    fn swap<const N: usize>(bytes: &mut [u8]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
    }
    match width {
        2 => swap::<2>(bytes),
        4 => swap::<4>(bytes),
        8 => swap::<8>(bytes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_reversed_where_they_lie() {
        let pair = vec![Swapped::Numbers { at: 1, width: 2, count: 1 }];
        let members = Swapped::repeated(pair, 3, 2).into_iter().map(|member| member.shifted(4)).collect();
        let swap = Swap::of(11, [vec![Swapped::Numbers { at: 0, width: 4, count: 1 }], members].concat());
        let mut bytes: Vec<u8> = (0..22).collect();
        swap.apply(&mut bytes);
        assert_eq!(bytes[..11], [3, 2, 1, 0, 4, 6, 5, 7, 9, 8, 10]);
        assert_eq!(bytes[11..], [14, 13, 12, 11, 15, 17, 16, 18, 20, 19, 21]);
        swap.apply(&mut bytes);
        assert!(bytes.into_iter().eq(0..22));
    }

    #[test]
    fn numbers_alone_are_reversed_together() {
        let numbers = vec![Swapped::Numbers { at: 0, width: 4, count: 2 }];
        assert_eq!(Swapped::repeated(numbers.clone(), 8, 3), [Swapped::Numbers { at: 0, width: 4, count: 6 }]);
        assert_eq!(Swap::of(8, numbers), Swap::Numbers(4));
        assert_eq!(Swap::of(8, vec![]), Swap::None);
    }
}
