//! A configuration file: the long options of `netmem forward` as keys.
//!
//! The file becomes words of the command line, in front of the typed ones, and typed options take precedence. A
//! typed option replaces the key of the same name, and a key of an option that it excludes. So a key has exactly
//! the meaning of its option. Only errors of values are reported in another way, with their place in the file.

use super::fold::one_line;
use crate::failure::Failure;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use netmem::system::broker::open_to_read;
use netmem_ports::nearest;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum bytes of a file.
const BYTES_MAX: u64 = 1 << 20;
/// Options that are not keys, because they belong to this one command line.
const NO_KEYS: [&str; 5] = ["check", "config", "json", "log-time", "help"];

/// The hint for a key of an option without a value that has another value.
const TRUE_OR_FALSE: &str = "write true or false";

/// Where the keys of a file stand: each that counts with its line, from 1.
#[derive(Debug, Clone, Default)]
pub struct KeyLines(Vec<(String, usize)>);

impl KeyLines {
    /// Adds to the failure the place of the first option in its line that the file has. If its line names none of
    /// them, adds an explanation of keys. A line about one value may begin with the option's name alone.
    pub fn locate(&self, path: &Path, failure: Failure) -> Failure {
        let Failure::Input(line) = failure else { return failure };
        let at = |name: &str| self.0.iter().find_map(|(key, at)| (key == name).then_some(*at));
        let named = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            at(word.split('=').next()?.strip_prefix("--")?)
        };
        let first = line.split(' ').next().and_then(at);
        Failure::Input(match first.or_else(|| line.split_whitespace().find_map(named)) {
            Some(at) => format!("{}:{at}: {line}", path.display()),
            None => format!("{line} (each key of {} counts as an option)", path.display()),
        })
    }
}

/// Returns the words for the text of a file, with the lines of their keys. Words that `given` replaces are left out.
///
/// # Errors
/// [`Failure::Input`] with the place of the error.
pub fn words(
    path: &Path,
    text: &str,
    forward: &Command,
    given: &ArgMatches,
) -> Result<(Vec<OsString>, KeyLines), Failure> {
    let file = File { path, text, forward };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let said = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        let line = file.line_text(at);
        let said = match said.as_str() {
            "duplicate key" => {
                format!("duplicate key {}: give it once", line.split('=').next().unwrap_or_default().trim())
            }
            _ => file.hint(line).unwrap_or(said),
        };
        file.wrong(at, said)
    })?;
    let (mut words, mut key_lines) = (Vec::new(), Vec::new());
    for (key, value) in table.get_ref() {
        let arg = file.option(key)?;
        let its = file.words(arg, key.get_ref(), value)?;
        if !is_overridden(forward, arg, given) {
            words.extend(its.into_iter().map(OsString::from));
            key_lines.push((key.get_ref().to_string(), file.line(key.span().start)));
        }
    }
    Ok((words, KeyLines(key_lines)))
}

/// Reads the text of a configuration file.
///
/// # Errors
/// [`Failure::Input`] with the reason why it is not one.
pub fn read(path: &Path) -> Result<String, Failure> {
    text_of(path).map_err(|why| Failure::Input(format!("--config {}: {why}", path.display())))
}

fn text_of(path: &Path) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let file = open_to_read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file: check the path".to_owned(),
        _ => text(error),
    })?;
    // A device or a pipe may never end, or wait for a writer.
    if !file.metadata().map_err(text)?.is_file() {
        return Err("this is not a file: give one".to_owned());
    }
    let mut read = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut read).map_err(text)?;
    if read.len() as u64 > BYTES_MAX {
        return Err(format!(
            "this is too long for a configuration: give a file of {BYTES_MAX} bytes at most"
        ));
    }
    String::from_utf8(read).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        format!("line {line} is not UTF-8: save the file in UTF-8")
    })
}

/// Returns true if the command line has the option, or one that excludes it.
fn is_overridden(forward: &Command, arg: &Arg, given: &ArgMatches) -> bool {
    let typed = |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let excludes = |other: &&Arg| {
        let conflicts = |one: &Arg, other: &Arg| {
            forward.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
        };
        conflicts(arg, other) || conflicts(other, arg)
    };
    typed(arg) || forward.get_arguments().filter(excludes).any(typed)
}

/// Returns true if the option has no value.
fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// The file, and what its keys are.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
    forward: &'a Command,
}

impl File<'_> {
    /// Returns a failure at a byte of the file.
    fn wrong(&self, at: usize, why: impl std::fmt::Display) -> Failure {
        Failure::Input(format!("{}:{}: {why}", self.path.display(), self.line(at)))
    }

    /// Returns the line number of a byte, from 1.
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    /// Returns the text of the line of a byte.
    fn line_text(&self, at: usize) -> &str {
        self.text.lines().nth(self.line(at) - 1).unwrap_or_default()
    }

    /// Returns the error of a line that TOML cannot parse, if it has no value or text without quotes.
    fn hint(&self, line: &str) -> Option<String> {
        let (key, value) = line.split_once('=')?;
        let (key, value) = (key.trim(), value.split('#').next()?.trim());
        let is_plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/,=+".contains(c))
        };
        let is_value = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
        if !is_plain(key) || is_value {
            return None;
        }
        let is_key_of_flag = |arg: &Arg| arg.get_long() == Some(key) && is_flag(arg);
        match value {
            "" => Some(format!("write a value after {key} =")),
            _ if self.forward.get_arguments().any(is_key_of_flag) => Some(format!("{key}: {TRUE_OR_FALSE}")),
            _ => is_plain(value).then(|| format!("{key}: put text in quotes: {key} = \"{value}\"")),
        }
    }

    /// Returns the option of a key.
    fn option(&self, key: &Spanned<std::borrow::Cow<'_, str>>) -> Result<&Arg, Failure> {
        let options = || {
            let of = self.forward.get_arguments();
            of.filter(|arg| arg.get_long().is_some_and(|long| !NO_KEYS.contains(&long)))
        };
        let named = |arg: &&Arg| arg.get_long() == Some(key.get_ref());
        options().find(named).ok_or_else(|| {
            if NO_KEYS.contains(&key.get_ref().as_ref()) {
                let why = format!("no key {0:?}: --{0} is for the command line alone", key.get_ref());
                return self.wrong(key.span().start, why);
            }
            let names = || options().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
            let instead = match nearest(names(), key.get_ref()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            self.wrong(key.span().start, format!("no key {:?}: {instead}", key.get_ref()))
        })
    }

    /// Returns the words of one key.
    fn words(&self, arg: &Arg, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Failure> {
        let at = value.span().start;
        let wanted = |what: &str| self.wrong(at, format!("{key}: write {what}"));
        let several = matches!(arg.get_action(), ArgAction::Append);
        match value.get_ref() {
            DeValue::Boolean(on) if is_flag(arg) => Ok(on.then(|| format!("--{key}")).into_iter().collect()),
            _ if is_flag(arg) => Err(self.wrong(at, format!("{key}: {TRUE_OR_FALSE}"))),
            DeValue::Array(values) if several => {
                values.iter().map(|value| self.word(key, value, &wanted)).collect()
            }
            _ if several => Err(wanted(&format!("a list, as in {key} = [\"…\", \"…\"]"))),
            _ => Ok(vec![self.word(key, value, &wanted)?]),
        }
    }

    /// Returns a word that the option accepts.
    fn word(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        wanted: &dyn Fn(&str) -> Failure,
    ) -> Result<String, Failure> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            _ => return Err(wanted("a text or a decimal number")),
        };
        let word = format!("--{key}={text}");
        match self.forward.clone().no_binary_name(true).try_get_matches_from([&word]) {
            // The option that it requires may be elsewhere. That is checked once all words are there.
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
                Err(self.wrong(value.span().start, one_line(&error, "netmem forward")))
            }
            _ => Ok(word),
        }
    }
}

#[cfg(test)]
mod tests;
