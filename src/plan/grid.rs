//! The geometry of an array's read chunks.

use std::num::NonZeroU64;

use super::lengths::Lengths;
use crate::error::{Error, ErrorKind, Result};

/// A grid of read chunks, optionally grouped in shards.
///
/// Each read chunk has a *key*, a number that ascends in storage order: by shard (C order of the grid of shards), then
/// by subchunk (C order within the shard). Without sharding, a shard is one read chunk. Where shards differ in how many
/// read chunks they have, each has as many keys as the largest, and some are no chunk's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    axes: Vec<Axis>,
    /// Keys of one shard.
    per_shard: u64,
}

/// One axis of a [`Grid`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Axis {
    /// Read chunks, in elements.
    chunks: Lengths,
    /// Shards, in read chunks.
    in_shards: Lengths,
    /// Read chunks along the longest shard.
    in_shard: NonZeroU64,
    /// Shards along the array.
    shards: u64,
    /// Distance of the keys of neighbouring read chunks in one shard.
    inner_stride: u64,
    /// Distance of the keys of equal read chunks in neighbouring shards.
    outer_stride: u64,
}

impl Grid {
    /// A grid over `shape`, in elements, of read chunks of shape `chunk`, `in_shard` of them along each shard.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there are more than 2^63 read chunks.
    #[cfg(test)]
    pub(crate) fn new(shape: &[u64], chunk: &[NonZeroU64], in_shard: &[NonZeroU64]) -> Result<Self> {
        let equal = |lengths: &[NonZeroU64]| lengths.iter().copied().map(Lengths::regular).collect();
        Self::with_lengths(shape, equal(chunk), equal(in_shard))
    }

    /// A grid over `shape`, in elements, of which each axis is cut into read chunks, and these into shards.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there are more than 2^63 read chunks.
    pub(crate) fn with_lengths(shape: &[u64], chunks: Vec<Lengths>, in_shards: Vec<Lengths>) -> Result<Self> {
        let longest = chunks.iter().map(Lengths::longest).collect::<Vec<_>>();
        let too_many = || {
            Error::new(ErrorKind::Unsupported, format!("shape {shape:?} in read chunks of {longest:?}"))
                .expected("at most 2^63 read chunks")
        };
        let mut axes = Vec::with_capacity(shape.len());
        for ((&len, chunks), in_shards) in shape.iter().zip(chunks).zip(in_shards) {
            let in_shard = in_shards.longest();
            chunks.longest().checked_mul(in_shard).ok_or_else(too_many)?;
            let shards = in_shards.count(chunks.count(len));
            axes.push(Axis { chunks, in_shards, in_shard, shards, inner_stride: 0, outer_stride: 0 });
        }
        let mut stride = 1_u64;
        for axis in axes.iter_mut().rev() {
            axis.inner_stride = stride;
            stride = stride.checked_mul(axis.in_shard.get()).ok_or_else(too_many)?;
        }
        let per_shard = stride;
        for axis in axes.iter_mut().rev() {
            axis.outer_stride = stride;
            stride = stride.checked_mul(axis.shards.max(1)).ok_or_else(too_many)?;
        }
        if stride > 1 << 63 {
            return Err(too_many());
        }
        Ok(Self { axes, per_shard })
    }

    /// Number of axes.
    pub(crate) fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// Length of all read chunks on `axis`, in elements, if they have one.
    pub(crate) fn equal_len(&self, axis: usize) -> Option<u64> {
        self.axes.get(axis)?.chunks.equal().map(NonZeroU64::get)
    }

    /// How `axis` is cut into read chunks, in elements.
    #[inline]
    pub(crate) fn chunks(&self, axis: usize) -> &Lengths {
        &self.axes[axis].chunks
    }

    /// How `axis` is cut into shards, in read chunks.
    pub(crate) fn in_shards(&self, axis: usize) -> &Lengths {
        &self.axes[axis].in_shards
    }

    /// Index of the read chunk that holds the element `index` along `axis`.
    #[inline]
    pub(crate) fn chunk_of(&self, axis: usize, index: u64) -> u64 {
        self.axes[axis].chunks.of(index)
    }

    /// One more than the largest key.
    pub(crate) fn keys(&self) -> u64 {
        self.axes.iter().map(|axis| axis.shards).product::<u64>() * self.per_shard
    }

    /// What the read chunk at `index` along `axis` adds to the key.
    #[inline]
    pub(crate) fn key_part(&self, axis: usize, index: u64) -> u64 {
        let axis = &self.axes[axis];
        if axis.in_shard.get() == 1 {
            return index * axis.outer_stride;
        }
        let shard = axis.in_shards.of(index);
        let inner = index - axis.in_shards.bounds(shard).0;
        shard * axis.outer_stride + inner * axis.inner_stride
    }

    /// Index of the read chunk `key` along `axis`.
    pub(crate) fn chunk_index(&self, key: u64, axis: usize) -> u64 {
        let axis = &self.axes[axis];
        let shard = key / axis.outer_stride % axis.shards.max(1);
        axis.in_shards.bounds(shard).0 + axis.inner(key % self.per_shard)
    }

    /// Indices of the read chunk `key` along each axis.
    pub(crate) fn chunk_indices(&self, key: u64, indices: &mut Vec<u64>) {
        indices.clear();
        indices.extend((0..self.ndim()).map(|axis| self.chunk_index(key, axis)));
    }

    /// The length along each axis of the read chunk `key`, in elements; `None` where all are of one shape.
    pub(crate) fn differing_shape(&self, key: u64) -> Option<Vec<u64>> {
        if self.axes.iter().all(|axis| axis.chunks.equal().is_some()) {
            return None;
        }
        let len = |axis| self.chunks(axis).bounds(self.chunk_index(key, axis)).1;
        Some((0..self.ndim()).map(len).collect())
    }

    /// Indices along each axis of the shard that holds the read chunk `key`.
    pub(crate) fn shard_indices(&self, key: u64) -> Vec<u64> {
        self.axes.iter().map(|axis| key / axis.outer_stride % axis.shards.max(1)).collect()
    }

    /// Number of the shard that holds the read chunk `key`.
    pub(crate) fn shard(&self, key: u64) -> u64 {
        key / self.per_shard
    }

    /// Read chunks along each axis of a shard, by its number; `None` where all have as many.
    pub(crate) fn differing_in_shard(&self, shard: u64) -> Option<Vec<u64>> {
        if self.axes.iter().all(|axis| axis.in_shards.equal().is_some()) {
            return None;
        }
        let indices = self.shard_indices(shard * self.per_shard);
        Some(self.axes.iter().zip(indices).map(|(axis, shard)| axis.in_shards.bounds(shard).1).collect())
    }

    /// Position of the read chunk `key` in its shard's index.
    pub(crate) fn in_shard(&self, key: u64) -> u64 {
        let inner = key % self.per_shard;
        match self.differing_in_shard(self.shard(key)) {
            None => inner,
            Some(lengths) => self.axes.iter().zip(lengths).fold(0, |at, (axis, len)| at * len + axis.inner(inner)),
        }
    }
}

impl Axis {
    /// Index of a read chunk along its shard, by its place among the keys of the shard.
    fn inner(&self, key: u64) -> u64 {
        key / self.inner_stride % self.in_shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonzero(values: &[u64]) -> Vec<NonZeroU64> {
        values.iter().map(|&value| NonZeroU64::new(value).unwrap()).collect()
    }

    #[test]
    fn keys_ascend_by_shard_then_subchunk_and_invert() {
        let grid = Grid::new(&[10, 7], &nonzero(&[2, 3]), &nonzero(&[2, 2])).unwrap();
        // Shards of 4 x 6 elements: a 3 x 2 grid of shards, each of 2 x 2 subchunks.
        assert_eq!(grid.keys(), 24);
        let mut seen = vec![false; 24];
        let mut indices = Vec::new();
        for y in 0..6 {
            for x in 0..4 {
                let key = grid.key_part(0, y) + grid.key_part(1, x);
                grid.chunk_indices(key, &mut indices);
                assert_eq!(indices, [y, x]);
                assert_eq!(grid.shard_indices(key), [y / 2, x / 2]);
                assert_eq!(grid.shard(key), (y / 2) * 2 + x / 2);
                assert_eq!(grid.in_shard(key), (y % 2) * 2 + x % 2);
                assert!(!std::mem::replace(&mut seen[key as usize], true));
            }
        }
        assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn huge_grids_are_counted_not_enumerated() {
        let grid = Grid::new(&[1 << 60], &nonzero(&[1 << 23]), &nonzero(&[1])).unwrap();
        assert_eq!(grid.keys(), 1 << 37);
        let many = Grid::new(&[1 << 40, 1 << 40], &nonzero(&[1, 1]), &nonzero(&[1, 1]));
        assert_eq!(many.unwrap_err().kind(), ErrorKind::Unsupported);
    }

    /// Shards of 4, 2 and 6 elements by shards of 3 and 9, in subchunks of 2 by 3; chunks of 4, 2 and 6 by 3 and 9.
    #[test]
    fn keys_of_differing_chunks_and_shards_invert() {
        let lengths =
            |parts: &[u64], axis| Lengths::new(axis, parts.iter().map(|&len| (nonzero(&[len])[0], NonZeroU64::MIN)));
        let (rows, columns) = (lengths(&[4, 2, 6], 11).unwrap(), lengths(&[3, 9], 10).unwrap());
        let [two, three] = [2, 3].map(|len| NonZeroU64::new(len).unwrap());
        let in_shards = vec![rows.divided(two).unwrap(), columns.divided(three).unwrap()];
        let grid =
            Grid::with_lengths(&[11, 10], vec![Lengths::regular(two), Lengths::regular(three)], in_shards).unwrap();
        assert_eq!((grid.keys(), grid.differing_shape(0)), (54, None));
        let (shard_of_row, shard_of_column) = ([0, 0, 1, 2, 2, 2], [0, 1, 1, 1]);
        let (first_row, first_column, counts) = ([0, 2, 3], [0, 1], ([2, 1, 3], [1, 3]));
        let mut indices = Vec::new();
        let mut keys = Vec::new();
        for y in 0..6 {
            for x in 0..4 {
                let key = grid.key_part(0, y) + grid.key_part(1, x);
                keys.push(key);
                grid.chunk_indices(key, &mut indices);
                assert_eq!(indices, [y, x]);
                let (row, column) = (shard_of_row[y as usize], shard_of_column[x as usize]);
                assert_eq!(grid.shard_indices(key), [row as u64, column as u64]);
                let count = [counts.0[row], counts.1[column]];
                assert_eq!(grid.differing_in_shard(grid.shard(key)), Some(count.to_vec()));
                assert_eq!(grid.in_shard(key), (y - first_row[row]) * count[1] + x - first_column[column]);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 24);
        let ones = || vec![Lengths::regular(NonZeroU64::MIN); 2];
        let grid = Grid::with_lengths(&[11, 10], vec![rows, columns], ones()).unwrap();
        assert_eq!((grid.keys(), grid.equal_len(0), grid.differing_in_shard(5)), (6, None, None));
        assert_eq!(
            (0..6).map(|key| grid.differing_shape(key).unwrap()).collect::<Vec<_>>(),
            [[4, 3], [4, 9], [2, 3], [2, 9], [6, 3], [6, 9],]
        );
    }

    #[test]
    fn zero_dimensions_have_one_chunk() {
        let grid = Grid::new(&[], &[], &[]).unwrap();
        assert_eq!((grid.keys(), grid.per_shard), (1, 1));
    }
}
