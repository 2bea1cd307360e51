//! Work cut into contiguous blocks, one for each thread.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::selection::rows::Axis;
use crate::selection::{BoundForm, BoundSelections};

/// More threads wait for memory, and for each other.
const MAX_THREADS: usize = 16;

/// So many rows or indices take longer to plan than a thread takes to start.
const WORTH_A_THREAD: usize = 50_000;

/// How many threads share some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threads {
    most: usize,
    /// The least work of one thread, in rows, indices or pieces.
    worth: usize,
}

impl Threads {
    /// As many as this process may run at once, but no more than `most`.
    pub(crate) fn available(most: Option<usize>) -> Self {
        let available = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { most: available.min(most.unwrap_or(MAX_THREADS)).clamp(1, MAX_THREADS), worth: WORTH_A_THREAD }
    }

    /// The calling thread alone.
    pub(crate) const ONE: Self = Self { most: 1, worth: WORTH_A_THREAD };

    /// As many as there is work for.
    #[cfg(test)]
    pub(super) fn exactly(most: usize) -> Self {
        Self { most, worth: 1 }
    }

    /// How many are worth starting for so much `work`.
    pub(super) fn for_work(self, work: usize) -> usize {
        (work / self.worth).clamp(1, self.most)
    }

    /// Blocks of equal length of `0..len`.
    pub(super) fn cut(self, len: usize) -> Vec<Range<usize>> {
        self.cut_by(len, len, |at| at)
    }

    /// Blocks of about equal weight of `0..len`, where what is in front of `at` weighs `before(at)`, and all `total`.
    pub(super) fn cut_by(self, len: usize, total: usize, before: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
        let count = self.for_work(total);
        let mut blocks = Vec::with_capacity(count);
        let mut start = 0;
        for number in 1..count {
            let goal = (total as u128 * number as u128 / count as u128) as usize;
            let end = first(start..len, |at| before(at) >= goal);
            if end > start {
                blocks.push(start..end);
                start = end;
            }
        }
        if start < len || blocks.is_empty() {
            blocks.push(start..len);
        }
        blocks
    }

    /// Blocks of the rows of `selections` that weigh about the same.
    pub(super) fn cut_rows(self, selections: &BoundSelections) -> Vec<Range<usize>> {
        let BoundForm::Rows(rows) = selections.form() else { return self.cut(selections.len()) };
        if self.for_work(selections.len().saturating_add(rows.coordinate_count())) == 1 {
            return std::iter::once(0..selections.len()).collect();
        }
        let mut before = Vec::with_capacity(selections.len() + 1);
        let mut total = 0_usize;
        before.push(total);
        for row in 0..selections.len() {
            let indices = rows.axes()[rows.of(row)].iter().map(|axis| match axis {
                Axis::Steps { .. } => 0,
                Axis::Points { len, .. } => *len,
            });
            total += 1 + indices.sum::<usize>();
            before.push(total);
        }
        self.cut_by(selections.len(), total, |row| before[row])
    }
}

/// The first of `range` for which `holds`, which holds for all after it; the end if there is none.
fn first(range: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Joins neighbouring blocks until there are at most `most`.
pub(super) fn join(blocks: &[Range<usize>], most: usize) -> Vec<Range<usize>> {
    let together = blocks.len().div_ceil(most.max(1)).max(1);
    blocks.chunks(together).map(|blocks| blocks[0].start..blocks[blocks.len() - 1].end).collect()
}

/// Does `work` with each of `tasks`, in as many threads, and gives the outcomes in their order.
///
/// # Errors
/// That of the first task that fails; [`ErrorKind::Internal`] if one panics.
pub(super) fn each<T: Send, R: Send>(tasks: Vec<T>, work: impl Fn(T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let panicked = |_| Err(Error::new(ErrorKind::Internal, "planning panicked").remedy("Please report this."));
    let guarded = |task| catch_unwind(AssertUnwindSafe(|| work(task))).unwrap_or_else(panicked);
    let threads = tasks.len();
    if threads <= 1 {
        return tasks.into_iter().map(guarded).collect();
    }
    let left = Mutex::new(tasks.into_iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(threads));
    let help = || {
        loop {
            let Some((number, task)) = lock(&left).next() else { return };
            let outcome = guarded(task);
            lock(&done).push((number, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system gives no thread, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, help);
        }
        help();
    });
    let mut done: Vec<(usize, Result<R>)> = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Does both at once.
///
/// # Errors
/// As [`each`].
pub(super) fn both<A: Send, B: Send>(
    one: impl FnOnce() -> Result<A> + Send,
    other: impl FnOnce() -> Result<B> + Send,
) -> Result<(A, B)> {
    let outcomes = each(vec![Either::One(one), Either::Other(other)], |task| match task {
        Either::One(work) => work().map(Either::One),
        Either::Other(work) => work().map(Either::Other),
    });
    match <[_; 2]>::try_from(outcomes?) {
        Ok([Either::One(one), Either::Other(other)]) => Ok((one, other)),
        _ => Err(Error::new(ErrorKind::Internal, "half of the plan is missing")),
    }
}

enum Either<A, B> {
    One(A),
    Other(B),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::{Indices, Item, Selections};

    #[test]
    fn blocks_follow_each_other_and_weigh_the_same() {
        for (len, most) in [(0, 1), (0, 5), (1, 5), (7, 1), (7, 3), (7, 7), (7, 16), (1000, 16)] {
            let blocks = Threads::exactly(most).cut(len);
            assert_eq!(blocks.len(), most.min(len).max(1));
            assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (0, len));
            assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(blocks.iter().all(|block| block.len().abs_diff(len / blocks.len()) <= 1));
            for most in 1..5 {
                let joined = join(&blocks, most);
                assert!(joined.len() <= most && joined.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!((joined[0].start, joined[joined.len() - 1].end), (0, len));
            }
        }
        assert_eq!(Threads::available(None).cut(2 * WORTH_A_THREAD - 1).len(), 1);
        assert_eq!(Threads::available(Some(1)).cut(1 << 30).len(), 1);
        // One row outweighs the others.
        let list = |len: i64| [Item::from(Indices::new((0..len).map(|at| at * at % 7).collect::<Vec<_>>()))];
        let bound = Selections::items([list(1000), list(3), list(3), list(900), list(5)]).bind(&[7]).unwrap();
        assert_eq!(Threads::exactly(2).cut_rows(&bound), [0..1, 1..5]);
    }

    #[test]
    fn the_first_failure_wins_and_panics_are_errors() {
        let fail = |task: usize| match task {
            3 | 5 => Err(Error::new(ErrorKind::Selection, "no").at_selection(task)),
            6 => panic!("a panic that is meant"),
            _ => Ok(task * 2),
        };
        assert!(each(vec![], fail).unwrap().is_empty());
        assert_eq!(each(vec![0, 1, 2, 4], fail).unwrap(), [0, 2, 4, 8]);
        assert_eq!(each(vec![0, 5, 1, 3, 6], fail).unwrap_err().selection(), Some(5));
        for tasks in [vec![6], vec![1, 6], vec![6, 3]] {
            assert_eq!(each(tasks, fail).unwrap_err().kind(), ErrorKind::Internal);
        }
        assert_eq!(both(|| Ok(1), || Ok("two")).unwrap(), (1, "two"));
        assert_eq!(both(|| fail(5), || fail(3)).unwrap_err().selection(), Some(5));
        assert_eq!(both(|| fail(2), || fail(6)).unwrap_err().kind(), ErrorKind::Internal);
    }
}
