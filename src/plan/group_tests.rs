//! Groups are the same, however they are made and by however many threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::error::ErrorKind;
use crate::plan::blocks::Threads;
use crate::random::Bits;

/// The keys of each of some numbers.
struct Listed {
    keys: Vec<Vec<u64>>,
    cancel: Cancel,
}

impl Pieces for Listed {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn for_each(&self, block: Range<usize>, mut visit: impl FnMut(u64, u32)) -> Result<()> {
        let mut pulse = self.cancel.pulse();
        for number in block {
            for &key in &self.keys[number] {
                pulse.beat()?;
                visit(key, number as u32);
            }
        }
        Ok(())
    }

    fn count(&self, blocks: &[Range<usize>]) -> Result<Vec<usize>> {
        Ok(blocks.iter().map(|block| self.keys[block.clone()].iter().map(Vec::len).sum()).collect())
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

fn naive(listed: &Listed) -> Groups {
    let mut groups = BTreeMap::<u64, Vec<u32>>::new();
    for (number, keys) in listed.keys.iter().enumerate() {
        for &key in keys {
            groups.entry(key).or_default().push(number as u32);
        }
    }
    let mut offsets = vec![0];
    let mut rows = Vec::new();
    for mut numbers in groups.values().cloned() {
        rows.append(&mut numbers);
        offsets.push(rows.len());
    }
    Groups { chunks: groups.into_keys().collect(), offsets, rows }
}

fn random(bits: &mut Bits, len: u64, keys: u64) -> Listed {
    let is_sorted = bits.below(3) == 0;
    let mut least = 0;
    let mut of_number = |_| {
        let mut keys: Vec<u64> = (0..bits.below(4)).map(|_| least + bits.below(keys - least)).collect();
        keys.sort_unstable();
        keys.dedup();
        least = if is_sorted { keys.last().copied().unwrap_or(least) } else { 0 };
        keys
    };
    Listed { keys: (0..len).map(&mut of_number).collect(), cancel: Cancel::default() }
}

#[test]
fn groups_do_not_depend_on_how_they_are_made() {
    let mut bits = Bits(11);
    for _ in 0..if cfg!(miri) { 4 } else { 200 } {
        let (len, keys) = (bits.below(60), bits.pick(&[1, 2, 5, 40, 300, 5000, 1 << 20, 1 << 40, 1 << 63]));
        let listed = random(&mut bits, len, keys);
        let expected = naive(&listed);
        assert!(expected.is_sound());
        for threads in (1..=7).step_by(if cfg!(miri) { 3 } else { 1 }) {
            let blocks = Threads::exactly(threads).cut(listed.len());
            assert_eq!(Groups::new(&listed, keys, &blocks).unwrap(), expected);
            let counts = listed.count(&blocks).unwrap();
            assert_eq!(Groups::by_sorting::<[u32; 3]>(&listed, &blocks, &counts).unwrap(), expected);
            if keys <= 1 << 32 {
                assert_eq!(Groups::by_sorting::<u64>(&listed, &blocks, &counts).unwrap(), expected);
            }
            if keys <= 5000 {
                assert_eq!(Groups::by_counting(&listed, keys, blocks.clone()).unwrap(), expected);
                // As where there are more pieces than 32 bits count.
                let counted = blocks.into_iter().map(|block| {
                    let mut counts = vec![0_u64; keys as usize];
                    listed.for_each(block.clone(), |key, _| counts[key as usize] += 1).unwrap();
                    (block, counts)
                });
                assert_eq!(Groups::place(&listed, counted.collect()).unwrap(), expected);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "whether to go on is looked at so rarely that Miri did not come to it in minutes")]
fn grouping_ends_when_it_is_cancelled() {
    let keys = (0..1 << 16).map(|number| vec![number * 7919 % (1 << 20)]).collect();
    let cancel = Cancel::default().with(Arc::new(AtomicBool::new(true)));
    let listed = Listed { keys, cancel };
    for threads in [1, 2, 7] {
        for keys in [1 << 20, 1 << 40] {
            let error = Groups::new(&listed, keys, &Threads::exactly(threads).cut(listed.len())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        }
    }
}
