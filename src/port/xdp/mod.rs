//! The `xdp` port: one queue of one interface through AF_XDP, without libxdp or libbpf.
//!
//! ```text
//!   program on the interface ── rx queue → socket ──►  RX          fill        posts whole chunks
//!                                                      FILL        rx          claims them, filled
//!   any number of interfaces and queues                TX          tx          posts frames as they are
//!   over one Umem                                      COMPLETION  complete    claims them, sent
//! ```
//! A frame received on one port is sent by another of the same [`Umem`] as it lies: no copy in user space.
//!
//! A UMEM has chunks of 2,048 bytes, or of 4,096, which is as much as the kernel takes ([`Umem::with_chunks`]); each holds the
//! kernel's 256 bytes of headroom and a packet. What is longer the kernel drops (`rx_dropped`); from a device of software, and in
//! generic mode where that is asked for, it comes in several chunks (Linux 6.6), and is put together and, where a host has left
//! that to a card, cut. A frame of a pool of larger ones lies in several chunks of the UMEM: its first is posted for reception, and
//! what is sent of it takes a descriptor for each (`tx_too_long` where the kernel takes no such packets).
//!
//! With [`Punt::Control`] the interface stays one of the kernel's: its addresses answer, its neighbours are found, and
//! routing daemons use it, while everything else comes here. Own addresses are read when the first such port is opened;
//! whoever knows that they have changed says so ([`Umem::own_addresses`]).
//!
//! # A part of an interface
//! With [`XdpConfig::take`] only the packets come here that [`Take`] names, say those to UDP port 53, and the kernel goes on using the
//! interface for all others as if no port were there: a server of one's own stands beside ping, ssh and every other program of the
//! host. [`XdpPort::take_control`] changes that while packets come. What was left to the kernel is counted (`rx_kernel`), also by
//! [`Punt::Control`]; where both are given, what is punted stays with the kernel whatever the rules say.
//!
//! # What is trusted
//! Nothing that is read from a ring: an index further away than the ring is long, an address outside the UMEM,
//! of a chunk that this port does not hold, or with a length that leaves its chunk, is no read and no frame but
//! takes the port down with the reason.
//!
//! # When frames come home
//! Frames in FILL, RX, TX and COMPLETION stay posted until it is proven that nobody writes or reads them.
//!
//! Copy mode. The kernel touches the UMEM in two places: when the program redirects a packet to the socket
//! (xsk_rcv, within the driver's poll), and when this process calls send or poll (xsk_generic_xmit). A socket is
//! released when its last descriptor *and* its last mapping are gone, and release runs before that system call
//! returns: it takes the socket out of the map, marks it unbound and waits until every poll that could still see
//! it is over (xsk_release: xsk_unbind_dev, synchronize_net). So [`XdpPort::close`] detaches the program, drops
//! the mappings and then the socket, which nobody else may be using (the [`Umem`]'s lock), whose descriptor is
//! close-on-exec and whose mappings a forked child does not get. After that every frame posted for reception is
//! ours. A frame for transmission is ours if the kernel never took it out of TX, or completed it, for which close
//! waits up to a second. One that was taken and not completed may still be read (a driver such as virtio_net
//! sends from the UMEM's own pages in copy mode too), so it stays posted: [`Closed::stranded`].
//!
//! An interface that is removed takes its sockets' states with it, and what is said here of close is done then; the port
//! is down, and goes on when there is an interface of that name again. One that is set down keeps all it has, and the
//! port goes on with it.
//!
//! Zero-copy mode. The device writes the UMEM by itself; after release a work queue, later, makes the driver give
//! up its buffers, and nothing tells when. All frames that the kernel held stay posted and are reported.
//!
//! # Checksums
//! Hosts behind veths and taps leave checksums to a card that is none. AF_XDP does not say of which packets; so those that come
//! by a device of software, or in generic mode, are looked at, and a checksum that is the pseudo-header's sum and nothing else is
//! completed (`csum_finished`, [`wire::offload`](crate::wire::offload)). Behind a card in native mode none is looked at.
//!
//! # What other programs may do to it
//! Whoever has CAP_NET_ADMIN or CAP_BPF can take the program off its interface, or the socket out of the program's map, and
//! nothing comes in then. Both are looked for once a second; the port is down with the reason until the program is attached, and
//! the socket in the map, again, which is tried a second later and from then on.
//!
//! # After fork(2)
//! Rings and socket belong to the process that opened the port. A child's copy of it is down, with a reason that says so; it
//! posts and gives back no frame, and ending it ends nothing of the parent's.
//!
//! The program goes with its link's descriptor: on close, on exit, on a panic and on SIGKILL.
//!
//! Source: Documentation/networking/af_xdp.rst; net/xdp/xsk.c of Linux 6.17.

mod absence;
mod attach;
#[allow(unsafe_code)]
mod bind;
mod close;
mod complete;
mod error;
mod fill;
mod gather;
mod grant;
mod health;
#[allow(unsafe_code)]
mod held;
mod installed;
mod own;
mod queues;
mod rx;
mod take;
#[cfg(test)]
mod tests;
mod tx;
mod wake;

pub use crate::sys::bpf::{AttachedProgram, BpfError, Punt, Take, TakeError, TakeRule, XdpMode};
pub use crate::sys::netdev::{Netdev, Queues as NetdevQueues};
pub use crate::sys::xdp::{RingSizes, ZeroCopy};
pub use bind::Umem;
pub use close::Closed;
pub use error::XdpError;
pub use grant::{GrantError, GrantListener, GrantRequest, XdpGrant};
pub use own::{OwnAddresses, OwnAddressesError};
pub use queues::XdpQueues;
pub use take::TakeControl;

use super::{Port, PortCounters, PortState, inherited, set_aside};
use crate::ring::Corrupt;
use crate::ring::cursor::Index;
use crate::sys::errno::Errno;
use crate::sys::event::Watch;
use crate::sys::fork::Birthplace;
use crate::sys::xdp::{Descriptor, Rings, SharedIndex, Socket};
use absence::Presence;
use attach::Attachment;
use complete::CompletionQueue;
use fill::FillQueue;
use gather::Gather;
use health::Health;
use held::Held;
use rx::RxQueue;
use std::cell::Cell;
use std::sync::Arc;
use tx::TxQueue;

/// Which mode of XDP may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum XdpModePreference {
    /// Native where the driver can, else generic; [`XdpPort::native_refused`] says why.
    #[default]
    NativeThenGeneric,
    /// Native only.
    Native,
    /// Generic only.
    Generic,
}

impl XdpModePreference {
    fn allows(self, mode: XdpMode) -> bool {
        match self {
            XdpModePreference::NativeThenGeneric => true,
            XdpModePreference::Native => mode == XdpMode::Native,
            XdpModePreference::Generic => mode == XdpMode::Generic,
        }
    }
}

/// The settings of a port.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct XdpConfig {
    /// Entries of the four rings, each a power of two up to 65,536. Default 2,048 each.
    pub rings: RingSizes,
    /// The mode. Default native, then generic.
    pub mode: XdpModePreference,
    /// Whether the device may use the UMEM itself. Only the first port of a UMEM is asked. Default: it may.
    pub zero_copy: ZeroCopy,
    /// Which packets are left to the kernel, the same for all ports of an interface. Default none.
    pub punt: Punt,
    /// Which packets alone come to the port, the same for all ports of an interface; the rest is left to the kernel. Default None:
    /// all that is not punted.
    pub take: Option<Take>,
    /// Bytes of the longest IP packets that TCP is cut into where a host sends what a card is to cut, and nothing says how: the
    /// MTU of the narrowest link they may leave by. Default the interface's own.
    pub cut_mtu: Option<u16>,
}

/// One queue of one interface. See [the module](self).
#[derive(Debug)]
pub struct XdpPort {
    /// `xdp:eth0`, or `xdp:eth0:1` for another queue than 0.
    name: String,
    netdev: Netdev,
    queue: u32,
    config: XdpConfig,
    umem: Arc<Umem>,
    mode: XdpMode,
    native_refused: Option<String>,
    zero_copy: bool,
    /// What comes may have checksums that its sender has left to a card, and nothing marks them.
    may_be_unfinished: bool,
    /// What puts packets together that are longer than a chunk; None where none was asked for.
    gather: Option<Box<Gather>>,
    /// The four rings while they can be trusted.
    queues: Option<Queues>,
    /// The four rings afterwards, until close.
    stopped: Option<Queues>,
    /// The socket and the program; there exactly while one of the above is. The socket is released only when
    /// the rings' mappings are gone too, so [`Umem::unbind`] drops those first.
    binding: Option<Binding>,
    /// Frames in FILL, with the driver, or in RX.
    filled: Held,
    /// Frames in TX, with the driver, or in COMPLETION; without an interface those that wait to be given back.
    sent: Held,
    /// Frames that stay posted for good.
    stranded: usize,
    presence: Presence,
    /// Sockets before this one.
    sockets: u32,
    /// The interface is down for now, or absent.
    link_down: bool,
    /// Why the port is down for good, or until its interface is there again.
    down: Option<String>,
    /// Poll rounds, wrapping.
    rounds: u32,
    health: Health,
    birthplace: Birthplace,
    /// What its interface's ports take; None where that is all.
    taking: Option<Arc<TakeControl>>,
    /// What of the kernel's counters is in `counters` already.
    told: Cell<Told>,
    /// What of the program's count is there already.
    left: Cell<u64>,
    counters: Arc<PortCounters>,
}

/// The four rings.
#[derive(Debug)]
struct Queues {
    fill: FillQueue,
    rx: RxQueue,
    tx: TxQueue,
    complete: CompletionQueue,
}

/// What ties the rings to the interface.
#[derive(Debug)]
struct Binding {
    attachment: Arc<Attachment>,
    socket: Arc<Socket>,
    /// Watches the socket for whoever sleeps.
    watch: Watch,
}

/// Why a port cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("{0} {1}")]
    Corrupt(&'static str, Corrupt),
    #[error("{0} ring: the descriptor {1:?} makes no sense")]
    Descriptor(&'static str, Descriptor),
    #[error("the socket is broken: {0}")]
    Broken(Errno),
}

/// What the kernel has counted for one socket.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    rx_no_frame: u64,
    rx_ring_full: u64,
    rx_dropped: u64,
    tx_invalid: u64,
}

impl Index for SharedIndex {
    #[inline(always)]
    fn load_relaxed(&self) -> u32 {
        SharedIndex::load_relaxed(self)
    }

    #[inline(always)]
    fn load_acquire(&self) -> u32 {
        // Acquire: see SharedIndex.
        SharedIndex::load_acquire(self)
    }

    #[inline(always)]
    fn store_release(&self, value: u32) {
        // Release: see SharedIndex.
        SharedIndex::store_release(self, value);
    }
}

impl Queues {
    fn new(rings: Rings) -> Queues {
        Queues {
            fill: FillQueue::new(rings.fill),
            rx: RxQueue::new(rings.rx),
            tx: TxQueue::new(rings.tx),
            complete: CompletionQueue::new(rings.completion),
        }
    }
}

impl XdpPort {
    fn new(
        umem: Arc<Umem>,
        netdev: Netdev,
        queue: u32,
        config: &XdpConfig,
        binding: Binding,
        rings: Rings,
    ) -> XdpPort {
        let name = match queue {
            0 => format!("xdp:{}", netdev.name()),
            _ => format!("xdp:{}:{queue}", netdev.name()),
        };
        XdpPort {
            name,
            may_be_unfinished: may_be_unfinished(&netdev, binding.attachment.mode()),
            gather: may_be_long(&netdev, config).then(|| Box::new(Gather::new(&netdev, config))),
            netdev,
            queue,
            config: config.clone(),
            taking: binding.attachment.taking().cloned(),
            left: Cell::new(binding.attachment.left(queue)),
            mode: binding.attachment.mode(),
            native_refused: binding.attachment.native_refused().map(str::to_owned),
            zero_copy: binding.socket.is_zero_copy(),
            queues: Some(Queues::new(rings)),
            stopped: None,
            binding: Some(binding),
            filled: umem.nothing_held(),
            sent: umem.nothing_held(),
            stranded: 0,
            umem,
            presence: Presence::Here,
            sockets: 0,
            link_down: false,
            down: None,
            rounds: 0,
            health: Health::default(),
            birthplace: Birthplace::here(),
            told: Cell::default(),
            counters: Arc::default(),
        }
    }

    /// Goes on with another socket, maybe on another interface of the same name.
    #[cold]
    fn adopt(&mut self, netdev: Netdev, binding: Binding, rings: Rings) {
        self.mode = binding.attachment.mode();
        self.may_be_unfinished = may_be_unfinished(&netdev, self.mode);
        if let Some(gather) = &mut self.gather {
            gather.follow(&netdev, &self.config);
        }
        self.netdev = netdev;
        self.native_refused = binding.attachment.native_refused().map(str::to_owned);
        self.zero_copy = binding.socket.is_zero_copy();
        self.queues = Some(Queues::new(rings));
        self.left.set(binding.attachment.left(self.queue));
        self.taking = binding.attachment.taking().cloned();
        self.binding = Some(binding);
        self.sockets = self.sockets.wrapping_add(1);
    }

    /// Counts in `counters` from now on, and there what was counted so far.
    #[cold]
    fn count_into(&mut self, counters: &Arc<PortCounters>) {
        counters.add(&self.counters);
        self.counters = Arc::clone(counters);
    }

    /// Which of the port's sockets it has; None where it has none.
    fn socket_number(&self) -> Option<u32> {
        self.binding.as_ref().map(|_| self.sockets)
    }

    /// The interface.
    pub fn netdev(&self) -> &Netdev {
        &self.netdev
    }

    /// The queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// The mode its program runs in.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// What of its queue is left to the kernel.
    pub fn punt(&self) -> Punt {
        self.config.punt
    }

    /// What it takes of its queue, with the other ports of its interface, and what changes that; None where it takes all that is not
    /// punted ([`XdpConfig::take`]).
    pub fn take_control(&self) -> Option<Arc<TakeControl>> {
        self.taking.clone()
    }

    /// Why it is not in native mode, where that was tried.
    pub fn native_refused(&self) -> Option<&str> {
        self.native_refused.as_deref()
    }

    /// Whether the device uses the UMEM itself.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Takes the port down because of `fault`.
    #[cold]
    #[inline(never)]
    fn fault(&mut self, fault: &Fault) {
        if let Fault::Descriptor(..) = fault {
            self.counters.bad_descriptor.add(1);
        }
        if self.presence != Presence::Here {
            // Not a reason that passes any more.
            (self.presence, self.down) = (Presence::Here, None);
        }
        self.down.get_or_insert_with(|| fault.to_string());
        self.stopped = self.queues.take().or(self.stopped.take());
    }
}

/// Whether packets that are longer than a chunk are asked for: where a device would not have to give up zero-copy for that.
#[cold]
fn may_be_long(netdev: &Netdev, config: &XdpConfig) -> bool {
    config.mode == XdpModePreference::Generic || netdev.is_virtual().unwrap_or(false)
}

/// Whether packets with unfinished checksums can come: from a host at the other end of a device of software, and to a program that
/// runs behind the driver, where those of guests come as well. A driver that has a card sees to them before it runs a program.
#[cold]
fn may_be_unfinished(netdev: &Netdev, mode: XdpMode) -> bool {
    mode == XdpMode::Generic || netdev.is_virtual().unwrap_or(true)
}

impl Port for XdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "xdp"
    }

    fn state(&self) -> PortState {
        if self.birthplace.is_elsewhere() {
            return PortState::Down(inherited(&self.name));
        }
        let lost = self.health.lost().filter(|_| self.presence == Presence::Here);
        match &self.down {
            Some(reason) => PortState::Down(reason.clone()),
            None if lost.is_some() => PortState::Down(lost.unwrap_or_default().to_owned()),
            None if self.link_down => PortState::Down(format!("interface {} is down", self.netdev.name())),
            None => PortState::Up,
        }
    }

    /// Reads the kernel's counters afresh as well.
    fn counters(&self) -> Arc<PortCounters> {
        if !self.birthplace.is_elsewhere() {
            self.publish_statistics();
        }
        Arc::clone(&self.counters)
    }
}
