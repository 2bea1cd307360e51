//! Points in time and spans of time: `NumPy`'s datetime64 and timedelta64, and what Arrow makes of them.

use arrow_array::ArrayRef;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::element::primitive;

/// Not a time: the value that stands for a missing one. Source: NumPy's manual, "Datetimes and timedeltas".
pub(crate) const NOT_A_TIME: i64 = i64::MIN;

/// A `NumPy` time type: 64-bit counts of `scale` units, of time since 1970 or of time passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// Whether values are spans of time (timedelta64), not points in time (datetime64).
    pub is_span: bool,
    /// What is counted.
    pub unit: Unit,
    /// How many units a count of one is.
    pub scale: u32,
}

/// A unit of `NumPy`'s time types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Picosecond,
    Femtosecond,
    Attosecond,
}

impl Unit {
    const NAMES: [(Self, &'static str); 13] = [
        (Self::Year, "Y"),
        (Self::Month, "M"),
        (Self::Week, "W"),
        (Self::Day, "D"),
        (Self::Hour, "h"),
        (Self::Minute, "m"),
        (Self::Second, "s"),
        (Self::Millisecond, "ms"),
        (Self::Microsecond, "us"),
        (Self::Nanosecond, "ns"),
        (Self::Picosecond, "ps"),
        (Self::Femtosecond, "fs"),
        (Self::Attosecond, "as"),
    ];

    /// The unit that `NumPy` writes so.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        // Both spellings of micro.
        let name = if matches!(name, "μs" | "µs") { "us" } else { name };
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(unit, _)| unit)
    }

    /// How `NumPy` writes the unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(unit, _)| *unit == self).map_or("", |(_, name)| name)
    }
}

/// What turns stored counts into counts of an Arrow unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    Times(i64),
    /// Only multiples are exact.
    Over(i64),
    /// Months since January 1970, so many per count, to seconds.
    Months(i64),
}

impl Time {
    /// Whether Arrow can hold such values: spans of years and months have no fixed length.
    pub(crate) fn is_exact(self) -> bool {
        !(self.is_span && matches!(self.unit, Unit::Year | Unit::Month))
    }

    fn conversion(self) -> (TimeUnit, Conversion) {
        let scale = i64::from(self.scale);
        let times = |unit, factor: i64| (unit, Conversion::Times(factor * scale));
        let over = |divisor: i64| {
            // As much as can be cancelled.
            let common = gcd(divisor, scale);
            if divisor == common {
                (TimeUnit::Nanosecond, Conversion::Times(scale / common))
            } else {
                (TimeUnit::Nanosecond, Conversion::Over(divisor / common))
            }
        };
        match self.unit {
            Unit::Year => (TimeUnit::Second, Conversion::Months(12 * scale)),
            Unit::Month => (TimeUnit::Second, Conversion::Months(scale)),
            Unit::Week => times(TimeUnit::Second, 7 * 86_400),
            Unit::Day => times(TimeUnit::Second, 86_400),
            Unit::Hour => times(TimeUnit::Second, 3_600),
            Unit::Minute => times(TimeUnit::Second, 60),
            Unit::Second => times(TimeUnit::Second, 1),
            Unit::Millisecond => times(TimeUnit::Millisecond, 1),
            Unit::Microsecond => times(TimeUnit::Microsecond, 1),
            Unit::Nanosecond => times(TimeUnit::Nanosecond, 1),
            Unit::Picosecond => over(1_000),
            Unit::Femtosecond => over(1_000_000),
            Unit::Attosecond => over(1_000_000_000),
        }
    }

    /// Timestamps without a time zone, or durations.
    pub(crate) fn arrow_type(self) -> DataType {
        let (unit, _) = self.conversion();
        if self.is_span { DataType::Duration(unit) } else { DataType::Timestamp(unit, None) }
    }

    /// Zarr's name of the type.
    pub(crate) fn zarr_name(self) -> &'static str {
        if self.is_span { "numpy.timedelta64" } else { "numpy.datetime64" }
    }

    /// `NumPy`'s name of the type, unit and all.
    pub(crate) fn numpy_name(self) -> String {
        let name = if self.is_span { "timedelta64" } else { "datetime64" };
        let scale = if self.scale == 1 { String::new() } else { self.scale.to_string() };
        format!("{name}[{scale}{}]", self.unit.name())
    }

    /// Converts a stored count, which is a time, to a count of the Arrow unit; `None` if that has no such number.
    pub(crate) fn convert(self, count: i64) -> Option<i64> {
        match self.conversion().1 {
            Conversion::Times(1) => Some(count),
            Conversion::Times(factor) => count.checked_mul(factor),
            Conversion::Over(divisor) if count % divisor == 0 => {
                // What of the scale was not cancelled; it divides no further.
                let scale = i64::from(self.scale);
                let whole = i128::from(count / divisor) * i128::from(scale / gcd(self.per_nanosecond(), scale));
                i64::try_from(whole).ok()
            }
            Conversion::Over(_) => None,
            Conversion::Months(scale) => month_to_days(count.checked_mul(scale)?)?.checked_mul(86_400),
        }
        .filter(|&converted| converted != NOT_A_TIME)
    }

    fn per_nanosecond(self) -> i64 {
        match self.unit {
            Unit::Picosecond => 1_000,
            Unit::Femtosecond => 1_000_000,
            Unit::Attosecond => 1_000_000_000,
            _ => 1,
        }
    }

    /// Whether stored counts are those of the Arrow unit.
    pub(crate) fn is_as_stored(self) -> bool {
        self.conversion().1 == Conversion::Times(1)
    }

    /// Wraps counts of the Arrow unit.
    pub(super) fn wrap(self, bytes: Buffer, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
        match (self.is_span, self.conversion().0) {
            (false, TimeUnit::Second) => primitive::<TimestampSecondType>(bytes, len, nulls),
            (false, TimeUnit::Millisecond) => primitive::<TimestampMillisecondType>(bytes, len, nulls),
            (false, TimeUnit::Microsecond) => primitive::<TimestampMicrosecondType>(bytes, len, nulls),
            (false, TimeUnit::Nanosecond) => primitive::<TimestampNanosecondType>(bytes, len, nulls),
            (true, TimeUnit::Second) => primitive::<DurationSecondType>(bytes, len, nulls),
            (true, TimeUnit::Millisecond) => primitive::<DurationMillisecondType>(bytes, len, nulls),
            (true, TimeUnit::Microsecond) => primitive::<DurationMicrosecondType>(bytes, len, nulls),
            (true, TimeUnit::Nanosecond) => primitive::<DurationNanosecondType>(bytes, len, nulls),
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Days from 1970-01-01 to the first of the month that is so many months after January 1970, in the Gregorian calendar
/// without an end in either direction, which is NumPy's.
fn month_to_days(months: i64) -> Option<i64> {
    let (year, month) = (months.div_euclid(12).checked_add(1970)?, months.rem_euclid(12));
    // Years that begin in March end with the leap day.
    let (year, month) = if month < 2 { (year.checked_sub(1)?, month + 10) } else { (year, month - 2) };
    let days_before_month = (153 * month + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    year.checked_mul(365)?.checked_add(leap_days)?.checked_add(days_before_month - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(unit: Unit, scale: u32) -> Time {
        Time { is_span: false, unit, scale }
    }

    #[test]
    fn counts_convert_exactly_or_not_at_all() {
        assert_eq!(time(Unit::Nanosecond, 1).convert(-5), Some(-5));
        assert_eq!(time(Unit::Millisecond, 10).convert(7), Some(70));
        assert_eq!(time(Unit::Day, 1).convert(-1), Some(-86_400));
        assert_eq!(time(Unit::Day, 1).convert(i64::MAX), None);
        assert_eq!(time(Unit::Picosecond, 1).convert(2_000), Some(2));
        assert_eq!(time(Unit::Picosecond, 1).convert(2_001), None);
        assert_eq!(time(Unit::Picosecond, 250).convert(4), Some(1));
        assert_eq!(time(Unit::Picosecond, 250).convert(3), None);
        assert_eq!(time(Unit::Picosecond, 3_000).convert(3), Some(9));
        assert_eq!(time(Unit::Picosecond, 1_500).convert(2), Some(3));
        assert_eq!(time(Unit::Attosecond, 1).convert(-3_000_000_000), Some(-3));
    }

    #[test]
    fn months_follow_the_calendar() {
        let days = |unit, count| time(unit, 1).convert(count).unwrap() / 86_400;
        for (months, expected) in
            [(0, 0), (1, 31), (2, 59), (12, 365), (26, 790), (-1, -31), (-12, -365), (360, 10_957)]
        {
            assert_eq!(days(Unit::Month, months), expected, "{months}");
        }
        assert_eq!(days(Unit::Year, 30), 10_957);
        assert_eq!(days(Unit::Year, -1970), -719_528);
        assert_eq!(time(Unit::Year, 1).convert(i64::MAX), None);
    }

    #[test]
    fn names_are_numpys() {
        assert_eq!(time(Unit::Millisecond, 10).numpy_name(), "datetime64[10ms]");
        assert_eq!(Unit::from_name("μs"), Some(Unit::Microsecond));
        assert_eq!(Unit::from_name("generic"), None);
        assert!(!Time { is_span: true, unit: Unit::Month, scale: 1 }.is_exact());
    }
}
