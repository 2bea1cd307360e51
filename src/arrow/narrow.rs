//! Floats that Arrow does not have, which float32 holds exactly: bfloat16, and those of 4, 6 and 8 bits.

/// A float of at most 16 bits. The names are Zarr's: `Float8E4M3` has 4 bits of exponent and 3 of mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum NarrowFloat {
    BFloat16,
    Float8E3M4,
    Float8E4M3,
    Float8E4M3B11FNUZ,
    Float8E4M3FN,
    Float8E4M3FNUZ,
    Float8E5M2,
    Float8E5M2FNUZ,
    Float8E8M0FNU,
    Float6E2M3FN,
    Float6E3M2FN,
    Float4E2M1FN,
}

/// What a format's largest exponent and its negative zero stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// Infinities and NaN, as in IEEE 754.
    Ieee,
    /// Nothing special: all are finite.
    Finite,
    /// What would be negative zero is the only NaN; there is no infinity.
    NanForNegativeZero,
    /// What would be the largest of either sign is NaN; there is no infinity.
    NanForLargest,
}

/// A float of at most 8 bits: sign, exponent, mantissa.
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    specials: Specials,
}

impl NarrowFloat {
    pub(crate) const ALL: [Self; 12] = [
        Self::BFloat16,
        Self::Float8E3M4,
        Self::Float8E4M3,
        Self::Float8E4M3B11FNUZ,
        Self::Float8E4M3FN,
        Self::Float8E4M3FNUZ,
        Self::Float8E5M2,
        Self::Float8E5M2FNUZ,
        Self::Float8E8M0FNU,
        Self::Float6E2M3FN,
        Self::Float6E3M2FN,
        Self::Float4E2M1FN,
    ];

    /// Zarr v3's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BFloat16 => "bfloat16",
            Self::Float8E3M4 => "float8_e3m4",
            Self::Float8E4M3 => "float8_e4m3",
            Self::Float8E4M3B11FNUZ => "float8_e4m3b11fnuz",
            Self::Float8E4M3FN => "float8_e4m3fn",
            Self::Float8E4M3FNUZ => "float8_e4m3fnuz",
            Self::Float8E5M2 => "float8_e5m2",
            Self::Float8E5M2FNUZ => "float8_e5m2fnuz",
            Self::Float8E8M0FNU => "float8_e8m0fnu",
            Self::Float6E2M3FN => "float6_e2m3fn",
            Self::Float6E3M2FN => "float6_e3m2fn",
            Self::Float4E2M1FN => "float4_e2m1fn",
        }
    }

    /// Bytes of one as decoded.
    #[must_use]
    pub fn width(self) -> usize {
        if self == Self::BFloat16 { 2 } else { 1 }
    }

    fn format(self) -> Option<Format> {
        let (exponent, mantissa, bias, specials) = match self {
            Self::BFloat16 | Self::Float8E8M0FNU => return None,
            Self::Float8E3M4 => (3, 4, 3, Specials::Ieee),
            Self::Float8E4M3 => (4, 3, 7, Specials::Ieee),
            Self::Float8E4M3B11FNUZ => (4, 3, 11, Specials::NanForNegativeZero),
            Self::Float8E4M3FN => (4, 3, 7, Specials::NanForLargest),
            Self::Float8E4M3FNUZ => (4, 3, 8, Specials::NanForNegativeZero),
            Self::Float8E5M2 => (5, 2, 15, Specials::Ieee),
            Self::Float8E5M2FNUZ => (5, 2, 16, Specials::NanForNegativeZero),
            Self::Float6E2M3FN => (2, 3, 1, Specials::Finite),
            Self::Float6E3M2FN => (3, 2, 3, Specials::Finite),
            Self::Float4E2M1FN => (2, 1, 1, Specials::Finite),
        };
        Some(Format { exponent, mantissa, bias, specials })
    }

    /// The value of each byte, for all types of one byte. Bits that a format of fewer does not have are ignored.
    #[must_use]
    pub fn values(self) -> [f32; 256] {
        std::array::from_fn(|code| match self.format() {
            Some(format) => format.value(code as u32),
            None => power_of_two(code as u32),
        })
    }

    /// The byte whose value is closest to `value`, of two that are equally close the even one, as IEEE 754 rounds.
    /// Beyond the largest is infinity, if there is one. `None` if there is no byte for it. Not for bfloat16.
    pub(crate) fn nearest(self, value: f64) -> Option<u8> {
        let values = self.values();
        let value_of = |code: u8| f64::from(values[usize::from(code)]);
        let mut codes = 0..=u8::MAX >> self.format().map_or(0, |format| 7 - format.exponent - format.mantissa);
        if value.is_nan() {
            // That of a set quiet bit and nothing else, where there are several.
            let quiet = |code: &u8| values[usize::from(*code)].to_bits() & 0x7fff_ffff == f32::NAN.to_bits();
            return codes.find(quiet);
        }
        let distance = |code: u8| (value_of(code) - value).abs();
        let infinity = codes.clone().find(|&code| value_of(code).to_bits() == f64::INFINITY.copysign(value).to_bits());
        let finite = codes.filter(|&code| {
            let found = value_of(code);
            found.is_finite() && (found != 0.0 || value != 0.0 || found.is_sign_negative() == value.is_sign_negative())
        });
        let largest = finite.clone().map(|code| value_of(code).abs()).fold(0.0, f64::max);
        if value.abs() > largest {
            return infinity;
        }
        finite.min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))))
    }
}

impl NarrowFloat {
    /// The bytes of `value`, in native byte order, if there are any of exactly that value. Any NaN is as good as another.
    pub(crate) fn exact(self, value: f32) -> Option<Vec<u8>> {
        if self == Self::BFloat16 {
            let bits = (value.to_bits() >> 16) as u16;
            let same = from_bfloat16(bits).to_bits() == value.to_bits();
            return same.then(|| bits.to_ne_bytes().to_vec());
        }
        let code = self.nearest(f64::from(value))?;
        let found = self.values()[usize::from(code)];
        (found.to_bits() == value.to_bits() || found.is_nan() && value.is_nan()).then(|| vec![code])
    }
}

impl Format {
    fn value(&self, code: u32) -> f32 {
        let fraction_bits = f32::MANTISSA_DIGITS - 1;
        let mantissa = code & ((1 << self.mantissa) - 1);
        let top = (1 << self.exponent) - 1;
        let exponent = code >> self.mantissa & top;
        let negative = code >> (self.mantissa + self.exponent) & 1;
        let sign = negative << 31;
        match self.specials {
            Specials::Ieee if exponent == top => {
                // The payload of a NaN keeps its place behind the point.
                return f32::from_bits(sign | f32::INFINITY.to_bits() | mantissa << (fraction_bits - self.mantissa));
            }
            Specials::NanForNegativeZero if negative == 1 && exponent == 0 && mantissa == 0 => return f32::NAN,
            Specials::NanForLargest if exponent == top && mantissa + 1 == 1 << self.mantissa => {
                return f32::from_bits(sign | f32::NAN.to_bits());
            }
            _ => {}
        }
        let (significand, exponent) =
            if exponent == 0 { (mantissa, 1) } else { (mantissa | 1 << self.mantissa, exponent as i32) };
        let scale = exponent - self.bias - self.mantissa as i32;
        // Both factors and the product are exact: at most five digits, and no exponent near the limits.
        let magnitude = f32::from(significand as u16) * power_of_two((scale + 127) as u32);
        f32::from_bits(sign | magnitude.to_bits())
    }
}

/// Two to the power of `code` - 127, NaN for 255: the format of exponents alone.
fn power_of_two(code: u32) -> f32 {
    match code {
        // A subnormal number.
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(code << 23),
    }
}

/// The float32 of a bfloat16's bits, which are its upper half.
pub(super) fn from_bfloat16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the formula: (-1)^s * 2^(e - bias) * 1.m, read digit by digit from the bits as text.
    fn by_formula(name: &str, code: u8) -> f64 {
        let digits = |at: usize| name[at..=at].parse::<usize>().expect("a digit");
        let e = name.find("_e").expect("an exponent") + 2;
        let (exponent, mantissa) = (digits(e), digits(e + 2));
        let text = format!("{code:08b}");
        let text = &text[8 - 1 - exponent - mantissa..];
        let number = |text: &str| i32::from_str_radix(text, 2).unwrap_or(0);
        let (stored, fraction) = (number(&text[1..=exponent]), number(&text[1 + exponent..]));
        let uz = name.ends_with("fnuz");
        let bias = match name.split_once('b') {
            Some((_, bias)) => bias.trim_end_matches("fnuz").parse::<i32>().expect("a bias"),
            None => (1 << (exponent - 1)) - 1 + i32::from(uz),
        };
        if uz && code == 0x80 {
            return f64::NAN;
        }
        if name.ends_with("e4m3fn") && code & 0x7f == 0x7f {
            return f64::NAN;
        }
        if !name.contains("fn") && stored == (1 << exponent) - 1 {
            return if fraction == 0 { f64::INFINITY } else { f64::NAN } * if &text[..1] == "1" { -1.0 } else { 1.0 };
        }
        let part = f64::from(fraction) / 2_f64.powi(mantissa as i32);
        let magnitude =
            if stored == 0 { part * 2_f64.powi(1 - bias) } else { (1.0 + part) * 2_f64.powi(stored - bias) };
        if &text[..1] == "1" { -magnitude } else { magnitude }
    }

    #[test]
    fn every_byte_has_the_value_of_the_formula() {
        let floats = NarrowFloat::ALL;
        for float in floats.into_iter().filter(|float| float.format().is_some()) {
            for (code, value) in float.values().into_iter().enumerate() {
                let expected = by_formula(float.name(), code as u8);
                let same = f64::from(value).to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
                assert!(same, "{} {code:#04x}: {value} {expected}", float.name());
            }
        }
    }

    #[test]
    fn exponents_alone() {
        let values = NarrowFloat::Float8E8M0FNU.values();
        assert!(values[255].is_nan());
        for (code, value) in values[..255].iter().enumerate() {
            assert_eq!(f64::from(*value).to_bits(), 2_f64.powi(code as i32 - 127).to_bits(), "{code}");
        }
    }

    #[test]
    fn payloads_of_nans_are_kept() {
        let values = NarrowFloat::Float8E5M2.values();
        assert_eq!(
            [0x7d, 0x7e, 0xff].map(|code: usize| values[code].to_bits()),
            [0x7fa0_0000, 0x7fc0_0000, 0xffe0_0000]
        );
        assert_eq!(from_bfloat16(0xff81).to_bits(), 0xff81_0000);
    }

    #[test]
    fn the_nearest_of_a_value_is_itself() {
        for float in NarrowFloat::ALL.into_iter().filter(|float| float.width() == 1) {
            for (code, value) in float.values().into_iter().enumerate() {
                let found = float.nearest(f64::from(value));
                let back = found.map(|found| float.values()[usize::from(found)]);
                let same =
                    back.is_some_and(|back| back.to_bits() == value.to_bits() || back.is_nan() && value.is_nan());
                assert!(same, "{} {code:#04x}", float.name());
            }
        }
        assert_eq!([448.0, -448.0].map(|value| NarrowFloat::Float8E4M3FN.nearest(value)), [Some(0x7e), Some(0xfe)]);
        assert_eq!([449.0, f64::NAN].map(|value| NarrowFloat::Float8E4M3FN.nearest(value)), [None, Some(0x7f)]);
        assert_eq!(NarrowFloat::Float4E2M1FN.nearest(2.5), Some(0b0100));
        assert_eq!(NarrowFloat::Float4E2M1FN.nearest(3.5), Some(0b0110));
        assert_eq!(NarrowFloat::Float4E2M1FN.nearest(6.1), None);
        assert_eq!(NarrowFloat::Float4E2M1FN.nearest(f64::NAN), None);
        assert_eq!(NarrowFloat::Float8E5M2.nearest(f64::NAN), Some(0x7e));
        assert_eq!(NarrowFloat::Float8E5M2.nearest(-1e9), Some(0xfc));
    }
}
