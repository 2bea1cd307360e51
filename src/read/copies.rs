//! The copies themselves. Whoever calls them has checked the bounds.
#![allow(unsafe_code)]

use super::hops::Hop;
use super::run::{Run, Step, for_each_run};

/// Copies `len` bytes; short runs without a call.
///
/// # Safety
/// `source` must be valid for reads and `target` for writes of `len` bytes, and they must not overlap.
#[inline]
pub(super) unsafe fn copy_bytes(source: *const u8, target: *mut u8, len: usize) {
    /// # Safety
    /// As [`copy_bytes`], with `N <= len <= 2 * N`.
    unsafe fn ends<const N: usize>(source: *const u8, target: *mut u8, len: usize) {
        // SAFETY: both blocks of `N` bytes lie in the `len` bytes that the caller guarantees. They may overlap each
        // other, which is why both are read before either is written.
        unsafe {
            let front = source.cast::<[u8; N]>().read_unaligned();
            let back = source.add(len - N).cast::<[u8; N]>().read_unaligned();
            target.cast::<[u8; N]>().write_unaligned(front);
            target.add(len - N).cast::<[u8; N]>().write_unaligned(back);
        }
    }
    // SAFETY: the caller guarantees `len` bytes, and each arm's bounds are those that `ends` asks for.
    unsafe {
        match len {
            1 => ends::<1>(source, target, len),
            2..=3 => ends::<2>(source, target, len),
            4..=7 => ends::<4>(source, target, len),
            8..=16 => ends::<8>(source, target, len),
            17..=32 => ends::<16>(source, target, len),
            33..=64 => ends::<32>(source, target, len),
            65..=128 => ends::<64>(source, target, len),
            _ => std::ptr::copy_nonoverlapping(source, target, len),
        }
    }
}

/// Copies `run` at each step of `walk`.
///
/// # Safety
/// `source` and `target` must be valid for reads and writes over the walk's whole span, and not overlap.
pub(super) unsafe fn copy_walk(source: *const u8, target: *mut u8, run: Run, walk: &mut [Step]) {
    if run.len == 0 {
        return;
    }
    // A thin innermost run is copied element by element with the element's own size, not by calls of `memcpy`.
    let inner = walk.split_last_mut().map_or(1, |(step, _)| step.len);
    if inner > 1 {
        // SAFETY: the caller's guarantee covers every step.
        match run.len {
            1 => return unsafe { copy_strided::<1>(source, target, run, walk) },
            2 => return unsafe { copy_strided::<2>(source, target, run, walk) },
            4 => return unsafe { copy_strided::<4>(source, target, run, walk) },
            8 => return unsafe { copy_strided::<8>(source, target, run, walk) },
            16 => return unsafe { copy_strided::<16>(source, target, run, walk) },
            _ => {}
        }
    }
    for_each_run(run, walk, |from, to| {
        // SAFETY: `from` and `to` are steps of the walk, which the caller guarantees to be in bounds.
        unsafe { copy_bytes(source.add(from), target.add(to), run.len) };
    });
}

/// Copies runs of `N` bytes, with a tight loop over the innermost step.
///
/// # Safety
/// As [`copy_walk`]; `run.len` must be `N` and `walk` must not be empty.
unsafe fn copy_strided<const N: usize>(source: *const u8, target: *mut u8, run: Run, walk: &mut [Step]) {
    let Some((inner, outer)) = walk.split_last_mut() else { return };
    let inner = *inner;
    for_each_run(run, outer, |from, to| {
        for i in 0..inner.len {
            // SAFETY: each of these is a step of the walk, which the caller guarantees to be in bounds.
            unsafe {
                let value =
                    source.add(from).offset(i as isize * inner.source_stride).cast::<[u8; N]>().read_unaligned();
                target.add(to + i * inner.target_stride).cast::<[u8; N]>().write_unaligned(value);
            }
        }
    });
}

/// Copies each of `hops`, all `uniform` bytes long if that is known.
///
/// # Safety
/// Every hop must be valid for reads from `source` and for writes from `target`, and they must not overlap. `source`
/// itself need not lie in what is read.
pub(super) unsafe fn copy_hops(source: *const u8, target: *mut u8, hops: &[Hop], uniform: Option<usize>) {
    /// # Safety
    /// As [`copy_hops`]; every hop must be of `N` bytes.
    unsafe fn each<const N: usize>(source: *const u8, target: *mut u8, hops: &[Hop]) {
        for hop in hops {
            // SAFETY: the caller guarantees `N` bytes at both ends of every hop.
            unsafe {
                let value = source.wrapping_add(hop.source).cast::<[u8; N]>().read_unaligned();
                target.add(hop.target).cast::<[u8; N]>().write_unaligned(value);
            }
        }
    }
    // SAFETY: the caller's guarantee is that of `each`, whose `N` is the length of every hop.
    unsafe {
        match uniform {
            Some(1) => return each::<1>(source, target, hops),
            Some(2) => return each::<2>(source, target, hops),
            Some(4) => return each::<4>(source, target, hops),
            Some(8) => return each::<8>(source, target, hops),
            Some(16) => return each::<16>(source, target, hops),
            _ => {}
        }
    }
    for hop in hops {
        // SAFETY: the caller guarantees `hop.len` bytes at both ends of every hop.
        unsafe { copy_bytes(source.wrapping_add(hop.source), target.add(hop.target), hop.len) };
    }
}
