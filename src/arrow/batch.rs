//! Several arrays read with the same selections, as columns of one record batch.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::Ragged;
use crate::chunk::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::read::execute::{Column, execute};
use crate::read::{ReadOptions, ReadStats};
use crate::selection::Selections;

/// Reads `selections` from each of the named arrays, all in one go, into one [`RecordBatch`] with a column per array
/// and a row per selection.
///
/// The arrays are chunked each in its own way, and may differ in data type and in further axes; `selections` must fit
/// each of them. Columns of equal layout share their offsets buffers, and an array that is named twice is read once.
///
/// # Errors
/// As [`Array::read`]; [`ErrorKind::Selection`] if the selections bound an axis on which the arrays differ in length,
/// or if there is no array.
///
/// ```
/// # use std::sync::Arc;
/// # use zarrow::zarrs::array::{ArrayBuilder, data_type};
/// # use zarrow::zarrs::storage::store::MemoryStore;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Arc::new(MemoryStore::new());
/// # for path in ["/image", "/labels"] {
/// #     ArrayBuilder::new(vec![64, 64], vec![16, 16], data_type::uint8(), 7u8).build(store.clone(), path)?.store_metadata()?;
/// # }
/// use zarrow::{Array, ReadOptions, Selections, read_batch};
///
/// let image = Array::open(store.clone(), "/image")?;
/// let labels = Array::open(store, "/labels")?;
/// let crops = Selections::boxes(2, vec![0, 0, 8, 8], vec![4, 4, 40, 10])?;
/// let batch = read_batch(&[("image", &image), ("labels", &labels)], &crops, &ReadOptions::default())?;
/// assert_eq!((batch.num_rows(), batch.num_columns()), (2, 2));
/// # Ok(())
/// # }
/// ```
pub fn read_batch(arrays: &[(&str, &Array)], selections: &Selections, options: &ReadOptions) -> Result<RecordBatch> {
    let Some((first_name, first)) = arrays.first() else {
        return Err(Error::new(ErrorKind::Selection, "no arrays").expected("at least one"));
    };
    let bounded = selections.bounded_axes();
    for (name, array) in &arrays[1..] {
        let (shape, first) = (array.shape(), first.shape());
        let agree = match bounded {
            Some(axes) => shape.len() >= axes && first.len() >= axes && shape[..axes] == first[..axes],
            None => shape == first,
        };
        if !agree {
            let got = format!("array '{name}' has shape {shape:?} and array '{first_name}' has {first:?}");
            return Err(Error::new(ErrorKind::Selection, got).expected(match bounded {
                Some(axes) => format!("equal lengths on the first {axes} axes, which the selections bound"),
                None => "equal shapes, because a selection has an Ellipsis".to_owned(),
            }));
        }
    }
    let columns: Vec<&Array> = arrays.iter().map(|(_, array)| *array).collect();
    let columns = read_columns(&columns, selections, options)?;
    let fields: Vec<_> = arrays.iter().zip(&columns).map(|((name, _), column)| column.field(name)).collect();
    let columns = columns.into_iter().map(Ragged::into_array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|source| Error::new(ErrorKind::Internal, "the result is no valid record batch").source(source))
}

/// Reads `selections` from each array. Arrays that occur twice are read once.
pub(crate) fn read_columns(arrays: &[&Array], selections: &Selections, options: &ReadOptions) -> Result<Vec<Ragged>> {
    let start = Instant::now();
    let mut distinct: Vec<&Array> = Vec::new();
    let mut of_column = Vec::with_capacity(arrays.len());
    for array in arrays {
        let at = distinct.iter().position(|known| known.same_as(array));
        of_column.push(at.unwrap_or(distinct.len()));
        if at.is_none() {
            distinct.push(array);
        }
    }
    let mut plans: Vec<Plan> = Vec::with_capacity(distinct.len());
    for array in &distinct {
        let mut plan = array.plan_read(selections)?;
        for other in &plans {
            plan.layout_mut().share(other.layout());
        }
        plans.push(plan);
    }
    let stats = ReadStats { rows: selections.len(), plan_time: start.elapsed(), ..ReadStats::default() };
    let column = |(&array, plan)| Column { arrays: vec![array], plan, element: array.element_type().clone() };
    let columns: Vec<_> = distinct.iter().zip(&plans).map(column).collect();
    let read = carry_out(&columns, options, stats)?;
    Ok(of_column.iter().map(|&at| read[at].clone()).collect())
}

/// Carries out plans, and wraps what they give.
pub(crate) fn carry_out(columns: &[Column<'_>], options: &ReadOptions, mut stats: ReadStats) -> Result<Vec<Ragged>> {
    let start = Instant::now();
    let outputs = execute(columns, options, &mut stats)?;
    let mut values = Vec::with_capacity(outputs.len());
    for filled in outputs {
        stats.bytes_out += filled.bytes;
        values.push(filled.values);
    }
    stats.read_time = start.elapsed();
    let ragged = |(column, values): (&Column<'_>, _)| {
        let nulls = column.plan.selections().nulls().cloned();
        Ragged::new(column.plan.layout().clone(), values, nulls, column.element.clone(), stats)
    };
    Ok(columns.iter().zip(values).map(ragged).collect())
}
