//! Types by their metadata in v2: NumPy's own names.

use serde_json::Value;

use super::{Parsed, check_width, structure, time};
use crate::arrow::ElementType;
use crate::error::{Error, ErrorKind, Result};

/// The type of a `dtype` that zarrs does not know as it is. `None` for all others.
pub(super) fn parse(dtype: &Value) -> Result<Option<Parsed>> {
    match dtype {
        Value::Array(_) => member(dtype).map(Some),
        Value::String(name) => match split(name).1.chars().next() {
            Some('S' | 'U' | 'V' | 'M' | 'm') => member(dtype).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The byte order of a name, and the rest of it.
fn split(name: &str) -> (Option<char>, &str) {
    let order = name.chars().next().filter(|order| "<>|=".contains(*order));
    (order, &name[usize::from(order.is_some())..])
}

/// Any type, alone or as a member.
fn member(dtype: &Value) -> Result<Parsed> {
    use ElementType as E;
    let refuse = || {
        Error::new(ErrorKind::Unsupported, format!("data type {dtype}"))
            .expected("a type of fixed width: bools, numbers, times, bytes, strings, structs")
    };
    let name = match dtype {
        Value::String(name) => name,
        Value::Array(members) => return members_of(members),
        _ => return Err(refuse()),
    };
    let (order, rest) = split(name);
    let is_native = match order {
        Some('<') => cfg!(target_endian = "little"),
        Some('>') => cfg!(target_endian = "big"),
        _ => true,
    };
    let (kind, rest) = rest.split_at_checked(1).ok_or_else(refuse)?;
    let number = |rest: &str| rest.parse::<usize>().ok().filter(|_| rest.bytes().all(|byte| byte.is_ascii_digit()));
    let padded = |factor: usize| {
        let len = if rest.is_empty() { Some(0) } else { number(rest) }.ok_or_else(refuse)?;
        check_width(len.checked_mul(factor), name).map(|width| width / factor)
    };
    let element = match (kind, rest) {
        ("b", "1") => E::Bool,
        ("i", "1") => E::Int8,
        ("i", "2") => E::Int16,
        ("i", "4") => E::Int32,
        ("i", "8") => E::Int64,
        ("u", "1") => E::UInt8,
        ("u", "2") => E::UInt16,
        ("u", "4") => E::UInt32,
        ("u", "8") => E::UInt64,
        ("f", "2") => E::Float16,
        ("f", "4") => E::Float32,
        ("f", "8") => E::Float64,
        ("c", "8") => E::Complex64,
        ("c", "16") => E::Complex128,
        ("S", _) => E::NullTerminated(padded(1)?),
        ("V", _) => E::RawBytes(padded(1)?),
        ("U", _) => E::Utf32(padded(4)?),
        ("M" | "m", _) => {
            let inside = rest.strip_prefix('8').ok_or_else(refuse)?;
            let inside = inside.strip_prefix('[').and_then(|inside| inside.strip_suffix(']'));
            // Without brackets, the unit is generic.
            let (scale, unit) = match inside {
                Some(inside) => inside.split_at(inside.find(|c: char| !c.is_ascii_digit()).unwrap_or(inside.len())),
                None => ("", "generic"),
            };
            let scale = if scale.is_empty() { Some(1) } else { scale.parse().ok() };
            E::Time(time(kind == "m", unit, scale, name)?)
        }
        _ => return Err(refuse()),
    };
    Ok(Parsed::new(element, is_native))
}

/// A struct: a list of name, type, and maybe shape.
fn members_of(members: &[Value]) -> Result<Parsed> {
    let invalid = |member: &Value| {
        Error::new(ErrorKind::Metadata, format!("member {member} of a structured data type"))
            .expected("a list of a name, a data type, and maybe a shape")
    };
    let parsed = members.iter().enumerate().map(|(at, member_of)| {
        let parts = member_of.as_array().filter(|parts| matches!(parts.len(), 2 | 3));
        let parts = parts.ok_or_else(|| invalid(member_of))?;
        let name = parts[0].as_str().ok_or_else(|| invalid(member_of))?;
        // NumPy names what has none.
        let name = if name.is_empty() { format!("f{at}") } else { name.to_owned() };
        let len = |len: &Value| len.as_u64().and_then(|len| usize::try_from(len).ok());
        let shape = match parts.get(2) {
            None => Some(Vec::new()),
            Some(Value::Array(shape)) => shape.iter().map(len).collect(),
            Some(shape) => len(shape).map(|len| vec![len]),
        };
        Ok((name, member(&parts[1])?, shape.ok_or_else(|| invalid(member_of))?))
    });
    structure(parsed.collect::<Result<_>>()?)
}

/// The byte order of a `dtype`; of a struct, that of its members, or `mixed`.
pub(super) fn byte_order(dtype: &Value) -> Option<&'static str> {
    match dtype {
        Value::String(name) => match split(name).0 {
            Some('<') => Some("little"),
            Some('>') => Some("big"),
            _ => None,
        },
        Value::Array(members) => {
            let mut orders = members.iter().filter_map(|member| byte_order(member.get(1)?));
            let first = orders.next()?;
            Some(if orders.all(|order| order == first) { first } else { "mixed" })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chunk::decode::{Swap, Swapped};

    #[test]
    fn structs_have_the_byte_orders_of_their_members() {
        let dtype =
            json!([["a", "<i4"], ["b", ">f8"], ["n", [["s", "|S3"], ["u", ">U2"]]], ["m", ">i2", [2, 3]], ["", "|V2"]]);
        let parsed = parse(&dtype).unwrap().unwrap();
        assert_eq!(parsed.element.width(), 4 + 8 + 11 + 12 + 2);
        let ElementType::Struct(structure) = &parsed.element else { panic!("{:?}", parsed.element) };
        assert_eq!(structure.members()[4].name(), "f4");
        let expected = [
            Swapped::Numbers { at: 4, width: 8, count: 1 },
            Swapped::Numbers { at: 15, width: 4, count: 2 },
            Swapped::Numbers { at: 23, width: 2, count: 6 },
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(parsed.swapped, expected);
        }
        assert_eq!(byte_order(&dtype), Some("mixed"));
        let parsed = parse(&json!("<U0")).unwrap().unwrap();
        assert_eq!((parsed.element, Swap::of(0, parsed.swapped)), (ElementType::Utf32(0), Swap::None));
    }

    #[test]
    fn types_that_are_none() {
        for dtype in [
            json!("|S99999999999999999999"),
            json!("<U-1"),
            json!("|V+3"),
            json!("<U4194305"),
            json!([["a", "|O"]]),
            json!([["a"]]),
            json!([["a", "<i4", "x"]]),
            json!([]),
            json!([["a", "<i4"], ["a", "<i4"]]),
            json!([["a", "<i4", [4_294_967_296_u64, 4_294_967_296_u64]]]),
            json!([["", "<i4"], ["f0", "<i4"]]),
            json!([["a", "<i3"]]),
            json!("<M8[é]"),
        ] {
            assert!(parse(&dtype).is_err(), "{dtype}");
        }
        assert!(parse(&json!("<i4")).unwrap().is_none());
        assert!(parse(&json!(null)).unwrap().is_none());
        assert!(parse(&json!("")).unwrap().is_none());
    }
}
