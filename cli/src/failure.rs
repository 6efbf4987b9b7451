//! Failures of a command: the lines on standard error, and the exit code.

use crate::log::{self, Level};
use netmem::port::xdp::XdpError;
use netmem::system::errno::descriptor_remedy_of;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// The reason why a command did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request cannot be carried out: one line with the remedy. Exit code 2. Nothing is left behind.
    Input(String),
    /// The host lacks now what the request needs, and may have it later: one line with the remedy. Exit code 3. Nothing is
    /// left behind.
    NotNow(String),
    /// The request was carried out, and something failed or a check failed. Exit code 1.
    Run(Vec<String>),
    /// The reader of standard output closed it, as `head` does. There is no line, since nobody waits for the rest. Exit code 1.
    Unread,
    /// A signal ended the command early. Finished parts are kept. Exit code 130, as for a shell's command that
    /// Ctrl-C ended.
    Interrupted,
    /// A signal ended the command before it had begun. Nothing is left behind, and the process ends by this signal.
    Ended(i32),
}

impl Failure {
    /// Bad input, or a set-up that failed.
    pub fn input(reason: impl Display) -> Failure {
        Failure::Input(reason.to_string())
    }

    /// Something that the host lacks now, and may have later.
    pub fn not_now(reason: impl Display) -> Failure {
        Failure::NotNow(reason.to_string())
    }

    /// The failure of a call of the set-up, with this line.
    pub fn of_call(error: &io::Error, line: String) -> Failure {
        if is_for_now(error) { Failure::NotNow(line) } else { Failure::Input(line) }
    }

    /// Returns this failure, as one that may be gone later if it is one of the set-up.
    pub fn for_now(self) -> Failure {
        match self {
            Failure::Input(line) => Failure::NotNow(line),
            other => other,
        }
    }

    /// One failure during a run.
    pub fn run(reason: impl Display) -> Failure {
        Failure::Run(vec![reason.to_string()])
    }

    /// Returns the lines.
    pub fn lines(&self) -> &[String] {
        match self {
            Failure::Input(line) | Failure::NotNow(line) => std::slice::from_ref(line),
            Failure::Run(lines) => lines,
            Failure::Unread | Failure::Interrupted | Failure::Ended(_) => &[],
        }
    }

    /// Prints each line, with line breaks removed, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let code = match self {
            Failure::Input(_) => 2,
            Failure::NotNow(_) => 3,
            Failure::Run(_) | Failure::Unread => 1,
            Failure::Interrupted => 130,
            // Only if the process survives its signal.
            Failure::Ended(signal) => u8::try_from(128 + signal).unwrap_or(1),
        };
        for line in self.lines() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            // If no one reads the line, the exit code still tells.
            log::say(Level::Error, format_args!("error: {line}"));
        }
        ExitCode::from(code)
    }
}

/// Returns whether a queue of an interface may be there later: another program has it, or the host has no descriptors left.
pub fn is_xdp_for_now(error: &XdpError) -> bool {
    matches!(
        error,
        XdpError::QueueBound { .. }
            | XdpError::ProgramAttached { .. }
            | XdpError::NoDescriptor { .. }
            | XdpError::Refused { .. }
    )
}

/// Returns whether the error of a call may be gone later: another program has the address, or the host has no descriptors or
/// memory left.
pub fn is_for_now(error: &io::Error) -> bool {
    !descriptor_remedy_of(error).is_empty()
        || matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::system::errno::Errno;

    /// Seen: a lack of descriptors for the file of --record-to was final, and so was an address that another program had.
    #[test]
    fn what_the_host_lacks_or_another_program_has_may_be_there_later() {
        let failure = |errno: Errno| Failure::of_call(&errno.into(), String::new());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ADDRINUSE] {
            assert_eq!(failure(errno), Failure::NotNow(String::new()), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::NOENT, Errno::ADDRNOTAVAIL] {
            assert_eq!(failure(errno), Failure::Input(String::new()), "{errno}");
        }
    }
}
