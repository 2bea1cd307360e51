//! Data types that zarrs sees as others: times as 64-bit integers, padded bytes, strings and structs as raw bits, lists as
//! bytes.
//!
//! * [`v2`] and [`v3`]: types by their metadata.
//! * [`variable`]: those of variable length.
//! * [`fill`]: fill values by their metadata.

mod fill;
mod v2;
mod v3;
mod variable;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::decode::{Swap, Swapped};
use crate::arrow::{Description, ElementType, Time, Unit};
use crate::error::{Error, ErrorKind, Result};

/// Elements of more bytes are refused: their fill value alone would take as much when an array is opened.
const MAX_WIDTH: usize = 1 << 24;

/// What the elements of an array are, where zarrs sees another type.
#[derive(Debug)]
pub(super) struct Logical {
    pub(super) element: ElementType,
    /// What has to be done for the native byte order. `None`: zarrs does it.
    pub(super) swap: Option<Swap>,
    /// The bytes of one element of the fill value, if zarrs' are not that.
    pub(super) fill_value: Option<Arc<[u8]>>,
}

/// A type by its metadata, with its numbers whose bytes have to be reversed.
struct Parsed {
    element: ElementType,
    swapped: Vec<Swapped>,
}

impl Parsed {
    /// A type that is no struct.
    fn new(element: ElementType, is_native: bool) -> Self {
        let swapped = if is_native { Vec::new() } else { numbers(&element) };
        Self { element, swapped }
    }
}

/// Bytes of one number whose byte order matters, 1 if none does. Not for structs.
fn number_len(element: &ElementType) -> usize {
    match element {
        ElementType::Utf32(_) => 4,
        _ => element.number_size(),
    }
}

/// All numbers in an element of more than one byte.
fn numbers(element: &ElementType) -> Vec<Swapped> {
    if let ElementType::Struct(structure) = element {
        let members = structure.members().iter().flat_map(|member| {
            let repeated =
                Swapped::repeated(numbers(member.element_type()), member.element_type().width(), member.count());
            repeated.into_iter().map(|part| part.shifted(member.bytes().start))
        });
        return members.collect();
    }
    let width = number_len(element);
    match element.width() / width {
        count @ 1.. if width > 1 => vec![Swapped::Numbers { at: 0, width, count }],
        _ => Vec::new(),
    }
}

/// The struct of some members, each with the lengths of its axes.
fn structure(members: Vec<(String, Parsed, Vec<usize>)>) -> Result<Parsed> {
    let mut swapped = Vec::new();
    let mut types = Vec::with_capacity(members.len());
    let mut parts = Vec::with_capacity(members.len());
    for (name, Parsed { element, swapped }, shape) in members {
        types.push((name, element, shape));
        parts.push(swapped);
    }
    let structure = crate::arrow::StructType::new(types)?;
    for (member, part) in structure.members().iter().zip(parts) {
        let repeated = Swapped::repeated(part, member.element_type().width(), member.count());
        swapped.extend(repeated.into_iter().map(|part| part.shifted(member.bytes().start)));
    }
    Ok(Parsed { element: ElementType::Struct(Arc::new(structure)), swapped })
}

/// Refuses elements of too many bytes.
fn check_width(width: Option<usize>, name: &str) -> Result<usize> {
    width.filter(|&width| width <= MAX_WIDTH).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("data type {name}"))
            .expected(format!("elements of at most {MAX_WIDTH} bytes"))
    })
}

/// The raw bits that zarrs sees in the place of elements of so many bytes, at least one.
fn raw_bytes(fill_value: &[u8]) -> (usize, Value) {
    // zarrs has no raw bits of no bytes.
    let stand_in = if fill_value.is_empty() { &[0] } else { fill_value };
    (stand_in.len(), json!(BASE64_STANDARD.encode(stand_in)))
}

/// Replaces what zarrs does not know in a v2 document, and gives what it is.
pub(super) fn take_v2(document: &mut Value) -> Result<Option<Logical>> {
    let Some(Parsed { element, swapped }) = v2::parse(&document["dtype"])? else { return variable::take_v2(document) };
    let order = document["dtype"].as_str().and_then(|name| name.chars().next()).filter(|order| "<>".contains(*order));
    let fill_value = document.get("fill_value").cloned().unwrap_or_default();
    if let ElementType::Time(_) = element {
        document["dtype"] = json!(format!("{}i8", order.unwrap_or('<')));
        document["fill_value"] = fill::time(&fill_value);
        return Ok(Some(Logical { element, swap: None, fill_value: None }));
    }
    let width = check_width(Some(element.width()), &document["dtype"].to_string())?;
    let swap = Swap::of(width, swapped);
    let fill_value = fill::v2(&element, &fill_value, &swap)?;
    let (len, stand_in) = raw_bytes(&fill_value);
    document["dtype"] = json!(format!("|V{len}"));
    document["fill_value"] = stand_in;
    Ok(Some(Logical { element, swap: Some(swap), fill_value: Some(at_least_one(fill_value)) }))
}

/// As [`take_v2`], in a v3 document.
pub(super) fn take_v3(document: &mut Value) -> Result<Option<Logical>> {
    let is_native = v3::is_big_endian(&document["codecs"]).unwrap_or(false) == cfg!(target_endian = "big");
    let data_type = document["data_type"].clone();
    if let Some(inner) = v3::optional(&data_type) {
        return take_optional(document, &inner?, is_native).map(Some);
    }
    let Some(element) = v3::parse(&data_type)? else { return Ok(variable::take_v3(document)) };
    let fill_value = &document["fill_value"];
    let data_type = v3::stand_in(&element).map_or(data_type, |name| json!(name));
    let (name, stand_in) = match &element {
        ElementType::Time(_) => (json!("int64"), fill::time(fill_value)),
        ElementType::Narrow(float) => (data_type, fill::narrow(*float, fill_value)?),
        ElementType::ComplexNarrow(float) => (data_type, fill::narrow_pair(*float, fill_value)?),
        _ => {
            let width = check_width(Some(element.width()), &data_type.to_string())?;
            let fill_value = fill::v3(&element, fill_value)?;
            let (len, stand_in) = raw_bytes(&fill_value);
            document["data_type"] = json!(format!("r{}", len * 8));
            document["fill_value"] = stand_in;
            let swap = Some(Swap::of(width, if is_native { Vec::new() } else { numbers(&element) }));
            return Ok(Some(Logical { element, swap, fill_value: Some(at_least_one(fill_value)) }));
        }
    };
    document["data_type"] = name;
    document["fill_value"] = stand_in;
    Ok(Some(Logical { element, swap: None, fill_value: None }))
}

/// An optional type, which zarrs knows by another name, of a type that zarrs may not know.
fn take_optional(document: &mut Value, inner: &Value, is_native: bool) -> Result<Logical> {
    let values = v3::member(inner)?;
    let width = check_width(Some(values.width()), &inner.to_string())?;
    if width == 0 {
        return Err(Error::new(ErrorKind::Unsupported, format!("optional values of {inner}"))
            .expected("values of one byte or more"));
    }
    let mut fill_value = vec![0; width + 1];
    match &document["fill_value"] {
        Value::Null => {}
        Value::Array(value) if value.len() == 1 => {
            fill_value[..width].copy_from_slice(&fill::v3(&values, &value[0])?);
            fill_value[width] = 1;
        }
        other => return Err(fill::invalid(other, "null, or a list of one value")),
    }
    // Where zarrs sees bytes, their order is left to us.
    let (seen, swapped) = match &values {
        ElementType::RawBytes(_) | ElementType::NullTerminated(_) | ElementType::Utf32(_) | ElementType::Struct(_) => {
            (json!(format!("r{}", width * 8)), if is_native { Vec::new() } else { numbers(&values) })
        }
        ElementType::Time(_) => (json!("int64"), Vec::new()),
        _ => (v3::stand_in(&values).map_or_else(|| inner.clone(), |name| json!(name)), Vec::new()),
    };
    document["data_type"] = json!({"name": "zarrs.optional", "configuration": v3::configured(&seen)});
    document["fill_value"] = Value::Null;
    v3::rename_optional(&mut document["codecs"]);
    let swap = Some(Swap::of(width + 1, swapped));
    let element = ElementType::Optional(Arc::new(values));
    Ok(Logical { element, swap, fill_value: Some(fill_value.into()) })
}

/// An element of no bytes takes one.
fn at_least_one(mut fill_value: Vec<u8>) -> Arc<[u8]> {
    if fill_value.is_empty() {
        fill_value.push(0);
    }
    fill_value.into()
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

/// What the metadata tells of the elements before anything in it is replaced.
pub(super) struct Told {
    data_type: Option<Value>,
    order: Option<&'static str>,
    fill_value: Value,
}

impl Told {
    pub(super) fn v2(document: &Value) -> Self {
        let fill_value = document.get("fill_value").cloned().unwrap_or_default();
        Self { data_type: None, order: v2::byte_order(&document["dtype"]), fill_value }
    }

    pub(super) fn v3(document: &Value) -> Self {
        let order = v3::is_big_endian(&document["codecs"]).map(|is_big| if is_big { "big" } else { "little" });
        Self { data_type: Some(document["data_type"].clone()), order, fill_value: document["fill_value"].clone() }
    }

    /// The metadata of a field of such elements.
    pub(super) fn describe(&self, element: &ElementType) -> Description {
        let (name, configuration) = match &self.data_type {
            Some(Value::String(name)) => (name.clone(), Value::Null),
            Some(Value::Object(data_type)) => (
                data_type.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
                data_type.get("configuration").cloned().unwrap_or_default(),
            ),
            _ => (element.zarr_name().into_owned(), element.zarr_configuration()),
        };
        let mut told = HashMap::from([("zarr:dtype".to_owned(), name)]);
        if !configuration.is_null() && configuration.as_object().is_none_or(|members| !members.is_empty()) {
            told.insert("zarr:configuration".to_owned(), configuration.to_string());
        }
        if let Some(order) = self.order.filter(|_| has_byte_order(element)) {
            told.insert("zarr:byte_order".to_owned(), order.to_owned());
        }
        told.insert("zarr:fill_value".to_owned(), self.fill_value.to_string());
        Arc::new(told)
    }

    /// That of some members of a struct.
    pub(super) fn describe_some(&self, element: &ElementType) -> Description {
        let mut told = HashMap::from([
            ("zarr:dtype".to_owned(), element.zarr_name().into_owned()),
            ("zarr:configuration".to_owned(), element.zarr_configuration().to_string()),
        ]);
        if let Some(order) = self.order.filter(|_| has_byte_order(element)) {
            told.insert("zarr:byte_order".to_owned(), order.to_owned());
        }
        Arc::new(told)
    }
}

/// Whether an element has numbers of more than one byte.
fn has_byte_order(element: &ElementType) -> bool {
    match element {
        ElementType::Struct(structure) => {
            structure.members().iter().any(|member| has_byte_order(member.element_type()))
        }
        ElementType::Optional(inner) => has_byte_order(inner),
        _ => number_len(element) > 1,
    }
}
