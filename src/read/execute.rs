//! The workers: each claims read chunks, one after the other, and fetches, decodes and scatters them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::budget::Budget;
use super::column::{ColumnRead, WorkerScratch};
use super::scatter::Scatter;
use super::stats::Counters;
use super::{ReadOptions, ReadStats, pool};
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

/// Carries out one plan per array, all on one pool, and returns one output per plan. Counters are added to `stats`.
pub(crate) fn execute(
    columns: &[(&Array, &Plan)],
    options: &ReadOptions,
    stats: &mut ReadStats,
) -> Result<Vec<Output>> {
    let pool = pool::pool(options.threads())?;
    let mut outputs = Vec::with_capacity(columns.len());
    for (array, plan) in columns {
        let len = plan
            .layout()
            .elements()
            .checked_mul(array.element_type().size())
            .filter(|&len| isize::try_from(len).is_ok());
        let len = len.ok_or_else(|| {
            Error::new(ErrorKind::Allocation, "the result has more than 2^63 - 1 bytes")
                .remedy("Read fewer or smaller selections at a time.")
        })?;
        outputs.push(Output::new(len)?);
    }
    let mut reads = Vec::with_capacity(columns.len());
    for ((array, plan), output) in columns.iter().zip(&mut outputs) {
        let item = array.element_type().size();
        let strides = array.decoder().strides();
        let zeroed = output.is_zeroed();
        let scatter = Scatter::new(Tiling::check(plan)?, output.as_mut_slice(), zeroed, item, strides)?;
        reads.push(ColumnRead::new(array, plan, scatter));
    }

    let counters = Counters::default();
    let failure = Failure::default();
    let budget = Budget::new(options.memory_limit());
    let chunks: usize = columns.iter().map(|(_, plan)| plan.read_chunks()).sum();
    let work = || {
        // Buffers that an earlier read left behind are not part of this read's limit.
        let mut scratch = SCRATCH.take();
        if budget.is_limited() {
            scratch.clear();
        }
        let mut reservation = budget.reservation();
        for read in &reads {
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
    for read in reads {
        stats.chunks_missing += read.finish()?;
    }
    counters.add_to(stats);
    stats.bytes_held += budget.most() as u64;
    Ok(outputs)
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
