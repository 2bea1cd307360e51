//! Boxes bound under each policy.

use std::sync::Arc;

use super::*;

const POLICIES: [OutOfBounds; 4] = [OutOfBounds::Error, OutOfBounds::Clip, OutOfBounds::Fill, OutOfBounds::Null];

fn bind(
    shapes: &Shapes,
    first: usize,
    axes: usize,
    [starts, stops]: [Vec<i64>; 2],
    policy: OutOfBounds,
    nulls: Option<&NullBuffer>,
) -> Result<(Boxes, Vec<u32>)> {
    let (starts, stops) = (starts.into(), stops.into());
    let bounds = Bounds { first, axes, starts: &starts, stops: &stops };
    let (boxes, padded) = Boxes::bind(shapes, &bounds, policy, nulls)?;
    Ok((boxes, padded.unwrap_or_default()))
}

/// First and last of the array, elements before, and all.
fn side(boxes: &Boxes, row: usize, axis: usize) -> [u64; 4] {
    let Side { start, stop, before, extent } = boxes.side(row, axis);
    assert_eq!((start, stop), (boxes.start(row, axis), boxes.stop(row, axis)));
    [start, stop, before, extent]
}

#[test]
fn one_axis_under_each_policy() {
    for (len, policy) in (0..4).flat_map(|len| POLICIES.map(|policy| (len, policy))) {
        let shapes = Shapes::one(&[len as u64]).unwrap();
        for (start, stop) in (-4..8).flat_map(|start| (-4..8).map(move |stop| (start, stop))) {
            let outside = start < 0 || stop > len;
            let outcome = bind(&shapes, 0, 1, [vec![0, start], vec![0, stop]], policy, None);
            if start > stop || (outside && policy == OutOfBounds::Error) {
                let error = outcome.unwrap_err();
                assert_eq!((error.kind(), error.selection()), (ErrorKind::Selection, Some(1)));
                continue;
            }
            let (boxes, padded) = outcome.unwrap();
            let name = format!("{start}..{stop} of {len}, {policy:?}");
            let inside: Vec<i64> = (start..stop).filter(|at| (0..len).contains(at)).collect();
            let is_padded = outside && policy != OutOfBounds::Clip;
            assert_eq!(padded, if is_padded { vec![1] } else { vec![] }, "{name}");
            let [first, end, before, extent] = side(&boxes, 1, 0);
            assert_eq!(extent as i64, if is_padded { stop - start } else { inside.len() as i64 }, "{name}");
            assert_eq!((first..end).map(|at| at as i64).collect::<Vec<_>>(), inside, "{name}");
            if let (Some(at), true) = (inside.first(), is_padded) {
                assert_eq!(before as i64, at - start, "{name}");
            }
            assert_eq!(boxes.extents(1).collect::<Vec<_>>(), [extent as i64]);
            assert_eq!(boxes.first_axis().is_some(), !is_padded);
        }
    }
}

#[test]
fn bounds_at_the_ends_of_64_bits() {
    let shapes = Shapes::one(&[10]).unwrap();
    let bind = |start: i64, stop: i64, policy| bind(&shapes, 0, 1, [vec![start], vec![stop]], policy, None);
    let clip = |start, stop| side(&bind(start, stop, OutOfBounds::Clip).unwrap().0, 0, 0);
    assert_eq!(clip(i64::MIN, i64::MAX), [0, 10, 0, 10]);
    assert_eq!(clip(i64::MIN, i64::MIN), [0, 0, 0, 0]);
    assert_eq!(clip(i64::MAX, i64::MAX), [10, 10, 0, 0]);
    assert_eq!(clip(i64::MIN, 3), [0, 3, 0, 3]);
    assert_eq!(clip(3, i64::MAX), [3, 10, 0, 7]);
    for policy in [OutOfBounds::Fill, OutOfBounds::Null] {
        for (start, stop) in [(i64::MIN, i64::MAX), (i64::MIN, 0), (-1, i64::MAX)] {
            let error = bind(start, stop, policy).unwrap_err();
            assert!(error.to_string().contains("2^63"), "{error}");
        }
        let most = i64::MAX as u64;
        assert_eq!(side(&bind(-1, i64::MAX - 1, policy).unwrap().0, 0, 0), [0, 10, 1, most]);
        assert_eq!(side(&bind(i64::MIN, -1, policy).unwrap().0, 0, 0)[3], most);
        assert_eq!(side(&bind(i64::MAX, i64::MAX, policy).unwrap().0, 0, 0)[3], 0);
        assert_eq!(side(&bind(i64::MIN, i64::MIN, policy).unwrap().0, 0, 0)[3], 0);
    }
    for (start, stop) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MAX), (i64::MIN, i64::MIN), (0, 11), (-1, 0)] {
        assert!(bind(start, stop, OutOfBounds::Error).is_err());
    }
}

#[test]
fn axes_that_are_not_bounded_are_whole() {
    let shapes = Shapes::one(&[4, 5, 6]).unwrap();
    let bounds = [vec![1, 2, -1, 6], vec![3, 6, 5, 8]];
    let (boxes, padded) = bind(&shapes, 1, 2, bounds, OutOfBounds::Fill, None).unwrap();
    assert_eq!(padded, [1]);
    let sides = |row: usize| [0, 1, 2].map(|axis| side(&boxes, row, axis));
    assert_eq!(sides(0), [[0, 4, 0, 4], [1, 3, 0, 2], [2, 6, 0, 4]]);
    assert_eq!(sides(1), [[0, 4, 0, 4], [0, 5, 1, 6], [6, 6, 0, 2]]);
    assert!(boxes.first_axis().is_none() && boxes.all_axes().is_none());
}

#[test]
fn arrays_of_differing_shapes() {
    let sources: Arc<[u32]> = vec![1, 0, 1].into();
    let shapes = Shapes::new(vec![vec![4, 5], vec![4, 2]], Some(sources)).unwrap();
    let bounds = || [vec![0, 1, -1], vec![4, 2, 3]];
    // The second axis, whole in every row, has another length in each array.
    let (boxes, padded) = bind(&shapes, 0, 1, bounds(), OutOfBounds::Null, None).unwrap();
    let extents = |boxes: &Boxes| (0..3).map(|row| boxes.extents(row).collect()).collect::<Vec<Vec<i64>>>();
    assert_eq!((extents(&boxes), padded), (vec![vec![4, 2], vec![1, 5], vec![4, 2]], vec![2]));
    let (boxes, _) = bind(&shapes, 0, 1, bounds(), OutOfBounds::Clip, None).unwrap();
    assert_eq!(extents(&boxes), [[4, 2], [1, 5], [3, 2]]);
    // In bounds in the one array, and beyond the other.
    let bounds = |stop| [vec![0; 3], vec![2, stop, 2]];
    assert!(bind(&shapes, 1, 1, bounds(5), OutOfBounds::Error, None).is_ok());
    assert_eq!(bind(&shapes, 1, 1, bounds(6), OutOfBounds::Error, None).unwrap_err().selection(), Some(1));
    let error = bind(&shapes, 1, 1, [vec![0; 3], vec![2, 2, 3]], OutOfBounds::Error, None).unwrap_err();
    assert_eq!(error.selection(), Some(2));
}

#[test]
fn null_rows_are_empty_on_all_axes_that_count() {
    let shapes = Shapes::one(&[1 << 40, 3]).unwrap();
    let nulls = NullBuffer::from(vec![false, true]);
    for policy in POLICIES {
        let bounds = [vec![i64::MAX, 0], vec![i64::MIN, 2]];
        let (boxes, padded) = bind(&shapes, 1, 1, bounds.clone(), policy, Some(&nulls)).unwrap();
        assert_eq!(boxes.extents(0).collect::<Vec<_>>(), [0, 0]);
        assert_eq!(boxes.extents(1).collect::<Vec<_>>(), [1 << 40, 2]);
        assert!(padded.is_empty());
        // On the first axis, nothing follows.
        let (boxes, _) = bind(&shapes, 0, 1, bounds, policy, Some(&nulls)).unwrap();
        assert_eq!((boxes.extents(0).next(), boxes.extents(1).next()), (Some(0), Some(2)));
    }
}

#[test]
fn items_become_boxes() {
    let shapes = Shapes::one(&[4, 5, 6]).unwrap();
    let items = [Item::Index(-1), Item::from(1..99), Item::Ellipsis, Item::Index(0), Item::slice(-2, None)];
    let boxes = Boxes::from_items(&shapes, &items, &[0, 2, 5], None).unwrap();
    assert_eq!(boxes.levels(), 2);
    assert_eq!([0, 1, 2].map(|axis| side(&boxes, 0, axis)), [[3, 4, 0, 1], [1, 5, 0, 4], [0, 6, 0, 6]]);
    assert_eq!([0, 1, 2].map(|axis| side(&boxes, 1, axis)), [[0, 4, 0, 4], [0, 1, 0, 1], [4, 6, 0, 2]]);
    // Which axes are kept differs from row to row.
    assert_eq!(boxes.extents(0).collect::<Vec<_>>(), [4, 6]);
    assert_eq!(boxes.extents(1).collect::<Vec<_>>(), [4, 2]);
    let nulls = NullBuffer::from(vec![true, false]);
    let wrong = [Item::Index(0), Item::Index(0), Item::Index(99), Item::Index(99)];
    let boxes = Boxes::from_items(&shapes, &wrong, &[0, 2, 4], Some(&nulls)).unwrap();
    assert_eq!((boxes.levels(), boxes.extents(1).collect::<Vec<_>>()), (1, vec![0]));
    let error = Boxes::from_items(&shapes, &wrong, &[0, 2, 4], None).unwrap_err();
    assert_eq!(error.selection(), Some(1));
}

#[test]
fn rows_keep_as_many_axes_as_the_first() {
    let mut levels = None;
    for row in [3, 5] {
        check_levels(2, &mut levels, row).unwrap();
    }
    let error = check_levels(1, &mut levels, 7).unwrap_err();
    assert_eq!(error.selection(), Some(7));
    assert!(error.to_string().contains("as selection 3 keeps"), "{error}");
    check_levels(64, &mut None, 0).unwrap();
    assert_eq!(check_levels(65, &mut None, 4).unwrap_err().selection(), Some(4));
}
