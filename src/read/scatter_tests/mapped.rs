//! Scatters out of mapped files, which others may cut off meanwhile.

use std::os::unix::fs::FileExt;

use super::cases::Case;
use super::random::random_case;
use super::*;

/// Scatters each read chunk out of a file, of which every third is cut off after it was mapped: then it is scattered again,
/// out of memory.
fn check(case: &Case) {
    let case = Case { how: Some(How::Whole), ..case.clone() };
    let (plan, strides) = (case.plan(), case.strides());
    let mut output = case.output(&plan);
    let scatters = case.scatters(&plan, &mut output, &strides).unwrap();
    let mut scratch = PieceScratch::default();
    let mut number = 0;
    for (source, scatter) in scatters.iter().enumerate() {
        while let Some(claim) = scatter.claim() {
            let bytes = case.decoded(source, scatter.part().groups().chunks()[claim.chunk()]);
            let file = tempfile::tempfile().unwrap();
            let skipped = 100 * (number % 50);
            file.write_all_at(&bytes, skipped).unwrap();
            let wanted = scatter.wanted(&claim, 0, usize::MAX, &mut scratch).unwrap().unwrap();
            let (ranges, copied) = (wanted.ranges.clone(), wanted.copied);
            if ranges.iter().all(Range::is_empty) {
                scatter.copy(claim, &bytes, &[Extent { source: 0..bytes.len(), at: 0 }], 0, &mut scratch).unwrap();
                continue;
            }
            let mapped = Mapped::new(&file, skipped, &ranges).unwrap();
            let is_cut = number % 3 == 0;
            if is_cut {
                file.set_len(0).unwrap();
            }
            match scatter.copy_mapped(claim, &mapped, ranges[0].start, &mut scratch).unwrap() {
                Ok(bytes) => assert_eq!((bytes, is_cut), (copied, false)),
                Err(claim) => {
                    assert!(is_cut);
                    let whole = [Extent { source: 0..bytes.len(), at: 0 }];
                    scatter.copy(claim, &bytes, &whole, 0, &mut scratch).unwrap();
                }
            }
            number += 1;
        }
    }
    finish(scatters).unwrap();
    assert!(output == case.gathered().0, "{case:?}");
}

#[test]
fn all_paths() {
    paths().iter().for_each(check);
}

#[test]
fn random_cases() {
    let mut bits = Bits(21);
    for _ in 0..500 {
        check(&random_case(&mut bits));
    }
}

/// What is mapped has to hold all that is wanted.
#[test]
fn mappings_that_are_too_short_are_refused() {
    for case in paths() {
        let (plan, strides) = (case.plan(), case.strides());
        let mut output = case.output(&plan);
        let scatter = &case.scatters(&plan, &mut output, &strides).unwrap()[0];
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; case.chunk_len(0)], 0).unwrap();
        let mapped = Mapped::new(&file, 0, std::slice::from_ref(&(0..20))).unwrap();
        let claim = scatter.claim().unwrap();
        assert_internal(scatter.copy_mapped(claim, &mapped, 0, &mut PieceScratch::default()).map(|_| ()));
    }
}
