//! Codecs that this crate does not have, undone by what the caller brings.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use serde_json::{Value, json};
use zarrs::storage::StoreKey;

use super::decoders::ForeignChunks;
use super::metadata::{self, Opened};
use crate::arrow::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::lengths::Lengths;
use crate::store::ZarrFormat;

/// What goes wrong in code of the caller.
pub type ForeignError = Box<dyn std::error::Error + Send + Sync>;

/// Makes decoders for codecs that this crate does not have.
pub trait ForeignCodecs: Send + Sync {
    /// A decoder of read chunks, by the metadata document of an array that is one of them: `zarr.json`, or `.zarray` of
    /// v2, with the shape of a read chunk and the codecs that have to be undone.
    ///
    /// # Errors
    /// If there is no such decoder; opening the array fails with this as the source of its error.
    fn decoder(&self, metadata: &str, format: ZarrFormat)
    -> std::result::Result<Arc<dyn ForeignDecoder>, ForeignError>;
}

/// Decodes read chunks of one array, from several threads at once.
pub trait ForeignDecoder: Send + Sync {
    /// Decodes one read chunk into all of `target`: its elements in C order and native byte order. What `target` holds
    /// before means nothing; it may be part of an earlier result.
    ///
    /// # Errors
    /// If `encoded` is no such chunk; the read fails with this as the source of its error.
    fn decode(&self, encoded: &[u8], target: &mut [u8]) -> std::result::Result<(), ForeignError>;

    /// Decodes one read chunk of objects: text, if `is_text`, else bytes.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); also, as is the default, if this decodes none.
    fn decode_objects(&self, encoded: &[u8], is_text: bool) -> std::result::Result<ForeignObjects, ForeignError> {
        let _ = (encoded, is_text);
        Err("objects are not decoded".into())
    }

    /// Whether the objects of a read chunk are bytes, rather than text. Asked when an array of objects is opened, of its
    /// first chunk, if there is one.
    ///
    /// # Errors
    /// As [`decode_objects`](Self::decode_objects).
    fn holds_bytes(&self, encoded: &[u8]) -> std::result::Result<bool, ForeignError> {
        let _ = encoded;
        Ok(false)
    }
}

/// The objects of one read chunk, in C order.
#[derive(Debug, Clone, Default)]
pub struct ForeignObjects {
    /// The bytes of all values, one after the other; of text, in UTF-8.
    pub bytes: Vec<u8>,
    /// For each object, where its value ends in `bytes`: it starts where the one before it ends.
    pub ends: Vec<u64>,
    /// Objects that are no values, by their number in ascending order: null, or what their type is called. Their values
    /// are empty.
    pub others: Vec<(usize, Option<String>)>,
}

/// Makes the array of a metadata document whose chunks are decoded by a foreign decoder. `lacking` is the error of doing
/// it without.
///
/// # Errors
/// `lacking`, if codecs are not what is lacking, or there is no such decoder.
pub(super) fn interpret(
    path: &str,
    document: &Value,
    format: ZarrFormat,
    codecs: &Arc<dyn ForeignCodecs>,
    lacking: Error,
    first_chunk: impl FnOnce(&StoreKey) -> Result<Option<Vec<u8>>>,
) -> Result<Opened> {
    if format == ZarrFormat::V2
        && let Some(objects) = Objects::new(document)
    {
        return objects.interpret(path, codecs, lacking, first_chunk);
    }
    let Some(split) = Split::new(document, format) else { return Err(lacking) };
    let Ok(mut opened) = metadata::interpret(path, split.document, format) else { return Err(lacking) };
    let chunks = ForeignChunks { codecs: codecs.clone(), document: split.read_chunk, format };
    let longest: Vec<_> = opened.geometry.read_chunks.iter().map(Lengths::longest).collect();
    opened.geometry.decoders.replace(chunks, &longest).map_err(|source| lacking.source(Foreign(source)))?;
    Ok(opened)
}

impl ForeignChunks {
    /// A decoder of chunks of this shape.
    pub(super) fn decoder(&self, shape: &[NonZeroU64]) -> std::result::Result<Arc<dyn ForeignDecoder>, ForeignError> {
        let shape: Vec<u64> = shape.iter().map(|len| len.get()).collect();
        let mut document = self.document.clone();
        document["shape"] = json!(shape);
        match self.format {
            ZarrFormat::V2 => document["chunks"] = json!(shape),
            ZarrFormat::V3 => {
                document["chunk_grid"] = json!({"name": "regular", "configuration": {"chunk_shape": shape}});
            }
        }
        self.codecs.decoder(&document.to_string(), self.format)
    }
}

/// An error of the caller's as the source of one of ours.
#[derive(Debug)]
pub(super) struct Foreign(pub(super) ForeignError);

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Foreign {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl fmt::Debug for dyn ForeignCodecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeignCodecs")
    }
}

/// A v2 document of objects, of text or of bytes.
struct Objects<'a> {
    document: &'a Value,
    /// Whether the codec itself says that they are bytes; `None` if the first chunk does.
    holds_bytes: Option<bool>,
    /// Whether the codec takes a fill value of any type for text or bytes.
    any_fill: bool,
}

impl<'a> Objects<'a> {
    /// `None` if the document is not of objects, or of lists.
    fn new(document: &'a Value) -> Option<Self> {
        let dtype = document.get("dtype")?.as_str()?;
        if !dtype.trim_start_matches(['<', '>', '|', '=']).starts_with('O') {
            return None;
        }
        let (holds_bytes, any_fill) = match document.pointer("/filters/0/id")?.as_str()? {
            "vlen-utf8" => (Some(false), true),
            "vlen-bytes" => (Some(true), true),
            "vlen-array" => return None,
            "json2" | "categorize" => (Some(false), false),
            _ => (None, false),
        };
        Some(Self { document, holds_bytes, any_fill })
    }

    fn interpret(
        &self,
        path: &str,
        codecs: &Arc<dyn ForeignCodecs>,
        lacking: Error,
        first_chunk: impl FnOnce(&StoreKey) -> Result<Option<Vec<u8>>>,
    ) -> Result<Opened> {
        let opened = |holds_bytes| metadata::interpret(path, self.stand_in(holds_bytes), ZarrFormat::V2);
        let Ok(mut opened_as) = opened(self.holds_bytes.unwrap_or(false)) else { return Err(lacking) };
        let mut document = self.document.clone();
        document["dimension_separator"] = json!(".");
        if let Some(object) = document.as_object_mut() {
            object.remove("attributes");
        }
        let chunks = ForeignChunks { codecs: codecs.clone(), document, format: ZarrFormat::V2 };
        let shape: Vec<_> = opened_as.geometry.read_chunks.iter().map(Lengths::longest).collect();
        let decoder = match chunks.decoder(&shape) {
            Ok(decoder) => decoder,
            Err(source) => return Err(lacking.source(Foreign(source))),
        };
        if self.holds_bytes.is_none() {
            let key = opened_as.array.chunk_key(&vec![0; shape.len()]);
            if let Some(chunk) = first_chunk(&key)? {
                let holds_bytes = decoder.holds_bytes(&chunk).map_err(|source| {
                    Error::new(ErrorKind::Decode, "the first chunk, which tells what the objects are, is no valid one")
                        .source(Foreign(source))
                        .at_key(key.as_str())
                        .remedy("The chunk is truncated or corrupt; write it again.")
                })?;
                if holds_bytes {
                    opened_as = opened(true)?;
                }
            }
        }
        let is_text = opened_as.stored.element == ElementType::Utf8;
        opened_as.null_fill = !(self.any_fill || is_text && self.document["fill_value"].is_string());
        opened_as.geometry.decoders.replace_with(chunks, decoder);
        Ok(opened_as)
    }

    /// What this crate opens: the codec that stands for the foreign ones tells no more than the type.
    fn stand_in(&self, holds_bytes: bool) -> Value {
        let mut own = self.document.clone();
        own["compressor"] = Value::Null;
        own["order"] = json!("C");
        own["filters"] = json!([{"id": if holds_bytes { "vlen-bytes" } else { "vlen-utf8" }}]);
        if !self.any_fill && (holds_bytes || !own["fill_value"].is_string()) {
            own["fill_value"] = Value::Null;
        }
        own
    }
}

/// A metadata document without its foreign codecs, and that of a read chunk with nothing but them.
struct Split {
    /// What this crate opens: the codecs that stand for the foreign ones do nothing.
    document: Value,
    /// What the foreign decoder gets, but for the shape.
    read_chunk: Value,
}

impl Split {
    /// Takes the codecs of a chunk away, those inside a shard where there is nothing but the shard around them. `None`
    /// where the document says nothing of chunks.
    fn new(document: &Value, format: ZarrFormat) -> Option<Self> {
        match format {
            ZarrFormat::V2 => Self::v2(document),
            ZarrFormat::V3 => Self::v3(document),
        }
    }

    fn v2(document: &Value) -> Option<Self> {
        let (mut own, mut read_chunk) = (document.clone(), document.clone());
        for codecs in ["compressor", "filters"] {
            own[codecs] = Value::Null;
        }
        own["order"] = json!("C");
        own["dtype"] = native(&document["dtype"]);
        document.get("chunks")?;
        read_chunk["dimension_separator"] = json!(".");
        if let Some(object) = read_chunk.as_object_mut() {
            object.remove("attributes");
        }
        Some(Self { document: own, read_chunk })
    }

    fn v3(document: &Value) -> Option<Self> {
        let endian = if cfg!(target_endian = "little") { "little" } else { "big" };
        let plain = json!([{"name": "bytes", "configuration": {"endian": endian}}]);
        let (mut own, mut read_chunk) = (document.clone(), document.clone());
        document.get("chunk_grid")?;
        match document["codecs"].as_array().map(Vec::as_slice) {
            Some([sharding]) if sharding["name"] == "sharding_indexed" => {
                let configuration = &sharding["configuration"];
                own["codecs"][0]["configuration"]["codecs"] = plain;
                read_chunk["codecs"] = configuration.get("codecs")?.clone();
            }
            _ => own["codecs"] = plain,
        }
        read_chunk["chunk_key_encoding"] = json!({"name": "default", "configuration": {"separator": "/"}});
        read_chunk["attributes"] = json!({});
        if let Some(object) = read_chunk.as_object_mut() {
            object.remove("dimension_names");
        }
        Some(Self { document: own, read_chunk })
    }
}

/// A v2 data type in native byte order.
fn native(dtype: &Value) -> Value {
    match dtype {
        Value::String(name) => match name.strip_prefix(['<', '>', '=']) {
            Some(rest) => json!(format!("{}{rest}", if cfg!(target_endian = "little") { '<' } else { '>' })),
            None => dtype.clone(),
        },
        Value::Array(members) => members.iter().map(native_member).collect(),
        _ => dtype.clone(),
    }
}

/// A member of a struct, its name, type and perhaps shape, in native byte order.
fn native_member(member: &Value) -> Value {
    let mut member = member.clone();
    if let Some(dtype) = member.get_mut(1) {
        *dtype = native(dtype);
    }
    member
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_of_v2_are_taken_away() {
        let document = json!({
            "zarr_format": 2, "shape": [100, 7], "chunks": [10, 5], "dtype": ">f4", "order": "F", "fill_value": 3,
            "compressor": {"id": "lzma"}, "filters": [{"id": "delta"}], "dimension_separator": "/",
        });
        let split = Split::new(&document, ZarrFormat::V2).unwrap();
        assert_eq!(split.document["compressor"], Value::Null);
        assert_eq!((&split.document["dtype"], &split.document["order"]), (&native(&json!("<f4")), &json!("C")));
        assert_eq!(split.document["shape"], json!([100, 7]));
        assert_eq!((&split.read_chunk["dtype"], &split.read_chunk["order"]), (&json!(">f4"), &json!("F")));
        assert_eq!(split.read_chunk["compressor"]["id"], "lzma");
        assert!(Split::new(&json!({"dtype": "<f4"}), ZarrFormat::V2).is_none());
    }

    #[test]
    fn codecs_in_shards_are_taken_away_inside() {
        let grid = json!({"name": "regular", "configuration": {"chunk_shape": [20]}});
        let inner = json!([{"name": "bytes"}, {"name": "numcodecs.lzma"}]);
        let shard = json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": [5], "codecs": inner, "index_codecs": [{"name": "bytes"}, {"name": "crc32c"}],
        }});
        let document = |codecs: Value| json!({"shape": [90], "chunk_grid": grid, "codecs": codecs});
        let split = Split::new(&document(json!([shard])), ZarrFormat::V3).unwrap();
        assert_eq!(split.document["codecs"][0]["configuration"]["codecs"][0]["name"], "bytes");
        assert_eq!(
            split.document["codecs"][0]["configuration"]["index_codecs"],
            shard["configuration"]["index_codecs"]
        );
        assert_eq!(split.read_chunk["codecs"], inner);
        // With more around the shards, they are decoded whole.
        let split = Split::new(&document(json!([shard, {"name": "numcodecs.lzma"}])), ZarrFormat::V3).unwrap();
        assert_eq!(split.document["codecs"].as_array().unwrap().len(), 1);
        assert_eq!(split.read_chunk["codecs"][0], shard);
        assert!(Split::new(&json!({"codecs": []}), ZarrFormat::V3).is_none());
    }

    #[test]
    fn members_are_in_native_order() {
        let dtype = json!([["x", ">f4"], ["y", [["z", "<i2", [3]], ["w", "|S3"]]]]);
        let expected = json!([["x", native(&json!("=f4"))], ["y", [["z", native(&json!(">i2")), [3]], ["w", "|S3"]]]]);
        assert_eq!(native(&dtype), expected);
    }
}
