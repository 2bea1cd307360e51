//! Stores that answer after a while, and many requests at once.
//!
//! * [`documents`]: metadata, asked for at once.
//! * [`objects`]: object stores and HTTP servers.
//! * [`flow`]: how many requests at once.
//! * [`runtime`]: the threads that wait.

mod documents;
pub(crate) mod flow;
#[cfg(feature = "object-store")]
mod objects;
mod runtime;

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures_util::stream::{self, Stream, StreamExt};
use zarrs::storage::byte_range::ByteRange;
use zarrs::storage::storage_adapter::sync_to_async::{SyncToAsyncSpawnBlocking, SyncToAsyncStorageAdapter};
use zarrs::storage::{AsyncReadableStorage, Bytes, ReadableStorage, StoreKey};

pub(crate) use self::documents::documents;
pub(crate) use self::flow::Flow;
#[cfg(feature = "object-store")]
pub use self::objects::ObjectStores;
#[cfg(feature = "object-store")]
use self::objects::Objects;
pub(crate) use self::runtime::{runtime, runtime_for_reads, wait};
use super::{changed, short, store_error};
use crate::cache::Version;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::reserve;
use crate::turn;

/// Which bytes of a value are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Want {
    All,
    Range(Range<u64>),
    /// The last so many.
    Suffix(u64),
}

impl Want {
    /// Number of bytes, if it is known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::Range(range) => Some(range.end - range.start),
            Self::Suffix(len) => Some(*len),
        }
    }
}

/// The bytes of an answer, as they come.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// What a store says to a request.
pub(crate) enum Reply {
    /// It does not hold the value.
    Absent,
    /// The value is the one that is known already.
    Unchanged,
    Answer(Answer),
}

/// Begins a version that is a time of modification, as no `ETag` does.
const MODIFIED: char = '\0';

/// Whether two writings of a value never have this version in common.
pub(crate) fn is_exact(version: &Version) -> bool {
    !version.starts_with(MODIFIED)
}

/// An answer that has begun.
pub(crate) struct Answer {
    /// Bytes of the body.
    pub(crate) len: u64,
    /// Bytes of the whole value, if the store said it.
    pub(crate) total: Option<u64>,
    /// What tells this writing of the value from others, if the store said it.
    pub(crate) version: Option<Version>,
    pub(crate) body: Body,
}

/// A store that answers after a while.
pub(crate) struct Remote {
    store: Store,
    flow: Arc<Flow>,
}

enum Store {
    #[cfg(feature = "object-store")]
    Objects(Box<Objects>),
    Storage {
        storage: AsyncReadableStorage,
        /// Where its connections were made.
        process: u32,
    },
}

impl Remote {
    /// A store that `stores` makes; keys are below its prefix.
    #[cfg(feature = "object-store")]
    pub(crate) fn of_objects(stores: ObjectStores) -> Self {
        let flow = stores.link().map_or_else(Arc::default, Flow::of);
        Self { store: Store::Objects(Box::new(Objects::new(stores, flow.pushbacks().clone()))), flow }
    }

    pub(crate) fn of_storage(storage: AsyncReadableStorage) -> Self {
        Self { store: Store::Storage { storage, process: std::process::id() }, flow: Arc::default() }
    }

    /// Whether the store tells one writing of a value from another.
    pub(crate) fn has_versions(&self) -> bool {
        match &self.store {
            #[cfg(feature = "object-store")]
            Store::Objects(_) => true,
            Store::Storage { .. } => false,
        }
    }

    /// Whether an answer says how long it is before its bytes are here.
    pub(crate) fn tells_lengths(&self) -> bool {
        match &self.store {
            #[cfg(feature = "object-store")]
            Store::Objects(_) => true,
            Store::Storage { .. } => false,
        }
    }

    /// What tells the store from all others, if anything does.
    pub(crate) fn identity(&self) -> Option<&str> {
        match &self.store {
            #[cfg(feature = "object-store")]
            Store::Objects(objects) => objects.identity(),
            Store::Storage { .. } => None,
        }
    }

    /// What was seen of the link to the store.
    pub(crate) fn flow(&self) -> &Arc<Flow> {
        &self.flow
    }

    /// Asks for bytes of the value of `key`, unless it is of the version that is `known`.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if the store fails, [`ErrorKind::Decode`] if the value is known not to have the bytes, both
    /// naming the key.
    pub(crate) async fn ask(&self, key: &StoreKey, want: &Want, known: Option<&Version>) -> Result<Reply> {
        let began = Instant::now();
        let answer = match &self.store {
            #[cfg(feature = "object-store")]
            Store::Objects(objects) => objects.ask(key, want, known).await,
            Store::Storage { storage, process } if *process == std::process::id() => ask(storage, key, want).await,
            Store::Storage { .. } => {
                Err(Error::new(ErrorKind::Store, "the store was opened before this process was forked")
                    .expected("a store whose connections are of this process")
                    .remedy("Open the array in the child process, or start that by 'spawn' or 'forkserver'."))
            }
        };
        let answer = answer.and_then(|answer| match (answer, want.len()) {
            (Reply::Answer(answer), Some(expected)) if answer.len < expected => match want {
                Want::Range(range) => Err(short(range.start + answer.len, range.end)),
                _ => Err(short(answer.len, expected)),
            },
            (Reply::Answer(answer), Some(expected)) if answer.len > expected => {
                Err(Error::new(ErrorKind::Store, format!("the store sent {} bytes", answer.len))
                    .expected(format!("{expected}, as it was asked"))
                    .remedy("The server does not heed byte ranges; serve the array by one that does."))
            }
            (answer, _) => Ok(answer),
        });
        if answer.is_ok() {
            self.flow.answered(began.elapsed());
        }
        answer.map_err(|error| error.at_key(key.as_str()))
    }

    /// Receives the bytes of an answer to `want` as one.
    ///
    /// The rest of what is cut off is asked for by `object_store`, if an `ETag` tells that it is of the same value. Otherwise
    /// all of it is asked for once more here, as often as failed requests are repeated.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if there are fewer or more, [`ErrorKind::Allocation`] if there is no memory for them.
    pub(crate) async fn receive(&self, key: &StoreKey, want: &Want, answer: Answer) -> Result<Bytes> {
        let Answer { len, total, version, body } = answer;
        let mut delays = self.delays(version.as_ref());
        let mut received = receive(body, len).await;
        while let Err(error) = &received
            && error.kind() == ErrorKind::Store
            && let Some(delay) = delays.as_mut().and_then(Iterator::next)
        {
            tokio::time::sleep(delay).await;
            received = match self.ask(key, want, None).await? {
                Reply::Answer(again) if (again.len, again.total) == (len, total) => receive(again.body, len).await,
                _ => return Err(changed().at_key(key.as_str())),
            };
        }
        received.map_err(|error| error.at_key(key.as_str()))
    }

    /// How long to wait before each repetition of a request whose answer was cut off, where nobody repeats it else.
    fn delays(&self, version: Option<&Version>) -> Option<Box<dyn Iterator<Item = Duration> + Send>> {
        match &self.store {
            #[cfg(feature = "object-store")]
            Store::Objects(objects) if !version.is_some_and(is_exact) => Some(Box::new(objects.delays())),
            #[cfg(feature = "object-store")]
            Store::Objects(_) => None,
            Store::Storage { .. } => None,
        }
    }

    /// Asks for bytes of the value of `key` and receives them. `None` if the store does not hold it.
    pub(crate) async fn get(&self, key: &StoreKey, want: &Want) -> Result<Option<Bytes>> {
        match self.ask(key, want, None).await? {
            Reply::Absent | Reply::Unchanged => Ok(None),
            Reply::Answer(answer) => self.receive(key, want, answer).await.map(Some),
        }
    }
}

/// Receives the `len` bytes of `body` as one.
async fn receive(mut body: Body, len: u64) -> Result<Bytes> {
    let first = body.next().await.transpose()?.unwrap_or_default();
    if first.len() as u64 == len {
        return Ok(first);
    }
    let remedy = "Give a memory_limit, or read on a machine with more memory.";
    let mut all = reserve(len as usize, "bytes that the store sends", remedy)?;
    let mut next = Some(first);
    while let Some(bytes) = next {
        if (all.len() + bytes.len()) as u64 > len {
            return Err(cut_off(all.len() + bytes.len(), len));
        }
        all.extend_from_slice(&bytes);
        turn::offer();
        next = body.next().await.transpose()?;
    }
    if all.len() as u64 == len { Ok(Bytes::from(all)) } else { Err(cut_off(all.len(), len)) }
}

/// Threads of the runtime that may block.
struct Threads;

impl SyncToAsyncSpawnBlocking for Threads {
    async fn spawn_blocking<F, R>(&self, f: F) -> R
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        match tokio::task::spawn_blocking(f).await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                // Requests expect that.
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// A store whose methods block, asked by threads that do nothing else.
pub(crate) fn on_threads(storage: ReadableStorage) -> AsyncReadableStorage {
    Arc::new(SyncToAsyncStorageAdapter::new(storage, Threads))
}

async fn ask(storage: &AsyncReadableStorage, key: &StoreKey, want: &Want) -> Result<Reply> {
    let bytes = match want {
        Want::All => storage.get(key).await,
        Want::Range(range) => {
            storage.get_partial(key, ByteRange::FromStart(range.start, Some(range.end - range.start))).await
        }
        Want::Suffix(len) => storage.get_partial(key, ByteRange::Suffix(*len)).await,
    };
    let Some(bytes) = bytes.map_err(store_error)? else { return Ok(Reply::Absent) };
    let len = bytes.len() as u64;
    let total = matches!(want, Want::All).then_some(len);
    Ok(Reply::Answer(Answer { len, total, version: None, body: Box::pin(stream::once(async move { Ok(bytes) })) }))
}

fn cut_off(got: usize, expected: u64) -> Error {
    Error::new(ErrorKind::Store, format!("the answer of the store ended after {got} bytes"))
        .expected(format!("{expected} bytes, as its header says"))
        .remedy("The connection was cut off; read again.")
}

/// Whether the server did not allow the request.
fn is_forbidden(error: &Error) -> bool {
    #[cfg(feature = "object-store")]
    return objects::is_forbidden(error);
    #[cfg(not(feature = "object-store"))]
    {
        let _ = error;
        false
    }
}

/// What there is of `keys`, as [`documents`].
#[cfg(feature = "object-store")]
fn get(remote: Remote, keys: &[String], cancel: Arc<AtomicBool>) -> Result<Vec<Option<Vec<u8>>>> {
    let keys = keys
        .iter()
        .map(|key| StoreKey::new(key).map_err(|source| Error::new(ErrorKind::Store, "no valid key").source(source)));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let values = wait(documents(Arc::new(remote), keys), &Cancel::default().with(cancel))?;
    values.into_iter().map(|value| Ok(value?.map(Into::into))).collect()
}
