//! Codecs that zarrs does not know, or not there, taken out of metadata before it sees them.

use std::sync::Arc;

use serde_json::Value;
use zarrs::array::CodecChain;
use zarrs::array::codec::api::ArrayToBytesCodecTraits;

use super::decode::registered;
use super::metadata::codec_name;
use crate::error::Result;
use crate::store::ZarrFormat;

/// What was taken out of the metadata of an array.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// numcodecs' LZ4, as the outermost codec of a read chunk, but for so many checksums around it.
    pub(super) lz4: Option<usize>,
    /// `zfpy` of v2, which stands in place of the bytes of the elements.
    zfpy: Option<Arc<dyn ArrayToBytesCodecTraits>>,
}

impl Taken {
    /// Takes codecs out of `document`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a codec that this build does not have.
    pub(super) fn from(document: &mut Value, format: ZarrFormat) -> Result<Self> {
        match format {
            ZarrFormat::V2 => Self::from_v2(document),
            ZarrFormat::V3 => Ok(Self { lz4: take_lz4(document), zfpy: None }),
        }
    }

    fn from_v2(document: &mut Value) -> Result<Self> {
        let lz4 = document["compressor"]["id"] == "lz4";
        if lz4 {
            document["compressor"] = Value::Null;
        }
        let zfpy = if take_zfpy(document) { Some(registered::zfpy()?) } else { None };
        Ok(Self { lz4: lz4.then_some(0), zfpy })
    }

    /// The codecs of an array with what was taken out of the middle of them.
    pub(super) fn chain(&self, codecs: Arc<CodecChain>) -> Arc<CodecChain> {
        let Some(zfpy) = &self.zfpy else { return codecs };
        let (outer, inner) = (codecs.bytes_to_bytes_codecs().to_vec(), codecs.array_to_array_codecs().to_vec());
        Arc::new(CodecChain::new(inner, zfpy.clone(), outer))
    }
}

/// Takes numcodecs' LZ4 out of v3 metadata where it is the outermost codec of a read chunk, but for checksums. Gives the
/// number of these.
fn take_lz4(document: &mut Value) -> Option<usize> {
    let codecs = document.get_mut("codecs").and_then(Value::as_array_mut)?;
    let codecs = match &mut codecs[..] {
        [only] if codec_name(only) == Some("sharding_indexed") => {
            only.pointer_mut("/configuration/codecs").and_then(Value::as_array_mut)
        }
        _ => Some(codecs),
    };
    let codecs = codecs?;
    let checksums = codecs.iter().rev().take_while(|codec| codec_name(codec) == Some("crc32c")).count();
    let at = codecs.len().checked_sub(checksums + 1)?;
    let is_lz4 = matches!(codec_name(&codecs[at]), Some("numcodecs.lz4" | "lz4"));
    // Around shards it is not that of a read chunk.
    let of_read_chunk = codecs.iter().all(|codec| codec_name(codec) != Some("sharding_indexed"));
    (is_lz4 && of_read_chunk).then(|| {
        codecs.remove(at);
        checksums
    })
}

/// Takes `zfpy` out of v2 metadata, where it is the compressor or the last filter: the one that gets the array.
fn take_zfpy(document: &mut Value) -> bool {
    // It knows numbers of this machine alone.
    let is_native = document["dtype"].as_str().is_some_and(|dtype| !dtype.starts_with('>'));
    let is_zfpy = |codec: &mut Value| is_native && codec["id"] == "zfpy";
    if document["filters"].as_array_mut().and_then(|filters| filters.pop_if(is_zfpy)).is_some() {
        return true;
    }
    let is_compressor = is_zfpy(&mut document["compressor"]);
    if is_compressor {
        document["compressor"] = Value::Null;
    }
    is_compressor
}
