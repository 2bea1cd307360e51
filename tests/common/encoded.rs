//! Arrays whose chunks are encoded by the test, because zarrs has no encoder for them.

use std::sync::Arc;

use serde_json::{Value, json};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ErrorKind, ReadOptions, Selections};

use super::naive::{self, Padded, Span};
use super::{Bits, complaint, get, set, sharding_codec};

/// The node path of the array.
pub(crate) const PATH: &str = "/a";

/// An array of one data type.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) data_type: &'static str,
    /// Length of an element, in bytes.
    pub(crate) item: usize,
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk: Vec<u64>,
    /// The shape of what is in a chunk, where this is a shard.
    pub(crate) subchunk: Option<Vec<u64>>,
    pub(crate) codecs: Vec<Value>,
    /// Whether a checksum follows what is encoded.
    pub(crate) sealed: bool,
}

impl Encoded {
    /// The shape of a read chunk.
    pub(crate) fn read_chunk(&self) -> &[u64] {
        self.subchunk.as_ref().unwrap_or(&self.chunk)
    }

    fn metadata(&self) -> Value {
        let mut codecs = self.codecs.clone();
        codecs.extend(self.sealed.then(|| json!({"name": "crc32c"})));
        if let Some(subchunk) = &self.subchunk {
            codecs = vec![sharding_codec(subchunk, &codecs, "end")];
        }
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": self.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": codecs,
        })
    }

    /// Writes what `encode` makes of each read chunk, by its number, and gives what it decodes to.
    pub(crate) fn write(&self, mut encode: impl FnMut(u64) -> (Vec<u8>, Vec<u8>)) -> (Arc<MemoryStore>, Padded) {
        let store = Arc::new(MemoryStore::new());
        set(&store, "a/zarr.json", self.metadata().to_string());
        let elements = self.shape.iter().product::<u64>() as usize;
        let mut padded = Padded { shape: self.shape.clone(), item: self.item, bytes: vec![0; elements * self.item] };
        let in_chunk = naive::coordinates(&naive::grid(&self.chunk, self.read_chunk()));
        let mut number = 0;
        for chunk in naive::coordinates(&naive::grid(&self.shape, &self.chunk)) {
            let (mut value, mut index) = (Vec::new(), Vec::new());
            for at in &in_chunk {
                let (mut bytes, decoded) = encode(number);
                number += 1;
                if self.sealed {
                    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
                }
                let starts =
                    (0..chunk.len()).map(|axis| chunk[axis] * self.chunk[axis] + at[axis] * self.read_chunk()[axis]);
                place(&mut padded, &starts.collect::<Vec<_>>(), self.read_chunk(), &decoded);
                index.extend((value.len() as u64).to_le_bytes());
                index.extend((bytes.len() as u64).to_le_bytes());
                value.extend(bytes);
            }
            if self.subchunk.is_some() {
                index.extend(crc32c::crc32c(&index).to_le_bytes());
                value.extend(index);
            }
            set(&store, &key(&chunk), value);
        }
        (store, padded)
    }
}

/// The key of a chunk of the array.
pub(crate) fn key(chunk: &[u64]) -> String {
    chunk.iter().fold("a/c".to_owned(), |key, at| format!("{key}/{at}"))
}

/// Copies what lies in the array of a chunk that begins at `starts`.
fn place(padded: &mut Padded, starts: &[u64], chunk: &[u64], decoded: &[u8]) {
    for (from, at) in naive::coordinates(chunk).into_iter().enumerate() {
        let to: Vec<u64> = at.iter().zip(starts).map(|(at, start)| at + start).collect();
        if to.iter().zip(&padded.shape).all(|(to, len)| to < len) {
            let flat = to.iter().zip(&padded.shape).fold(0, |flat, (to, len)| flat * len + to) as usize;
            let (to, from) = (flat * padded.item, from * padded.item);
            padded.bytes[to..to + padded.item].copy_from_slice(&decoded[from..from + padded.item]);
        }
    }
}

/// Compares the whole array and some boxes of it.
#[track_caller]
pub(crate) fn check(array: &Array, padded: &Padded, bits: &mut Bits) {
    let shape = array.shape();
    let mut rows: Vec<Vec<Span>> = vec![shape.iter().map(|len| (0, *len, true)).collect()];
    let mut span = |len: &u64| {
        let (a, b) = (bits.below(len + 1), bits.below(len + 1));
        (a.min(b), a.max(b), true)
    };
    rows.extend((0..6).map(|_| shape.iter().map(&mut span).collect::<Vec<Span>>()));
    let flat = |bound: fn(&Span) -> u64| rows.iter().flatten().map(|span| bound(span) as i64).collect::<Vec<_>>();
    let selections = Selections::boxes(shape.len(), flat(|span| span.0), flat(|span| span.1)).expect("boxes");
    let ragged = array.read(&selections, &ReadOptions::default()).expect("read");
    naive::check(ragged, array.element_type(), &naive::gather(padded, &rows, shape.len()));
}

/// Whether reading the whole array is an error with other bytes at a key.
pub(crate) fn fails_with(array: &Array, store: &MemoryStore, key: &str, bytes: &[u8]) -> bool {
    read_with(array, store, key, bytes).is_none()
}

/// Reads the whole array with other bytes at a key. `None` if that is an error, which has to name it.
pub(crate) fn read_with(array: &Array, store: &MemoryStore, key: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let intact = get(store, key);
    set(store, key, bytes.to_vec());
    let stops = array.shape().iter().map(|len| *len as i64).collect::<Vec<_>>();
    let whole = Selections::boxes(stops.len(), vec![0; stops.len()], stops).expect("a box");
    let read = array.read(&whole, &ReadOptions::default());
    set(store, key, intact);
    match read {
        Ok(ragged) => {
            let elements = array.shape().iter().product::<u64>() as usize;
            let values = naive::value_bytes(ragged.values());
            assert_eq!(values.len(), elements * array.element_type().size());
            Some(values)
        }
        Err(error) => {
            assert_eq!(error.key(), Some(key), "{error}");
            assert_eq!(complaint(&error, ErrorKind::Decode), None);
            None
        }
    }
}
