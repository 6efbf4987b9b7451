//! Waits at the start for interfaces that come later, as at a boot. COLD.

use super::plan::{Plan, Source};
use crate::log::{self, Level};
use netmem::system::netdev::Netdev;
use netmem_ports::{DeviceSpec, PacketSpec};
use std::thread;
use std::time::{Duration, Instant};

/// The interval of the checks.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until each interface of the plan's ports exists and is up, or `plan.wait` is over. Prints once for each interface what it
/// lacks. Returns true if it waited in vain: an interface that is still missing then is an error of the plan with the interfaces of
/// this machine, or when its port is opened.
pub fn await_interfaces(plan: &Plan) -> bool {
    let Source::Ports { ports, .. } = &plan.source else { return false };
    let mut is_missing = false;
    let begun = Instant::now();
    let interfaces = ports.iter().filter_map(|port| match &port.device {
        DeviceSpec::Xdp(xdp) => Some(&xdp.interface),
        DeviceSpec::Packet(PacketSpec { interface, .. }) => Some(interface),
        _ => None,
    });
    for name in interfaces {
        let mut said = None;
        while let Some(state) = lacks(name, plan.fix.is_some())
            && begun.elapsed() < plan.wait
        {
            if said != Some(state) {
                let line = format_args!("netmem: waits for interface {name}, which {state} (--wait)");
                log::say(Level::Info, line);
                said = Some(state);
            }
            thread::sleep(LOOK);
        }
        is_missing |= !plan.wait.is_zero() && lacks(name, plan.fix.is_some()).is_some();
    }
    is_missing
}

/// Returns what an interface lacks for its port, or None if it lacks nothing or the run sets it up.
fn lacks(name: &str, is_set_up_by_us: bool) -> Option<&'static str> {
    match Netdev::open(name).and_then(|netdev| netdev.is_up()) {
        Err(_) => Some("does not exist"),
        Ok(false) if !is_set_up_by_us => Some("is down"),
        Ok(_) => None,
    }
}
