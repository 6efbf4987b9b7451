//! The text of each option, from a configuration file and the command line.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The options that are given, by their long names, each with its values as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written(BTreeMap<String, Vec<OsString>>);

impl Written {
    /// Those of a command line with one command; none of one that cannot be read.
    pub fn of(mut root: Command, words: &[OsString]) -> Written {
        root.build();
        let matches = root.clone().try_get_matches_from(words).ok();
        let of = matches.as_ref().and_then(ArgMatches::subcommand);
        let Some((command, given)) = of.and_then(|(name, given)| Some((root.find_subcommand(name)?, given)))
        else {
            return Written::default();
        };
        let values = |id: &str| match given.value_source(id) {
            Some(ValueSource::CommandLine) => Some(given.get_raw(id)?.map(OsString::from).collect()),
            _ => None,
        };
        let options = command
            .get_arguments()
            .filter_map(|arg| Some((arg.get_long()?.to_owned(), values(arg.get_id().as_str())?)));
        Written(options.collect())
    }

    /// Whether an option is given otherwise in `other`, or in one of the two alone.
    pub fn differs(&self, other: &Written, option: &str) -> bool {
        self.0.get(option) != other.0.get(option)
    }
}
