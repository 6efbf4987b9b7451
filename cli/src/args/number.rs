//! Numbers with a range: what is outside is refused with the range.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser of whole numbers in `range`.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

/// A parser of powers of two in `range`.
pub fn power_of_two(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|n: &u32| range.contains(n) && n.is_power_of_two());
        number.ok_or_else(|| format!("give a power of two from {} to {}", range.start(), range.end()))
    }
}

/// The longest run that can be asked for, in seconds: a week.
const SECONDS_MAX: f64 = 604_800.0;

/// A number of seconds, fractions allowed.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    number.ok_or_else(|| format!("give a number of seconds above 0 and up to {SECONDS_MAX} (a week)"))
}

/// A number of seconds, fractions allowed, or 0.
pub fn patience(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    number.ok_or_else(|| format!("give a number of seconds up to {SECONDS_MAX} (a week), or 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_be_a_fraction_and_nothing_strange() {
        assert_eq!(["0.25", "3", "1e1"].map(seconds), [Ok(0.25), Ok(3.0), Ok(10.0)]);
        for bad in ["0", "-1", "NaN", "inf", "1e9", "", "ten", "-0"] {
            assert!(seconds(bad).unwrap_err().contains("above 0"), "{bad}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_told_the_range() {
        assert_eq!(whole(1..=8_u32)("8"), Ok(8));
        for bad in ["0", "9", "-1", "1.5", "", "99999999999999999999"] {
            assert_eq!(whole(1..=8_u32)(bad).unwrap_err(), "give a whole number from 1 to 8", "{bad}");
        }
        assert_eq!(power_of_two(2..=64)("32"), Ok(32));
        for bad in ["0", "1", "3", "128"] {
            assert_eq!(power_of_two(2..=64)(bad).unwrap_err(), "give a power of two from 2 to 64", "{bad}");
        }
    }
}
