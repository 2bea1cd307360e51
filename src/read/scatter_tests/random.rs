//! Random arrays, and random selections of each form.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::ITEMS;
use super::cases::{Case, LEAST, Row, Source, WAYS, progression};
use crate::random::Bits;
use crate::selection::{Indexing, Indices, Item, Mask, OutOfBounds, Selections};

/// Arrays of one rank, up to three.
pub(super) fn random_sources(bits: &mut Bits) -> Vec<Source> {
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

pub(super) fn random_case(bits: &mut Bits) -> Case {
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
    let worth = if bits.below(3) == 0 { bits.below(LEAST as u64) as usize } else { 0 };
    Case { sources, of_row, selections, rows, item, fill, how, stale: bits.below(2) == 0, worth }
}

/// Some axes that follow each other.
pub(super) fn random_axes(bits: &mut Bits, ndim: usize) -> Range<usize> {
    let first = if bits.below(2) == 0 { 0 } else { bits.below(ndim as u64) as usize };
    first..first + 1 + bits.below((ndim - first) as u64) as usize
}

/// Boxes, that may reach beyond their array where they are filled, and of which some may be null.
pub(super) fn random_boxes(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
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

pub(super) fn random_steps(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
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

/// Most lists are short; long ones are planned and copied in another way.
fn list_len(bits: &mut Bits) -> u64 {
    if bits.below(12) == 0 { 60 + bits.below(30) } else { bits.below(7) }
}

/// Any `count` indices of an axis, some in runs.
pub(super) fn random_indices(bits: &mut Bits, len: u64, count: u64) -> Vec<i64> {
    let mut indices: Vec<i64> = Vec::new();
    for _ in 0..if len == 0 { 0 } else { count } {
        let next = indices.last().map(|last| last + 1).filter(|&next| next < len as i64 && bits.below(2) == 0);
        indices.push(next.unwrap_or_else(|| bits.below(len) as i64));
    }
    indices
}

pub(super) fn random_lists(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let axis = bits.below(ndim as u64) as usize;
    let (mut offsets, mut values, mut rows) = (vec![0], Vec::new(), Vec::new());
    for shape in shapes {
        let mut indices: Vec<Vec<i64>> = shape.iter().map(|&len| (0..len as i64).collect()).collect();
        let count = list_len(bits);
        indices[axis] = random_indices(bits, shape[axis], count);
        values.extend(indices[axis].iter().map(|&at| if bits.below(4) == 0 { at - shape[axis] as i64 } else { at }));
        offsets.push(values.len() as i64);
        rows.push(Row::product(shape, &indices));
    }
    (Selections::indices(offsets, values).unwrap().with_first_axis(axis), rows)
}

/// Points in the leading axes; the others are whole.
pub(super) fn random_points(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
    let axes = 1 + bits.below(ndim as u64) as usize;
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for shape in shapes {
        let some = shape[..axes].iter().all(|&len| len > 0);
        let points = if some { list_len(bits) as usize } else { 0 };
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
pub(super) fn random_items(bits: &mut Bits, shapes: &[&[u64]], ndim: usize) -> (Selections, Vec<Row>) {
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
                    let count = bits.below(7);
                    let of = random_indices(bits, shape[axis], count);
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

pub(super) fn random_slice(bits: &mut Bits, len: i64, simple: bool) -> (Item, Vec<i64>) {
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
