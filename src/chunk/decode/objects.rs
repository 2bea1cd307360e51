//! Objects that the caller's code decodes: checked, with a cell for each.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::corrupt;
use super::interleaved::lying;
use super::variable::Elements;
use crate::chunk::cells::{CELL_LEN, Cell};
use crate::chunk::foreign::{Foreign, ForeignDecoder, ForeignObjects};
use crate::error::Result;
use crate::memory::{grow_chunk, reserve_chunk};

/// Decodes a read chunk of `count` objects to cells in `buffer`. `None` if their bytes are more than `bound`.
///
/// # Errors
/// [`ErrorKind::Decode`](crate::ErrorKind::Decode) if the decoder fails, or there are more or fewer objects.
pub(super) fn decode<'a>(
    decoder: &dyn ForeignDecoder,
    encoded: &[u8],
    is_text: bool,
    count: usize,
    buffer: u64,
    bound: usize,
) -> Result<Option<Elements<'a>>> {
    let objects = catch_unwind(AssertUnwindSafe(|| decoder.decode_objects(encoded, is_text)))
        .map_err(|_| corrupt())?
        .map_err(|source| corrupt().source(Foreign(source)))?;
    elements(objects, count, buffer, bound)
}

fn elements<'a>(objects: ForeignObjects, count: usize, buffer: u64, bound: usize) -> Result<Option<Elements<'a>>> {
    let ForeignObjects { mut bytes, ends, others } = objects;
    if ends.len() != count {
        return Err(lying(&format!("it has {} objects", ends.len())).expected(format!("{count}, as a read chunk has")));
    }
    if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != bytes.len() as u64 {
        return Err(lying("its objects do not lie one after the other"));
    }
    let mut cells = reserve_chunk(count * CELL_LEN)?;
    let mut others = others.into_iter().peekable();
    let mut start = 0;
    for (number, end) in ends.into_iter().enumerate() {
        let mut cell = Cell { buffer, start, len: end - start };
        if let Some((_, name)) = others.next_if(|(at, _)| *at == number) {
            cell = match name {
                None => Cell { buffer: buffer | Cell::NULL, start: 0, len: 0 },
                Some(name) => {
                    let start = bytes.len() as u64;
                    grow_chunk(&mut bytes, name.len())?;
                    bytes.extend_from_slice(name.as_bytes());
                    Cell { buffer: buffer | Cell::OTHER, start, len: name.len() as u64 }
                }
            };
        }
        cells.extend_from_slice(&cell.to_bytes());
        start = end;
    }
    if others.next().is_some() {
        return Err(lying("its objects that are no values are out of order"));
    }
    if bytes.len() as u64 > Cell::END || bytes.len() > bound {
        return Ok(None);
    }
    Ok(Some(Elements { cells, bytes: Cow::Owned(bytes) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::cells::cells;

    fn made(bytes: &[u8], ends: &[u64], others: &[(usize, Option<&str>)], count: usize) -> Result<Option<Vec<Cell>>> {
        let others = others.iter().map(|(at, name)| (*at, name.map(str::to_owned))).collect();
        let objects = ForeignObjects { bytes: bytes.to_vec(), ends: ends.to_vec(), others };
        let found = elements(objects, count, 5, 100)?;
        Ok(found.map(|elements| cells(&elements.cells).collect()))
    }

    #[test]
    fn objects_become_cells() {
        let others = [(1, None), (3, Some("int"))];
        let found = made(b"abcd", &[3, 3, 4, 4], &others, 4).unwrap().unwrap();
        let cell = |buffer, start, len| Cell { buffer, start, len };
        let expected = [cell(5, 0, 3), cell(5 | Cell::NULL, 0, 0), cell(5, 3, 1), cell(5 | Cell::OTHER, 4, 3)];
        assert_eq!(found, expected);
        assert!(made(&[0; 101], &[101], &[], 1).unwrap().is_none());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(made(b"ab", &[1, 2], &[], 3).is_err());
        assert!(made(b"ab", &[1, 2], &[], 1).is_err());
        assert!(made(b"ab", &[2, 1], &[], 2).is_err());
        assert!(made(b"ab", &[1, 3], &[], 2).is_err());
        assert!(made(b"ab", &[0, 1], &[], 2).is_err());
        assert!(made(b"ab", &[1, 2], &[(1, None), (0, None)], 2).is_err());
        assert!(made(b"ab", &[1, 2], &[(2, None)], 2).is_err());
    }
}
