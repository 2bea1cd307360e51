//! The Huffman codes of Deflate.

/// Codewords up to this length are looked up at once.
const LOOKED_UP: u32 = 10;
/// The longest codeword.
const LONGEST: usize = 15;

/// A canonical Huffman code, by the lengths of its codewords.
pub(super) struct Code {
    /// By the next bits, the symbol and the length of its codeword; a length of zero where it is longer than that.
    table: Vec<(u16, u8)>,
    /// How many codewords there are of each length.
    counts: [u16; LONGEST + 1],
    /// The symbols in the order of their codewords.
    symbols: Vec<u16>,
}

impl Code {
    /// The code in which the codeword of symbol `i` has `lengths[i]` bits, at most 15; of none, if there is no such
    /// symbol. `None` if that is no code.
    ///
    /// Of codes that leave something over, only two are: one without any symbols, and one whose only symbol has a
    /// codeword of one bit.
    pub(super) fn new(lengths: &[u8]) -> Option<Self> {
        let mut counts = [0_u16; LONGEST + 1];
        for &len in lengths {
            *counts.get_mut(usize::from(len))? += 1;
        }
        counts[0] = 0;
        let used: u32 = counts.iter().enumerate().map(|(len, &count)| u32::from(count) << (LONGEST - len)).sum();
        let only = used == 1 << (LONGEST - 1) && counts[1] == 1;
        if used != 1 << LONGEST && used != 0 && !only {
            return None;
        }
        let mut starts = [0; LONGEST + 2];
        for len in 1..=LONGEST {
            starts[len + 1] = starts[len] + usize::from(counts[len]);
        }
        let mut symbols = vec![0; starts[LONGEST + 1]];
        for (symbol, &len) in lengths.iter().enumerate().filter(|(_, len)| **len > 0) {
            let start = &mut starts[usize::from(len)];
            symbols[*start] = symbol as u16;
            *start += 1;
        }
        let mut code = Self { table: vec![(0, 0); 1 << LOOKED_UP], counts, symbols };
        code.fill();
        if only {
            // The other codeword of one bit stands for the same symbol.
            code.table.fill((code.symbols[0], 1));
        }
        Some(code)
    }

    fn fill(&mut self) {
        let mut symbols = self.symbols.iter();
        let mut codeword = 0_u32;
        for len in 1..=LOOKED_UP {
            for &symbol in symbols.by_ref().take(usize::from(self.counts[len as usize])) {
                // Stored with the first bit last.
                let first = codeword.reverse_bits() >> (u32::BITS - len);
                for entry in self.table[first as usize..].iter_mut().step_by(1 << len) {
                    *entry = (symbol, len as u8);
                }
                codeword += 1;
            }
            codeword <<= 1;
        }
    }

    /// The symbol that `bits`, the first of them last, begin with, and the length of its codeword.
    pub(super) fn symbol(&self, bits: u32) -> Option<(u16, u32)> {
        let (symbol, len) = self.table[bits as usize % (1 << LOOKED_UP)];
        if len > 0 { Some((symbol, u32::from(len))) } else { self.long(bits) }
    }

    /// The same, bit by bit.
    fn long(&self, bits: u32) -> Option<(u16, u32)> {
        let (mut codeword, mut first, mut at) = (0, 0, 0);
        for len in 1..=LONGEST {
            codeword = codeword << 1 | (bits >> (len - 1) & 1) as usize;
            first <<= 1;
            let count = usize::from(self.counts[len]);
            // Codewords of a length follow those that the shorter ones leave over.
            if let Some(number) = codeword.checked_sub(first).filter(|&number| number < count) {
                return Some((*self.symbols.get(at + number)?, len as u32));
            }
            first += count;
            at += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_code_is_refused() {
        assert!(Code::new(&[1, 1, 1]).is_none());
        assert!(Code::new(&[2, 2]).is_none());
        assert!(Code::new(&[2]).is_none());
        assert!(Code::new(&[16]).is_none());
        assert!(Code::new(&[1, 2]).is_none());
        assert!(Code::new(&[0, 0]).expect("a code").symbol(0).is_none());
        let only = Code::new(&[0, 1]).expect("a code");
        assert_eq!((only.symbol(0), only.symbol(1)), (Some((1, 1)), Some((1, 1))));
    }

    /// Splits the longest word of all, or the one that `splits` say, until there are enough.
    fn lengths(splits: &[usize]) -> Vec<u8> {
        let mut lengths = vec![1, 1];
        for split in splits {
            let at = split % lengths.len();
            if usize::from(lengths[at]) < LONGEST {
                lengths[at] += 1;
                lengths.push(lengths[at]);
            }
        }
        lengths
    }

    proptest! {
        #[test]
        fn codewords_are_those_that_the_lengths_say(splits in prop::collection::vec(any::<usize>(), 0..280)) {
            let lengths = lengths(&splits);
            let code = Code::new(&lengths).expect("a code");
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            order.sort_by_key(|&symbol| lengths[symbol]);
            let (mut codeword, mut before) = (0_u32, u32::from(lengths[order[0]]));
            for symbol in order {
                let len = u32::from(lengths[symbol]);
                codeword <<= len - before;
                before = len;
                let bits = codeword.reverse_bits() >> (u32::BITS - len);
                for behind in [0, u32::MAX] {
                    let bits = bits | behind.checked_shl(len).unwrap_or(0);
                    prop_assert_eq!(code.symbol(bits), Some((symbol as u16, len)));
                    prop_assert_eq!(code.long(bits), Some((symbol as u16, len)));
                }
                codeword += 1;
            }
        }
    }
}
