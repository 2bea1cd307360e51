//! Codecs that this crate does not have, undone by what the caller brings.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{self, Opened};
use crate::error::{Error, Result};
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
    /// Decodes one read chunk into all of `target`: its elements in C order and native byte order.
    ///
    /// # Errors
    /// If `encoded` is no such chunk; the read fails with this as the source of its error.
    fn decode(&self, encoded: &[u8], target: &mut [u8]) -> std::result::Result<(), ForeignError>;
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
    codecs: &dyn ForeignCodecs,
    lacking: Error,
) -> Result<Opened> {
    let Some(split) = Split::new(document, format) else { return Err(lacking) };
    let Ok(mut opened) = metadata::interpret(path, split.document, format) else { return Err(lacking) };
    let decoder =
        codecs.decoder(&split.read_chunk.to_string(), format).map_err(|source| lacking.source(Foreign(source)))?;
    opened.geometry.decoder.replace(decoder);
    Ok(opened)
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

/// A metadata document without its foreign codecs, and that of a read chunk with nothing but them.
struct Split {
    /// What this crate opens: the codecs that stand for the foreign ones do nothing.
    document: Value,
    /// What the foreign decoder gets.
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
        read_chunk["shape"] = document.get("chunks")?.clone();
        read_chunk["dimension_separator"] = json!(".");
        if let Some(object) = read_chunk.as_object_mut() {
            object.remove("attributes");
        }
        Some(Self { document: own, read_chunk })
    }

    fn v3(document: &Value) -> Option<Self> {
        const CHUNK: &str = "/chunk_grid/configuration/chunk_shape";
        let endian = if cfg!(target_endian = "little") { "little" } else { "big" };
        let plain = json!([{"name": "bytes", "configuration": {"endian": endian}}]);
        let (mut own, mut read_chunk) = (document.clone(), document.clone());
        let mut shape = document.pointer(CHUNK)?.clone();
        match document["codecs"].as_array().map(Vec::as_slice) {
            Some([sharding]) if sharding["name"] == "sharding_indexed" => {
                let configuration = &sharding["configuration"];
                own["codecs"][0]["configuration"]["codecs"] = plain;
                read_chunk["codecs"] = configuration.get("codecs")?.clone();
                shape = configuration.get("chunk_shape")?.clone();
            }
            _ => own["codecs"] = plain,
        }
        *read_chunk.pointer_mut(CHUNK)? = shape.clone();
        read_chunk["shape"] = shape;
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
        assert_eq!(split.read_chunk["shape"], json!([10, 5]));
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
        assert_eq!((&split.read_chunk["codecs"], &split.read_chunk["shape"]), (&inner, &json!([5])));
        // With more around the shards, they are decoded whole.
        let split = Split::new(&document(json!([shard, {"name": "numcodecs.lzma"}])), ZarrFormat::V3).unwrap();
        assert_eq!(split.document["codecs"].as_array().unwrap().len(), 1);
        assert_eq!((&split.read_chunk["codecs"][0], &split.read_chunk["shape"]), (&shard, &json!([20])));
        assert!(Split::new(&json!({"codecs": []}), ZarrFormat::V3).is_none());
    }

    #[test]
    fn members_are_in_native_order() {
        let dtype = json!([["x", ">f4"], ["y", [["z", "<i2", [3]], ["w", "|S3"]]]]);
        let expected = json!([["x", native(&json!("=f4"))], ["y", [["z", native(&json!(">i2")), [3]], ["w", "|S3"]]]]);
        assert_eq!(native(&dtype), expected);
    }
}
