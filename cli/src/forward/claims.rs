//! A forwarder's claims of the interfaces of its packet ports. The kernel gives every packet socket of an interface a copy
//! of each packet, so two forwarders on one interface would send every packet twice. COLD.
//!
//! A claim is a socket that listens at an abstract name with the interface's number. Such a name belongs to the network
//! namespace, and goes with the process. Any user may take it, so a run is refused only if the holder is root or the
//! run's own user. Generators, sinks and runs that only receive claim nothing: they may share an interface with a router.

use super::plan::{Plan, Source};
use crate::args::ModeArg;
use crate::failure::Failure;
use crate::log::{self, Level};
use netmem::system::errno::Errno;
use netmem::system::netdev::Netdev;
use netmem::system::seqpacket::{Access, Listener, PeerProcess, listener_of};
use netmem_ports::{DeviceSpec, PortSpec};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// Number of tries if the holder's process ends meanwhile, and the pause after each.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of askers that are turned away at a time.
const ASKERS: usize = 64;

/// The claims of a run. They last until this is dropped or the process ends.
#[derive(Default)]
pub struct InterfaceClaims(Vec<Listener>);

/// What became of a claim.
enum Claimed {
    Own(Listener),
    /// Another process has it; which one may be unknown.
    By(Option<PeerProcess>),
}

impl InterfaceClaims {
    /// Claims the interface of each packet port of a plan that forwards.
    ///
    /// # Errors
    /// [`Failure::NotNow`] if another run has claimed one.
    pub fn of(plan: &Plan) -> Result<InterfaceClaims, Failure> {
        let mut claims = Vec::new();
        for (port, index) in interfaces(plan) {
            match claim(index)
                .map_err(|errno| Failure::not_now(format!("{port}: claim its interface: {errno}")))?
            {
                Claimed::Own(claim) => claims.push(claim),
                Claimed::By(Some(holder)) if holder.is_of_root_or_own() => {
                    return Err(Failure::not_now(refusal(port, &holder)));
                }
                Claimed::By(holder) => {
                    let user = holder.map_or_else(String::new, |holder| format!(" of user {}", holder.user));
                    log::say(
                        Level::Warning,
                        format_args!(
                            "netmem: {port}: a process{user} has the name @{}, as if it forwarded from this interface: if it does, each packet is \
                             forwarded twice (ss -xlp names it)",
                            name(index)
                        ),
                    );
                }
            }
        }
        Ok(InterfaceClaims(claims))
    }

    /// Turns away those who have asked for the holder, so that others can ask.
    pub fn turn_away(&self) {
        self.0.iter().for_each(|claim| (0..ASKERS).map_while(|_| claim.accept()).for_each(drop));
    }
}

/// Returns a line for each packet port whose interface another run has claimed.
pub fn of_others(plan: &Plan) -> Vec<String> {
    let held = interfaces(plan).into_iter().filter_map(|(port, index)| {
        let holder = listener_of(&path(index)).ok().filter(PeerProcess::is_of_root_or_own)?;
        Some(refusal(port, &holder))
    });
    held.collect()
}

/// Returns the packet ports of a plan that forwards, with the numbers of their interfaces. An interface that is missing is
/// an error of its port.
fn interfaces(plan: &Plan) -> Vec<(&PortSpec, u32)> {
    let Source::Ports { ports, .. } = &plan.source else { return Vec::new() };
    if matches!(plan.mode, ModeArg::Drop | ModeArg::Pass) {
        return Vec::new();
    }
    let index = |port: &PortSpec| match &port.device {
        DeviceSpec::Packet { interface, .. } => Netdev::open(interface).ok().map(|netdev| netdev.index()),
        _ => None,
    };
    let mut found: Vec<(&PortSpec, u32)> =
        ports.iter().filter_map(|port| Some((port, index(port)?))).collect();
    found.sort_by_key(|(_, index)| *index);
    found.dedup_by_key(|(_, index)| *index);
    found
}

fn name(index: u32) -> String {
    format!("netmem-forward-packet-{index}")
}

fn path(index: u32) -> PathBuf {
    format!("@{}", name(index)).into()
}

fn claim(index: u32) -> Result<Claimed, Errno> {
    let path = path(index);
    for _ in 0..TRIES {
        match Listener::open(&path, Access::default()) {
            Ok(claim) => return Ok(Claimed::Own(claim)),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
        match listener_of(&path) {
            // It has ended since, or does not listen yet.
            Err(Errno::CONNREFUSED) => sleep(PAUSE),
            holder => return Ok(Claimed::By(holder.ok())),
        }
    }
    Ok(Claimed::By(None))
}

fn refusal(port: &PortSpec, holder: &PeerProcess) -> String {
    let process =
        holder.process.map_or_else(|| "another process".to_owned(), |process| format!("process {process}"));
    format!(
        "{port}: {process} forwards from this interface already, and each packet would be forwarded twice: end that run first, or give \
         the two runs interfaces of their own"
    )
}
