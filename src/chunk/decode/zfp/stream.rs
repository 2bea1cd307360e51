//! What zfp's bit streams hold: blocks of four values along each axis, by parameters that may stand in a header.
//!
//! A stream is read in words of 64 bits, little-endian, the lowest bit first.

use zarrs::array::data_type::api::codec_traits::zfp::ZfpNativeType;
use zarrs::metadata_ext::codec::zfp::ZfpMode;

/// Bits of a word.
pub(super) const WORD: u64 = 64;

/// The smallest exponent of a bit plane; with one below it, the library does without any loss.
const MIN_EXP: i32 = -1074;
const MAX_PREC: u32 = 64;
const MAX_BITS: u32 = 16658;
/// Exponents further away say nothing more, and their differences could overflow.
const EXPONENTS: std::ops::RangeInclusive<i32> = -(1 << 20)..=1 << 20;

/// `zfp` and the version of the format.
const MAGIC: u64 = 0x0570_667a;

/// A number as zfp has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Int32,
    Int64,
    Float,
    Double,
}

impl Scalar {
    /// Its length in bytes, which is its alignment, too.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Int32 | Self::Float => 4,
            Self::Int64 | Self::Double => 8,
        }
    }

    /// Most bits of a block that stand before its bit planes.
    fn front(self) -> u64 {
        match self {
            Self::Int32 => 5,
            Self::Int64 => 6,
            Self::Float => 1 + 1 + 8 + 5,
            Self::Double => 1 + 1 + 11 + 6,
        }
    }

    /// Least bits of a block at a fixed rate.
    fn least(self) -> u32 {
        match self {
            Self::Int32 | Self::Int64 => 1,
            Self::Float => 1 + 8,
            Self::Double => 1 + 11,
        }
    }
}

impl From<ZfpNativeType> for Scalar {
    fn from(native: ZfpNativeType) -> Self {
        match native {
            ZfpNativeType::Int32 => Self::Int32,
            ZfpNativeType::Int64 => Self::Int64,
            ZfpNativeType::Float => Self::Float,
            ZfpNativeType::Double => Self::Double,
        }
    }
}

/// How blocks are cut off. Made by [`new`](Self::new) alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Params {
    /// Least bits of a block.
    pub(super) minbits: u32,
    /// Most bits of a block.
    pub(super) maxbits: u32,
    /// Most bit planes of a block.
    pub(super) maxprec: u32,
    /// The exponent of the last bit plane.
    pub(super) minexp: i32,
}

impl Params {
    /// `None` if the library does not take them.
    fn new(minbits: u32, maxbits: u32, maxprec: u32, minexp: i32) -> Option<Self> {
        let sound = minbits <= maxbits && (1..=MAX_PREC).contains(&maxprec) && EXPONENTS.contains(&minexp);
        sound.then_some(Self { minbits, maxbits, maxprec, minexp })
    }

    /// The parameters of a mode, as zarrs writes it: a rate is that of blocks of 64 values, whatever the number of axes.
    ///
    /// # Errors
    /// What is wrong with the mode.
    pub(super) fn of_mode(mode: &ZfpMode, scalar: Scalar) -> Result<Self, String> {
        let is_float = matches!(scalar, Scalar::Float | Scalar::Double);
        let params = match *mode {
            ZfpMode::Expert { minbits, maxbits, maxprec, minexp } => Self::new(minbits, maxbits, maxprec, minexp),
            ZfpMode::FixedRate { rate } => {
                let bits = (64.0 * rate + 0.5).floor();
                let in_range = bits >= 1.0 && bits <= f64::from(1_u32 << 24);
                let bits = (bits as u32).max(scalar.least());
                Self::new(bits, bits, MAX_PREC, MIN_EXP).filter(|_| in_range)
            }
            ZfpMode::FixedPrecision { precision } => {
                let precision = if precision == 0 { MAX_PREC } else { precision.min(MAX_PREC) };
                Self::new(1, MAX_BITS, precision, MIN_EXP)
            }
            ZfpMode::FixedAccuracy { .. } if !is_float => return Err("'fixed_accuracy' of integers".into()),
            ZfpMode::FixedAccuracy { tolerance } => {
                let in_range = tolerance.is_finite() && tolerance >= 0.0;
                Self::new(1, MAX_BITS, MAX_PREC, exponent(tolerance)).filter(|_| in_range)
            }
            ZfpMode::Reversible => Self::new(1, MAX_BITS, MAX_PREC, MIN_EXP - 1),
        };
        params.ok_or_else(|| format!("parameters that zfp does not have: {mode:?}"))
    }

    /// The parameters of the mode in a header.
    fn of_header(mode: u64) -> Option<Self> {
        let mode = match u32::try_from(mode) {
            Ok(mode @ 0..2048) => return Self::new(mode + 1, mode + 1, MAX_PREC, MIN_EXP),
            Ok(mode @ 2048..2176) => return Self::new(1, MAX_BITS, mode - 2047, MIN_EXP),
            Ok(2176) => return Self::new(1, MAX_BITS, MAX_PREC, MIN_EXP - 1),
            Ok(mode @ 2177..4095) => return Self::new(1, MAX_BITS, MAX_PREC, MIN_EXP + (mode - 2177) as i32),
            _ => mode >> 12,
        };
        let part = |at: u32, bits: u32| (mode >> at) as u32 & ((1 << bits) - 1);
        Self::new(part(0, 15) + 1, part(15, 15) + 1, part(30, 7) + 1, part(37, 15) as i32 - 16495)
    }
}

/// The exponent of the largest power of two that is no more than `tolerance`.
fn exponent(tolerance: f64) -> i32 {
    if tolerance <= 0.0 {
        return MIN_EXP;
    }
    let exponent = |number: f64| (number.to_bits() >> 52) as i32 - 1023;
    if tolerance < f64::MIN_POSITIVE { exponent(tolerance * 2_f64.powi(64)) - 64 } else { exponent(tolerance) }
}

/// An array of one to four axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) scalar: Scalar,
    shape: Vec<usize>,
}

impl Field {
    /// `None` if there are too few or too many axes, or the elements cannot be counted.
    pub(super) fn new(scalar: Scalar, shape: impl IntoIterator<Item = u64>) -> Option<Self> {
        let shape = shape.into_iter().map(|len| usize::try_from(len).ok()).collect::<Option<Vec<_>>>()?;
        let bytes = shape.iter().try_fold(scalar.size(), |bytes, &len| bytes.checked_mul(len))?;
        let sound = (1..=4).contains(&shape.len()) && bytes > 0 && isize::try_from(bytes).is_ok();
        sound.then_some(Self { scalar, shape })
    }

    /// In C order.
    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    fn blocks(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |blocks, len| blocks.checked_mul(len.div_ceil(4) as u64))
    }

    /// Least bits that all blocks take.
    pub(super) fn least(&self, params: &Params) -> Option<u64> {
        self.blocks()?.checked_mul(u64::from(params.minbits.max(1)))
    }

    /// Most bits that the library reads for all blocks, whatever they are.
    ///
    /// Of a block, it reads what stands in front; then of each bit plane no more than a bit for each value, and for each
    /// value but the last one more bit when that is first found not to be zero. It stops at `maxbits`, unless these are so
    /// few that they end in front of the bit planes, where its count of bits left wraps. At last, it skips to `minbits`.
    pub(super) fn reach(&self, params: &Params) -> Option<u64> {
        let values = 1_u64 << (2 * self.shape.len());
        let planes = self.scalar.size() as u64 * 8;
        let whole = self.scalar.front() + values * planes + values - 1;
        let (least, most) = (u64::from(params.minbits), u64::from(params.maxbits));
        let of_block = if most >= self.scalar.front() { whole.min(most) } else { whole };
        self.blocks()?.checked_mul(of_block.max(least))
    }
}

/// What stands in front of the blocks where the stream says itself what it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) field: Field,
    pub(super) params: Params,
    /// Its own length, in bits.
    pub(super) len: u64,
}

impl Header {
    /// Reads the header at the beginning of `bytes`. `None` if it is cut off or makes no sense.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        // Up to 52 bits from a bit on; what lies behind the end is zero.
        let read = |at: usize, bits: u32| {
            let mut window = [0; 16];
            let rest = bytes.get(at / 8..).unwrap_or_default();
            let len = rest.len().min(window.len());
            window[..len].copy_from_slice(&rest[..len]);
            (u128::from_le_bytes(window) >> (at % 8)) as u64 & ((1 << bits) - 1)
        };
        if read(0, 32) != MAGIC {
            return None;
        }
        let field = Self::field(read(32, 52))?;
        let (mode, len) = match read(84, 12) {
            0xfff => (read(96, 52) << 12 | 0xfff, 148),
            short => (short, 96),
        };
        let params = Params::of_header(mode)?;
        (len <= bytes.len() as u64 * 8).then_some(Self { field, params, len })
    }

    /// The field of a header: type, number of axes, and what their lengths are more than one, the last axis first.
    fn field(meta: u64) -> Option<Field> {
        let scalar = match meta & 3 {
            0 => Scalar::Int32,
            1 => Scalar::Int64,
            2 => Scalar::Float,
            _ => Scalar::Double,
        };
        let axes = (meta >> 2 & 3) + 1;
        let bits = 48 / axes;
        Field::new(scalar, (0..axes).rev().map(|axis| (meta >> (4 + axis * bits) & ((1 << bits) - 1)) + 1))
    }
}
