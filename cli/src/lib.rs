//! The program `netmem` forwards packets between ports, lets other programs read and tune a run, and runs the
//! lab's experiments. This crate is the program, and not a library for others.
//!
//! [`args`] defines the arguments. [`forward`], [`traffic`], [`doctor`], [`stat`], [`top`], [`set`], [`record`] and
//! [`lab`] run the commands. [`failure`] defines how they fail.
#![deny(unsafe_code)]

mod args;
mod bucket;
mod claims;
mod connections;
mod control;
mod delivery;
mod doctor;
mod failure;
mod forward;
mod grant;
mod idle;
#[cfg(feature = "lab")]
mod lab;
mod listening;
mod log;
mod manual;
mod metrics;
mod output;
mod pcapng;
mod record;
mod recorded;
mod recording_file;
mod report_file;
mod sandbox;
mod service;
mod set;
mod stat;
mod stop;
mod stopwatch;
mod threads;
mod top;
mod traffic;
#[doc(hidden)]
pub mod untrusted;

use args::Command;
#[cfg(feature = "lab")]
use args::LabCommand;
use failure::Failure;
use netmem::system::broker::open_to_read;
use netmem::system::privileges::raise_descriptor_limit;
use std::process::ExitCode;

/// Runs the program with the arguments of its command line.
pub fn main() -> ExitCode {
    let _ = metrics::started();
    log::prepare();
    netmem_ports::open_files_by(open_to_read);
    raise_descriptor_limit();
    netmem_ports::warn_by(|line| log::say(log::Level::Warning, line));
    let done = match args::parse() {
        Ok(command) => stop::outlive_file_limits().and_then(|()| run(command)).map_err(sandbox::cause),
        Err(outcome) => outcome,
    };
    let code = match &done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    };
    log::finish();
    if let Err(Failure::Ended(signal)) = done {
        stop::end_by(signal);
    }
    code
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Forward(args) if args.check => doctor::check(&args),
        Command::Forward(args) => forward::run(&args),
        Command::Grant(args) => grant::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Gen(args) => traffic::generate(&args),
        Command::Sink(args) => traffic::sink(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Reload(args) => set::reload(&args),
        Command::Record(args) => record::run(&args),
        Command::Completions { shell } => manual::completions(args::program(), shell),
        Command::Man { folder } => manual::man(args::program(), &folder),
        #[cfg(feature = "lab")]
        Command::Lab(command) => experiment(command),
        #[cfg(not(feature = "lab"))]
        Command::Lab(_) => Err(Failure::input(
            "this netmem was built without the lab: build it with the cargo feature lab, which is on by \
             default",
        )),
    }
}

#[cfg(feature = "lab")]
fn experiment(command: LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::List { json } => lab::list(json),
        LabCommand::Run(args) => lab::run(&args),
        LabCommand::Turn => lab::turn(),
        LabCommand::Compare(args) => lab::compare(&args),
        LabCommand::Report(args) => lab::report(&args),
    }
}
