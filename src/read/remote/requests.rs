//! Which requests get what is needed: inert values, made without asking anybody.

use std::ops::Range;

/// Bytes of a value that one request asks for, and whose they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span<T> {
    pub(super) bytes: Range<u64>,
    /// What lies in them, in ascending order of where it begins.
    pub(super) members: Vec<(Range<u64>, T)>,
}

/// Puts what lies close together into one span: with gaps of at most `gap` bytes, as long as it has no more than `most`.
pub(super) fn coalesce<T>(mut wanted: Vec<(Range<u64>, T)>, gap: u64, most: u64) -> Vec<Span<T>> {
    wanted.sort_by_key(|(bytes, _)| (bytes.start, bytes.end));
    let mut spans: Vec<Span<T>> = Vec::new();
    for (bytes, member) in wanted {
        match spans.last_mut() {
            Some(span)
                if bytes.start <= span.bytes.end.saturating_add(gap)
                    && bytes.end.max(span.bytes.end) - span.bytes.start <= most =>
            {
                span.bytes.end = span.bytes.end.max(bytes.end);
                span.members.push((bytes, member));
            }
            _ => spans.push(Span { bytes: bytes.clone(), members: vec![(bytes, member)] }),
        }
    }
    spans
}

/// Cuts `bytes` into ranges of about the same length, of at most `most` bytes.
pub(super) fn split(bytes: &Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let len = bytes.end - bytes.start;
    let count = len.div_ceil(most).max(1);
    let start = bytes.start;
    // The product has no more bits than both.
    let at = move |number: u64| start + (u128::from(len) * u128::from(number) / u128::from(count)) as u64;
    (0..count).map(move |number| at(number)..at(number + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_share_a_request() {
        let wanted = vec![(50..60, 'c'), (0..10, 'a'), (14..20, 'b'), (15..18, 'x'), (60..60, 'e'), (200..300, 'd')];
        let spans = coalesce(wanted, 4, 40);
        let found: Vec<_> = spans.iter().map(|span| (span.bytes.clone(), span.members.len())).collect();
        assert_eq!(found, [(0..20, 3), (50..60, 2), (200..300, 1)]);
        assert_eq!(spans[0].members.iter().map(|(_, name)| *name).collect::<String>(), "abx");
    }

    proptest! {
        #[test]
        fn each_member_lies_in_one_span(
            ranges in prop::collection::vec((0..500_u64, 0..50_u64), 0..40), gap in 0..60_u64, most in 0..200_u64,
        ) {
            let wanted: Vec<_> = ranges.iter().enumerate().map(|(at, &(start, len))| (start..start + len, at)).collect();
            let spans = coalesce(wanted.clone(), gap, most);
            let mut found = vec![false; wanted.len()];
            for span in &spans {
                prop_assert!(span.members.len() == 1 || span.bytes.end - span.bytes.start <= most);
                let mut covered = span.bytes.start;
                for (bytes, at) in &span.members {
                    prop_assert_eq!(bytes, &wanted[*at].0);
                    prop_assert!(span.bytes.start <= bytes.start && bytes.end <= span.bytes.end);
                    prop_assert!(bytes.start <= covered + gap);
                    covered = covered.max(bytes.end);
                    prop_assert!(!std::mem::replace(&mut found[*at], true));
                }
                prop_assert_eq!(covered, span.bytes.end);
            }
            prop_assert!(found.iter().all(|&found| found));
        }

        #[test]
        fn a_split_has_all_bytes_once(start in 0..u64::MAX / 2, len in 0..u64::MAX / 2, most in 1 << 52..u64::MAX) {
            let parts: Vec<_> = split(&(start..start + len), most).collect();
            prop_assert!(parts.iter().all(|part| part.end - part.start <= most));
            prop_assert_eq!((parts[0].start, parts[parts.len() - 1].end), (start, start + len));
            prop_assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
