//! What a run gives up, as its arguments say. COLD.

use crate::args::ForwardArgs;
use crate::failure::Failure;
use crate::metrics::Address;
use crate::sandbox::SandboxPlan;

/// What the run gives up, and where it meets others.
///
/// # Errors
/// [`Failure::Input`] for an address of metrics that is none, and for a user without a sandbox.
pub fn of(args: &ForwardArgs) -> Result<SandboxPlan, Failure> {
    let metrics = match args.scrape.address()? {
        Some(Address::Unix(path)) => Some(path),
        _ => None,
    };
    Ok(SandboxPlan {
        listening: args.control.iter().cloned().chain(metrics).collect(),
        undoes: args.fix.is_some(),
        ..SandboxPlan::of_ports(&args.port, &args.sandbox)?
    })
}
