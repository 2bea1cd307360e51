//! Data types that are stored as another: times, as 64-bit integers. zarrs sees the integers.

use serde_json::{Value, json};

use crate::arrow::{NOT_A_TIME, Time, Unit};
use crate::error::{Error, ErrorKind, Result};

/// Replaces a time type in a v2 document by the integers that it is stored as, and gives what it is.
pub(super) fn take_time_v2(document: &mut Value) -> Result<Option<Time>> {
    let Some(name) = document.get("dtype").and_then(Value::as_str) else { return Ok(None) };
    let order = name.chars().next().filter(|order| "<>|=".contains(*order));
    let rest = name.strip_prefix(['<', '>', '|', '=']).unwrap_or(name);
    let is_span = match rest.get(..2) {
        Some("M8") => false,
        Some("m8") => true,
        _ => return Ok(None),
    };
    let inside = rest[2..].strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    // Without brackets, the unit is generic.
    let (scale, unit) = match inside {
        Some(inside) => inside.split_at(inside.find(|c: char| !c.is_ascii_digit()).unwrap_or(inside.len())),
        None => ("", "generic"),
    };
    let scale = if scale.is_empty() { Ok(1) } else { scale.parse() };
    let time = time(is_span, unit, scale.ok(), name)?;
    let name = format!("{}i8", order.unwrap_or('<'));
    document["dtype"] = json!(name);
    if let Some(fill_value) = document.get_mut("fill_value") {
        take_fill_value(fill_value);
    }
    Ok(Some(time))
}

/// As [`take_time_v2`], in a v3 document.
pub(super) fn take_time_v3(document: &mut Value) -> Result<Option<Time>> {
    let is_span = match document["data_type"].get("name").and_then(Value::as_str) {
        Some("numpy.datetime64") => false,
        Some("numpy.timedelta64") => true,
        _ => return Ok(None),
    };
    let configuration = &document["data_type"]["configuration"];
    let unit = configuration["unit"].as_str().unwrap_or("generic");
    let scale = configuration["scale_factor"].as_u64().and_then(|scale| u32::try_from(scale).ok());
    let time = time(is_span, unit, scale, &document["data_type"].to_string())?;
    document["data_type"] = json!("int64");
    take_fill_value(&mut document["fill_value"]);
    Ok(Some(time))
}

fn time(is_span: bool, unit: &str, scale: Option<u32>, name: &str) -> Result<Time> {
    let refuse = |what: &str| Error::new(ErrorKind::Unsupported, format!("data type {name}")).expected(what);
    let found = Unit::from_name(unit).ok_or_else(|| refuse("a time type with a unit from Y to as"))?;
    // NumPy's largest scale is that of a 32-bit integer.
    let scale = scale.filter(|&scale| scale > 0 && i32::try_from(scale).is_ok());
    let scale = scale.ok_or_else(|| refuse("a scale from 1 to 2^31 - 1"))?;
    let time = Time { is_span, unit: found, scale };
    if !time.is_exact() {
        return Err(refuse("spans of time of a fixed length, which those of years and months have not"));
    }
    Ok(time)
}

/// `NaT`, or no fill value at all, is the integer that stands for it.
fn take_fill_value(fill_value: &mut Value) {
    if fill_value.is_null() || *fill_value == "NaT" {
        *fill_value = json!(NOT_A_TIME);
    }
}
