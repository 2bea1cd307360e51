//! What takes long is shared with the crew: rows, parts of a row, parts of a run.
#![deny(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{BATCH, PieceScratch, Scatter, fill_run};
use crate::error::Result;
use crate::plan::tiling::Picks;
use crate::read::hops::{Hop, Hops};

/// Hops that are worth going to a place for.
const LEAST_HOPS: usize = 64;

impl Scatter<'_> {
    /// Has `copy` copy the hops of a list, of `bytes` bytes together: all at once, or parts of it by the crew.
    pub(super) fn share_hops(&self, bytes: usize, hops: &Hops, copy: impl Fn(&[Hop]) + Sync) -> Result<()> {
        let parts = bytes / self.crew.worth();
        let list = hops.list();
        if parts < 2 || list.len() < 2 {
            copy(list);
            return Ok(());
        }
        // Each part goes through all places of the outer axes.
        let len = list.len().div_ceil(parts).max(list.len().min(LEAST_HOPS));
        self.crew.share(list.chunks(len), &mut (), &|list, ()| {
            copy(list);
            Ok(())
        })
    }

    /// Has `copy` copy all rows, some at a time; it gives how many bytes these were. What takes long is shared with the
    /// crew.
    pub(super) fn for_rows(
        &self,
        rows: &[u32],
        scratch: &mut PieceScratch,
        copy: impl Fn(&[u32], &mut PieceScratch) -> Result<usize> + Sync,
    ) -> Result<()> {
        let worth = self.crew.worth();
        let (mut rest, mut some, mut copied) = (rows, BATCH, 0);
        // How many rows take so many bytes, if they go on as before.
        let rows_of = |bytes: usize, done: usize, copied: usize| {
            (done as u128 * bytes as u128 / copied.max(1) as u128).min(64 * done as u128) as usize
        };
        while !rest.is_empty() && copied < worth {
            let (part, left) = rest.split_at(some.min(rest.len()));
            copied += copy(part, scratch)?;
            rest = left;
            some = rows_of(worth.saturating_sub(copied), rows.len() - rest.len(), copied).max(BATCH);
        }
        self.copied.fetch_add(copied, Ordering::Relaxed);
        if rest.is_empty() {
            return Ok(());
        }
        let grain = rows_of(worth, rows.len() - rest.len(), copied).max(1);
        self.crew.share(rest.chunks(grain), scratch, &|rows, scratch| {
            self.copied.fetch_add(copy(rows, scratch)?, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Copies many bytes, parts of them by the crew.
    pub(super) fn copy_shared(&self, source: &[u8], target: &mut [u8]) -> Result<()> {
        let worth = self.crew.worth();
        let parts = source.chunks(worth).zip(target.chunks_mut(worth));
        self.crew.share(parts, &mut (), &|(source, target), ()| {
            target.copy_from_slice(source);
            Ok(())
        })
    }

    /// Has `write` write single elements, of which it gives how many bytes: all at once, or parts of them by the crew.
    pub(super) fn share_picks(
        &self,
        picks: &Picks<'_>,
        write: impl Fn(&Picks<'_>) -> Result<usize> + Sync,
    ) -> Result<usize> {
        // Each of them costs more than its bytes.
        let many = (self.crew.worth() / 32).max(1);
        if picks.len() < 2 * many {
            return write(picks);
        }
        let written = AtomicUsize::new(0);
        self.crew.share(picks.parts(many), &mut (), &|picks, ()| {
            written.fetch_add(write(&picks)?, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(written.into_inner())
    }

    /// Repeats `value` over `bytes`; of many, parts are left to the crew.
    pub(super) fn fill_shared(&self, bytes: &mut [u8], value: &[u8]) -> Result<()> {
        let worth = self.crew.worth().next_multiple_of(value.len());
        if bytes.len() < 2 * worth {
            fill_run(bytes, value);
            return Ok(());
        }
        self.crew.share(bytes.chunks_mut(worth), &mut (), &|bytes, ()| {
            fill_run(bytes, value);
            Ok(())
        })
    }
}
