//! Which elements of an output are not null, marked from many threads.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

/// One bit per element, set where it is valid. Takes no memory until the first element is null.
pub(crate) struct Validity {
    words: OnceLock<Vec<AtomicU64>>,
    len: usize,
}

impl Validity {
    /// `len` valid elements.
    pub(crate) fn new(len: usize) -> Self {
        Self { words: OnceLock::new(), len }
    }

    /// Makes elements null.
    pub(crate) fn clear(&self, elements: Range<usize>) {
        if elements.is_empty() {
            return;
        }
        let words = self.words.get_or_init(|| (0..self.len.div_ceil(64)).map(|_| AtomicU64::new(u64::MAX)).collect());
        let (first, last) = (elements.start / 64, (elements.end - 1) / 64);
        for (number, word) in words.iter().enumerate().take(last + 1).skip(first) {
            let from = if number == first { elements.start % 64 } else { 0 };
            let to = if number == last { (elements.end - 1) % 64 } else { 63 };
            word.fetch_and(!((u64::MAX << from) & (u64::MAX >> (63 - to))), Ordering::Relaxed);
        }
    }

    /// Whether an element is null.
    pub(crate) fn is_null(&self, element: usize) -> bool {
        let word = self.words.get().and_then(|words| words.get(element / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (element % 64) & 1 == 0)
    }

    /// Whether any element was marked: without, none is null.
    pub(crate) fn has_marks(&self) -> bool {
        self.words.get().is_some()
    }

    /// The bits, if any element is null.
    pub(crate) fn into_nulls(self) -> Option<NullBuffer> {
        let words: ScalarBuffer<u64> =
            self.words.into_inner()?.into_iter().map(|word| word.into_inner().to_le()).collect();
        let nulls = NullBuffer::new(BooleanBuffer::new(words.into_inner(), 0, self.len));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_cleared_in_ranges() {
        for (start, end) in [(0, 0), (0, 1), (3, 64), (63, 65), (64, 128), (10, 199), (199, 200), (0, 200)] {
            let validity = Validity::new(200);
            validity.clear(start..end);
            let expected = |at: usize| !(start..end).contains(&at);
            assert!((0..200).all(|at| validity.is_null(at) != expected(at)));
            let nulls = validity.into_nulls();
            assert_eq!(nulls.is_some(), end > start);
            for at in 0..200 {
                assert_eq!(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at)), expected(at), "{start} {end} {at}");
            }
        }
    }
}
