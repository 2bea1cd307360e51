//! Decoding through zarrs' codec chain, for chains that have no direct path.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zarrs::array::{Array, ArrayToBytesCodecTraits, CodecChain, CodecOptions, DataType, FillValue};

use super::{corrupt, wrong_length};
use crate::error::Result;
use crate::store::reserve;

/// From this length on, it is checked that there is memory for a read chunk.
const HUGE: usize = 1 << 30;

pub(super) struct Chain {
    codecs: Arc<CodecChain>,
    shape: Vec<NonZeroU64>,
    data_type: DataType,
    fill_value: FillValue,
    options: CodecOptions,
}

impl Chain {
    pub(super) fn new(array: &Array<()>, codecs: Arc<CodecChain>, shape: Vec<NonZeroU64>) -> Self {
        Self {
            codecs,
            shape,
            data_type: array.data_type().clone(),
            fill_value: array.fill_value().clone(),
            // The chunks of a read keep all threads busy; codecs must not start more.
            options: CodecOptions::default().with_concurrent_target(1),
        }
    }

    /// Decodes one read chunk of `decoded_len` bytes, in C order.
    pub(super) fn decode<'a>(&self, encoded: &'a [u8], decoded_len: usize) -> Result<Cow<'a, [u8]>> {
        if decoded_len >= HUGE {
            // Some codecs allocate by the metadata's word alone; one that no machine can hold ends here.
            reserve(decoded_len)?;
        }
        // A codec that panics on corrupt bytes must not take the caller down.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            self.codecs.decode(Cow::Borrowed(encoded), &self.shape, &self.data_type, &self.fill_value, &self.options)
        }))
        .map_err(|_| corrupt())?
        .map_err(|source| corrupt().source(source))?
        .into_fixed()
        .map_err(|source| corrupt().source(source))?;
        if decoded.len() != decoded_len {
            return Err(wrong_length(decoded.len(), decoded_len));
        }
        Ok(decoded)
    }
}
