//! From bound selections to an inert plan of work: where each row goes, which read chunks to decode, which rows
//! each of them serves.
//!
//! * [`layout`]: list offsets per kept axis and the element at which each row starts.
//! * [`lengths`]: how an axis is cut into parts.
//! * [`grid`]: the geometry of an array's read chunks and their keys in storage order.
//! * [`pieces`]: rows and the read chunks that they touch.
//! * [`points`]: points and the read chunks that they lie in.
//! * [`group`]: either grouped by read chunk, by counting or [`sort`].
//! * [`segments`]: rows that are more than boxes, cut at the borders of read chunks.
//! * [`blocks`]: all of this in parallel, where it is worth it.
//! * [`tiling`]: the proof that the pieces of a plan tile the output, without which nothing is written.

pub(crate) mod blocks;
pub(crate) mod grid;
mod group;
mod layout;
pub(crate) mod lengths;
mod pieces;
mod points;
pub(crate) mod segments;
mod sort;
pub(crate) mod tiling;

use std::fmt;

use self::blocks::{Threads, both};
use self::grid::Grid;
use self::group::Groups;
pub use self::layout::Layout;
use self::pieces::{Pieces, RowPieces};
use self::segments::Segments;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::memory;
use crate::selection::BoundSelections;

/// From this many bytes on, it is checked that there is memory for the result.
const CHECKED_FROM: usize = 1 << 30;

/// What one array's read will do: the read chunks it needs, each once, and the rows that each of them serves.
///
/// A plan is inert. Making one does no I/O, and costs time and memory in the selections and the read chunks that they
/// touch, never in the array's shape.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    selections: BoundSelections,
    layout: Layout,
    segments: Option<Segments>,
    parts: Vec<Part>,
}

/// What a plan does with one array.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    grid: Grid,
    groups: Groups,
}

impl Part {
    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The read chunks that are needed, and the rows that each of them serves.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }
}

impl Plan {
    /// Plans a read from arrays of these `grids`. With `item`, the bytes of one element, a result that this machine has
    /// no memory for is refused before the work is planned. The plan does not depend on the number of `threads`.
    pub(crate) fn new(
        selections: BoundSelections,
        grids: Vec<Grid>,
        item: Option<usize>,
        threads: Threads,
        cancel: &Cancel,
    ) -> Result<Self> {
        if selections.len() > u32::MAX as usize {
            return Err(Error::new(ErrorKind::Unsupported, format!("{} selections", selections.len()))
                .expected(format!("at most {} in one call", u32::MAX))
                .remedy("Split the call."));
        }
        // Before anything is planned: what is too large costs no time.
        let (elements, lists) = Layout::sizes_of(&selections)?;
        let bytes = elements.saturating_mul(item.unwrap_or(0)).saturating_add(lists.saturating_mul(8));
        if bytes > CHECKED_FROM {
            reserve::<u8>(bytes, "bytes of the result")?;
        }
        let layout = || Layout::new(&selections);
        let group = || Self::group(&selections, &grids, threads, cancel);
        let (layout, (segments, groups)) =
            if threads.for_work(selections.len()) == 1 { (layout()?, group()?) } else { both(layout, group)? };
        let parts = grids.into_iter().zip(groups).map(|(grid, groups)| Part { grid, groups }).collect();
        Ok(Self { selections, layout, segments, parts })
    }

    fn group(
        selections: &BoundSelections,
        grids: &[Grid],
        threads: Threads,
        cancel: &Cancel,
    ) -> Result<(Option<Segments>, Vec<Groups>)> {
        let segments = Segments::new(selections, grids, threads, cancel)?;
        let of_source = rows_of_sources(selections, grids.len())?;
        let groups = grids.iter().enumerate().map(|(source, grid)| {
            let only = of_source.as_ref().map(|(rows, offsets)| &rows[offsets[source]..offsets[source + 1]]);
            let pieces = RowPieces { selections, segments: segments.as_ref(), only, grid, cancel };
            let blocks = if only.is_some() { threads.cut(pieces.len()) } else { threads.cut_rows(selections) };
            Groups::new(&pieces, grid.keys(), &blocks)
        });
        let groups = groups.collect::<Result<_>>()?;
        Ok((segments, groups))
    }

    /// The selections, bound to the array's shape.
    #[must_use]
    pub(crate) fn selections(&self) -> &BoundSelections {
        &self.selections
    }

    /// Where each row goes.
    #[must_use]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of distinct read chunks that the selections touch.
    #[must_use]
    pub(crate) fn read_chunks(&self) -> usize {
        self.parts.iter().map(|part| part.groups.chunks().len()).sum()
    }

    /// Number of pieces: pairs of a row and a read chunk that it touches.
    #[must_use]
    pub(crate) fn pieces(&self) -> usize {
        self.parts.iter().map(|part| part.groups.pieces()).sum()
    }

    /// Number of axes of the arrays.
    pub(crate) fn ndim(&self) -> usize {
        self.selections.shapes().ndim()
    }

    /// One per array.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn segments(&self) -> Option<&Segments> {
        self.segments.as_ref()
    }

    pub(crate) fn layout_mut(&mut self) -> &mut Layout {
        &mut self.layout
    }
}

/// The rows of each source, in ascending order, and where those of each begin; `None` where there is one source.
fn rows_of_sources(selections: &BoundSelections, sources: usize) -> Result<Option<(Vec<u32>, Vec<usize>)>> {
    let Some(of_row) = selections.shapes().sources() else { return Ok(None) };
    let mut offsets = vec![0_usize; sources + 1];
    for &source in of_row {
        offsets[source as usize + 1] += 1;
    }
    for source in 0..sources {
        offsets[source + 1] += offsets[source];
    }
    let mut next = offsets.clone();
    let mut rows = reserve(of_row.len(), "rows")?;
    rows.resize(of_row.len(), 0);
    for (row, &source) in of_row.iter().enumerate() {
        rows[next[source as usize]] = row as u32;
        next[source as usize] += 1;
    }
    Ok(Some((rows, offsets)))
}

/// What to do where there is no memory for a plan.
const REMEDY: &str = "Read fewer or smaller selections at a time.";

/// An empty vector with room for `len` values of a plan.
fn reserve<T>(len: usize, what: &str) -> Result<Vec<T>> {
    memory::reserve(len, what, REMEDY)
}

/// Room for `len` values of a plan, no more than that.
fn make_room<T>(values: &mut Vec<T>, len: usize) -> Result<()> {
    values.try_reserve_exact(len.saturating_sub(values.len())).map_err(no_memory)
}

fn no_memory(source: std::collections::TryReserveError) -> Error {
    Error::new(ErrorKind::Allocation, "no memory for the plan").source(source).remedy(REMEDY)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Plan: {} rows, {} elements from {} read chunks in {} pieces",
            self.selections.len(),
            self.layout.elements(),
            self.read_chunks(),
            self.pieces()
        )
    }
}
