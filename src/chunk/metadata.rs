//! From a metadata document to an array's codecs and geometry.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use zarrs::array::codec::api::{Codec, CodecMetadataOptions, CodecTraits};
use zarrs::array::codec::{ShardingCodec, ShardingCodecConfiguration};
use zarrs::array::{Array, ArrayCreateError, ArrayMetadata, ArrayMetadataV2, ArrayMetadataV3, CodecChain, DataType};
use zarrs::metadata::v2::ArrayMetadataV2Order;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{PluginCreateError, ZarrVersion};
use zarrs::storage::{Bytes, StoreKey};

use super::chunk_grid;
use super::decode::{Decoder, Stored, registered};
use super::decoders::Decoders;
use super::logical::{self, Logical};
use super::shard::Sharding;
use super::taken::Taken;
use crate::arrow::ElementType;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::lengths::Lengths;
use crate::store::{Source, ZarrFormat};

/// The documents of an array, as they are in the store.
pub(super) struct Found {
    pub(super) format: ZarrFormat,
    pub(super) key: StoreKey,
    pub(super) document: Value,
    /// The document that holds the user attributes; empty if there is none.
    pub(super) attributes_document: Vec<u8>,
}

impl Found {
    fn v3(key: StoreKey, bytes: &[u8]) -> Result<Self> {
        let document = parse_object(bytes).map_err(|error| error.at_key(key.as_str()))?;
        Ok(Self { format: ZarrFormat::V3, key, document, attributes_document: bytes.to_vec() })
    }

    fn v2(array: (&StoreKey, &[u8]), attributes: (&StoreKey, Option<Bytes>)) -> Result<Self> {
        let (key, bytes) = array;
        let mut document = parse_object(bytes).map_err(|error| error.at_key(key.as_str()))?;
        let mut attributes_document = Vec::new();
        if let (key, Some(bytes)) = attributes {
            document["attributes"] = parse_object(&bytes).map_err(|error| error.at_key(key.as_str()))?;
            attributes_document = bytes.to_vec();
        }
        Ok(Self { format: ZarrFormat::V2, key: key.clone(), document, attributes_document })
    }

    /// What is known of the array at node path `path` without asking its store.
    pub(super) fn given(path: &str, given: &Given) -> Result<Self> {
        match given.format {
            ZarrFormat::V3 => Self::v3(key_of(path, "zarr.json")?, &given.document),
            ZarrFormat::V2 => {
                let attributes = given.attributes.as_ref().map(|bytes| Bytes::copy_from_slice(bytes));
                Self::v2((&key_of(path, ".zarray")?, &given.document), (&key_of(path, ".zattrs")?, attributes))
            }
        }
    }
}

/// Metadata documents that the caller has.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) format: ZarrFormat,
    pub(super) document: Vec<u8>,
    /// `.zattrs`, of v2.
    pub(super) attributes: Option<Vec<u8>>,
}

/// The key of a document of the node at `path`.
fn key_of(path: &str, name: &str) -> Result<StoreKey> {
    if !path.starts_with('/') {
        return Err(
            Error::new(ErrorKind::NotFound, format!("node path '{path}'")).expected("a path that starts with '/'")
        );
    }
    let prefix = path.trim_matches('/');
    let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
    StoreKey::new(key).map_err(|source| Error::new(ErrorKind::NotFound, "no valid key").source(source))
}

/// An array's metadata, understood.
pub(super) struct Opened {
    pub(super) array: Array<()>,
    pub(super) stored: Stored,
    pub(super) geometry: Geometry,
    /// Whether elements of missing chunks are null: there is no fill value of their type.
    pub(super) null_fill: bool,
}

/// Reads the metadata of the array at node path `path`.
pub(super) fn find(source: &Source, path: &str, format: Option<ZarrFormat>, cancel: &Cancel) -> Result<Found> {
    let names: &[&str] = match format {
        Some(ZarrFormat::V2) => &[".zarray", ".zattrs"],
        Some(ZarrFormat::V3) => &["zarr.json"],
        None => &["zarr.json", ".zarray", ".zattrs"],
    };
    let keys = names.iter().map(|name| key_of(path, name)).collect::<Result<Vec<_>>>()?;
    // What takes a round trip is asked for at once; else, one after the other as it is needed.
    let mut asked = source.remote().map(|_| source.get_all(&keys, cancel).into_iter().map(Some).collect::<Vec<_>>());
    let mut get = |at: usize| match asked.as_mut().and_then(|asked| asked.get_mut(at)?.take()) {
        Some(value) => value,
        None => source.get_all(&keys[at..=at], cancel).pop().unwrap_or(Ok(None)),
    };
    if format != Some(ZarrFormat::V2)
        && let Some(bytes) = get(0)?
    {
        return Found::v3(keys[0].clone(), &bytes);
    }
    if format != Some(ZarrFormat::V3) {
        let at = keys.len() - 2;
        if let Some(bytes) = get(at)? {
            return Found::v2((&keys[at], &bytes), (&keys[at + 1], get(at + 1)?));
        }
    }
    let looked_for = match format {
        Some(ZarrFormat::V2) => "'.zarray'",
        Some(ZarrFormat::V3) => "'zarr.json'",
        None => "'zarr.json' or '.zarray'",
    };
    Err(Error::new(ErrorKind::NotFound, "there is no Zarr array here")
        .expected(looked_for)
        .remedy("Give the path of the array itself, or the path of the store and the array's path in it."))
}

/// Makes the array of a metadata document.
pub(super) fn interpret(path: &str, mut document: Value, format: ZarrFormat) -> Result<Opened> {
    let taken = Taken::from(&mut document, format)?;
    let (metadata, logical, chunks) = match format {
        ZarrFormat::V2 => parse_v2(document).map(|(metadata, logical)| (ArrayMetadata::V2(metadata), logical, None))?,
        ZarrFormat::V3 => {
            parse_v3(document).map(|(metadata, logical, chunks)| (ArrayMetadata::V3(metadata), logical, chunks))?
        }
    };
    let is_variable = logical.as_ref().is_some_and(|logical| logical.element.is_variable());
    let array = create(path, metadata, is_variable)?;
    let stored = if let Some(Logical { element, swap, fill_value }) = logical {
        Stored { element, swap, fill_value }
    } else {
        let declared = declared_data_type(array.metadata());
        Stored { element: ElementType::from_zarrs(array.data_type(), &declared)?, swap: None, fill_value: None }
    };
    let geometry = geometry(&array, &stored, chunks, taken)?;
    Ok(Opened { array, stored, geometry, null_fill: false })
}

fn parse<T: serde::de::DeserializeOwned>(document: &[u8]) -> Result<T> {
    serde_json::from_slice(&quote_non_finite(document)).map_err(|source| invalid_document().source(source))
}

/// Puts quotes around NaN, Infinity and -Infinity, which Python writes as bare words and JSON does not have.
fn quote_non_finite(document: &[u8]) -> Cow<'_, [u8]> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let mut quoted = Vec::new();
    let (mut copied, mut at, mut in_string) = (0, 0, false);
    while at < document.len() {
        match document[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            _ => {
                if let Some(word) = WORDS.iter().find(|word| document[at..].starts_with(word)) {
                    quoted.extend_from_slice(&document[copied..at]);
                    quoted.push(b'"');
                    quoted.extend_from_slice(word);
                    quoted.push(b'"');
                    at += word.len();
                    copied = at;
                    continue;
                }
            }
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(document);
    }
    quoted.extend_from_slice(&document[copied..]);
    Cow::Owned(quoted)
}

fn parse_object(document: &[u8]) -> Result<Value> {
    Some(parse(document)?).filter(Value::is_object).ok_or_else(invalid_document)
}

fn invalid_document() -> Error {
    Error::new(ErrorKind::Metadata, "no valid array metadata")
        .expected("a metadata document by the Zarr specification")
        .remedy("The document is damaged or was written by something else; write it again.")
}

fn parse_v2(mut value: Value) -> Result<(ArrayMetadataV2, Option<Logical>)> {
    let logical = logical::take_v2(&mut value)?;
    let dtype = value.get("dtype").cloned().unwrap_or_default();
    let complex = dtype.as_str().is_some_and(|dtype| dtype.contains('c'));
    if let Some(fill @ Value::Null) = value.get_mut("fill_value").filter(|_| complex) {
        // No fill value reads as zero, which zarrs does for all numbers but these.
        *fill = serde_json::json!([0.0, 0.0]);
    }
    if dtype.as_str().is_some_and(|dtype| dtype.trim_start_matches(['<', '>', '|']).starts_with(['i', 'u']))
        && let Some(fill_value) = value.get_mut("fill_value")
    {
        make_integral(fill_value);
    }
    let shape = value["shape"].clone();
    if let Some(chunk) = value.get_mut("chunks") {
        widen_empty_chunks(chunk, &shape);
    }
    if let Some(compressor) = value.get_mut("compressor") {
        level_of_v2(compressor);
    }
    value.get_mut("filters").and_then(Value::as_array_mut).into_iter().flatten().for_each(level_of_v2);
    let mut metadata: ArrayMetadataV2 = from_value(value)?;
    if metadata.shape.len() < 2 {
        // C and F order are the same; without the transpose there is nothing to get wrong.
        metadata.order = ArrayMetadataV2Order::C;
    }
    Ok((metadata, logical))
}

/// Gives gzip and zlib a level that zarrs takes, where theirs is -1: that leaves it to zlib, and is nothing to who decodes.
fn level_of_v2(codec: &mut Value) {
    let is_zlib = matches!(codec.get("id").and_then(Value::as_str), Some("gzip" | "zlib"));
    if is_zlib && codec.get("level").and_then(Value::as_i64) == Some(-1) {
        codec["level"] = serde_json::json!(6);
    }
}

/// A fill value such as `1.0` for integers is the integer, as zarr-python has it.
fn make_integral(fill_value: &mut Value) {
    let exact = 2_f64.powi(53);
    if let Some(value) = fill_value.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < exact)
        && !fill_value.is_i64()
        && !fill_value.is_u64()
    {
        *fill_value = serde_json::json!(value as i64);
    }
}

/// A chunk of no elements along an axis of no elements is as good as one of one.
fn widen_empty_chunks(chunk: &mut Value, shape: &Value) {
    if let (Some(chunk), Some(shape)) = (chunk.as_array_mut(), shape.as_array()) {
        for (chunk, _) in chunk.iter_mut().zip(shape).filter(|(chunk, len)| **chunk == 0 && **len == 0) {
            *chunk = serde_json::json!(1);
        }
    }
}

fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|source| invalid_document().source(source))
}

/// The metadata, what its data type is, and how the axes are cut into chunks where these differ in shape.
fn parse_v3(mut value: Value) -> Result<(ArrayMetadataV3, Option<Logical>, Option<Vec<Lengths>>)> {
    if value.get("node_type").and_then(Value::as_str) == Some("group") {
        return Err(Error::new(ErrorKind::NotFound, "a group")
            .expected("an array")
            .remedy("Name the array in the group with `path`."));
    }
    // Named one by one, because the error for the whole document does not name the field.
    for field in ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"] {
        if value.get(field).is_none() {
            return Err(Error::new(ErrorKind::Metadata, format!("array metadata without '{field}'"))
                .expected("all fields that the Zarr specification requires"));
        }
    }
    for field in ["data_type", "chunk_grid", "chunk_key_encoding"] {
        serde_json::from_value::<MetadataV3>(value[field].clone()).map_err(|source| {
            Error::new(ErrorKind::Metadata, format!("'{field}' is {}", value[field]))
                .source(source)
                .expected("a name, or a name and a configuration")
        })?;
    }
    let logical = logical::take_v3(&mut value)?;
    if value["attributes"].is_null() {
        value["attributes"] = serde_json::json!({});
    }
    if value["data_type"].as_str().is_some_and(|name| name.trim_start_matches('u').starts_with("int")) {
        make_integral(&mut value["fill_value"]);
    }
    let chunks = chunk_grid::take(&mut value)?;
    let shape = value["shape"].clone();
    if let Some(chunk) = value.pointer_mut("/chunk_grid/configuration/chunk_shape") {
        widen_empty_chunks(chunk, &shape);
    }
    let ndim = value["shape"].as_array().map_or(0, Vec::len);
    complete_codecs(&mut value["codecs"], ndim)?;
    check_codec_order(&value["codecs"])?;
    let metadata: ArrayMetadataV3 = from_value(value)?;
    if let Some((name, _)) = metadata.additional_fields.iter().find(|(_, field)| field.must_understand()) {
        return Err(Error::new(ErrorKind::Unsupported, format!("the metadata has an extension '{name}'"))
            .expected("only extensions with \"must_understand\": false"));
    }
    Ok((metadata, logical, chunks))
}

fn create(path: &str, metadata: ArrayMetadata, is_variable: bool) -> Result<Array<()>> {
    let shape = match &metadata {
        ArrayMetadata::V2(metadata) => &metadata.shape,
        ArrayMetadata::V3(metadata) => &metadata.shape,
    };
    if let Some(len) = shape.iter().find(|&&len| len > i64::MAX as u64) {
        return Err(
            Error::new(ErrorKind::Unsupported, format!("an axis of {len} elements")).expected("at most 2^63 - 1")
        );
    }
    if let ArrayMetadata::V3(v3) = &metadata
        && v3.chunk_grid.name() != "regular"
    {
        return Err(Error::new(ErrorKind::Unsupported, format!("chunk grid '{}'", v3.chunk_grid.name()))
            .expected("'regular', 'rectilinear', 'rectangular' or 'zarrs.regular_bounded'"));
    }
    let data_type = match &metadata {
        ArrayMetadata::V2(v2) => DataType::from_metadata(&v2.dtype),
        ArrayMetadata::V3(v3) => DataType::from_metadata(&v3.data_type),
    };
    if let Ok(data_type) = data_type
        && !is_variable
    {
        // Before anything that depends on it, such as the fill value: its own error is the clearest.
        if !data_type.is_optional() {
            ElementType::from_zarrs(&data_type, &declared_data_type(&metadata))?;
        }
    }
    // A plugin that panics on odd metadata must not take the caller down.
    catch_unwind(AssertUnwindSafe(|| Array::new_with_metadata(Arc::new(()), path, metadata)))
        .map_err(|_| Error::new(ErrorKind::Metadata, "the metadata could not be interpreted"))?
        .map_err(create_error)
}

/// Makes up for what zarrs refuses and others read, also inside shards.
///
/// A transpose of no axes does nothing. Bytes without a byte order are in little-endian order, as zarr-python has it.
/// Codecs of ours get our names.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for a codec that this build does not have.
fn complete_codecs(codecs: &mut Value, ndim: usize) -> Result<()> {
    let Some(codecs) = codecs.as_array_mut() else { return Ok(()) };
    codecs.retain(|codec| ndim > 0 || codec_name(codec) != Some("transpose"));
    for codec in codecs {
        if codec_name(codec) == Some("bytes") && codec.pointer("/configuration/endian").is_none() {
            *codec = serde_json::json!({"name": "bytes", "configuration": {"endian": "little"}});
        }
        for inner in ["codecs", "index_codecs", "mask_codecs", "data_codecs"] {
            if let Some(inner) = codec.pointer_mut(&format!("/configuration/{inner}")) {
                complete_codecs(inner, ndim)?;
            }
        }
        name_plainly(codec);
        registered::claim(codec)?;
    }
    Ok(())
}

/// Puts what zarrs takes in the place of codecs that it does not know by the name, or by the configuration, that they have
/// here. Who decodes needs neither: what was compressed says how, so levels and the like may be any.
fn name_plainly(codec: &mut Value) {
    use serde_json::json;
    let has = |member: &str| codec.pointer(&format!("/configuration/{member}")).is_some();
    let number = |member: &str| codec.pointer(&format!("/configuration/{member}")).and_then(Value::as_i64);
    let checksum_is_last =
        || matches!(codec.pointer("/configuration/location").and_then(Value::as_str), None | Some("end"));
    let (name, configuration) = match codec_name(codec) {
        Some("numcodecs.zstd") => ("zstd", json!({"level": 0, "checksum": false})),
        Some("zstd") if !codec.is_string() && !has("checksum") => ("zstd", json!({"level": 0, "checksum": false})),
        Some("numcodecs.gzip") => ("gzip", json!({"level": 6})),
        Some("gzip") if number("level") == Some(-1) => ("gzip", json!({"level": 6})),
        Some("numcodecs.zlib") if number("level") == Some(-1) => ("numcodecs.zlib", json!({"level": 6})),
        Some("numcodecs.bz2") if !has("level") => ("numcodecs.bz2", json!({"level": 1})),
        Some("numcodecs.crc32c") if checksum_is_last() => ("crc32c", json!({})),
        Some("numcodecs.blosc") => {
            let any = json!({"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0});
            ("blosc", any)
        }
        _ => return,
    };
    *codec = json!({"name": name, "configuration": configuration});
}

pub(super) fn codec_name(codec: &Value) -> Option<&str> {
    codec.as_str().or_else(|| codec.get("name")?.as_str())
}

/// Checks that codecs stand in the order that the specification asks for, also inside shards: zarrs sorts them
/// silently.
fn check_codec_order(codecs: &Value) -> Result<()> {
    let mut stage = 0;
    for codec in codecs.as_array().into_iter().flatten() {
        for inner in ["codecs", "index_codecs", "mask_codecs", "data_codecs"] {
            if let Some(inner) = codec.pointer(&format!("/configuration/{inner}")) {
                check_codec_order(inner)?;
            }
        }
        let Ok(metadata) = serde_json::from_value::<MetadataV3>(codec.clone()) else { return Ok(()) };
        let next = match catch_unwind(AssertUnwindSafe(|| Codec::from_metadata(&metadata))) {
            Ok(Ok(Codec::ArrayToArray(_))) => 0,
            Ok(Ok(Codec::ArrayToBytes(_))) => 1,
            Ok(Ok(Codec::BytesToBytes(_))) => 2,
            // Creating the array says what is wrong with it.
            _ => return Ok(()),
        };
        if next < stage {
            return Err(Error::new(
                ErrorKind::Metadata,
                format!("codec '{}' stands too late", registered::public(metadata.name())),
            )
            .expected("array to array codecs first, then one array to bytes codec, then bytes to bytes codecs"));
        }
        stage = next;
    }
    Ok(())
}

fn create_error(source: ArrayCreateError) -> Error {
    let kind = match &source {
        ArrayCreateError::DataTypeCreateError(plugin)
        | ArrayCreateError::CodecsCreateError(plugin)
        | ArrayCreateError::StorageTransformersCreateError(plugin)
        | ArrayCreateError::ChunkGridCreateError(plugin)
        | ArrayCreateError::ChunkKeyEncodingCreateError(plugin) => match plugin {
            PluginCreateError::Unsupported(_) => ErrorKind::Unsupported,
            _ => ErrorKind::Metadata,
        },
        ArrayCreateError::UnsupportedZarrV2Array(_) => ErrorKind::Unsupported,
        _ => ErrorKind::Metadata,
    };
    match kind {
        ErrorKind::Unsupported => Error::new(kind, "the array uses something that this release does not read")
            .source(source)
            .remedy("Read it with zarr-python, and write it again with other codecs."),
        _ => Error::new(kind, "the array's metadata is not valid")
            .source(source)
            .expected("metadata by the Zarr specification"),
    }
}

/// How an array is cut into pieces that decode alone.
pub(super) struct Geometry {
    /// How each axis is cut into what one key of the store holds, in elements.
    pub(super) chunks: Vec<Lengths>,
    /// How each axis is cut into read chunks, in elements.
    pub(super) read_chunks: Vec<Lengths>,
    /// How each axis is cut into chunks of the store, in read chunks.
    pub(super) in_shards: Vec<Lengths>,
    /// Of the longest shard.
    pub(super) sharding: Option<Sharding>,
    pub(super) decoders: Decoders,
}

/// Derives the geometry of `array`, whose axes are cut into `chunks`, or all into the same.
fn geometry(array: &Array<()>, stored: &Stored, chunks: Option<Vec<Lengths>>, taken: Taken) -> Result<Geometry> {
    let invalid = |what: String| Error::new(ErrorKind::Metadata, what);
    let chunk: Vec<NonZeroU64> = array
        .chunk_grid()
        .chunk_shape(&vec![0; array.dimensionality()])
        .map_err(|source| invalid("the chunk grid does not fit the shape".into()).source(source))?
        .map_or_else(|| declared_chunk_shape(array.metadata()), Ok)?;
    let chunks = chunks.unwrap_or_else(|| chunk.iter().copied().map(Lengths::regular).collect());
    let codecs = array.codecs();
    let sharding = codecs.array_to_bytes_codec().as_any().downcast_ref::<ShardingCodec>();
    let plain = codecs.array_to_array_codecs().is_empty() && codecs.bytes_to_bytes_codecs().is_empty();
    let Some(sharding) = sharding.filter(|_| plain) else {
        let decoder = decoder(array, &chunk, stored, &taken)?;
        let in_shards = vec![Lengths::regular(NonZeroU64::MIN); chunk.len()];
        let decoders = Decoders::new(decoder, taken);
        return Ok(Geometry { read_chunks: chunks.clone(), chunks, in_shards, sharding: None, decoders });
    };
    let mut parts = self::sharding(array, sharding, &chunk, stored)?;
    if let Some(checksums) = taken.lz4 {
        parts.decoder.behind_lz4(checksums)?;
    }
    let in_shards = chunks.iter().zip(&parts.read_chunk).map(|(shards, len)| shards.divided(*len));
    let in_shards = in_shards.collect::<Option<_>>().ok_or_else(|| {
        invalid(format!("subchunks of shape {:?} in shards that differ", parts.read_chunk))
            .expected("a shape that divides that of every shard")
    })?;
    Ok(Geometry {
        chunks,
        read_chunks: parts.read_chunk.into_iter().map(Lengths::regular).collect(),
        in_shards,
        sharding: Some(parts.sharding),
        decoders: Decoders::new(parts.decoder, taken),
    })
}

/// A decoder of chunks of `array` that have this shape.
pub(super) fn decoder(array: &Array<()>, shape: &[NonZeroU64], stored: &Stored, taken: &Taken) -> Result<Decoder> {
    let configurations = match array.metadata() {
        ArrayMetadata::V2(_) => None,
        ArrayMetadata::V3(v3) => Some(&v3.codecs[..]),
    };
    let mut decoder = Decoder::new(array, taken.chain(array.codecs()), configurations, shape, stored)?;
    if let Some(checksums) = taken.lz4 {
        decoder.behind_lz4(checksums)?;
    }
    Ok(decoder)
}

/// How a shard is cut into subchunks.
pub(super) struct ShardParts {
    pub(super) read_chunk: Vec<NonZeroU64>,
    pub(super) in_shard: Vec<NonZeroU64>,
    pub(super) sharding: Sharding,
    pub(super) decoder: Decoder,
}

/// Derives how shards of shape `chunk` are cut into subchunks.
pub(super) fn sharding(
    array: &Array<()>,
    codec: &ShardingCodec,
    chunk: &[NonZeroU64],
    stored: &Stored,
) -> Result<ShardParts> {
    let invalid = |what: String| Error::new(ErrorKind::Metadata, what);
    let configuration = codec
        .configuration(ZarrVersion::V3, &CodecMetadataOptions::default())
        .and_then(|configuration| serde_json::to_value(configuration).ok())
        .and_then(|configuration| serde_json::from_value(configuration).ok());
    let Some(ShardingCodecConfiguration::V1(configuration)) = configuration else {
        return Err(Error::new(ErrorKind::Unsupported, "this variant of the sharding codec")
            .expected("'sharding_indexed' of the Zarr specification"));
    };
    let read_chunk = configuration.chunk_shape.clone();
    let divides = chunk.len() == read_chunk.len()
        && chunk.iter().zip(&read_chunk).all(|(chunk, read_chunk)| chunk.get() % *read_chunk == 0);
    if !divides {
        return Err(invalid(format!("subchunks of shape {read_chunk:?} in shards of {chunk:?}"))
            .expected("a shape of the same rank that divides the shard's"));
    }
    let in_shard = chunk
        .iter()
        .zip(&read_chunk)
        .filter_map(|(chunk, read_chunk)| NonZeroU64::new(chunk.get() / read_chunk.get()))
        .collect::<Vec<_>>();
    let plugin = |source: PluginCreateError| {
        invalid("the sharding codec's inner codecs".into()).source(source).expected("codecs that are known and fit")
    };
    let inner = CodecChain::from_metadata(&configuration.codecs).map_err(plugin)?;
    let index = CodecChain::from_metadata(&configuration.index_codecs).map_err(plugin)?;
    let sharding = Sharding::new(Arc::new(index), configuration.index_location, &in_shard)?;
    let decoder = Decoder::new(array, Arc::new(inner), Some(&configuration.codecs), &read_chunk, stored)?;
    Ok(ShardParts { read_chunk, in_shard, sharding, decoder })
}

/// The data type as the metadata names it.
pub(super) fn declared_data_type(metadata: &ArrayMetadata) -> String {
    match metadata {
        ArrayMetadata::V2(v2) => serde_json::to_string(&v2.dtype).unwrap_or_default().trim_matches('"').to_owned(),
        ArrayMetadata::V3(v3) => v3.data_type.name().to_owned(),
    }
}

/// The chunk shape of a regular grid by its metadata, for arrays that have no chunk at all.
fn declared_chunk_shape(metadata: &ArrayMetadata) -> Result<Vec<NonZeroU64>> {
    let shape = match metadata {
        ArrayMetadata::V2(v2) => Some(v2.chunks.clone()),
        ArrayMetadata::V3(v3) => v3
            .chunk_grid
            .configuration()
            .and_then(|configuration| configuration.get("chunk_shape"))
            .and_then(|shape| serde_json::from_value(shape.clone()).ok()),
    };
    shape.ok_or_else(|| Error::new(ErrorKind::Metadata, "the chunk grid has no valid 'chunk_shape'"))
}
