//! Folds clap's paragraphs into one line.

use clap::{Command, Error};
use std::ffi::OsString;

/// Returns the error's own text without usage and advertisement, and the place to read more.
pub fn one_line(error: &Error, command: &str) -> String {
    let text = error.render().to_string();
    let said =
        text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|part| {
            !part.is_empty()
                && !part.starts_with("tip: to pass '-")
                && !part.starts_with("Usage:")
                && !part.starts_with("For more information")
        });
    let said = said.collect::<Vec<_>>().join("; ");
    format!("{} (see {command} --help)", said.trim_start_matches("error: "))
}

/// Returns the command that the words before the first option name: `netmem lab run`.
pub fn command_path(root: &Command, words: &[OsString]) -> String {
    let mut path = root.get_name().to_owned();
    let mut command = root;
    for word in words.iter().skip(1) {
        let Some(next) = command.find_subcommand(word) else { break };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn command() -> Command {
        let lab = Command::new("lab").subcommand(Command::new("run"));
        let mode = Arg::new("mode").long("mode").value_parser(["ip", "cross-connect"]);
        Command::new("netmem").subcommand(lab).subcommand(Command::new("forward").arg(mode))
    }

    fn path(words: &[&str]) -> String {
        command_path(&command(), &words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_path_ends_where_the_options_begin() {
        assert_eq!(path(&["netmem", "lab", "run", "--quick"]), "netmem lab run");
        assert_eq!(path(&["/usr/bin/netmem", "forward", "--lab", "lab"]), "netmem forward");
        assert_eq!(path(&["netmem", "frwrd"]), "netmem");
    }

    #[test]
    fn a_wrong_value_keeps_the_right_ones_and_a_typo_keeps_the_tip() {
        let line = |words: &[&str]| one_line(&command().try_get_matches_from(words).unwrap_err(), "netmem");
        assert_eq!(
            line(&["netmem", "forward", "--mode", "bridge"]),
            "invalid value 'bridge' for '--mode <mode>' [possible values: ip, cross-connect] (see netmem --help)"
        );
        let typo = line(&["netmem", "forward", "--mod"]);
        assert!(typo.contains("unexpected argument '--mod' found; tip: ") && !typo.contains('\n'), "{typo}");
    }
}
