//! One change of a host, which can be taken back.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// A change, and what takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Change {
    /// A setting of the kernel's.
    Setting {
        /// Its key, as sysctl(8) writes it.
        key: String,
        /// Its value before.
        from: String,
        /// Its value behind.
        to: String,
    },
    /// A program, run without a shell.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// The one that takes it back.
        undo: Vec<String>,
    },
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The kernel refused the value.
    #[error("{path}: {error}: are you root?")]
    Setting {
        /// The setting's file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The program could not be started.
    #[error("{program}: {error}: is it installed?")]
    Start {
        /// Its name.
        program: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The program failed.
    #[error("{command}: {said}")]
    Failed {
        /// The whole command.
        command: String,
        /// What it said on standard error, or how it ended.
        said: String,
    },
}

impl Change {
    /// The change by `ip` or `ethtool` and the one that takes it back, each in words with single spaces between.
    pub(crate) fn run(command: &str, undo: &str) -> Change {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Change::Run { command: words(command), undo: words(undo) }
    }

    /// The change that takes this one back.
    #[must_use]
    pub fn reversed(&self) -> Change {
        match self.clone() {
            Change::Setting { key, from, to } => Change::Setting { key, from: to, to: from },
            Change::Run { command, undo } => Change::Run { command: undo, undo: command },
        }
    }

    /// Makes it.
    ///
    /// # Errors
    /// The kernel's, or the program's words. Then nothing has changed, as far as the program is right.
    pub fn apply(&self) -> Result<(), ChangeError> {
        match self {
            Change::Setting { key, to, .. } => {
                let path = file_of(key);
                fs::write(&path, to).map_err(|error| ChangeError::Setting { path, error })
            }
            Change::Run { command, .. } => run(command),
        }
    }
}

/// As it is typed.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Setting { key, to, .. } => write!(f, "sysctl -w {key}={to}"),
            Change::Run { command, .. } => f.write_str(&command.join(" ")),
        }
    }
}

/// The key of an interface's setting: the name of a VLAN's has slashes in the place of dots.
pub(crate) fn interface_key(family: &str, interface: &str, setting: &str) -> String {
    format!("net.{family}.conf.{}.{setting}", interface.replace('.', "/"))
}

/// The file of a setting: in a key a slash stands for a dot of a name, and a dot between folders.
pub(crate) fn file_of(key: &str) -> PathBuf {
    let swapped = key.chars().map(|character| match character {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    PathBuf::from("/proc/sys").join(swapped.collect::<String>())
}

fn run(command: &[String]) -> Result<(), ChangeError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.map_err(|error| ChangeError::Start { program: program.clone(), error })?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = if said.is_empty() { ended.status.to_string() } else { said };
    Err(ChangeError::Failed { command: command.join(" "), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_a_vlans_interface_keeps_the_dot_of_its_name() {
        assert_eq!(
            file_of("net.ipv4.conf.eth0/7.rp_filter"),
            PathBuf::from("/proc/sys/net/ipv4/conf/eth0.7/rp_filter")
        );
    }

    #[test]
    fn a_change_that_is_reversed_twice_is_itself() {
        for change in [
            Change::Setting { key: "net.ipv4.ip_forward".into(), from: "1".into(), to: "0".into() },
            Change::run("ethtool -K eth0 lro off", "ethtool -K eth0 lro on"),
        ] {
            assert_ne!(change.reversed(), change);
            assert_eq!(change.reversed().reversed(), change);
        }
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_named_with_its_words() {
        let said = |command: &str| Change::run(command, "true").apply().unwrap_err().to_string();
        assert_eq!(said("false"), "false: exit status: 1");
        assert!(said("ls /nonexistent").starts_with("ls /nonexistent: ls: cannot access"));
        assert!(said("netmem-no-such-program x").starts_with("netmem-no-such-program: No such file"));
        assert!(Change::run("true", "true").apply().is_ok());
    }
}
