//! Reads the properties of a host. A part that cannot be read is left empty, with a line that gives the reason.

mod control_group;
mod ethtool;
mod files;
mod firewall;
pub(crate) mod links;
mod netlink;
mod process;
mod routes;
mod sockets;

use crate::change::interface_key;
use crate::host::{Cores, Host, Interface, MemoryState, named};
use crate::wanted::{Device, Wanted};
use ethtool::{Ethtool, NetdevFamily};
use firewall::Firewall;
use netmem::port::xdp::{AttachedProgram, Netdev, XdpModePreference};
use sockets::Listening;
use std::collections::{BTreeMap, BTreeSet};
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
        let settings = files::settings(wanted, &interfaces);
        let Firewall { forwarded: firewall, own: own_firewall } = firewall(wanted, &mut unseen);
        Host {
            process: process::process(),
            kernel: files::kernel(),
            memory: MemoryState { group_left: limits.memory_left, ..files::memory() },
            cores: Cores { group_thousandths: limits.thousandths, ..files::cores(process::allowed_cores()) },
            advertised: advertised(wanted, &settings, &interfaces),
            settings,
            neighbours: files::neighbours(),
            firewall,
            own_firewall,
            interfaces,
            paths,
            abstract_sockets: memif_names(wanted).filter(|name| abstract_names.contains(name)).collect(),
            unseen,
        }
    }
}

impl Host {
    /// Returns a host with its settings, its packet filter, the relations of its interfaces and the queues of xdp ports
    /// only.
    pub(crate) fn with_links(wanted: &Wanted) -> Host {
        let mut unseen = Vec::new();
        let (mut interfaces, _) = seen(links::all(), "interfaces", &mut unseen);
        queues(wanted, &mut interfaces);
        let settings = files::settings(wanted, &interfaces);
        let advertised = advertised(wanted, &settings, &interfaces);
        let Firewall { forwarded: firewall, own: own_firewall } = firewall(wanted, &mut unseen);
        Host { settings, advertised, firewall, own_firewall, interfaces, unseen, ..Host::default() }
    }
}

/// Reads the queues of the interfaces of xdp ports, as far as their drivers say.
fn queues(wanted: &Wanted, interfaces: &mut BTreeMap<String, Interface>) {
    let names: BTreeSet<String> = wanted
        .xdp()
        .filter_map(|(_, place)| Some(named(interfaces, &place.interface)?.0.to_owned()))
        .collect();
    let Some(drivers) = (!names.is_empty()).then(|| Ethtool::new().ok()).flatten() else { return };
    for (_, interface) in interfaces.iter_mut().filter(|(name, _)| names.contains(*name)) {
        interface.queues = drivers.queues(interface.index).ok();
    }
}

/// Returns the interfaces that lose routes of advertisements when the kernel becomes a router on a port. The kernel is asked only if
/// it is no router on one, and takes advertisements there.
fn advertised(
    wanted: &Wanted,
    settings: &BTreeMap<String, String>,
    interfaces: &BTreeMap<String, Interface>,
) -> BTreeSet<String> {
    let is_host = |(key, value): (&String, &String)| {
        let name = key.strip_prefix("net.ipv6.conf.").and_then(|key| key.strip_suffix(".accept_ra"));
        let forwarding = name.and_then(|name| settings.get(&interface_key("ipv6", name, "forwarding")));
        value == "1" && forwarding.is_some_and(|forwarding| forwarding == "0")
    };
    match wanted.kernel_routes && settings.iter().any(is_host) {
        true => routes::advertised(interfaces.keys()),
        false => BTreeSet::new(),
    }
}

/// Returns what the kernel does to packets that it forwards, if a dataplane takes its place, and to those of this host, if a
/// port takes some of them.
fn firewall(wanted: &Wanted, unseen: &mut Vec<String>) -> Firewall {
    let forwards = wanted.kernel_routes && wanted.forwards;
    match forwards || wanted.xdp().any(|(_, place)| place.takes_some()) {
        true => seen(firewall::firewall(), "packet filter (nftables)", unseen),
        false => Firewall::default(),
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
    let (mut interfaces, mut parents) = seen(links::all(), "interfaces", unseen);
    for (name, interface) in &mut interfaces {
        if interface.kind.is_none() && !parents.contains_key(name) {
            let said = Netdev::open(name).and_then(|netdev| netdev.driver_and_device());
            let said = said.map_err(|error| error.to_string());
            parents.extend(by_driver(name, interface, said, unseen).map(|parent| (name.clone(), parent)));
        }
    }
    for (name, parent) in &parents {
        if let Some(interface) = interfaces.get_mut(name) {
            // What the driver says itself stays: virtio_net, and not virtio-pci.
            let (driver, node) = files::hardware(parent);
            (interface.driver, interface.node) = (interface.driver.take().or(driver), node);
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
    unseen.extend(far_ends(wanted, &interfaces));
    let mut bound = seen(sockets::bound(), "bound AF_XDP sockets (CONFIG_XDP_SOCKETS_DIAG)", unseen);
    for interface in interfaces.values_mut() {
        interface.bound = bound.remove(&interface.index).unwrap_or_default();
    }
    interfaces
}

/// Returns a line about the veths of ports whose other ends are in another network namespace, if what hosts there leave
/// to a card matters: an xdp port in native mode gets packets that the kernel has cut.
fn far_ends(wanted: &Wanted, interfaces: &BTreeMap<String, Interface>) -> Option<String> {
    let is_of_sockets = |device: &Device| match device {
        Device::Xdp(place) => place.mode == XdpModePreference::Generic,
        _ => true,
    };
    let ports = wanted.interfaces().filter(|(port, _)| is_of_sockets(&port.device));
    let veths: BTreeSet<&str> = ports
        .filter_map(|(_, name)| named(interfaces, name))
        .filter(|(_, its)| its.kind.as_deref() == Some("veth") && its.link.is_none())
        .map(|(own, _)| own)
        .collect();
    let names = veths.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "offloads of the hosts behind {names}, in other network namespaces (rules udp-segments, tunnel-segments): if rx_dropped \
             or udp_without_size grows, see ethtool -k there"
        )
    })
}

/// Returns the bus and the device of an interface by what its driver says: before Linux 5.14 rtnetlink does not. Keeps the driver
/// of one whose device is not found, with a line.
fn by_driver(
    name: &str,
    interface: &mut Interface,
    said: Result<Option<(String, String)>, String>,
    unseen: &mut Vec<String>,
) -> Option<(String, String)> {
    let (driver, device) = match said {
        Ok(said) => said?,
        Err(error) => {
            unseen.push(format!("driver of {name}: {error}"));
            return None;
        }
    };
    interface.driver = Some(driver);
    let bus = files::bus_of(&device);
    if bus.is_none() && !device.is_empty() {
        unseen
            .push(format!("NUMA node and interrupts of {name}: no bus in /sys/bus has its device {device}"));
    }
    Some((bus?, device))
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

    /// Found in a review: before Linux 5.14 a card had no driver, no NUMA node and no interrupts, and no line said so.
    #[test]
    fn a_device_that_rtnetlink_does_not_name_is_found_by_what_its_driver_says_or_named_as_not_seen() {
        let (mut interface, mut unseen) = (Interface::default(), Vec::new());
        let mut by = |device: &str| {
            let said = Ok(Some(("ice".to_owned(), device.to_owned())));
            by_driver("eth0", &mut interface, said, &mut unseen)
        };
        assert_eq!([by(""), by("0000:ff:1f.9")], [None, None]);
        let any = std::fs::read_dir("/sys/bus/platform/devices").ok().and_then(|mut all| all.next()?.ok());
        if let Some(device) = any.and_then(|entry| entry.file_name().into_string().ok()) {
            assert_eq!(by(&device), Some(("platform".to_owned(), device)));
        }
        assert_eq!(interface.driver.as_deref(), Some("ice"));
        let line = "NUMA node and interrupts of eth0: no bus in /sys/bus has its device 0000:ff:1f.9";
        assert_eq!(unseen, [line]);
        assert_eq!(by_driver("lo", &mut interface, Ok(None), &mut unseen), None);
        assert_eq!(by_driver("eth1", &mut interface, Err("gone".to_owned()), &mut unseen), None);
        assert_eq!(unseen[1..], ["driver of eth1: gone"]);
    }

    /// Seen: nothing was found where TCP within VXLAN stood still, from a host behind a veth.
    #[test]
    fn a_veth_whose_other_end_is_in_another_namespace_is_named_as_not_seen() {
        let veth = |link: Option<&str>| Interface {
            kind: Some("veth".to_owned()),
            link: link.map(str::to_owned),
            ..Interface::default()
        };
        let interfaces = [("r1", None), ("r2", None), ("x0", Some("x1"))];
        let interfaces = interfaces.map(|(name, link)| (name.to_owned(), veth(link))).into();
        let said = |names: &[&str]| {
            let port = |name: &&str| WantedPort {
                name: format!("packet:{name}"),
                device: Device::Packet((*name).to_owned()),
                traces: Vec::new(),
            };
            far_ends(&Wanted { ports: names.iter().map(port).collect(), ..Wanted::default() }, &interfaces)
        };
        assert_eq!(said(&["x0", "eth0"]), None);
        let line = said(&["r2", "x0", "r1"]).expect("a line");
        assert!(
            line.starts_with("offloads of the hosts behind r1, r2, in other network namespaces "),
            "{line}"
        );
    }

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
