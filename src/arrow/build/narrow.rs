//! Floats of one and two bytes, widened to float32 in their place.

use rayon::prelude::*;

use super::AT_ONCE;
use crate::arrow::narrow::{NarrowFloat, from_bfloat16};

/// Widens the floats that stand at the end of `values`, as many as it has room for.
pub(super) fn widen(float: NarrowFloat, values: &mut [u8]) {
    if float == NarrowFloat::BFloat16 {
        spread(values, |bits: [u8; 2]| from_bfloat16(u16::from_ne_bytes(bits)).to_ne_bytes());
    } else {
        let table = float.values().map(f32::to_ne_bytes);
        spread(values, |[code]: [u8; 1]| table[usize::from(code)]);
    }
}

/// Makes `T` bytes of each `F` at the end of `values`, which is as long as the result.
///
/// The first results overwrite what is before the last sources only, so these run in parallel; what is left is a part
/// of it each time.
fn spread<const F: usize, const T: usize>(values: &mut [u8], convert: impl Fn([u8; F]) -> [u8; T] + Sync) {
    let len = values.len() / T;
    let start = values.len() - len * F;
    let mut done = 0;
    while done < len {
        let from = start + done * F;
        let to = from / T;
        if to < done + AT_ONCE {
            break;
        }
        let (targets, sources) = values.split_at_mut(from);
        let targets = targets[done * T..to * T].as_chunks_mut::<T>().0;
        let sources = sources[..(to - done) * F].as_chunks::<F>().0;
        targets.par_chunks_mut(AT_ONCE).zip(sources.par_chunks(AT_ONCE)).for_each(|(targets, sources)| {
            for (target, source) in targets.iter_mut().zip(sources) {
                *target = convert(*source);
            }
        });
        done = to;
    }
    for at in done..len {
        let mut source = [0; F];
        source.copy_from_slice(&values[start + at * F..start + (at + 1) * F]);
        values[at * T..(at + 1) * T].copy_from_slice(&convert(source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_spread_once() {
        for len in [0, 1, 2, 1000, AT_ONCE, 2 * AT_ONCE + 1, 30 * AT_ONCE + 7] {
            let sources: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            let mut values = vec![0xee; 3 * len];
            values.extend(&sources);
            spread(&mut values, |[code]: [u8; 1]| [code, !code, code ^ 0x55, 1]);
            let expected = sources.iter().flat_map(|&code| [code, !code, code ^ 0x55, 1]);
            assert!(values.iter().copied().eq(expected), "{len}");
        }
    }

    #[test]
    fn bfloat16_is_the_upper_half() {
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        let mut values = vec![0; 2 * bits.len()];
        values.extend(bits.iter().flat_map(|bits| bits.to_ne_bytes()));
        widen(NarrowFloat::BFloat16, &mut values);
        let floats = values.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
        assert!(floats.eq(bits.iter().map(|&bits| u32::from(bits) << 16)));
    }
}
