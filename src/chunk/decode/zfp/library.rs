//! The zfp library's interface.
//!
//! The library checks neither where its bit stream ends nor what a header says, so it gets no header, and a stream that
//! goes on for as long as it could read.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use zfp_sys::{bitstream, zfp_field, zfp_stream};

use super::stream::{Field, Params, Scalar};

/// Decompresses `field`, whose first block begins at bit `start` of the stream `words`, into all of `target`. Gives how
/// many words were read of the stream.
///
/// `None` if `words` are fewer than the library could read, `target` is not as long as the field, or there is no memory.
pub(super) fn decompress(
    words: &mut [u64],
    start: u64,
    field: &Field,
    params: &Params,
    target: &mut [u8],
) -> Option<usize> {
    let size = field.scalar.size();
    let reach = field.reach(params)?.checked_add(start)?;
    let is_in_stream = reach <= (words.len() as u64).checked_mul(u64::from(u64::BITS))?;
    let is_target = Some(target.len()) == field.len().checked_mul(size) && target.as_ptr().align_offset(size) == 0;
    if !is_in_stream || !is_target {
        return None;
    }
    // SAFETY: the pointer and the length are those of an exclusive slice that outlives the stream; nothing is read here.
    let bits = unsafe { zfp_sys::stream_open(words.as_mut_ptr().cast(), size_of_val(words)) };
    let bits = Bits(NonNull::new(bits)?);
    // SAFETY: `bits` is an open stream, and `start` no further than its end: `reach` was checked to be, which is more.
    unsafe { zfp_sys::stream_rseek(bits.0.as_ptr(), start) };
    // SAFETY: `bits` is an open stream, and closed after this one, which was opened after it.
    let stream = Stream(NonNull::new(unsafe { zfp_sys::zfp_stream_open(bits.0.as_ptr()) })?);
    let Params { minbits, maxbits, maxprec, minexp } = *params;
    // SAFETY: `stream` is an open stream.
    if unsafe { zfp_sys::zfp_stream_set_params(stream.0.as_ptr(), minbits, maxbits, maxprec, minexp) } == 0 {
        return None;
    }
    let mut of_library = field_of(field, target.as_mut_ptr().cast());
    // SAFETY: `stream` is an open stream whose bit stream goes on for as long as `Field::reach` says that is read
    // (checked above as `is_in_stream`). The field is contiguous and as long as `target`, an exclusive, initialised and
    // aligned slice (`is_target`). A new stream runs on the calling thread.
    let read = unsafe { zfp_sys::zfp_decompress(stream.0.as_ptr(), &raw mut of_library) };
    (read > 0).then_some(read / size_of::<u64>())
}

fn field_of(field: &Field, data: *mut c_void) -> zfp_field {
    let type_ = match field.scalar {
        Scalar::Int32 => zfp_sys::zfp_type_zfp_type_int32,
        Scalar::Int64 => zfp_sys::zfp_type_zfp_type_int64,
        Scalar::Float => zfp_sys::zfp_type_zfp_type_float,
        Scalar::Double => zfp_sys::zfp_type_zfp_type_double,
    };
    // The last axis first; zero where there is none.
    let mut lengths = field.shape().iter().rev().copied().chain([0; 4]);
    let mut len = || lengths.next().unwrap_or(0);
    let (nx, ny, nz, nw) = (len(), len(), len(), len());
    zfp_field { type_, nx, ny, nz, nw, sx: 0, sy: 0, sz: 0, sw: 0, data }
}

struct Bits(NonNull<bitstream>);

impl Drop for Bits {
    fn drop(&mut self) {
        // SAFETY: the stream was opened by `stream_open` and is closed nowhere else.
        unsafe { zfp_sys::stream_close(self.0.as_ptr()) };
    }
}

struct Stream(NonNull<zfp_stream>);

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was opened by `zfp_stream_open` and is closed nowhere else.
        unsafe { zfp_sys::zfp_stream_close(self.0.as_ptr()) };
    }
}
