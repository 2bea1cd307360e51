//! Groups numbered things, such as rows, by the keys of what they touch, such as read chunks.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use super::blocks::{each, join};
use super::pieces::Pieces;
use super::sort::{Pair, sort};
use super::{make_room, reserve};
use crate::cancel::Cancel;
use crate::error::Result;

/// The touched read chunks in ascending key order, each with the rows that touch it, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    chunks: Vec<u64>,
    /// Rows of chunk `c` are `rows[offsets[c]..offsets[c + 1]]`.
    offsets: Vec<usize>,
    rows: Vec<u32>,
}

impl Groups {
    /// Groups `pieces` by keys less than `keys`, each of `blocks` in a thread of its own: all of `pieces` in order.
    pub(super) fn new<P: Pieces>(pieces: &P, keys: u64, blocks: &[Range<usize>]) -> Result<Self> {
        // Counting needs a table over all keys, in each thread. Where that is out of proportion, sort instead. Hashing keys
        // was tried: a third of the time for a million pieces of 10,000 keys, three times for as many keys as pieces, and in
        // the whole plan no difference that could be measured.
        let tables =
            |pieces: usize| join(blocks, usize::try_from(pieces as u64 * 2 / keys.max(1)).unwrap_or(usize::MAX));
        let counting = |pieces: usize| keys <= (pieces as u64).saturating_mul(4).max(P::FEW_KEYS);
        let shared = |tables: &[Range<usize>]| tables.len() > 1 || blocks.len() <= 1;
        let few = tables(pieces.len());
        if counting(pieces.len()) && shared(&few) {
            return Self::by_counting(pieces, keys, few);
        }
        let counts = pieces.count(blocks)?;
        let total = counts.iter().sum();
        let few = tables(total);
        if counting(total) && shared(&few) {
            return Self::by_counting(pieces, keys, few);
        }
        if keys <= u64::MOST {
            Self::by_sorting::<u64>(pieces, blocks, &counts)
        } else {
            Self::by_sorting::<[u32; 3]>(pieces, blocks, &counts)
        }
    }

    /// Counts the pieces of each key in each block, so that each piece goes straight to its place.
    fn by_counting(pieces: &impl Pieces, keys: u64, blocks: Vec<Range<usize>>) -> Result<Self> {
        let count = |block: Range<usize>| {
            let mut counts = zeros(keys as usize, "read chunks")?;
            // Each row has one piece with a key at most, so that these are no more than the rows.
            pieces.for_each(block.clone(), |key, _| counts[key as usize] += 1_u32)?;
            Ok((block, counts))
        };
        let counted = each(blocks, count)?;
        let total: u64 = counted.iter().flat_map(|(_, counts)| counts).map(|&count| u64::from(count)).sum();
        if u32::try_from(total).is_ok() {
            return Self::place(pieces, counted);
        }
        let widen = |(block, counts): (_, Vec<u32>)| {
            let mut wide = reserve(counts.len(), "read chunks")?;
            wide.extend(counts.into_iter().map(u64::from));
            Ok((block, wide))
        };
        Self::place(pieces, counted.into_iter().map(widen).collect::<Result<Vec<_>>>()?)
    }

    /// Places the pieces of each block, of which there are so many with each key.
    fn place<N: Counter>(pieces: &impl Pieces, mut counted: Vec<(Range<usize>, Vec<N>)>) -> Result<Self> {
        let keys = counted.first().map_or(0, |(_, counts)| counts.len());
        let is_touched = |key: usize| counted.iter().any(|(_, counts)| counts[key].into() > 0);
        let touched = (0..keys).filter(|&key| is_touched(key)).count();
        let mut chunks = reserve(touched, "read chunks")?;
        let mut offsets = reserve(touched + 1, "read chunks")?;
        offsets.push(0);
        let mut end = 0;
        let mut pulse = pieces.cancel().pulse();
        for key in 0..keys {
            pulse.beat()?;
            let start = end;
            for (_, counts) in &mut counted {
                // From a count to the place of the first.
                let count = counts[key].into();
                counts[key] = N::from_place(end);
                end += count;
            }
            if end > start {
                chunks.push(key as u64);
                offsets.push(end as usize);
            }
        }
        let rows = if let [(block, next)] = &mut counted[..] {
            let mut rows = zeros(end as usize, "pieces")?;
            pieces.for_each(block.clone(), |key, row| rows[take(next, key)] = row)?;
            rows
        } else {
            let mut rows: Vec<AtomicU32> = reserve(end as usize, "pieces")?;
            rows.resize_with(end as usize, AtomicU32::default);
            each(counted, |(block, mut next)| {
                // Every place is taken once. Who takes it needs no order: threads end before anybody reads.
                pieces.for_each(block, |key, row| rows[take(&mut next, key)].store(row, Ordering::Relaxed))
            })?;
            rows.into_iter().map(AtomicU32::into_inner).collect()
        };
        Ok(Self { chunks, offsets, rows })
    }

    /// Sorts pairs of key and row, as many as `counts` says in each block, then merges blocks.
    fn by_sorting<P: Pair>(pieces: &impl Pieces, blocks: &[Range<usize>], counts: &[usize]) -> Result<Self> {
        let blocks = blocks.iter().cloned().zip(counts.iter().copied()).collect();
        let runs = each(blocks, |(block, count)| {
            let mut pairs: Vec<P> = reserve(count, "pieces")?;
            pieces.for_each(block, |key, row| pairs.push(P::new(key, row)))?;
            sort(&mut pairs, pieces.cancel())?;
            Ok(pairs)
        })?;
        let parts = share(&runs);
        let len = |part: &[&[P]]| part.iter().map(|run| run.len()).sum::<usize>();
        let mut rows = zeros(parts.iter().map(|part| len(part)).sum(), "pieces")?;
        let (mut rest, mut start) = (&mut rows[..], 0);
        let mut tasks = Vec::with_capacity(parts.len());
        for part in parts {
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(len(&part));
            tasks.push((part, start, mine));
            (rest, start) = (others, start + tasks[tasks.len() - 1].2.len());
        }
        let merged = each(tasks, |(part, start, rows)| merge(&part, start, rows, pieces.cancel()))?;
        drop(runs);
        let touched = merged.iter().map(|(chunks, _)| chunks.len()).sum::<usize>();
        let mut merged = merged.into_iter();
        let (mut chunks, mut offsets) = merged.next().unwrap_or_default();
        make_room(&mut chunks, touched)?;
        make_room(&mut offsets, touched + 1)?;
        for (more_chunks, more_offsets) in merged {
            chunks.extend(more_chunks);
            offsets.extend(more_offsets);
        }
        offsets.push(rows.len());
        Ok(Self { chunks, offsets, rows })
    }

    /// Groups that may be wrong, to test what checks them.
    #[cfg(test)]
    pub(super) fn unchecked(chunks: Vec<u64>, offsets: Vec<usize>, rows: Vec<u32>) -> Self {
        Self { chunks, offsets, rows }
    }

    /// Keys of the touched read chunks.
    pub(crate) fn chunks(&self) -> &[u64] {
        &self.chunks
    }

    /// Rows that touch the `chunk`-th of [`chunks`](Self::chunks).
    pub(crate) fn rows(&self, chunk: usize) -> &[u32] {
        &self.rows[self.offsets[chunk]..self.offsets[chunk + 1]]
    }

    /// The rows of all of [`chunks`](Self::chunks), one after the other.
    pub(super) fn all_rows(&self) -> &[u32] {
        &self.rows
    }

    /// Where the rows of each of [`chunks`](Self::chunks) begin among [`all_rows`](Self::all_rows), and the end.
    pub(super) fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Whether keys ascend strictly, and the rows of each follow those of the one before.
    pub(super) fn is_sound(&self) -> bool {
        self.chunks.is_sorted_by(|a, b| a < b)
            && self.offsets.len() == self.chunks.len() + 1
            && self.offsets.first() == Some(&0)
            && self.offsets.last() == Some(&self.rows.len())
            && self.offsets.is_sorted()
    }

    /// Number of pairs of a row and a read chunk that it touches.
    pub(crate) fn pieces(&self) -> usize {
        self.rows.len()
    }
}

/// A place among pieces, in as many bits as all places need.
trait Counter: Copy + Into<u64> + Send + Sync {
    fn from_place(place: u64) -> Self;
}

impl Counter for u32 {
    fn from_place(place: u64) -> Self {
        place as u32
    }
}

impl Counter for u64 {
    fn from_place(place: u64) -> Self {
        place
    }
}

/// Takes the next place of a key.
#[inline]
fn take<N: Counter>(next: &mut [N], key: u64) -> usize {
    let next = &mut next[key as usize];
    let place: u64 = (*next).into();
    *next = N::from_place(place + 1);
    place as usize
}

fn zeros<T: Clone + Default>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut zeros = reserve(len, what)?;
    zeros.resize(len, T::default());
    Ok(zeros)
}

/// Cuts sorted `runs` at the same keys into as many parts, about equally large; of each part, what each run has of it.
fn share<P: Pair>(runs: &[Vec<P>]) -> Vec<Vec<&[P]>> {
    let count = runs.len();
    let mut samples = Vec::with_capacity(count * count);
    for run in runs {
        samples.extend((1..count).filter_map(|part| Some(run.get(run.len() / count * part)?.key())));
    }
    samples.sort_unstable();
    let mut rest: Vec<&[P]> = runs.iter().map(Vec::as_slice).collect();
    let mut parts = Vec::with_capacity(count);
    for part in 1..count {
        let Some(&bound) = samples.get(samples.len() * part / count) else { break };
        let mut mine = Vec::with_capacity(count);
        for run in &mut rest {
            let (front, back) = run.split_at(run.partition_point(|pair| pair.key() < bound));
            mine.push(front);
            *run = back;
        }
        parts.push(mine);
    }
    parts.push(rest);
    parts
}

/// Merges the sorted runs of a part: keys in ascending order, and the place where the numbers of each begin, from `start`
/// on. The numbers go to `numbers`, those of one key in the order of the runs.
fn merge<P: Pair>(part: &[&[P]], start: usize, numbers: &mut [u32], cancel: &Cancel) -> Result<(Vec<u64>, Vec<usize>)> {
    let mut pulse = cancel.pulse();
    let most = part.iter().map(|run| run.chunk_by(|a, b| a.key() == b.key()).count()).sum::<usize>();
    let mut keys = reserve(most, "read chunks")?;
    let mut offsets = reserve(most + 1, "read chunks")?;
    let mut heads = part.to_vec();
    let mut written = 0;
    while let Some(key) = heads.iter().filter_map(|head| head.first()).map(|pair| pair.key()).min() {
        keys.push(key);
        offsets.push(start + written);
        for head in &mut heads {
            while let [pair, after @ ..] = *head
                && pair.key() == key
            {
                pulse.beat()?;
                numbers[written] = pair.number();
                written += 1;
                *head = after;
            }
        }
    }
    Ok((keys, offsets))
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
