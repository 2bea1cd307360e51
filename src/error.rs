//! One error type: a kind, where it happened, what was got, what was expected, and what to do about it.

use std::fmt;

/// The result of everything that can fail in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for programs to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A selection is out of bounds, malformed, or does not fit the array or the other selections.
    Selection,
    /// The store failed: a read error, a short read, a key that may not be read.
    Store,
    /// There is no array at the given place.
    NotFound,
    /// The array's metadata is no valid Zarr metadata.
    Metadata,
    /// Encoded bytes could not be decoded: truncated, corrupt, or of the wrong length.
    Decode,
    /// Valid, but this release cannot do it: a codec, a data type, a chunk grid, a number of threads.
    Unsupported,
    /// The result or a buffer is too large for this machine.
    Allocation,
    /// The caller cancelled the read.
    Cancelled,
    /// The read took longer than it was allowed to.
    TimedOut,
    /// A bug in this crate; please report it.
    Internal,
}

/// An error of this crate.
///
/// The message names the selection or the key, then what was got, what was expected, and a remedy.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    selection: Option<usize>,
    array: Option<String>,
    key: Option<String>,
    got: String,
    expected: Option<String>,
    remedy: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, got: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            selection: None,
            array: None,
            key: None,
            got: got.into(),
            expected: None,
            remedy: None,
            source: None,
        }))
    }

    pub(crate) fn at_selection(mut self, row: usize) -> Self {
        self.0.selection.get_or_insert(row);
        self
    }

    pub(crate) fn at_array(mut self, location: &str) -> Self {
        if self.0.array.is_none() {
            self.0.array = Some(location.to_owned());
        }
        self
    }

    pub(crate) fn at_key(mut self, key: impl Into<String>) -> Self {
        if self.0.key.is_none() {
            self.0.key = Some(key.into());
        }
        self
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.0.expected = Some(expected.into());
        self
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    pub(crate) fn source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The position of the offending selection in its call, if one selection is to blame.
    #[must_use]
    pub fn selection(&self) -> Option<usize> {
        self.0.selection
    }

    /// The array that is to blame, by its path.
    #[must_use]
    pub fn array(&self) -> Option<&str> {
        self.0.array.as_deref()
    }

    /// The store key that is to blame, if one is.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(row) = inner.selection {
            write!(f, "selection {row}: ")?;
        }
        match (&inner.array, &inner.key) {
            (Some(array), Some(key)) => write!(f, "array '{array}', key '{key}': ")?,
            (Some(array), None) => write!(f, "array '{array}': ")?,
            (None, Some(key)) => write!(f, "key '{key}': ")?,
            (None, None) => {}
        }
        f.write_str(&inner.got)?;
        if let Some(source) = &inner.source {
            write!(f, " ({source})")?;
        }
        if let Some(expected) = &inner.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(remedy) = &inner.remedy {
            write!(f, ". {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
