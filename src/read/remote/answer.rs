//! One request, and the answer to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zarrs::storage::{Bytes, StoreKey};

use super::units;
use crate::cache::Version;
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::{Remote, Reply, Want};
use crate::turn;

/// One request of a packet.
pub(super) struct Request {
    pub(super) packet: usize,
    pub(super) key: StoreKey,
    pub(super) want: Want,
    pub(super) remote: Arc<Remote>,
    pub(super) checks: Checks,
    /// Whether the packet has memory for it.
    pub(super) has_room: bool,
}

/// What an answer has to be.
#[derive(Clone, Default)]
pub(super) struct Checks {
    /// The most bytes that it can have.
    pub(super) most: Option<u64>,
    /// Bytes that the whole value has to have.
    pub(super) total: Option<u64>,
    /// Only what is not of this version is of interest.
    pub(super) known: Option<Version>,
}

/// What a request brought.
pub(super) enum Brought {
    /// The store does not hold the value.
    Nothing,
    /// The value is what it was.
    NothingNew,
    Bytes(Bytes, Option<Version>, Option<OwnedSemaphorePermit>),
}

/// Where memory is had for an answer.
pub(super) struct Memory {
    pub(super) semaphore: Arc<Semaphore>,
    pub(super) room: usize,
    pub(super) is_limited: bool,
    /// Bytes of requests in flight that have room.
    pub(super) arriving: Arc<AtomicUsize>,
}

pub(super) fn too_little_room(bytes: u64, room: usize) -> Error {
    Error::new(ErrorKind::Allocation, format!("{bytes} encoded bytes have to be held"))
        .expected(format!("at most {room}, what the memory limit leaves for them"))
        .remedy("Raise the memory limit.")
}

pub(super) fn panicked(key: &StoreKey) -> Error {
    Error::new(ErrorKind::Store, "the store panicked")
        .at_key(key.as_str())
        .remedy("That is a bug of the store, or its value is shorter than was asked for.")
}

/// Fetches what is asked for. An answer that has no room in memory waits for it. Tells how long it took until the answer
/// began, and how many bytes it had to get room for.
pub(super) async fn fetch(
    request: &Request,
    memory: Option<Memory>,
    began: Instant,
    (waited, admitted): (&mut Option<Duration>, &mut usize),
) -> Result<Brought> {
    let Request { key, want, remote, checks, .. } = request;
    let reply = remote.ask(key, want, checks.known.as_ref()).await?;
    turn::offer();
    let answer = match reply {
        Reply::Absent => return Ok(Brought::Nothing),
        Reply::Unchanged => return Ok(Brought::NothingNew),
        Reply::Answer(answer) => answer,
    };
    let (len, total, version) = (answer.len, answer.total, answer.version.clone());
    *waited = Some(began.elapsed());
    let wrong = |got: u64, expected: String| {
        Err(Error::new(ErrorKind::Decode, format!("the chunk has {got} encoded bytes"))
            .expected(expected)
            .remedy("The chunk is corrupt; write it again.")
            .at_key(key.as_str()))
    };
    if let Some(most) = checks.most.filter(|most| len > *most) {
        return wrong(len, format!("at most {most}, by the metadata"));
    }
    if let (Some(expected), Some(total)) = (checks.total, total)
        && expected != total
    {
        return wrong(total, format!("{expected}, as it is not compressed"));
    }
    let permit = match memory {
        None => None,
        Some(Memory { semaphore, room, is_limited, arriving }) => {
            if is_limited && len > room as u64 {
                return Err(too_little_room(len, room).at_key(key.as_str()));
            }
            let permit = semaphore.acquire_many_owned(units((len as usize).min(room))).await;
            let permit = permit.map_err(|_| Error::new(ErrorKind::Cancelled, "the read was cancelled"))?;
            *admitted = len as usize;
            arriving.fetch_add(*admitted, Ordering::Relaxed);
            Some(permit)
        }
    };
    let bytes = remote.receive(key, want, answer).await?;
    turn::offer();
    Ok(Brought::Bytes(bytes, version, permit))
}
