//! Arrow out: element types, nested lists, record batches.

mod batch;
mod build;
mod element;
mod narrow;
mod promote;
mod ragged;
mod structure;
mod time;
mod variable;

pub(crate) use self::batch::{carry_out, read_columns};
pub use self::batch::{read_batch, read_batch_async, read_batch_with_stats};
pub(crate) use self::build::{Rows, build, room, too_large};
pub use self::element::ElementType;
pub use self::narrow::NarrowFloat;
pub(crate) use self::promote::{cast, common_type};
pub(crate) use self::ragged::Description;
pub use self::ragged::Ragged;
pub use self::structure::{Member, StructType};
pub(crate) use self::time::NOT_A_TIME;
pub use self::time::{Time, Unit};
