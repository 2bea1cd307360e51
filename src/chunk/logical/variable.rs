//! Types of values of variable length by their metadata. Version 2 has one name for all, and tells them by a filter.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Logical;
use crate::arrow::ElementType;
use crate::chunk::decode::Swap;
use crate::error::{Error, ErrorKind, Result};

const OF_ANY_TYPE: [&str; 3] = ["vlen-utf8", "vlen-bytes", "vlen-array"];

/// Tells what the objects of a v2 document are, and names them in the document as zarrs does: text, or bytes.
pub(super) fn take_v2(document: &mut Value) -> Result<Option<Logical>> {
    let is_object = |name: &str| name.trim_start_matches(['<', '>', '|', '=']).starts_with('O');
    if !document.get("dtype").and_then(Value::as_str).is_some_and(is_object) {
        return Ok(None);
    }
    let filters = document.get("filters").and_then(Value::as_array).cloned().unwrap_or_default();
    let id = |filter: &Value| filter.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = filters.first().map(id).unwrap_or_default();
    if !OF_ANY_TYPE.contains(&&*first) {
        let names: Vec<_> = filters.iter().chain(document.get("compressor")).map(id).collect();
        return Err(Error::new(ErrorKind::Unsupported, format!("objects encoded by [{}]", names.join(", ")))
            .expected("the first filter to be vlen-utf8, vlen-bytes or vlen-array")
            .remedy("Read it with zarr-python, and write it again as text, bytes or numbers."));
    }
    let mut logical = Logical { element: ElementType::Binary, swap: None, fill_value: None };
    let (dtype, codec) = match &*first {
        "vlen-utf8" => {
            logical.element = ElementType::Utf8;
            if let Some(fill_value) = document.get_mut("fill_value") {
                make_text(fill_value);
            }
            ("|O", "vlen-utf8")
        }
        kind => {
            if kind == "vlen-array" {
                let item = filters[0].get("dtype").and_then(Value::as_str).unwrap_or_default();
                let (element, swap) = number(item).ok_or_else(|| {
                    Error::new(ErrorKind::Unsupported, format!("vlen-array of '{item}'"))
                        .expected("a boolean, an integer, a float or a complex number")
                })?;
                logical.element = ElementType::List(Arc::new(element));
                logical.swap = Some(swap);
                document["fill_value"] = Value::Null;
            }
            if document.get("fill_value").and_then(Value::as_u64) == Some(0) {
                document["fill_value"] = Value::Null;
            }
            ("|VX", "vlen-bytes")
        }
    };
    document["dtype"] = json!(dtype);
    document["filters"][0] = json!({ "id": codec });
    Ok(Some(logical))
}

/// As [`take_v2`], in a v3 document, where the names say it. Names that others use are replaced.
pub(super) fn take_v3(document: &mut Value) -> Option<Logical> {
    let data_type = &document["data_type"];
    let name = data_type.as_str().or_else(|| data_type.get("name")?.as_str())?;
    let element = match name {
        "string" | "variable_length_utf8" | "numpy.variable_length_utf8" => ElementType::Utf8,
        "bytes" | "binary" | "variable_length_bytes" | "numpy.variable_length_bytes" => ElementType::Binary,
        _ => return None,
    };
    document["data_type"] = json!(element.zarr_name());
    if element == ElementType::Utf8 && !document["fill_value"].is_null() {
        make_text(&mut document["fill_value"]);
    }
    Some(Logical { element, swap: None, fill_value: None })
}

/// A number in the place of text is what Python's `str` makes of it, as zarr-python has it.
fn make_text(fill_value: &mut Value) {
    let text = match &*fill_value {
        Value::Null => String::new(),
        Value::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
        Value::Number(number) => match number.as_f64() {
            // Beyond, Python writes the exponent in another way.
            Some(value) if number.is_f64() && (value == 0.0 || (1e-4..1e16).contains(&value.abs())) => {
                format!("{value:?}")
            }
            _ if number.is_f64() => return,
            _ => number.to_string(),
        },
        _ => return,
    };
    *fill_value = json!(text);
}

/// A number by `NumPy`'s short name such as `<f4`, and what has to be done for the native byte order.
fn number(name: &str) -> Option<(ElementType, Swap)> {
    let (order, kind) = name.split_at_checked(1)?;
    let element = match kind {
        "b1" => ElementType::Bool,
        "i1" => ElementType::Int8,
        "i2" => ElementType::Int16,
        "i4" => ElementType::Int32,
        "i8" => ElementType::Int64,
        "u1" => ElementType::UInt8,
        "u2" => ElementType::UInt16,
        "u4" => ElementType::UInt32,
        "u8" => ElementType::UInt64,
        "f2" => ElementType::Float16,
        "f4" => ElementType::Float32,
        "f8" => ElementType::Float64,
        "c8" => ElementType::Complex64,
        "c16" => ElementType::Complex128,
        _ => return None,
    };
    let is_native = match order {
        "<" => cfg!(target_endian = "little"),
        ">" => cfg!(target_endian = "big"),
        "|" if element.size() == 1 => true,
        _ => return None,
    };
    let swap = if is_native { Swap::None } else { Swap::Numbers(element.number_size()) };
    Some((element, swap))
}
