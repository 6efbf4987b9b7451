//! The packets of an interface that are left to the kernel, which has a copy of each packet.

use super::AfPacketPort;
#[cfg(feature = "xdp")]
use super::alone::Alone;
#[cfg(feature = "xdp")]
use crate::port::xdp::OwnAddresses;
use crate::sync::shim::{AtomicU64, Mutex, lock};
use crate::sys::address;
#[cfg(feature = "xdp")]
use crate::sys::bpf::BpfError;
use crate::sys::errno::Errno;
use crate::wire::{ethernet, icmp, ipv4};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The control traffic of a host, which its kernel handles: the packets that an `xdp` port with `Punt::Control` leaves
/// to the kernel. They are
/// - frames to broadcast and multicast addresses,
/// - frames that are not IP (ARP),
/// - IPv6 neighbour discovery (with a hop limit of 255: no router has forwarded it),
/// - answers of DHCP servers to the MAC address that they are sent to, and
/// - packets to the host's own addresses, which change.
///
/// The ports of a host share one value.
///
/// ```no_run
/// use netmem::port::af_packet::{AfPacketConfig, AfPacketPort, ControlTraffic};
/// use std::sync::Arc;
///
/// let control = Arc::new(ControlTraffic::default());
/// control.follow()?;
/// let mut port = AfPacketPort::open("eth0", &AfPacketConfig::default())?;
/// port.leave_to_kernel(Arc::clone(&control));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ControlTraffic {
    /// The own addresses as the programs at interfaces know them; None while there are no such programs. Locked before
    /// `own`.
    #[cfg(feature = "xdp")]
    in_kernel: Mutex<Option<Arc<OwnAddresses>>>,
    own: Mutex<Arc<Own>>,
    /// Number of changes of `own`.
    changes: AtomicU64,
}

/// The host's own addresses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Own {
    hosts: BTreeSet<IpAddr>,
    /// The prefixes that are more than one address.
    nets: Vec<IpNet>,
}

impl ControlTraffic {
    /// Makes the addresses in these prefixes the own addresses, for frames received from now on. Loopback addresses are
    /// never among them.
    ///
    /// # Errors
    /// If a port takes its packets alone (`AfPacketPort::take_alone`): returns the kernel's error for the first prefix
    /// that could not be given to its program. The other prefixes are set.
    pub fn set(&self, prefixes: &[IpNet]) -> Result<(), Errno> {
        // Held during the whole call: the program gets last the prefixes that were set last.
        #[cfg(feature = "xdp")]
        let in_kernel = lock(&self.in_kernel);
        let is_host = |net: &IpNet| net.prefix_len() == net.max_prefix_len();
        let (hosts, nets): (Vec<IpNet>, Vec<IpNet>) = address::by_wire(prefixes).partition(is_host);
        let new = Own { hosts: hosts.iter().map(IpNet::addr).collect(), nets };
        let mut own = lock(&self.own);
        if **own != new {
            *own = Arc::new(new);
            // Release: pairs with the load in `Left::refresh`, which then finds the new addresses under the lock.
            self.changes.fetch_add(1, Release);
        }
        #[cfg(feature = "xdp")]
        if let Some(own) = &*in_kernel {
            own.set(prefixes).map_err(|error| error.errno)?;
        }
        Ok(())
    }

    /// The own addresses for a program, which follow the addresses that are set here.
    #[cfg(feature = "xdp")]
    pub(super) fn in_kernel(&self) -> Result<Arc<OwnAddresses>, BpfError> {
        let mut in_kernel = lock(&self.in_kernel);
        if let Some(own) = &*in_kernel {
            return Ok(Arc::clone(own));
        }
        let own = Arc::clone(&lock(&self.own));
        let new = Arc::new(OwnAddresses::new()?);
        let hosts = own.hosts.iter().map(|host| IpNet::from(*host));
        new.set(&hosts.chain(own.nets.iter().copied()).collect::<Vec<_>>())?;
        Ok(Arc::clone(in_kernel.insert(new)))
    }

    /// Makes the addresses of the interfaces in the calling thread's network namespace the own addresses.
    ///
    /// # Errors
    /// Returns the error of getifaddrs(3); the own addresses are unchanged then. Returns also the errors of
    /// [`ControlTraffic::set`].
    ///
    /// # Cost
    /// The kernel dumps all addresses: call it once a second, not in a poll loop.
    pub fn follow(&self) -> Result<(), Errno> {
        self.set(&address::all()?)
    }

    /// Returns whether this frame is left to the kernel.
    pub fn contains(&self, frame: &[u8]) -> bool {
        let own = Arc::clone(&lock(&self.own));
        is_control(frame, &own)
    }
}

impl AfPacketPort {
    /// Leaves control traffic to the kernel, which has a copy of every frame. From now on, no such frame comes out of
    /// the port. Each is counted ([`PortCounters::rx_kernel`](crate::port::PortCounters::rx_kernel)).
    ///
    /// # Cost
    /// A look at the headers of each frame, and at the own addresses.
    pub fn leave_to_kernel(&mut self, control: Arc<ControlTraffic>) {
        self.device_mut().left = Some(Left::new(control));
    }
}

/// The packets that one port leaves to the kernel.
#[derive(Debug)]
pub(super) struct Left {
    control: Arc<ControlTraffic>,
    /// A copy of the own addresses, and the number of changes up to then.
    own: Arc<Own>,
    changes: u64,
    /// The program that keeps the other frames from the kernel; None if the kernel has copies of them.
    #[cfg(feature = "xdp")]
    pub(super) alone: Option<Alone>,
}

impl Left {
    fn new(control: Arc<ControlTraffic>) -> Left {
        let mut left = Left {
            control,
            own: Arc::default(),
            changes: 0,
            #[cfg(feature = "xdp")]
            alone: None,
        };
        left.refresh();
        left
    }

    /// Refreshes the copy of the own addresses before a burst, if they have changed.
    #[inline]
    pub(super) fn refresh(&mut self) {
        // Acquire: pairs with the Release in `set`.
        let changes = self.control.changes.load(Acquire);
        if changes != self.changes {
            self.own = Arc::clone(&lock(&self.control.own));
            self.changes = changes;
        }
    }

    /// Lets the kernel have all frames of the port's interface, which is gone.
    #[cold]
    pub(super) fn leave_interface(&mut self) {
        #[cfg(feature = "xdp")]
        if let Some(alone) = &mut self.alone {
            alone.detach();
        }
    }

    /// Moves with the port to the interface of that number, in the calling thread's network namespace.
    #[cold]
    pub(super) fn move_to(&mut self, interface: u32) -> Result<(), String> {
        #[cfg(feature = "xdp")]
        if let Some(alone) = &mut self.alone {
            return alone.move_to(interface).map_err(|error| error.to_string());
        }
        let _ = interface;
        Ok(())
    }

    /// Returns whether a frame is left to the kernel.
    #[inline]
    pub(super) fn contains(&self, frame: &[u8]) -> bool {
        is_control(frame, &self.own)
    }
}

impl Own {
    fn contains(&self, address: IpAddr) -> bool {
        self.hosts.contains(&address) || self.nets.iter().any(|net| net.contains(&address))
    }
}

/// Maximum number of VLAN tags that are skipped.
const TAGS_MAX: usize = 2;
const DHCP_CLIENT_PORT: [u8; 2] = [0, 68];
/// Offset of the last four bytes of a DHCP client's MAC address, from the beginning of an IPv4 header without options.
const DHCP_CLIENT: usize = 20 + 8 + 28 + 2;

/// Returns whether the kernel handles this frame. The checks have the same order and the same exceptions as the program
/// of an `xdp` port (`sys::bpf`).
fn is_control(frame: &[u8], own: &Own) -> bool {
    let Some(header) = frame.first_chunk::<{ ethernet::HEADER_LEN }>() else { return false };
    if header[0] & 1 == 1 {
        return true;
    }
    let station = [header[2], header[3], header[4], header[5]];
    let mut at = ethernet::HEADER_LEN - 2;
    for _ in 0..TAGS_MAX {
        if matches!(ethertype(frame, at), Some(ethernet::VLAN | ethernet::SERVICE_VLAN)) {
            at += ethernet::TAG_LEN;
        }
    }
    match ethertype(frame, at) {
        Some(ethernet::IPV4) => is_control_v4(&frame[at + 2..], station, own),
        Some(ethernet::IPV6) => is_control_v6(&frame[at + 2..], own),
        Some(_) => true,
        None => false,
    }
}

fn is_control_v4(packet: &[u8], station: [u8; 4], own: &Own) -> bool {
    let Some(header) = packet.first_chunk::<20>() else { return false };
    let is_dhcp = header[0] == 0x45
        && header[9] == ipv4::UDP
        && (header[6] & 0x3f, header[7]) == (0, 0)
        && bytes(packet, 22) == Some(DHCP_CLIENT_PORT)
        && bytes(packet, DHCP_CLIENT) == Some(station);
    let [.., a, b, c, d] = *header;
    is_dhcp || own.contains(Ipv4Addr::new(a, b, c, d).into())
}

fn is_control_v6(packet: &[u8], own: &Own) -> bool {
    let Some(header) = packet.first_chunk::<40>() else { return false };
    // What was forwarded is none (RFC 4861 §6.1, §7.1).
    let is_discovery = (header[6], header[7]) == (icmp::PROTOCOL_V6, 255)
        && packet.get(40).is_some_and(|kind| (133..=137).contains(kind));
    is_discovery || bytes(packet, 24).is_some_and(|to: [u8; 16]| own.contains(Ipv6Addr::from(to).into()))
}

fn ethertype(frame: &[u8], at: usize) -> Option<u16> {
    bytes(frame, at).map(u16::from_be_bytes)
}

/// Returns that many bytes from there on, if they exist.
#[inline]
fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_follows_the_addresses_that_are_set_and_loopback_is_none() {
        let control = Arc::new(ControlTraffic::default());
        let mut left = Left::new(Arc::clone(&control));
        let to = |address: [u8; 4]| [&[2; 12], &[8, 0, 0x45][..], &[0; 15], &address, &[0; 26]].concat();
        let (host, net, loopback) = (to([192, 0, 2, 1]), to([203, 0, 113, 9]), to([127, 0, 0, 1]));
        assert!(!left.contains(&host));
        let own = ["192.0.2.1/32", "203.0.113.8/30", "127.0.0.1/8"].map(|net| net.parse().unwrap());
        control.set(&own).unwrap();
        assert!(!left.contains(&host), "what a burst began with stays until the next");
        left.refresh();
        assert_eq!([&host, &net, &loopback].map(|frame| left.contains(frame)), [true, true, false]);
        control.set(&[]).unwrap();
        left.refresh();
        assert_eq!([&host, &net].map(|frame| left.contains(frame)), [false, false]);
    }
}
