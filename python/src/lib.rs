//! The extension module `zarrow._zarrow`: a thin layer over the `zarrow` crate.

#![allow(clippy::needless_pass_by_value, reason = "pyo3 hands arguments over by value")]

mod array;
mod attach;
mod cache;
mod error;
mod foreign;
mod fork;
mod interrupt;
mod plan;
mod read;
mod remote;
mod selections;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _zarrow(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<selections::Selections>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<read::ReadStats>()?;
    module.add_class::<interrupt::Canceller>()?;
    module.add_class::<cache::ChunkCache>()?;
    module.add_function(wrap_pyfunction!(fork::_before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(fork::_after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(fork::_after_fork_in_child, module)?)?;
    module.add_function(wrap_pyfunction!(attach::_at_exit, module)?)?;
    module.add_function(wrap_pyfunction!(cache::_chunk_cache, module)?)?;
    module.add_function(wrap_pyfunction!(remote::_remote_get, module)?)?;
    module.add_function(wrap_pyfunction!(remote::_remote_list, module)?)?;
    module.add_function(wrap_pyfunction!(array::_open_local, module)?)?;
    module.add_function(wrap_pyfunction!(remote::_open_remote, module)?)?;
    module.add_function(wrap_pyfunction!(remote::_open_remotes, module)?)?;
    module.add_function(wrap_pyfunction!(selections::_boxes, module)?)?;
    module.add_function(wrap_pyfunction!(selections::_lists, module)?)?;
    module.add_function(wrap_pyfunction!(selections::_items, module)?)?;
    module.add_function(wrap_pyfunction!(plan::_plan, module)?)?;
    module.add_function(wrap_pyfunction!(read::release_unused, module)?)?;
    module.add_function(wrap_pyfunction!(read::_read, module)?)?;
    module.add_function(wrap_pyfunction!(read::_read_batch, module)?)?;
    module.add_function(wrap_pyfunction!(read::_read_stats, module)?)?;
    Ok(())
}
