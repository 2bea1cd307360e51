//! Data types that differ: the one that holds the values of all exactly, and the casts to it.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};

use super::ElementType;
use crate::error::{Error, ErrorKind, Result};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// What numbers a type holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bool,
    Unsigned,
    Signed,
    Float,
    Complex,
}

/// `None` for types that are not cast.
fn kind(element: &ElementType) -> Option<Kind> {
    use ElementType as E;
    Some(match element {
        E::Bool => Kind::Bool,
        E::UInt8 | E::UInt16 | E::UInt32 | E::UInt64 => Kind::Unsigned,
        E::Int8 | E::Int16 | E::Int32 | E::Int64 => Kind::Signed,
        E::Float16 | E::Float32 | E::Float64 => Kind::Float,
        E::Complex64 | E::Complex128 => Kind::Complex,
        _ => return None,
    })
}

/// The type that `NumPy`'s `result_type` gives for all of `elements`: the least that holds all their values exactly.
///
/// # Errors
/// [`ErrorKind::Selection`] if there is none, as float64 does not hold all 64-bit integers.
pub(crate) fn common_type(elements: impl IntoIterator<Item = ElementType>) -> Result<ElementType> {
    use ElementType as E;
    const ORDER: [ElementType; 14] = [
        E::Bool,
        E::UInt8,
        E::UInt16,
        E::UInt32,
        E::UInt64,
        E::Int8,
        E::Int16,
        E::Int32,
        E::Int64,
        E::Float16,
        E::Float32,
        E::Float64,
        E::Complex64,
        E::Complex128,
    ];
    let mut elements: Vec<ElementType> = elements.into_iter().collect();
    elements.dedup();
    if let [only] = &elements[..] {
        return Ok(only.clone());
    }
    let holds = |wide: &ElementType| elements.iter().all(|element| pair(element, wide).as_ref() == Some(wide));
    ORDER.into_iter().find(holds).ok_or_else(|| {
        let names: Vec<_> = elements.iter().map(ElementType::told_name).collect();
        Error::new(ErrorKind::Selection, format!("arrays of {}", names.join(", ")))
            .expected("data types of which one holds all values of the others exactly")
            .remedy("Read them in separate calls, and cast the results.")
    })
}

fn pair(one: &ElementType, two: &ElementType) -> Option<ElementType> {
    use ElementType as E;
    let (Some(first), Some(second)) = (kind(one), kind(two)) else { return (one == two).then(|| one.clone()) };
    let (low, high, kinds) = if first <= second { (one, two, (first, second)) } else { (two, one, (second, first)) };
    if first == second {
        return Some(if low.size() > high.size() { low } else { high }.clone());
    }
    let floats = [E::Float16, E::Float32, E::Float64];
    let complexes = [E::Complex64, E::Complex128];
    let signed = [E::Int8, E::Int16, E::Int32, E::Int64];
    match kinds {
        (Kind::Bool, _) => Some(high.clone()),
        (Kind::Unsigned, Kind::Signed) => {
            signed.into_iter().find(|wide| wide.size() >= high.size() && wide.size() > low.size())
        }
        // The float of twice the size holds integers exactly.
        (Kind::Unsigned | Kind::Signed, Kind::Float) => {
            floats.into_iter().find(|wide| wide.size() >= high.size() && wide.size() >= 2 * low.size())
        }
        (Kind::Unsigned | Kind::Signed, Kind::Complex) => {
            complexes.into_iter().find(|wide| wide.size() >= high.size() && wide.number_size() >= 2 * low.size())
        }
        (Kind::Float, Kind::Complex) => {
            complexes.into_iter().find(|wide| wide.size() >= high.size() && wide.number_size() >= low.size())
        }
        _ => None,
    }
}

enum Number {
    Integer(i128),
    Float(f64),
}

/// Casts elements in native byte order, as many as `source` has, to a type that holds them exactly.
pub(crate) fn cast(from: &ElementType, to: &ElementType, source: &[u8], target: &mut [u8]) {
    for (source, target) in source.chunks_exact(from.size()).zip(target.chunks_exact_mut(to.size())) {
        let parts = target.chunks_exact_mut(to.number_size());
        let mut numbers = source.chunks_exact(from.number_size());
        for part in parts {
            // A real number has no imaginary part.
            let number = numbers.next().map_or(Number::Float(0.0), |bytes| read(from, bytes));
            write(to, &number, part);
        }
    }
}

fn read(from: &ElementType, bytes: &[u8]) -> Number {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = if cfg!(target_endian = "little") {
        u64::from_ne_bytes(wide)
    } else {
        u64::from_ne_bytes(wide) >> (64 - 8 * bytes.len())
    };
    let unused = 64 - 8 * bytes.len() as u32;
    match (kind(from), bytes.len()) {
        (Some(Kind::Bool), _) => Number::Integer(i128::from(bits != 0)),
        (Some(Kind::Unsigned), _) => Number::Integer(i128::from(bits)),
        (Some(Kind::Signed), _) => Number::Integer(i128::from((bits << unused) as i64 >> unused)),
        (_, 2) => Number::Float(Half::from_bits(bits as u16).to_f64()),
        (_, 4) => Number::Float(f64::from(f32::from_bits(bits as u32))),
        _ => Number::Float(f64::from_bits(bits)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "`common_type` gives only types that hold the values exactly")]
fn write(to: &ElementType, number: &Number, target: &mut [u8]) {
    let float = |number: &Number| match number {
        Number::Integer(value) => *value as f64,
        Number::Float(value) => *value,
    };
    let len = target.len();
    match (kind(to), len) {
        (Some(Kind::Bool | Kind::Unsigned | Kind::Signed), _) => {
            let value = match number {
                Number::Integer(value) => *value as i64,
                Number::Float(value) => *value as i64,
            };
            let bytes = value.to_ne_bytes();
            target.copy_from_slice(if cfg!(target_endian = "little") { &bytes[..len] } else { &bytes[8 - len..] });
        }
        (_, 2) => target.copy_from_slice(&Half::from_f64(float(number)).to_bits().to_ne_bytes()),
        (_, 4) => target.copy_from_slice(&(float(number) as f32).to_ne_bytes()),
        _ => target.copy_from_slice(&float(number).to_ne_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::ElementType as E;
    use super::*;

    #[test]
    fn types_that_hold_both() {
        for (one, two, both) in [
            (E::Bool, E::Int8, Some(E::Int8)),
            (E::UInt8, E::Int8, Some(E::Int16)),
            (E::UInt8, E::Int64, Some(E::Int64)),
            (E::UInt32, E::Int16, Some(E::Int64)),
            (E::UInt64, E::Int64, None),
            (E::UInt64, E::UInt8, Some(E::UInt64)),
            (E::Int8, E::Float16, Some(E::Float16)),
            (E::Int16, E::Float16, Some(E::Float32)),
            (E::Int32, E::Float32, Some(E::Float64)),
            (E::Int64, E::Float64, None),
            (E::Float32, E::Float64, Some(E::Float64)),
            (E::Float64, E::Complex64, Some(E::Complex128)),
            (E::Int16, E::Complex64, Some(E::Complex64)),
            (E::Int32, E::Complex64, Some(E::Complex128)),
            (E::UInt64, E::Complex128, None),
        ] {
            assert_eq!((pair(&one, &two), pair(&two, &one)), (both.clone(), both), "{one:?} {two:?}");
        }
    }

    #[test]
    fn the_order_does_not_matter() {
        for (types, common) in [
            (vec![E::Int8, E::UInt8, E::Float16], Some(E::Float16)),
            (vec![E::Int8, E::UInt16, E::Float32], Some(E::Float32)),
            (vec![E::UInt32, E::Int8, E::Float64], Some(E::Float64)),
            (vec![E::UInt8, E::UInt16], Some(E::UInt16)),
            (vec![E::Bool, E::Bool], Some(E::Bool)),
            (vec![E::UInt64, E::Int8, E::Bool], None),
        ] {
            let mut types = types;
            for _ in 0..types.len() {
                types.rotate_left(1);
                assert_eq!(common_type(types.clone()).ok(), common, "{types:?}");
            }
        }
    }

    #[test]
    fn casts_are_exact() {
        let mut out = [0; 16];
        cast(&E::Int8, &E::Int16, &[0x80, 0x7f], &mut out[..4]);
        assert_eq!(out[..4], [(-128_i16).to_ne_bytes(), 127_i16.to_ne_bytes()].concat());
        cast(&E::UInt32, &E::Float64, &u32::MAX.to_ne_bytes(), &mut out[..8]);
        assert_eq!(out[..8], 4_294_967_295_f64.to_ne_bytes());
        cast(&E::UInt64, &E::UInt64, &u64::MAX.to_ne_bytes(), &mut out[..8]);
        assert_eq!(out[..8], u64::MAX.to_ne_bytes());
        cast(&E::Float32, &E::Complex128, &(-0.0_f32).to_ne_bytes(), &mut out);
        assert_eq!(out, *[(-0.0_f64).to_ne_bytes(), 0_f64.to_ne_bytes()].concat());
        cast(&E::Float32, &E::Float64, &f32::from_bits(0x7fc1_2345).to_ne_bytes(), &mut out[..8]);
        assert_eq!(u64::from_ne_bytes(out[..8].try_into().unwrap()), 0x7ff8_2468_a000_0000);
        cast(&E::Bool, &E::Float16, &[1], &mut out[..2]);
        assert_eq!(out[..2], 0x3c00_u16.to_ne_bytes());
    }
}
