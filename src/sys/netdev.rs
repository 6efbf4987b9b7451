//! Network interfaces: the facts that a port needs before it binds to one.
//!
//! All questions are ioctls on one socket (netdevice(7), `linux/ethtool.h`), because the socket belongs to the network
//! namespace of the thread that opened it. /sys/class/net belongs to the namespace that mounted it, which may be
//! another one.

use super::broker::{self, Request};
use super::errno::last_errno;
use super::netns::{NetworkNamespace, is_here};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::ffi::c_char;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

/// Asks for the numbers of channels (`linux/ethtool.h`).
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Asks for the driver (`linux/ethtool.h`).
const ETHTOOL_GDRVINFO: u32 = 0x3;

/// The time between two tries while an interface is being renamed.
const RENAME_PAUSE: Duration = Duration::from_millis(1);

/// Number of such pauses until the error is returned.
const RENAME_PAUSES: u32 = 1000;

/// `struct ethtool_drvinfo` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolDriver {
    cmd: u32,
    /// The driver, its version, and that of the firmware.
    names: [[u8; 32]; 3],
    bus_info: [u8; 32],
    rest: [u8; 64],
}

/// `struct ethtool_channels` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    cmd: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// The number of queues that an interface uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Receive queues.
    pub rx: u32,
    /// Transmit queues.
    pub tx: u32,
}

/// An interface among those of all network namespaces. Another one may have the same number in another namespace.
#[cfg(feature = "xdp")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetdevId {
    /// The namespace; None if the kernel does not tell which.
    namespace: Option<u64>,
    index: u32,
}

#[cfg(feature = "xdp")]
impl NetdevId {
    /// The interface of that number in the network namespace of `socket`.
    pub(crate) fn of(socket: &impl AsFd, index: u32) -> NetdevId {
        NetdevId { namespace: super::netns::number(socket.as_fd()), index }
    }

    /// The number of the interface in its namespace.
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// Whether both are in one namespace. It is not known to be another one if the kernel does not tell.
    pub(crate) fn is_beside(self, other: NetdevId) -> bool {
        self.namespace.zip(other.namespace).is_none_or(|(one, other)| one == other)
    }

    /// Whether both are the same interface.
    pub(crate) fn is(self, other: NetdevId) -> bool {
        self.index == other.index && self.is_beside(other)
    }
}

/// One network interface of the namespace in which it was opened. A later rename does not matter.
#[derive(Debug)]
pub struct Netdev {
    /// Any socket of the namespace: it only carries the ioctls.
    socket: OwnedFd,
    name: String,
    index: u32,
}

impl Netdev {
    /// Finds the interface `name` in the calling thread's network namespace.
    ///
    /// # Errors
    /// `NODEV` if there is no such interface (or no interface could have that name); otherwise the error of socket(2).
    pub fn open(name: &str) -> Result<Netdev, Errno> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(Errno::NODEV);
        }
        let socket = match broker::current() {
            None => socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?,
            Some(broker) => broker::ask_for_one(broker, &Request::NetdevSocket, &[])?,
        };
        Netdev::by(socket, name)
    }

    /// The interface `name` in the network namespace of `socket`.
    ///
    /// # Errors
    /// `NODEV` when there is none.
    pub(super) fn by(socket: OwnedFd, name: &str) -> Result<Netdev, Errno> {
        let index = netdevice::name_to_index(&socket, name)?;
        Ok(Netdev { socket, name: name.to_owned(), index })
    }

    /// The socket that carries the ioctls.
    #[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// The interface that has this one's name now, in the same namespace: this one, or another one made since.
    ///
    /// # Errors
    /// `NODEV` if there is none.
    pub fn again(&self) -> Result<Netdev, Errno> {
        let socket = rustix::io::fcntl_dupfd_cloexec(&self.socket, 0)?;
        let index = netdevice::name_to_index(&socket, &self.name)?;
        Ok(Netdev { socket, name: self.name.clone(), index })
    }

    /// Runs `f` in the interface's network namespace: on the calling thread if it is there, otherwise on a new thread.
    /// An interface number that `f` uses then means this interface, and not an interface with the same number in
    /// another namespace. If there is a broker, it carries out the requests of `f` in that namespace.
    ///
    /// # Errors
    /// If it is another namespace and this process may not ask for it (CAP_NET_ADMIN) or enter it (CAP_SYS_ADMIN).
    pub fn in_its_namespace<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        let socket = self.socket.as_fd();
        if broker::current().is_some() {
            return Ok(broker::at(socket, f)?);
        }
        if is_here(socket)? { Ok(f()) } else { NetworkNamespace::of(socket)?.inside(f) }
    }

    /// The name with which it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current name of the interface.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn current_name(&self) -> Result<String, Errno> {
        let name = self.named()?.ifr_name.map(|byte| byte as u8);
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// The kernel's number of the interface. It stays when the interface is renamed.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The interface among those of all network namespaces.
    #[cfg(feature = "xdp")]
    pub(crate) fn id(&self) -> NetdevId {
        NetdevId::of(&self.socket, self.index)
    }

    /// Whether the interface is up (IFF_UP): packets can be given to it.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn is_up(&self) -> Result<bool, Errno> {
        Ok(self.flags()? & libc::IFF_UP != 0)
    }

    /// Does the same as [`Netdev::is_up`], and never waits.
    ///
    /// # Errors
    /// Also `AGAIN` while the interface is being renamed.
    #[cfg(any(feature = "af-packet", feature = "tap", feature = "xdp"))]
    pub(crate) fn is_up_at_once(&self) -> Result<bool, Errno> {
        Ok(self.flags_at_once()? & libc::IFF_UP != 0)
    }

    /// Sets the interface up.
    ///
    /// # Errors
    /// `PERM` without CAP_NET_ADMIN; `NODEV` if the interface is gone.
    pub fn set_up(&self) -> Result<(), Errno> {
        let flags = (self.flags()? | libc::IFF_UP) as i16;
        settled(|| self.ask(libc::SIOCSIFFLAGS, |request| request.ifr_ifru.ifru_flags = flags)).map(drop)
    }

    /// Whether the interface has a carrier (IFF_RUNNING). None if it is not up: it has none then whatever its other end does.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn has_carrier(&self) -> Result<Option<bool>, Errno> {
        let flags = self.flags()?;
        Ok((flags & libc::IFF_UP != 0).then_some(flags & libc::IFF_RUNNING != 0))
    }

    /// The MAC address of the interface.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone, `AFNOSUPPORT` if it is not an Ethernet interface.
    pub fn mac(&self) -> Result<[u8; 6], Errno> {
        settled(|| self.mac_at_once())
    }

    /// The address that this host has in the interface's frames: its [MAC address](Netdev::mac), or zeros for a loopback
    /// interface (IFF_LOOPBACK), whose frames are Ethernet frames without addresses.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone, `AFNOSUPPORT` if its frames are not Ethernet frames.
    pub fn frame_mac(&self) -> Result<[u8; 6], Errno> {
        if self.flags()? & libc::IFF_LOOPBACK != 0 { Ok([0; 6]) } else { self.mac() }
    }

    /// Does the same as [`Netdev::mac`], and never waits.
    ///
    /// # Errors
    /// Also `AGAIN` while the interface is being renamed.
    pub(crate) fn mac_at_once(&self) -> Result<[u8; 6], Errno> {
        let request = self.ask(libc::SIOCGIFHWADDR, |_| {})?;
        // SAFETY: SIOCGIFHWADDR filled in the hardware address; any bytes are a valid sockaddr.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(Errno::AFNOSUPPORT);
        }
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    /// The MTU: the largest packet, in bytes without the Ethernet header.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn mtu(&self) -> Result<u32, Errno> {
        settled(|| self.mtu_at_once())
    }

    /// Does the same as [`Netdev::mtu`], and never waits.
    ///
    /// # Errors
    /// Also `AGAIN` while the interface is being renamed.
    pub(crate) fn mtu_at_once(&self) -> Result<u32, Errno> {
        let request = self.ask(libc::SIOCGIFMTU, |_| {})?;
        // SAFETY: SIOCGIFMTU filled in the MTU; any bytes are a valid integer.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// The number of queues that it uses; None if its driver cannot say.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn queues(&self) -> Result<Option<Queues>, Errno> {
        settled(|| self.queues_at_once())
    }

    /// Does the same as [`Netdev::queues`], and does not wait for a rename. The kernel answers under its lock of all
    /// interfaces.
    ///
    /// # Errors
    /// Also `AGAIN` while the interface is being renamed.
    pub(crate) fn queues_at_once(&self) -> Result<Option<Queues>, Errno> {
        let mut channels = EthtoolChannels { cmd: ETHTOOL_GCHANNELS, ..Default::default() };
        let data = (&raw mut channels).cast();
        match self.ask(libc::SIOCETHTOOL, |request| request.ifr_ifru.ifru_data = data) {
            Ok(_) => {
                let EthtoolChannels { rx, tx, combined, .. } = channels;
                Ok(Some(Queues { rx: rx + combined, tx: tx + combined }))
            }
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether it is a device of software alone (veth, tap, a bridge): its driver names no bus. Also true if the driver
    /// names nothing at all.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn is_virtual(&self) -> Result<bool, Errno> {
        Ok(self.driver()?.is_none_or(|driver| is_no_bus(&driver.bus_info)))
    }

    /// The name of its driver, and that of its device on a bus (`0000:03:00.0`), which is empty if the driver names no bus; None
    /// if the driver says nothing.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    pub fn driver_and_device(&self) -> Result<Option<(String, String)>, Errno> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(until_zero(bytes)).into_owned();
        let device = |info: &[u8]| if is_no_bus(info) { String::new() } else { text(info) };
        Ok(self.driver()?.map(|driver| (text(&driver.names[0]), device(&driver.bus_info))))
    }

    /// Whether it is a bond. Its driver runs an XDP program on the members, whose packets reach no socket of the bond.
    ///
    /// # Errors
    /// `NODEV` if the interface is gone.
    #[cfg(feature = "xdp")]
    pub(crate) fn is_bond(&self) -> Result<bool, Errno> {
        Ok(self.driver()?.is_some_and(|driver| driver.names[0].starts_with(b"bonding\0")))
    }

    /// What its driver says of itself; None if it says nothing.
    fn driver(&self) -> Result<Option<EthtoolDriver>, Errno> {
        let (names, bus_info, rest) = ([[0; 32]; 3], [0; 32], [0; 64]);
        let mut driver = EthtoolDriver { cmd: ETHTOOL_GDRVINFO, names, bus_info, rest };
        let data = (&raw mut driver).cast();
        match settled(|| self.ask(libc::SIOCETHTOOL, |request| request.ifr_ifru.ifru_data = data)) {
            Ok(_) => Ok(Some(driver)),
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn flags(&self) -> Result<i32, Errno> {
        settled(|| self.flags_at_once())
    }

    fn flags_at_once(&self) -> Result<i32, Errno> {
        let request = self.ask(libc::SIOCGIFFLAGS, |_| {})?;
        // SAFETY: SIOCGIFFLAGS filled in the flags; any bytes are a valid integer.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags } as u16))
    }

    /// Makes a request of the interface, which `fill` completes.
    ///
    /// The kernel finds the interface by its name. Between two calls the interface may be renamed, and another one get
    /// its name, and while it is renamed no name finds it. So an answer counts if the name finds this interface before
    /// and after.
    ///
    /// # Errors
    /// `AGAIN` if it is being renamed.
    fn ask(&self, code: libc::c_ulong, fill: impl FnOnce(&mut libc::ifreq)) -> Result<libc::ifreq, Errno> {
        let named = self.named()?;
        if !self.is_found(named)? {
            return Err(Errno::AGAIN);
        }
        let mut request = named;
        fill(&mut request);
        let answer = self.ioctl(code, request);
        if self.is_found(named)? { answer } else { Err(Errno::AGAIN) }
    }

    /// A request with its current name.
    fn named(&self) -> Result<libc::ifreq, Errno> {
        let mut numbered = request("");
        numbered.ifr_ifru.ifru_ifindex = self.index as i32;
        let ifr_name = self.ioctl(libc::SIOCGIFNAME, numbered)?.ifr_name;
        Ok(libc::ifreq { ifr_name, ..request("") })
    }

    /// Whether the kernel finds this interface by the name in a request.
    fn is_found(&self, named: libc::ifreq) -> Result<bool, Errno> {
        match self.ioctl(libc::SIOCGIFINDEX, named) {
            // SAFETY: SIOCGIFINDEX filled in the number; any bytes are a valid integer.
            Ok(found) => Ok(unsafe { found.ifr_ifru.ifru_ifindex } == self.index as i32),
            Err(Errno::NODEV) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn ioctl(&self, code: libc::c_ulong, mut request: libc::ifreq) -> Result<libc::ifreq, Errno> {
        // SAFETY: every code used here reads and writes one ifreq; ETHTOOL_GCHANNELS and ETHTOOL_GDRVINFO also the
        // structure that ifru_data points to, which their callers keep alive during the call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), code as libc::Ioctl, &raw mut request) };
        if done < 0 { Err(last_errno()) } else { Ok(request) }
    }
}

/// Asks again while the interface is being renamed, which takes the kernel some milliseconds. It waits for a second at
/// most.
fn settled<T>(mut ask: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..RENAME_PAUSES {
        match ask() {
            Err(Errno::AGAIN) => sleep(RENAME_PAUSE),
            other => return other,
        }
    }
    ask()
}

/// Whether a driver says by these bytes that its device is on no bus: by none, or by the words of the drivers of TUN and
/// TAP interfaces and of bridges.
fn is_no_bus(info: &[u8]) -> bool {
    matches!(until_zero(info), b"" | b"tap" | b"tun" | b"N/A")
}

/// The bytes of a string that ends at its first zero byte.
fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A request that names the interface `name` and is zero otherwise. The name must not be longer than interface names
/// are.
pub(super) fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain integers, addresses and pointers, for all of which zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_number_one_and_has_one_queue_or_does_not_say() {
        let lo = Netdev::open("lo").unwrap();
        assert_eq!(lo.index(), 1);
        assert_eq!((lo.name(), lo.current_name()), ("lo", Ok("lo".to_owned())));
        assert!(lo.mtu().unwrap() >= 1280);
        assert_eq!((lo.mac(), lo.frame_mac()), (Err(Errno::AFNOSUPPORT), Ok([0; 6])));
        assert_eq!((lo.queues(), lo.is_virtual()), (Ok(None), Ok(true)));
        assert_eq!(lo.has_carrier().unwrap().is_some(), lo.is_up().unwrap());
    }

    #[cfg(feature = "xdp")]
    #[test]
    fn an_interface_of_another_namespace_is_not_the_same_though_it_has_the_same_number() {
        let at = |namespace, index| NetdevId { namespace, index };
        let (one, other) = (at(Some(1), 7), at(Some(2), 7));
        assert!(one.is(one) && !one.is(other) && !one.is_beside(other));
        assert!(!one.is(at(Some(1), 8)) && one.is_beside(at(Some(1), 8)));
        // Where the kernel does not tell, the number decides.
        assert!(one.is(at(None, 7)) && at(None, 7).is(other) && !one.is(at(None, 8)));
        let lo = Netdev::open("lo").unwrap();
        assert!(lo.id().is(lo.again().unwrap().id()));
    }

    /// Seen: a TAP interface was taken for a card, which completes checksums, and packets of guests left without them.
    #[test]
    fn drivers_without_a_bus_say_so_in_four_ways() {
        for info in ["", "tap", "tun", "N/A", "tap\0\0rest"] {
            assert!(is_no_bus(info.as_bytes()), "{info}");
        }
        for info in ["0000:01:00.0", "virtio0", "usb-0000:00:14.0-1", "tap0", "vmbus"] {
            assert!(!is_no_bus(info.as_bytes()), "{info}");
        }
    }

    #[test]
    fn names_that_no_interface_can_have_are_unknown_interfaces() {
        for name in ["", "nosuch0", "a-name-of-more-than-fifteen-bytes", "nul\0byte", "../lo"] {
            assert_eq!(Netdev::open(name).err(), Some(Errno::NODEV), "{name:?}");
        }
    }
}
