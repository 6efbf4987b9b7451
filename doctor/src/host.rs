//! A host, as far as a dataplane depends on it.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What was read of a host. A part that could not be read is empty or None, and `unseen` says why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Host {
    /// What this process may do.
    pub process: Process,
    /// What the kernel can do.
    pub kernel: Kernel,
    /// Memory.
    pub memory: MemoryState,
    /// Processor cores.
    pub cores: Cores,
    /// The interfaces of this network namespace, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Settings by their sysctl(8) keys, which have a slash where a name has a dot.
    pub settings: BTreeMap<String, String>,
    /// What the files are like that the configuration names.
    pub paths: Paths,
    /// Names of abstract Unix sockets in the state of listening.
    pub abstract_sockets: BTreeSet<String>,
    /// What could not be read, each with the reason.
    pub unseen: Vec<String>,
}

/// What this process may do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Process {
    /// Effective capabilities, of those that a dataplane needs, as capabilities(7) names them.
    pub capabilities: BTreeSet<String>,
    /// Bytes that may be locked (RLIMIT_MEMLOCK); None without a limit.
    pub locked_memory: Option<u64>,
}

/// What the kernel can do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// Whether it has AF_XDP sockets; None where that could not be asked.
    pub af_xdp: Option<bool>,
    /// Whether it has /dev/net/tun.
    pub tun: bool,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemoryState {
    /// Bytes that can be had without swapping (MemAvailable).
    pub available: u64,
    /// Free huge pages of 2 MiB, in bytes.
    pub huge_free: u64,
    /// Huge pages of 2 MiB in all, in bytes.
    pub huge_total: u64,
    /// `always`, `madvise` or `never`; empty where the kernel has none.
    pub transparent: String,
}

/// Processor cores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Cores {
    /// Those that this process may run on.
    pub allowed: Vec<u32>,
    /// Those that the kernel was told to keep free (isolcpus).
    pub isolated: Vec<u32>,
    /// The cores of each NUMA node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// Who chooses the clock of each core (`performance`, `powersave`), where the kernel does.
    pub governors: BTreeMap<u32, String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Interface {
    /// The kernel's number for it.
    pub index: u32,
    /// Its other names (altname).
    pub other_names: Vec<String>,
    /// Whether it is set up.
    pub is_up: bool,
    /// Whether it has a carrier (IFF_LOWER_UP).
    pub has_carrier: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// What kind of device of software it is: `veth`, `bridge`, `vlan`; None for hardware.
    pub kind: Option<String>,
    /// The interface that it is a part of: a bridge, a bond, a VRF.
    pub controller: Option<String>,
    /// The interface below or opposite, where it is in this namespace.
    pub link: Option<String>,
    /// The driver of its hardware.
    pub driver: Option<String>,
    /// The NUMA node of its hardware.
    pub node: Option<u32>,
    /// The numbers of its hardware's interrupts, and the cores that each may run on.
    pub interrupts: BTreeMap<u32, Vec<u32>>,
    /// Its queues; None where the driver does not say.
    pub queues: Option<QueueCounts>,
    /// The device's own rings.
    pub rings: Option<RingSizes>,
    /// Offloads that are on, as `ethtool -k` names them in the kernel (`rx-lro`, `tx-udp-segmentation`).
    pub offloads: BTreeSet<String>,
    /// What XDP can do with it; None where the kernel does not say (before Linux 6.3).
    pub modes: Option<OfferedModes>,
    /// The XDP program that is attached, and who holds it.
    pub program: Option<String>,
    /// AF_XDP sockets that are bound to it.
    pub bound: Vec<BoundSocket>,
}

/// Queues that both receive and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueCounts {
    /// How many there are.
    pub now: u32,
    /// How many there can be.
    pub most: u32,
    /// Whether ethtool(8) counts them as `combined`, and not as `rx` and `tx`.
    pub is_combined: bool,
}

/// The rings of a device, in descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RingSizes {
    /// Of each receive ring.
    pub rx: u32,
    /// Of each transmit ring.
    pub tx: u32,
}

/// What an interface's driver can do with XDP.
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
    /// The process that has it, as `NAME (process NUMBER)`; None where that cannot be seen.
    pub holder: Option<String>,
}

/// What the files are like that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Paths {
    /// Those that are there.
    pub there: BTreeSet<PathBuf>,
    /// Those that this process can read.
    pub readable: BTreeSet<PathBuf>,
    /// Those that this process can write, or make.
    pub writable: BTreeSet<PathBuf>,
}

impl Host {
    /// A setting, without the newline; None where there is none, or it could not be read.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// The version of the kernel, as (6, 1); None where the release does not begin with two numbers.
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.release.split(|character: char| !character.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
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
    }
}
