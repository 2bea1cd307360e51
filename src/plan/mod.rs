//! From bound selections to an inert plan of work: where each row goes, which read chunks to decode, which rows
//! each of them serves.
//!
//! * [`layout`]: list offsets per kept axis and the element at which each row starts.
//! * [`lengths`]: how an axis is cut into parts.
//! * [`grid`]: the geometry of an array's read chunks and their keys in storage order.
//! * [`group`]: rows grouped by the read chunks that they touch.
//! * [`segments`]: rows that are more than boxes, cut at the borders of read chunks.
//! * [`tiling`]: the proof that the pieces of a plan tile the output, without which nothing is written.

pub(crate) mod grid;
mod group;
mod layout;
pub(crate) mod lengths;
pub(crate) mod segments;
pub(crate) mod tiling;

use std::fmt;

use self::grid::Grid;
use self::group::{Asked, Groups};
pub use self::layout::Layout;
use self::segments::Segments;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::memory;
use crate::selection::BoundSelections;

/// From this many rows on, laying out and grouping take longer than starting a thread to do them at once.
const PARALLEL_FROM: usize = 100_000;

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
    /// no memory for is refused before the work is planned.
    pub(crate) fn new(
        selections: BoundSelections,
        grids: Vec<Grid>,
        item: Option<usize>,
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
        let group = || Self::group(&selections, &grids, cancel);
        let (layout, (segments, groups)) = if selections.len() < PARALLEL_FROM {
            (layout()?, group()?)
        } else {
            std::thread::scope(|scope| {
                let groups = scope.spawn(group);
                let layout = layout();
                let panicked = |_| Err(Error::new(ErrorKind::Internal, "planning panicked"));
                Ok::<_, Error>((layout?, groups.join().unwrap_or_else(panicked)?))
            })?
        };
        let parts = grids.into_iter().zip(groups).map(|(grid, groups)| Part { grid, groups }).collect();
        Ok(Self { selections, layout, segments, parts })
    }

    fn group(selections: &BoundSelections, grids: &[Grid], cancel: &Cancel) -> Result<(Option<Segments>, Vec<Groups>)> {
        let segments = Segments::new(selections, grids, cancel)?;
        let of_source = rows_of_sources(selections, grids.len())?;
        let groups = grids.iter().enumerate().map(|(source, grid)| {
            let only = of_source.as_ref().map(|(rows, offsets)| &rows[offsets[source]..offsets[source + 1]]);
            Groups::new(&Asked { selections, segments: segments.as_ref(), only, cancel }, grid)
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

/// An empty vector with room for `len` values of a plan.
fn reserve<T>(len: usize, what: &str) -> Result<Vec<T>> {
    memory::reserve(len, what, "Read fewer or smaller selections at a time.")
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
