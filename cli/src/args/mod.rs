//! The arguments of the command line.

mod config;
mod doctor;
mod fold;
mod forward;
mod frame_size;
mod grant;
#[cfg(feature = "lab")]
mod lab;
mod number;
mod observe;
mod packets;
mod port;
mod port_interface;
mod recorder;
mod route;
mod router;
mod sandbox;
mod scrape;
mod steer;
mod switch;
mod traffic;
mod workers;
mod written;

pub use doctor::DoctorArgs;
pub use forward::{CopiesArg, ForwardArgs, ModeArg, RoutesArg, XdpModeArg};
pub use frame_size::FrameSize;
pub use grant::GrantArgs;
#[cfg(feature = "lab")]
pub use lab::{LabCommand, LabCompareArgs, LabReportArgs, LabRunArgs};
pub use number::number;
pub use observe::{ReloadArgs, SetArgs, StatArgs, TopArgs};
pub use packets::{LOCAL_QUEUE_BYTES_MAX, PacketArgs, PathArg, READY_PACKETS_MAX, ReadyHeads};
pub use port_interface::port_interface;
pub use recorder::{LOST_BETWEEN, RecordArgs, RecorderPlan, When};
pub use route::{ByPort, OfPort, check_interfaces};
pub use sandbox::{SandboxArgs, User};
pub use switch::Switch;
pub use traffic::{GenArgs, LimitArgs, SinkArgs, StationArgs};
pub use workers::WorkerArgs;
pub use written::Written;

use crate::failure::Failure;
use crate::output;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use config::KeyLines;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Packet forwarder and IP router over AF_XDP, packet sockets, TAP, memif and pcap, with a traffic generator, host checks and benchmarks
#[derive(Debug, Parser)]
#[command(name = "netmem", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start with:
  netmem forward    forwards generated packets for 10 seconds; needs no root
                    and no set-up
  netmem lab list   shows the experiments

Exit codes:
  0  success, also if Ctrl-C or SIGTERM ended the run
  1  a check failed, or something went wrong while running
  2  bad input, or the set-up failed: one line names the remedy, and nothing
     is left behind
  3  as 2, but the host lacks something now that it may have later: a queue
     that another program has, an interface whose packets another run
     forwards, memory, threads, descriptors, the broker, the kernel's routes,
     an interface that --wait has waited for, or the run that netmem stat, set,
     reload, top or record asks (what was sent may still be done); try again
  130  Ctrl-C or SIGTERM ended netmem lab run or netmem doctor --qualify early
If a signal ends netmem at once, as SIGTERM does during --wait, shells show 128
plus the number of the signal.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Forward(Box<ForwardArgs>),
    Gen(Box<GenArgs>),
    Sink(Box<SinkArgs>),
    Grant(GrantArgs),
    Doctor(DoctorArgs),
    Stat(StatArgs),
    Top(TopArgs),
    Set(SetArgs),
    Reload(ReloadArgs),
    Record(RecordArgs),
    /// Run published experiments on this machine and compare the figures.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(LabCommand),
    /// Print the completions for a shell.
    ///
    /// bash: netmem completions bash > /usr/share/bash-completion/completions/netmem
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the pages of the manual into a folder, for packages.
    #[command(hide = true)]
    Man {
        /// The folder, which must exist.
        folder: PathBuf,
    },
    /// The published experiments, which this program was built without.
    #[cfg(not(feature = "lab"))]
    #[command(hide = true, disable_help_flag = true)]
    Lab(NoLab),
}

/// Whatever is asked of the lab where there is none.
#[cfg(not(feature = "lab"))]
#[derive(Debug, clap::Args)]
pub struct NoLab {
    /// All that follows.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Returns all commands and options, for completions and manual pages.
pub fn program() -> clap::Command {
    Cli::command()
}

/// Parses the command line. The error is the result of a command line without a command to run: help and version
/// are printed and succeed, and every other error is a failure of one line.
pub fn parse() -> Result<Command, Result<(), Failure>> {
    let words: Vec<_> = std::env::args_os().collect();
    if words.len() <= 1 {
        return Err(output::print(&Cli::command().render_help().to_string()));
    }
    parse_words(&words)
}

fn parse_words(words: &[OsString]) -> Result<Command, Result<(), Failure>> {
    let command = parsed(words)?;
    let Command::Forward(args) = &command else { return Ok(command) };
    let Some(path) = &args.config else { return Ok(command) };
    let text = config::read(path).map_err(Err)?;
    parse_beside(path, &text, words)
}

/// As [`parse_words`], with the text of a configuration file at `path`. The words must parse without the file.
fn parse_beside(path: &Path, text: &str, words: &[OsString]) -> Result<Command, Result<(), Failure>> {
    let (words, key_lines) = configured(path, text, words).map_err(Err)?;
    let mut command =
        parsed(&words).map_err(|failed| failed.map_err(|failure| key_lines.locate(path, failure)))?;
    if let Command::Forward(args) = &mut command {
        args.key_lines = key_lines;
        args.written = Written::of(Cli::command(), &words);
    }
    Ok(command)
}

/// Parses the arguments of a `netmem forward` with this text of its configuration file, followed by these words.
///
/// # Errors
/// As [`forward_with`].
pub fn forward_of(text: &str, typed: &[&str]) -> Result<Box<ForwardArgs>, Failure> {
    let words: Vec<OsString> = ["netmem", "forward"].iter().chain(typed).map(OsString::from).collect();
    forward(parsed(&words).and_then(|_| parse_beside(Path::new("FILE"), text, &words)))
}

/// Parses the arguments of a `netmem forward` with this configuration file and no others.
///
/// # Errors
/// [`Failure::Input`] with the place of the error.
pub fn forward_with(file: &Path) -> Result<Box<ForwardArgs>, Failure> {
    forward(parse_words(&["netmem".into(), "forward".into(), "--config".into(), file.into()]))
}

/// Parses the command line and its configuration file again.
///
/// # Errors
/// As [`parse`], in one line.
pub fn forward_again() -> Result<Box<ForwardArgs>, Failure> {
    forward(parse())
}

/// Returns the arguments of a command line of `netmem forward`.
fn forward(parsed: Result<Command, Result<(), Failure>>) -> Result<Box<ForwardArgs>, Failure> {
    match parsed {
        Ok(Command::Forward(args)) => Ok(args),
        Err(Err(failure)) => Err(failure),
        Ok(_) | Err(Ok(())) => Err(Failure::input("not netmem forward")),
    }
}

fn parsed(words: &[OsString]) -> Result<Command, Result<(), Failure>> {
    Cli::try_parse_from(words).map(|cli| cli.command).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print().map_err(|error| output::failure(&error, "output"))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => output::print(&error.render().to_string()),
        _ => Err(Failure::Input(fold::one_line(&error, &fold::command_path(&Cli::command(), words)))),
    })
}

/// Returns the words of a `netmem forward` with the words of its configuration file before the typed ones, and
/// the lines of their keys.
fn configured(path: &Path, text: &str, words: &[OsString]) -> Result<(Vec<OsString>, KeyLines), Failure> {
    let mut root = Cli::command();
    root.build();
    let matches = root.clone().try_get_matches_from(words).map_err(Failure::input)?;
    let (Some((name, given)), [program, forward, typed @ ..]) = (matches.subcommand(), words) else {
        return Ok((words.to_vec(), KeyLines::default()));
    };
    let Some(options) = root.find_subcommand(name) else { return Ok((words.to_vec(), KeyLines::default())) };
    let (from_file, key_lines) = config::words(path, text, options, given)?;
    let all = [program, forward].into_iter().cloned().chain(from_file).chain(typed.iter().cloned());
    Ok((all.collect(), key_lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Seen: the default of `--routes` was said to be `given`, a value that it did not take.
    #[test]
    fn every_default_that_a_help_text_names_is_a_value_of_its_option() {
        let command = Cli::command();
        let options = command.get_subcommands().flat_map(|command| command.get_arguments());
        let mut looked_at = 0;
        for option in options.filter(|option| !option.get_possible_values().is_empty()) {
            let text = option.get_help().map(ToString::to_string).unwrap_or_default();
            let Some((_, rest)) = text.split_once("[default: ") else { continue };
            let named = rest.split([' ', ']']).next().unwrap_or_default();
            let is_value = option.get_possible_values().iter().any(|value| value.matches(named, false));
            assert!(is_value, "{option}: {named}");
            looked_at += 1;
        }
        assert!(looked_at >= 5, "{looked_at} options");
    }
}
