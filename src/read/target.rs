//! Where the elements of one column go, and what becomes of them when all are there.

use std::borrow::Cow;

use arrow_array::ArrayRef;
use rayon::ThreadPool;

use super::ReadOptions;
use super::budget::Budget;
use super::column::{ColumnRead, fill_value};
use super::crew::Crew;
use super::execute::Column;
use super::padding::pad;
use super::scatter::scatters;
use super::validity::Validity;
use super::variable::{Held, VariableRead};
use crate::arrow::{Rows, build, room};
use crate::error::Result;
use crate::memory::Output;
use crate::plan::blocks::Threads;
use crate::plan::tiling::Tiling;

/// The output of one column: elements, or cells, where these are of variable length.
pub(super) struct Target<'a> {
    column: &'a Column<'a>,
    output: Output,
    /// Where elements start in the output.
    start: usize,
    validity: Validity,
    /// What the cells name.
    held: Option<Held>,
}

impl<'a> Target<'a> {
    /// An output for `column`, in which what lies beyond the arrays is there already.
    pub(super) fn new(
        column: &'a Column<'a>,
        options: &ReadOptions,
        budget: &Budget,
        pool: &ThreadPool,
    ) -> Result<Self> {
        let Column { arrays, plan, element } = column;
        let fill = options.fill.as_deref();
        let held = element.is_variable().then(|| Held::new(column, fill)).transpose()?;
        let fill = fill.filter(|_| held.is_none()).map(|fill| element.fill_bytes(fill)).transpose()?;
        let elements = plan.layout().elements();
        if held.is_some() {
            budget.keep(elements.saturating_mul(element.size()), "the places of values of variable length")?;
        }
        let (mut output, start) = room(element, elements)?;
        let validity = Validity::new(elements);
        if !plan.selections().padded().is_empty() || plan.selections().nulls().is_some() {
            let values = |source: usize| match (&held, &fill) {
                (Some(held), _) => Cow::Owned(held.beyond(source).to_vec()),
                (None, Some(fill)) => Cow::Borrowed(&**fill),
                (None, None) => fill_value(arrays[source], element),
            };
            let output = &mut output.as_mut_slice()[start..];
            pool.install(|| pad(plan, output, element.size(), &validity, options.cancel(), values))?;
        }
        Ok(Self { column, output, start, validity, held })
    }

    /// The reads that fill the output, one for each array.
    pub(super) fn reads<'s>(
        &'s mut self,
        options: &'s ReadOptions,
        workers: usize,
        crew: &'s Crew<'s>,
    ) -> Result<Vec<ColumnRead<'s>>> {
        let Self { column, output, start, validity, held } = self;
        let (column, validity, held): (&Column<'_>, &Validity, _) = (column, validity, held.as_ref());
        let strides: Vec<_> = column.arrays.iter().map(|array| array.decoder().strides()).collect();
        // Rows that were padded hold more than zeros by now.
        let zeroed = output.is_zeroed() && column.plan.selections().padded().is_empty();
        let tiling = Tiling::check(column.plan, Threads::available(options.threads()))?;
        let target = &mut output.as_mut_slice()[*start..];
        let scatters = scatters(tiling, target, zeroed, column.element.size(), &strides, crew)?;
        let (missing_chunks, cache) = (options.missing_chunks, options.cache.as_ref());
        let read = |(number, (&array, scatter))| {
            let variable = held.map(|held| VariableRead::new(held, number));
            ColumnRead::new(array, &column.element, scatter, missing_chunks, validity, workers, variable)
                .with_cache(cache)
        };
        Ok(column.arrays.iter().zip(scatters).enumerate().map(read).collect())
    }

    /// The values of the column, once all reads are done, and how many bytes of them were read.
    pub(super) fn finish(self, options: &ReadOptions, pool: &ThreadPool) -> Result<(ArrayRef, u64)> {
        let Self { column, mut output, validity, held, .. } = self;
        let (element, layout) = (&column.element, column.plan.layout());
        if let Some(held) = held {
            let gather = || held.gather(column, output.as_mut_slice(), validity, options.cancel());
            return pool.install(gather);
        }
        let bytes = (layout.elements() * element.room()) as u64;
        let build = || build(element, output, layout.elements(), validity, Rows::new(layout.row_starts()));
        let values = if element.is_as_scattered() { build() } else { pool.install(build) }?;
        Ok((values, bytes))
    }
}
