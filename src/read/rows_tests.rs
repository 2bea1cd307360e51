//! Rows of every kind, padded, copied and filled by several threads at once, with nulls marked meanwhile.
//!
//! As `scatter_tests`, for Miri: nothing here reads a file or calls C.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use arrow_buffer::NullBuffer;

use super::crew::Crew;
use super::padding::pad;
use super::scatter::{PieceScratch, Scatter, finish, scatters};
use super::validity::Validity;
use crate::cancel::Cancel;
use crate::chunk::Extent;
use crate::plan::Plan;
use crate::plan::blocks::Threads;
use crate::plan::grid::Grid;
use crate::plan::tiling::Tiling;
use crate::selection::{Indexing, Indices, Item, OutOfBounds, Selections, Shapes};

/// Two arrays, in read chunks of these shapes.
const SHAPES: [[u64; 2]; 2] = [[7, 9], [5, 12]];
const CHUNKS: [[u64; 2]; 2] = [[3, 4], [2, 5]];
const SOURCES: [u32; 6] = [0, 1, 1, 0, 1, 0];

/// The bytes that are filled in, of two each.
const BEYOND: [u8; 2] = [5, 6];
const MISSING: [u8; 2] = [0, 0];

/// The element of an array.
fn element(source: usize, [y, x]: [u64; 2]) -> [u8; 2] {
    [16 + (source as u64 * 100 + y) as u8, 1 + x as u8]
}

/// Whether the store holds the read chunk of an element.
fn is_stored(source: usize, [y, x]: [u64; 2]) -> bool {
    let [height, width] = CHUNKS[source];
    !(y / height + x / width + source as u64).is_multiple_of(3)
}

/// What a row has at one place: an element of its array, or none.
type Cell = Option<[u64; 2]>;

fn plan(selections: &Selections) -> Plan {
    let nonzero = |lengths: [u64; 2]| lengths.map(|len| NonZeroU64::new(len).unwrap());
    let grid = |source: usize| Grid::new(&SHAPES[source], &nonzero(CHUNKS[source]), &[NonZeroU64::MIN; 2]).unwrap();
    let shapes = SHAPES.iter().map(|shape| shape.to_vec()).collect();
    let shapes = Shapes::new(shapes, Some(Arc::from(SOURCES))).unwrap();
    Plan::new(selections.bind_to(&shapes).unwrap(), vec![grid(0), grid(1)], Some(2), Threads::ONE, &Cancel::default())
        .unwrap()
}

/// Does what a worker does with all read chunks of one array that it gets.
fn work(source: usize, scatter: &Scatter<'_>, validity: &Validity) {
    let mut scratch = PieceScratch::default();
    let [height, width] = CHUNKS[source];
    while let Some(claim) = scatter.claim() {
        let key = scatter.part().groups().chunks()[claim.chunk()];
        let origin = [0, 1].map(|axis| scatter.part().grid().chunk_index(key, axis) * CHUNKS[source][axis]);
        if is_stored(source, origin) {
            let at = |place: u64| element(source, [origin[0] + place / width, origin[1] + place % width]);
            let bytes: Vec<u8> = (0..height * width).flat_map(at).collect();
            let whole = [Extent { source: 0..bytes.len(), at: 0 }];
            scatter.copy(claim, &bytes, &whole, 0, &mut scratch).unwrap();
        } else {
            scatter.fill(claim, &MISSING, &mut scratch, Some(validity)).unwrap();
        }
    }
}

/// Reads as a read does, on three threads, and compares with `cells`, those of each row.
fn check(selections: &Selections, cells: &[Vec<Cell>]) {
    let plan = plan(selections);
    let strides = CHUNKS.map(|[_, width]| [width as usize, 1]);
    let strides: Vec<&[usize]> = strides.iter().map(|strides| &strides[..]).collect();
    let elements = plan.layout().elements();
    let mut output = vec![0xee; elements * 2];
    let validity = Validity::new(elements);
    pad(&plan, &mut output, 2, &validity, &Cancel::default(), |_| Cow::Borrowed(&BEYOND)).unwrap();
    let crew = Crew::new(4, &|| true).with_worth(6);
    let scatters =
        scatters(Tiling::check(&plan, Threads::ONE).unwrap(), &mut output, false, 2, &strides, &crew).unwrap();
    let all = || scatters.iter().enumerate().for_each(|(source, scatter)| work(source, scatter, &validity));
    std::thread::scope(|scope| {
        let others = [scope.spawn(all), scope.spawn(all)];
        all();
        for other in others {
            other.join().unwrap();
        }
    });
    finish(scatters).unwrap();

    let is_null = plan.selections().out_of_bounds() == OutOfBounds::Null;
    let (mut expected, mut valid) = (Vec::new(), Vec::new());
    for (cells, &source) in cells.iter().zip(&SOURCES) {
        for cell in cells {
            let (bytes, is_valid) = match *cell {
                None if is_null => ([0, 0], false),
                None => (BEYOND, true),
                Some(at) if is_stored(source as usize, at) => (element(source as usize, at), true),
                Some(_) => (MISSING, false),
            };
            expected.extend(bytes);
            valid.push(is_valid);
        }
    }
    assert_eq!(output, expected);
    assert_eq!(validity.into_nulls(), valid.contains(&false).then(|| NullBuffer::from(valid)));
}

/// The cells of a row: each of `ys` with each of `xs`.
fn product(row: usize, ys: &[i64], xs: &[i64]) -> Vec<Cell> {
    let shape = SHAPES[SOURCES[row] as usize];
    let inside = |at: i64, axis: usize| u64::try_from(at).ok().filter(|&at| at < shape[axis]);
    ys.iter().flat_map(|&y| xs.iter().map(move |&x| Some([inside(y, 0)?, inside(x, 1)?]))).collect()
}

#[test]
fn padded_windows() {
    let corners = [[0, 0], [-2, 3], [1, 1], [5, 7], [-4, -4], [9, 2]];
    let lengths = [[7, 9], [6, 7], [3, 4], [4, 5], [3, 3], [1, 2]];
    let column = |end: bool| {
        corners.iter().zip(&lengths).flat_map(move |(at, len)| [0, 1].map(|a| at[a] + if end { len[a] } else { 0 }))
    };
    let boxes = Selections::boxes(2, column(false).collect::<Vec<i64>>(), column(true).collect::<Vec<i64>>()).unwrap();
    let rows = (0..6).map(|row| {
        let along = |axis: usize| (corners[row][axis]..corners[row][axis] + lengths[row][axis]).collect::<Vec<_>>();
        product(row, &along(0), &along(1))
    });
    let mut rows: Vec<Vec<Cell>> = rows.collect();
    for policy in [OutOfBounds::Fill, OutOfBounds::Null] {
        check(&boxes.clone().with_out_of_bounds(policy), &rows);
    }
    let nulls = NullBuffer::from(vec![true, false, true, false, true, true]);
    for row in [1, 3] {
        rows[row].clear();
    }
    check(&boxes.with_out_of_bounds(OutOfBounds::Null).with_nulls(Some(nulls)).unwrap(), &rows);
}

#[test]
fn steps_and_lists() {
    let step = |start: i64, stop: i64, step: i64| Item::Slice { start: Some(start), stop: Some(stop), step };
    let list = |values: &[i64]| Item::from(Indices::new(values.to_vec()));
    let asked = [
        (step(-1, -99, -1), step(0, 99, 2), vec![6, 5, 4, 3, 2, 1, 0], vec![0, 2, 4, 6, 8]),
        (step(4, -99, -3), list(&[11, 0, 1, 2, 0]), vec![4, 1], vec![11, 0, 1, 2, 0]),
        (list(&[0, 0, 4]), step(0, 12, 5), vec![0, 0, 4], vec![0, 5, 10]),
        (list(&[6, 5]), list(&[3, 4, 5, -1]), vec![6, 5], vec![3, 4, 5, 8]),
        (list(&[]), step(0, 99, 1), vec![], vec![0]),
        (step(0, 7, 1), list(&[8]), (0..7).collect(), vec![8]),
    ];
    let rows: Vec<_> = asked.iter().enumerate().map(|(row, (_, _, ys, xs))| product(row, ys, xs)).collect();
    check(&Selections::items(asked.map(|(y, x, _, _)| [y, x])), &rows);
}

#[test]
fn points_and_integers() {
    let list = |values: &[i64]| Item::from(Indices::new(values.to_vec()));
    let (ys, xs) = ([0, 0, 0, 3, 3, 4, 0], [0, 1, 2, 2, 8, 8, 1]);
    let points = Selections::items(vec![[list(&ys), list(&xs)]; 6]).with_indexing(Indexing::Pointwise);
    let row: Vec<Cell> = ys.iter().zip(&xs).map(|(&y, &x)| Some([y as u64, x as u64])).collect();
    check(&points, &vec![row; 6]);
    // One element for each row, null where the row is.
    let at = [[0, 0], [4, 11], [2, 3], [6, 8], [1, 1], [3, 3]];
    let nulls = NullBuffer::from(vec![true, true, false, true, true, false]);
    let items = Selections::items(at.map(|at| at.map(|at| Item::Index(at as i64))));
    check(&items, &at.map(|at| vec![Some(at)]));
    let of = |row: usize| if nulls.is_null(row) { None } else { Some(at[row]) };
    let cells: Vec<Vec<Cell>> = (0..6).map(|row| vec![of(row)]).collect();
    check(&items.with_out_of_bounds(OutOfBounds::Null).with_nulls(Some(nulls.clone())).unwrap(), &cells);
}
