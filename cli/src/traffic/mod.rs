//! `netmem gen` and `netmem sink`: two ends of a path that something else is.
//!
//! ```text
//!   station   the port, and the frames to send or receive by it
//!   generate ─► port ─► whatever is measured ─► port ─► receive
//!   report    what each of them says at the end
//! ```

mod generate;
mod receive;
mod report;
mod station;

use crate::args::{GenArgs, SinkArgs};
use crate::failure::Failure;
use crate::{output, stop};
use std::fs;
use std::path::Path;
use std::slice;

/// Sends as the arguments say, and prints what was sent.
///
/// # Errors
/// [`Failure::Input`] before anything was sent, [`Failure::Run`] after.
pub fn generate(args: &GenArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    output::leave_to_capture(slice::from_ref(&args.port));
    let (report, broken) = generate::run(args, &stop)?;
    print(args.station.json.as_deref(), || report.json(), || report.text())?;
    if broken.is_empty() { Ok(()) } else { Err(Failure::Run(broken)) }
}

/// Receives as the arguments say, and prints what came.
///
/// # Errors
/// [`Failure::Input`] before anything was received, [`Failure::Run`] after.
pub fn sink(args: &SinkArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    output::leave_to_capture(&args.port);
    let (report, broken) = receive::run(args, &stop)?;
    print(args.station.json.as_deref(), || report.json(), || report.text())?;
    if broken.is_empty() { Ok(()) } else { Err(Failure::Run(broken)) }
}

/// To standard output the text, or in its place the object; to a file the object besides the text.
fn print(to: Option<&Path>, object: impl Fn() -> String, text: impl Fn() -> String) -> Result<(), Failure> {
    match to {
        Some(to) if to == Path::new("-") => output::print(&object()),
        Some(to) => {
            let failed = |error| Failure::run(format!("cannot write {}: {error}", to.display()));
            let written = fs::write(to, object()).map_err(failed);
            output::print(&text()).and(written)
        }
        None => output::print(&text()),
    }
}
