//! A local directory, read without detours: open, size, positioned reads into the caller's buffer.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use zarrs::storage::StoreKey;

use crate::cache::Version;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Scratch;

/// A directory whose files are the values of a store: the key is the path below it.
#[derive(Debug)]
pub(crate) struct LocalDirectory {
    root: PathBuf,
}

impl LocalDirectory {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Opens the value of `key` and tells its length in bytes, or `None` if there is no such file.
    pub(super) fn open(&self, key: &StoreKey) -> Result<Option<(File, u64)>> {
        let file = match open(&self.root.join(key.as_str())) {
            Ok(file) => file,
            Err(source) if is_absent(&source) => return Ok(None),
            Err(source) => return Err(read_error(source)),
        };
        let metadata = file.metadata().map_err(read_error)?;
        if !metadata.is_file() {
            return Err(Error::new(ErrorKind::Store, "a directory or special file").expected("a regular file"));
        }
        Ok(Some((file, metadata.len())))
    }

    /// Whether there is a file for `key`.
    pub(super) fn holds(&self, key: &StoreKey) -> Result<bool> {
        match fs::metadata(self.root.join(key.as_str())) {
            Ok(_) => Ok(true),
            Err(source) if is_absent(&source) => Ok(false),
            Err(source) => Err(read_error(source)),
        }
    }
}

/// Opens a file for reading; does not wait for a writer where it is a named pipe.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reads `len` bytes from `offset` into the front of `scratch`.
pub(super) fn read_at<'a>(file: &File, offset: u64, len: u64, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
    let target = scratch.grow(len as usize)?;
    read_into(file, offset, target)?;
    Ok(target)
}

/// Fills `target` with the bytes from `offset` on.
pub(super) fn read_into(file: &File, offset: u64, target: &mut [u8]) -> Result<()> {
    read_exact_at(file, target, offset).map_err(read_error)
}

/// What tells this writing of a file from others.
pub(super) fn version(file: &File) -> Option<Version> {
    let metadata = file.metadata().ok()?;
    let modified = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some(format!("{}-{}-{number}", modified.as_nanos(), metadata.len()).into())
}

/// Has the system read bytes ahead into its page cache. It may decline.
#[cfg(target_os = "linux")]
pub(super) fn hint(file: &File, start: u64, len: u64) {
    let _ = rustix::fs::fadvise(file, start, std::num::NonZeroU64::new(len), rustix::fs::Advice::WillNeed);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn hint(_: &File, _: u64, _: u64) {}

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, target: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, target, offset)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut target: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !target.is_empty() {
        match file.seek_read(target, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                target = &mut target[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A missing file, or a path that runs through a file, is an absent key.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn read_error(source: io::Error) -> Error {
    let remedy = match source.kind() {
        io::ErrorKind::PermissionDenied => Some("Grant this user the right to read the file."),
        io::ErrorKind::UnexpectedEof => Some("The file shrank while it was read; read again."),
        _ => None,
    };
    let error = Error::new(ErrorKind::Store, "the file could not be read").source(source);
    match remedy {
        Some(remedy) => error.remedy(remedy),
        None => error,
    }
}
