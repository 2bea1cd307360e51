//! The Range header, as far as object stores know it: one range of bytes.

use std::ops::Range;

/// What a Range header asks of an object.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// Everything: there is no header, or none that is understood, which HTTP says to ignore.
    All,
    /// These bytes.
    Part(Range<usize>),
    /// Bytes that are not there.
    Unsatisfiable,
}

/// Read a Range header for an object of `length` bytes.
pub fn parse(header: Option<&str>, length: usize) -> Asked {
    let Some((first, last)) = header.and_then(|value| value.strip_prefix("bytes=")?.split_once('-')) else {
        return Asked::All;
    };
    let range = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Ok(first), Err(_)) if last.is_empty() => first..length,
        (Err(_), Ok(suffix)) if first.is_empty() => length.saturating_sub(suffix)..length,
        _ => return Asked::All,
    };
    if range.is_empty() { Asked::Unsatisfiable } else { Asked::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_says() {
        for (header, asked) in [
            ("bytes=0-0", Asked::Part(0..1)),
            ("bytes=2-5", Asked::Part(2..6)),
            ("bytes=2-500", Asked::Part(2..10)),
            ("bytes=9-", Asked::Part(9..10)),
            ("bytes=-3", Asked::Part(7..10)),
            ("bytes=-30", Asked::Part(0..10)),
            ("bytes=10-", Asked::Unsatisfiable),
            ("bytes=-0", Asked::Unsatisfiable),
            ("bytes=5-2", Asked::All),
            ("bytes=0-1,4-5", Asked::All),
            ("lines=0-1", Asked::All),
        ] {
            assert_eq!(parse(Some(header), 10), asked, "{header}");
        }
        assert_eq!(parse(None, 10), Asked::All);
    }
}
