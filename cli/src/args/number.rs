//! Numbers with a range: a value outside it is rejected with an error that has the range.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Returns `text` with its suffix as digits: `k`, `M` and `G` stand for `thousand`, its square and its cube.
fn expanded(text: &str, thousand: u64) -> Cow<'_, str> {
    let suffixes = [("k", 1), ("K", 1), ("M", 2), ("G", 3)];
    let scaled = suffixes.into_iter().find_map(|(suffix, power)| {
        let digits = text.strip_suffix(suffix)?;
        digits.parse::<u64>().ok()?.checked_mul(thousand.pow(power))
    });
    scaled.map_or(Cow::Borrowed(text), |number| Cow::Owned(number.to_string()))
}

/// Parses a whole number as a person writes it: `10k` is 10,000, `2M` two millions, `1G` a thousand millions.
pub fn number<T: FromStr>(text: &str) -> Option<T> {
    expanded(text, 1000).parse().ok()
}

/// Returns a parser of whole numbers in `range`, which may end in k, M or G.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = number(text).filter(|number| range.contains(number));
        number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Returns a parser of powers of two in `range`. k and M stand for powers of 1024 here.
pub fn power_of_two(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number =
            expanded(text, 1024).parse().ok().filter(|n: &u32| range.contains(n) && n.is_power_of_two());
        number.ok_or_else(|| format!("give a power of two from {} to {}", range.start(), range.end()))
    }
}

/// The longest run, in seconds: a week.
const SECONDS_MAX: f64 = 604_800.0;

/// Parses a number of seconds, with fractions.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    number.ok_or_else(|| format!("give a number of seconds above 0 and up to {SECONDS_MAX} (a week)"))
}

/// Parses a number of seconds, with fractions, or 0.
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
    fn a_number_may_end_in_k_m_or_g() {
        let any = whole(0..=u64::MAX);
        assert_eq!(
            ["10k", "10K", "1M", "2G", "7"].map(any),
            [10_000, 10_000, 1_000_000, 2_000_000_000, 7].map(Ok)
        );
        for bad in ["k", "1kk", "1 k", "1m", "-1k", "1.5k", "99999999999999999M"] {
            assert!(whole(0..=u64::MAX)(bad).is_err(), "{bad}");
        }
        assert_eq!(whole(1..=8_u32)("9k").unwrap_err(), "give a whole number from 1 to 8");
    }

    #[test]
    fn a_number_out_of_range_is_refused_with_the_range() {
        assert_eq!(whole(1..=8_u32)("8"), Ok(8));
        for bad in ["0", "9", "-1", "1.5", "", "99999999999999999999"] {
            assert_eq!(whole(1..=8_u32)(bad).unwrap_err(), "give a whole number from 1 to 8", "{bad}");
        }
        assert_eq!(power_of_two(2..=64)("32"), Ok(32));
        assert_eq!(power_of_two(2..=65536)("4k"), Ok(4096));
        for bad in ["0", "1", "3", "128"] {
            assert_eq!(power_of_two(2..=64)(bad).unwrap_err(), "give a power of two from 2 to 64", "{bad}");
        }
    }
}
