//! Counts of time, once all are there: into the units that Arrow has, those that are no time into nulls.

use rayon::prelude::*;

use super::{AT_ONCE, Rows};
use crate::arrow::{NOT_A_TIME, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::read::Validity;

/// Converts the 64-bit counts in `values` in place, and makes those null in `validity` that are no time.
///
/// # Errors
/// [`ErrorKind::Unsupported`], naming the selection, for a time that Arrow's unit cannot express.
pub(super) fn convert(time: Time, values: &mut [u8], rows: Rows<'_>, validity: &Validity) -> Result<()> {
    let counts = values.as_chunks_mut::<8>().0;
    counts.par_chunks_mut(AT_ONCE).enumerate().try_for_each(|(part, counts)| {
        for (at, bytes) in counts.iter_mut().enumerate() {
            let count = i64::from_ne_bytes(*bytes);
            let value = part * AT_ONCE + at;
            if count == NOT_A_TIME {
                validity.clear(value..value + 1);
                *bytes = [0; 8];
            } else if !time.is_as_stored() {
                let converted = match time.convert(count) {
                    Some(converted) => converted,
                    None if validity.is_null(value) => 0,
                    None => {
                        let got = format!("{count} of {}", time.numpy_name());
                        return Err(Error::new(ErrorKind::Unsupported, got)
                            .at_selection(rows.of(value))
                            .expected(format!("a time that {} holds exactly", time.arrow_type())));
                    }
                };
                *bytes = converted.to_ne_bytes();
            }
        }
        Ok(())
    })
}
