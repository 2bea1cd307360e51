//! Shards that have to be decoded whole: inside other shards, or behind other codecs.

use std::num::NonZeroU64;

use zarrs::array::codec::ShardingCodec;
use zarrs::array::{Array, FillValue};

use super::{Decoder, DirectScratch, Stored, corrupt, wrong_length};
use crate::chunk::metadata;
use crate::chunk::shard::{Entry, Sharding};
use crate::error::Result;
use crate::memory::reserve_chunk;

pub(super) struct NestedShards {
    sharding: Sharding,
    decoder: Box<Decoder>,
    /// Shape of a subchunk, and subchunks along each axis.
    subchunk: Vec<usize>,
    in_shard: Vec<usize>,
    fill_value: Vec<u8>,
    /// The array's, where elements are of variable length and `fill_value` is of cells.
    variable_fill: Vec<u8>,
    item: usize,
}

impl NestedShards {
    pub(super) fn new(
        array: &Array<()>,
        sharding: &ShardingCodec,
        shape: &[NonZeroU64],
        fill_value: &FillValue,
        stored: &Stored,
    ) -> Result<Self> {
        let parts = metadata::sharding(array, sharding, shape, stored)?;
        let lengths = |shape: &[NonZeroU64]| shape.iter().map(|len| len.get() as usize).collect();
        Ok(Self {
            subchunk: lengths(&parts.read_chunk),
            in_shard: lengths(&parts.in_shard),
            sharding: parts.sharding,
            decoder: Box::new(parts.decoder),
            fill_value: stored.fill_value.as_deref().unwrap_or(fill_value.as_ne_bytes()).to_vec(),
            variable_fill: array.fill_value().as_ne_bytes().to_vec(),
            item: stored.element.size(),
        })
    }

    /// Decodes a whole shard, in C order.
    pub(super) fn decode(&self, encoded: &[u8]) -> Result<Vec<u8>> {
        let mut scratch = DirectScratch::default();
        self.assemble(encoded, &self.fill_value, |subchunk, place| {
            let elements = self.decoder.decode(subchunk, None, &mut scratch)?;
            place(&elements.bytes)
        })
    }

    pub(super) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The fill value where it is of variable length.
    pub(super) fn variable_fill(&self) -> &[u8] {
        &self.variable_fill
    }

    /// Puts the elements of all subchunks, and `fill` for those of missing ones, in their places. `decode` hands the
    /// elements of an encoded subchunk to the function that it is given.
    pub(super) fn assemble(
        &self,
        encoded: &[u8],
        fill: &[u8],
        mut decode: impl FnMut(&[u8], &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let index = self.sharding.decode_edge(encoded)?;
        let shape: Vec<usize> = self.subchunk.iter().zip(&self.in_shard).map(|(len, count)| len * count).collect();
        let len = shape.iter().product::<usize>() * self.item;
        let mut decoded = reserve_chunk(len)?;
        decoded.resize(len, 0);
        let fill = fill.repeat(self.subchunk.last().copied().unwrap_or(1));
        let mut at = vec![0; shape.len()];
        for subchunk in 0..self.in_shard.iter().product::<usize>() {
            unravel(subchunk, &self.in_shard, &mut at);
            let origin: Vec<usize> = at.iter().zip(&self.subchunk).map(|(at, len)| at * len).collect();
            match index.entry(subchunk as u64)? {
                Entry::Missing => self.place(&mut decoded, &shape, &origin, |_, row| row.copy_from_slice(&fill)),
                Entry::Bytes { start, len } => {
                    let bytes = encoded.get(start as usize..(start + len) as usize);
                    let bytes = bytes.ok_or_else(|| wrong_length(encoded.len(), (start + len) as usize))?;
                    decode(bytes, &mut |elements| {
                        let strides = self.decoder.strides();
                        if elements.len() != self.decoder.decoded_len() {
                            return Err(corrupt());
                        }
                        self.place(&mut decoded, &shape, &origin, |at, row| {
                            let start: usize = at.iter().zip(strides).map(|(at, stride)| at * stride).sum();
                            let stride = strides.last().copied().unwrap_or(1);
                            for (i, element) in row.chunks_exact_mut(self.item).enumerate() {
                                let from = (start + i * stride) * self.item;
                                element.copy_from_slice(&elements[from..from + self.item]);
                            }
                        });
                        Ok(())
                    })?;
                }
            }
        }
        Ok(decoded)
    }

    /// Calls `write` for each row along the last axis of the subchunk at `origin`, with the row's position in the
    /// subchunk and its bytes in the shard.
    fn place(&self, shard: &mut [u8], shape: &[usize], origin: &[usize], mut write: impl FnMut(&[usize], &mut [u8])) {
        let axes = self.subchunk.len();
        let (outer, row) = self.subchunk.split_at(axes.saturating_sub(1));
        let row = row.first().copied().unwrap_or(1);
        let mut at = vec![0; axes];
        for line in 0..outer.iter().product::<usize>() {
            unravel(line, outer, &mut at[..outer.len()]);
            let element = (0..axes).fold(0, |element, axis| element * shape[axis] + origin[axis] + at[axis]);
            let start = element * self.item;
            write(&at, &mut shard[start..start + row * self.item]);
        }
    }
}

/// The position in C order of the `index`-th place of `shape`.
fn unravel(mut index: usize, shape: &[usize], at: &mut [usize]) {
    for (at, len) in at.iter_mut().zip(shape).rev() {
        *at = index % len;
        index /= len;
    }
}
