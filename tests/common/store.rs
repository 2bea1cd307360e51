//! A store that keeps a log of its reads and can be told to misbehave.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use zarrow::zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::zarrs::storage::{
    Bytes, MaybeBytes, MaybeBytesIterator, ReadableStorage, ReadableStorageTraits, StorageError, StoreKey,
};

/// One read of a value that the store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) key: String,
    /// The bytes that were read.
    pub(crate) range: Range<u64>,
    /// Whether the value was read by ranges.
    pub(crate) partial: bool,
}

/// Asserts that no byte of the store was read twice.
#[track_caller]
pub(crate) fn assert_nothing_twice(log: &[Read]) {
    let mut by_key: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for read in log {
        by_key.entry(&read.key).or_default().push((read.range.start, read.range.end));
    }
    for (key, mut ranges) in by_key {
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{key} was read twice: {ranges:?}");
    }
}

/// What a watched store does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Right,
    /// Says that there is no such value.
    Absent,
    Fails,
    /// Gives this many bytes less than it should.
    Short(usize),
    /// Gives one byte more than it should.
    Long,
}

type Rule = Box<dyn Fn(&str, Option<ByteRange>) -> Answer + Send + Sync>;

pub(crate) struct Watched {
    inner: Arc<MemoryStore>,
    rule: Rule,
    log: Mutex<Vec<Read>>,
    absent: Mutex<Vec<String>>,
}

impl Watched {
    /// A store that only keeps the log.
    pub(crate) fn new(inner: Arc<MemoryStore>) -> Arc<Self> {
        Self::with_rule(inner, |_, _| Answer::Right)
    }

    /// A store that asks `rule` how to answer a request for a key, and for a range if not for the whole value.
    pub(crate) fn with_rule(
        inner: Arc<MemoryStore>,
        rule: impl Fn(&str, Option<ByteRange>) -> Answer + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, rule: Box::new(rule), log: Mutex::default(), absent: Mutex::default() })
    }

    pub(crate) fn storage(self: &Arc<Self>) -> ReadableStorage {
        self.clone()
    }

    /// The reads since the last call, of values that the store holds.
    pub(crate) fn take_log(&self) -> Vec<Read> {
        std::mem::take(&mut self.log.lock().expect("log"))
    }

    /// The keys asked for since the last call, once for each request, that the store does not hold.
    pub(crate) fn take_absent(&self) -> Vec<String> {
        std::mem::take(&mut self.absent.lock().expect("log"))
    }

    fn answer(&self, key: &StoreKey, asked: Option<ByteRange>) -> Result<MaybeBytes, StorageError> {
        let answer = (self.rule)(key.as_str(), asked);
        if answer == Answer::Fails {
            return Err(StorageError::Other("the disk is on fire".to_owned()));
        }
        let value = self.inner.get(key)?.filter(|_| answer != Answer::Absent);
        let Some(value) = value else {
            self.absent.lock().expect("log").push(key.as_str().to_owned());
            return Ok(None);
        };
        let bytes = match asked {
            None => value.clone(),
            Some(range) => match self.inner.get_partial(key, range)? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
        };
        let start = asked.map_or(0, |range| range.start(value.len() as u64));
        self.log.lock().expect("log").push(Read {
            key: key.as_str().to_owned(),
            range: start..start + bytes.len() as u64,
            partial: asked.is_some(),
        });
        Ok(Some(match answer {
            Answer::Short(less) => bytes.slice(..bytes.len().saturating_sub(less)),
            Answer::Long => Bytes::from([&bytes[..], &[0]].concat()),
            _ => bytes,
        }))
    }
}

impl ReadableStorageTraits for Watched {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        self.answer(key, None)
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let mut all = Vec::new();
        for range in byte_ranges {
            match self.answer(key, Some(range)) {
                Ok(None) => return Ok(None),
                Ok(Some(bytes)) => all.push(Ok(bytes)),
                Err(error) => all.push(Err(error)),
            }
        }
        Ok(Some(Box::new(all.into_iter())))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        match (self.rule)(key.as_str(), None) {
            Answer::Fails => Err(StorageError::Other("the disk is on fire".to_owned())),
            Answer::Absent => Ok(None),
            _ => self.inner.size_key(key),
        }
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}
