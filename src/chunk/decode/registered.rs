//! Codecs of ours among those of zarrs, under names that nobody else has: what else uses zarrs in this process sees its
//! codecs unchanged, and none of them stands in for ours.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, Once};

use serde_json::Value;
use zarrs::array::codec::api::{
    ArrayToBytesCodecTraits, BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecRuntimePluginV3,
    CodecTraits, PartialDecoderCapability, PartialEncoderCapability, RecommendedConcurrency, register_codec_v3,
};
use zarrs::array::{ArrayBytesRaw, BytesRepresentation, CodecOptions};
use zarrs::metadata::Configuration;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{ExtensionName, ZarrVersion};

#[cfg(feature = "zfp")]
use super::zfp::Zfp;
use super::{corrupt, gdeflate};
use crate::error::{Error, ErrorKind, Result};
use crate::fork;

const PREFIX: &str = "zarrow.";
pub(super) const ZFP: &str = "zarrow.zfp";
pub(super) const ZFPY: &str = "zarrow.zfpy";
const GDEFLATE: &str = "zarrow.gdeflate";

/// Gives a codec in v3 metadata our name for it, if it is one of ours.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if this build does not have it.
pub(in crate::chunk) fn claim(codec: &mut Value) -> Result<()> {
    let name = codec.as_str().or_else(|| codec.get("name")?.as_str());
    let ours = match name {
        Some("zfp" | "zarrs.zfp" | "https://codec.zarrs.dev/array_to_bytes/zfp") => ZFP,
        Some("numcodecs.zfpy" | "https://codec.zarrs.dev/array_to_bytes/zfpy") => ZFPY,
        Some("zarrs.gdeflate" | "https://codec.zarrs.dev/bytes_to_bytes/gdeflate") => GDEFLATE,
        _ => return Ok(()),
    };
    if ours != GDEFLATE {
        check_zfp(public(ours))?;
    }
    register();
    match codec {
        Value::Object(codec) => codec["name"] = ours.into(),
        name => *name = ours.into(),
    }
    Ok(())
}

/// What others call a codec.
pub(in crate::chunk) fn public(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The codec `zfpy`, of v2 as of v3.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if this build does not have it.
pub(in crate::chunk) fn zfpy() -> Result<Arc<dyn ArrayToBytesCodecTraits>> {
    check_zfp("zfpy")?;
    register();
    match Codec::from_metadata(&MetadataV3::new(ZFPY)) {
        Ok(Codec::ArrayToBytes(codec)) => Ok(codec),
        _ => Err(Error::new(ErrorKind::Internal, "the codec 'zfpy' was not registered")),
    }
}

/// Checks that this build has the codecs of zfp, of which `name` is one.
fn check_zfp(name: &str) -> Result<()> {
    if cfg!(feature = "zfp") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, format!("codec '{name}', which this build of zarrow does not have"))
        .expected("a build with the feature 'zfp'")
        .remedy("Build zarrow with its feature 'zfp', or read the array with zarr-python."))
}

fn register() {
    static ONCE: Once = Once::new();
    let _held_off = fork::hold_off();
    ONCE.call_once(|| {
        register_codec_v3(CodecRuntimePluginV3::new(
            |name| name == GDEFLATE,
            |metadata| {
                let configuration = metadata.configuration().cloned().unwrap_or_default();
                Ok(Codec::BytesToBytes(Arc::new(Gdeflate { configuration })))
            },
        ));
        #[cfg(feature = "zfp")]
        {
            register_codec_v3(CodecRuntimePluginV3::new(
                |name| name == ZFP,
                |metadata| {
                    let configuration = metadata.configuration().cloned().unwrap_or_default();
                    Ok(Codec::ArrayToBytes(Arc::new(Zfp::new(configuration)?)))
                },
            ));
            register_codec_v3(CodecRuntimePluginV3::new(
                |name| name == ZFPY,
                |metadata| {
                    let configuration = metadata.configuration().cloned().unwrap_or_default();
                    Ok(Codec::ArrayToBytes(Arc::new(Zfp::with_headers(configuration))))
                },
            ));
        }
    });
}

pub(super) fn only_decodes() -> CodecError {
    CodecError::Other("zarrow only reads".into())
}

pub(super) fn as_codec_error(error: &Error) -> CodecError {
    CodecError::Other(error.to_string())
}

/// The codec `gdeflate` of zarrs.
#[derive(Debug)]
pub(super) struct Gdeflate {
    configuration: Configuration,
}

impl ExtensionName for Gdeflate {
    fn name(&self, _version: ZarrVersion) -> Option<Cow<'static, str>> {
        Some(GDEFLATE.into())
    }
}

impl CodecTraits for Gdeflate {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, _version: ZarrVersion, _options: &CodecMetadataOptions) -> Option<Configuration> {
        Some(self.configuration.clone())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl BytesToBytesCodecTraits for Gdeflate {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(&self, _decoded: &BytesRepresentation) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_maximum(1))
    }

    fn encode<'a>(
        &self,
        _decoded: ArrayBytesRaw<'a>,
        _options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        Err(only_decodes())
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        decoded: &BytesRepresentation,
        _options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let bound = decoded.size().unwrap_or(u64::MAX) as usize;
        gdeflate::decode(&encoded, bound)
            .and_then(|decoded| decoded.ok_or_else(corrupt))
            .map(Cow::Owned)
            .map_err(|error| as_codec_error(&error))
    }

    fn encoded_representation(&self, _decoded: &BytesRepresentation) -> BytesRepresentation {
        BytesRepresentation::UnboundedSize
    }
}
