//! Bytes of a value that were fetched before they are decoded.

use std::ops::Range;

use zarrs::storage::Bytes;

use super::{Encoded, short};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scratch;

/// Parts of a value, or of a subchunk in one, in ascending order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    parts: Vec<(u64, Bytes)>,
    len: u64,
}

impl Held {
    /// A whole value.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let len = bytes.len() as u64;
        Self { parts: vec![(0, bytes)], len }
    }

    /// Of the bytes `range` of a value, what `parts` of that hold. They start where they say, and ascend.
    pub(crate) fn cut(parts: &[(u64, Bytes)], range: &Range<u64>) -> Self {
        let cut = |(start, bytes): &(u64, Bytes)| {
            let end = start + bytes.len() as u64;
            let (from, to) = (range.start.max(*start), range.end.min(end));
            (from < to).then(|| (from - range.start, bytes.slice((from - start) as usize..(to - start) as usize)))
        };
        Self { parts: parts.iter().filter_map(cut).collect(), len: range.end - range.start }
    }

    /// Length of the value in bytes, whether they are held or not.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Which of its bytes are held, sorted and disjoint, none next to each other.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (start, bytes) in &self.parts {
            let (start, end) = (*start as usize, *start as usize + bytes.len());
            match ranges.last_mut() {
                Some(last) if last.end >= start => last.end = last.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Whether what is held is in one part, so that [`read`](Self::read) copies nothing.
    pub(crate) fn is_one(&self) -> bool {
        self.parts.len() <= 1
    }

    /// The bytes `start..start + len`: as they are if one part has them, else copied to `scratch`.
    pub(crate) fn read<'a>(&self, start: u64, len: u64, scratch: &'a mut Scratch) -> Result<Encoded<'a>> {
        let end = start.saturating_add(len);
        if end > self.len {
            return Err(short(self.len, end));
        }
        if len == 0 {
            return Ok(Encoded::Shared(Bytes::new()));
        }
        let at = self.parts.partition_point(|(from, _)| *from <= start);
        if let Some((from, bytes)) = at.checked_sub(1).map(|at| &self.parts[at])
            && end <= from + bytes.len() as u64
        {
            return Ok(Encoded::Shared(bytes.slice((start - from) as usize..(end - from) as usize)));
        }
        let target = scratch.grow(len as usize)?;
        self.read_into(start, target)?;
        Ok(Encoded::Scratch(target))
    }

    /// Copies the bytes from `start` on into all of `target`.
    pub(crate) fn read_into(&self, start: u64, target: &mut [u8]) -> Result<()> {
        let end = start.saturating_add(target.len() as u64);
        let mut at = start;
        for (from, bytes) in &self.parts {
            let to = from + bytes.len() as u64;
            if at < end && *from <= at && at < to {
                let next = to.min(end);
                let source = &bytes[(at - from) as usize..(next - from) as usize];
                target[(at - start) as usize..(next - start) as usize].copy_from_slice(source);
                at = next;
            }
        }
        if at == end { Ok(()) } else { Err(Error::new(ErrorKind::Internal, "bytes that were not fetched")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_one() {
        let all: Vec<u8> = (0..100).collect();
        let part = |range: Range<usize>| (range.start as u64, Bytes::copy_from_slice(&all[range]));
        let parts = [part(10..30), part(30..31), part(31..60), part(70..90)];
        let held = Held::cut(&parts, &(20..80));
        assert_eq!(held.len(), 60);
        assert_eq!((held.ranges(), held.is_one()), (vec![0..40, 50..60], false));
        let one = Held::cut(&parts, &(30..31));
        assert_eq!((one.ranges(), one.is_one()), (vec![std::ops::Range { start: 0, end: 1 }], true));
        assert!(Held::cut(&parts, &(60..70)).ranges().is_empty());
        for start in 0..60_u64 {
            for len in 0..=60 - start {
                let (from, to) = (start as usize + 20, (start + len) as usize + 20);
                let mut scratch = Scratch::default();
                let read = held.read(start, len, &mut scratch);
                if len > 0 && to > 60 && !(from >= 70 && to <= 80) {
                    assert_eq!(read.err().unwrap().kind(), ErrorKind::Internal, "{start} {len}");
                } else {
                    assert_eq!(read.ok().unwrap().as_ref(), &all[from..to], "{start} {len}");
                }
            }
        }
        let mut scratch = Scratch::default();
        assert_eq!(held.read(59, 2, &mut scratch).err().unwrap().kind(), ErrorKind::Decode);
        assert_eq!(held.read(u64::MAX, 2, &mut scratch).err().unwrap().kind(), ErrorKind::Decode);
        assert!(matches!(Held::whole(Bytes::from(all)).read(0, 100, &mut scratch), Ok(Encoded::Shared(_))));
    }
}
