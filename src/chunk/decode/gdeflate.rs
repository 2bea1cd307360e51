//! The pages of `gdeflate`, as zarrs frames them.
//!
//! The reference library reads beyond the end of a page, and cannot be linked beside libdeflate, of which it is a copy
//! with the same names. A page is a Deflate64 stream dealt out to 32 lanes: each of these has its own bits, which it
//! takes from the page in words of four bytes whenever it has fewer than 32 left. A match is found by a lane in one
//! round and copied in the next, when the lane has read how far back it lies.

use std::sync::LazyLock;

use super::corrupt;
use super::huffman::Code;
use super::interleaved::lying;
use crate::error::Result;
use crate::fork;
use crate::memory::reserve_chunk;

/// Decoded length of each page but the last.
const PAGE_LEN: usize = 1 << 16;
const LANES: usize = 32;
/// A lane takes a word when it has fewer bits than this, and none of its steps takes more.
const ENOUGH: u32 = 32;

const END_OF_BLOCK: u16 = 256;
/// The order in which the lengths of the code for lengths are stored.
const PRECODE_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Decodes pages behind their lengths: of all that is decoded, how many there are, and of each of them, 64 bits each.
/// `None` if they decode to more than `bound` bytes.
///
/// # Errors
/// [`ErrorKind::Decode`](crate::ErrorKind::Decode) if the lengths do not fit together or a page is corrupt.
pub(super) fn decode(encoded: &[u8], bound: usize) -> Result<Option<Vec<u8>>> {
    let number = |at: usize| -> Option<usize> {
        let bytes = encoded.get(at * 8..at * 8 + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let (Some(decoded_len), Some(pages)) = (number(0), number(1)) else {
        return Err(corrupt().expected("the lengths of GDeflate pages"));
    };
    if decoded_len > bound {
        return Ok(None);
    }
    let start = pages.checked_add(2).and_then(|numbers| numbers.checked_mul(8));
    let mut rest = start
        .filter(|_| pages == decoded_len.div_ceil(PAGE_LEN))
        .and_then(|start| encoded.get(start..))
        .ok_or_else(|| lying(&format!("{pages} pages of {decoded_len} bytes in all")))?;
    let mut decoded = reserve_chunk(decoded_len)?;
    decoded.resize(decoded_len, 0);
    for (at, target) in decoded.chunks_mut(PAGE_LEN).enumerate() {
        let page = number(at + 2).and_then(|len| rest.split_at_checked(len));
        let Some((page, behind)) = page else { return Err(lying("a page ends behind it")) };
        let whole = Page::new(page, target).and_then(Page::decode);
        whole.ok_or_else(|| corrupt().expected(format!("a GDeflate page of {} bytes", page.len())))?;
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(lying("it has bytes behind its last page"));
    }
    Ok(Some(decoded))
}

/// A page on its way to `target`. What is `None` is corrupt.
struct Page<'a> {
    /// What no lane has taken yet.
    words: &'a [u8],
    lanes: [Lane; LANES],
    /// The lane whose turn it is.
    turn: usize,
    target: &'a mut [u8],
    written: usize,
}

#[derive(Clone, Copy, Default)]
struct Lane {
    bits: u64,
    count: u32,
    copy: Option<Copy>,
}

/// A match: where it is written, and how long it is.
#[derive(Clone, Copy)]
struct Copy {
    to: usize,
    len: usize,
}

impl<'a> Page<'a> {
    fn new(words: &'a [u8], target: &'a mut [u8]) -> Option<Self> {
        let mut page = Self { words, lanes: [Lane::default(); LANES], turn: 0, target, written: 0 };
        for _ in 0..LANES {
            page.advance()?;
        }
        Some(page)
    }

    fn decode(mut self) -> Option<()> {
        loop {
            self.turn = 0;
            let is_last = self.take(1) == 1;
            let kind = self.take(2);
            self.refill()?;
            match kind {
                0 => self.stored()?,
                1 => {
                    let (literals, distances) = fixed()?;
                    self.compressed(literals, distances)?;
                }
                2 => {
                    let (literals, distances) = self.codes()?;
                    self.compressed(&literals, &distances)?;
                }
                _ => return None,
            }
            if is_last {
                return (self.words.is_empty() && self.written == self.target.len()).then_some(());
            }
        }
    }

    /// Bytes as they are, one for each lane.
    fn stored(&mut self) -> Option<()> {
        let len = self.take(16) as usize;
        let end = self.written.checked_add(len).filter(|&end| end <= self.target.len())?;
        while self.written < end {
            self.target[self.written] = self.take(8) as u8;
            self.written += 1;
            self.advance()?;
        }
        self.round(None)
    }

    /// Literals and matches until the end of the block.
    fn compressed(&mut self, literals: &Code, distances: &Code) -> Option<()> {
        self.turn = 0;
        loop {
            if let Some(copy) = self.lanes[self.turn].copy.take() {
                self.copy(copy, distances)?;
                self.advance()?;
                continue;
            }
            let symbol = self.symbol(literals)?;
            match symbol {
                0..END_OF_BLOCK => {
                    *self.target.get_mut(self.written)? = symbol as u8;
                    self.written += 1;
                }
                END_OF_BLOCK => return self.round(Some(distances)),
                _ => {
                    let (base, extra) = length_of(symbol)?;
                    let len = base + self.take(extra) as usize;
                    let to = self.written;
                    self.written = to.checked_add(len).filter(|&end| end <= self.target.len())?;
                    self.lanes[self.turn].copy = Some(Copy { to, len });
                }
            }
            self.advance()?;
        }
    }

    /// Gives each lane a last turn in a block: to copy what it has found.
    fn round(&mut self, distances: Option<&Code>) -> Option<()> {
        for _ in 0..LANES {
            if let Some(copy) = self.lanes[self.turn].copy.take() {
                self.copy(copy, distances?)?;
            }
            self.advance()?;
        }
        Some(())
    }

    fn copy(&mut self, Copy { to, len }: Copy, distances: &Code) -> Option<()> {
        let (base, extra) = distance_of(self.symbol(distances)?);
        let distance = base + self.take(extra) as usize;
        let from = to.checked_sub(distance)?;
        if distance >= len {
            self.target.copy_within(from..from + len, to);
        } else {
            for at in to..to + len {
                self.target[at] = self.target[at - distance];
            }
        }
        Some(())
    }

    /// The codes that a block brings along: of literals and lengths, and of distances.
    fn codes(&mut self) -> Option<(Code, Code)> {
        let literals = self.take(5) as usize + 257;
        let all = literals + self.take(5) as usize + 1;
        let explicit = self.take(4) as usize + 4;
        self.refill()?;
        let mut precode = [0; 19];
        for &symbol in &PRECODE_ORDER[..explicit] {
            precode[symbol] = self.take(3) as u8;
            self.advance()?;
        }
        let precode = Code::new(&precode)?;
        self.turn = 0;
        let mut lengths = [0_u8; 288 + 32];
        let mut at = 0;
        while at < all {
            let symbol = self.symbol(&precode)?;
            let (len, count) = match symbol {
                0..16 => (symbol as u8, 1),
                16 => (*lengths.get(at.checked_sub(1)?)?, 3 + self.take(2) as usize),
                17 => (0, 3 + self.take(3) as usize),
                _ => (0, 11 + self.take(7) as usize),
            };
            // As in the reference, a repetition may go on behind the last length.
            let end = (at + count).min(all);
            lengths[at..end].fill(len);
            at += count;
            self.advance()?;
        }
        Some((Code::new(&lengths[..literals])?, Code::new(&lengths[literals..all])?))
    }

    /// The next symbol of the lane whose turn it is.
    fn symbol(&mut self, code: &Code) -> Option<u16> {
        let (symbol, len) = code.symbol(self.lanes[self.turn].bits as u32)?;
        self.take(len);
        Some(symbol)
    }

    /// The next bits of the lane whose turn it is. It has them: no turn takes more than 31 of at least 32, other than that
    /// in which it is refilled.
    fn take(&mut self, count: u32) -> u32 {
        let lane = &mut self.lanes[self.turn];
        let bits = lane.bits as u32 & ((1 << count) - 1);
        lane.bits >>= count;
        lane.count = lane.count.saturating_sub(count);
        bits
    }

    fn refill(&mut self) -> Option<()> {
        let lane = &mut self.lanes[self.turn];
        if lane.count < ENOUGH {
            let (word, rest) = self.words.split_first_chunk()?;
            lane.bits |= u64::from(u32::from_le_bytes(*word)) << lane.count;
            lane.count += u32::BITS;
            self.words = rest;
        }
        Some(())
    }

    fn advance(&mut self) -> Option<()> {
        self.refill()?;
        self.turn = (self.turn + 1) % LANES;
        Some(())
    }
}

/// The codes of a block that brings none along.
fn fixed() -> Option<&'static (Code, Code)> {
    static FIXED: LazyLock<Option<(Code, Code)>> = LazyLock::new(|| {
        let mut literals = [8; 288];
        literals[144..256].fill(9);
        literals[256..280].fill(7);
        Some((Code::new(&literals)?, Code::new(&[5; 32])?))
    });
    let _held_off = fork::hold_off();
    FIXED.as_ref()
}

/// The shortest length that a symbol stands for, and how many bits are added to it.
fn length_of(symbol: u16) -> Option<(usize, u32)> {
    match symbol.checked_sub(END_OF_BLOCK + 1)? {
        step @ 0..8 => Some((3 + usize::from(step), 0)),
        step @ 8..28 => {
            let extra = u32::from(step) / 4 - 1;
            Some((3 + ((4 + usize::from(step) % 4) << extra), extra))
        }
        _ => Some((3, 16)),
    }
}

/// The shortest distance that a symbol stands for, and how many bits are added to it.
fn distance_of(symbol: u16) -> (usize, u32) {
    if symbol < 4 {
        return (1 + usize::from(symbol), 0);
    }
    let extra = u32::from(symbol) / 2 - 1;
    (1 + ((2 + usize::from(symbol) % 2) << extra), extra)
}
