//! The workers: each claims read chunks, one after the other, and fetches, decodes and scatters them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow_array::ArrayRef;
use rayon::ThreadPool;

use super::budget::Budget;
use super::column::{ColumnRead, WorkerScratch, fill_value};
use super::padding::pad;
use super::scatter::{finish, scatters};
use super::stats::Counters;
use super::times::convert_times;
use super::validity::Validity;
use super::variable::{Held, VariableRead};
use super::{ReadOptions, ReadStats, cancelled, pool};
use crate::arrow::ElementType;
use crate::chunk::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Output;
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

/// An output that was filled.
pub(crate) struct Filled {
    pub(crate) values: ArrayRef,
    /// Bytes of the values; of those of variable length, with their offsets.
    pub(crate) bytes: u64,
}

/// Carries out the plans, all on one pool, and returns one output per plan. Counters are added to `stats`.
pub(crate) fn execute(columns: &[Column<'_>], options: &ReadOptions, stats: &mut ReadStats) -> Result<Vec<Filled>> {
    let pool = pool::pool(options.threads())?;
    let mut outputs = Vec::with_capacity(columns.len());
    let mut validities = Vec::with_capacity(columns.len());
    let mut held = Vec::with_capacity(columns.len());
    let budget = Budget::new(options.memory_limit());
    for column in columns {
        let item = column.element.size();
        let of_variable =
            column.element.is_variable().then(|| Held::new(column, options.fill.as_deref())).transpose()?;
        if let Some(fill) = options.fill.as_ref().filter(|fill| of_variable.is_none() && fill.len() != item) {
            return Err(Error::new(ErrorKind::Selection, format!("a fill of {} bytes", fill.len()))
                .expected(format!("{item} bytes, as an element has")));
        }
        let len = column.plan.layout().elements().checked_mul(item).filter(|&len| isize::try_from(len).is_ok());
        let len = len.ok_or_else(|| {
            Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 bytes")
                .remedy("Read fewer or smaller selections at a time.")
        })?;
        let mut output = Output::new(len)?;
        let validity = Validity::new(column.plan.layout().elements());
        pad(column.plan, output.as_mut_slice(), item, &validity, |source| match (&of_variable, &options.fill) {
            (Some(held), _) => Cow::Owned(held.beyond(source).to_vec()),
            (None, Some(fill)) => Cow::Borrowed(&**fill),
            (None, None) => fill_value(column.arrays[source], &column.element),
        });
        if of_variable.is_some() {
            budget.keep(len, "the places of values of variable length")?;
        }
        held.push(of_variable);
        outputs.push(output);
        validities.push(validity);
    }
    let mut reads = Vec::new();
    let mut last_of_column = Vec::with_capacity(columns.len());
    for (((column, output), validity), held) in columns.iter().zip(&mut outputs).zip(&validities).zip(&held) {
        let strides: Vec<_> = column.arrays.iter().map(|array| array.decoder().strides()).collect();
        // Rows that were padded hold more than zeros by now.
        let zeroed = output.is_zeroed() && column.plan.selections().padded().is_empty();
        let tiling = Tiling::check(column.plan)?;
        let scatters = scatters(tiling, output.as_mut_slice(), zeroed, column.element.size(), &strides)?;
        for (number, (&array, scatter)) in column.arrays.iter().zip(scatters).enumerate() {
            let variable = held.as_ref().map(|held| VariableRead::new(array, held, number));
            reads.push(ColumnRead::new(array, &column.element, scatter, options.missing_chunks, validity, variable));
        }
        last_of_column.push(reads.len());
    }

    let counters = Counters::default();
    let failure = Failure::default();
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
                    failure.set(cancelled());
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
    let parts = outputs.into_iter().zip(validities).zip(held);
    let part = |(column, ((values, validity), held))| fill(column, values, validity, held, &pool, options);
    columns.iter().zip(parts).map(part).collect()
}

/// Makes Arrow values of an output that was written.
fn fill(
    column: &Column<'_>,
    mut values: Output,
    validity: Validity,
    held: Option<Held>,
    pool: &ThreadPool,
    options: &ReadOptions,
) -> Result<Filled> {
    if let Some(held) = held {
        let gather = || held.gather(column, values.as_mut_slice(), validity.into_nulls(), options);
        let (values, bytes) = pool.install(gather)?;
        return Ok(Filled { values, bytes });
    }
    if let ElementType::Time(time) = column.element {
        let convert = || convert_times(time, values.as_mut_slice(), column.plan.layout().row_starts(), &validity);
        pool.install(convert)?;
    }
    let (elements, bytes) = (column.plan.layout().elements(), values.as_mut_slice().len() as u64);
    let values = column.element.wrap(values.into_buffer(), elements, validity.into_nulls())?;
    Ok(Filled { values, bytes })
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
