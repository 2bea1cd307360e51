//! Scatters of made-up read chunks, on several threads, against a gather element by element.
//!
//! Nothing here reads a file or calls C, so that Miri can run it: it sees each access out of bounds, each data race and
//! each use of a pointer that its borrow does not allow. Under Miri the cases are fewer and smaller.
#![deny(unsafe_code)]

use std::num::NonZeroU64;

use super::*;
use crate::plan::Plan;
use crate::plan::grid::Grid;
use crate::selection::{Item, Selections};

const ITEMS: [usize; 5] = [1, 2, 4, 8, 16];

/// What lies between the extents of decoded bytes, where no copy may look.
const JUNK: u8 = 0xee;

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

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// How the bytes of a read chunk come to the scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Whole,
    /// Up to the last wanted byte, unless that is beyond so many parts of eight of the read chunk.
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

/// An array, its read chunks, and one box for each row.
#[derive(Debug, Clone)]
struct Case {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    in_shard: Vec<u64>,
    item: usize,
    /// The stored order of axes, outermost first.
    order: Vec<usize>,
    /// Bounds on the leading axes; the others are whole.
    rows: Vec<Vec<[u64; 2]>>,
    /// Ask by items in place of boxes; the first axis is dropped where all rows take one index of it.
    by_items: bool,
    fill: Vec<u8>,
    /// One way for all read chunks, or one for each by chance.
    how: Option<How>,
    /// Whether the output holds junk at first, as one does whose memory was used before.
    stale: bool,
}

impl Case {
    /// An array in C order whose read chunks are served in every way.
    fn new(shape: &[u64], chunk: &[u64], item: usize, rows: &[Vec<[u64; 2]>]) -> Self {
        Self {
            shape: shape.to_vec(),
            chunk: chunk.to_vec(),
            in_shard: vec![1; shape.len()],
            item,
            order: (0..shape.len()).collect(),
            rows: rows.to_vec(),
            by_items: false,
            fill: (1..=item as u8).collect(),
            how: None,
            stale: false,
        }
    }

    fn random(bits: &mut Bits) -> Self {
        let ndim = bits.below(4) as usize;
        let longest = if cfg!(miri) { [0, 40, 9, 5] } else { [0, 300, 24, 9] }[ndim];
        let item = bits.pick(&ITEMS);
        let shape: Vec<u64> = (0..ndim).map(|_| bits.below(longest + 1)).collect();
        let mut chunk: Vec<u64> = shape.iter().map(|len| 1 + bits.below(len + 2)).collect();
        let mut order: Vec<usize> = (0..ndim).collect();
        let axes = if ndim == 0 { 0 } else { 1 + bits.below(ndim as u64) as usize };
        let by_items = ndim == 0 || bits.below(3) == 0;
        match bits.below(5) {
            0 => order.reverse(),
            1 if ndim > 1 => order.swap(0, ndim - 1),
            // Read chunks that hold the other axes whole, which have a path of their own.
            2 | 3 if ndim > 1 => {
                for (chunk, &len) in chunk.iter_mut().zip(&shape).skip(1) {
                    *chunk = len.max(1);
                }
            }
            _ => {}
        }
        let mut rows: Vec<Vec<[u64; 2]>> = Vec::new();
        for _ in 0..bits.below(if cfg!(miri) { 6 } else { 12 }) {
            let bound = |bits: &mut Bits, len: u64| {
                let (a, b) = (bits.below(len + 1), bits.below(len + 1));
                [a.min(b), a.max(b)]
            };
            let row = match rows.last() {
                Some(last) if bits.below(4) == 0 => last.clone(),
                _ => shape.iter().take(axes).map(|&len| bound(bits, len)).collect(),
            };
            rows.push(row);
        }
        let fill = match bits.below(3) {
            0 => vec![0; item],
            1 => vec![7; item],
            _ => (0..item).map(|_| bits.next() as u8).collect(),
        };
        let in_shard = (0..ndim).map(|_| 1 + bits.below(2)).collect();
        let how = (bits.below(4) == 0).then(|| bits.pick(&WAYS));
        Self { shape, chunk, in_shard, item, order, rows, by_items, fill, how, stale: bits.below(2) == 0 }
    }

    fn selections(&self) -> Selections {
        if self.by_items {
            let dropped = self.rows.iter().all(|row| row.first().is_some_and(|[start, stop]| stop - start == 1));
            let item = |axis: usize, [start, stop]: [u64; 2]| match axis {
                0 if dropped => Item::Index(start as i64),
                _ => Item::from(start as i64..stop as i64),
            };
            let row = |row: &Vec<[u64; 2]>| row.iter().enumerate().map(|(axis, &b)| item(axis, b)).collect::<Vec<_>>();
            return Selections::items(self.rows.iter().map(row));
        }
        let column = |at: usize| self.rows.iter().flatten().map(|bounds| bounds[at] as i64).collect::<Vec<_>>();
        let axes = self.rows.first().map_or(1, Vec::len);
        Selections::boxes(axes, column(0), column(1)).unwrap()
    }

    fn plan(&self) -> Plan {
        let nonzero = |lengths: &[u64]| lengths.iter().map(|&len| NonZeroU64::new(len).unwrap()).collect::<Vec<_>>();
        let grid = Grid::new(&self.shape, &nonzero(&self.chunk), &nonzero(&self.in_shard)).unwrap();
        Plan::new(self.selections().bind(&self.shape).unwrap(), vec![grid], Some(self.item)).unwrap()
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

    fn chunk_len(&self) -> usize {
        self.chunk.iter().product::<u64>() as usize * self.item
    }

    /// Writes the element at `at` to `to`; never all zero.
    fn element(&self, at: impl Iterator<Item = u64>, to: &mut [u8]) {
        let place = at.fold(1_u64, |place, at| place.wrapping_mul(1_000_003).wrapping_add(at));
        let bits = Bits(place).next() | 0x0101_0101_0101_0101;
        let bytes = bits.to_ne_bytes();
        let (low, high) = to.split_at_mut(self.item.min(8));
        low.copy_from_slice(&bytes[..low.len()]);
        high.copy_from_slice(&bits.swap_bytes().rotate_left(9).to_ne_bytes()[..high.len()]);
    }

    /// The decoded bytes of the read chunk `key`, with what lies beyond the edge of the array.
    fn decoded(&self, plan: &Plan, key: u64) -> Vec<u8> {
        let mut origin = Vec::new();
        plan.parts()[0].grid().chunk_indices(key, &mut origin);
        origin.iter_mut().zip(&self.chunk).for_each(|(index, chunk)| *index *= chunk);
        let strides = self.strides();
        let mut bytes = vec![0; self.chunk_len()];
        for_each(&self.chunk.iter().map(|&len| [0, len]).collect::<Vec<_>>(), |local| {
            let to = local.iter().zip(&strides).map(|(at, stride)| *at as usize * stride).sum::<usize>() * self.item;
            self.element(origin.iter().zip(local).map(|(origin, at)| origin + at), &mut bytes[to..to + self.item]);
        });
        bytes
    }

    fn how(&self, key: u64) -> How {
        self.how.unwrap_or_else(|| Bits(key ^ self.item as u64).pick(&WAYS))
    }

    /// What the scatter must write.
    fn gathered(&self, plan: &Plan) -> Vec<u8> {
        let mut bytes = Vec::new();
        for row in &self.rows {
            let whole = self.shape[row.len()..].iter().map(|&len| [0, len]);
            for_each(&row.iter().copied().chain(whole).collect::<Vec<_>>(), |at| {
                let key = at.iter().zip(&self.chunk).enumerate();
                let key = key.map(|(axis, (at, chunk))| plan.parts()[0].grid().key_part(axis, at / chunk)).sum();
                bytes.extend_from_slice(&self.fill);
                if self.how(key) != How::Fill {
                    let to = bytes.len() - self.item;
                    self.element(at.iter().copied(), &mut bytes[to..]);
                }
            });
        }
        bytes
    }

    /// The output before anything is written.
    fn output(&self, plan: &Plan) -> Vec<u8> {
        vec![if self.stale { JUNK } else { 0 }; plan.layout().elements() * self.item]
    }

    fn scatter<'a>(&self, plan: &'a Plan, output: &'a mut [u8], strides: &'a [usize]) -> Result<Scatter<'a>> {
        Ok(scatters(Tiling::check(plan)?, output, !self.stale, self.item, &[strides])?.remove(0))
    }

    /// Does with one claim what a worker does, in the way that is the read chunk's.
    fn serve(&self, scatter: &Scatter<'_>, claim: Claim, scratch: &mut PieceScratch) -> Result<()> {
        let key = scatter.part().groups().chunks()[claim.chunk()];
        let bytes = self.decoded(scatter.tiling.plan(), key);
        let len = bytes.len();
        let whole = [Extent { source: 0..len, at: 0 }];
        match self.how(key) {
            How::Whole => scatter.copy(claim, &bytes, &whole, 0, scratch),
            How::Fill => scatter.fill(claim, &self.fill, scratch, |_| ()),
            How::Prefix(eighths) => {
                let limit = len / 8 * eighths;
                match scatter.wanted_end(&claim, limit, scratch)? {
                    None => scatter.copy(claim, &bytes, &whole, 0, scratch),
                    Some(end) => {
                        assert!(end <= limit);
                        scatter.copy(claim, &bytes[..end], &[Extent { source: 0..end, at: 0 }], 0, scratch)
                    }
                }
            }
            How::Ranges { gap, block, limit } => {
                let Some(wanted) = scatter.wanted(&claim, gap, limit, scratch)?.map(|wanted| wanted.clone()) else {
                    return scatter.copy(claim, &bytes, &whole, 0, scratch);
                };
                assert!(wanted.windows(2).all(|pair| pair[0].end + gap < pair[1].start), "{wanted:?}");
                let end = wanted.last().map_or(0, |range| range.end);
                assert_eq!(scatter.wanted_end(&claim, len, scratch)?, Some(end));
                let mut blocks: Vec<Range<usize>> = wanted
                    .iter()
                    .map(|range| range.start / block * block..range.end.next_multiple_of(block).min(len))
                    .collect();
                merge(&mut blocks, 0);
                let mut some = vec![JUNK; 3];
                let mut extents = Vec::new();
                for source in blocks {
                    extents.push(Extent { source: source.clone(), at: some.len() });
                    some.extend_from_slice(&bytes[source]);
                    some.push(JUNK);
                }
                scatter.copy(claim, &some, &extents, gap, scratch)
            }
            How::Run | How::Declined => {
                let accept = |_: &Range<usize>| self.how(key) == How::Run;
                let left = scatter.write_run(claim, scratch, accept, |source, target| {
                    target.copy_from_slice(&bytes[source]);
                    Ok(())
                })?;
                left.map_or(Ok(()), |claim| scatter.copy(claim, &bytes, &whole, 0, scratch))
            }
        }
    }

    /// Scatters on `threads` threads and compares.
    fn check(&self, threads: usize) {
        let plan = self.plan();
        let strides = self.strides();
        let mut output = self.output(&plan);
        let scatter = self.scatter(&plan, &mut output, &strides).unwrap();
        let work = || {
            let mut scratch = PieceScratch::default();
            while let Some(claim) = scatter.claim() {
                self.serve(&scatter, claim, &mut scratch).unwrap_or_else(|error| panic!("{error}\n{self:?}"));
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            work();
            others.into_iter().for_each(|other| other.join().unwrap());
        });
        finish(vec![scatter]).unwrap_or_else(|error| panic!("{error}\n{self:?}"));
        assert!(output == self.gathered(&plan), "{self:?}\n{output:?}");
    }
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

#[test]
fn random_scatters_equal_a_gather() {
    let mut bits = Bits(20);
    for _ in 0..if cfg!(miri) { 50 } else { 3000 } {
        let case = Case::random(&mut bits);
        case.check(1 + bits.below(3) as usize);
    }
}

/// Short copies are made of two blocks that may overlap, of a size for each range of lengths.
#[test]
fn runs_of_every_length() {
    let row = |len: u64| vec![[(len * 7) % 13, (len * 7) % 13 + len]];
    let ends = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129];
    let lengths = (0..=300).filter(|len| !cfg!(miri) || ends.contains(len));
    let rows: Vec<_> = lengths.map(row).collect();
    for by_items in [false, true] {
        for how in [How::Whole, How::Ranges { gap: 0, block: 1, limit: usize::MAX }] {
            Case { by_items, how: Some(how), ..Case::new(&[320], &[200], 1, &rows) }.check(2);
        }
    }
}

/// One column, or a few, of a wide read chunk: the innermost step is copied by the size of its run.
#[test]
fn thin_columns_of_every_size() {
    for item in ITEMS {
        for width in [1, 2, 3] {
            let rows = [vec![[0, 9], [4, 4 + width]], vec![[5, 6], [0, width]], vec![[2, 12], [11 - width, 11]]];
            let case = Case::new(&[12, 11], &[5, 11], item, &rows);
            for order in [vec![0, 1], vec![1, 0]] {
                Case { order, how: Some(How::Whole), ..case.clone() }.check(2);
            }
        }
    }
}

#[test]
fn each_way_on_each_rank() {
    for (at, how) in WAYS.into_iter().enumerate() {
        for item in if cfg!(miri) { vec![ITEMS[at % ITEMS.len()]] } else { ITEMS.to_vec() } {
            let how = Some(how);
            // Rows that overlap, are equal, are empty, and cross the edge of a read chunk and of a shard.
            let rows = [[3, 17], [0, 30], [3, 17], [9, 9], [29, 30], [30, 30], [11, 13]].map(|row| vec![row]);
            Case { how, in_shard: vec![2], ..Case::new(&[30], &[6], item, &rows) }.check(3);
            Case { how, ..Case::new(&[30, 2], &[7, 2], item, &rows) }.check(3);
            let rows = [[[0, 7], [2, 9]], [[6, 7], [0, 10]], [[2, 2], [3, 4]], [[1, 6], [4, 5]]].map(Vec::from);
            Case { how, order: vec![1, 0], ..Case::new(&[7, 10], &[3, 4], item, &rows) }.check(3);
            let rows = [[[0, 4], [0, 5], [0, 3]], [[1, 3], [2, 3], [1, 2]], [[0, 4], [5, 5], [0, 1]]].map(Vec::from);
            let case = Case { how, ..Case::new(&[4, 5, 3], &[2, 2, 3], item, &rows) };
            for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
                Case { order: order.to_vec(), ..case.clone() }.check(3);
            }
            // No axis at all; one element of each row.
            Case { how, by_items: true, ..Case::new(&[], &[], item, &[vec![], vec![]]) }.check(2);
            let rows = [vec![[4, 5], [1, 3]], vec![[0, 1], [0, 10]]];
            Case { how, by_items: true, ..Case::new(&[7, 10], &[3, 4], item, &rows) }.check(2);
        }
    }
}

/// Many threads write to neighbouring bytes: each read chunk gives every row one element of its own.
#[test]
fn neighbours_from_many_threads() {
    let rows = vec![vec![[0, 24]]; if cfg!(miri) { 6 } else { 60 }];
    for item in ITEMS {
        Case { how: Some(How::Whole), ..Case::new(&[24], &[1], item, &rows) }.check(4);
    }
}

/// Few rows of an array of very many read chunks, which the plan sorts instead of counting.
#[test]
fn few_pieces_of_a_huge_array() {
    let far = 1 << 40;
    let rows = [[far - 9, far], [0, 3], [far / 2, far / 2 + 8], [far - 9, far], [5, 5]].map(|row| vec![row]);
    Case::new(&[far], &[4], 2, &rows).check(2);
    Case { in_shard: vec![1 << 20, 2], ..Case::new(&[far, 3], &[4, 2], 8, &rows) }.check(2);
}

#[test]
fn plans_that_do_not_tile_are_refused() {
    for case in paths() {
        let plan = case.plan();
        let strides = case.strides();
        let rows = |rows: &[[u64; 2]]| rows.iter().map(|&row| vec![row]).collect::<Vec<_>>();
        for other in [&[[3, 8], [8, 9], [4, 20]][..], &[[3, 9]], &[[0, 1], [0, 1], [0, 1], [0, 1]], &[]] {
            let mut broken = plan.clone();
            *broken.layout_mut() = Case { rows: rows(other), ..case.clone() }.plan().layout().clone();
            let mut output = case.output(&broken);
            assert_internal(case.scatter(&broken, &mut output, &strides));
        }
    }
}

#[test]
fn each_claim_is_given_out_once() {
    let case = Case::new(&[60], &[1], 1, &[vec![[0, 60]]]);
    let plan = case.plan();
    let (mut output, strides) = (case.output(&plan), case.strides());
    let scatter = case.scatter(&plan, &mut output, &strides).unwrap();
    let claims = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(claim) = scatter.claim() {
                    claims.lock().unwrap().push(claim.chunk());
                }
                assert!(scatter.claim().is_none());
            });
        }
    });
    let mut claims = claims.into_inner().unwrap();
    claims.sort_unstable();
    assert_eq!(claims, (0..60).collect::<Vec<_>>());
    // Claims that nobody carried out are missed.
    assert_internal(finish(vec![scatter]));
}

/// One case for each path of a copy.
fn paths() -> [Case; 3] {
    let rows = [vec![[3, 9]], vec![[8, 8]], vec![[4, 20]]];
    let lines = Case::new(&[20, 2], &[10, 2], 4, &rows);
    let rows = [vec![[3, 9], [1, 2]], vec![[4, 20], [0, 2]]];
    [lines.clone(), Case { order: vec![1, 0], ..lines }, Case::new(&[20, 2], &[10, 2], 4, &rows)]
}

#[test]
fn claims_on_another_output_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let (mut mine, mut other) = (case.output(&plan), case.output(&plan));
        {
            let scatter = case.scatter(&plan, &mut mine, &strides).unwrap();
            let other = case.scatter(&plan, &mut other, &strides).unwrap();
            let bytes = vec![1; case.chunk_len()];
            let whole = [Extent { source: 0..bytes.len(), at: 0 }];
            let mut scratch = PieceScratch::default();
            let claim = || Claim { chunk: 0, scatter: other.id };
            assert_internal(scatter.copy(claim(), &bytes, &whole, 0, &mut scratch));
            assert_internal(scatter.copy(claim(), &bytes, &[], 0, &mut scratch));
            assert_internal(scatter.fill(claim(), &case.fill, &mut scratch, |_| ()));
            assert_internal(scatter.wanted(&claim(), 0, 9, &mut scratch).map(|_| ()));
            assert_internal(scatter.wanted_end(&claim(), 9, &mut scratch));
            let never = |_: Range<usize>, _: &mut [u8]| panic!("a write to another output");
            assert_internal(scatter.write_run(claim(), &mut scratch, |_| true, never));
            // Its own output still takes the claim.
            other.copy(other.claim().unwrap(), &bytes, &whole, 0, &mut scratch).unwrap();
        }
        assert!(mine.iter().all(|&byte| byte == 0));
        assert!(other.contains(&1));
    }
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let mut output = case.output(&plan);
        let len = output.len();
        for wrong in [0, 1, len - 1, len + 1, 2 * len] {
            assert_internal(case.scatter(&plan, &mut vec![0; wrong], &strides));
        }
        for item in [0, 1, 2, 8, usize::MAX] {
            assert_internal(Case { item, ..case.clone() }.scatter(&plan, &mut output, &strides));
        }
        for strides in [&strides[..1], &[], &[1, 1, 1]] {
            assert_internal(case.scatter(&plan, &mut output, strides));
        }
        case.scatter(&plan, &mut output, &strides).unwrap();
    }
}

/// Serves the first read chunk from `decoded` and `extents`, and returns the outcome and what was written.
fn copy_first(case: &Case, decoded: &[u8], extents: &[Extent]) -> (Result<()>, Vec<u8>) {
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatter = case.scatter(&plan, &mut output, &strides).unwrap();
    let claim = scatter.claim().unwrap();
    let outcome = scatter.copy(claim, decoded, extents, 0, &mut PieceScratch::default());
    // The second read chunk is still to come.
    assert_internal(finish(vec![scatter]));
    (outcome, output)
}

#[test]
fn decoded_bytes_that_are_too_few_are_refused() {
    for case in paths() {
        let plan = case.plan();
        let bytes = case.decoded(&plan, plan.parts()[0].groups().chunks()[0]);
        let len = bytes.len();
        let whole = [Extent { source: 0..len, at: 0 }];
        let (outcome, written) = copy_first(&case, &bytes, &whole);
        outcome.unwrap();
        // Where the last wanted byte is, the copy itself tells: all of the read chunk is needed in these cases.
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
        let bytes = vec![1; case.chunk_len()];
        let whole = [Extent { source: 0..bytes.len(), at: 0 }];
        for strides in [[3, 1], [2, 100], [1 << 40, 1], [1, 1 << 40], [1 << 40, 1 << 40], [1 << 62, 1]] {
            let mut output = case.output(&plan);
            let scatter = case.scatter(&plan, &mut output, &strides).unwrap();
            let copied = scatter.copy(scatter.claim().unwrap(), &bytes, &whole, 0, &mut PieceScratch::default());
            assert_internal(copied);
        }
        for strides in [[0, 0], [1, 1]] {
            let mut output = case.output(&plan);
            let scatter = case.scatter(&plan, &mut output, &strides).unwrap();
            scatter.copy(scatter.claim().unwrap(), &bytes, &whole, 0, &mut PieceScratch::default()).unwrap();
        }
    }
}

#[test]
fn fill_values_of_another_size_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let mut output = case.output(&plan);
        let scatter = case.scatter(&plan, &mut output, &strides).unwrap();
        for value in [&[][..], &[1], &[1; 8]] {
            let claim = Claim { chunk: 0, scatter: scatter.id };
            assert_internal(scatter.fill(claim, value, &mut PieceScratch::default(), |_| ()));
        }
        assert!(output.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_direct_write_gets_its_run_and_no_more() {
    let case = Case::new(&[20], &[10], 2, &[vec![[3, 9]], vec![[12, 20]]]);
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatter = case.scatter(&plan, &mut output, &strides).unwrap();
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
    assert_internal(finish(vec![scatter]));
    assert_eq!(output, [&[5; 12][..], &[6], &[0; 15]].concat());
}
