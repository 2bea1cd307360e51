//! Allocation that can fail.

use crate::error::{Error, ErrorKind, Result};

/// An empty vector with room for `len` values, which an error calls `what`.
///
/// # Errors
/// [`ErrorKind::Allocation`], with `remedy`, if there is no memory for them.
pub(crate) fn reserve<T>(len: usize, what: &str, remedy: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|source| {
        Error::new(ErrorKind::Allocation, format!("no memory for {len} {what}")).source(source).remedy(remedy)
    })?;
    Ok(values)
}
