//! Where encoded bytes come from: a local directory read directly, or any `zarrs` store.

mod local;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use zarrs::storage::byte_range::ByteRange;
use zarrs::storage::{Bytes, ReadableStorage, StorageError, StoreKey};

pub(crate) use self::local::LocalDirectory;
use crate::error::{Error, ErrorKind, Result};

/// Which release of the Zarr format an array's metadata follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZarrFormat {
    /// `.zarray` and `.zattrs`.
    V2,
    /// `zarr.json`.
    V3,
}

/// A source of encoded bytes by key.
#[derive(Clone)]
pub(crate) enum Source {
    Local(Arc<LocalDirectory>),
    Storage(ReadableStorage),
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
    Local { file: File, len: u64 },
    Storage(ReadableStorage),
}

impl Source {
    /// The whole value of `key`, or `None` if the store does not hold it.
    pub(crate) fn get<'a>(&self, key: &StoreKey, scratch: &'a mut Vec<u8>) -> Result<Option<Encoded<'a>>> {
        let at_key = |error: Error| error.at_key(key.as_str());
        match self {
            Self::Local(directory) => {
                let Some((file, len)) = directory.open(key).map_err(at_key)? else { return Ok(None) };
                local::read_at(&file, 0, len, scratch).map(|bytes| Some(Encoded::Scratch(bytes))).map_err(at_key)
            }
            Self::Storage(storage) => {
                Ok(storage.get(key).map_err(|source| at_key(store_error(source)))?.map(Encoded::Shared))
            }
        }
    }

    /// Opens `key` for reads of ranges. `None` if the store is known not to hold it.
    pub(crate) fn open(&self, key: &StoreKey) -> Result<Option<Value>> {
        match self {
            Self::Local(directory) => {
                let opened = directory.open(key).map_err(|error| error.at_key(key.as_str()))?;
                Ok(opened.map(|(file, len)| Value::Local { file, len }))
            }
            Self::Storage(storage) => Ok(Some(Value::Storage(storage.clone()))),
        }
    }

    /// Whether the store holds `key`.
    pub(crate) fn holds(&self, key: &StoreKey) -> Result<bool> {
        match self {
            Self::Local(directory) => directory.holds(key),
            Self::Storage(storage) => storage.size_key(key).map(|size| size.is_some()).map_err(store_error),
        }
        .map_err(|error| error.at_key(key.as_str()))
    }
}

impl Value {
    /// The first (`from_end` false) or last `len` bytes, or `None` if the store does not hold the value.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if the read fails, [`ErrorKind::Decode`] if the value is shorter than `len`.
    pub(crate) fn read_edge<'a>(
        &self,
        key: &StoreKey,
        len: u64,
        from_end: bool,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<Encoded<'a>>> {
        match self {
            Self::Local { file, len: size } => match size.checked_sub(len) {
                Some(past) => {
                    local::read_at(file, if from_end { past } else { 0 }, len, scratch).map(Encoded::Scratch).map(Some)
                }
                None => Err(short(*size, len)),
            },
            Self::Storage(storage) => {
                let range = if from_end { ByteRange::Suffix(len) } else { ByteRange::FromStart(0, Some(len)) };
                match storage.get_partial(key, range) {
                    Ok(Some(bytes)) if bytes.len() as u64 == len => Ok(Some(Encoded::Shared(bytes))),
                    Ok(Some(bytes)) => Err(short(bytes.len() as u64, len)),
                    Ok(None) => Ok(None),
                    Err(source) => Err(store_error(source)),
                }
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
        scratch: &'a mut Vec<u8>,
    ) -> Result<Encoded<'a>> {
        let end = start.checked_add(len).ok_or_else(|| short(u64::MAX, u64::MAX).at_key(key.as_str()))?;
        match self {
            Self::Local { file, len: size } => {
                if end > *size {
                    return Err(short(*size, end).at_key(key.as_str()));
                }
                local::read_at(file, start, len, scratch).map(Encoded::Scratch)
            }
            Self::Storage(storage) => match storage.get_partial(key, ByteRange::FromStart(start, Some(len))) {
                Ok(Some(bytes)) if bytes.len() as u64 == len => Ok(Encoded::Shared(bytes)),
                Ok(Some(bytes)) => Err(short(start + bytes.len() as u64, end)),
                Ok(None) => Err(Error::new(ErrorKind::Store, "the value vanished while it was read")
                    .remedy("Do not write to the array during a read; read again.")),
                Err(source) => Err(store_error(source)),
            },
        }
        .map_err(|error: Error| error.at_key(key.as_str()))
    }
}

fn short(got: u64, expected: u64) -> Error {
    Error::new(ErrorKind::Decode, format!("the value has {got} bytes"))
        .expected(format!("at least {expected}, by the metadata or the shard index"))
        .remedy("The value is truncated or its shard index is corrupt; write it again.")
}

/// Translates a failure of a `zarrs` store.
fn store_error(source: StorageError) -> Error {
    if matches!(source, StorageError::InvalidByteRangeError(_)) {
        return Error::new(ErrorKind::Decode, "the value ends before the bytes that are read")
            .source(source)
            .remedy("The value is truncated or its shard index is corrupt; write it again.");
    }
    Error::new(ErrorKind::Store, "the store failed to read").source(source)
}

/// A local directory that holds an array.
pub(crate) fn local_directory(root: &Path) -> Arc<LocalDirectory> {
    Arc::new(LocalDirectory::new(root))
}
