//! Ragged selections from Zarr arrays, read in one call into one Apache Arrow allocation.
//!
//! A *ragged selection* asks for many pieces of differing shape at once: rows of a sparse matrix, crops around
//! cells, windows around events. [`Array::read`] fetches and decodes every chunk that the pieces touch **once**, in
//! parallel, straight into one shared buffer, and gives nested [`LargeListArray`](arrow_array::LargeListArray)s.
//!
//! ```text
//! Selections ──bind──▶ BoundSelections          in bounds, columnar
//!     ├──layout──▶ Layout                       64-bit offsets per kept axis, overflow-checked
//!     ├──group───▶ Plan                         read chunks, each with the rows that need it
//!   fetch ─▶ decode ─▶ scatter                  one output buffer, many threads, disjoint writes
//!     └──wrap────▶ Ragged ─▶ ArrayRef, RecordBatch
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use zarrow::{Array, ReadOptions, Selections};
//! use zarrow::zarrs::array::{ArrayBuilder, data_type};
//! use zarrow::zarrs::storage::store::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(MemoryStore::new());
//! let sky = ArrayBuilder::new(vec![100, 80], vec![30, 30], data_type::uint16(), 0u16).build(store.clone(), "/sky")?;
//! sky.store_metadata()?;
//! sky.store_chunk(&[0, 0], (0..900).collect::<Vec<u16>>())?;
//!
//! let array = Array::open(store, "/sky")?;
//! let boxes = Selections::boxes(2, vec![0, 0, 10, 20], vec![2, 3, 14, 40])?; // (0..2, 0..3) and (10..14, 20..40)
//! let crops = array.read(&boxes, &ReadOptions::default())?;
//! assert_eq!(crops.stats().chunks_fetched, 1); // once, for both boxes; the chunk next to it was never written
//! let lists = crops.into_array(); // LargeList<LargeList<UInt16>>, one row per box
//! assert_eq!(lists.len(), 2);
//! # Ok(())
//! # }
//! ```

const _: () = assert!(usize::BITS == 64, "zarrow needs a 64-bit target");

mod arrow;
mod cache;
mod cancel;
mod chunk;
mod error;
#[doc(hidden)]
pub mod fork;
mod later;
mod memory;
mod plan;
mod planned;
#[cfg(test)]
mod random;
mod read;
mod selection;
mod store;
mod turn;

pub use crate::arrow::{
    ElementType, Member, NarrowFloat, Ragged, StructType, Time, Unit, read_batch, read_batch_async,
    read_batch_with_stats,
};
pub use crate::cache::ChunkCache;
pub use crate::chunk::{Array, ForeignCodecs, ForeignDecoder, ForeignError, ForeignObjects, OpenOptions};
pub use crate::error::{Error, ErrorKind, Result};
pub use crate::memory::release_unused;
pub use crate::plan::Layout;
pub use crate::planned::{Plan, PlanOptions, read_ragged, read_ragged_async};
pub use crate::read::{MissingChunks, Progress, ReadOptions, ReadStats};
pub use crate::selection::{BoundSelections, Indexing, Indices, Item, Mask, OutOfBounds, Points, Selections};
pub use crate::store::ZarrFormat;
#[cfg(feature = "object-store")]
pub use crate::store::remote::ObjectStores;

/// The `object_store` release whose stores [`ObjectStores`] takes.
#[cfg(feature = "object-store")]
pub use object_store;
/// The `zarrs` release whose stores [`Array::open`] takes.
pub use zarrs;

/// The README's Rust code, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
