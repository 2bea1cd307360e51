//! Scatters of made-up read chunks, on several threads, against a gather element by element.
//!
//! Nothing here reads a file or calls C, so that Miri can run it: it sees each access out of bounds, each data race and
//! each use of a pointer that its borrow does not allow. Under Miri the cases are fewer and smaller.
#![deny(unsafe_code)]

use std::num::NonZeroU64;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::*;
use crate::cancel::Cancel;
use crate::plan::grid::Grid;
use crate::plan::{Layout, Plan};
use crate::selection::{Indexing, Indices, Item, Mask, OutOfBounds, Selections, Shapes};

const ITEMS: [usize; 5] = [1, 2, 4, 8, 16];

/// What lies where no copy may look, and in an output whose memory was used before.
const JUNK: u8 = 0xee;

/// A coordinate of an element that no array holds.
const BEYOND: i64 = i64::MIN;

/// `SplitMix64`.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number in `low..=high`.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// How the bytes of a read chunk come to the scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
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

const WAYS: [How; 9] = [
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
struct Source {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    in_shard: Vec<u64>,
    /// The stored order of axes, outermost first.
    order: Vec<usize>,
}

impl Source {
    /// In C order, without shards.
    fn new(shape: &[u64], chunk: &[u64]) -> Self {
        let (order, in_shard) = ((0..shape.len()).collect(), vec![1; shape.len()]);
        Self { shape: shape.to_vec(), chunk: chunk.to_vec(), in_shard, order }
    }

    fn grid(&self) -> Grid {
        let nonzero = |lengths: &[u64]| lengths.iter().map(|&len| NonZeroU64::new(len).unwrap()).collect::<Vec<_>>();
        Grid::new(&self.shape, &nonzero(&self.chunk), &nonzero(&self.in_shard)).unwrap()
    }

    /// Strides of a read chunk, in elements.
    fn strides(&self) -> Vec<usize> {
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
struct Row {
    elements: usize,
    /// One per axis and element; [`BEYOND`] on the first axis where the array does not hold the element.
    coordinates: Vec<i64>,
}

impl Row {
    /// All combinations of the indices of each axis, in C order. Those beyond `shape` are elements all the same.
    fn product(shape: &[u64], axes: &[Vec<i64>]) -> Self {
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
struct Case {
    sources: Vec<Source>,
    /// The array of each row, where there are several.
    of_row: Option<Vec<u32>>,
    selections: Selections,
    rows: Vec<Row>,
    item: usize,
    fill: Vec<u8>,
    /// One way for all read chunks, or one for each by chance.
    how: Option<How>,
    /// Whether the output holds junk at first, as one does whose memory was used before.
    stale: bool,
}

impl Case {
    fn new(source: Source, item: usize, selections: Selections, rows: Vec<Row>) -> Self {
        let fill = (1..=item as u8).collect();
        Self { sources: vec![source], of_row: None, selections, rows, item, fill, how: None, stale: false }
    }

    /// Boxes on the leading axes; the others are whole.
    fn boxes(source: Source, item: usize, boxes: &[&[[i64; 2]]]) -> Self {
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
    fn steps(source: Source, item: usize, ranges: &[[i64; 3]]) -> Self {
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
    fn indices(source: Source, item: usize, lists: &[&[i64]]) -> Self {
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

    fn plan(&self) -> Plan {
        let shapes = self.sources.iter().map(|source| source.shape.clone()).collect();
        let shapes = Shapes::new(shapes, self.of_row.as_deref().map(Arc::from)).unwrap();
        let grids = self.sources.iter().map(Source::grid).collect();
        Plan::new(self.selections.bind_to(&shapes).unwrap(), grids, Some(self.item), &Cancel::default()).unwrap()
    }

    fn strides(&self) -> Vec<Vec<usize>> {
        self.sources.iter().map(Source::strides).collect()
    }

    /// The output before anything is written.
    fn output(&self, plan: &Plan) -> Vec<u8> {
        vec![if self.stale { JUNK } else { 0 }; plan.layout().elements() * self.item]
    }

    fn scatters<'a>(
        &self,
        plan: &'a Plan,
        output: &'a mut [u8],
        strides: &'a [Vec<usize>],
    ) -> Result<Vec<Scatter<'a>>> {
        let strides: Vec<&[usize]> = strides.iter().map(Vec::as_slice).collect();
        scatters(Tiling::check(plan)?, output, !self.stale, self.item, &strides)
    }

    /// Writes the element of an array at `at` to `to`; never all zero, nor junk.
    fn element(&self, source: usize, at: impl Iterator<Item = u64>, to: &mut [u8]) {
        let place = at.fold(source as u64, |place, at| place.wrapping_mul(1_000_003).wrapping_add(at + 1));
        let bits = Bits(place).next() | 0x0101_0101_0101_0101;
        let bytes = bits.to_ne_bytes();
        let (low, high) = to.split_at_mut(self.item.min(8));
        low.copy_from_slice(&bytes[..low.len()]);
        high.copy_from_slice(&bits.swap_bytes().rotate_left(9).to_ne_bytes()[..high.len()]);
    }

    fn chunk_len(&self, source: usize) -> usize {
        self.sources[source].chunk.iter().product::<u64>() as usize * self.item
    }

    /// The decoded bytes of a read chunk, with what lies beyond the edge of the array.
    fn decoded(&self, number: usize, key: u64) -> Vec<u8> {
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

    fn how(&self, source: usize, key: u64) -> How {
        self.how.unwrap_or_else(|| Bits(key ^ (self.item << 20 | source << 10) as u64).pick(&WAYS))
    }

    /// What the scatters must leave in the output, and how many of its elements they fill.
    fn gathered(&self) -> (Vec<u8>, usize) {
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
    fn serve(&self, source: usize, scatter: &Scatter<'_>, claim: Claim, scratch: &mut PieceScratch) -> Result<usize> {
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
    fn check(&self, threads: usize) {
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
fn in_blocks(bytes: &[u8], wanted: &[Range<usize>], block: usize) -> (Vec<u8>, Vec<Extent>) {
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
fn progression(start: i64, stop: i64, step: i64) -> Vec<i64> {
    let mut indices = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        indices.push(at);
        at += step;
    }
    indices
}

/// Calls `visit` with all coordinates of a box, in C order.
fn for_each(bounds: &[[u64; 2]], mut visit: impl FnMut(&[u64])) {
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

#[track_caller]
fn assert_internal<T>(outcome: Result<T>) {
    assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::Internal));
}

// ------------------------------------------------------------------------------------------------------- random cases

/// Arrays of one rank, up to three.
fn random_sources(bits: &mut Bits) -> Vec<Source> {
    let ndim = bits.below(4) as usize;
    let longest = if cfg!(miri) { [0, 40, 9, 5] } else { [0, 200, 20, 8] }[ndim];
    let kind = bits.below(5);
    let count = bits.pick(&[1, 1, 2, 3]);
    let source = |bits: &mut Bits| {
        let shape: Vec<u64> = (0..ndim).map(|_| bits.below(longest + 1)).collect();
        let chunk: Vec<u64> = shape.iter().map(|len| 1 + bits.below(len + 2)).collect();
        let mut source = Source::new(&shape, &chunk);
        source.in_shard = (0..ndim).map(|_| 1 + bits.below(2)).collect();
        match kind {
            0 => source.order.reverse(),
            1 if ndim > 1 => source.order.swap(0, ndim - 1),
            // Read chunks that hold the other axes whole, which have a path of their own.
            2 | 3 => source.chunk.iter_mut().zip(&shape).skip(1).for_each(|(chunk, &len)| *chunk = len.max(1)),
            _ => {}
        }
        source
    };
    let mut sources: Vec<Source> = (0..count).map(|_| source(bits)).collect();
    if bits.below(2) == 0 {
        let shape = sources[0].shape.clone();
        for source in &mut sources {
            source.shape.clone_from(&shape);
        }
    }
    sources
}

fn random_case(bits: &mut Bits) -> Case {
    let sources = random_sources(bits);
    let rows = bits.below(if cfg!(miri) { 6 } else { 12 }) as usize;
    let of_row: Vec<u32> = (0..rows).map(|_| bits.below(sources.len() as u64) as u32).collect();
    let shapes: Vec<&[u64]> = of_row.iter().map(|&source| &sources[source as usize].shape[..]).collect();
    let (selections, rows) = match bits.below(8) {
        _ if sources[0].shape.is_empty() => {
            let all = Row { elements: 1, coordinates: Vec::new() };
            (Selections::items(vec![[]; rows]), vec![all; rows])
        }
        0..3 => random_boxes(bits, &shapes, sources[0].shape.len()),
        3 => random_steps(bits, &shapes, sources[0].shape.len()),
        4 => random_lists(bits, &shapes, sources[0].shape.len()),
        5 => random_points(bits, &shapes, sources[0].shape.len()),
        _ => random_items(bits, &shapes, sources[0].shape.len()),
    };
    let item = bits.pick(&ITEMS);
    let fill = match bits.below(3) {
        0 => vec![0; item],
        1 => vec![7; item],
        _ => (0..item).map(|_| bits.next() as u8).collect(),
    };
    let of_row = (sources.len() > 1).then_some(of_row);
    let how = (bits.below(4) == 0).then(|| bits.pick(&WAYS));
    Case { sources, of_row, selections, rows, item, fill, how, stale: bits.below(2) == 0 }
}

/// Some axes that follow each other.
fn random_axes(bits: &mut Bits, ndim: usize) -> Range<usize> {
    let first = if bits.below(2) == 0 { 0 } else { bits.below(ndim as u64) as usize };
    first..first + 1 + bits.below((ndim - first) as u64) as usize
}

/// Boxes, that may reach beyond their array where they are filled, and of which some may be null.
fn random_boxes(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let axes = random_axes(bits, ndim);
    let margin = bits.pick(&[0, 0, 3]);
    let (mut starts, mut stops, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let nulls: Vec<bool> = shapes.iter().map(|_| bits.below(5) == 0).collect();
    let nulls = (bits.below(3) == 0).then_some(nulls);
    for (row, shape) in shapes.iter().enumerate() {
        let mut indices: Vec<Vec<i64>> = shape.iter().map(|&len| (0..len as i64).collect()).collect();
        for axis in axes.clone() {
            let len = shape[axis] as i64;
            let (a, b) = (bits.between(-margin, len + margin), bits.between(-margin, len + margin));
            starts.push(a.min(b));
            stops.push(a.max(b));
            indices[axis] = (a.min(b)..a.max(b)).collect();
        }
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls[row]);
        rows.push(if is_null { Row::default() } else { Row::product(shape, &indices) });
    }
    let nulls = nulls.map(|nulls| nulls.iter().map(|is_null| !is_null).collect::<NullBuffer>());
    let selections = Selections::boxes(axes.len(), starts, stops).unwrap().with_first_axis(axes.start);
    let policy = if margin == 0 { OutOfBounds::Error } else { OutOfBounds::Fill };
    (selections.with_out_of_bounds(policy).with_nulls(nulls).unwrap(), rows)
}

fn random_steps(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let axes = random_axes(bits, ndim);
    let (mut starts, mut stops, mut steps, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for shape in shapes {
        let mut indices: Vec<Vec<i64>> = shape.iter().map(|&len| (0..len as i64).collect()).collect();
        for axis in axes.clone() {
            let len = shape[axis] as i64;
            let step = bits.pick(&[1, 1, 2, 3, 7, -1, -2, -5]);
            // Downwards from one index to before another: both are one lower.
            let shift = if step > 0 { 0 } else { -1 };
            let (a, b) = (bits.between(0, len) + shift, bits.between(0, len) + shift);
            let (start, stop) = if step > 0 { (a.min(b), a.max(b)) } else { (a.max(b), a.min(b)) };
            starts.push(start);
            stops.push(stop);
            steps.push(step);
            indices[axis] = progression(start, stop, step);
        }
        rows.push(Row::product(shape, &indices));
    }
    let selections = Selections::boxes(axes.len(), starts, stops).unwrap().with_first_axis(axes.start);
    (selections.with_steps(steps).unwrap(), rows)
}

/// Any indices of an axis, some in runs.
fn random_indices(bits: &mut Bits, len: u64) -> Vec<i64> {
    let mut indices: Vec<i64> = Vec::new();
    for _ in 0..if len == 0 { 0 } else { bits.below(7) } {
        let next = indices.last().map(|last| last + 1).filter(|&next| next < len as i64 && bits.below(2) == 0);
        indices.push(next.unwrap_or_else(|| bits.below(len) as i64));
    }
    indices
}

fn random_lists(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let axis = bits.below(ndim as u64) as usize;
    let (mut offsets, mut values, mut rows) = (vec![0], Vec::new(), Vec::new());
    for shape in shapes {
        let mut indices: Vec<Vec<i64>> = shape.iter().map(|&len| (0..len as i64).collect()).collect();
        indices[axis] = random_indices(bits, shape[axis]);
        values.extend(indices[axis].iter().map(|&at| if bits.below(4) == 0 { at - shape[axis] as i64 } else { at }));
        offsets.push(values.len() as i64);
        rows.push(Row::product(shape, &indices));
    }
    (Selections::indices(offsets, values).unwrap().with_first_axis(axis), rows)
}

/// Points in the leading axes; the others are whole.
fn random_points(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let axes = 1 + bits.below(ndim as u64) as usize;
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for shape in shapes {
        let some = shape[..axes].iter().all(|&len| len > 0);
        let points = if some { bits.below(7) as usize } else { 0 };
        let mut coordinates: Vec<Vec<i64>> = vec![Vec::new(); axes];
        for point in 0..points {
            // Some points are neighbours along the last of their axes.
            let follow =
                point > 0 && bits.below(2) == 0 && coordinates[axes - 1][point - 1] + 1 < shape[axes - 1] as i64;
            for axis in 0..axes {
                let next = if follow {
                    coordinates[axis][point - 1] + i64::from(axis == axes - 1)
                } else {
                    bits.below(shape[axis]) as i64
                };
                coordinates[axis].push(next);
            }
        }
        let mut row = Row::default();
        for point in 0..points {
            let fixed = coordinates.iter().map(|values| vec![values[point]]);
            let whole = shape[axes..].iter().map(|&len| (0..len as i64).collect());
            let one = Row::product(shape, &fixed.chain(whole).collect::<Vec<_>>());
            row.elements += one.elements;
            row.coordinates.extend(one.coordinates);
        }
        rows.push(row);
        items.push(coordinates.into_iter().map(|values| Item::from(Indices::new(values))).collect::<Vec<_>>());
    }
    (Selections::items(items).with_indexing(Indexing::Pointwise), rows)
}

/// Integers, slices with and without steps, index arrays and masks, one for each axis.
fn random_items(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let simple = bits.below(2) == 0;
    // All rows drop the same axes.
    let dropped: Vec<bool> =
        (0..ndim).map(|axis| bits.below(3) == 0 && shapes.iter().all(|shape| shape[axis] > 0)).collect();
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for shape in shapes {
        let mut row = Vec::new();
        let mut indices = Vec::new();
        for axis in 0..ndim {
            let (item, of) = match bits.below(4) {
                _ if dropped[axis] => {
                    let at = bits.below(shape[axis]) as i64;
                    (Item::Index(at), vec![at])
                }
                0 if !simple => {
                    let of = random_indices(bits, shape[axis]);
                    (Indices::new(of.clone()).into(), of)
                }
                1 if !simple => {
                    let mask: Vec<bool> = (0..shape[axis]).map(|_| bits.below(2) == 0).collect();
                    let of = (0..shape[axis] as i64).filter(|&at| mask[at as usize]).collect();
                    (Mask::new(BooleanBuffer::from(mask)).into(), of)
                }
                _ => random_slice(bits, shape[axis] as i64, simple),
            };
            row.push(item);
            indices.push(of);
        }
        items.push(row);
        rows.push(Row::product(shape, &indices));
    }
    (Selections::items(items), rows)
}

fn random_slice(bits: &mut Bits, len: i64, simple: bool) -> (Item, Vec<i64>) {
    let step = if simple { 1 } else { bits.pick(&[1, 2, 3, -1, -2, -7]) };
    if step > 0 {
        let (start, stop) = (bits.between(0, len), bits.between(0, len));
        return (Item::Slice { start: Some(start), stop: Some(stop), step }, progression(start, stop, step));
    }
    let start = if len == 0 { None } else { Some(bits.between(0, len - 1)) };
    let stop = if len == 0 || bits.below(2) == 0 { None } else { Some(bits.between(0, len - 1)) };
    let of = progression(start.unwrap_or(len - 1), stop.unwrap_or(-1), step);
    (Item::Slice { start, stop, step }, of)
}

#[test]
fn random_scatters_equal_a_gather() {
    let mut bits = Bits(20);
    for _ in 0..if cfg!(miri) { 40 } else { 6000 } {
        let case = random_case(&mut bits);
        case.check(1 + bits.below(3) as usize);
    }
}

// -------------------------------------------------------------------------------------------------------- chosen cases

/// Short copies are made of two blocks that may overlap, of a size for each range of lengths.
#[test]
fn runs_of_every_length() {
    let ends = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129];
    let lengths = (0..=300).filter(|len| !cfg!(miri) || ends.contains(len));
    let mut ranges: Vec<[i64; 3]> = lengths.map(|len| [(len * 7) % 13, (len * 7) % 13 + len, 1]).collect();
    let source = Source::new(&[320], &[200]);
    for how in [How::Whole, How::Ranges { gap: 0, block: 1, limit: usize::MAX }] {
        let how = Some(how);
        Case { how, ..Case::steps(source.clone(), 1, &ranges) }.check(2);
    }
    // With one step that is not 1, the ranges have the general path.
    ranges.push([3, 90, 4]);
    for how in [How::Whole, How::Ranges { gap: 0, block: 1, limit: usize::MAX }] {
        let how = Some(how);
        Case { how, ..Case::steps(source.clone(), 1, &ranges) }.check(2);
    }
}

/// One column, or a few, of a wide read chunk: the innermost step is copied by the size of its run.
#[test]
fn thin_columns_of_every_size() {
    for item in ITEMS {
        for width in [1, 2, 3] {
            let boxes: [&[[i64; 2]]; 3] =
                [&[[0, 9], [4, 4 + width]], &[[5, 6], [0, width]], &[[2, 12], [11 - width, 11]]];
            for order in [vec![0, 1], vec![1, 0]] {
                let source = Source { order, ..Source::new(&[12, 11], &[5, 11]) };
                Case { how: Some(How::Whole), ..Case::boxes(source, item, &boxes) }.check(2);
            }
        }
        // Backwards, too.
        let source = Source::new(&[40, 1], &[16, 1]);
        let case = Case::steps(source, item, &[[39, -1, -1], [38, 2, -3], [0, 40, 5], [7, 7, 1]]);
        Case { how: Some(How::Whole), ..case }.check(2);
    }
}

#[test]
fn each_way_on_each_rank() {
    for (at, how) in WAYS.into_iter().enumerate() {
        for item in if cfg!(miri) { vec![ITEMS[at % ITEMS.len()]] } else { ITEMS.to_vec() } {
            for (number, case) in cases_of_each_rank(item).into_iter().enumerate() {
                if !cfg!(miri) || number % 3 == at % 3 {
                    Case { how: Some(how), ..case }.check(3);
                }
            }
        }
    }
}

/// Rows that overlap, are equal, are empty, and cross the edge of a read chunk and of a shard.
fn cases_of_each_rank(item: usize) -> Vec<Case> {
    let line = Source { in_shard: vec![2], ..Source::new(&[30], &[6]) };
    let rows: [&[[i64; 2]]; 7] = [&[[3, 17]], &[[0, 30]], &[[3, 17]], &[[9, 9]], &[[29, 30]], &[[30, 30]], &[[11, 13]]];
    let table = Source { order: vec![1, 0], ..Source::new(&[7, 10], &[3, 4]) };
    let boxes: [&[[i64; 2]]; 4] = [&[[0, 7], [2, 9]], &[[6, 7], [0, 10]], &[[2, 2], [3, 4]], &[[1, 6], [4, 5]]];
    // One element of an array without axes.
    let all = Row { elements: 1, coordinates: Vec::new() };
    let mut cases = vec![
        Case::boxes(line.clone(), item, &rows),
        Case::boxes(Source::new(&[30, 2], &[7, 2]), item, &rows),
        Case::steps(line.clone(), item, &[[3, 17, 1], [29, -1, -1], [0, 30, 7], [13, 1, -2]]),
        Case::indices(line, item, &[&[5, 6, 7, 5, 29, 0], &[], &[12, 13, 14, 15, 16]]),
        Case::boxes(table, item, &boxes),
        Case::new(Source::new(&[], &[]), item, Selections::items([[], []]), vec![all.clone(), all]),
    ];
    let boxes: [&[[i64; 2]]; 3] = [&[[0, 4], [0, 5], [0, 3]], &[[1, 3], [2, 3], [1, 2]], &[[0, 4], [5, 5], [0, 1]]];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let block = Source { order: order.to_vec(), ..Source::new(&[4, 5, 3], &[2, 2, 3]) };
        cases.push(Case::boxes(block, item, &boxes));
    }
    cases
}

/// Threads write to neighbouring bytes: each read chunk gives every row one element.
#[test]
fn neighbours_from_many_threads() {
    let rows: Vec<&[[i64; 2]]> = vec![&[[0, 24]]; if cfg!(miri) { 4 } else { 60 }];
    for item in ITEMS {
        Case { how: Some(How::Whole), ..Case::boxes(Source::new(&[24], &[1]), item, &rows) }.check(4);
    }
}

/// Few rows of an array of very many read chunks, which the plan sorts instead of counting.
#[test]
fn few_pieces_of_a_huge_array() {
    let far = 1_i64 << 40;
    let rows: [&[[i64; 2]]; 5] =
        [&[[far - 9, far]], &[[0, 3]], &[[far / 2, far / 2 + 8]], &[[far - 9, far]], &[[5, 5]]];
    Case::boxes(Source::new(&[1 << 40], &[4]), 2, &rows).check(2);
    let in_shard = vec![1 << 20, 2];
    Case::boxes(Source { in_shard, ..Source::new(&[1 << 40, 3], &[4, 2]) }, 8, &rows).check(2);
}

// --------------------------------------------------------------------------------------------------------------- misuse

/// One case for each path of a copy. Of each, the first read chunk is needed up to its last byte.
fn paths() -> Vec<Case> {
    let lines: [&[[i64; 2]]; 3] = [&[[3, 9]], &[[8, 8]], &[[4, 20]]];
    let source = Source::new(&[20, 2], &[10, 2]);
    let transposed = Source { order: vec![1, 0], ..source.clone() };
    vec![
        Case::boxes(source.clone(), 4, &lines),
        Case::boxes(transposed, 4, &lines),
        Case::boxes(source.clone(), 4, &[&[[3, 9], [1, 2]], &[[4, 20], [0, 2]]]),
        Case::steps(source, 4, &[[19, 3, -1], [9, 2, -3]]),
    ]
}

#[test]
fn plans_that_do_not_tile_are_refused() {
    for case in paths() {
        let plan = case.plan();
        let strides = case.strides();
        for other in [&[3, 8, 9, 20][..], &[3, 9], &[0, 1, 2, 3, 4], &[0]] {
            let mut broken = plan.clone();
            let ranges = Selections::rows(other.to_vec()).unwrap();
            *broken.layout_mut() = Layout::new(&ranges.bind(&[20]).unwrap()).unwrap();
            let mut output = case.output(&broken);
            assert_internal(case.scatters(&broken, &mut output, &strides));
        }
    }
}

#[test]
fn each_claim_is_given_out_once() {
    let case = Case::boxes(Source::new(&[60], &[1]), 1, &[&[[0, 60]]]);
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatters = case.scatters(&plan, &mut output, &strides).unwrap();
    let claims = std::sync::Mutex::new(Vec::new());
    let work = || {
        let mut bits = Bits(5);
        while let Some(claim) = scatters[0].claim() {
            claims.lock().unwrap().push(claim.chunk());
            // Neighbours and others, beyond the last too.
            for chunk in [claim.chunk(), claim.chunk() + 1, claim.chunk() + 2, bits.below(70) as usize] {
                claims.lock().unwrap().extend(scatters[0].claim_chunk(chunk).map(|claim| claim.chunk()));
            }
        }
        assert!(scatters[0].claim().is_none());
        assert!((0..70).all(|chunk| scatters[0].claim_chunk(chunk).is_none()));
        assert_eq!(scatters[0].unclaimed(), 0);
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        work();
        for other in others {
            other.join().unwrap();
        }
    });
    let mut claims = claims.into_inner().unwrap();
    claims.sort_unstable();
    assert_eq!(claims, (0..60).collect::<Vec<_>>());
    // Claims that nobody carried out are missed.
    assert_internal(finish(scatters));
}

#[test]
fn claims_on_another_output_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let (mut mine, mut other) = (case.output(&plan), case.output(&plan));
        let bytes = vec![1; case.chunk_len(0)];
        let whole = [Extent { source: 0..bytes.len(), at: 0 }];
        let mut scratch = PieceScratch::default();
        {
            let scatter = &case.scatters(&plan, &mut mine, &strides).unwrap()[0];
            let other = &case.scatters(&plan, &mut other, &strides).unwrap()[0];
            let claim = || Claim { chunk: 0, scatter: other.id };
            assert_internal(scatter.copy(claim(), &bytes, &whole, 0, &mut scratch));
            assert_internal(scatter.copy(claim(), &bytes, &[], 0, &mut scratch));
            assert_internal(scatter.fill(claim(), &case.fill, &mut scratch, None));
            assert_internal(scatter.wanted(&claim(), 0, 9, &mut scratch).map(|_| ()));
            assert_internal(scatter.wanted_end(&claim(), 9, &mut scratch));
            assert_internal(scatter.only_run(&claim(), &mut scratch).map(|_| ()));
            let never = |_: Range<usize>, _: &mut [u8]| panic!("a write to another output");
            assert_internal(scatter.write_run(claim(), &mut scratch, |_| true, never));
            // Its own output still takes the claim.
            other.copy(other.claim().unwrap(), &bytes, &whole, 0, &mut scratch).unwrap();
        }
        assert!(mine.iter().all(|&byte| byte == 0));
        assert!(other.contains(&1));
    }
}

/// The scatters of one output share it, but not their claims.
#[test]
fn claims_on_another_array_are_refused() {
    let mut case = Case::boxes(Source::new(&[9], &[4]), 2, &[&[[0, 9]], &[[0, 9]]]);
    case.sources.push(Source::new(&[9], &[9]));
    case.of_row = Some(vec![0, 1]);
    case.check(2);
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatters = case.scatters(&plan, &mut output, &strides).unwrap();
    let bytes = [1; 18];
    let whole = [Extent { source: 0..18, at: 0 }];
    let mut scratch = PieceScratch::default();
    let claim = scatters[1].claim().unwrap();
    assert_internal(scatters[0].copy(claim, &bytes, &whole, 0, &mut scratch));
    assert_internal(finish(scatters));
    assert_eq!(output, [0; 36]);
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let mut output = case.output(&plan);
        let len = output.len();
        for wrong in [0, 1, len - 1, len + 1, 2 * len] {
            assert_internal(case.scatters(&plan, &mut vec![0; wrong], &strides));
        }
        for item in [0, 1, 2, 8, usize::MAX] {
            assert_internal(Case { item, ..case.clone() }.scatters(&plan, &mut output, &strides));
        }
        for strides in [vec![], vec![vec![2]], vec![vec![]], vec![vec![1; 3]], vec![vec![2, 1]; 2]] {
            assert_internal(case.scatters(&plan, &mut output, &strides));
        }
        case.scatters(&plan, &mut output, &strides).unwrap();
    }
}

/// Serves the first read chunk from `decoded` and `extents`, and returns the outcome and what was written.
fn copy_first(case: &Case, decoded: &[u8], extents: &[Extent]) -> (Result<()>, Vec<u8>) {
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatters = case.scatters(&plan, &mut output, &strides).unwrap();
    let claim = scatters[0].claim().unwrap();
    let outcome = scatters[0].copy(claim, decoded, extents, 0, &mut PieceScratch::default());
    // The second read chunk is still to come.
    assert_internal(finish(scatters));
    (outcome, output)
}

#[test]
fn decoded_bytes_that_are_too_few_are_refused() {
    for case in paths() {
        let bytes = case.decoded(0, case.plan().parts()[0].groups().chunks()[0]);
        let len = bytes.len();
        let whole = [Extent { source: 0..len, at: 0 }];
        let (outcome, written) = copy_first(&case, &bytes, &whole);
        outcome.unwrap();
        for short in (0..len).filter(|short| !cfg!(miri) || [0, 31, len - 1].contains(short)) {
            let extent = Extent { source: 0..short, at: 0 };
            assert_internal(copy_first(&case, &bytes[..short], std::slice::from_ref(&extent)).0);
            assert_internal(copy_first(&case, &bytes, &[extent]).0);
            // The extent lies about what there is.
            assert_internal(copy_first(&case, &bytes[..short], &whole).0);
        }
        assert_internal(copy_first(&case, &bytes, &[]).0);
        for at in [1, 7, len, len + 1, isize::MAX as usize] {
            assert_internal(copy_first(&case, &bytes, &[Extent { source: 0..len, at }]).0);
        }
        for at in [len / 2 + 1, len, isize::MAX as usize] {
            let halves = [Extent { source: 0..len / 2, at: 0 }, Extent { source: len / 2..len, at }];
            assert_internal(copy_first(&case, &bytes, &halves).0);
        }
        for start in [40, len - 1, len] {
            let extents = [Extent { source: start..len, at: 0 }];
            assert_internal(copy_first(&case, &bytes[..len - start], &extents).0);
        }
        // Shifted, but all there.
        let shifted = [vec![JUNK; 5], bytes].concat();
        let (outcome, again) = copy_first(&case, &shifted, &[Extent { source: 0..len, at: 5 }]);
        outcome.unwrap();
        assert_eq!(again, written);
    }
}

/// Strides decide which bytes are read and never where is written; those that lead out of the read chunk are refused.
#[test]
fn strides_that_lie_are_refused() {
    for case in paths() {
        let plan = case.plan();
        let bytes = vec![1; case.chunk_len(0)];
        let whole = [Extent { source: 0..bytes.len(), at: 0 }];
        let copied = |strides: [usize; 2]| {
            let strides = [strides.to_vec()];
            let mut output = case.output(&plan);
            let scatter = &case.scatters(&plan, &mut output, &strides).unwrap()[0];
            scatter.copy(scatter.claim().unwrap(), &bytes, &whole, 0, &mut PieceScratch::default())
        };
        for strides in [[3, 1], [2, 100], [1 << 40, 1], [1, 1 << 40], [1 << 40, 1 << 40]] {
            assert_internal(copied(strides));
        }
        for strides in [[0, 0], [1, 1]] {
            copied(strides).unwrap();
        }
    }
}

#[test]
fn fill_values_of_another_size_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let mut output = case.output(&plan);
        let scatter = &case.scatters(&plan, &mut output, &strides).unwrap()[0];
        for value in [&[][..], &[1], &[1; 8]] {
            let claim = Claim { chunk: 0, scatter: scatter.id };
            assert_internal(scatter.fill(claim, value, &mut PieceScratch::default(), None));
        }
        assert!(output.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_direct_write_gets_its_run_and_no_more() {
    let case = Case::boxes(Source::new(&[20], &[10]), 2, &[&[[3, 9]], &[[12, 20]]]);
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatters = case.scatters(&plan, &mut output, &strides).unwrap();
    let scatter = &scatters[0];
    let mut scratch = PieceScratch::default();
    let succeeds = |run: Range<usize>, target: &mut [u8]| {
        assert_eq!((run, target.len()), (6..18, 12));
        target.fill(5);
        Ok(())
    };
    let first = scatter.write_run(scatter.claim().unwrap(), &mut scratch, |run| *run == (6..18), succeeds);
    assert!(first.unwrap().is_none());
    let fails = |_: Range<usize>, target: &mut [u8]| {
        target[0] = 6;
        Err(Error::new(ErrorKind::Decode, "corrupt"))
    };
    let second = scatter.write_run(scatter.claim().unwrap(), &mut scratch, |_| true, fails);
    assert_eq!(second.err().unwrap().kind(), ErrorKind::Decode);
    // What failed does not count as written.
    assert_internal(finish(scatters));
    assert_eq!(output, [&[5; 12][..], &[6], &[0; 15]].concat());
}
