//! The workers: each claims read chunks, one after the other, and fetches, decodes and scatters them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow_array::ArrayRef;

use super::budget::Budget;
use super::column::{ColumnRead, WorkerScratch, fill_value};
use super::padding::pad;
use super::scatter::{finish, scatters};
use super::stats::Counters;
use super::validity::Validity;
use super::{ReadOptions, ReadStats, pool};
use crate::arrow::{ElementType, Rows, build, room};
use crate::chunk::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::plan::tiling::Tiling;

/// Buffers of no more bytes than this are kept for the thread's next read.
const KEPT_SCRATCH: usize = 4 << 20;

thread_local! {
    static SCRATCH: RefCell<WorkerScratch> = RefCell::default();
}

/// One output, and what fills it.
pub(crate) struct Column<'a> {
    /// As many as the plan has parts.
    pub(crate) arrays: Vec<&'a Array>,
    pub(crate) plan: &'a Plan,
    /// Type of the output's elements, which holds all values of the arrays exactly.
    pub(crate) element: ElementType,
}

/// Carries out the plans, all on one pool, and returns the values of each. Counters are added to `stats`.
pub(crate) fn execute(columns: &[Column<'_>], options: &ReadOptions, stats: &mut ReadStats) -> Result<Vec<ArrayRef>> {
    let pool = pool::pool(options.threads())?;
    let mut outputs = Vec::with_capacity(columns.len());
    let mut validities = Vec::with_capacity(columns.len());
    for column in columns {
        let item = column.element.size();
        let fill = options.fill.as_deref().map(|fill| column.element.fill_bytes(fill)).transpose()?;
        let (mut output, start) = room(&column.element, column.plan.layout().elements())?;
        let validity = Validity::new(column.plan.layout().elements());
        pad(column.plan, &mut output.as_mut_slice()[start..], item, &validity, |source| match &fill {
            Some(fill) => Cow::Borrowed(&**fill),
            None => fill_value(column.arrays[source], &column.element),
        });
        outputs.push((output, start));
        validities.push(validity);
    }
    let mut reads = Vec::new();
    let mut last_of_column = Vec::with_capacity(columns.len());
    for ((column, (output, start)), validity) in columns.iter().zip(&mut outputs).zip(&validities) {
        let strides: Vec<_> = column.arrays.iter().map(|array| array.decoder().strides()).collect();
        // Rows that were padded hold more than zeros by now.
        let zeroed = output.is_zeroed() && column.plan.selections().padded().is_empty();
        let tiling = Tiling::check(column.plan)?;
        let target = &mut output.as_mut_slice()[*start..];
        let scatters = scatters(tiling, target, zeroed, column.element.size(), &strides)?;
        for (&array, scatter) in column.arrays.iter().zip(scatters) {
            reads.push(ColumnRead::new(array, &column.element, scatter, options.missing_chunks, validity));
        }
        last_of_column.push(reads.len());
    }

    let counters = Counters::default();
    let failure = Failure::default();
    let budget = Budget::new(options.memory_limit());
    let chunks: usize = columns.iter().map(|column| column.plan.read_chunks()).sum();
    let work = || {
        // Buffers that an earlier read left behind are not part of this read's limit.
        let mut scratch = SCRATCH.take();
        if budget.is_limited() {
            scratch.clear();
        }
        let mut reservation = budget.reservation();
        for read in &reads {
            if budget.is_limited() {
                // Buffers that are large for one array need not be so for the next.
                scratch.clear();
                reservation.hold(0);
            }
            while let Some(claim) = read.claim() {
                if failure.is_set() {
                    return;
                }
                if options.is_cancelled() {
                    failure.set(Error::new(ErrorKind::Cancelled, "the read was cancelled"));
                    return;
                }
                if let Err(error) = read.chunk(claim, &mut scratch, &mut reservation, &counters) {
                    failure.set(error);
                    return;
                }
            }
        }
        if scratch.len() <= KEPT_SCRATCH && !budget.is_limited() {
            SCRATCH.set(scratch);
        }
    };
    // One chunk is not worth waking the pool.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if chunks <= 1 {
            work();
        } else {
            pool.broadcast(|_| work());
        }
    }));
    if outcome.is_err() {
        return Err(Error::new(ErrorKind::Internal, "a worker panicked").remedy("Please report this."));
    }
    failure.into_result()?;
    stats.chunks_missing += finish_all(reads, &last_of_column)?;
    counters.add_to(stats);
    stats.bytes_held += budget.most() as u64;
    let mut filled = Vec::with_capacity(outputs.len());
    for ((column, (values, _)), validity) in columns.iter().zip(outputs).zip(validities) {
        let layout = column.plan.layout();
        let build = || build(&column.element, values, layout.elements(), validity, Rows::new(layout.row_starts()));
        filled.push(if column.element.is_as_scattered() { build() } else { pool.install(build) }?);
    }
    Ok(filled)
}

/// Checks that all columns were read, each up to where `last_of_column` says, and counts the chunks that are missing.
fn finish_all(reads: Vec<ColumnRead<'_>>, last_of_column: &[usize]) -> Result<usize> {
    let mut reads = reads.into_iter();
    let (mut from, mut chunks_missing) = (0, 0);
    for &to in last_of_column {
        let mut scatters = Vec::with_capacity(to - from);
        for read in reads.by_ref().take(to - from) {
            let (scatter, missing) = read.finish()?;
            chunks_missing += missing;
            scatters.push(scatter);
        }
        finish(scatters)?;
        from = to;
    }
    Ok(chunks_missing)
}

/// The first error of any worker; the others stop when they see it.
#[derive(Default)]
struct Failure {
    is_set: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl Failure {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    fn set(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn into_result(self) -> Result<()> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}
