//! Scatters of made-up read chunks, on several threads, against a gather element by element.
//!
//! Nothing here reads a file or calls C, so that Miri can run it: it sees each access out of bounds, each data race and
//! each use of a pointer that its borrow does not allow. Under Miri the cases are fewer and smaller.
#![deny(unsafe_code)]

mod cases;
mod random;

use self::cases::{Case, How, Row, Source, WAYS};
use self::random::random_case;
use super::*;
use crate::plan::Layout;
use crate::random::Bits;
use crate::selection::Selections;

const ITEMS: [usize; 5] = [1, 2, 4, 8, 16];

/// What lies where no copy may look, and in an output whose memory was used before.
const JUNK: u8 = 0xee;

/// A coordinate of an element that no array holds.
const BEYOND: i64 = i64::MIN;

#[track_caller]
fn assert_internal<T>(outcome: Result<T>) {
    assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::Internal));
}

// ------------------------------------------------------------------------------------------------------- random cases

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
                    // Whole on some, in shared parts on others.
                    let worth = (number + at) % 4 * 5;
                    Case { how: Some(how), worth, ..case }.check(3);
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
        Case::indices(line.clone(), item, &[&[5, 6, 7, 5, 29, 0], &[], &[12, 13, 14, 15, 16]]),
        Case::indices(line, item, &[&(0..70).map(|at| at * 7 % 29).collect::<Vec<_>>(), &[3]]),
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
