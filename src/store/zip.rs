//! A local zip file: values that are stored as they are, are read where they lie; others are inflated once.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zarrs::storage::{Bytes, StoreKey};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::{Value, local};
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::memory::{Scratch, reserve_chunk};

/// Deflate makes no more than this of one byte. Source: zlib's technical notes.
const MOST_DEFLATED: u64 = 1032;

/// A zip file whose members are the values of a store.
pub(crate) struct ZipFile {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    archive: ZipArchive<At>,
    /// What stands in front of the keys in the names of members.
    prefix: String,
}

/// A member that is deflated.
pub(crate) struct Deflated {
    file: Arc<File>,
    start: u64,
    encoded_len: u64,
    len: u64,
    checksum: u32,
    inflated: OnceLock<Bytes>,
}

impl ZipFile {
    /// Opens a zip file, to read the array at `node_path`. Where there is none, but all of the file lies in one folder,
    /// keys are those in the folder.
    pub(super) fn open(path: &Path, node_path: &str) -> Result<Self> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "there is no such file").source(source),
            _ => Error::new(ErrorKind::Store, "the file could not be read").source(source),
        };
        let file = Arc::new(File::open(path).map_err(failed)?);
        let len = file.metadata().map_err(failed)?.len();
        let mut start = [0; 2];
        if len >= 2 && local::read_exact_at(&file, &mut start, 0).is_ok() && start != *b"PK" {
            return Err(Error::new(ErrorKind::Store, "a file that is no zip file")
                .expected("the directory of an array, or a zip file"));
        }
        let archive = ZipArchive::new(At { file: file.clone(), position: 0, len }).map_err(zip_error)?;
        let prefix = folder(&archive, node_path.trim_matches('/'));
        Ok(Self { path: path.to_path_buf(), file, len, archive, prefix })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn number(&self, key: &StoreKey) -> Option<usize> {
        self.archive.index_for_name(&format!("{}{}", self.prefix, key.as_str()))
    }

    pub(super) fn holds(&self, key: &StoreKey) -> bool {
        self.number(key).is_some()
    }

    /// Finds the member for `key`, or `None` if there is none.
    pub(super) fn value(&self, key: &StoreKey) -> Result<Option<Value>> {
        let Some(number) = self.number(key) else { return Ok(None) };
        // A clone shares the directory, and has a position of its own.
        let mut archive = self.archive.clone();
        let member = archive.by_index_raw(number).map_err(zip_error)?;
        if member.encrypted() {
            return Err(Error::new(ErrorKind::Unsupported, "an encrypted member of a zip file").expected("none"));
        }
        let (len, encoded_len) = (member.size(), member.compressed_size());
        let start = member.data_start().ok_or_else(|| damaged("a member without data"))?;
        let end = start.checked_add(encoded_len);
        if end.is_none_or(|end| end > self.len) {
            return Err(damaged("a member that ends behind the file"));
        }
        match member.compression() {
            CompressionMethod::Stored if len == encoded_len => {
                Ok(Some(Value::Local { file: self.file.clone(), start, len }))
            }
            CompressionMethod::DEFLATE if len <= encoded_len.saturating_mul(MOST_DEFLATED).saturating_add(64) => {
                let (file, checksum) = (self.file.clone(), member.crc32());
                let inflated = OnceLock::new();
                Ok(Some(Value::Deflated(Box::new(Deflated { file, start, encoded_len, len, checksum, inflated }))))
            }
            CompressionMethod::Stored | CompressionMethod::DEFLATE => Err(damaged("a member whose lengths do not fit")),
            other => Err(Error::new(ErrorKind::Unsupported, format!("a member of a zip file compressed by {other}"))
                .expected("members that are stored or deflated")),
        }
    }
}

/// The folder that all members lie in, with a slash, unless there are metadata at `node_path`.
fn folder(archive: &ZipArchive<At>, node_path: &str) -> String {
    let slash = if node_path.is_empty() { "" } else { "/" };
    let found = |name: &&str| archive.index_for_name(&format!("{node_path}{slash}{name}")).is_some();
    if ["zarr.json", ".zarray"].iter().any(found) {
        return String::new();
    }
    let mut only: Option<String> = None;
    for name in archive.file_names().flatten() {
        let Some((first, _)) = name.split_once('/') else { return String::new() };
        match &only {
            Some(only) if only != first => return String::new(),
            Some(_) => {}
            None => only = Some(first.to_owned()),
        }
    }
    only.map_or_else(String::new, |folder| folder + "/")
}

impl Deflated {
    /// Length in bytes when it is inflated.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// All bytes, inflated when they are first asked for.
    pub(super) fn bytes(&self) -> Result<&Bytes> {
        if let Some(bytes) = self.inflated.get() {
            return Ok(bytes);
        }
        let mut scratch = Scratch::default();
        let encoded = local::read_at(&self.file, self.start, self.encoded_len, &mut scratch)?;
        let mut bytes = reserve_chunk(self.len as usize)?;
        bytes.resize(self.len as usize, 0);
        let inflated = libdeflater::Decompressor::new()
            .deflate_decompress(encoded, &mut bytes)
            .map_err(|source| damaged("a member that cannot be inflated").source(source))?;
        if inflated as u64 != self.len || libdeflater::crc32(&bytes) != self.checksum {
            return Err(damaged("a member whose length or checksum does not fit"));
        }
        let _held_off = fork::hold_off();
        Ok(self.inflated.get_or_init(|| bytes.into()))
    }
}

fn zip_error(source: ZipError) -> Error {
    match source {
        ZipError::Io(source) => Error::new(ErrorKind::Store, "the zip file could not be read").source(source),
        source => damaged("no valid zip file").source(source),
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Decode, what).remedy("The zip file is truncated or corrupt; write it again.")
}

/// A position in a file that others read too.
#[derive(Clone)]
struct At {
    file: Arc<File>,
    position: u64,
    len: u64,
}

impl Read for At {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.position);
        let len = target.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let target = &mut target[..len];
        local::read_exact_at(&self.file, target, self.position)?;
        self.position += target.len() as u64;
        Ok(target.len())
    }
}

impl Seek for At {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
