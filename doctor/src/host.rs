//! The properties of a host that a dataplane depends on.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The properties that were read from a host. A part that could not be read is empty or None, and `unseen` gives
/// the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Host {
    /// The privileges of this process.
    pub process: Process,
    /// The abilities of the kernel.
    pub kernel: Kernel,
    /// Memory.
    pub memory: MemoryState,
    /// Processor cores.
    pub cores: Cores,
    /// The interfaces of this network namespace, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Settings by their sysctl(8) keys. Such a key has a slash for a dot in a name.
    pub settings: BTreeMap<String, String>,
    /// The interfaces that lose IPv6 routes of router advertisements if the kernel becomes a router on any interface.
    pub advertised: BTreeSet<String>,
    /// The kernel's tables of neighbours, by family: `ipv4`, `ipv6`. Empty in network namespaces other than the first.
    pub neighbours: BTreeMap<String, NeighbourTable>,
    /// The kernel's filters and translations of the packets that it forwards: `nftables inet fw forward`, `iptables filter`.
    pub firewall: BTreeSet<String>,
    /// The kernel's filters of the packets to and from this host: `nftables inet fw input`, `iptables filter`.
    pub own_firewall: BTreeSet<String>,
    /// The state of the files that the configuration names.
    pub paths: Paths,
    /// Names of abstract Unix sockets that listen, of those that a memif port has.
    pub abstract_sockets: BTreeSet<String>,
    /// The parts that could not be read, each with the reason.
    pub unseen: Vec<String>,
}

/// The privileges of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Process {
    /// Effective capabilities, out of those that a dataplane needs, with the names of capabilities(7).
    pub capabilities: BTreeSet<String>,
    /// True if the process is in a user namespace other than the first. `capabilities` lacks those that have no effect there.
    pub in_user_namespace: bool,
    /// Maximum bytes of locked memory (RLIMIT_MEMLOCK), or None without a limit.
    pub locked_memory: Option<u64>,
}

/// The abilities of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Kernel {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// True if the kernel has AF_XDP sockets. None if it could not be asked.
    pub af_xdp: Option<bool>,
    /// True if the kernel has /dev/net/tun.
    pub tun: bool,
}

/// A table of neighbours of the kernel, which all network namespaces share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NeighbourTable {
    /// Number of neighbours.
    pub entries: u64,
    /// How often since the boot the table was full, so that a neighbour was not accepted.
    pub refused: u64,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemoryState {
    /// Bytes that are available without swapping (MemAvailable).
    pub available: u64,
    /// Huge pages of 2 MiB that are free and promised to no mapping, in bytes.
    pub huge_free: u64,
    /// All huge pages of 2 MiB, in bytes.
    pub huge_total: u64,
    /// Bytes of a huge page of the size that `vm.nr_hugepages` counts, or 0 if it is not known.
    pub huge_size: u64,
    /// Bytes that the limits of the process's control group leave (memory.max), or None without a limit. Huge pages do
    /// not count.
    pub group_left: Option<u64>,
    /// `always`, `madvise` or `never`, or empty if the kernel has no transparent huge pages.
    pub transparent: String,
}

/// Processor cores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Cores {
    /// The cores that this process may run on.
    pub allowed: Vec<u32>,
    /// The cores that are online. Empty in a host that an older version saved.
    pub online: Vec<u32>,
    /// Thousandths of a core whose time the process's control group may use (cpu.max), or None without a limit.
    pub group_thousandths: Option<u64>,
    /// The cores that the kernel keeps free (isolcpus).
    pub isolated: Vec<u32>,
    /// The cores of each NUMA node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// The frequency governor of each core (`performance`, `powersave`), if the kernel has governors.
    pub governors: BTreeMap<u32, String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Interface {
    /// The kernel's interface index.
    pub index: u32,
    /// Its other names (altname).
    pub other_names: Vec<String>,
    /// True if it is administratively up.
    pub is_up: bool,
    /// True if it has a carrier (IFF_LOWER_UP).
    pub has_carrier: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The type of its frames (`ARPHRD_…`), as in `/sys/class/net/NAME/type`. None in a host that an older version saved.
    pub frame_type: Option<u16>,
    /// The kind of a software device, such as `veth`, `bridge` or `vlan`. None for hardware.
    pub kind: Option<String>,
    /// The interface that it belongs to: a bridge, a bond, a VRF.
    pub controller: Option<String>,
    /// The lower or opposite interface, if it is in this namespace.
    pub link: Option<String>,
    /// Number of unicast MAC addresses for which it receives and that no interface in this namespace has, as for a macvlan
    /// interface on top of it in another namespace.
    pub addresses_elsewhere: u32,
    /// The driver of its hardware.
    pub driver: Option<String>,
    /// The NUMA node of its hardware.
    pub node: Option<u32>,
    /// The numbers of its hardware's interrupts, each with the cores that it may run on.
    pub interrupts: BTreeMap<u32, Vec<u32>>,
    /// Its queues, or None if the driver does not report them.
    pub queues: Option<QueueCounts>,
    /// The device's own rings.
    pub rings: Option<RingSizes>,
    /// Offloads that are on, with the kernel's names as in `ethtool -k` (`rx-lro`, `tx-udp-segmentation`).
    pub offloads: BTreeSet<String>,
    /// Those of them that the driver does not let anyone turn off (`[fixed]` in `ethtool -k`).
    pub fixed_offloads: BTreeSet<String>,
    /// The XDP features of its driver, or None if the kernel does not report them (before Linux 6.3).
    pub modes: Option<OfferedModes>,
    /// The XDP program that is attached, and its owner.
    pub program: Option<String>,
    /// AF_XDP sockets that are bound to it.
    pub bound: Vec<BoundSocket>,
}

/// Queues that both receive and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueCounts {
    /// The current number.
    pub now: u32,
    /// The maximum number.
    pub most: u32,
    /// True if ethtool(8) counts them as `combined`, and not as `rx` and `tx`.
    pub is_combined: bool,
    /// The current number that ethtool(8) counts as `rx`. All three are 0 in a host that an older version saved.
    pub rx: u32,
    /// The current number that it counts as `tx`.
    pub tx: u32,
    /// The current number that it counts as `combined`.
    pub combined: u32,
}

/// The rings of a device, in descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RingSizes {
    /// Size of each receive ring.
    pub rx: u32,
    /// Size of each transmit ring.
    pub tx: u32,
}

/// The XDP features of an interface's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OfferedModes {
    /// Native mode, with redirection.
    pub native: bool,
    /// Zero-copy sockets.
    pub zero_copy: bool,
    /// Packets in several buffers, received in native mode.
    pub several_buffers: bool,
}

/// An AF_XDP socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BoundSocket {
    /// The queue that it is bound to.
    pub queue: u32,
    /// The process that owns it, as `NAME (process NUMBER)`, or None if the owner is not visible.
    pub holder: Option<String>,
}

/// The state of the files that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Paths {
    /// The files that exist.
    pub there: BTreeSet<PathBuf>,
    /// The files that this process can read.
    pub readable: BTreeSet<PathBuf>,
    /// The files that this process can write or create.
    pub writable: BTreeSet<PathBuf>,
    /// Those that are folders.
    pub folders: BTreeSet<PathBuf>,
    /// Those that exist and are no Unix sockets.
    pub no_sockets: BTreeSet<PathBuf>,
    /// The Unix sockets on which a process of this network namespace listens.
    pub listened: BTreeSet<PathBuf>,
}

impl Host {
    /// Returns a setting without the newline, or None if it does not exist or could not be read.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// Returns the interface with this name, its own or another one, and its own name.
    pub fn interface(&self, name: &str) -> Option<(&str, &Interface)> {
        named(&self.interfaces, name)
    }

    /// Returns the kernel's version, as (6, 1), or None if the release does not begin with two numbers.
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.release.split(|character: char| !character.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// Returns the interface with this name, its own or another one, and its own name.
pub(crate) fn named<'a>(
    interfaces: &'a BTreeMap<String, Interface>,
    name: &str,
) -> Option<(&'a str, &'a Interface)> {
    let is_it = |(own, interface): &(&String, &Interface)| {
        *own == name || interface.other_names.iter().any(|other| other == name)
    };
    interfaces.iter().find(is_it).map(|(own, interface)| (&own[..], interface))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_version_is_the_first_two_numbers_of_its_release() {
        let version = |release: &str| {
            let kernel = Kernel { release: release.into(), ..Kernel::default() };
            Host { kernel, ..Host::default() }.kernel_version()
        };
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!((version(""), version("six")), (None, None));
    }

    #[test]
    fn a_host_that_was_saved_by_an_older_version_lacks_what_that_did_not_know() {
        let host: Host = serde_json::from_str(r#"{"kernel": {"release": "6.1.0"}}"#).unwrap();
        assert_eq!((host.kernel_version(), host.interfaces.len()), (Some((6, 1)), 0));
        let text = r#"{"interfaces": {"eth0": {"queues": {"now": 2, "most": 8, "is_combined": true}}}}"#;
        let host: Host = serde_json::from_str(text).unwrap();
        let queues = QueueCounts { now: 2, most: 8, is_combined: true, ..QueueCounts::default() };
        assert_eq!(host.interfaces["eth0"].queues, Some(queues));
    }
}
