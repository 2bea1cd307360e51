//! The front of a zstd stream, without the rest.
//!
//! Source: RFC 8878, section 3.1.1. A frame is a magic number, a header whose first byte tells its length, and blocks, each
//! with a header of three bytes.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// A block decodes to at most so many bytes (section 3.1.1.2.3).
pub(super) const BLOCK_LEN: usize = 128 << 10;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const CHECKSUM: u8 = 1 << 2;
const SINGLE_SEGMENT: u8 = 1 << 5;
const BLOCK_HEADER_LEN: usize = 3;
const REPEATED_BYTE: usize = 1;
const COMPRESSED: usize = 2;

/// The library's own limit; a window costs nothing, because what was decoded stays where it is.
const WINDOW_LOG_MAX: u32 = 31;

/// Decodes blocks of `encoded` into `target`, as long as all that it decodes to, until the first `end` bytes are there.
/// Other bytes of the target may be changed. False if that cannot be done, or not without leaving a checksum unchecked:
/// all of the stream has to be decoded then, if it can be.
pub(super) fn decode(context: &mut DCtx<'static>, encoded: &[u8], target: &mut [u8], end: usize) -> bool {
    if !is_sound(encoded, target.len()) {
        return false;
    }
    // Decoded straight to its place, not by way of a window of the library's.
    let ready = context.reset(ResetDirective::SessionOnly).is_ok()
        && context.set_parameter(DParameter::StableOutBuffer(true)).is_ok()
        && context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).is_ok();
    let Some(mut at) = header_len(encoded).filter(|_| ready) else { return false };
    let mut output = OutBuffer::around(target);
    let mut read = 0;
    while output.pos() < end {
        // Fewer blocks cannot have what is left.
        for _ in 0..(end - output.pos()).div_ceil(BLOCK_LEN) {
            let Some(next) = next_block(encoded, at) else { break };
            at = next;
        }
        let mut input = InBuffer::around(&encoded[..at]);
        input.set_pos(read);
        if context.decompress_stream(&mut output, &mut input).is_err() || input.pos() == read {
            return false;
        }
        read = input.pos();
    }
    true
}

/// Whether `encoded` is one whole frame, by the headers of its blocks, says that it has `len` bytes, and has no checksum
/// that only decoding all of it would check.
fn is_sound(encoded: &[u8], len: usize) -> bool {
    encoded.starts_with(&MAGIC)
        && encoded.get(4).is_some_and(|descriptor| descriptor & CHECKSUM == 0)
        && zstd_safe::find_frame_compressed_size(encoded) == Ok(encoded.len())
        && matches!(zstd_safe::get_frame_content_size(encoded), Ok(Some(size)) if size == len as u64)
}

/// Length of magic number and frame header (section 3.1.1.1).
fn header_len(encoded: &[u8]) -> Option<usize> {
    let descriptor = *encoded.get(4)?;
    let is_single = descriptor & SINGLE_SEGMENT != 0;
    let window = usize::from(!is_single);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = match descriptor >> 6 {
        0 => usize::from(is_single),
        bits => 1 << bits,
    };
    Some(MAGIC.len() + 1 + window + dictionary + content)
}

/// Where the block that begins at `at` ends. `None` if there is no whole block, or one that says that nothing was
/// compressed, which the library refuses only where it decodes all.
fn next_block(encoded: &[u8], at: usize) -> Option<usize> {
    let header = encoded.get(at..at.checked_add(BLOCK_HEADER_LEN)?)?;
    let bits = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
    let len = match (bits >> 1) & 3 {
        REPEATED_BYTE => 1,
        COMPRESSED if bits >> 3 == 0 => return None,
        _ => bits >> 3,
    };
    Some(at + BLOCK_HEADER_LEN + len).filter(|&end| end <= encoded.len())
}

#[cfg(test)]
mod tests {
    use zstd_safe::{CCtx, CParameter};

    use super::*;

    const LEN: usize = 1 << 20;

    /// Runs, noise and text, so that there are blocks of every kind.
    fn values() -> Vec<u8> {
        let mut values = vec![7; LEN];
        let mut state = 1_u64;
        for (at, value) in values.iter_mut().enumerate().skip(LEN / 4) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *value =
                if at < LEN / 2 { (state >> 56) as u8 } else { b'a' + (state >> 60) as u8 * u8::from(at % 3 == 0) };
        }
        values
    }

    fn encode(values: &[u8], parameters: &[CParameter]) -> Vec<u8> {
        let mut context = CCtx::create();
        for parameter in parameters {
            context.set_parameter(*parameter).expect("a parameter");
        }
        let mut encoded = vec![0; zstd_safe::compress_bound(values.len())];
        let len = context.compress2(&mut encoded[..], values).expect("compressed");
        encoded.truncate(len);
        encoded
    }

    #[test]
    fn fronts_are_those_of_the_whole() {
        let values = values();
        let mut context = DCtx::create();
        let narrow = encode(&values, &[CParameter::WindowLog(12)]);
        // More than the library takes if it is not told to: a window of 1 GiB (section 3.1.1.1.2).
        let wide = [&narrow[..5], &[20 << 3], &narrow[6..]].concat();
        for (name, encoded) in [("as usual", encode(&values, &[])), ("narrow", narrow), ("wide", wide)] {
            for end in [0, 1, BLOCK_LEN - 1, BLOCK_LEN, BLOCK_LEN + 1, LEN / 2 + 7, LEN - 1, LEN] {
                let mut target = vec![0xa5; LEN];
                assert!(decode(&mut context, &encoded, &mut target, end));
                assert!(target[..end] == values[..end], "{name}, to {end}");
                let behind = (end + 2 * BLOCK_LEN).min(LEN);
                assert!(target[behind..].iter().all(|&byte| byte == 0xa5), "{name}, to {end}: decoded too much");
            }
        }
    }

    #[test]
    fn streams_that_must_be_decoded_whole() {
        let values = values();
        let mut context = DCtx::create();
        let mut target = vec![0; LEN];
        let encoded = encode(&values, &[]);
        let mut refused = |encoded: &[u8], target: &mut [u8]| assert!(!decode(&mut context, encoded, target, 100));
        refused(&encode(&values, &[CParameter::ChecksumFlag(true)]), &mut target);
        refused(&encode(&values, &[CParameter::ContentSizeFlag(false)]), &mut target);
        refused(&[&encoded[..], &encoded].concat(), &mut target);
        refused(&[&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0], &encoded[..]].concat(), &mut target);
        refused(&encoded, &mut target[1..]);
        let start = header_len(&encoded).unwrap();
        refused(&[&encoded[..start], &[4, 0, 0], &encoded[start..]].concat(), &mut target);
        for len in (0..20).chain([encoded.len() / 2, encoded.len() - 1]) {
            refused(&encoded[..len], &mut target);
        }
    }

    /// What is wrong with a block is found, if it is one of those that are decoded.
    #[test]
    fn damaged_blocks() {
        let values = values();
        let encoded = encode(&values, &[]);
        let mut context = DCtx::create();
        let mut target = vec![0; LEN];
        let mut failed = 0;
        for at in 0..encoded.len().min(400) {
            let mut damaged = encoded.clone();
            damaged[at] ^= 0x55;
            failed += usize::from(!decode(&mut context, &damaged, &mut target, LEN - 1));
        }
        assert!(failed > 0);
        assert!(decode(&mut context, &encoded, &mut target, LEN - 1));
        assert!(target[..LEN - 1] == values[..LEN - 1]);
    }
}
