//! The workers: each claims read chunks, one after the other, and fetches, decodes and scatters them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_buffer::OffsetBuffer;
use rayon::ThreadPool;

use super::budget::Budget;
use super::column::ColumnRead;
use super::crew::Crew;
use super::remote::{self, Common, Packet};
use super::scatter::finish;
use super::slices::{Busy, Slice, in_slices};
use super::stats::Counters;
use super::target::Target;
use super::worker::{Worker, WorkerScratch};
use super::{ReadOptions, ReadStats, pool};
use crate::arrow::ElementType;
use crate::cancel::Cancel;
use crate::chunk::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::release_unused;
use crate::plan::Plan;

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

/// A column that was read.
pub(crate) struct Filled {
    pub(crate) values: ArrayRef,
    /// The offsets of the lists, for each kept axis, outermost first.
    pub(crate) offsets: Vec<OffsetBuffer<i64>>,
    /// Bytes of the values as they were read; of those of variable length, with their offsets.
    pub(crate) bytes: u64,
}

/// Carries out the plans, all on one pool. Counters are added to `stats`.
pub(crate) fn execute(columns: &[Column<'_>], options: &ReadOptions, stats: &mut ReadStats) -> Result<Vec<Filled>> {
    let _busy = Busy::begin();
    let pool = pool::pool(options.threads())?;
    let limits = Limits::new(columns, options, pool.current_num_threads());
    let budget = Budget::new(limits.decoded);
    let mut targets = Vec::with_capacity(columns.len());
    let mut all_offsets: Vec<Vec<OffsetBuffer<i64>>> = Vec::with_capacity(columns.len());
    for column in columns {
        let offsets = offsets(column, &all_offsets, &pool)?;
        all_offsets.push(offsets);
        targets.push(Target::new(column, options, &budget, &pool)?);
    }
    if budget.is_limited() {
        // What earlier results left behind and this one does not need.
        release_unused();
    }
    let chunks: usize = columns.iter().map(|column| column.plan.read_chunks()).sum();
    let workers = if chunks <= 1 { 1 } else { pool.current_num_threads() };
    let failure = Failure::default();
    let go_on = || failure.lets_go_on(options.cancel());
    let crew = Crew::new(pool.current_num_threads(), &go_on);
    let mut reads = Vec::new();
    let mut last_of_column = Vec::with_capacity(columns.len());
    for target in &mut targets {
        reads.extend(target.reads(options, workers, &crew)?);
        last_of_column.push(reads.len());
    }

    let counters = Counters::new(options.progress.clone(), chunks, bytes_to_decode(&reads));
    let needed = reads.iter().filter(|read| !read.part().groups().chunks().is_empty());
    let (local, remote): (Vec<_>, Vec<_>) = needed.partition(|read| read.remote().is_none());
    // As many as decode at once.
    let scratches: Mutex<Vec<WorkerScratch>> = Mutex::default();
    // Those that have not begun yet count as well.
    let working: Mutex<Vec<_>> = Mutex::default();
    let work = || {
        let more = work(&local, &scratches, &budget, &counters, &go_on, &failure);
        if !more {
            working.lock().unwrap_or_else(PoisonError::into_inner).pop();
        }
        more
    };
    let begin = |workers: usize| {
        working.lock().unwrap_or_else(PoisonError::into_inner).extend((0..workers).map(|_| crew.begin()));
    };
    let decode = |packet: Packet<'_>| {
        if !go_on() {
            return;
        }
        let _working = crew.begin();
        let scratch = scratches.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let mut worker = Worker::new(scratch, budget.reservation(), &counters, &go_on);
        if let Err(error) = packet.decode(&mut worker) {
            failure.set(error);
        }
        if !budget.is_limited() {
            scratches.lock().unwrap_or_else(PoisonError::into_inner).push(worker.scratch);
        }
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if !remote.is_empty() {
            let asking = options.asking(limits.fetched);
            let common = Common { counters: &counters, go_on: &go_on, decode: &decode };
            pool.in_place_scope_fifo(|scope| {
                if !local.is_empty() {
                    begin(pool.current_num_threads());
                    for _ in 0..pool.current_num_threads() {
                        scope.spawn_fifo(|_| while work() {});
                    }
                }
                if let Err(error) = remote::run(remote, asking, &common, scope) {
                    failure.set(error);
                }
            });
        } else if chunks <= 1 {
            // One chunk is not worth waking the pool.
            begin(1);
            while work() {}
        } else {
            begin(workers);
            in_slices(&pool, workers, &work);
        }
    }));
    if outcome.is_err() {
        return Err(Error::new(ErrorKind::Internal, "a worker panicked").remedy("Please report this."));
    }
    failure.result()?;
    stats.chunks_missing += finish_all(reads, &last_of_column, &counters, options.cancel())?;
    counters.add_to(stats);
    stats.bytes_held += budget.most() as u64;
    let fill = |(target, offsets): (Target<'_>, _)| {
        let (values, bytes) = target.finish(options, &pool)?;
        Ok(Filled { values, offsets, bytes })
    };
    targets.into_iter().zip(all_offsets).map(fill).collect()
}

/// Claims, decodes and scatters read chunks of local arrays, for a slice of time. Gives whether there may be more.
fn work(
    reads: &[&ColumnRead<'_>],
    scratches: &Mutex<Vec<WorkerScratch>>,
    budget: &Budget,
    counters: &Counters,
    go_on: &(dyn Fn() -> bool + Sync),
    failure: &Failure,
) -> bool {
    let slice = Slice::begin();
    // Buffers that an earlier read left behind are not part of this read's limit.
    let kept = scratches.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut scratch = kept.unwrap_or_else(|| SCRATCH.take());
    if budget.is_limited() {
        scratch.clear();
    }
    let mut worker = Worker::new(scratch, budget.reservation(), counters, go_on);
    let mut is_over = false;
    for read in reads {
        if budget.is_limited() {
            // Buffers that are large for one array need not be so for the next.
            worker.scratch.clear();
            worker.reservation.hold(0);
        }
        while !is_over && let Some(claim) = read.claim() {
            if !go_on() {
                return false;
            }
            if let Err(error) = read.chunks(claim, &mut worker) {
                failure.set(error);
                return false;
            }
            is_over = slice.is_over();
        }
        if is_over {
            break;
        }
    }
    if budget.is_limited() {
        return is_over;
    }
    if is_over {
        scratches.lock().unwrap_or_else(PoisonError::into_inner).push(worker.scratch);
    } else if worker.scratch.len() <= KEPT_SCRATCH {
        worker.scratch.pieces.shrink();
        SCRATCH.set(worker.scratch);
    }
    is_over
}

/// Bytes that the reads decode, if they decode all of each read chunk.
fn bytes_to_decode(reads: &[ColumnRead<'_>]) -> u64 {
    let bytes = |read: &ColumnRead<'_>| read.array().decoded_len_of_all(read.part().groups().chunks());
    reads.iter().map(bytes).fold(0, u64::saturating_add)
}

/// How the memory limit is shared out.
struct Limits {
    /// Among what is decoded, and fetched by who decodes it.
    decoded: Option<usize>,
    /// Among what was fetched from remote stores before.
    fetched: Option<usize>,
}

impl Limits {
    fn new(columns: &[Column<'_>], options: &ReadOptions, threads: usize) -> Self {
        let arrays = || columns.iter().flat_map(|column| &column.arrays);
        let Some(limit) = options.memory_limit() else { return Self { decoded: None, fetched: None } };
        if !arrays().any(|array| array.source().remote().is_some()) {
            return Self { decoded: Some(limit), fetched: None };
        }
        let decoding = arrays().map(|array| array.decoder().working_len()).max().unwrap_or(0);
        // What came in parts may have to be put together before it is decoded.
        let copying = arrays().map(|array| array.decoder().decoded_len()).max().unwrap_or(0);
        let for_all = decoding.saturating_mul(2 * threads).saturating_add(copying);
        // Values of variable length are held until all are there.
        let is_variable = columns.iter().any(|column| column.element.is_variable());
        let fetched = if is_variable { limit / 4 } else { limit.saturating_sub(for_all).max(limit / 2) };
        // Something has to be left for elements that are cast, and for rounding.
        let fetched = fetched.min(limit - limit.div_ceil(8));
        Self { decoded: Some(limit - fetched), fetched: Some(fetched) }
    }
}

/// The offsets of a column's lists, shared with an earlier column where they are equal.
fn offsets(
    column: &Column<'_>,
    earlier: &[Vec<OffsetBuffer<i64>>],
    pool: &ThreadPool,
) -> Result<Vec<OffsetBuffer<i64>>> {
    let layout = column.plan.layout();
    let lay_out = || layout.offsets(column.plan.selections());
    let mut offsets = if layout.is_large() { pool.install(lay_out) } else { lay_out() }?;
    for (level, mine) in offsets.iter_mut().enumerate() {
        if let Some(theirs) = earlier.iter().filter_map(|other| other.get(level)).find(|theirs| *theirs == mine) {
            *mine = theirs.clone();
        }
    }
    Ok(offsets)
}

/// Checks that all columns were read, each up to where `last_of_column` says, and counts the chunks that are missing.
fn finish_all(
    reads: Vec<ColumnRead<'_>>,
    last_of_column: &[usize],
    counters: &Counters,
    cancel: &Cancel,
) -> Result<usize> {
    let mut reads = reads.into_iter();
    let (mut from, mut chunks_missing) = (0, 0);
    for &to in last_of_column {
        let mut scatters = Vec::with_capacity(to - from);
        for read in reads.by_ref().take(to - from) {
            let (scatter, missing) = read.finish(counters, cancel)?;
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

    /// Whether nothing failed and the caller still wants the read.
    fn lets_go_on(&self, cancel: &Cancel) -> bool {
        if !self.is_set()
            && let Err(cancelled) = cancel.check()
        {
            self.set(cancelled);
        }
        !self.is_set()
    }

    fn set(&self, error: Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn result(&self) -> Result<()> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
