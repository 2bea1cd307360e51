//! Arbitrary selections of every kind, valid for the arrays that they read from, and what each means.

use std::fmt;

use arrow::buffer::NullBuffer;
use proptest::prelude::*;
use proptest::sample::select;
use zarrow::{Indexing, OutOfBounds, Selections};

use super::Bits;
use super::meaning::{self, Ask, Row};

/// Selections of one call.
#[derive(Clone)]
pub(crate) struct Call {
    /// The array of each row.
    pub(crate) sources: Vec<usize>,
    pub(crate) form: Form,
    pub(crate) pointwise: bool,
    pub(crate) out_of_bounds: OutOfBounds,
    /// The rows that are null, if any may be.
    pub(crate) null: Option<Vec<bool>>,
    shapes: Vec<Vec<u64>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Form {
    Items(Vec<Vec<Ask>>),
    /// Start, stop and step on each axis from `first` on.
    Bounds {
        first: usize,
        axes: usize,
        rows: Vec<Vec<[i64; 3]>>,
        how: How,
    },
    Lists {
        axis: usize,
        lists: Vec<Vec<i64>>,
    },
}

/// How bounds are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Boxes,
    Ranges,
    Steps,
    /// By centers; all rows have one shape.
    Windows,
    /// By offsets: each row starts where the one before it stops.
    Rows,
}

/// How large rows may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Anything; the arrays are small.
    Any,
    /// Few positions on each axis.
    Narrow,
}

/// A row on a line: a case that fails is to be read by people.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sources, form, pointwise, out_of_bounds, null, shapes } = self;
        writeln!(f, "of {shapes:?}, pointwise: {pointwise}, out of bounds: {out_of_bounds:?}")?;
        let mut lines: Vec<String> = match form {
            Form::Items(rows) => rows.iter().map(|row| format!("{row:?}")).collect(),
            Form::Bounds { rows, .. } => rows.iter().map(|row| format!("{row:?}")).collect(),
            Form::Lists { lists, .. } => lists.iter().map(|list| format!("{list:?}")).collect(),
        };
        if let Form::Bounds { first, how, .. } = form {
            writeln!(f, "    {how:?} from axis {first} on")?;
        }
        if let Form::Lists { axis, .. } = form {
            writeln!(f, "    lists on axis {axis}")?;
        }
        for ((row, line), source) in lines.iter_mut().enumerate().zip(sources) {
            let null = if null.as_ref().is_some_and(|null| null[row]) { ", null" } else { "" };
            writeln!(f, "    from {source}: {line}{null}")?;
        }
        Ok(())
    }
}

impl Call {
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    fn is_null(&self, row: usize) -> bool {
        self.null.as_ref().is_some_and(|null| null[row])
    }

    fn shape(&self, row: usize) -> &[u64] {
        &self.shapes[self.sources[row]]
    }

    pub(crate) fn selections(&self) -> Selections {
        let selections = match &self.form {
            Form::Items(rows) => {
                Selections::items(rows.iter().map(|row| row.iter().map(Ask::item).collect::<Vec<_>>()))
            }
            Form::Lists { axis, lists } => {
                // Values that no list has stand before, between and behind those of the lists.
                let (mut offsets, mut values) = (vec![1], vec![i64::MIN]);
                for list in lists {
                    values.extend(list);
                    offsets.push(values.len() as i64);
                }
                values.push(i64::MAX);
                Selections::indices(offsets, values).expect("lists").with_first_axis(*axis)
            }
            Form::Bounds { first, axes, rows, how } => {
                let column = |at: usize| rows.iter().flatten().map(|bounds| bounds[at]).collect::<Vec<_>>();
                let (starts, stops) = (column(0), column(1));
                let selections = match how {
                    How::Boxes => Selections::boxes(*axes, starts, stops),
                    How::Ranges => Selections::ranges(starts, stops),
                    How::Steps => Selections::boxes(*axes, starts, stops).and_then(|boxes| boxes.with_steps(column(2))),
                    How::Windows => {
                        let shape: Vec<i64> = (0..*axes)
                            .map(|axis| rows.first().map_or(3, |row| row[axis][1].wrapping_sub(row[axis][0])))
                            .collect();
                        let centers = starts.iter().zip(shape.iter().cycle()).map(|(start, len)| start + len / 2);
                        Selections::windows(centers.collect::<Vec<_>>(), &shape)
                    }
                    How::Rows => {
                        let last = stops.last().copied();
                        Selections::rows(starts.into_iter().chain([last.unwrap_or(0)]).collect::<Vec<_>>())
                    }
                };
                selections.expect("bounds").with_first_axis(*first)
            }
        };
        let indexing = if self.pointwise { Indexing::Pointwise } else { Indexing::Orthogonal };
        let valid = self.null.as_ref().map(|null| null.iter().map(|null| !null).collect::<NullBuffer>());
        selections
            .with_indexing(indexing)
            .with_out_of_bounds(self.out_of_bounds)
            .with_nulls(valid)
            .expect("validity of each row")
    }

    /// Each row, `None` for null; or the first row that is an error.
    pub(crate) fn rows(&self) -> Result<Vec<Option<Row>>, usize> {
        (0..self.len())
            .map(|row| if self.is_null(row) { Ok(None) } else { self.row(row).map(Some).ok_or(row) })
            .collect()
    }

    fn row(&self, row: usize) -> Option<Row> {
        let shape = self.shape(row);
        match &self.form {
            Form::Items(rows) => Some(meaning::of_items(&rows[row], shape, self.pointwise)),
            Form::Bounds { first, rows, .. } => meaning::of_bounds(&rows[row], *first, shape, self.out_of_bounds),
            Form::Lists { axis, lists } => {
                let mut items = vec![Ask::Slice(None, None, 1); *axis];
                items.push(Ask::Indices(lists[row].clone(), vec![lists[row].len()]));
                Some(meaning::of_items(&items, shape, false))
            }
        }
    }

    /// Number of axes that each row keeps.
    pub(crate) fn levels(&self, rows: &[Option<Row>]) -> usize {
        let rank = self.shapes[0].len();
        rows.iter().flatten().next().map_or(rank, |row| row.extents.len())
    }
}

/// Selections for arrays of these shapes, all of one rank.
pub(crate) fn call(shapes: &[Vec<u64>], size: Size) -> impl Strategy<Value = Call> + use<> {
    let shapes = shapes.to_vec();
    let policies =
        select(vec![OutOfBounds::Error, OutOfBounds::Error, OutOfBounds::Clip, OutOfBounds::Fill, OutOfBounds::Null]);
    // One seed for each row, so that a case that fails can be tried with fewer of them.
    let seeds = prop::collection::vec(any::<u64>(), 0..10);
    (seeds, any::<u64>(), 0_u8..8, policies, any::<bool>(), prop::bool::weighted(0.4)).prop_map(
        move |(seeds, seed, kind, out_of_bounds, pointwise, with_nulls)| {
            let mut bits = Bits(seed);
            let bits = &mut bits;
            let sources: Vec<usize> = seeds.iter().map(|_| bits.below(shapes.len() as u64) as usize).collect();
            let null = with_nulls.then(|| seeds.iter().map(|_| bits.below(4) == 0).collect());
            let form = Form::Items(vec![]);
            let mut call = Call { sources, form, pointwise, out_of_bounds, null, shapes: shapes.clone() };
            let rank = shapes[0].len();
            call.form = match kind {
                0..=2 if rank > 0 => bounds(&call, &seeds, bits, size),
                3 if rank > 0 => lists(&call, &seeds, bits),
                _ => items(&call, &seeds, size),
            };
            call
        },
    )
}

fn pick<T: Copy>(bits: &mut Bits, choices: &[T]) -> T {
    choices[bits.below(choices.len() as u64) as usize]
}

/// A number from `least` to `most`.
fn between(bits: &mut Bits, least: i64, most: i64) -> i64 {
    least + bits.below((most - least + 1) as u64) as i64
}

fn lists(call: &Call, seeds: &[u64], bits: &mut Bits) -> Form {
    let axis = bits.below(call.shapes[0].len() as u64) as usize;
    let list = |(row, &seed): (usize, &u64)| {
        let mut bits = Bits(seed);
        if call.is_null(row) { vec![i64::MAX, -7] } else { indices(&mut bits, call.shape(row)[axis]) }
    };
    Form::Lists { axis, lists: seeds.iter().enumerate().map(list).collect() }
}

/// Up to a dozen indices of an axis: in runs, or in no order.
fn indices(bits: &mut Bits, len: u64) -> Vec<i64> {
    if len == 0 {
        return vec![];
    }
    let len = len as i64;
    let count = between(bits, 0, (2 * len).min(9));
    if bits.below(2) == 0 {
        return (0..count).map(|_| between(bits, -len, len - 1)).collect();
    }
    // Runs, the last of which may be negative.
    let (mut at, mut list) = (between(bits, 0, len - 1), Vec::new());
    for _ in 0..count {
        list.push(if bits.below(9) == 0 { at - len } else { at });
        at = if bits.below(4) == 0 { between(bits, 0, len - 1) } else { (at + 1) % len };
    }
    list
}

fn bounds(call: &Call, seeds: &[u64], bits: &mut Bits, size: Size) -> Form {
    let rank = call.shapes[0].len();
    let padded = matches!(call.out_of_bounds, OutOfBounds::Fill | OutOfBounds::Null);
    let mut ways = vec![How::Boxes, How::Ranges, How::Windows];
    if !padded {
        ways.push(How::Steps);
    }
    if call.shapes.len() == 1 && size == Size::Any {
        ways.push(How::Rows);
    }
    let mut how = pick(bits, &ways);
    // Windows of no row have no shape.
    if how == How::Windows && (seeds.is_empty() || call.null.is_some()) {
        how = How::Boxes;
    }
    let (mut first, mut axes) = (bits.below(rank as u64) as usize, 1);
    match how {
        How::Ranges | How::Rows => {}
        _ => {
            axes = 1 + bits.below((rank - first) as u64) as usize;
        }
    }
    if size == Size::Narrow {
        // The other axes are whole.
        (first, axes) = (0, rank);
        how = if how == How::Ranges && rank > 1 { How::Boxes } else { how };
    }
    if how == How::Rows {
        return Form::Bounds { first, axes, rows: offsets(call, seeds, bits, first), how };
    }
    let window: Vec<i64> = (0..axes).map(|_| between(bits, 0, 6)).collect();
    let rows = seeds.iter().enumerate().map(|(row, &seed)| {
        if call.is_null(row) {
            return vec![[i64::MAX, i64::MIN, 1]; axes];
        }
        let mut bits = Bits(seed);
        let shape = &call.shape(row)[first..first + axes];
        let bound = |(&len, &window): (&u64, &i64)| {
            let len = len as i64;
            if how == How::Windows {
                let (least, most) = if call.out_of_bounds == OutOfBounds::Error && bits.below(30) > 0 {
                    (0, (len - window).max(0))
                } else {
                    (-window - 2, len + 2)
                };
                let start = between(&mut bits, least, most);
                return [start, start + window, 1];
            }
            bound(&mut bits, len, call.out_of_bounds, how == How::Steps, size, rank)
        };
        shape.iter().zip(&window).map(bound).collect()
    });
    Form::Bounds { first, axes, rows: rows.collect(), how }
}

fn bound(bits: &mut Bits, len: i64, policy: OutOfBounds, stepped: bool, size: Size, rank: usize) -> [i64; 3] {
    let step = if stepped { pick(bits, &[1, 2, 3, 7, 1000, i64::MAX, -1, -2, -7, 1 - i64::MAX, i64::MIN]) } else { 1 };
    let most = if size == Size::Narrow { [0, 60, 30, 12] } else { [0, 60, 18, 9] }.get(rank).copied().unwrap_or(6);
    let (start, stop) = match policy {
        OutOfBounds::Error if bits.below(60) == 0 => (between(bits, -2, len), between(bits, -2, len + 2)),
        OutOfBounds::Error => {
            let extent = between(bits, 0, len.min(if size == Size::Narrow { most } else { len }));
            let start = between(bits, 0, len - extent);
            (start, start + extent)
        }
        OutOfBounds::Clip => {
            let near = |bits: &mut Bits| between(bits, -2 * len - 3, 2 * len + 3);
            let wild =
                |bits: &mut Bits| if bits.below(5) == 0 { pick(bits, &[i64::MIN, i64::MAX]) } else { near(bits) };
            let (a, b) = if size == Size::Narrow {
                let start = near(bits);
                (start, start + between(bits, 0, most))
            } else {
                (wild(bits), wild(bits))
            };
            (a.min(b), a.max(b))
        }
        _ => {
            let start = between(bits, -len - 3, 2 * len + 3);
            (start, start + between(bits, 0, (len + 4).min(most)))
        }
    };
    if step > 0 {
        return [start, stop, step];
    }
    // The same indices backwards, or nearly: bounds at the end of all numbers stay there.
    [stop.saturating_sub(1), start.saturating_sub(1), step]
}

/// Ranges that follow each other.
fn offsets(call: &Call, seeds: &[u64], bits: &mut Bits, axis: usize) -> Vec<Vec<[i64; 3]>> {
    let len = call.shapes[0][axis] as i64;
    let mut bound = |_: &u64| match call.out_of_bounds {
        OutOfBounds::Error => between(bits, 0, len),
        _ => between(bits, -2, len + 2),
    };
    let mut offsets: Vec<i64> = seeds.iter().chain([&0]).map(&mut bound).collect();
    offsets.sort_unstable();
    offsets.windows(2).map(|pair| vec![[pair[0], pair[1], 1]]).collect()
}

/// Rows of items, made to keep equally many axes by new ones.
fn items(call: &Call, seeds: &[u64], size: Size) -> Form {
    let wrong = vec![Ask::Index(i64::MAX), Ask::Ellipsis, Ask::Ellipsis];
    let mut rows: Vec<Vec<Ask>> = Vec::new();
    for (row, &seed) in seeds.iter().enumerate() {
        let null = call.is_null(row);
        let items = |bits: &mut Bits| items_of_row(bits, call.shape(row), call.pointwise, size);
        rows.push(if null { wrong.clone() } else { items(&mut Bits(seed)) });
    }
    let kept = |row: usize| {
        let of = &rows[row];
        if call.is_null(row) { 0 } else { meaning::of_items(of, call.shape(row), call.pointwise).extents.len() }
    };
    let kept: Vec<usize> = (0..rows.len()).map(kept).collect();
    let levels = kept.iter().copied().max().unwrap_or(0);
    for ((row, (items, kept)), &seed) in rows.iter_mut().zip(kept).enumerate().zip(seeds) {
        let mut bits = Bits(!seed);
        for _ in kept..if call.is_null(row) { kept } else { levels } {
            let at = bits.below(items.len() as u64 + 1) as usize;
            items.insert(at, Ask::NewAxis);
        }
    }
    Form::Items(rows)
}

fn items_of_row(bits: &mut Bits, shape: &[u64], pointwise: bool, size: Size) -> Vec<Ask> {
    let rank = shape.len();
    // The shape that index arrays of a pointwise selection broadcast to.
    let common: Vec<usize> = (0..bits.below(4)).map(|_| pick(bits, &[0, 1, 2, 3, 3, 5])).collect();
    let mut hole = (bits.below(3) == 0).then(|| {
        let from = bits.below(rank as u64 + 1) as usize;
        let most = if size == Size::Any { rank - from } else { 0 };
        (from, from + bits.below(most as u64 + 1) as usize)
    });
    let named = hole.is_some() || size == Size::Narrow;
    let (mut items, mut axis) = (Vec::new(), 0);
    loop {
        if bits.below(8) == 0 {
            items.push(Ask::NewAxis);
        }
        if let Some((from, to)) = hole.filter(|&(from, _)| from == axis) {
            items.push(Ask::Ellipsis);
            (hole, axis) = (None, to.max(from));
            continue;
        }
        if axis == rank || (!named && bits.below(12) == 0) {
            return items;
        }
        let end = hole.map_or(rank, |(from, _)| from);
        let item = item(bits, &shape[axis..end], pointwise, &common, size);
        axis += item.axes();
        items.push(item);
    }
}

/// An item for the first of these axes, or for some of them.
fn item(bits: &mut Bits, shape: &[u64], pointwise: bool, common: &[usize], size: Size) -> Ask {
    let len = shape[0] as i64;
    let axes = 1 + bits.below(shape.len() as u64) as usize;
    match bits.below(10) {
        0 | 1 if len > 0 => Ask::Index(between(bits, -len, len - 1)),
        2 if len > 0 && bits.below(3) == 0 => Ask::Indices(vec![between(bits, -len, len - 1)], vec![]),
        2..=4 if pointwise => {
            let of = broadcastable(bits, common);
            match coordinates(bits, &shape[..1], of.iter().product()) {
                Some(mut values) => Ask::Indices(values.remove(0), of),
                None => slice(bits, len, size),
            }
        }
        2..=4 => {
            let values = indices(bits, shape[0]);
            let of = vec![values.len()];
            Ask::Indices(values, of)
        }
        5 | 6 => mask(bits, &shape[..axes], pointwise.then(|| common.last().copied().unwrap_or(1)))
            .unwrap_or_else(|| slice(bits, len, size)),
        7 => {
            let of = if pointwise {
                broadcastable(bits, common)
            } else {
                pick(bits, &[&[][..], &[0], &[4], &[2, 3]]).to_vec()
            };
            let points = coordinates(bits, &shape[..axes], of.iter().product());
            points.map_or_else(|| slice(bits, len, size), |coordinates| Ask::Points(coordinates, of))
        }
        _ => slice(bits, len, size),
    }
}

/// The last axes of `common`, some of them of length one, perhaps with more of that length in front.
fn broadcastable(bits: &mut Bits, common: &[usize]) -> Vec<usize> {
    let from = bits.below(common.len() as u64 + 1) as usize;
    let mut shape: Vec<usize> = common[from..].to_vec();
    for len in &mut shape {
        if bits.below(4) == 0 {
            *len = 1;
        }
    }
    if bits.below(8) == 0 {
        shape.insert(0, 1);
    }
    shape
}

/// `count` points in axes of these lengths; `None` if an axis has no index.
fn coordinates(bits: &mut Bits, shape: &[u64], count: usize) -> Option<Vec<Vec<i64>>> {
    if count > 0 && shape.contains(&0) {
        return None;
    }
    let mut along = |&len: &u64| (0..count).map(|_| between(bits, -(len as i64), len as i64 - 1)).collect();
    Some(shape.iter().map(&mut along).collect())
}

/// A mask, with a given number of bits set if one is asked for. `None` if it has not so many, or would be large.
fn mask(bits: &mut Bits, shape: &[u64], set: Option<usize>) -> Option<Ask> {
    let places = shape.iter().product::<u64>();
    if places > 400 {
        return None;
    }
    let of = shape.iter().map(|&len| len as usize).collect();
    let Some(set) = set else {
        let density = pick(bits, &[0, 1, 5, 10]);
        return Some(Ask::Mask((0..places).map(|_| bits.below(10) < density).collect(), of));
    };
    let mut hits: Vec<bool> = (0..places).map(|at| (at as usize) < set).collect();
    for at in (1..places).rev() {
        hits.swap(at as usize, bits.below(at + 1) as usize);
    }
    (places as usize >= set).then_some(Ask::Mask(hits, of))
}

fn slice(bits: &mut Bits, len: i64, size: Size) -> Ask {
    if size == Size::Narrow {
        // From anywhere, a few steps on.
        let (start, count) = (between(bits, 0, len), between(bits, 0, 12));
        let step = pick(bits, &[1, 1, 2, 3, 100, 1003, -1, -2, -640]);
        let stop = Some(start + count * step).filter(|&stop| stop >= 0);
        return Ask::Slice(Some(start), stop.or(Some(-len - 1)), step);
    }
    let bound = |bits: &mut Bits| match bits.below(12) {
        0..=2 => None,
        3 => Some(i64::MIN),
        4 => Some(i64::MAX),
        _ => Some(between(bits, -2 * len - 1, 2 * len + 1)),
    };
    let (start, stop) = (bound(bits), bound(bits));
    let step = match bits.below(6) {
        0..=2 => 1,
        3 => pick(bits, &[2, 3, 5, i64::MAX]),
        4 => -1,
        _ => pick(bits, &[-2, -3, -5, i64::MIN]),
    };
    Ask::Slice(start, stop, step)
}
