//! COLD: opens ports by the strings of `--port`.

use super::memory::{errno_of as of_memory, make_slots};
use super::pool::find;
use super::types::{netmem_pool, netmem_port, netmem_port_config, netmem_worker, place, string, unreserved};
use super::worker::cold;
use crate::errno::{EACCES, EBUSY, EINVAL, EIO, EMFILE, ENETDOWN, ENFILE, ENODEV, ENOENT, ENOMEM, EPERM};
use crate::failure::Failure;
use crate::own;
use crate::registry;
use crate::sites::Site;
use crate::word;
use crate::workers::{OpenPort, State};
use netmem::port::af_packet::AfPacketError;
use netmem::port::memif::MemifError;
use netmem::port::pcap::PcapError;
use netmem::port::tap::TapError;
use netmem::port::trace::TraceError;
use netmem::port::xdp::{GrantError, XdpError};
use netmem::{Batch, Pool, Worker};
use netmem_ports::{DeviceSpec, OpenError, PacketSpec, PortPlace, PortSpec, port_spec};
use std::ffi::{CString, c_char, c_int};
use std::sync::PoisonError;

/// Default number of slots of each ring.
const RING: u32 = 2048;

/// Opens a port that receives into frames of `pool`. `text` names the port as the option `--port` of the
/// program netmem does: "xdp:eth0", "memif:/run/memif.sock", "packet:eth0", "tap:tap0" or "pcap:in=FILE",
/// with "fault:" and "trace:" as wrappers. Only mac=any of pcap ports is refused. `config` may be NULL, which selects
/// the defaults. libnetmem(3) lists the keys of each kind ("Port strings").
/// The port belongs to the calling worker until netmem_port_close. A port receives only into frames that it was given:
/// call netmem_port_refill in each round.
/// "memif:PATH,lend=yes" lends frames of the whole memory to the peer. The memory must have been opened with
/// `in_file` and be smaller than 4 GiB, so that the peer can map it. If the option peer= admits peers of
/// another user, the port lends them frames of a memory of its own, as many as `pool` has. It copies what it sends. It
/// does not copy what it receives: the handles name frames of its own memory. Free such frames with netmem_free, or send
/// them. netmem_pool_free with `pool` refuses them (-EXDEV). They keep that memory after the port was closed. No pool
/// of the program accounts for them, and netmem_memory_close waits for them as for those of `worker`'s memory.
/// With lend=yes the caller vouches that the peer writes only to frames that were handed to it.
/// An xdp port takes empty frames of `pool` when it is opened, up to a quarter of the pool and as many as its ring
/// has slots, also if the program only transmits through it. If its queue is in use, the call tries again for about
/// five seconds before it fails with -EBUSY, and for about a minute more if there is no other AF_XDP socket in the
/// network namespace: the kernel has not freed the queue yet. No signal ends the wait. With take=, fragments and
/// packets with a VLAN tag, IPv4 options or IPv6 extension headers go to the kernel, whatever the rules are.
/// Without take= and with kernel=none, which is the default, an xdp port takes all packets of its queue from the kernel,
/// also ARP and ssh, and also if the program only transmits through it: over ssh this can lock the user out. A program
/// that only transmits gives take=none: the kernel keeps all packets. In copy mode the port then attaches no XDP program,
/// so that other programs may have one on the interface. In zero-copy mode it attaches one (copy=yes avoids that).
/// Otherwise an interface has one XDP program. All ports that this process opens on it belong to workers of one memory
/// (otherwise -EBUSY), and have the same kernel= and take= (otherwise -EINVAL). Another process can have ports on other
/// queues of it only if it, or this one, gives take=none.
/// mode=native or mode=generic chooses where the program runs, and copy=yes or copy=no whether frames are copied;
/// -EINVAL if the driver cannot do it. By default the port takes the best that it can get: see netmem_port_detail.
/// With grant=PATH, as in xdp:eth0:1,grant=/run/dns.sock, the program needs no capability: netmem grant listens at PATH,
/// hands over the open sockets and the attached program, and decides about the packets and the mode. The first port of
/// the memory asks for it; queues that no port has are kept for others until the memory is closed.
/// -EACCES if it refuses.
/// A packet port gets copies: the kernel receives each packet too. If a packet for an address of this host has no
/// socket there, the kernel answers it with ICMP "port unreachable" or a TCP reset. A server of such an address uses
/// an xdp port with take=, or a firewall rule that drops its packets in the kernel's input. With kernel=control the
/// port gets no packets for this host.
/// Returns 0, -EINVAL if `text`, the options or the memory are not usable or the interface has no such queue, -ENOENT if
/// there is no such file, socket or interface, -ENODEV if the kernel lacks the driver, -ENETDOWN if the interface is
/// down, -EPERM if the process lacks a capability, -EACCES if it may not open a file, -EBUSY if another program has the
/// device or the queue, -ENOMEM if the memory that may be locked is too small, -EMFILE if the process has too many
/// descriptors open (`ulimit -n`), -ENFILE if the system has, or -EIO if the device cannot be opened for another reason.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_open(
    worker: netmem_worker,
    pool: netmem_pool,
    text: *const c_char,
    config: *const netmem_port_config,
    port: *mut netmem_port,
) -> c_int {
    const CALL: &str = "netmem_port_open";
    cold(worker, CALL, |mut inside| {
        // SAFETY: the promise of C.
        let (port, text, config) = unsafe { (place("port", port)?, string("text", text)?, config.as_ref()) };
        let spec = port_spec(text.ok_or_else(|| Failure::null("text"))?).map_err(Failure::invalid)?;
        let ring = places(config)?;
        let State { pools, ports, worker, memory_word, .. } = &mut *inside;
        let found = match find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN) {
            Ok(found) => found,
            Err(errno) => return Ok(errno),
        };
        let opened = opened(&spec, (*memory_word, ring), worker, found)?;
        // Such a port receives into a memory of its own, which has no slots yet.
        let own = opened.port.own_pool().cloned();
        own.as_ref().map(Pool::memory).map_or(Ok(()), make_slots)?;
        let pool = if own.is_some() { 0 } else { pool.word };
        let place = ports.iter().position(Option::is_none).unwrap_or(ports.len());
        ports.resize_with(ports.len().max(place + 1), || None);
        port.word = word::new(place);
        registry::add_port(port.word);
        if let Some(pool) = own {
            own::add(*memory_word, opened.port.name().to_owned(), pool);
        }
        ports[place] = Some(of_word(port.word, opened, pool, interface(&spec.device)));
        Ok(0)
    })
}

/// The interface whose address is that of this end of the link. The other end of a tap port's link has the interface.
fn interface(device: &DeviceSpec) -> Option<String> {
    match device {
        DeviceSpec::Xdp(spec) => Some(spec.interface.clone()),
        DeviceSpec::Packet(PacketSpec { interface, .. }) => Some(interface.clone()),
        _ => None,
    }
}

/// The entry of an open port.
fn of_word(word: u64, opened: netmem_ports::OpenPort, pool: u64, interface: Option<String>) -> OpenPort {
    let netmem_ports::OpenPort { port, mac, mtu, detail, .. } = opened;
    let name = CString::new(port.name()).unwrap_or_default();
    let detail = CString::new(detail).unwrap_or_default();
    OpenPort {
        word,
        port,
        pool,
        received: Batch::new(),
        is_armed: false,
        name,
        detail,
        mac: mac.bytes(),
        interface,
        mtu,
    }
}

/// Slots of each ring.
fn places(config: Option<&netmem_port_config>) -> Result<u32, Failure> {
    unreserved("netmem_port_config", config.map_or(&[], |config| &config.reserved))?;
    match config.map_or(0, |config| config.ring) {
        0 => Ok(RING),
        ring if ring.is_power_of_two() => Ok(ring),
        ring => {
            let text = format!("netmem_port_config.ring is {ring}: give a power of two, or 0 for {RING}");
            Err(Failure::invalid(text))
        }
    }
}

/// Whether frames of a memory of this kind and size can be lent to a peer.
///
/// # Errors
/// The frames cannot be lent, with the reason. The port would copy instead.
fn can_lend(is_in_file: bool, bytes: usize) -> Result<(), Failure> {
    if !is_in_file {
        return Err(Failure::invalid(
            "lend=yes: no peer can map this memory: open the memory with netmem_memory_config.in_file = 1, or leave lend=yes out to copy",
        ));
    }
    if u32::try_from(bytes).is_err() {
        return Err(Failure::invalid(format!(
            "lend=yes: the memory has {bytes} bytes, and memif can address less than 4 GiB: give a smaller netmem_memory_config.bytes, or leave lend=yes out to copy"
        )));
    }
    Ok(())
}

/// Whether a memory with as many frames as the pool has can be lent to a peer of another user.
///
/// # Errors
/// It is too large, with the reason. The port would copy instead.
fn can_lend_its_own(frames: usize, bytes: usize) -> Result<(), Failure> {
    let all = (frames * bytes).next_multiple_of(2 << 20);
    if u32::try_from(all).is_err() {
        return Err(Failure::invalid(format!(
            "lend=yes: a memory for {frames} frames of {bytes} bytes has {all} bytes, and memif can address less than 4 GiB: give a pool of fewer frames, or leave lend=yes out to copy"
        )));
    }
    Ok(())
}

/// Opens a port with its wrappers, by the opener of the memory.
fn opened(
    spec: &PortSpec,
    (memory, ring): (u64, u32),
    worker: &mut Worker,
    pool: &Pool,
) -> Result<netmem_ports::OpenPort, Failure> {
    if let DeviceSpec::Pcap { any_mac: true, .. } = spec.device {
        return Err(Failure::invalid(
            "mac=any is for a router, which accepts every address: leave it out here",
        ));
    }
    let open = registry::with_memory(memory, |open| open.clone())?;
    let (Some(memory), Some(opener)) = (open.memory, open.opener) else {
        return Err(Failure::new(EINVAL, "the memory was closed"));
    };
    if spec.lends() {
        can_lend(memory.region().file().is_some(), memory.region().len())?;
    } else if spec.lends_its_own() {
        can_lend_its_own(pool.frames(), pool.frame_size())?;
    }
    let mut opener = opener.lock().unwrap_or_else(PoisonError::into_inner);
    opener.set_ring(ring);
    opener.open(spec, PortPlace::default(), worker, pool).map_err(failure)
}

/// The failure of a port that could not be opened: of its options or its memory, or of its device.
fn failure(error: OpenError) -> Failure {
    let errno = match error {
        OpenError::QueueCount(_) => EINVAL,
        OpenError::Xdp(XdpError::RingSize { .. } | XdpError::ChunkSize(_) | XdpError::GuardPages) => EINVAL,
        OpenError::Memif(MemifError::RingSize(_) | MemifError::FrameSize(_) | MemifError::Secret(_)) => {
            EINVAL
        }
        OpenError::Memif(MemifError::Queues { .. } | MemifError::Path { .. }) => EINVAL,
        OpenError::Xdp(ref error) | OpenError::NoQueueForWorker { ref error, .. } => of_xdp(error),
        OpenError::GrantedOther { .. } => EINVAL,
        OpenError::Grant { ref error, .. } => of_grant(error),
        OpenError::Memif(
            MemifError::Listen { errno, .. }
            | MemifError::Group { errno, .. }
            | MemifError::Mode { errno, .. }
            | MemifError::Bell { errno, .. }
            | MemifError::Watch(errno),
        ) => known(errno.raw_os_error()),
        OpenError::OwnPool { ref error, .. } => error.downcast_ref().map_or(EIO, of_memory),
        OpenError::Packet(AfPacketError::UnknownInterface(_)) => ENOENT,
        OpenError::Packet(AfPacketError::InterfaceDown(_)) => ENETDOWN,
        OpenError::Packet(AfPacketError::NotPermitted(_)) | OpenError::Tap(TapError::NotPermitted(_)) => {
            EPERM
        }
        OpenError::Packet(AfPacketError::NotEthernet(_)) => EINVAL,
        OpenError::Packet(AfPacketError::Refused { errno, .. })
        | OpenError::Tap(TapError::Refused { errno, .. }) => known(errno.raw_os_error()),
        OpenError::Tap(TapError::Name(_) | TapError::NotTap(_)) => EINVAL,
        OpenError::Tap(TapError::NoDriver(_)) => ENODEV,
        OpenError::Tap(TapError::Busy(_)) => EBUSY,
        OpenError::Pcap(PcapError::Open { ref error, .. })
        | OpenError::Trace(TraceError::File { ref error, .. })
        | OpenError::Interface { ref error, .. }
        | OpenError::Addresses(ref error) => error.raw_os_error().map_or(EIO, known),
        _ => EIO,
    };
    Failure::new(errno, error)
}

fn of_xdp(error: &XdpError) -> i32 {
    match error {
        XdpError::UnknownInterface { .. } => ENOENT,
        XdpError::NoSuchQueue { .. } | XdpError::PuntDiffers { .. } => EINVAL,
        XdpError::NoMode { .. } | XdpError::NoZeroCopy { .. } => EINVAL,
        XdpError::InterfaceDown { .. } => ENETDOWN,
        XdpError::QueueBound { .. } | XdpError::ProgramAttached { .. } => EBUSY,
        XdpError::NotPermitted { .. } => EPERM,
        XdpError::LockedMemory { .. } => ENOMEM,
        XdpError::NoDescriptor { errno, .. } => known(errno.raw_os_error()),
        _ => EIO,
    }
}

fn of_grant(error: &GrantError) -> i32 {
    match error {
        GrantError::Connect { errno, .. } => known(errno.raw_os_error()),
        GrantError::Refused(_) | GrantError::OtherUser { .. } => EACCES,
        GrantError::NoRoom => EMFILE,
        _ => EIO,
    }
}

/// The errno of the system, if netmem.h names it, otherwise EIO.
fn known(errno: i32) -> i32 {
    const EADDRINUSE: i32 = 98;
    match errno {
        ENOENT | ENODEV | EPERM | EACCES | EBUSY | ENOMEM | ENETDOWN | EMFILE | ENFILE => errno,
        EADDRINUSE => EBUSY,
        _ => EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// A test cannot use up the descriptors of the system. `tests/c/descriptors.c` uses up those of a process.
    #[test]
    fn what_a_port_lacks_because_descriptors_are_used_up_is_told_from_a_fault_of_a_device() {
        let (name, path) = (|| "one".to_owned(), || "/one".into());
        for (errno, number) in [(EMFILE, EMFILE), (ENFILE, ENFILE), (EIO, EIO), (28, EIO)] {
            let error = || io::Error::from_raw_os_error(errno);
            let all: [OpenError; 4] = [
                PcapError::Open { path: path(), error: error() }.into(),
                TraceError::File { path: path(), error: error() }.into(),
                OpenError::Interface { what: "MTU", interface: name(), error: error() },
                OpenError::Addresses(error()),
            ];
            for error in all {
                assert_eq!(failure(error).errno, number);
            }
        }
    }

    /// Seen: -ENODEV, which the header explains as a driver that the kernel lacks.
    #[test]
    fn a_queue_that_the_interface_does_not_have_is_a_fault_of_the_options() {
        let error = XdpError::NoSuchQueue { interface: "eth0".to_owned(), queue: 9, queues: Some(2) };
        assert_eq!(failure(OpenError::Xdp(error)).errno, EINVAL);
    }

    /// Seen: -EIO, "cannot be opened for another reason", of two ports with different take=.
    #[test]
    fn what_the_ports_of_one_interface_must_have_in_common_is_a_fault_of_the_options() {
        let failed = failure(OpenError::Xdp(XdpError::PuntDiffers { interface: "eth0".to_owned() }));
        assert!(failed.errno == EINVAL && failed.text.contains("kernel= and take="), "{}", failed.text);
    }

    /// Seen: a port with lend=yes copied without a message. No memory of 4 GiB is made here, because some
    /// machines have no more than that.
    #[test]
    fn a_memory_that_lies_in_no_file_or_has_4_gib_is_not_lent_and_why_not_is_said() {
        let why = |is_in_file, bytes| can_lend(is_in_file, bytes).unwrap_err().text;
        assert!(why(false, 64 << 20).contains("netmem_memory_config.in_file = 1"));
        assert!(why(true, 4 << 30).contains("less than 4 GiB"));
        assert!(can_lend(true, (4 << 30) - (2 << 20)).is_ok());
        let why = can_lend_its_own((4 << 30) / 2048, 2048).unwrap_err().text;
        assert!(why.contains("a pool of fewer frames"));
        assert!(can_lend_its_own((4 << 30) / 2048 - 1024, 2048).is_ok());
    }
}
