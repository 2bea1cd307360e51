//! Where values of variable length lie, in as many bytes each, so that they are copied like numbers.

/// Bytes of a cell.
pub(crate) const CELL_LEN: usize = 16;

/// Bits of a start and of a length.
const BITS: u32 = 40;
const MASK: u128 = (1 << BITS) - 1;

/// Where one value of variable length lies: which buffer holds it, the byte at which it starts there, and its length in
/// bytes. All zeros are an empty value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Number of the buffer, below 2^46 without what may be added to it.
    pub(crate) buffer: u64,
    /// Below 2^40, as is the length.
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Cell {
    /// Added to the number of the buffer, it says that there is no value.
    pub(crate) const NULL: u64 = 1 << 47;

    /// Added to the number of the buffer, it says that there is something else than a value, whose type the bytes name.
    pub(crate) const OTHER: u64 = 1 << 46;

    /// One past the last byte that a cell can name.
    pub(crate) const END: u64 = MASK as u64;

    pub(crate) fn to_bytes(self) -> [u8; CELL_LEN] {
        let packed = u128::from(self.buffer) << (2 * BITS)
            | (u128::from(self.start) & MASK) << BITS
            | (u128::from(self.len) & MASK);
        packed.to_ne_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; CELL_LEN]) -> Self {
        let packed = u128::from_ne_bytes(bytes);
        Self {
            buffer: (packed >> (2 * BITS)) as u64,
            start: (packed >> BITS & MASK) as u64,
            len: (packed & MASK) as u64,
        }
    }

    /// The value's bytes in its buffer; `None` if they do not lie in it.
    pub(crate) fn of<'b>(&self, buffer: &'b [u8]) -> Option<&'b [u8]> {
        buffer.get(self.start as usize..(self.start + self.len) as usize)
    }
}

/// The cells in `bytes`, a multiple of [`CELL_LEN`].
pub(crate) fn cells(bytes: &[u8]) -> impl ExactSizeIterator<Item = Cell> + '_ {
    bytes.as_chunks::<CELL_LEN>().0.iter().map(|cell| Cell::from_bytes(*cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_what_they_hold() {
        let (most, all) = ((1 << 40) - 1, (1 << 48) - 1);
        for (buffer, start, len) in [(0, 0, 0), (1, 2, 3), (all, most, most), (all, 0, most), (0, most, 0), (7, 0, 1)] {
            let cell = Cell { buffer, start, len };
            assert_eq!(Cell::from_bytes(cell.to_bytes()), cell);
        }
        assert_eq!(Cell::default().to_bytes(), [0; CELL_LEN]);
        assert_eq!(Cell { buffer: 0, start: 1, len: 2 }.of(b"abcd"), Some(&b"bc"[..]));
        assert_eq!(Cell { buffer: 0, start: 3, len: 2 }.of(b"abcd"), None);
    }
}
