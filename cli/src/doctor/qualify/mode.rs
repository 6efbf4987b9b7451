//! The modes in which a driver can carry frames. COLD.

use crate::forward::worker_setup::Owner;
use netmem::limits::{CHUNK_SIZE, ONE_BUFFER_MTU_MAX, PAGE_SIZE};
use netmem::port::Port;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::xdp::{Netdev, RingSizes, Umem, XdpConfig, XdpModePreference, XdpQueues, ZeroCopy};
use std::sync::Arc;

/// Slots of each ring.
const RING: u32 = 512;

/// A mode in which a port carries frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Native XDP with zero copy: the driver writes into this program's frames.
    ZeroCopy,
    /// Native XDP with copies.
    Native,
    /// Generic XDP, in the kernel.
    Generic,
    /// Packet sockets.
    Packet,
}

/// Bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames(usize);

impl Frames {
    /// Returns the bytes.
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Returns the bytes of an AF_XDP chunk.
    pub fn chunk(self) -> usize {
        self.0.min(PAGE_SIZE)
    }
}

impl Mode {
    /// All modes, the fastest first.
    pub const ALL: [Mode; 4] = [Mode::ZeroCopy, Mode::Native, Mode::Generic, Mode::Packet];

    /// Returns its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Mode::ZeroCopy => "xdp native, zero copy",
            Mode::Native => "xdp native, copies",
            Mode::Generic => "xdp generic",
            Mode::Packet => "packet",
        }
    }

    /// Returns true if a driver need not support it.
    pub fn may_lack(self) -> bool {
        matches!(self, Mode::ZeroCopy | Mode::Native)
    }

    /// Returns the MTU of long packets: the smallest limit of most drivers for a buffer with an XDP program, or the usual
    /// jumbo MTU.
    pub fn jumbo_mtu(self) -> u32 {
        if self == Mode::Packet { 9000 } else { ONE_BUFFER_MTU_MAX }
    }

    /// Returns frames with room for packets of 1,514 bytes, or for long packets.
    pub fn frames(self, are_long: bool) -> Frames {
        Frames(match (self, are_long) {
            (_, false) => CHUNK_SIZE,
            (Mode::Packet, true) => 16384,
            (_, true) => PAGE_SIZE,
        })
    }

    /// Opens a port on all queues of an interface.
    ///
    /// # Errors
    /// One line with the failed step.
    pub fn open(self, umem: &Arc<Umem>, owner: &mut Owner, interface: &str) -> Result<Box<dyn Port>, String> {
        let (mode, zero_copy) = match self {
            Mode::ZeroCopy => (XdpModePreference::Native, ZeroCopy::Require),
            Mode::Native => (XdpModePreference::Native, ZeroCopy::Never),
            Mode::Generic => (XdpModePreference::Generic, ZeroCopy::Never),
            Mode::Packet => {
                let port = AfPacketPort::open(
                    interface,
                    &AfPacketConfig { ring: RING as usize, ..Default::default() },
                )
                .map_err(|error| error.to_string())?;
                return Ok(Box::new(port));
            }
        };
        let rings = RingSizes { fill: RING, rx: RING, tx: RING, completion: RING };
        let config = XdpConfig { rings, mode, zero_copy, ..XdpConfig::default() };
        let queues = Netdev::open(interface).and_then(|netdev| netdev.queues()).ok().flatten();
        let count = queues.map_or(1, |queues| queues.rx.min(queues.tx)).max(1);
        let numbers: Vec<u32> = (0..count).collect();
        let Owner { worker, pool } = owner;
        let port = XdpQueues::open(umem, worker, pool, interface, &numbers, &config);
        Ok(Box::new(port.map_err(|error| error.to_string())?))
    }
}
