//! From bound selections to an inert plan of work: where each row goes, which read chunks to decode, which rows
//! each of them serves.
//!
//! * [`layout`]: list offsets per kept axis and the element at which each row starts.
//! * [`grid`]: the geometry of an array's read chunks and their keys in storage order.
//! * [`group`]: rows grouped by the read chunks that they touch.
//! * [`tiling`]: the proof that the pieces of a plan tile the output, without which nothing is written.

pub(crate) mod grid;
mod group;
mod layout;
pub(crate) mod tiling;

use std::fmt;

use self::grid::Grid;
pub use self::layout::Layout;
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
pub struct Plan {
    selections: BoundSelections,
    layout: Layout,
    grid: Grid,
    groups: group::Groups,
}

impl Plan {
    /// Plans a read. With `item`, the bytes of one element, a result that this machine has no memory for is refused
    /// before the work is planned.
    pub(crate) fn new(selections: BoundSelections, grid: Grid, item: Option<usize>) -> Result<Self> {
        let layout = || {
            let layout = Layout::new(&selections)?;
            if let Some(bytes) =
                item.map(|item| layout.elements().saturating_mul(item)).filter(|&bytes| bytes > CHECKED_FROM)
            {
                reserve::<u8>(bytes, "bytes of the result")?;
            }
            Ok(layout)
        };
        let group = || group::Groups::new(&selections, &grid);
        let (layout, groups) = if selections.len() < PARALLEL_FROM {
            (layout()?, group()?)
        } else {
            std::thread::scope(|scope| {
                let groups = scope.spawn(group);
                let layout = layout();
                let panicked = |_| Err(Error::new(ErrorKind::Internal, "planning panicked"));
                Ok::<_, Error>((layout?, groups.join().unwrap_or_else(panicked)?))
            })?
        };
        Ok(Self { selections, layout, grid, groups })
    }

    /// The selections, bound to the array's shape.
    #[must_use]
    pub fn selections(&self) -> &BoundSelections {
        &self.selections
    }

    /// Where each row goes.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of distinct read chunks that the selections touch.
    #[must_use]
    pub fn read_chunks(&self) -> usize {
        self.groups.chunks().len()
    }

    /// Number of pieces: pairs of a row and a read chunk that it touches.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.groups.pieces()
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(crate) fn groups(&self) -> &group::Groups {
        &self.groups
    }

    pub(crate) fn layout_mut(&mut self) -> &mut Layout {
        &mut self.layout
    }
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
