//! Sorts by key, and leaves in order what has the same key.

use super::reserve;
use crate::cancel::Cancel;
use crate::error::Result;

/// So many items are moved between two looks at the caller's wish.
const AT_ONCE: usize = 1 << 16;

/// Fewer items are sorted faster by comparing them.
const FEW: usize = 1 << 11;

/// Bits of a key that are looked at in one pass: the places of all their values fit into a first level of cache.
const MOST_BITS: u32 = 11;

/// What is sorted.
pub(super) trait Keyed: Copy + Default {
    fn key(self) -> u64;
}

/// A key and a number.
pub(super) trait Pair: Keyed + Send + Sync {
    /// The largest key.
    const MOST: u64;

    /// `key` must be no more than [`MOST`](Self::MOST).
    fn new(key: u64, number: u32) -> Self;
    fn number(self) -> u32;
}

/// The key in the upper half.
impl Pair for u64 {
    const MOST: u64 = u32::MAX as u64;

    fn new(key: u64, number: u32) -> Self {
        key << 32 | u64::from(number)
    }

    fn number(self) -> u32 {
        self as u32
    }
}

impl Keyed for u64 {
    fn key(self) -> u64 {
        self >> 32
    }
}

/// Any key, in three words, so that nothing is padded.
impl Pair for [u32; 3] {
    const MOST: u64 = u64::MAX;

    fn new(key: u64, number: u32) -> Self {
        [(key >> 32) as u32, key as u32, number]
    }

    fn number(self) -> u32 {
        self[2]
    }
}

impl Keyed for [u32; 3] {
    fn key(self) -> u64 {
        u64::from(self[0]) << 32 | u64::from(self[1])
    }
}

/// Sorts `items` by key. Those of one key stay in order.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), or [`ErrorKind::Allocation`](crate::ErrorKind::Allocation): it
/// takes as much memory again.
pub(super) fn sort<K: Keyed>(items: &mut [K], cancel: &Cancel) -> Result<()> {
    // Bits in which not all keys are equal.
    let (mut used, mut sorted, mut last) = (0, true, 0);
    let first = items.first().map_or(0, |item| item.key());
    for part in items.chunks(AT_ONCE) {
        cancel.check()?;
        for item in part {
            let key = item.key();
            used |= key ^ first;
            sorted &= last <= key;
            last = key;
        }
    }
    if sorted {
        return Ok(());
    }
    if items.len() <= FEW {
        items.sort_by_key(|item| item.key());
        return Ok(());
    }
    let mut others = reserve(items.len(), "pieces")?;
    others.resize(items.len(), K::default());
    let (mut from, mut to) = (&mut *items, &mut others[..]);
    let mut places = Vec::new();
    let low = used.trailing_zeros();
    let bits = 64 - used.leading_zeros() - low;
    let width = bits.div_ceil(bits.div_ceil(MOST_BITS));
    let mut is_moved = false;
    for low in (low..low + bits).step_by(width as usize) {
        if used >> low & ((1 << width) - 1) != 0 {
            pass(from, to, low, width, &mut places, cancel)?;
            std::mem::swap(&mut from, &mut to);
            is_moved = !is_moved;
        }
    }
    if is_moved {
        to.copy_from_slice(from);
    }
    Ok(())
}

/// Moves items to their places by `width` bits of their keys from bit `low` on.
fn pass<K: Keyed>(
    from: &[K],
    to: &mut [K],
    low: u32,
    width: u32,
    places: &mut Vec<usize>,
    cancel: &Cancel,
) -> Result<()> {
    let digit = |item: K| (item.key() >> low) as usize & ((1 << width) - 1);
    places.clear();
    places.resize(1 << width, 0);
    for part in from.chunks(AT_ONCE) {
        cancel.check()?;
        for &item in part {
            places[digit(item)] += 1;
        }
    }
    let mut end = 0;
    for place in &mut *places {
        end += std::mem::replace(place, end);
    }
    for part in from.chunks(AT_ONCE) {
        cancel.check()?;
        for &item in part {
            let place = &mut places[digit(item)];
            to[*place] = item;
            *place += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Bits;

    fn check<P: Pair>(keys: impl Fn(&mut Bits) -> u64, len: usize) {
        let mut bits = Bits(len as u64);
        let mut expected: Vec<(u64, u32)> = (0..len as u32).map(|number| (keys(&mut bits), number)).collect();
        let mut pairs: Vec<P> = expected.iter().map(|&(key, number)| P::new(key, number)).collect();
        sort(&mut pairs, &Cancel::default()).unwrap();
        expected.sort_unstable();
        assert!(pairs.iter().map(|pair| (pair.key(), pair.number())).eq(expected));
    }

    #[test]
    fn pairs_sort_by_key_and_stay_in_order() {
        // Miri takes minutes for what this takes milliseconds for.
        let step = if cfg!(miri) { 4 } else { 1 };
        for len in [0, 1, 2, 100, FEW, FEW + 1, if cfg!(miri) { 3 } else { 3 * AT_ONCE + 5 }] {
            let masks = [0, 1, 0x7f, 0xffff, u64::from(u32::MAX), 0x8000_0001, 0x00f0_0f00];
            for mask in masks.into_iter().step_by(step) {
                check::<u64>(|bits| bits.next() & mask, len);
                check::<[u32; 3]>(|bits| bits.next() & mask, len);
            }
            let masks = [u64::MAX, 1 << 63, 1 << 63 | 1, 0xfff << 52, 0x00ff_0000_00ff_0000];
            for mask in masks.into_iter().step_by(step) {
                check::<[u32; 3]>(|bits| bits.next() & mask, len);
            }
            check::<u64>(|bits| 1_000_000 - bits.below(2), len);
        }
    }

    #[test]
    fn sorting_is_cancelled_between_passes() {
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let mut pairs: Vec<u64> = (0..10).map(|number| u64::new(10 - u64::from(number), number)).collect();
        let error = sort(&mut pairs, &Cancel::default().with(flag)).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Cancelled);
    }
}
