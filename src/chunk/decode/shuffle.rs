//! Shuffled numbers: the first bytes of all of them, then their second bytes, and so on.

use std::ops::Range;

/// Puts the bytes `part`, of whole numbers, of a block of `numbers` shuffled numbers of `typesize` bytes into `target`.
pub(super) fn unshuffle(block: &[u8], numbers: usize, typesize: usize, part: &Range<usize>, target: &mut [u8]) {
    fn fixed<const N: usize>(planes: [&[u8]; N], target: &mut [u8]) {
        let numbers = target.as_chunks_mut::<N>().0;
        // All as long, so that no place in them has to be checked.
        let planes = planes.map(|plane| &plane[..numbers.len()]);
        for (i, number) in numbers.iter_mut().enumerate() {
            for (byte, plane) in number.iter_mut().zip(planes) {
                *byte = plane[i];
            }
        }
    }
    let (first, count) = (part.start / typesize, part.len() / typesize);
    let plane = |byte: usize| &block[byte * numbers + first..byte * numbers + first + count];
    match typesize {
        2 => fixed::<2>([0, 1].map(plane), target),
        4 => fixed::<4>([0, 1, 2, 3].map(plane), target),
        8 => fixed::<8>([0, 1, 2, 3, 4, 5, 6, 7].map(plane), target),
        _ => {
            for byte in 0..typesize {
                let bytes = target.iter_mut().skip(byte).step_by(typesize);
                bytes.zip(plane(byte)).for_each(|(to, from)| *to = *from);
            }
        }
    }
}
