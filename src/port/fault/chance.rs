//! The rate of a fault, and the frames that it affects.

use std::str::FromStr;

/// The rate of a fault: `0.01` of all frames, or every hundredth frame, `1/100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chance {
    /// No frame.
    #[default]
    Never,
    /// Every n-th frame; n is not 0.
    Every(u32),
    /// This share of 2^32 of all frames, as the seed decides; 2^32 means every frame.
    Share(u64),
}

/// The text is not a probability.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a probability: give a share from 0 to 1, as 0.01, or 1/N for every N-th frame")]
pub struct ChanceError(String);

impl FromStr for Chance {
    type Err = ChanceError;

    fn from_str(text: &str) -> Result<Chance, ChanceError> {
        let error = || ChanceError(text.to_owned());
        if let Some(n) = text.strip_prefix("1/") {
            return n.parse().ok().filter(|n| *n > 0).map(Chance::Every).ok_or_else(error);
        }
        let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        // At most 2^32, so nothing is truncated.
        share.map(|share| Chance::Share((share * (1_u64 << 32) as f64) as u64)).ok_or_else(error)
    }
}

impl Chance {
    /// Returns whether the fault affects frame `number`, given a draw for this frame and this fault.
    #[inline]
    pub(super) fn strikes(self, number: u64, draw: u64) -> bool {
        match self {
            Chance::Never => false,
            Chance::Every(n) => (number.wrapping_add(1)).is_multiple_of(n.into()),
            Chance::Share(share) => draw >> 32 < share,
        }
    }
}

/// A draw for frame `number` and fault `which`. It is a hash, so it does not depend on earlier events.
///
/// Source: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[inline]
pub(super) fn draw(seed: u64, number: u64, which: u64) -> u64 {
    mix(mix(seed.wrapping_add(number)).wrapping_add(which))
}

#[inline]
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_strikes_about_as_many_frames_and_the_same_ones_again() {
        let chance: Chance = "0.01".parse().unwrap();
        let struck = |seed| -> Vec<u64> {
            (0..100_000).filter(|&number| chance.strikes(number, draw(seed, number, 0))).collect()
        };
        let first = struck(1);
        assert!((800..1200).contains(&first.len()), "{}", first.len());
        assert_eq!(struck(1), first);
        assert_ne!(struck(2), first);
    }

    #[test]
    fn the_ends_are_never_and_always() {
        let (never, always): (Chance, Chance) = ("0".parse().unwrap(), "1".parse().unwrap());
        assert!((0..10_000).all(|number| {
            let draw = draw(7, number, 3);
            !never.strikes(number, draw)
                && always.strikes(number, draw)
                && !Chance::Never.strikes(number, draw)
        }));
    }

    #[test]
    fn every_third_is_the_third_the_sixth_and_so_on() {
        let chance: Chance = "1/3".parse().unwrap();
        let struck: Vec<u64> = (0..9).filter(|&number| chance.strikes(number, 0)).collect();
        assert_eq!(struck, [2, 5, 8]);
    }

    #[test]
    fn what_is_no_chance_is_told_the_form() {
        for bad in ["", "-0.1", "1.01", "nan", "often", "1/0", "1/x", "2/3"] {
            let error = bad.parse::<Chance>().unwrap_err().to_string();
            assert!(error.contains("0.01") && error.contains("1/N"), "{error}");
        }
    }
}
