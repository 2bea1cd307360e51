//! Arrow out: element types, nested lists, record batches.

mod batch;
mod element;
mod promote;
mod ragged;
mod time;
mod variable;

pub use self::batch::read_batch;
pub(crate) use self::batch::{carry_out, read_columns};
pub use self::element::ElementType;
pub(crate) use self::promote::{cast, common_type};
pub use self::ragged::Ragged;
pub(crate) use self::time::NOT_A_TIME;
pub use self::time::{Time, Unit};
