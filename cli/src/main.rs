//! The `netmem` program: forwards packets between ports, is looked at and tuned meanwhile, and runs the lab's
//! experiments.
//!
//! [`args`] says what can be asked for, [`forward`], [`traffic`], [`stat`], [`set`] and [`lab`] do it, [`failure`] is how
//! it goes wrong.
#![deny(unsafe_code)]

mod args;
mod control;
mod failure;
mod forward;
mod lab;
mod output;
mod set;
mod stat;
mod stop;
mod threads;
mod traffic;

use args::{Command, LabCommand};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match args::parse() {
        Ok(command) => stop::outlive_file_limits().and_then(|()| run(command)),
        Err(outcome) => outcome,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Forward(args) => forward::run(&args),
        Command::Gen(args) => traffic::generate(&args),
        Command::Sink(args) => traffic::sink(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Lab(LabCommand::List { json }) => lab::list(json),
        Command::Lab(LabCommand::Run(args)) => lab::run(&args),
        Command::Lab(LabCommand::Turn) => lab::turn(),
        Command::Lab(LabCommand::Compare(args)) => lab::compare(&args),
        Command::Lab(LabCommand::Report(args)) => lab::report(&args),
    }
}
