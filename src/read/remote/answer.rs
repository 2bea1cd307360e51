//! One request, and the answer to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zarrs::storage::{Bytes, StoreKey};

use super::units;
use crate::cache::Version;
use crate::error::{Error, ErrorKind, Result};
use crate::store::changed;
use crate::store::remote::{Answer, Remote, Reply, Want};
use crate::turn;

/// Values of one array are rarely longer than so many times the usual length.
const LONGER: u64 = 2;

/// So many values of which nothing is known may come at once.
const FIRST: usize = 4;

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
    Bytes(Arrival),
}

/// The bytes of an answer.
pub(super) struct Arrival {
    pub(super) bytes: Bytes,
    /// What tells this writing of the value from others.
    pub(super) version: Option<Version>,
    /// Bytes of the whole value, if the store said it.
    pub(super) total: Option<u64>,
    /// Their share of the memory.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Where memory is had for an answer.
pub(super) struct Memory {
    pub(super) semaphore: Arc<Semaphore>,
    pub(super) room: usize,
    pub(super) is_limited: bool,
    /// How many bytes the answer is expected to have; `None` if nothing tells.
    pub(super) due: Option<usize>,
    /// Bytes of requests in flight that have room.
    pub(super) arriving: Arc<AtomicUsize>,
}

impl Memory {
    /// Takes note that a request has room for `len` bytes, in the place of what it had before.
    fn admit(&self, len: usize, admitted: &mut usize) {
        let len = len.min(self.room);
        self.arriving.fetch_add(len, Ordering::Relaxed);
        self.arriving.fetch_sub(std::mem::replace(admitted, len), Ordering::Relaxed);
    }

    /// Room for `len` bytes, when there is some: all, if they are more than that.
    async fn room_for(&self, len: u64) -> Result<OwnedSemaphorePermit> {
        let permit = self.semaphore.clone().acquire_many_owned(units((len as usize).min(self.room))).await;
        permit.map_err(|_| Error::new(ErrorKind::Cancelled, "the read was cancelled"))
    }
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
    // A store whose answers come whole has no place to leave them until there is room.
    let mut ahead = None;
    if let Some(memory) = memory.as_ref().filter(|memory| memory.is_limited && !remote.tells_lengths()) {
        let most = match memory.due {
            Some(due) => checks.most.unwrap_or(u64::MAX).min((due as u64).saturating_mul(LONGER)),
            None => (memory.room / FIRST) as u64,
        };
        let len = want.len().unwrap_or(most);
        ahead = Some(memory.room_for(len).await?);
        memory.admit(len as usize, admitted);
    }
    let mut answer = match answered(request).await? {
        Ok(answer) => answer,
        Err(nothing) => return Ok(nothing),
    };
    *waited = Some(began.elapsed());
    let (len, total, version) = (answer.len, answer.total, answer.version.clone());
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
        Some(memory) => {
            if memory.is_limited && len > memory.room as u64 {
                return Err(too_little_room(len, memory.room).at_key(key.as_str()));
            }
            let needed = units((len as usize).min(memory.room)) as usize;
            let permit = match ahead {
                None => memory.room_for(len).await?,
                Some(mut permit) if permit.num_permits() >= needed => {
                    drop(permit.split(permit.num_permits() - needed));
                    permit
                }
                Some(permit) => {
                    // It is longer than was known. Who waits for more and keeps what there is may wait for others that do
                    // the same: so it is asked for once more, with as much room as it takes.
                    drop((permit, answer));
                    let permit = memory.room_for(len).await?;
                    answer = match answered(request).await? {
                        Ok(again) if again.len == len => again,
                        _ => return Err(changed().at_key(key.as_str())),
                    };
                    permit
                }
            };
            memory.admit(len as usize, admitted);
            Some(permit)
        }
    };
    let bytes = remote.receive(key, want, answer).await?;
    turn::offer();
    Ok(Brought::Bytes(Arrival { bytes, version, total, permit }))
}

/// The answer to a request, or that it brings nothing.
async fn answered(request: &Request) -> Result<std::result::Result<Answer, Brought>> {
    let reply = request.remote.ask(&request.key, &request.want, request.checks.known.as_ref()).await?;
    turn::offer();
    Ok(match reply {
        Reply::Absent => Err(Brought::Nothing),
        Reply::Unchanged => Err(Brought::NothingNew),
        Reply::Answer(answer) => Ok(answer),
    })
}
