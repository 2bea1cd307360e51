//! Several arrays read with the same selections, as columns of one record batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::{Description, ElementType, Ragged};
use crate::chunk::Array;
use crate::error::{Error, ErrorKind, Result};
use crate::later::later;
use crate::plan::Plan;
use crate::read::execute::{Column, Filled, execute};
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
    read_batch_with_stats(arrays, selections, options).map(|(batch, _)| batch)
}

/// [`read_batch`] that does not block: the future may be awaited by any executor, and ends the read when it is dropped.
///
/// # Errors
/// As [`read_batch`].
pub async fn read_batch_async(
    arrays: &[(&str, &Array)],
    selections: &Selections,
    options: &ReadOptions,
) -> Result<RecordBatch> {
    let arrays: Vec<_> = arrays.iter().map(|&(name, array)| (name.to_owned(), array.clone())).collect();
    let selections = selections.clone();
    later(options, move |options| {
        let arrays: Vec<_> = arrays.iter().map(|(name, array)| (name.as_str(), array)).collect();
        read_batch(&arrays, &selections, options)
    })
    .await
}

/// [`read_batch`], and what the read of all columns together did.
///
/// # Errors
/// As [`read_batch`].
pub fn read_batch_with_stats(
    arrays: &[(&str, &Array)],
    selections: &Selections,
    options: &ReadOptions,
) -> Result<(RecordBatch, ReadStats)> {
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
                None => "equal shapes, because a selection has an Ellipsis that is not last".to_owned(),
            }));
        }
    }
    let columns: Vec<&Array> = arrays.iter().map(|(_, array)| *array).collect();
    let columns = read_columns(&columns, selections, options)?;
    let fields: Vec<_> = arrays.iter().zip(&columns).map(|((name, _), column)| column.field(name)).collect();
    let stats = columns.first().map(|column| *column.stats()).unwrap_or_default();
    let columns = columns.into_iter().map(Ragged::into_array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map(|batch| (batch, stats))
        .map_err(|source| Error::new(ErrorKind::Internal, "the result is no valid record batch").source(source))
}

/// Reads `selections` from each array. Arrays that occur twice are read once.
pub(crate) fn read_columns(arrays: &[&Array], selections: &Selections, options: &ReadOptions) -> Result<Vec<Ragged>> {
    let (start, options) = (Instant::now(), &options.started());
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
        let mut plan = array.plan_read(selections, options)?;
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
    let filled = execute(columns, options, &mut stats)?;
    stats.bytes_out += filled.iter().map(|filled| filled.bytes).sum::<u64>();
    stats.read_time = start.elapsed();
    let ragged = |(column, filled): (&Column<'_>, Filled)| {
        let Filled { values, offsets, .. } = filled;
        let nulls = column.plan.selections().nulls().cloned();
        let described = describe(&column.arrays, &column.element);
        let layout = column.plan.layout().clone();
        Ragged::new(layout, offsets, values, nulls, column.element.clone(), described, stats)
    };
    Ok(columns.iter().zip(filled).map(ragged).collect())
}

/// What Zarr's metadata tells of the elements of all `arrays`: where they agree.
fn describe(arrays: &[&Array], element: &ElementType) -> Description {
    let mut described = match arrays.first() {
        Some(first) if first.element_type() == element => first.description().clone(),
        _ => return Arc::new(HashMap::from([("zarr:dtype".to_owned(), element.zarr_name().into_owned())])),
    };
    for array in &arrays[1..] {
        let other = array.description();
        if !Arc::ptr_eq(&described, other) {
            let name = || ("zarr:dtype".to_owned(), element.zarr_name().into_owned());
            let agreed = described.iter().filter(|(key, value)| other.get(*key) == Some(value));
            let mut agreed: HashMap<_, _> = agreed.map(|(key, value)| (key.clone(), value.clone())).collect();
            if !agreed.contains_key("zarr:dtype") {
                agreed.extend([name()]);
            }
            described = Arc::new(agreed);
        }
    }
    described
}
