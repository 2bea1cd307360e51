//! The geometry of an array's read chunks.

use std::num::NonZeroU64;

use crate::error::{Error, ErrorKind, Result};

/// A regular grid of read chunks, optionally grouped in shards.
///
/// Each read chunk has a *key*, a number that ascends in storage order: by shard (C order of the grid of shards), then
/// by subchunk (C order within the shard). Without sharding, a shard is one read chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    axes: Vec<Axis>,
    /// Read chunks in one shard.
    per_shard: u64,
}

/// One axis of a [`Grid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    /// Length of a read chunk, in elements.
    chunk: Divisor,
    /// Read chunks along one shard.
    in_shard: Divisor,
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
    pub(crate) fn new(shape: &[u64], chunk: &[NonZeroU64], in_shard: &[NonZeroU64]) -> Result<Self> {
        let too_many = || {
            Error::new(ErrorKind::Unsupported, format!("shape {shape:?} in read chunks of {chunk:?}"))
                .expected("at most 2^63 read chunks")
        };
        let mut axes = Vec::with_capacity(shape.len());
        for ((&len, &chunk), &in_shard) in shape.iter().zip(chunk).zip(in_shard) {
            let shard = chunk.checked_mul(in_shard).ok_or_else(too_many)?;
            let shards = len.div_ceil(shard.get());
            let (chunk, in_shard) = (Divisor::new(chunk), Divisor::new(in_shard));
            axes.push(Axis { chunk, in_shard, shards, inner_stride: 0, outer_stride: 0 });
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

    /// Length of a read chunk on `axis`, in elements.
    pub(crate) fn chunk_len(&self, axis: usize) -> u64 {
        self.axes[axis].chunk.get()
    }

    /// Index of the read chunk that holds the element `index` along `axis`.
    #[inline]
    pub(crate) fn chunk_of(&self, axis: usize, index: u64) -> u64 {
        self.axes[axis].chunk.divide(index)
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
        let shard = axis.in_shard.divide(index);
        let inner = index - shard * axis.in_shard.get();
        shard * axis.outer_stride + inner * axis.inner_stride
    }

    /// Index of the read chunk `key` along `axis`.
    pub(crate) fn chunk_index(&self, key: u64, axis: usize) -> u64 {
        let axis = &self.axes[axis];
        let shard = key / axis.outer_stride % axis.shards.max(1);
        let inner = key % self.per_shard / axis.inner_stride % axis.in_shard.get();
        shard * axis.in_shard.get() + inner
    }

    /// Indices of the read chunk `key` along each axis.
    pub(crate) fn chunk_indices(&self, key: u64, indices: &mut Vec<u64>) {
        indices.clear();
        indices.extend((0..self.ndim()).map(|axis| self.chunk_index(key, axis)));
    }

    /// Indices along each axis of the shard that holds the read chunk `key`.
    pub(crate) fn shard_indices(&self, key: u64) -> Vec<u64> {
        self.axes.iter().map(|axis| key / axis.outer_stride % axis.shards.max(1)).collect()
    }

    /// Number of the shard that holds the read chunk `key`.
    pub(crate) fn shard(&self, key: u64) -> u64 {
        key / self.per_shard
    }

    /// Position of the read chunk `key` in its shard's index.
    pub(crate) fn in_shard(&self, key: u64) -> u64 {
        key % self.per_shard
    }
}

/// What indices are divided by again and again: a multiplication takes a fraction of a division's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor {
    by: NonZeroU64,
    /// 2^64 / `by`, rounded up; 0 where that is 2^64.
    reciprocal: u64,
    /// Up to here, the product with the reciprocal has the quotient in its upper half: it is too large by less than
    /// `index * by / 2^64` of one `by`-th.
    most: u64,
}

impl Divisor {
    fn new(by: NonZeroU64) -> Self {
        let most = if by.get() == 1 { 0 } else { u64::MAX / by };
        Self { by, reciprocal: (u64::MAX / by).wrapping_add(1), most }
    }

    fn get(self) -> u64 {
        self.by.get()
    }

    #[inline]
    fn divide(self, index: u64) -> u64 {
        if index <= self.most {
            return ((u128::from(index) * u128::from(self.reciprocal)) >> 64) as u64;
        }
        index / self.by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_exactly() {
        let near = |value: u64| (value.saturating_sub(3)..=value.saturating_add(3)).collect::<Vec<_>>();
        let interesting = || (0..64).map(|bit| 1_u64 << bit).chain([10, 1000, 100_000, 11_529_215, u64::MAX / 3]);
        for by in interesting().flat_map(near).filter_map(NonZeroU64::new) {
            let divisor = Divisor::new(by);
            let multiples = [1, 2, 7, 1 << 20, divisor.most / by].map(|times| by.get().saturating_mul(times));
            for index in interesting().chain([0, divisor.most, u64::MAX]).chain(multiples).flat_map(near) {
                assert_eq!(divisor.divide(index), index / by, "{index} / {by}");
            }
        }
    }

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

    #[test]
    fn zero_dimensions_have_one_chunk() {
        let grid = Grid::new(&[], &[], &[]).unwrap();
        assert_eq!((grid.keys(), grid.per_shard), (1, 1));
    }
}
