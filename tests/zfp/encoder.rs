//! zfp's own encoder and decoder.
#![allow(unsafe_code)]

use std::ffi::c_void;

use zfp_sys::{
    ZFP_HEADER_FULL, stream_close, stream_open, zfp_compress, zfp_decompress, zfp_demote_int32_to_int8,
    zfp_demote_int32_to_int16, zfp_demote_int32_to_uint8, zfp_demote_int32_to_uint16, zfp_field, zfp_stream,
    zfp_stream_close, zfp_stream_maximum_size, zfp_stream_open, zfp_stream_rewind, zfp_stream_set_accuracy,
    zfp_stream_set_params, zfp_stream_set_precision, zfp_stream_set_rate, zfp_stream_set_reversible, zfp_type,
    zfp_write_header,
};

/// The library's numbers, by the names of Zarr's types.
pub(crate) fn type_of(data_type: &str) -> zfp_type {
    match data_type {
        "int64" | "uint64" => zfp_sys::zfp_type_zfp_type_int64,
        "float32" => zfp_sys::zfp_type_zfp_type_float,
        "float64" => zfp_sys::zfp_type_zfp_type_double,
        _ => zfp_sys::zfp_type_zfp_type_int32,
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    Expert { minbits: u32, maxbits: u32, maxprec: u32, minexp: i32 },
    Rate(f64),
    Precision(u32),
    Accuracy(f64),
    Reversible,
}

/// What is encoded of `numbers`, and what that decodes to.
pub(crate) fn encode(numbers: &[u64], data_type: &str, shape: &[u64], mode: Mode, header: bool) -> (Vec<u8>, Vec<u64>) {
    let mut numbers = numbers.to_vec();
    let mut lengths = shape.iter().rev().map(|len| *len as usize).chain([0; 4]);
    let mut len = || lengths.next().expect("four lengths");
    let (nx, ny, nz, nw) = (len(), len(), len(), len());
    let data: *mut c_void = numbers.as_mut_ptr().cast();
    let mut field = zfp_field { type_: type_of(data_type), nx, ny, nz, nw, sx: 0, sy: 0, sz: 0, sw: 0, data };
    // SAFETY: the stream is open until it is closed here, once. The buffer is as long as the library says that it can
    // become, and somewhat longer; `numbers` has eight bytes for each number of the field.
    unsafe {
        let stream = zfp_stream_open(std::ptr::null_mut());
        set_mode(stream, field.type_, mode);
        let mut buffer = vec![0_u64; zfp_stream_maximum_size(stream, &raw const field) / 8 + 8];
        let bits = stream_open(buffer.as_mut_ptr().cast(), buffer.len() * 8);
        (*stream).stream = bits;
        zfp_stream_rewind(stream);
        let header_bits = if header { zfp_write_header(stream, &raw const field, ZFP_HEADER_FULL) } else { 1 };
        let written = zfp_compress(stream, &raw const field);
        assert!(header_bits > 0 && written > 0);
        let mut decoded = vec![0_u64; numbers.len()];
        field.data = decoded.as_mut_ptr().cast();
        zfp_stream_rewind(stream);
        if header {
            zfp_sys::zfp_read_header(stream, &raw mut field, ZFP_HEADER_FULL);
        }
        assert_eq!(zfp_decompress(stream, &raw mut field), written);
        zfp_stream_close(stream);
        stream_close(bits);
        let bytes = buffer.iter().flat_map(|word| word.to_ne_bytes()).take(written);
        (bytes.collect(), decoded)
    }
}

/// # Safety
/// `stream` is open.
unsafe fn set_mode(stream: *mut zfp_stream, type_: zfp_type, mode: Mode) {
    // SAFETY: as the caller says.
    unsafe {
        match mode {
            Mode::Expert { minbits, maxbits, maxprec, minexp } => {
                assert_ne!(zfp_stream_set_params(stream, minbits, maxbits, maxprec, minexp), 0);
            }
            // Three axes always, as zarrs has it.
            Mode::Rate(rate) => {
                zfp_stream_set_rate(stream, rate, type_, 3, 0);
            }
            Mode::Precision(precision) => {
                zfp_stream_set_precision(stream, precision);
            }
            Mode::Accuracy(tolerance) => {
                zfp_stream_set_accuracy(stream, tolerance);
            }
            Mode::Reversible => zfp_stream_set_reversible(stream),
        }
    }
}

/// Numbers of the library as those of a data type of fewer bits.
pub(crate) fn demote(mut numbers: Vec<i32>, data_type: &str) -> Vec<u8> {
    let len = numbers.len();
    numbers.resize(len.next_multiple_of(4), 0);
    let mut bytes = Vec::new();
    for four in numbers.chunks(4) {
        let from = four.as_ptr();
        let (mut int8, mut uint8, mut int16, mut uint16) = ([0; 4], [0; 4], [0; 4], [0; 4]);
        // SAFETY: a block of one axis has four numbers.
        unsafe {
            zfp_demote_int32_to_int8(int8.as_mut_ptr(), from, 1);
            zfp_demote_int32_to_uint8(uint8.as_mut_ptr(), from, 1);
            zfp_demote_int32_to_int16(int16.as_mut_ptr(), from, 1);
            zfp_demote_int32_to_uint16(uint16.as_mut_ptr(), from, 1);
        }
        match data_type {
            "int8" => bytes.extend(int8.iter().flat_map(|number| number.to_ne_bytes())),
            "uint8" => bytes.extend(uint8),
            "int16" => bytes.extend(int16.iter().flat_map(|number| number.to_ne_bytes())),
            "uint16" => bytes.extend(uint16.iter().flat_map(|number| number.to_ne_bytes())),
            _ => bytes.extend(four.iter().flat_map(|number| number.max(&0).to_ne_bytes())),
        }
    }
    bytes.truncate(len * bytes.len() / numbers.len());
    bytes
}
