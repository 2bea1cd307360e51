//! Arrays, what is selected of them, and each way to scatter it, against a gather element by element.

use std::num::NonZeroU64;
use std::sync::{Arc, LazyLock};

use super::super::*;
use super::{BEYOND, JUNK};
use crate::cancel::Cancel;
use crate::plan::Plan;
use crate::plan::blocks::Threads;
use crate::plan::grid::Grid;
use crate::random::Bits;
use crate::read::run::merge;
use crate::selection::{Selections, Shapes};

/// How the bytes of a read chunk come to the scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Whole,
    /// Up to the last wanted byte, unless that is beyond so many eighths of the read chunk.
    Prefix(usize),
    /// The wanted bytes in blocks of `block`, those no more than `gap` bytes apart together.
    Ranges {
        gap: usize,
        block: usize,
        limit: usize,
    },
    /// Straight into the output where that is possible.
    Run,
    /// As [`How::Run`], but the run is declined.
    Declined,
    /// Not at all: the store does not hold it.
    Fill,
}

pub(super) const WAYS: [How; 9] = [
    How::Whole,
    How::Prefix(3),
    How::Prefix(8),
    How::Ranges { gap: 0, block: 1, limit: usize::MAX },
    How::Ranges { gap: 5, block: 1, limit: usize::MAX },
    How::Ranges { gap: 0, block: 48, limit: 3 },
    How::Run,
    How::Declined,
    How::Fill,
];

/// An array and its read chunks.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) shape: Vec<u64>,
    pub(super) chunk: Vec<u64>,
    pub(super) in_shard: Vec<u64>,
    /// The stored order of axes, outermost first.
    pub(super) order: Vec<usize>,
}

impl Source {
    /// In C order, without shards.
    pub(super) fn new(shape: &[u64], chunk: &[u64]) -> Self {
        let (order, in_shard) = ((0..shape.len()).collect(), vec![1; shape.len()]);
        Self { shape: shape.to_vec(), chunk: chunk.to_vec(), in_shard, order }
    }

    pub(super) fn grid(&self) -> Grid {
        let nonzero = |lengths: &[u64]| lengths.iter().map(|&len| NonZeroU64::new(len).unwrap()).collect::<Vec<_>>();
        Grid::new(&self.shape, &nonzero(&self.chunk), &nonzero(&self.in_shard)).unwrap()
    }

    /// Strides of a read chunk, in elements.
    pub(super) fn strides(&self) -> Vec<usize> {
        let mut strides = vec![0; self.chunk.len()];
        let mut stride = 1;
        for &axis in self.order.iter().rev() {
            strides[axis] = stride;
            stride *= self.chunk[axis] as usize;
        }
        strides
    }
}

/// The elements that a row has, by their coordinates in its array.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) elements: usize,
    /// One per axis and element; [`BEYOND`] on the first axis where the array does not hold the element.
    pub(super) coordinates: Vec<i64>,
}

impl Row {
    /// All combinations of the indices of each axis, in C order. Those beyond `shape` are elements all the same.
    pub(super) fn product(shape: &[u64], axes: &[Vec<i64>]) -> Self {
        let mut row = Self::default();
        let bounds: Vec<[u64; 2]> = axes.iter().map(|indices| [0, indices.len() as u64]).collect();
        for_each(&bounds, |at| {
            let indices = at.iter().zip(axes).map(|(&at, indices)| indices[at as usize]);
            let from = row.coordinates.len();
            row.coordinates.extend(indices);
            row.elements += 1;
            let beyond = row.coordinates[from..].iter().zip(shape).any(|(at, &len)| !(0..len as i64).contains(at));
            if beyond {
                row.coordinates[from] = BEYOND;
            }
        });
        row
    }
}

/// Arrays, and what is selected of them.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) sources: Vec<Source>,
    /// The array of each row, where there are several.
    pub(super) of_row: Option<Vec<u32>>,
    pub(super) selections: Selections,
    pub(super) rows: Vec<Row>,
    pub(super) item: usize,
    pub(super) fill: Vec<u8>,
    /// One way for all read chunks, or one for each by chance.
    pub(super) how: Option<How>,
    /// Whether the output holds junk at first, as one does whose memory was used before.
    pub(super) stale: bool,
    /// From how many bytes on copies are shared among threads, below [`LEAST`]; of 0, from as many as elsewhere.
    pub(super) worth: usize,
}

/// One more than the most bytes that may be worth sharing here.
pub(super) const LEAST: usize = 48;

static CREWS: LazyLock<Vec<Crew<'static>>> = LazyLock::new(|| {
    let go_on: &(dyn Fn() -> bool + Sync) = &|| true;
    let shares = (1..LEAST).map(|worth| Crew::new(8, go_on).with_worth(worth));
    std::iter::once(Crew::new(8, go_on)).chain(shares).collect()
});

impl Case {
    pub(super) fn new(source: Source, item: usize, selections: Selections, rows: Vec<Row>) -> Self {
        let fill = (1..=item as u8).collect();
        Self { sources: vec![source], of_row: None, selections, rows, item, fill, how: None, stale: false, worth: 0 }
    }

    /// Boxes on the leading axes; the others are whole.
    pub(super) fn boxes(source: Source, item: usize, boxes: &[&[[i64; 2]]]) -> Self {
        let column = |at: usize| boxes.iter().copied().flatten().map(|bounds| bounds[at]).collect::<Vec<_>>();
        let selections = Selections::boxes(boxes[0].len(), column(0), column(1)).unwrap();
        let rows = boxes.iter().map(|bounds| {
            let bounded = bounds.iter().map(|&[start, stop]| (start..stop).collect());
            let whole = source.shape[bounds.len()..].iter().map(|&len| (0..len as i64).collect());
            Row::product(&source.shape, &bounded.chain(whole).collect::<Vec<_>>())
        });
        let rows = rows.collect();
        Self::new(source, item, selections, rows)
    }

    /// Ranges of the first axis with steps; the other axes are whole.
    pub(super) fn steps(source: Source, item: usize, ranges: &[[i64; 3]]) -> Self {
        let column = |at: usize| ranges.iter().map(|range| range[at]).collect::<Vec<_>>();
        let selections = Selections::ranges(column(0), column(1)).unwrap().with_steps(column(2)).unwrap();
        let rows = ranges.iter().map(|&[start, stop, step]| {
            let whole = source.shape[1..].iter().map(|&len| (0..len as i64).collect());
            Row::product(&source.shape, &[progression(start, stop, step)].into_iter().chain(whole).collect::<Vec<_>>())
        });
        let rows = rows.collect();
        Self::new(source, item, selections, rows)
    }

    /// As [`steps`](Self::steps), as items of which the first axis alone is named.
    pub(super) fn indices(source: Source, item: usize, lists: &[&[i64]]) -> Self {
        let values: Vec<i64> = lists.iter().copied().flatten().copied().collect();
        let mut offsets = vec![0];
        offsets.extend(lists.iter().scan(0, |end, list| {
            *end += list.len() as i64;
            Some(*end)
        }));
        let rows = lists.iter().map(|list| {
            let whole = source.shape[1..].iter().map(|&len| (0..len as i64).collect());
            Row::product(&source.shape, &[list.to_vec()].into_iter().chain(whole).collect::<Vec<_>>())
        });
        let rows = rows.collect();
        Self::new(source, item, Selections::indices(offsets, values).unwrap(), rows)
    }

    pub(super) fn plan(&self) -> Plan {
        let shapes = self.sources.iter().map(|source| source.shape.clone()).collect();
        let shapes = Shapes::new(shapes, self.of_row.as_deref().map(Arc::from)).unwrap();
        let grids = self.sources.iter().map(Source::grid).collect();
        Plan::new(self.selections.bind_to(&shapes).unwrap(), grids, Some(self.item), Threads::ONE, &Cancel::default())
            .unwrap()
    }

    pub(super) fn strides(&self) -> Vec<Vec<usize>> {
        self.sources.iter().map(Source::strides).collect()
    }

    /// The output before anything is written.
    pub(super) fn output(&self, plan: &Plan) -> Vec<u8> {
        vec![if self.stale { JUNK } else { 0 }; plan.layout().elements() * self.item]
    }

    pub(super) fn scatters<'a>(
        &self,
        plan: &'a Plan,
        output: &'a mut [u8],
        strides: &'a [Vec<usize>],
    ) -> Result<Vec<Scatter<'a>>> {
        let strides: Vec<&[usize]> = strides.iter().map(Vec::as_slice).collect();
        scatters(Tiling::check(plan, Threads::ONE)?, output, !self.stale, self.item, &strides, &CREWS[self.worth])
    }

    /// Writes the element of an array at `at` to `to`; never all zero, nor junk.
    pub(super) fn element(&self, source: usize, at: impl Iterator<Item = u64>, to: &mut [u8]) {
        let place = at.fold(source as u64, |place, at| place.wrapping_mul(1_000_003).wrapping_add(at + 1));
        let bits = Bits(place).next() | 0x0101_0101_0101_0101;
        let bytes = bits.to_ne_bytes();
        let (low, high) = to.split_at_mut(self.item.min(8));
        low.copy_from_slice(&bytes[..low.len()]);
        high.copy_from_slice(&bits.swap_bytes().rotate_left(9).to_ne_bytes()[..high.len()]);
    }

    pub(super) fn chunk_len(&self, source: usize) -> usize {
        self.sources[source].chunk.iter().product::<u64>() as usize * self.item
    }

    /// The decoded bytes of a read chunk, with what lies beyond the edge of the array.
    pub(super) fn decoded(&self, number: usize, key: u64) -> Vec<u8> {
        let source = &self.sources[number];
        let mut origin = Vec::new();
        source.grid().chunk_indices(key, &mut origin);
        origin.iter_mut().zip(&source.chunk).for_each(|(index, chunk)| *index *= chunk);
        let strides = source.strides();
        let mut bytes = vec![0; self.chunk_len(number)];
        for_each(&source.chunk.iter().map(|&len| [0, len]).collect::<Vec<_>>(), |local| {
            let to = local.iter().zip(&strides).map(|(at, stride)| *at as usize * stride).sum::<usize>() * self.item;
            let at = origin.iter().zip(local).map(|(origin, at)| origin + at);
            self.element(number, at, &mut bytes[to..to + self.item]);
        });
        bytes
    }

    pub(super) fn how(&self, source: usize, key: u64) -> How {
        self.how.unwrap_or_else(|| Bits(key ^ (self.item << 20 | source << 10) as u64).pick(&WAYS))
    }

    /// What the scatters must leave in the output, and how many of its elements they fill.
    pub(super) fn gathered(&self) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let mut filled = 0;
        let grids: Vec<Grid> = self.sources.iter().map(Source::grid).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let source = self.of_row.as_ref().map_or(0, |of_row| of_row[number] as usize);
            let chunk = &self.sources[source].chunk;
            for element in 0..row.elements {
                let at = &row.coordinates[element * chunk.len()..(element + 1) * chunk.len()];
                let to = bytes.len();
                if at.first() == Some(&BEYOND) {
                    bytes.resize(to + self.item, if self.stale { JUNK } else { 0 });
                    continue;
                }
                let key = at.iter().zip(chunk).enumerate();
                let key = key.map(|(axis, (&at, chunk))| grids[source].key_part(axis, at as u64 / chunk)).sum();
                bytes.extend_from_slice(&self.fill);
                if self.how(source, key) == How::Fill {
                    filled += 1;
                } else {
                    self.element(source, at.iter().map(|&at| at as u64), &mut bytes[to..]);
                }
            }
        }
        (bytes, filled)
    }

    /// Does with one claim what a worker does, in the way that is the read chunk's. Gives the number of filled elements.
    pub(super) fn serve(
        &self,
        source: usize,
        scatter: &Scatter<'_>,
        claim: Claim,
        scratch: &mut PieceScratch,
    ) -> Result<usize> {
        let key = scatter.part().groups().chunks()[claim.chunk()];
        let bytes = self.decoded(source, key);
        let len = bytes.len();
        let whole = [Extent { source: 0..len, at: 0 }];
        let mut filled = 0;
        match self.how(source, key) {
            How::Whole => scatter.copy(claim, &bytes, &whole, 0, scratch)?,
            How::Fill => {
                let validity = Validity::new(scatter.tiling.plan().layout().elements());
                scatter.fill(claim, &self.fill, scratch, Some(&validity))?;
                filled += validity.into_nulls().map_or(0, |nulls| nulls.null_count());
            }
            How::Prefix(eighths) => {
                let limit = len / 8 * eighths;
                match scatter.wanted_end(&claim, limit, scratch)? {
                    None => scatter.copy(claim, &bytes, &whole, 0, scratch)?,
                    Some(end) => {
                        assert!(end <= limit);
                        scatter.copy(claim, &bytes[..end], &[Extent { source: 0..end, at: 0 }], 0, scratch)?;
                    }
                }
            }
            How::Ranges { gap, block, limit } => {
                match scatter.wanted(&claim, gap, limit, scratch)?.map(|wanted| wanted.clone()) {
                    None => scatter.copy(claim, &bytes, &whole, 0, scratch)?,
                    Some(wanted) => {
                        assert!(wanted.windows(2).all(|pair| pair[0].end + gap < pair[1].start), "{wanted:?}");
                        let end = wanted.last().map_or(0, |range| range.end);
                        assert_eq!(scatter.wanted_end(&claim, len, scratch)?, Some(end));
                        let (some, extents) = in_blocks(&bytes, &wanted, block);
                        scatter.copy(claim, &some, &extents, gap, scratch)?;
                    }
                }
            }
            How::Run | How::Declined => {
                let only = scatter.only_run(&claim, scratch)?.map(|run| run.source..run.source + run.len);
                let accept = |run: &Range<usize>| {
                    assert_eq!(Some(run), only.as_ref());
                    self.how(source, key) == How::Run
                };
                let left = scatter.write_run(claim, scratch, accept, |run, target| {
                    target.copy_from_slice(&bytes[run]);
                    Ok(())
                })?;
                left.map_or(Ok(()), |claim| scatter.copy(claim, &bytes, &whole, 0, scratch))?;
            }
        }
        Ok(filled)
    }

    /// Scatters on `threads` threads and compares.
    pub(super) fn check(&self, threads: usize) {
        let plan = self.plan();
        let strides = self.strides();
        let mut output = self.output(&plan);
        let scatters = self.scatters(&plan, &mut output, &strides).unwrap_or_else(|error| panic!("{error}\n{self:?}"));
        let filled = AtomicUsize::new(0);
        let work = || {
            let mut scratch = PieceScratch::default();
            for (source, scatter) in scatters.iter().enumerate() {
                while let Some(claim) = scatter.claim() {
                    let served = self.serve(source, scatter, claim, &mut scratch);
                    let served = served.unwrap_or_else(|error| panic!("{error}\n{self:?}"));
                    filled.fetch_add(served, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            work();
            for other in others {
                other.join().unwrap();
            }
        });
        finish(scatters).unwrap_or_else(|error| panic!("{error}\n{self:?}"));
        let (expected, expected_filled) = self.gathered();
        assert!(output == expected, "{self:?}\n{output:?}\n{expected:?}");
        assert_eq!(filled.into_inner(), expected_filled, "{self:?}");
    }
}

/// The bytes of `wanted`, widened to blocks, with junk around them.
pub(super) fn in_blocks(bytes: &[u8], wanted: &[Range<usize>], block: usize) -> (Vec<u8>, Vec<Extent>) {
    let widen = |range: &Range<usize>| range.start / block * block..range.end.next_multiple_of(block).min(bytes.len());
    let mut blocks: Vec<Range<usize>> = wanted.iter().map(widen).collect();
    merge(&mut blocks, 0);
    let mut some = vec![JUNK; 3];
    let mut extents = Vec::new();
    for source in blocks {
        extents.push(Extent { source: source.clone(), at: some.len() });
        some.extend_from_slice(&bytes[source]);
        some.push(JUNK);
    }
    (some, extents)
}

/// The indices from `start` to before `stop`.
pub(super) fn progression(start: i64, stop: i64, step: i64) -> Vec<i64> {
    let mut indices = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        indices.push(at);
        at += step;
    }
    indices
}

/// Calls `visit` with all coordinates of a box, in C order.
pub(super) fn for_each(bounds: &[[u64; 2]], mut visit: impl FnMut(&[u64])) {
    if bounds.iter().any(|[start, stop]| start == stop) {
        return;
    }
    let mut at: Vec<u64> = bounds.iter().map(|bounds| bounds[0]).collect();
    loop {
        visit(&at);
        let Some(axis) = (0..at.len()).rev().find(|&axis| at[axis] + 1 < bounds[axis][1]) else { return };
        at[axis] += 1;
        for inner in axis + 1..at.len() {
            at[inner] = bounds[inner][0];
        }
    }
}
