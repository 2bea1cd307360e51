//! What one worker has: buffers that it reuses from chunk to chunk, and its share of the memory.

use super::budget::Reservation;
use super::demand::Need;
use super::scatter::PieceScratch;
use super::stats::Counters;
use crate::chunk::DirectScratch;
use crate::error::Result;
use crate::memory::Scratch;
use crate::store::Encoded;

/// One worker of a read.
pub(super) struct Worker<'r> {
    pub(super) scratch: WorkerScratch,
    pub(super) reservation: Reservation<'r>,
    pub(super) counters: &'r Counters,
    /// Whether the read goes on; if not, what is claimed may be left.
    pub(super) go_on: &'r (dyn Fn() -> bool + Sync),
}

/// Buffers and contexts that one worker reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct WorkerScratch {
    pub(super) encoded: Scratch,
    pub(super) index: Scratch,
    pub(super) direct: DirectScratch,
    /// Elements of another type than the array's.
    pub(super) cast: Scratch,
    pub(super) pieces: PieceScratch,
}

impl WorkerScratch {
    /// Bytes of the large buffers.
    pub(super) fn len(&self) -> usize {
        self.encoded.len() + self.index.len() + self.direct.len() + self.cast.len()
    }

    /// Bytes of the large buffers once there is room for `need` in them.
    pub(super) fn len_with(&self, need: &Need) -> usize {
        [
            self.encoded.len().max(need.encoded),
            self.index.len().max(need.index),
            self.direct.len().max(need.decoded),
            self.cast.len().max(need.cast),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// Frees the large buffers.
    pub(super) fn clear(&mut self) {
        self.encoded = Scratch::default();
        self.index = Scratch::default();
        self.direct.clear();
        self.cast = Scratch::default();
    }
}

impl<'r> Worker<'r> {
    /// A worker with buffers that may have served another read.
    pub(super) fn new(
        mut scratch: WorkerScratch,
        reservation: Reservation<'r>,
        counters: &'r Counters,
        go_on: &'r (dyn Fn() -> bool + Sync),
    ) -> Self {
        scratch.direct.is_limited = reservation.limit().is_some();
        Self { scratch, reservation, counters, go_on }
    }

    /// Makes sure that what `need` says may be held, to read `what`.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`](crate::ErrorKind::Allocation) if that is more than the limit.
    pub(super) fn require(&mut self, need: &Need, what: &str) -> Result<()> {
        let Self { scratch, reservation, .. } = self;
        reservation.require(need.total(), scratch.len_with(need), what, || scratch.clear())
    }

    /// Frees what is held of limited memory.
    pub(super) fn let_go(&mut self) {
        if self.reservation.limit().is_some() {
            self.scratch.clear();
            self.reservation.release();
        }
    }

    /// Takes note of how much is held after a read, with `shared` bytes that the store handed out.
    pub(super) fn hold(&mut self, shared: usize) {
        if shared > 0 {
            self.reservation.hold(self.scratch.len().saturating_add(shared));
        }
        self.reservation.hold(self.scratch.len());
    }
}

/// How many bytes the store handed out, rather than had them read into a buffer.
pub(super) fn shared_len(encoded: &Encoded<'_>) -> usize {
    match encoded {
        Encoded::Scratch(_) => 0,
        Encoded::Shared(bytes) => bytes.len(),
    }
}
