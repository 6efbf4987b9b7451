//! `netmem gen` and `netmem sink`: the two ends of a path that is measured.
//!
//! ```text
//!   station   the port, and the frames to send or receive by it
//!   generate ─► port ─► the measured path ─► port ─► receive
//!   report    what each of them says at the end
//! ```

mod generate;
mod receive;
mod report;
mod station;

use crate::args::{GenArgs, SinkArgs};
use crate::failure::Failure;
use crate::report_file::ReportFile;
use crate::{output, stop};
use std::path::Path;
use std::slice;

/// Sends as the arguments say, and prints the counts.
///
/// # Errors
/// [`Failure::Input`] before anything was sent, [`Failure::Run`] after.
pub fn generate(args: &GenArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    output::leave_to_capture(slice::from_ref(&args.port));
    let Ended { report, broken, json } = generate::run(args, &stop)?;
    print(args.station.json.as_deref(), json, || report.json(), || report.text())?;
    if broken.is_empty() { Ok(()) } else { Err(Failure::Run(broken)) }
}

/// Receives as the arguments say, and prints the counts.
///
/// # Errors
/// [`Failure::Input`] before anything was received, [`Failure::Run`] after.
pub fn sink(args: &SinkArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    output::leave_to_capture(&args.port);
    let Ended { report, broken, json } = receive::run(args, &stop)?;
    print(args.station.json.as_deref(), json, || report.json(), || report.text())?;
    if broken.is_empty() { Ok(()) } else { Err(Failure::Run(broken)) }
}

/// The results of a run.
struct Ended<T> {
    report: T,
    /// A line for every failure.
    broken: Vec<String>,
    /// The file that also gets the report.
    json: Option<ReportFile>,
}

/// Prints the text, or the object in its place, to standard output. Writes the object to a file in addition to the
/// text.
fn print(
    to: Option<&Path>,
    file: Option<ReportFile>,
    object: impl Fn() -> String,
    text: impl Fn() -> String,
) -> Result<(), Failure> {
    match (to, file) {
        (Some(to), Some(mut file)) => {
            let failed = |error| Failure::run(format!("cannot write {}: {error}", to.display()));
            let written = file.write(&object()).map_err(failed);
            output::print(&text()).and(written)
        }
        (Some(_), None) => output::print(&object()),
        (None, _) => output::print(&text()),
    }
}
