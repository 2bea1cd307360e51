//! The decoders of an array whose read chunks may differ in shape: one for each shape, made when it is first needed.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use zarrs::array::Array;

use super::decode::{Decoder, Stored};
use super::foreign::{self, ForeignCodecs, ForeignDecoder};
use super::metadata;
use super::taken::Taken;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::store::ZarrFormat;

/// The decoders of so many shapes are kept: there may be as many shapes as chunks.
const MOST_KEPT: usize = 1 << 10;

pub(crate) struct Decoders {
    longest: Decoder,
    taken: Taken,
    foreign: Option<ForeignChunks>,
    others: RwLock<HashMap<Vec<u64>, Arc<Decoder>>>,
}

/// What decodes chunks with codecs that this crate does not have.
pub(super) struct ForeignChunks {
    pub(super) codecs: Arc<dyn ForeignCodecs>,
    /// The metadata document of an array that is a chunk, without its shape.
    pub(super) document: Value,
    pub(super) format: ZarrFormat,
}

impl Decoders {
    /// `longest` decodes the longest read chunks.
    pub(super) fn new(longest: Decoder, taken: Taken) -> Self {
        Self { longest, taken, foreign: None, others: RwLock::default() }
    }

    /// Has the read chunks decoded by `foreign` from now on; the longest are of this shape.
    ///
    /// # Errors
    /// If `foreign` has no decoder for them.
    pub(super) fn replace(
        &mut self,
        foreign: ForeignChunks,
        longest: &[NonZeroU64],
    ) -> std::result::Result<(), foreign::ForeignError> {
        let decoder = foreign.decoder(longest)?;
        self.replace_with(foreign, decoder);
        Ok(())
    }

    /// As [`replace`](Self::replace), with the decoder of the longest read chunks.
    pub(super) fn replace_with(&mut self, foreign: ForeignChunks, longest: Arc<dyn ForeignDecoder>) {
        self.longest.replace(longest);
        self.foreign = Some(foreign);
    }

    /// The decoder of the longest read chunks, and of all if they are of one shape.
    pub(crate) fn longest(&self) -> &Decoder {
        &self.longest
    }

    /// The decoder of the read chunks of `array` that have this shape.
    ///
    /// # Errors
    /// [`ErrorKind::Metadata`] or [`ErrorKind::Unsupported`] if the codecs do not fit the shape.
    pub(super) fn of_shape(&self, shape: &[u64], array: &Array<()>, stored: &Stored) -> Result<Arc<Decoder>> {
        {
            let _held_off = fork::hold_off();
            if let Some(known) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(shape) {
                return Ok(known.clone());
            }
        }
        let empty = || Error::new(ErrorKind::Internal, "a read chunk without elements");
        let lengths = shape.iter().map(|&len| NonZeroU64::new(len)).collect::<Option<Vec<_>>>().ok_or_else(empty)?;
        let mut decoder = metadata::decoder(array, &lengths, stored, &self.taken)?;
        if let Some(foreign) = &self.foreign {
            decoder.replace(foreign.decoder(&lengths).map_err(|source| {
                Error::new(ErrorKind::Unsupported, format!("a chunk of shape {shape:?}"))
                    .source(foreign::Foreign(source))
            })?);
        }
        let decoder = Arc::new(decoder);
        // Not while it is made, which may ask Python.
        let _held_off = fork::hold_off();
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if others.len() < MOST_KEPT {
            others.insert(shape.to_vec(), decoder.clone());
        }
        Ok(decoder)
    }
}
