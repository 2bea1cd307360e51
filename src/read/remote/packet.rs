//! What was fetched together, and is decoded together.

use std::ops::Range;

use tokio::sync::OwnedSemaphorePermit;
use zarrs::storage::Bytes;

use crate::cache::{Cached, Found, Promise, Version};
use crate::error::{Error, Result};
use crate::read::column::{Arrived, ColumnRead};
use crate::read::scatter::Claim;
use crate::read::worker::Worker;
use crate::store::Held;
use crate::store::remote::is_exact;
use crate::turn;

/// The bytes that one request brought.
pub(super) struct Part {
    /// Where they lie in the value.
    pub(super) start: u64,
    pub(super) bytes: Bytes,
    /// What tells this writing of the value from others.
    pub(super) version: Option<Version>,
    /// Their share of the memory.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// A read chunk that is wanted.
pub(super) struct Member {
    pub(super) claim: Claim,
    /// Where it lies in the value; `None` if it is all of that.
    pub(super) bytes: Option<Range<u64>>,
    /// What the cache has of it.
    pub(super) cached: Option<Cached>,
    /// It is waited for.
    pub(super) promise: Option<Promise>,
}

impl Member {
    pub(super) fn new(claim: Claim, bytes: Option<Range<u64>>) -> Self {
        Self { claim, bytes, cached: None, promise: None }
    }
}

/// Read chunks of one value, and the bytes that hold them.
pub(in crate::read) struct Packet<'s> {
    read: &'s ColumnRead<'s>,
    members: Vec<Member>,
    parts: Vec<(u64, Bytes)>,
    version: Option<Version>,
    permits: Vec<OwnedSemaphorePermit>,
    /// Requests that found nothing.
    absent: usize,
    /// Whether its bytes are of several writings of the value.
    is_mixed: bool,
    /// Whether anything was fetched: what holds nothing has parts of no bytes.
    is_held: bool,
    /// Whether the index of a shard says that its bytes are there.
    is_promised: bool,
}

impl<'s> Packet<'s> {
    pub(super) fn new(read: &'s ColumnRead<'s>) -> Self {
        let (members, parts, permits) = (Vec::new(), Vec::new(), Vec::new());
        let (version, absent) = (None, 0);
        Self { read, members, parts, version, permits, absent, is_mixed: false, is_held: false, is_promised: false }
    }

    /// One read chunk that is the whole value.
    pub(super) fn of(read: &'s ColumnRead<'s>, member: Member) -> Self {
        Self { members: vec![member], ..Self::new(read) }
    }

    pub(super) fn read(&self) -> &'s ColumnRead<'s> {
        self.read
    }

    pub(super) fn add(&mut self, member: Member) {
        self.members.push(member);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn keep(&mut self, permit: OwnedSemaphorePermit) {
        self.permits.push(permit);
    }

    /// Takes what a request brought, `None` if the store does not hold the value.
    pub(super) fn receive(&mut self, part: Option<Part>) {
        if let Some(Part { start, bytes, version, permit }) = part {
            self.is_held = true;
            self.parts.push((start, bytes));
            self.is_mixed |= matches!((&self.version, &version), (Some(one), Some(other)) if one != other && is_exact(one) && is_exact(other));
            self.version = version.or_else(|| self.version.take());
            self.permits.extend(permit);
            self.renew();
            return;
        }
        self.absent += 1;
        // What was known to be missing still is.
        if self.members.iter().any(|member| matches!(member.cached, Some(Cached::Chunk(_) | Cached::Values(_)))) {
            self.renew();
        }
    }

    /// Says that it takes no bytes of a value that there is.
    pub(super) fn set_empty(&mut self) {
        self.is_held = true;
    }

    /// Says that an index of this version says that its bytes are there.
    pub(super) fn promised(mut self, version: Option<Version>) -> Self {
        self.version = version;
        self.is_promised = true;
        self
    }

    /// Lets go of what was decoded before, because the value has changed.
    fn renew(&mut self) {
        for member in &mut self.members {
            if member.cached.take().is_some() {
                let id = self.read.part().groups().chunks()[member.claim.chunk()];
                if let Some(Found::Miss(promise)) = self.read.cached(id).map(|(cache, at)| cache.renew(at)) {
                    member.promise = Some(promise);
                }
            }
        }
    }

    /// Whether some requests found the value, or its index, and others did not, or found it written anew.
    pub(super) fn is_torn(&self) -> bool {
        self.is_mixed || self.absent > 0 && (self.is_held || self.is_promised)
    }

    /// Read chunks that were fetched.
    pub(super) fn fetched(&self) -> usize {
        if self.is_held { self.members.len() } else { 0 }
    }

    /// Bytes that were fetched.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Says at which key and of which array an error is.
    pub(super) fn locate_error(&self, error: Error) -> Error {
        match self.members.first() {
            Some(member) => self.read.locate_error(error, member.claim.chunk()),
            None => self.read.name_error(error),
        }
    }

    /// Decodes and scatters what was fetched.
    pub(in crate::read) fn decode(mut self, worker: &mut Worker<'_>) -> Result<()> {
        self.parts.sort_unstable_by_key(|(start, _)| *start);
        // In the order of the plan, which writes the result front to back.
        self.members.sort_unstable_by_key(|member| member.claim.chunk());
        for Member { claim, bytes, cached, promise } in self.members {
            if !(worker.go_on)() {
                return Ok(());
            }
            let arrived = match (cached, bytes) {
                (Some(Cached::Chunk(decoded)), _) => Arrived::Decoded(decoded),
                (Some(Cached::Values(values)), _) => Arrived::Values(values),
                (Some(_), _) => Arrived::Missing { is_known: self.absent == 0 },
                _ if !self.is_held => Arrived::Missing { is_known: false },
                (None, Some(range)) => Arrived::Encoded(Held::cut(&self.parts, &range)),
                (None, None) => match self.parts.first() {
                    Some((_, bytes)) => Arrived::Encoded(Held::whole(bytes.clone())),
                    None => Arrived::Missing { is_known: false },
                },
            };
            let keep = promise.map(|promise| (promise, self.version.clone()));
            self.read.arrived(claim, arrived, keep, worker)?;
            turn::offer();
        }
        Ok(())
    }
}
