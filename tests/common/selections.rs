//! Arbitrary selections that are valid for a shape, and what each means.

use std::fmt;

use proptest::prelude::*;
use zarrow::{Item, Selections};

use super::naive::{self, Span};

/// Selections of one call, each resolved to one span per axis.
#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) asked: Asked,
    pub(crate) spans: Vec<Vec<Span>>,
    /// Axes that each row keeps.
    pub(crate) levels: usize,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} levels", self.asked, self.levels)
    }
}

#[derive(Clone)]
pub(crate) enum Asked {
    Ranges(Vec<[i64; 2]>),
    Boxes(usize, Vec<Vec<[i64; 2]>>),
    Items(Vec<Vec<Item>>),
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranges(ranges) => write!(f, "ranges {ranges:?}"),
            Self::Boxes(axes, boxes) => write!(f, "boxes on {axes} axes {boxes:?}"),
            Self::Items(items) => write!(f, "items {items:?}"),
        }
    }
}

impl Rows {
    pub(crate) fn selections(&self) -> Selections {
        match &self.asked {
            Asked::Ranges(ranges) => {
                let (starts, stops): (Vec<i64>, Vec<i64>) = ranges.iter().map(|[start, stop]| (*start, *stop)).unzip();
                Selections::ranges(starts, stops).expect("ranges")
            }
            Asked::Boxes(axes, boxes) => {
                let (starts, stops): (Vec<i64>, Vec<i64>) =
                    boxes.iter().flatten().map(|[start, stop]| (*start, *stop)).unzip();
                Selections::boxes(*axes, starts, stops).expect("boxes")
            }
            Asked::Items(rows) => Selections::items(rows),
        }
    }
}

/// Ranges, boxes on some or all axes, or items; from none to a dozen, some of them twice, in any order.
pub(crate) fn rows(shape: &[u64]) -> BoxedStrategy<Rows> {
    if shape.is_empty() {
        return items(shape).boxed();
    }
    prop_oneof![1 => ranges(shape), 2 => boxes(shape), 3 => items(shape)].boxed()
}

/// Two bounds per axis, each to be taken modulo what the axis allows.
fn raw(axes: usize) -> impl Strategy<Value = Vec<Vec<[u16; 2]>>> {
    let row = prop::collection::vec(any::<[u16; 2]>(), axes);
    (prop::collection::vec(row, 0..10), any::<prop::sample::Index>(), 0_usize..4).prop_map(|(mut rows, at, copies)| {
        if !rows.is_empty() {
            let copy = rows[at.index(rows.len())].clone();
            rows.extend(std::iter::repeat_n(copy, copies / 2));
        }
        rows
    })
}

fn bounds(raw: [u16; 2], len: u64) -> [i64; 2] {
    let bound = |raw: u16| (u64::from(raw) % (len + 1)) as i64;
    let (a, b) = (bound(raw[0]), bound(raw[1]));
    [a.min(b), a.max(b)]
}

fn strict(rows: &[Vec<[u16; 2]>], shape: &[u64]) -> (Vec<Vec<[i64; 2]>>, Vec<Vec<Span>>) {
    let mut asked = Vec::new();
    let mut spans = Vec::new();
    for row in rows {
        let bounds: Vec<_> = row.iter().zip(shape).map(|(raw, len)| bounds(*raw, *len)).collect();
        let mut span: Vec<Span> = bounds.iter().map(|[start, stop]| (*start as u64, *stop as u64, true)).collect();
        span.extend(shape[bounds.len()..].iter().map(|len| (0, *len, true)));
        asked.push(bounds);
        spans.push(span);
    }
    (asked, spans)
}

fn ranges(shape: &[u64]) -> BoxedStrategy<Rows> {
    let shape = shape.to_vec();
    raw(1)
        .prop_map(move |rows| {
            let (asked, spans) = strict(&rows, &shape);
            let asked = asked.iter().map(|row| row[0]).collect();
            Rows { asked: Asked::Ranges(asked), spans, levels: shape.len() }
        })
        .boxed()
}

fn boxes(shape: &[u64]) -> BoxedStrategy<Rows> {
    let shape = shape.to_vec();
    (1..=shape.len())
        .prop_flat_map(raw_with_axes)
        .prop_map(move |(axes, rows)| {
            let (asked, spans) = strict(&rows, &shape);
            Rows { asked: Asked::Boxes(axes, asked), spans, levels: shape.len() }
        })
        .boxed()
}

/// Up to eight boxes, most of them narrow on most axes.
pub(crate) fn narrow_boxes(shape: &[u64]) -> BoxedStrategy<Rows> {
    let axes = shape.to_vec();
    let extent = prop_oneof![4 => Just(1_u64), 3 => 2_u64..10, 2 => 10_u64..5000, 1 => Just(u64::MAX)];
    let row = prop::collection::vec((any::<u32>(), extent), axes.len());
    prop::collection::vec(row, 1..9)
        .prop_map(move |rows| {
            let bound = |((at, extent), len): ((u32, u64), u64)| {
                let extent = extent.min(len);
                let start = u64::from(at) % (len - extent + 1);
                [start as i64, (start + extent) as i64]
            };
            let asked: Vec<Vec<[i64; 2]>> =
                rows.into_iter().map(|row| row.into_iter().zip(axes.iter().copied()).map(bound).collect()).collect();
            let span = |[start, stop]: &[i64; 2]| (*start as u64, *stop as u64, true);
            let spans = asked.iter().map(|row| row.iter().map(span).collect()).collect();
            Rows { asked: Asked::Boxes(axes.len(), asked), spans, levels: axes.len() }
        })
        .boxed()
}

fn raw_with_axes(axes: usize) -> impl Strategy<Value = (usize, Vec<Vec<[u16; 2]>>)> {
    (Just(axes), raw(axes))
}

/// How one row of items is written down.
#[derive(Debug, Clone)]
struct Style {
    /// The axes in order of preference for an integer.
    order: Vec<usize>,
    /// 0: no Ellipsis and all axes named; 1: without the trailing axes; 2: an Ellipsis in place of some axes;
    /// 3: an Ellipsis in place of no axis.
    ellipsis: u8,
    at: prop::sample::Index,
    covered: prop::sample::Index,
}

fn items(shape: &[u64]) -> BoxedStrategy<Rows> {
    let shape = shape.to_vec();
    let rank = shape.len();
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    let style = (order, 0_u8..4, any::<prop::sample::Index>(), any::<prop::sample::Index>())
        .prop_map(|(order, ellipsis, at, covered)| Style { order, ellipsis, at, covered });
    let indexable = shape.iter().filter(|len| **len > 0).count();
    let rows = raw(rank).prop_flat_map(move |rows| {
        let styles = prop::collection::vec(style.clone(), rows.len());
        (Just(rows), styles, 0..=indexable)
    });
    rows.prop_map(move |(rows, styles, dropped)| {
        let asked: Vec<_> =
            rows.iter().zip(&styles).map(|(row, style)| write_items(row, style, dropped, &shape)).collect();
        let spans = asked.iter().map(|items| naive::resolve(items, &shape)).collect();
        // No row, no integer: all axes are kept.
        let levels = if asked.is_empty() { rank } else { rank - dropped };
        Rows { asked: Asked::Items(asked), spans, levels }
    })
    .boxed()
}

fn write_items(row: &[[u16; 2]], style: &Style, dropped: usize, shape: &[u64]) -> Vec<Item> {
    let integers: Vec<usize> = style.order.iter().copied().filter(|&axis| shape[axis] > 0).take(dropped).collect();
    let item = |axis: usize| {
        let len = shape[axis] as i64;
        let [a, b] = row[axis].map(i64::from);
        if integers.contains(&axis) {
            return Item::Index(a % (2 * len) - len);
        }
        // Mostly near the axis, beyond both of its ends too; sometimes at the ends of what there is.
        let bound = |raw: i64| match raw % 23 {
            0 => None,
            1 => Some(i64::MIN),
            2 => Some(i64::MAX),
            _ => Some(raw / 23 % (4 * len + 3) - 2 * len - 1),
        };
        Item::slice(bound(a), bound(b))
    };
    let mut items: Vec<Item> = (0..shape.len()).map(item).collect();
    // An axis without an integer may be left out, which takes it whole.
    let free = |range: &std::ops::Range<usize>| !integers.iter().any(|axis| range.contains(axis));
    let rank = shape.len();
    match style.ellipsis {
        1 => {
            let from = style.at.index(rank + 1);
            items.truncate((from..=rank).find(|&from| free(&(from..rank))).unwrap_or(rank));
        }
        2 => {
            let from = style.at.index(rank + 1);
            let to = from + style.covered.index(rank - from + 1);
            let to = (from..=to).rev().find(|&to| free(&(from..to))).unwrap_or(from);
            items.splice(from..to, [Item::Ellipsis]);
        }
        3 => items.insert(style.at.index(rank + 1), Item::Ellipsis),
        _ => {}
    }
    items
}
