//! Ranges clipped, points joined.

use super::*;

/// The definition of [`clipped`], asked of each index of the axis.
fn hits(start: i64, stop: i64, step: i64, len: i64) -> Vec<i64> {
    let [start, stop, step] = [start, stop, step].map(i128::from);
    let hit = |at: i128| {
        (at - start) % step == 0 && if step > 0 { start <= at && at < stop } else { stop < at && at <= start }
    };
    let hits = (0..len).filter(|&at| hit(i128::from(at)));
    if step > 0 { hits.collect() } else { hits.rev().collect() }
}

#[test]
fn clipped_ranges_keep_their_phase() {
    let steps = [1, 2, 3, 5, 7, i64::MAX - 1, i64::MAX, -1, -2, -3, -7, 1 - i64::MAX, -i64::MAX, i64::MIN];
    for len in if cfg!(miri) { 2..4 } else { 0..6 } {
        let mut bounds: Vec<i64> = (-8..=len + 8).collect();
        bounds.extend([i64::MIN, i64::MIN + 1, i64::MIN + 2, i64::MAX - 2, i64::MAX - 1, i64::MAX]);
        for &step in steps.iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
            for &start in &bounds {
                for &stop in &bounds {
                    let found = clipped(start, stop, step, len);
                    let got: Vec<i64> = (0..found.len).map(|at| found.start + at * found.step).collect();
                    assert_eq!(got, hits(start, stop, step, len), "{start}..{stop} by {step} of {len}");
                    assert!(found.len > 1 || found.step == 1);
                }
            }
        }
    }
}

#[test]
fn clipped_ranges_of_long_axes() {
    let bounds = [i64::MIN, i64::MIN + 1, -(1 << 62), -1, 0, 1, 1 << 61, i64::MAX - 1, i64::MAX];
    for len in if cfg!(miri) { &[i64::MAX][..] } else { &[1 << 40, i64::MAX - 1, i64::MAX] } {
        let len = *len;
        for step in [1, 3, 1 << 40, i64::MAX, -1, -3, -(1 << 62), i64::MIN] {
            for (start, stop) in bounds.into_iter().flat_map(|start| bounds.map(|stop| (start, stop))) {
                let found = clipped(start, stop, step, len);
                let at = |position: i64| i128::from(found.start) + i128::from(position) * i128::from(found.step);
                let wide = [start, stop, step, len].map(i128::from);
                let is_hit = |at: i128| {
                    let within = if step > 0 { wide[0] <= at && at < wide[1] } else { wide[1] < at && at <= wide[0] };
                    within && 0 <= at && at < wide[3] && (at - wide[0]) % wide[2] == 0
                };
                if found.len == 0 {
                    // Then not even the first or last place in reach is a hit.
                    let reach = if step > 0 { 0.max(wide[0]) } else { wide[0].min(wide[3] - 1) };
                    let first = wide[0] + (reach - wide[0]) / wide[2] * wide[2];
                    assert!(!is_hit(first) && !is_hit(first + wide[2]), "{start}..{stop} by {step} of {len}");
                    continue;
                }
                let (first, last) = (at(0), at(found.len - 1));
                assert!(is_hit(first) && is_hit(last), "{start}..{stop} by {step} of {len}");
                assert!(!is_hit(first - wide[2]) && !is_hit(last + wide[2]), "{start}..{stop} by {step} of {len}");
            }
        }
    }
}

#[test]
fn shapes_broadcast_like_numpy() {
    for (a, b, both) in [
        (&[][..], &[][..], Some(&[][..])),
        (&[], &[3], Some(&[3])),
        (&[1], &[3], Some(&[3])),
        (&[3], &[3], Some(&[3])),
        (&[2], &[3], None),
        (&[1], &[0], Some(&[0])),
        (&[0], &[0], Some(&[0])),
        (&[2], &[0], None),
        (&[2, 1], &[3], Some(&[2, 3])),
        (&[2, 1], &[1, 3], Some(&[2, 3])),
        (&[2, 3], &[2], None),
        (&[4, 1, 2], &[5, 1], Some(&[4, 5, 2])),
        (&[1, 1, 1], &[7], Some(&[1, 1, 7])),
    ] {
        for (a, b) in [(a, b), (b, a)] {
            let got = broadcast(a, b);
            assert_eq!(got.as_deref().ok(), both, "{a:?} {b:?}");
            assert!(got.is_ok() || got.is_err_and(|error| error.kind() == ErrorKind::Selection));
        }
    }
}

#[test]
fn values_are_repeated_along_axes_of_length_one() {
    let to = [3, 2, 4];
    for from in
        [&[][..], &[1], &[4], &[1, 1], &[2, 1], &[2, 4], &[1, 4], &[1, 2, 4], &[3, 1, 1], &[3, 1, 4], &[1, 1, 1]]
    {
        let values: Vec<i64> = (100..).take(from.iter().product()).collect();
        let stretched = stretch(&values, from, &to, Vec::new());
        let mut expected = Vec::new();
        for at in (0..3).flat_map(|a| (0..2).flat_map(move |b| (0..4).map(move |c| [a, b, c]))) {
            let own = at[3 - from.len()..].iter().zip(from);
            let place = own.fold(0, |place, (&at, &len)| place * len + if len == 1 { 0 } else { at });
            expected.push(values[place]);
        }
        assert_eq!(stretched, expected, "{from:?}");
    }
    assert!(stretch(&[5], &[1], &[2, 0], Vec::new()).is_empty());
    assert!(stretch(&[], &[0, 1], &[0, 3], Vec::new()).is_empty());
}

fn range(axis: usize, len: i64) -> Part {
    Part::Steps { axis, range: Progression { start: 0, step: 1, len }, kept: true }
}

fn index(axis: usize, start: i64) -> Part {
    Part::Steps { axis, range: Progression { start, step: 1, len: 1 }, kept: false }
}

fn points(axis: usize, values: &[i64], shape: &[usize]) -> Part {
    Part::Points { axes: vec![axis], coordinates: vec![values.to_vec()], shape: shape.to_vec() }
}

/// What stands where after joining: the axis of a range, `-1` for the points, `-2` for a new axis, `-3` for nothing.
fn joined(mut parts: Vec<Part>) -> Vec<i32> {
    join_points(&mut parts).unwrap();
    let name = |part: &Part| match part {
        Part::Steps { axis, .. } => *axis as i32,
        Part::Points { .. } => -1,
        Part::NewAxis => -2,
        Part::Nothing => -3,
    };
    parts.iter().map(name).collect()
}

#[test]
fn joined_points_stand_where_they_stood_or_first() {
    let two = || points(1, &[0, 1], &[2]);
    assert_eq!(joined(vec![range(0, 3), two(), range(2, 3)]), [0, -1, 2]);
    assert_eq!(joined(vec![range(0, 3), two(), index(2, 1), range(3, 3)]), [0, -1, 3]);
    assert_eq!(joined(vec![index(0, 1), two(), range(2, 3)]), [-1, 2]);
    assert_eq!(joined(vec![Part::NewAxis, range(0, 3), two()]), [-2, 0, -1]);
    // Something in between: a range, a new axis, an Ellipsis even of no axis.
    assert_eq!(joined(vec![range(0, 3), two(), range(2, 3), index(3, 0)]), [-1, 0, 2]);
    assert_eq!(joined(vec![index(0, 0), Part::NewAxis, two()]), [-1, -2]);
    assert_eq!(joined(vec![range(0, 3), two(), Part::Nothing, points(2, &[0], &[1])]), [-1, 0, -3]);
    // Integers alone are no points.
    assert_eq!(joined(vec![index(0, 0), range(1, 3), index(2, 0)]), [0, 1, 2]);
}

#[test]
fn joined_points_are_broadcast() {
    let mask = Part::Points { axes: vec![2, 3], coordinates: vec![vec![5, 6], vec![7, 8]], shape: vec![2] };
    let mut parts = vec![points(0, &[0, 1, 2], &[3, 1]), index(1, 9), mask];
    join_points(&mut parts).unwrap();
    let [Part::Points { axes, coordinates, shape }] = &parts[..] else { panic!("one part") };
    assert_eq!((&axes[..], &shape[..]), (&[0, 1, 2, 3][..], &[3, 2][..]));
    let expected = [[0, 0, 1, 1, 2, 2], [9; 6], [5, 6, 5, 6, 5, 6], [7, 8, 7, 8, 7, 8]];
    assert_eq!(*coordinates, expected);
    let mut parts = vec![points(0, &[0, 1], &[2]), points(1, &[0, 1, 2], &[3])];
    assert_eq!(join_points(&mut parts).unwrap_err().kind(), ErrorKind::Selection);
}

#[test]
fn points_without_end_are_refused() {
    let along = |axis: usize| {
        let mut shape = vec![1; 9];
        shape[axis] = 1 << 8;
        points(axis, &[0; 1 << 8], &shape)
    };
    // 2^72 and 2^56 of them. Miri has no memory that can be asked for in vain.
    for axes in if cfg!(miri) { 9..=9 } else { 7..=9 } {
        let mut parts: Vec<Part> = (0..axes).map(along).collect();
        assert_eq!(join_points(&mut parts).unwrap_err().kind(), ErrorKind::Allocation);
    }
}

fn bind(items: &[&[Item]], shape: &[u64], nulls: Option<&NullBuffer>) -> Result<Rows> {
    let mut offsets = vec![0];
    offsets.extend(items.iter().scan(0, |end, row| {
        *end += row.len();
        Some(*end)
    }));
    Rows::from_items(&Shapes::one(shape)?, &items.concat(), &offsets, Indexing::Orthogonal, nulls)
}

#[test]
fn each_axis_of_the_array_belongs_to_one_of_a_row() {
    let mask = Mask::try_new([false, true, true, false, false, true].into_iter().collect(), vec![2, 3]).unwrap();
    let row: &[Item] = &[Item::NewAxis, mask.into(), Item::Index(-1), Item::Ellipsis, Indices::new(vec![4, -5]).into()];
    let rows = bind(&[row], &[2, 3, 4, 1, 5], None).unwrap();
    assert_eq!((rows.levels(), rows.extents(0)), (4, &[1, 3, 1, 2][..]));
    let axes = &rows.axes()[rows.of(0)];
    let along = |number: usize, axis: usize| -> Vec<u64> {
        (0..axes[number].len()).map(|position| rows.index(&axes[number], axis, position)).collect()
    };
    assert_eq!(axes.len(), 4);
    assert_eq!((along(0, 0), along(0, 1)), (vec![0, 0, 1], vec![1, 2, 2]));
    assert_eq!((along(1, 2), along(2, 3), along(3, 4)), (vec![3], vec![0], vec![4, 0]));
}

#[test]
fn null_rows_have_extents_of_zero_wherever_they_stand() {
    let row: &[Item] = &[Item::Slice { start: None, stop: None, step: 2 }];
    for valid in [[false, true, true], [true, false, true], [true, true, false], [false, true, false], [false; 3]] {
        let nulls = NullBuffer::from(valid.to_vec());
        let wrong: &[Item] = &[Item::Index(99)];
        let rows: Vec<&[Item]> = valid.iter().map(|&valid| if valid { row } else { wrong }).collect();
        let rows = bind(&rows, &[5, 2], Some(&nulls)).unwrap();
        for (number, &valid) in valid.iter().enumerate() {
            assert_eq!(rows.extents(number), if valid { [3, 2] } else { [0, 0] });
            assert_eq!(rows.of(number).len(), if valid { 2 } else { 0 });
        }
    }
}

#[test]
fn rows_are_chosen_by_any_item() {
    let chosen = |item: Item| positions(&item, 5).unwrap();
    assert_eq!(chosen(Item::FULL), [0, 1, 2, 3, 4]);
    assert_eq!(chosen(Item::Slice { start: None, stop: None, step: -2 }), [4, 2, 0]);
    assert_eq!(chosen(Item::Index(-1)), [4]);
    assert_eq!(chosen(Indices::new(vec![3, 3, -5]).into()), [3, 3, 0]);
    assert_eq!(chosen(Mask::new([false, true, true, false, true].into_iter().collect()).into()), [1, 2, 4]);
    assert!(chosen(Item::slice(3, 3)).is_empty());
    for wrong in [Item::Index(5), Indices::new(vec![-6]).into(), Mask::new([true].into_iter().collect()).into()] {
        assert_eq!(positions(&wrong, 5).unwrap_err().kind(), ErrorKind::Selection);
    }
    assert!(crate::selection::Selections::some_rows(Vec::<i64>::new(), Item::FULL).is_err());
}
