//! An encoder of `gdeflate`: blocks of bytes as they are, or of literals and matches by the fixed codes.

use std::collections::HashMap;

pub(crate) const PAGE_LEN: usize = 1 << 16;
const LANES: usize = 32;

/// Pages behind their lengths.
pub(crate) fn encode(decoded: &[u8], is_compressed: bool) -> Vec<u8> {
    let pages: Vec<Vec<u8>> = decoded.chunks(PAGE_LEN).map(|part| page(part, is_compressed)).collect();
    framed(decoded.len() as u64, &pages)
}

/// Pages behind lengths.
pub(crate) fn framed(decoded_len: u64, pages: &[Vec<u8>]) -> Vec<u8> {
    let lengths = pages.iter().map(|page| page.len() as u64);
    let numbers = [decoded_len, pages.len() as u64].into_iter().chain(lengths);
    numbers.flat_map(u64::to_le_bytes).chain(pages.iter().flatten().copied()).collect()
}

/// A page, in several blocks if it is long.
pub(crate) fn page(decoded: &[u8], is_compressed: bool) -> Vec<u8> {
    let mut writer = Writer::new();
    let starts: Vec<usize> = (0..decoded.len()).step_by(20_000).collect();
    for &start in &starts {
        let end = decoded.len().min(start + 20_000);
        writer.turn = 0;
        writer.put(u32::from(end == decoded.len()), 1);
        writer.put(u32::from(is_compressed), 2);
        writer.refill();
        if is_compressed {
            writer.compressed(decoded, start..end);
        } else {
            writer.stored(&decoded[start..end]);
        }
    }
    writer.finish()
}

/// Deals bits out to lanes, and notes which of them takes the next word.
struct Writer {
    bits: [Vec<bool>; LANES],
    /// Bits that a reader has left in each lane.
    left: [u32; LANES],
    words: Vec<usize>,
    turn: usize,
    /// How far back the match lies that a lane has found.
    found: [Option<usize>; LANES],
}

impl Writer {
    fn new() -> Self {
        let bits = std::array::from_fn(|_| Vec::new());
        let mut writer = Self { bits, left: [0; LANES], words: Vec::new(), turn: 0, found: [None; LANES] };
        (0..LANES).for_each(|_| writer.advance());
        writer
    }

    fn put(&mut self, value: u32, count: u32) {
        self.bits[self.turn].extend((0..count).map(|at| value >> at & 1 == 1));
        self.left[self.turn] -= count;
    }

    fn put_code(&mut self, codeword: u32, count: u32) {
        self.put(codeword.reverse_bits() >> (32 - count), count);
    }

    fn refill(&mut self) {
        if self.left[self.turn] < 32 {
            self.left[self.turn] += 32;
            self.words.push(self.turn);
        }
    }

    fn advance(&mut self) {
        self.refill();
        self.turn = (self.turn + 1) % LANES;
    }

    fn stored(&mut self, bytes: &[u8]) {
        self.put(bytes.len() as u32, 16);
        for &byte in bytes {
            self.put(byte.into(), 8);
            self.advance();
        }
        (0..LANES).for_each(|_| self.advance());
    }

    fn compressed(&mut self, decoded: &[u8], range: std::ops::Range<usize>) {
        let mut seen: HashMap<&[u8], usize> = HashMap::new();
        let mut at = range.start;
        self.turn = 0;
        loop {
            if let Some(distance) = self.found[self.turn].take() {
                self.distance(distance);
            } else if at == range.end {
                self.literal_or_length(256);
                break;
            } else {
                let before = decoded.get(at..at + 3).and_then(|bytes| seen.insert(bytes, at));
                let same =
                    |from: usize| (at..range.end).take_while(|to| decoded[*to] == decoded[from + to - at]).count();
                if let Some((from, len)) = before.map(|from| (from, same(from))).filter(|(_, len)| *len >= 3) {
                    self.length(len);
                    self.found[self.turn] = Some(at - from);
                    at += len;
                } else {
                    self.literal_or_length(decoded[at].into());
                    at += 1;
                }
            }
            self.advance();
        }
        for _ in 0..LANES {
            if let Some(distance) = self.found[self.turn].take() {
                self.distance(distance);
            }
            self.advance();
        }
    }

    fn literal_or_length(&mut self, symbol: u32) {
        match symbol {
            0..144 => self.put_code(0x30 + symbol, 8),
            144..256 => self.put_code(0x190 + symbol - 144, 9),
            256..280 => self.put_code(symbol - 256, 7),
            _ => self.put_code(0xc0 + symbol - 280, 8),
        }
    }

    fn length(&mut self, len: usize) {
        let (mut base, mut symbol, mut extra) = (3, 257, 0);
        while symbol < 285 && len >= base + (1 << extra) {
            base += 1 << extra;
            symbol += 1;
            extra = if symbol < 265 { 0 } else { (symbol - 261) / 4 };
        }
        if symbol == 285 {
            (base, extra) = (3, 16);
        }
        self.literal_or_length(symbol);
        self.put((len - base) as u32, extra);
    }

    fn distance(&mut self, distance: usize) {
        let (mut base, mut symbol, mut extra) = (1, 0_u32, 0);
        while distance >= base + (1 << extra) {
            base += 1 << extra;
            symbol += 1;
            extra = if symbol < 4 { 0 } else { symbol / 2 - 1 };
        }
        self.put_code(symbol, 5);
        self.put((distance - base) as u32, extra);
    }

    fn finish(self) -> Vec<u8> {
        let mut lanes = self.bits.map(Vec::into_iter);
        let word = |lane: &usize| {
            let bits = (0..32).map(|at| u32::from(lanes[*lane].next().unwrap_or(false)) << at);
            bits.sum::<u32>().to_le_bytes()
        };
        self.words.iter().flat_map(word).collect()
    }
}
