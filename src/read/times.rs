//! Counts of time, once all are there: into the units that Arrow has, those that are no time into nulls.

use rayon::prelude::*;

use super::validity::Validity;
use crate::arrow::{NOT_A_TIME, Time};
use crate::error::{Error, ErrorKind, Result};

/// So many counts are converted in one go.
const AT_ONCE: usize = 1 << 16;

/// Converts the 64-bit counts in `values` in place, and makes those null in `validity` that are no time. `row_starts`
/// says to which row a count belongs.
///
/// # Errors
/// [`ErrorKind::Unsupported`], naming the selection, for a time that Arrow's unit cannot express.
pub(super) fn convert_times(time: Time, values: &mut [u8], row_starts: &[i64], validity: &Validity) -> Result<()> {
    let counts = values.as_chunks_mut::<8>().0;
    counts.par_chunks_mut(AT_ONCE).enumerate().try_for_each(|(part, counts)| {
        for (at, bytes) in counts.iter_mut().enumerate() {
            let count = i64::from_ne_bytes(*bytes);
            let element = part * AT_ONCE + at;
            if count == NOT_A_TIME {
                validity.clear(element..element + 1);
                *bytes = [0; 8];
            } else if !time.is_as_stored() {
                let converted = time.convert(count).ok_or_else(|| {
                    let row = row_starts.partition_point(|&start| start as usize <= element).saturating_sub(1);
                    let got = format!("{count} of {}", time.numpy_name());
                    Error::new(ErrorKind::Unsupported, got)
                        .at_selection(row)
                        .expected(format!("a time that {} holds exactly", time.arrow_type()))
                })?;
                *bytes = converted.to_ne_bytes();
            }
        }
        Ok(())
    })
}
