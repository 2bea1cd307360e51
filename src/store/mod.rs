//! Where encoded bytes come from: a local directory or zip file read directly, any `zarrs` store, or a remote one.

mod held;
mod local;
#[cfg_attr(
    not(feature = "object-store"),
    allow(dead_code, unused_imports, unused_variables, reason = "some is for object stores alone")
)]
pub(crate) mod remote;
mod zip;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use zarrs::storage::byte_range::ByteRange;
use zarrs::storage::{Bytes, ReadableStorage, StorageError, StoreKey};

pub(crate) use self::held::Held;
pub(crate) use self::local::LocalDirectory;
use self::remote::{Remote, Want, documents, wait};
use self::zip::Deflated;
pub(crate) use self::zip::ZipFile;
use crate::cache::Version;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scratch;

/// Which release of the Zarr format an array's metadata follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZarrFormat {
    /// `.zarray` and `.zattrs`.
    V2,
    /// `zarr.json`.
    V3,
}

/// What a request to a store costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The most bytes that are worth reading with one request in the place of several.
    pub(crate) most: usize,
    /// Decoding so many bytes takes no longer than a request.
    pub(crate) worth: usize,
}

/// A source of encoded bytes by key.
#[derive(Clone)]
pub(crate) enum Source {
    Local(Arc<LocalDirectory>),
    Zip(Arc<ZipFile>),
    Storage(ReadableStorage),
    Remote(Arc<Remote>),
}

/// Encoded bytes: in the caller's scratch buffer, or shared by the store.
pub(crate) enum Encoded<'a> {
    Scratch(&'a [u8]),
    Shared(Bytes),
}

impl AsRef<[u8]> for Encoded<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Scratch(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A value of the store that is open for reads of ranges.
pub(crate) enum Value {
    /// `len` bytes of a file.
    Local {
        file: Arc<File>,
        start: u64,
        len: u64,
    },
    Deflated(Box<Deflated>),
    Storage(ReadableStorage),
    Remote(Arc<Remote>),
    /// What was fetched of it.
    Held(Held),
}

impl Source {
    /// The whole value of `key`, or `None` if the store does not hold it.
    pub(crate) fn get<'a>(&self, key: &StoreKey, scratch: &'a mut Scratch) -> Result<Option<Encoded<'a>>> {
        match self.open(key)? {
            Some(value) => value.read_all(key, scratch),
            None => Ok(None),
        }
    }

    /// Opens `key` for reads of ranges. `None` if the store is known not to hold it.
    pub(crate) fn open(&self, key: &StoreKey) -> Result<Option<Value>> {
        match self {
            Self::Local(directory) => {
                let opened = directory.open(key).map_err(|error| error.at_key(key.as_str()))?;
                Ok(opened.map(|(file, len)| Value::Local { file: Arc::new(file), start: 0, len }))
            }
            Self::Zip(zip) => zip.value(key).map_err(|error| error.at_key(key.as_str())),
            Self::Storage(storage) => Ok(Some(Value::Storage(storage.clone()))),
            Self::Remote(remote) => Ok(Some(Value::Remote(remote.clone()))),
        }
    }

    /// The whole values of `keys`, each `None` if the store does not hold it; of a remote store, as
    /// [`documents`](remote::documents).
    pub(crate) fn get_all(&self, keys: &[StoreKey], cancel: &Cancel) -> Vec<Result<Option<Bytes>>> {
        let Self::Remote(remote) = self else {
            let get = |key| {
                let mut scratch = Scratch::default();
                Ok(self.get(key, &mut scratch)?.map(|bytes| match bytes {
                    Encoded::Scratch(bytes) => Bytes::copy_from_slice(bytes),
                    Encoded::Shared(bytes) => bytes,
                }))
            };
            return keys.iter().map(get).collect();
        };
        match wait(documents(remote.clone(), keys.to_vec()), cancel) {
            Ok(values) => values,
            Err(error) => vec![Err(error)],
        }
    }

    /// What tells the values of the store from those of all others, if anything does.
    pub(crate) fn identity(&self) -> Option<String> {
        match self {
            Self::Local(directory) => Some(format!("file:{}", directory.root().display())),
            Self::Zip(zip) => {
                let version = local::version(zip.file())?;
                Some(format!("zip:{}:{version}", zip.path().display()))
            }
            Self::Remote(remote) => remote.identity().map(|identity| format!("remote:{identity}")),
            Self::Storage(_) => None,
        }
    }

    /// Where the store is remote, that.
    pub(crate) fn remote(&self) -> Option<&Arc<Remote>> {
        match self {
            Self::Remote(remote) => Some(remote),
            Self::Local(_) | Self::Zip(_) | Self::Storage(_) => None,
        }
    }

    /// Whether values are files, or parts of one.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_) | Self::Zip(_))
    }

    /// What a request costs: of a file, a system call; else, it may go round the world.
    pub(crate) fn request(&self) -> Request {
        match self {
            // More would only push decoded bytes out of a core's cache.
            Self::Local(_) | Self::Zip(_) => Request { most: 64 << 10, worth: 16 << 10 },
            Self::Storage(_) | Self::Remote(_) => Request { most: 4 << 20, worth: 256 << 10 },
        }
    }

    /// Whether [`hint`](Self::hint) does anything.
    pub(crate) fn takes_hints(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Says that the value of `key` will be read soon. Costs time only if that is wrong, and changes nothing else.
    pub(crate) fn hint(&self, key: &StoreKey) {
        if let Self::Local(directory) = self
            && let Ok(Some((file, len))) = directory.open(key)
        {
            local::hint(&file, 0, len);
        }
    }

    /// Whether the store holds `key`.
    pub(crate) fn holds(&self, key: &StoreKey, cancel: &Cancel) -> Result<bool> {
        match self {
            Self::Local(directory) => directory.holds(key),
            Self::Zip(zip) => Ok(zip.holds(key)),
            Self::Storage(storage) => storage.size_key(key).map(|size| size.is_some()).map_err(store_error),
            Self::Remote(remote) => get_now(remote, key, Want::All, cancel).map(|value| value.is_some()),
        }
        .map_err(|error| error.at_key(key.as_str()))
    }
}

impl Value {
    /// The whole value, or `None` if the store does not hold it.
    pub(crate) fn read_all<'a>(&self, key: &StoreKey, scratch: &'a mut Scratch) -> Result<Option<Encoded<'a>>> {
        match self {
            Self::Local { file, start, len } => {
                local::read_at(file, *start, *len, scratch).map(Encoded::Scratch).map(Some)
            }
            Self::Deflated(value) => value.bytes().map(|bytes| Some(Encoded::Shared(bytes.clone()))),
            Self::Storage(storage) => match storage.get(key) {
                Ok(bytes) => Ok(bytes.map(Encoded::Shared)),
                Err(source) => Err(store_error(source)),
            },
            Self::Remote(remote) => Ok(get_now(remote, key, Want::All, &Cancel::default())?.map(Encoded::Shared)),
            Self::Held(held) => held.read(0, held.len(), scratch).map(Some),
        }
        .map_err(|error: Error| error.at_key(key.as_str()))
    }

    /// What tells this writing of the value from others, if that can be told without asking.
    pub(crate) fn version(&self) -> Option<Version> {
        match self {
            Self::Local { file, .. } => local::version(file),
            Self::Deflated(_) | Self::Storage(_) | Self::Remote(_) | Self::Held(_) => None,
        }
    }

    /// Whether it was fetched already, by the part that is needed of it.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// Whether some of its bytes cost as much as they are to have.
    pub(crate) fn is_read_in_place(&self) -> bool {
        matches!(self, Self::Local { .. } | Self::Held(_))
    }

    /// Says that the bytes `start..start + len` will be read soon.
    pub(crate) fn hint(&self, start: u64, len: u64) {
        if let Self::Local { file, start: first, .. } = self {
            local::hint(file, first.saturating_add(start), len);
        }
    }

    /// Length in bytes, where it is known without asking the store.
    pub(crate) fn known_len(&self) -> Option<u64> {
        match self {
            Self::Local { len, .. } => Some(*len),
            Self::Deflated(value) => Some(value.len()),
            Self::Held(held) => Some(held.len()),
            Self::Storage(_) | Self::Remote(_) => None,
        }
    }

    /// Reads the bytes from `start` on into all of `target`.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub(crate) fn read_into(&self, key: &StoreKey, start: u64, target: &mut [u8]) -> Result<()> {
        match self {
            Self::Local { file, start: first, len } => {
                let end = start.saturating_add(target.len() as u64);
                if end > *len { Err(short(*len, end)) } else { local::read_into(file, first + start, target) }
            }
            Self::Held(held) if start.saturating_add(target.len() as u64) <= held.len() => {
                held.read_into(start, target)
            }
            Self::Deflated(_) | Self::Storage(_) | Self::Remote(_) | Self::Held(_) => {
                let mut unused = Scratch::default();
                let bytes = self.read_range(key, start, target.len() as u64, &mut unused)?;
                target.copy_from_slice(bytes.as_ref());
                Ok(())
            }
        }
        .map_err(|error: Error| error.at_key(key.as_str()))
    }

    /// The first (`from_end` false) or last `len` bytes, or `None` if the store does not hold the value.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if the read fails, [`ErrorKind::Decode`] if the value is shorter than `len`.
    pub(crate) fn read_edge<'a>(
        &self,
        key: &StoreKey,
        len: u64,
        from_end: bool,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Encoded<'a>>> {
        match self {
            Self::Local { .. } | Self::Deflated(_) | Self::Held(_) => {
                let size = self.known_len().unwrap_or_default();
                let past = size.checked_sub(len).ok_or_else(|| short(size, len).at_key(key.as_str()))?;
                return self.read_range(key, if from_end { past } else { 0 }, len, scratch).map(Some);
            }
            Self::Storage(storage) => {
                let range = if from_end { ByteRange::Suffix(len) } else { ByteRange::FromStart(0, Some(len)) };
                // Some stores of zarrs panic on a suffix that is longer than the value.
                match catch_unwind(AssertUnwindSafe(|| storage.get_partial(key, range))) {
                    Ok(Ok(Some(bytes))) if bytes.len() as u64 == len => Ok(Some(Encoded::Shared(bytes))),
                    Ok(Ok(Some(bytes))) => Err(short(bytes.len() as u64, len)),
                    Ok(Ok(None)) => Ok(None),
                    Ok(Err(source)) => Err(store_error(source)),
                    Err(_) => Err(too_short(len)),
                }
            }
            Self::Remote(remote) => {
                let want = if from_end { Want::Suffix(len) } else { Want::Range(0..len) };
                Ok(get_now(remote, key, want, &Cancel::default())?.map(Encoded::Shared))
            }
        }
        .map_err(|error: Error| error.at_key(key.as_str()))
    }

    /// The bytes `start..start + len`.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if the value ends before them, [`ErrorKind::Store`] if the read fails or the value is
    /// gone.
    pub(crate) fn read_range<'a>(
        &self,
        key: &StoreKey,
        start: u64,
        len: u64,
        scratch: &'a mut Scratch,
    ) -> Result<Encoded<'a>> {
        let end = start.checked_add(len).ok_or_else(|| too_short(start).at_key(key.as_str()))?;
        match self {
            Self::Local { len: size, .. } if end > *size => Err(short(*size, end)),
            Self::Local { file, start: first, .. } => {
                local::read_at(file, first + start, len, scratch).map(Encoded::Scratch)
            }
            Self::Deflated(value) if end > value.len() => Err(short(value.len(), end)),
            Self::Deflated(value) => {
                value.bytes().map(|bytes| Encoded::Shared(bytes.slice(start as usize..end as usize)))
            }
            Self::Storage(storage) => match storage.get_partial(key, ByteRange::FromStart(start, Some(len))) {
                Ok(Some(bytes)) if bytes.len() as u64 == len => Ok(Encoded::Shared(bytes)),
                Ok(Some(bytes)) => Err(short(start + bytes.len() as u64, end)),
                Ok(None) => Err(vanished()),
                Err(source) => Err(store_error(source)),
            },
            Self::Remote(remote) => get_now(remote, key, Want::Range(start..end), &Cancel::default())?
                .map(Encoded::Shared)
                .ok_or_else(vanished),
            Self::Held(held) => held.read(start, len, scratch),
        }
        .map_err(|error: Error| error.at_key(key.as_str()))
    }
}

/// Asks a remote store, and waits.
fn get_now(remote: &Arc<Remote>, key: &StoreKey, want: Want, cancel: &Cancel) -> Result<Option<Bytes>> {
    let (remote, key) = (remote.clone(), key.clone());
    wait(async move { remote.get(&key, &want).await }, cancel)?
}

fn vanished() -> Error {
    Error::new(ErrorKind::Store, "the value vanished while it was read")
        .remedy("Do not write to the array during a read; read again.")
}

/// Of a value, what was read belongs to several writings of it, or there was none at times.
pub(crate) fn changed() -> Error {
    Error::new(ErrorKind::Store, "the value changed while it was read")
        .remedy("Do not write to the array during a read; read again.")
}

pub(crate) fn short(got: u64, expected: u64) -> Error {
    truncated(format!("the value has {got} bytes"))
        .expected(format!("at least {expected}, by the metadata or the shard index"))
}

fn too_short(expected: u64) -> Error {
    truncated("the value is too short".to_owned()).expected(format!("at least {expected} bytes"))
}

fn truncated(got: String) -> Error {
    Error::new(ErrorKind::Decode, got).remedy("The value is truncated or its shard index is corrupt; write it again.")
}

/// Translates a failure of a `zarrs` store.
fn store_error(source: StorageError) -> Error {
    if matches!(source, StorageError::InvalidByteRangeError(_)) {
        return truncated("the value ends before the bytes that are read".to_owned()).source(source);
    }
    Error::new(ErrorKind::Store, "the store failed to read")
        .source(source)
        .remedy("See that the store can be reached and read, then read again.")
}

/// Opens a local zip file that holds an array at `node_path`.
pub(crate) fn zip_file(path: &Path, node_path: &str) -> Result<Arc<ZipFile>> {
    ZipFile::open(path, node_path).map(Arc::new)
}

/// A local directory that holds an array.
pub(crate) fn local_directory(root: &Path) -> Arc<LocalDirectory> {
    Arc::new(LocalDirectory::new(root))
}
