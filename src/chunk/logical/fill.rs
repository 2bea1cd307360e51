//! Fill values by their metadata: the bytes of one element, in native byte order.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use zarrs::array::DataType;
use zarrs::metadata::FillValueMetadata;
use zarrs::metadata::v3::MetadataV3;

use super::numbers;
use crate::arrow::{ElementType, NOT_A_TIME, NarrowFloat, StructType};
use crate::chunk::decode::Swap;
use crate::error::{Error, ErrorKind, Result};

pub(super) fn invalid(value: &Value, expected: &str) -> Error {
    let mut told = value.to_string();
    if let Some((at, _)) = told.char_indices().nth(100) {
        told.truncate(at);
        told.push_str("...");
    }
    Error::new(ErrorKind::Metadata, format!("fill value {told}")).expected(expected.to_owned())
}

/// `NaT`, or no fill value at all, is the integer that stands for it.
pub(super) fn time(fill_value: &Value) -> Value {
    if fill_value.is_null() || *fill_value == "NaT" { json!(NOT_A_TIME) } else { fill_value.clone() }
}

/// A fill value of v2. Without one, elements are zero, as zarr-python has it.
pub(super) fn v2(element: &ElementType, fill_value: &Value, swap: &Swap) -> Result<Vec<u8>> {
    match (element, fill_value) {
        (_, Value::Null) => Ok(vec![0; element.width()]),
        (ElementType::Utf32(len), _) => utf32(*len, fill_value),
        _ => {
            let mut bytes = base64(element, fill_value)?;
            swap.apply(&mut bytes);
            Ok(bytes)
        }
    }
}

/// A fill value of v3.
pub(super) fn v3(element: &ElementType, fill_value: &Value) -> Result<Vec<u8>> {
    match element {
        ElementType::Utf32(len) => utf32(*len, fill_value),
        ElementType::NullTerminated(_) => base64(element, fill_value),
        ElementType::RawBytes(len) => match fill_value {
            Value::Array(bytes) if bytes.len() == *len => {
                let byte = |byte: &Value| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
                let bytes = bytes.iter().map(byte).collect::<Option<Vec<u8>>>();
                bytes.ok_or_else(|| invalid(fill_value, "integers from 0 to 255"))
            }
            _ => base64(element, fill_value),
        },
        ElementType::Struct(structure) => members(structure, element, fill_value),
        ElementType::Time(_) => {
            let count = time(fill_value).as_i64().filter(|_| !fill_value.is_null());
            let count = count.ok_or_else(|| invalid(fill_value, "an integer, or \"NaT\""))?;
            Ok(count.to_ne_bytes().to_vec())
        }
        ElementType::Narrow(float) if float.width() == 1 => code(*float, fill_value).map(|code| vec![code]),
        ElementType::ComplexNarrow(float) if float.width() == 1 => pair(*float, fill_value).map(|pair| pair.to_vec()),
        _ => known(element, fill_value),
    }
}

/// A struct: its members by name, or all its bytes. Members that are not named are zero.
fn members(structure: &StructType, element: &ElementType, fill_value: &Value) -> Result<Vec<u8>> {
    let Value::Object(values) = fill_value else {
        let mut bytes = base64(element, fill_value)?;
        if cfg!(target_endian = "big") {
            // In little-endian order, whatever the codecs are.
            Swap::of(bytes.len(), numbers(element)).apply(&mut bytes);
        }
        return Ok(bytes);
    };
    let mut bytes = vec![0; element.width()];
    let mut named = 0;
    for member in structure.members() {
        if let Some(value) = values.get(member.name()) {
            // Members have no axes in v3.
            bytes[member.bytes()].copy_from_slice(&v3(member.element_type(), value)?);
            named += 1;
        }
    }
    if named < values.len() {
        return Err(invalid(fill_value, "values of fields that there are"));
    }
    Ok(bytes)
}

/// A fill value of a type that zarrs knows as we do.
fn known(element: &ElementType, fill_value: &Value) -> Result<Vec<u8>> {
    let refuse = || invalid(fill_value, &format!("a value of {}", element.zarr_name()));
    let metadata: FillValueMetadata = serde_json::from_value(fill_value.clone()).map_err(|_| refuse())?;
    let data_type = DataType::from_metadata(&MetadataV3::new(element.zarr_name())).map_err(|_| refuse())?;
    let bytes = data_type.fill_value_v3(&metadata).map_err(|_| refuse())?.as_ne_bytes().to_vec();
    Some(bytes).filter(|bytes| bytes.len() == element.width()).ok_or_else(refuse)
}

/// Bytes in base64. Zeros follow, where they are fewer than an element has.
fn base64(element: &ElementType, fill_value: &Value) -> Result<Vec<u8>> {
    let width = element.width();
    let bytes = fill_value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
    let bytes = bytes.filter(|bytes| match element {
        ElementType::Struct(_) => bytes.len() == width,
        _ => bytes.len() <= width,
    });
    let mut bytes = bytes.ok_or_else(|| invalid(fill_value, &format!("{width} bytes in base64")))?;
    bytes.resize(width, 0);
    Ok(bytes)
}

/// A string of at most `len` code points.
fn utf32(len: usize, fill_value: &Value) -> Result<Vec<u8>> {
    let text = fill_value.as_str().filter(|text| text.chars().count() <= len);
    let text = text.ok_or_else(|| invalid(fill_value, &format!("a string of at most {len} characters")))?;
    let mut bytes: Vec<u8> = text.chars().flat_map(|char| u32::from(char).to_ne_bytes()).collect();
    bytes.resize(4 * len, 0);
    Ok(bytes)
}

/// Of a float of one byte, the byte that zarrs understands.
pub(super) fn narrow(float: NarrowFloat, fill_value: &Value) -> Result<Value> {
    if float.width() > 1 {
        return Ok(fill_value.clone());
    }
    code(float, fill_value).map(|code| json!(format!("{code:#04x}")))
}

/// As [`narrow`], of a complex number.
pub(super) fn narrow_pair(float: NarrowFloat, fill_value: &Value) -> Result<Value> {
    if float.width() > 1 {
        return Ok(fill_value.clone());
    }
    pair(float, fill_value).map(|parts| json!(parts.map(|code| format!("{code:#04x}"))))
}

fn pair(float: NarrowFloat, fill_value: &Value) -> Result<[u8; 2]> {
    match fill_value.as_array().map(Vec::as_slice) {
        Some([real, imaginary]) => Ok([code(float, real)?, code(float, imaginary)?]),
        _ => Err(invalid(fill_value, "a list of real and imaginary part")),
    }
}

/// The byte of a number, of `NaN`, `Infinity` and `-Infinity`, or of its bits in hexadecimal.
fn code(float: NarrowFloat, fill_value: &Value) -> Result<u8> {
    let found = match fill_value {
        Value::String(text) => match text.as_str() {
            "NaN" => float.nearest(f64::NAN),
            "Infinity" => float.nearest(f64::INFINITY),
            "-Infinity" => float.nearest(f64::NEG_INFINITY),
            _ => text.strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        },
        _ => fill_value.as_f64().and_then(|value| float.nearest(value)),
    };
    found.ok_or_else(|| invalid(fill_value, &format!("a value of {}", float.name())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn members_by_name_and_in_base64() {
        let structure = StructType::new([
            ("a".to_owned(), ElementType::Int16, vec![]),
            ("s".to_owned(), ElementType::NullTerminated(3), vec![]),
            ("f".to_owned(), ElementType::Narrow(NarrowFloat::Float8E5M2), vec![]),
            ("u".to_owned(), ElementType::Utf32(1), vec![]),
        ]);
        let element = ElementType::Struct(Arc::new(structure.unwrap()));
        let expected = [&258_i16.to_ne_bytes()[..], b"hi\0", &[0x3c], &u32::from('\u{20ac}').to_ne_bytes()].concat();
        let named = json!({"a": 258, "s": "aGk=", "f": 1.0, "u": "\u{20ac}"});
        assert_eq!(v3(&element, &named).unwrap(), expected);
        assert_eq!(v3(&element, &json!({"a": 258})).unwrap()[2..], [0; 8]);
        let encoded = json!(BASE64_STANDARD.encode(&expected));
        if cfg!(target_endian = "little") {
            assert_eq!(v3(&element, &encoded).unwrap(), expected);
        }
        for wrong in [json!({"b": 1}), json!({"a": 1_u64 << 40}), json!("aGk="), json!(0), json!({"s": "aGlobw=="})] {
            assert_eq!(v3(&element, &wrong).unwrap_err().kind(), ErrorKind::Metadata, "{wrong}");
        }
    }

    #[test]
    fn small_floats_by_value_and_by_bits() {
        let float = NarrowFloat::Float8E4M3;
        for (value, expected) in [
            (json!("NaN"), "0x7c"),
            (json!("-Infinity"), "0xf8"),
            (json!("0xff"), "0xff"),
            (json!(1), "0x38"),
            (json!(-0.0), "0x80"),
        ] {
            assert_eq!(narrow(float, &value).unwrap(), json!(expected), "{value}");
        }
        assert_eq!(narrow_pair(float, &json!([1, "0x01"])).unwrap(), json!(["0x38", "0x01"]));
        assert!(narrow(float, &json!("0x1ff")).is_err() && narrow_pair(float, &json!([1])).is_err());
    }
}
