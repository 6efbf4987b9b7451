//! What a run gives up, as its arguments say. COLD.

use crate::args::ForwardArgs;
use crate::failure::Failure;
use crate::metrics::Address;
use crate::sandbox::SandboxPlan;
use netmem::port::memif::Role;
use netmem_ports::{DeviceSpec, PortSpec};

/// What the run gives up, and where it meets others.
///
/// # Errors
/// [`Failure::Input`] for an address of metrics that is none.
pub fn of(args: &ForwardArgs) -> Result<SandboxPlan, Failure> {
    let metrics = match args.scrape.address()? {
        Some(Address::Unix(path)) => Some(path),
        _ => None,
    };
    let met = |role: Role| {
        let path = move |port: &PortSpec| match &port.device {
            DeviceSpec::Memif { path, config } if config.role == role => Some(path.clone()),
            _ => None,
        };
        args.port.iter().filter_map(path).collect()
    };
    let interface = |port: &PortSpec| match &port.device {
        DeviceSpec::Xdp(xdp) => Some(xdp.interface.clone()),
        DeviceSpec::Packet { interface, .. } | DeviceSpec::Tap { interface, .. } => Some(interface.clone()),
        _ => None,
    };
    Ok(SandboxPlan {
        on: !args.sandbox.no_sandbox,
        user: args.sandbox.user,
        interfaces: args.port.iter().filter_map(interface).collect(),
        listening: args.control.iter().cloned().chain(metrics).collect(),
        peers: met(Role::Client),
        made: met(Role::Server),
        undoes: args.fix.is_some(),
        locks_again: args.port.iter().any(|port| matches!(port.device, DeviceSpec::Xdp(_))),
    })
}
