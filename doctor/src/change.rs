//! A change of a host that can be undone.

mod forms;
mod undo;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
pub(crate) use undo::Reverted;

/// The number of huge pages of the default size.
pub(crate) const HUGE_PAGES: &str = "vm.nr_hugepages";

/// A change, with its undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Change {
    /// A setting of the kernel.
    Setting {
        /// Its key, in the notation of sysctl(8).
        key: String,
        /// Its old value.
        from: String,
        /// Its new value.
        to: String,
    },
    /// A program, run without a shell.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// The command that undoes it.
        undo: Vec<String>,
    },
}

/// The reason why a change was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The kernel rejected the value.
    #[error("{path}: {error}: {}", remedy(.error))]
    Setting {
        /// The setting's file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The program could not be started.
    #[error("{program}: {error}: is it installed?")]
    Start {
        /// The name of the program.
        program: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// The program failed.
    #[error("{command}: {said}")]
    Failed {
        /// The whole command.
        command: String,
        /// The program's standard error, or its exit status.
        said: String,
    },
    /// The change was made in another network namespace. Nothing was undone.
    #[error(
        "it was made in another network namespace (net:[{namespace}] in lsns): undo it there, with ip netns exec or nsenter"
    )]
    OtherNamespace {
        /// The number of that namespace.
        namespace: u64,
    },
    /// A signal ended the program. The kernel may have made the change.
    #[error("{command}: ended by signal {signal}: the change may have been made")]
    Killed {
        /// The whole command.
        command: String,
        /// The number of the signal.
        signal: i32,
    },
}

impl Change {
    /// Makes a change by `ip` or `ethtool`, and its undo. Both are given as words with single spaces between them. A change of a
    /// new form has to be added to the list in `forms`, also a new setting.
    pub(crate) fn run(command: &str, undo: &str) -> Change {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Change::Run { command: words(command), undo: words(undo) }
    }

    /// Returns true if the doctor makes changes of this form, and so may undo it.
    pub(crate) fn has_known_form(&self) -> bool {
        forms::is_known(self)
    }

    /// Returns the change that undoes this one.
    #[must_use]
    pub fn reversed(&self) -> Change {
        match self.clone() {
            Change::Setting { key, from, to } => Change::Setting { key, from: to, to: from },
            Change::Run { command, undo } => Change::Run { command: undo, undo: command },
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// The kernel's error, or the program's message. In that case nothing has changed, if the program reports its
    /// failure correctly. After [`ChangeError::Killed`] the change may have been made.
    pub fn apply(&self) -> Result<(), ChangeError> {
        match self {
            Change::Setting { key, to, .. } => {
                let path = file_of(key);
                fs::write(&path, to).map_err(|error| ChangeError::Setting { path, error })
            }
            Change::Run { command, .. } => run(command),
        }
    }

    /// Returns true if the interface of the change is gone. A setting that is not there may only be hidden, or not be offered by
    /// the kernel. The name may be an alternative one, as the programs take it.
    pub(crate) fn is_gone(&self) -> bool {
        forms::interface(self).is_some_and(|interface| crate::read::links::is_gone(&interface))
    }

    /// Returns the interface whose link a program of this change may have set up or reset.
    pub(crate) fn link(&self) -> Option<String> {
        forms::interface(self).filter(|_| matches!(self, Change::Run { .. }))
    }

    /// Returns true if the change has an effect on one network namespace only.
    pub(crate) fn is_of_a_network_namespace(&self) -> bool {
        match self {
            Change::Setting { key, .. } => key.starts_with("net."),
            Change::Run { .. } => true,
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run it as root",
        io::ErrorKind::NotFound => "this kernel, network namespace or interface has no such setting",
        io::ErrorKind::ReadOnlyFilesystem => "run it where /proc/sys can be written",
        _ => "the kernel does not take this value now",
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

/// Returns the key of an interface's setting. The dots in the name of a VLAN interface become slashes.
pub(crate) fn interface_key(family: &str, interface: &str, setting: &str) -> String {
    format!("net.{family}.conf.{}.{setting}", interface.replace('.', "/"))
}

/// Returns the file of a setting. A slash in a key stands for a dot in a name, and a dot separates folders.
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
    // Ctrl-C goes to the whole group of the terminal. It is not to end a program between its change and its exit code.
    let ended = Command::new(program).args(arguments).process_group(0).output();
    let ended = ended.map_err(|error| ChangeError::Start { program: program.clone(), error })?;
    if ended.status.success() {
        return Ok(());
    }
    if let Some(signal) = ended.status.signal() {
        return Err(ChangeError::Killed { command: command.join(" "), signal });
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

    /// Found in a review: a setting that could not be seen counted as that of an interface which is gone.
    #[test]
    fn a_change_is_gone_with_its_interface_and_not_with_its_file() {
        let of = |name: &str| {
            let key = interface_key("ipv6", name, "force_forwarding");
            Change::Setting { key, from: "1".into(), to: "0".into() }.is_gone()
        };
        assert_eq!((of("netmem-none"), of("lo")), (true, false));
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

    /// Found in a review: Ctrl-C ended ip(8) too, which had made its change.
    #[test]
    fn a_program_is_in_a_process_group_of_its_own() {
        let file = std::env::temp_dir().join(format!("netmem-doctor-group-{}", std::process::id()));
        Change::run(&format!("cp /proc/self/stat {}", file.display()), "true").apply().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        // The number of the process, its name, its state, its parent, its group.
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[0], words[4], "{text}");
    }
}
