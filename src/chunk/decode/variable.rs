//! Read chunks of values of variable length: the bytes of the values, and a cell for each that says where they lie.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use zarrs::array::codec::{ShardingCodec, VlenArrayCodec, VlenBytesCodec, VlenCodec, VlenUtf8Codec, VlenV2Codec};
use zarrs::array::{Array, ArrayBytes, CodecChain, CodecOptions, FillValue, data_type};
use zarrs::plugin::ExtensionName;

use super::chain::{bytes_to_bytes, guard};
use super::direct::transpose_order;
use super::indexed::Indexed;
use super::shards::NestedShards;
use super::swap::{Stored, Swap};
use super::{corrupt, interleaved};
use crate::chunk::cells::{CELL_LEN, Cell, cells};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{grow_chunk, reserve_chunk};

/// Decodes read chunks of values of variable length.
pub(crate) struct Variable {
    codecs: Arc<CodecChain>,
    layout: Layout,
    /// Elements of a read chunk.
    count: usize,
    /// The length of each value is a multiple of this.
    unit: usize,
    /// What is left to do for the native byte order.
    swap: Swap,
    /// Shapes before each array to array codec, where these are undone; they are not where strides do their work.
    stages: Vec<Vec<NonZeroU64>>,
    options: CodecOptions,
}

enum Layout {
    Interleaved,
    Indexed(Box<Indexed>),
    Shards(Box<NestedShards>),
}

/// The elements of a read chunk.
pub(crate) struct Elements<'a> {
    /// A cell for each, in the order of the decoder's strides.
    pub(crate) cells: Vec<u8>,
    /// What the cells name.
    pub(crate) bytes: Cow<'a, [u8]>,
}

impl Variable {
    /// A decoder, and the order in which the stored axes lie where it is not C order.
    pub(super) fn new(
        array: &Array<()>,
        codecs: Arc<CodecChain>,
        shape: &[NonZeroU64],
        stored: &Stored,
        count: usize,
    ) -> Result<(Self, Option<Vec<usize>>)> {
        let misfit = || Error::new(ErrorKind::Metadata, "the codecs do not fit the array");
        let order = match codecs.array_to_array_codecs() {
            [] => Some(None),
            [only] => only.as_any().downcast_ref().and_then(transpose_order).map(Some),
            _ => None,
        };
        let mut inner = shape.to_vec();
        let mut stages = Vec::new();
        for codec in codecs.array_to_array_codecs() {
            stages.push(inner.clone());
            inner = guard(|| codec.encoded_shape(&inner)).map_err(|_| misfit())?;
        }
        if order.is_some() {
            stages.clear();
        }
        let codec = codecs.array_to_bytes_codec();
        let kind = codec.as_any();
        let layout = if kind.is::<VlenUtf8Codec>()
            || kind.is::<VlenBytesCodec>()
            || kind.is::<VlenArrayCodec>()
            || kind.is::<VlenV2Codec>()
        {
            Layout::Interleaved
        } else if let Some(vlen) = kind.downcast_ref::<VlenCodec>() {
            Layout::Indexed(Box::new(Indexed::new(vlen)?))
        } else if let Some(sharding) = kind.downcast_ref::<ShardingCodec>() {
            let fill_value = FillValue::from([0; CELL_LEN]);
            Layout::Shards(Box::new(NestedShards::new(array, sharding, &inner, &fill_value, stored)?))
        } else {
            let name = codec.name_v3().unwrap_or_default();
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("codec '{name}' for data type '{}'", stored.element.zarr_name()),
            )
            .expected("vlen-utf8, vlen-bytes, zarrs.vlen, zarrs.vlen_v2, or sharding_indexed around one of these"));
        };
        let options = CodecOptions::default().with_concurrent_target(1);
        // What lies in shards has its own decoder.
        let swap = stored.swap.clone().filter(|_| !matches!(layout, Layout::Shards(_))).unwrap_or(Swap::None);
        Ok((Self { codecs, layout, count, unit: stored.element.unit(), swap, stages, options }, order.flatten()))
    }

    /// Decodes a read chunk to cells in `buffer`. `None` if that takes more than `bound` bytes at some stage.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the bytes are corrupt or hold another number of elements.
    pub(crate) fn decode<'a>(&self, encoded: &'a [u8], buffer: u64, bound: usize) -> Result<Option<Elements<'a>>> {
        // Checksums, and what incompressible bytes grow by.
        let grown = |codecs: usize| bound.saturating_add(codecs * (bound / 64 + 1024));
        let Some(bytes) = bytes_to_bytes(&self.codecs, encoded, grown, &self.options)? else { return Ok(None) };
        let elements = match &self.layout {
            Layout::Interleaved => {
                Elements { cells: interleaved::parse(&bytes, self.count, self.unit, buffer)?, bytes }
            }
            Layout::Indexed(indexed) => {
                let decoded = indexed.decode(&bytes, self.count, self.unit, buffer, bound, &self.options)?;
                let Some((cells, bytes)) = decoded else { return Ok(None) };
                Elements { cells, bytes: Cow::Owned(bytes) }
            }
            Layout::Shards(shards) => {
                let Some((cells, bytes)) = shards.decode_variable(&bytes, buffer, bound)? else { return Ok(None) };
                Elements { cells, bytes: Cow::Owned(bytes) }
            }
        };
        let Elements { cells: of, mut bytes } = elements;
        if self.swap != Swap::None {
            let bytes = bytes.to_mut();
            for cell in cells(&of) {
                self.swap.apply(&mut bytes[cell.start as usize..(cell.start + cell.len) as usize]);
            }
        }
        Ok(Some(Elements { cells: self.undo_array_to_array(of)?, bytes }))
    }

    /// Undoes the array to array codecs, which move elements about: cells are moved as other elements of their length are.
    fn undo_array_to_array(&self, cells: Vec<u8>) -> Result<Vec<u8>> {
        if self.stages.is_empty() {
            return Ok(cells);
        }
        let (data_type, fill_value) = (data_type::complex128(), FillValue::from([0; CELL_LEN]));
        let mut array = ArrayBytes::new_flen(cells);
        for (codec, shape) in self.codecs.array_to_array_codecs().iter().zip(&self.stages).rev() {
            array = guard(|| codec.decode(array, shape, &data_type, &fill_value, &self.options))?;
        }
        let cells = array.into_fixed().map_err(|source| corrupt().source(source))?.into_owned();
        if cells.len() != self.count * CELL_LEN {
            return Err(corrupt());
        }
        Ok(cells)
    }
}

impl NestedShards {
    /// Decodes a whole shard, in C order: cells in `buffer`, and the bytes that they name. `None` if these are more than
    /// `bound`.
    fn decode_variable(&self, encoded: &[u8], buffer: u64, bound: usize) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let fill = self.variable_fill();
        let mut all = reserve_chunk(fill.len())?;
        all.extend_from_slice(fill);
        let fill = Cell { buffer, start: 0, len: fill.len() as u64 }.to_bytes();
        let mut too_long = false;
        let of = self.assemble(encoded, &fill, |subchunk, place| {
            let left = bound.saturating_sub(all.len());
            let Some(elements) =
                (if too_long { None } else { self.decoder().decode_variable(subchunk, buffer, left)? })
            else {
                too_long = true;
                return Ok(());
            };
            let moved = all.len() as u64;
            grow_chunk(&mut all, elements.bytes.len())?;
            all.extend_from_slice(&elements.bytes);
            if all.len() as u64 > Cell::END {
                too_long = true;
            }
            let mut of = elements.cells;
            for bytes in of.as_chunks_mut::<CELL_LEN>().0 {
                let cell = Cell::from_bytes(*bytes);
                *bytes = Cell { start: cell.start + moved, ..cell }.to_bytes();
            }
            place(&of)
        })?;
        // It may be held for long.
        all.shrink_to_fit();
        Ok((!too_long).then_some((of, all)))
    }
}
