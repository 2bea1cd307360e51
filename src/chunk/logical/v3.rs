//! Types by their metadata in v3.

use std::sync::Arc;

use serde_json::{Value, json};
use zarrs::array::DataType;
use zarrs::metadata::v3::MetadataV3;

use super::{check_width, time};
use crate::arrow::{ElementType, NarrowFloat, StructType};
use crate::error::{Error, ErrorKind, Result};

/// Name and configuration of a type.
fn split(data_type: &Value) -> Option<(&str, &Value)> {
    match data_type {
        Value::String(name) => Some((name, &Value::Null)),
        Value::Object(object) => {
            Some((object.get("name")?.as_str()?, object.get("configuration").unwrap_or(&Value::Null)))
        }
        _ => None,
    }
}

/// The type that an optional type is of.
pub(super) fn optional(data_type: &Value) -> Option<Result<Value>> {
    let (name, configuration) = split(data_type)?;
    if !matches!(name, "optional" | "zarrs.optional") {
        return None;
    }
    let invalid = || {
        Error::new(ErrorKind::Metadata, format!("data type {data_type}"))
            .expected("name and configuration of the type of the values")
    };
    Some(match (configuration["name"].as_str(), &configuration["configuration"]) {
        (None, _) => Err(invalid()),
        (Some(name), Value::Object(inner)) if !inner.is_empty() => Ok(json!({"name": name, "configuration": inner})),
        (Some(name), _) => Ok(json!(name)),
    })
}

/// Name and configuration of a type, both, as an optional type has them.
pub(super) fn configured(data_type: &Value) -> Value {
    let (name, configuration) = split(data_type).unwrap_or(("", &Value::Null));
    let configuration = if configuration.is_null() { json!({}) } else { configuration.clone() };
    json!({"name": name, "configuration": configuration})
}

/// Zarrs' name for the codec of optional types, also inside shards.
pub(super) fn rename_optional(codecs: &mut Value) {
    for codec in codecs.as_array_mut().into_iter().flatten() {
        if let Some(inner) = codec.pointer_mut("/configuration/codecs") {
            rename_optional(inner);
        }
        if let Some(name) = codec.get_mut("name").filter(|name| **name == "optional") {
            *name = json!("zarrs.optional");
        }
    }
}

/// Whether the codec `bytes` stores numbers in big-endian order. `None` if there is no such codec.
pub(super) fn is_big_endian(codecs: &Value) -> Option<bool> {
    codecs.as_array()?.iter().find_map(|codec| {
        let name = codec.as_str().or_else(|| codec.get("name")?.as_str())?;
        if name == "bytes" {
            // Without a byte order it is little-endian, as zarr-python has it.
            return Some(codec.pointer("/configuration/endian").is_some_and(|endian| endian == "big"));
        }
        ["/configuration/codecs", "/configuration/data_codecs"]
            .iter()
            .find_map(|inner| is_big_endian(codec.pointer(inner)?))
    })
}

/// The type of a `data_type` that zarrs does not know as it is. `None` for all others.
pub(super) fn parse(data_type: &Value) -> Result<Option<ElementType>> {
    let Some((name, configuration)) = split(data_type) else { return Ok(None) };
    let invalid =
        |what: &str| Error::new(ErrorKind::Metadata, format!("data type {data_type}")).expected(what.to_owned());
    let length = || {
        let length = configuration["length_bytes"].as_u64().and_then(|len| usize::try_from(len).ok());
        let length = length.ok_or_else(|| invalid("a configuration with 'length_bytes'"))?;
        check_width(Some(length), &data_type.to_string())
    };
    let element = match name {
        "numpy.datetime64" | "numpy.timedelta64" => {
            let unit = configuration["unit"].as_str().unwrap_or("generic");
            let scale = configuration["scale_factor"].as_u64().and_then(|scale| u32::try_from(scale).ok());
            ElementType::Time(time(name == "numpy.timedelta64", unit, scale, &data_type.to_string())?)
        }
        // Not one of zarrs'.
        "float8_e4m3fn" => ElementType::Narrow(NarrowFloat::Float8E4M3FN),
        "complex_float8_e4m3fn" => ElementType::ComplexNarrow(NarrowFloat::Float8E4M3FN),
        "raw_bytes" => ElementType::RawBytes(length()?),
        "null_terminated_bytes" => ElementType::NullTerminated(length()?),
        "fixed_length_utf32" => match length()? {
            len if len % 4 == 0 => ElementType::Utf32(len / 4),
            _ => return Err(invalid("a multiple of four bytes")),
        },
        "struct" | "structured" => {
            let fields = configuration["fields"].as_array();
            let fields = fields.ok_or_else(|| invalid("a configuration with 'fields'"))?;
            let fields = fields.iter().map(|field| {
                let (name, data_type) = match field {
                    Value::Array(parts) if parts.len() == 2 => (&parts[0], &parts[1]),
                    _ => (&field["name"], &field["data_type"]),
                };
                let name = name.as_str().filter(|_| !data_type.is_null());
                let name = name.ok_or_else(|| invalid("fields with a name and a data type each"))?;
                Ok((name.to_owned(), member(data_type)?, Vec::new()))
            });
            let structure = StructType::new(fields.collect::<Result<Vec<_>>>()?)?;
            ElementType::Struct(Arc::new(structure))
        }
        _ => match name.strip_prefix('r').filter(|bits| bits.bytes().all(|byte| byte.is_ascii_digit())) {
            Some("") => return Ok(None),
            Some(bits) => match bits.parse::<usize>() {
                Ok(bits) if bits % 8 == 0 => ElementType::RawBytes(check_width(Some(bits / 8), name)?),
                _ => return Err(invalid("a multiple of eight bits")),
            },
            None => match known(data_type) {
                Ok(element @ (ElementType::Narrow(_) | ElementType::ComplexNarrow(_))) => element,
                _ => return Ok(None),
            },
        },
    };
    Ok(Some(element))
}

/// The name of a type of zarrs whose elements have as many bytes, where zarrs does not know the type itself.
pub(super) fn stand_in(element: &ElementType) -> Option<&'static str> {
    match element {
        ElementType::Narrow(NarrowFloat::Float8E4M3FN) => Some("float8_e4m3"),
        ElementType::ComplexNarrow(NarrowFloat::Float8E4M3FN) => Some("complex_float8_e4m3"),
        _ => None,
    }
}

/// Any type, as a member.
pub(super) fn member(data_type: &Value) -> Result<ElementType> {
    if optional(data_type).is_some() {
        return Err(Error::new(ErrorKind::Unsupported, format!("data type {data_type}"))
            .expected("values that are not optional in others"));
    }
    parse(data_type)?.map_or_else(|| known(data_type), Ok)
}

/// A type that zarrs knows.
fn known(data_type: &Value) -> Result<ElementType> {
    let refuse = || {
        Error::new(ErrorKind::Unsupported, format!("data type {data_type}"))
            .expected("a type of fixed width: bools, numbers, times, bytes, strings, structs")
    };
    let metadata: MetadataV3 = serde_json::from_value(data_type.clone()).map_err(|source| refuse().source(source))?;
    let found = std::panic::catch_unwind(|| DataType::from_metadata(&metadata)).map_err(|_| refuse())?;
    ElementType::from_zarrs(&found.map_err(|source| refuse().source(source))?, metadata.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_orders_are_found_in_shards() {
        let bytes =
            |endian: &str| json!([{"name": "transpose"}, {"name": "bytes", "configuration": {"endian": endian}}]);
        assert_eq!(is_big_endian(&bytes("big")), Some(true));
        let sharded =
            json!([{"name": "sharding_indexed", "configuration": {"codecs": bytes("big"), "index_codecs": []}}]);
        assert_eq!(is_big_endian(&sharded), Some(true));
        assert_eq!(is_big_endian(&json!(["bytes"])), Some(false));
        assert_eq!(is_big_endian(&json!([{"name": "packbits"}])), None);
        assert_eq!(is_big_endian(&json!(7)), None);
    }

    #[test]
    fn both_spellings_of_structs() {
        let one = json!({"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", {"name": "raw_bytes", "configuration": {"length_bytes": 3}}]]}});
        let two = json!({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "r24"}]}});
        let [one, two] = [one, two].map(|data_type| parse(&data_type).unwrap().unwrap());
        assert_eq!(one, two);
        assert_eq!(one.width(), 7);
    }

    #[test]
    fn types_that_are_none() {
        for data_type in [
            json!("r7"),
            json!("r99999999999999999999999"),
            json!("raw_bytes"),
            json!({"name": "raw_bytes", "configuration": {"length_bytes": -1}}),
            json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 7}}),
            json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 1_u64 << 40}}),
            json!({"name": "struct", "configuration": {"fields": []}}),
            json!({"name": "struct", "configuration": {"fields": 3}}),
            json!({"name": "struct", "configuration": {"fields": [["a", "string"]]}}),
            json!({"name": "struct", "configuration": {"fields": [{"name": "a"}]}}),
            json!({"name": "struct"}),
        ] {
            assert!(parse(&data_type).is_err(), "{data_type}");
        }
        for data_type in [json!("int32"), json!("string"), json!(7), json!("r"), json!("r*")] {
            assert!(parse(&data_type).unwrap().is_none(), "{data_type}");
        }
    }
}
