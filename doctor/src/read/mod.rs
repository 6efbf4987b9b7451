//! Reads the properties of a host. A part that cannot be read is left empty, with a line that gives the reason.

mod control_group;
mod ethtool;
mod files;
pub(crate) mod links;
mod netlink;
mod process;
mod routes;
mod sockets;

use crate::host::{Cores, Host, Interface, MemoryState, named};
use crate::wanted::{Device, Wanted};
use ethtool::{Ethtool, NetdevFamily};
use netmem::port::xdp::AttachedProgram;
use sockets::Listening;
use std::collections::BTreeMap;
use std::io;

/// Errors if an interface's driver does not support a query. They are not problems.
const NO_ANSWER: [i32; 2] = [95, 19];

impl Host {
    /// Returns the properties of this host that matter for `wanted`. Changes nothing, and needs no capability. With
    /// fewer capabilities it sees less.
    ///
    /// # Cost
    /// Some hundred system calls. If AF_XDP sockets are bound, the descriptors of each process are examined.
    #[must_use]
    pub fn read(wanted: &Wanted) -> Host {
        let mut unseen = Vec::new();
        let interfaces = interfaces(wanted, &mut unseen);
        let Listening { abstract_names, paths: listened } =
            seen(sockets::listening(), "listening Unix sockets", &mut unseen);
        let mut paths = files::paths(wanted);
        // The others are not the plan's, and a saved host is sent to others.
        paths.listened = listened.intersection(&paths.there).cloned().collect();
        let limits = control_group::limits();
        Host {
            process: process::process(),
            kernel: files::kernel(),
            memory: MemoryState { group_left: limits.memory_left, ..files::memory() },
            cores: Cores { group_thousandths: limits.thousandths, ..files::cores(process::allowed_cores()) },
            settings: files::settings(wanted, &interfaces),
            advertised: routes::advertised(),
            neighbours: files::neighbours(),
            interfaces,
            paths,
            abstract_sockets: memif_names(wanted).filter(|name| abstract_names.contains(name)).collect(),
            unseen,
        }
    }
}

impl Host {
    /// Returns a host with its settings and the relations of its interfaces only.
    pub(crate) fn with_links(wanted: &Wanted) -> Host {
        let mut unseen = Vec::new();
        let (interfaces, _) = seen(links::all(), "interfaces", &mut unseen);
        let (settings, advertised) = (files::settings(wanted, &interfaces), routes::advertised());
        Host { settings, advertised, interfaces, unseen, ..Host::default() }
    }
}

/// Iterates over the paths of the memif ports, as names of abstract sockets.
fn memif_names(wanted: &Wanted) -> impl Iterator<Item = String> + '_ {
    wanted.ports.iter().filter_map(|port| match &port.device {
        Device::Memif { path, .. } => Some(path.to_string_lossy().into_owned()),
        _ => None,
    })
}

/// Returns the value, or an empty value and a line with the reason.
fn seen<T: Default>(read: io::Result<T>, what: &str, unseen: &mut Vec<String>) -> T {
    read.unwrap_or_else(|error| {
        unseen.push(format!("{what}: {error}"));
        T::default()
    })
}

fn interfaces(wanted: &Wanted, unseen: &mut Vec<String>) -> BTreeMap<String, Interface> {
    let (mut interfaces, parents) = seen(links::all(), "interfaces", unseen);
    for (name, parent) in &parents {
        if let Some(interface) = interfaces.get_mut(name) {
            (interface.driver, interface.node) = files::hardware(parent);
            interface.interrupts = files::interrupts(parent);
        }
    }
    let drivers =
        Ethtool::new().map_err(|error| unseen.push(format!("offloads, rings and queues: {error}"))).ok();
    let modes = NetdevFamily::new()
        .map_err(|error| unseen.push(format!("XDP features of the drivers: {error}")))
        .ok();
    for (name, interface) in &mut interfaces {
        if let Some(drivers) = &drivers {
            ask(drivers, name, interface, unseen);
        }
        interface.modes = modes.as_ref().and_then(|modes| modes.modes(interface.index).ok());
    }
    for (_, name) in wanted.interfaces() {
        // A port may have given an altname.
        let own = named(&interfaces, name).map(|(own, _)| own.to_owned());
        if let Some(interface) = own.as_ref().and_then(|own| interfaces.get_mut(own)) {
            interface.program = AttachedProgram::on(name).map(|program| program.to_string());
        }
    }
    let mut bound = seen(sockets::bound(), "bound AF_XDP sockets (CONFIG_XDP_SOCKETS_DIAG)", unseen);
    for interface in interfaces.values_mut() {
        interface.bound = bound.remove(&interface.index).unwrap_or_default();
    }
    interfaces
}

/// Queries an interface's driver.
fn ask(drivers: &Ethtool, name: &str, interface: &mut Interface, unseen: &mut Vec<String>) {
    let mut answer = |error: &io::Error, what: &str| {
        if !error.raw_os_error().is_some_and(|code| NO_ANSWER.contains(&code)) {
            unseen.push(format!("{what} of {name}: {error}"));
        }
    };
    let index = interface.index;
    let offloads = drivers.offloads(index).inspect_err(|error| answer(error, "offloads")).unwrap_or_default();
    (interface.offloads, interface.fixed_offloads) = (offloads.on, offloads.fixed);
    interface.rings = drivers.rings(index).inspect_err(|error| answer(error, "rings")).ok();
    interface.queues = drivers.queues(index).inspect_err(|error| answer(error, "queues")).ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::WantedPort;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    /// Found in a review: a saved host had the names of all abstract sockets, and the guide said that it has not.
    #[test]
    fn of_the_abstract_sockets_only_those_of_the_plans_memif_ports_are_read() {
        let name = |which: &str| format!("netmem-doctor-{which}-{}", std::process::id());
        let listen =
            |name: &str| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        let _sockets = [listen(&name("plan")), listen(&name("other"))];
        let device = Device::Memif { path: name("plan").into(), is_server: false };
        let ports = vec![WantedPort { name: String::new(), device, traces: Vec::new() }];
        let host = Host::read(&Wanted { ports, ..Wanted::default() });
        assert_eq!(host.abstract_sockets.into_iter().collect::<Vec<_>>(), [name("plan")]);
    }
}
