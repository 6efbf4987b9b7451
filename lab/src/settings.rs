//! The keys of `--set key=value`: whole numbers with a range and a default, checked before anything runs.

use crate::error::LabError;
use crate::method::ratio::SETUPS_MIN;

/// One setting of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its effect.
    pub what: &'static str,
    /// The smallest value allowed.
    pub min: u64,
    /// The largest value allowed.
    pub max: u64,
    /// The value of a full run.
    pub full: u64,
    /// The value of a quick run.
    pub quick: u64,
}

/// The keys of every experiment.
pub const METHOD_KEYS: &[Key] = &[
    Key { name: "rounds", what: "rounds run at least", min: 1, max: 10_000, full: 101, quick: 27 },
    Key {
        name: "rounds-max",
        what: "rounds run at most; rounds is rounded up to whole set-ups",
        min: 1,
        max: 10_000,
        full: 606,
        quick: 126,
    },
    Key {
        name: "setups",
        what: "set-ups that share the least rounds; ratios of fewer than 9 are undecided",
        min: 1,
        max: 1_000,
        full: 11,
        quick: SETUPS_MIN as u64,
    },
    Key { name: "windows", what: "windows per variant and round", min: 8, max: 4_096, full: 64, quick: 48 },
    Key {
        name: "seed",
        what: "seed of the shuffle and the bootstrap",
        min: 0,
        max: u64::MAX,
        full: 1,
        quick: 1,
    },
    Key {
        name: "watch",
        what: "milliseconds watched for pauses of the machine before a run",
        // A run that was not watched before could not be found void.
        min: 1,
        max: 60_000,
        full: 1_000,
        quick: 1_000,
    },
];

/// The values of one run.
#[derive(Debug, Clone)]
pub struct Settings {
    values: Vec<(&'static str, u64)>,
}

impl Settings {
    /// Returns the defaults of [`METHOD_KEYS`] and of `own`, changed by every pair of `set` whose key is among
    /// them. Other pairs belong to another experiment of the same call.
    ///
    /// # Errors
    /// [`LabError::BadValue`] for a value outside its key's range. [`LabError::Rounds`] for more `rounds` than
    /// `rounds-max`.
    pub fn new(own: &'static [Key], quick: bool, set: &[(String, String)]) -> Result<Self, LabError> {
        let mut values = Vec::new();
        for key in METHOD_KEYS.iter().chain(own) {
            let mut value = if quick { key.quick } else { key.full };
            for (_, text) in set.iter().filter(|(name, _)| name == key.name) {
                value = parse(key, text)?;
            }
            values.push((key.name, value));
        }
        let settings = Self { values };
        let [least, most] = ["rounds", "rounds-max"].map(|key| settings.get(key));
        if least > most { Err(LabError::Rounds { least, most }) } else { Ok(settings) }
    }

    /// Returns the value of `key`, or 0 if no such key was declared.
    pub fn get(&self, key: &str) -> u64 {
        self.values.iter().find(|(name, _)| *name == key).map_or(0, |(_, value)| *value)
    }

    /// Returns the value of a key of the method as a share of its value in a full run.
    pub fn share_of_full(&self, key: &str) -> f64 {
        let full = METHOD_KEYS.iter().find(|known| known.name == key).map_or(1, |known| known.full);
        self.get(key) as f64 / full.max(1) as f64
    }
}

/// Splits the text of one `--set`.
///
/// # Errors
/// [`LabError::NotASetting`] if there is no `=` or nothing before it.
pub fn split(text: &str) -> Result<(String, String), LabError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(LabError::NotASetting { text: text.to_owned() }),
    }
}

fn parse(key: &Key, text: &str) -> Result<u64, LabError> {
    text.parse().ok().filter(|value| (key.min..=key.max).contains(value)).ok_or_else(|| LabError::BadValue {
        key: key.name,
        value: text.to_owned(),
        min: key.min,
        max: key.max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[Key] = &[Key { name: "burst", what: "packets", min: 1, max: 64, full: 32, quick: 16 }];

    fn set(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.into(), value.into())]
    }

    #[test]
    fn defaults_differ_between_a_quick_and_a_full_run() {
        assert_eq!(Settings::new(OWN, true, &[]).unwrap().get("burst"), 16);
        assert_eq!(Settings::new(OWN, false, &[]).unwrap().get("burst"), 32);
    }

    #[test]
    fn a_given_value_replaces_the_default() {
        assert_eq!(Settings::new(OWN, true, &set("burst", "7")).unwrap().get("burst"), 7);
        assert_eq!(Settings::new(OWN, true, &set("rounds", "3")).unwrap().get("rounds"), 3);
    }

    #[test]
    fn a_value_out_of_range_names_the_range() {
        for bad in ["0", "65", "-1", "many", ""] {
            let error = Settings::new(OWN, true, &set("burst", bad)).unwrap_err().to_string();
            assert_eq!(error, format!("bad value {bad:?} for burst: give a whole number from 1 to 64"));
        }
    }

    /// Seen: `--set rounds=10 --set rounds-max=5` ran ten rounds and more.
    #[test]
    fn more_rounds_than_the_most_are_refused_whichever_of_both_is_a_default() {
        for (key, value, numbers) in [
            ("rounds", "127", "rounds=127 is more than rounds-max=126"),
            ("rounds-max", "26", "rounds=27 is more than rounds-max=26"),
        ] {
            let error = Settings::new(OWN, true, &set(key, value)).unwrap_err().to_string();
            assert!(error.starts_with(numbers), "{error}");
        }
        assert!(Settings::new(OWN, true, &set("rounds", "126")).is_ok());
    }

    /// Seen: with `--set watch=0` no run was void, however much of its time it lost to pauses.
    #[test]
    fn the_watch_for_pauses_cannot_be_turned_off() {
        let error = Settings::new(&[], true, &set("watch", "0")).unwrap_err().to_string();
        assert_eq!(error, "bad value \"0\" for watch: give a whole number from 1 to 60000");
    }

    #[test]
    fn a_setting_without_key_or_equals_sign_is_refused() {
        assert_eq!(split("burst=8").unwrap(), ("burst".into(), "8".into()));
        for bad in ["burst", "=8", ""] {
            assert_eq!(
                split(bad).unwrap_err().to_string(),
                format!("bad setting {bad:?}: write it as key=value")
            );
        }
    }
}
