//! A plan together with the arrays that it reads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};

use crate::arrow::{ElementType, Ragged, carry_out, common_type};
use crate::cancel::Cancel;
use crate::chunk::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::later::later;
use crate::plan::blocks::Threads;
use crate::plan::{self, Layout};
use crate::read::execute::Column;
use crate::read::{ReadOptions, ReadStats};
use crate::selection::{BoundSelections, Selections, Shapes};

/// What a read will do: the read chunks it needs, each once, and where their parts go.
///
/// A plan is inert. Making one does no I/O, and costs time and memory in the selections and the read chunks that they
/// touch, never in the arrays' shapes. It can be carried out any number of times.
#[derive(Debug, Clone)]
pub struct Plan {
    arrays: Vec<Array>,
    /// The number of each among the arrays that were given, of duplicates the first.
    given: Vec<u32>,
    element: ElementType,
    work: Arc<plan::Plan>,
}

/// How to plan a read.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    promote: bool,
    threads: Option<usize>,
    cancel: Cancel,
}

impl PlanOptions {
    /// Whether data types may differ: values are then cast to the type that `NumPy`'s `result_type` gives for all of
    /// them, which is an error if it does not hold all values exactly.
    #[must_use]
    pub fn with_promote(mut self, promote: bool) -> Self {
        self.promote = promote;
        self
    }

    /// Ends planning with [`ErrorKind::Cancelled`] soon after `cancel` becomes true.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = self.cancel.with(cancel);
        self
    }
}

/// The default, with no more threads than the read has, and cancelled by what cancels it.
impl From<&ReadOptions> for PlanOptions {
    fn from(options: &ReadOptions) -> Self {
        Self { promote: false, threads: options.threads(), cancel: options.cancel().clone() }
    }
}

impl Plan {
    /// Plans a read of `selections`, row `i` from `arrays[sources[i]]`. Without sources, all rows are from the only
    /// array.
    ///
    /// Arrays may differ in shape, chunks and codecs. An array that is given twice is read once.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] as [`Selections::bind`], or if the arrays differ in data type or number of axes, or the
    /// sources do not fit; [`ErrorKind::Allocation`] if the result is too large.
    pub fn new(
        arrays: &[Array],
        sources: Option<&[u32]>,
        selections: &Selections,
        options: &PlanOptions,
    ) -> Result<Self> {
        let mut distinct: Vec<Array> = Vec::new();
        let mut given = Vec::new();
        let mut numbers = Vec::with_capacity(arrays.len());
        for (number, array) in arrays.iter().enumerate() {
            let at = distinct.iter().position(|known| known.same_as(array));
            numbers.push(at.unwrap_or(distinct.len()) as u32);
            if at.is_none() {
                distinct.push(array.clone());
                given.push(number as u32);
            }
        }
        let Some(first) = distinct.first() else {
            return Err(Error::new(ErrorKind::Selection, "no arrays").expected("at least one"));
        };
        let element = if options.promote {
            common_type(distinct.iter().map(|array| array.element_type().clone()))?
        } else {
            only_type(&distinct)?
        };
        let sources = match sources {
            None if arrays.len() > 1 => {
                return Err(Error::new(ErrorKind::Selection, format!("{} arrays without sources", arrays.len()))
                    .expected("the number of the array that each selection reads from"));
            }
            None => None,
            Some(sources) => {
                let number = |(row, &source): (usize, &u32)| {
                    numbers.get(source as usize).copied().ok_or_else(|| {
                        Error::new(ErrorKind::Selection, format!("source {source}"))
                            .at_selection(row)
                            .expected(format!("0 to {}, the last of the arrays", arrays.len() - 1))
                    })
                };
                Some(sources.iter().enumerate().map(number).collect::<Result<Arc<[u32]>>>()?)
            }
        };
        let shapes = distinct.iter().map(|array| array.shape().to_vec()).collect();
        let grids = distinct.iter().map(|array| array.grid().clone()).collect();
        let item = element.room();
        let threads = Threads::available(options.threads);
        let plan = Shapes::new(shapes, sources)
            .and_then(|shapes| selections.bind_to(&shapes))
            .and_then(|bound| plan::Plan::new(bound, grids, Some(item), threads, &options.cancel));
        let plan = plan.map_err(|error| if distinct.len() == 1 { error.at_array(first.location()) } else { error })?;
        Ok(Self { arrays: distinct, given, element, work: Arc::new(plan) })
    }

    /// Carries the plan out. Row `i` of the result is selection `i`.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if a store fails, [`ErrorKind::Decode`] if a chunk is corrupt, each naming the key.
    pub fn read(&self, options: &ReadOptions) -> Result<Ragged> {
        self.read_after(&options.started(), std::time::Duration::ZERO)
    }

    /// [`read`](Self::read) that does not block: the future may be awaited by any executor, and ends the read when it is
    /// dropped.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_async(&self, options: &ReadOptions) -> Result<Ragged> {
        let plan = self.clone();
        later(options, move |options| plan.read(options)).await
    }

    fn read_after(&self, options: &ReadOptions, plan_time: std::time::Duration) -> Result<Ragged> {
        let stats = ReadStats { rows: self.rows(), plan_time, ..ReadStats::default() };
        let column = Column { arrays: self.arrays.iter().collect(), plan: &self.work, element: self.element.clone() };
        let mut read = carry_out(&[column], options, stats)?;
        read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "no column was read"))
    }

    /// Type of the elements of the result.
    #[must_use]
    pub fn element_type(&self) -> &ElementType {
        &self.element
    }

    /// The arrays, each once.
    #[must_use]
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// The selections, bound to the shapes of the arrays.
    #[must_use]
    pub fn selections(&self) -> &BoundSelections {
        self.work.selections()
    }

    /// Where each row goes.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.work.layout()
    }

    /// The offsets of the lists of the result: for each kept axis, outermost first, one entry per list plus one.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if there is no memory for them.
    pub fn offsets(&self) -> Result<Vec<OffsetBuffer<i64>>> {
        self.work.layout().offsets(self.work.selections())
    }

    /// Number of rows of the result.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.work.selections().len()
    }

    /// Number of distinct read chunks that the selections touch.
    #[must_use]
    pub fn read_chunks(&self) -> usize {
        self.work.read_chunks()
    }

    /// Number of pieces: pairs of a row and a read chunk that it touches.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.work.pieces()
    }

    /// Bytes of the values of the result, before strings of fixed length are cut to theirs, and one for each bool. Of values
    /// of variable length, their offsets: how long they are is not known before they are read.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        (self.work.layout().elements() as u64).saturating_mul(self.element.planned_size() as u64)
    }

    /// Bytes of the touched read chunks, decoded; as in [`bytes_out`](Self::bytes_out), eight for each value of variable
    /// length. A read decodes fewer where a codec can stop early, and none of chunks that the store does not hold.
    #[must_use]
    pub fn bytes_to_decode(&self) -> u64 {
        let of = |(part, array): (&plan::Part, &Array)| {
            let chunks = part.groups().chunks();
            if array.has_equal_chunks() {
                return (chunks.len() as u64).saturating_mul(planned_len(array, 0));
            }
            chunks.iter().map(|&id| planned_len(array, id)).fold(0, u64::saturating_add)
        };
        self.work.parts().iter().zip(&self.arrays).map(of).fold(0, u64::saturating_add)
    }

    /// Bytes to decode for each byte of the result. NaN if the result is empty.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn amplification(&self) -> f64 {
        self.bytes_to_decode() as f64 / self.bytes_out() as f64
    }

    /// The read chunks in the order in which they are read: one row each, with the columns `source` (number of the
    /// array among those that were given, of duplicates the first), `key` (of the store: a shard, where the array is sharded), `chunk` (index
    /// of the read chunk along each axis), `rows` (how many it serves) and `bytes` (decoded).
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if there are too many read chunks for a record batch.
    pub fn chunks(&self) -> Result<RecordBatch> {
        let too_many = || {
            Error::new(ErrorKind::Allocation, "too many read chunks for one record batch")
                .remedy("Plan fewer or smaller selections at a time.")
        };
        let (mut sources, mut keys, mut indices, mut rows, mut bytes) = (vec![], vec![], vec![], vec![], vec![]);
        let mut at = Vec::new();
        for ((part, array), &number) in self.work.parts().iter().zip(&self.arrays).zip(&self.given) {
            for (chunk, &id) in part.groups().chunks().iter().enumerate() {
                sources.push(number);
                keys.push(array.chunk_key(&part.grid().shard_indices(id)).as_str().to_owned());
                part.grid().chunk_indices(id, &mut at);
                indices.extend(at.iter().map(|&index| index as i64));
                rows.push(part.groups().rows(chunk).len() as u64);
                bytes.push(planned_len(array, id));
            }
        }
        // Of 32 bits are the offsets of the keys and of the indices.
        let most = keys.iter().map(String::len).sum::<usize>().max(indices.len());
        if i32::try_from(most).is_err() {
            return Err(too_many());
        }
        let item = Arc::new(Field::new("item", DataType::Int64, false));
        let lengths = std::iter::repeat_n(self.work.ndim(), sources.len());
        let offsets = OffsetBuffer::from_lengths(lengths);
        let chunk = ListArray::try_new(item, offsets, Arc::new(Int64Array::from(indices)), None)
            .map_err(|source| too_many().source(source))?;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("source", Arc::new(UInt32Array::from(sources))),
            ("key", Arc::new(StringArray::from(keys))),
            ("chunk", Arc::new(chunk)),
            ("rows", Arc::new(UInt64Array::from(rows))),
            ("bytes", Arc::new(UInt64Array::from(bytes))),
        ];
        let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), false);
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
            .map_err(|source| too_many().source(source))
    }
}

/// Bytes of the decoded read chunk `id` that are known before it is read.
fn planned_len(array: &Array, id: u64) -> u64 {
    let len = array.decoder().decoded_len();
    let elements = match array.grid().differing_shape(id) {
        None => (len / array.stored_size()) as u64,
        Some(shape) => shape.iter().product(),
    };
    let each =
        if array.element_type().is_variable() { array.element_type().planned_size() } else { array.stored_size() };
    elements * each as u64
}

/// Reads row `i` of `selections` from `arrays[sources[i]]`, all in one go, into one buffer.
///
/// # Errors
/// As [`Plan::new`] and [`Plan::read`].
pub fn read_ragged(
    arrays: &[Array],
    sources: &[u32],
    selections: &Selections,
    options: &ReadOptions,
) -> Result<Ragged> {
    let (start, options) = (Instant::now(), &options.started());
    let plan = Plan::new(arrays, Some(sources), selections, &PlanOptions::from(options))?;
    plan.read_after(options, start.elapsed())
}

/// [`read_ragged`] that does not block: the future may be awaited by any executor, and ends the read when it is dropped.
///
/// # Errors
/// As [`read_ragged`].
pub async fn read_ragged_async(
    arrays: &[Array],
    sources: &[u32],
    selections: &Selections,
    options: &ReadOptions,
) -> Result<Ragged> {
    let (arrays, sources, selections) = (arrays.to_vec(), sources.to_vec(), selections.clone());
    later(options, move |options| read_ragged(&arrays, &sources, &selections, options)).await
}

/// The data type that all arrays have.
fn only_type(arrays: &[Array]) -> Result<ElementType> {
    let first = arrays[0].element_type();
    match arrays.iter().find(|array| array.element_type() != first) {
        None => Ok(first.clone()),
        Some(other) => {
            let got = format!("arrays of {} and of {}", first.told_name(), other.element_type().told_name());
            let error = Error::new(ErrorKind::Selection, got).at_array(other.location()).expected("one data type");
            Err(match common_type(arrays.iter().map(|array| array.element_type().clone())) {
                Ok(_) => {
                    error.remedy("Promote them to one that holds the values of all, or read them in separate calls.")
                }
                Err(_) => error.remedy("Read them in separate calls."),
            })
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} bytes to decode for {} of the result", self.work, self.bytes_to_decode(), self.bytes_out())
    }
}
