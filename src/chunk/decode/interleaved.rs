//! The layout of numcodecs' `vlen-utf8`, `vlen-bytes` and `vlen-array`: the number of elements, then for each of them its
//! length in bytes and its bytes. All numbers are 32 bits in little-endian order.

use super::corrupt;
use crate::chunk::cells::{CELL_LEN, Cell};
use crate::error::{Error, Result};
use crate::memory::reserve_chunk;

const NUMBER_LEN: usize = 4;

/// Finds the `count` elements of `bytes`, whose lengths must be multiples of `unit`: a cell each, in `buffer`.
///
/// # Errors
/// [`ErrorKind::Decode`](crate::ErrorKind::Decode) if there are more or fewer elements, or bytes are missing or left over.
pub(super) fn parse(bytes: &[u8], count: usize, unit: usize, buffer: u64) -> Result<Vec<u8>> {
    let truncated = || lying(&format!("it ends after {} bytes, amid its elements", bytes.len()));
    let (head, _) = bytes.split_first_chunk::<NUMBER_LEN>().ok_or_else(truncated)?;
    let claimed = u32::from_le_bytes(*head) as usize;
    if claimed != count {
        return Err(lying(&format!("it claims {claimed} elements")).expected(format!("{count}, as a read chunk has")));
    }
    // Before cells are allocated: each element takes these bytes at least.
    if (bytes.len() - NUMBER_LEN) / NUMBER_LEN < count || bytes.len() as u64 > Cell::END {
        return Err(truncated());
    }
    let mut cells = reserve_chunk(count * CELL_LEN)?;
    let mut at = NUMBER_LEN;
    for _ in 0..count {
        let Some(len) = bytes.get(at..).and_then(<[u8]>::first_chunk::<NUMBER_LEN>) else { return Err(truncated()) };
        let len = u32::from_le_bytes(*len) as usize;
        at += NUMBER_LEN;
        if len > bytes.len() - at {
            return Err(truncated());
        }
        if !len.is_multiple_of(unit) {
            return Err(lying(&format!("an element has {len} bytes")).expected(format!("a multiple of {unit}")));
        }
        cells.extend_from_slice(&Cell { buffer, start: at as u64, len: len as u64 }.to_bytes());
        at += len;
    }
    if at != bytes.len() {
        return Err(lying(&format!("{} bytes are left over behind its elements", bytes.len() - at)));
    }
    Ok(cells)
}

pub(super) fn lying(what: &str) -> Error {
    corrupt().source(std::io::Error::other(what.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chunk::cells::cells;
    use crate::error::ErrorKind;

    fn encode(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = (elements.len() as u32).to_le_bytes().to_vec();
        for element in elements {
            bytes.extend((element.len() as u32).to_le_bytes());
            bytes.extend(element);
        }
        bytes
    }

    fn elements() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 512 }))]

        #[test]
        fn elements_come_back(elements in elements(), buffer in 0_u64..1 << 48) {
            let bytes = encode(&elements);
            let found = parse(&bytes, elements.len(), 1, buffer).unwrap();
            let found: Vec<_> = cells(&found).collect();
            prop_assert!(found.iter().all(|cell| cell.buffer == buffer));
            prop_assert_eq!(found.iter().map(|cell| cell.of(&bytes).unwrap().to_vec()).collect::<Vec<_>>(), elements);
        }

        #[test]
        fn cut_or_extended_bytes_are_refused(elements in elements(), cut in any::<prop::sample::Index>(), more in 1_usize..9) {
            let mut bytes = encode(&elements);
            let short = parse(&bytes[..cut.index(bytes.len())], elements.len(), 1, 0);
            prop_assert_eq!(short.unwrap_err().kind(), ErrorKind::Decode);
            bytes.resize(bytes.len() + more, 0);
            prop_assert_eq!(parse(&bytes, elements.len(), 1, 0).unwrap_err().kind(), ErrorKind::Decode);
            prop_assert!(parse(&bytes, elements.len() + 1, 1, 0).is_err());
        }

        #[test]
        fn whatever_is_accepted_is_what_would_be_written(bytes in prop::collection::vec(0_u8..4, 0..60), unit in 1_usize..4) {
            let claimed = bytes.first_chunk().map_or(0, |head| u32::from_le_bytes(*head)) as usize;
            if let Ok(found) = parse(&bytes, claimed, unit, 0) {
                let elements: Vec<_> = cells(&found).map(|cell| cell.of(&bytes).unwrap().to_vec()).collect();
                prop_assert!(elements.iter().all(|element| element.len() % unit == 0));
                prop_assert_eq!(encode(&elements), bytes);
            }
        }
    }

    #[test]
    fn a_count_allocates_nothing() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 40]);
        assert_eq!(parse(&bytes, u32::MAX as usize, 1, 0).unwrap_err().kind(), ErrorKind::Decode);
        assert_eq!(parse(&bytes, 10, 1, 0).unwrap_err().kind(), ErrorKind::Decode);
        bytes[..4].fill(0);
        assert_eq!(parse(&bytes[..4], 0, 1, 0).unwrap(), [0; 0]);
    }
}
