//! The `xdp` port uses one queue of one interface through AF_XDP, without libxdp or libbpf.
//!
//! ```text
//!   program on the interface ── rx queue → socket ──►  RX          fill        posts whole chunks
//!                                                      FILL        rx          claims them, filled
//!   any number of interfaces and queues                TX          tx          posts frames as they are
//!   over one Umem                                      COMPLETION  complete    claims them, sent
//! ```
//! A frame received on one port is sent in place by another port of the same [`Umem`]: no copy in user space.
//!
//! A UMEM has chunks of 2,048 bytes, or of 4,096, the kernel's maximum ([`Umem::with_chunks`]). Each holds the kernel's
//! 256 bytes of headroom and a packet. The kernel drops longer packets (`rx_dropped`). From a software device, and in
//! generic mode on request, a longer packet comes in several chunks (Linux 6.6). The port puts it together and, if a
//! host has left the segmentation to a card, cuts it into segments. A frame of a pool with larger frames lies in
//! several chunks of the UMEM. Its first chunk is posted for reception. Its transmission takes a descriptor for each
//! chunk (`tx_too_long` if the kernel takes no such packets). Frames longer than the interface's MTU allows are refused
//! as well: the kernel would drop them silently.
//!
//! With [`Punt::Control`] the kernel keeps using the interface: its addresses answer, its neighbours are found, and
//! routing daemons use it. All other packets come to the port. Own addresses are read when the first such port is
//! opened. A program that knows that they have changed must set them ([`Umem::own_addresses`]).
//!
//! # A part of an interface
//! With [`XdpConfig::take`], only the packets that [`Take`] names come to the port, for example those to UDP port 53.
//! The kernel goes on using the interface for all others as if there were no port. So a server runs beside ping, ssh
//! and every other program of the host. [`XdpPort::take_control`] changes the rules while packets come. Packets left to
//! the kernel are counted (`rx_kernel`), also those of [`Punt::Control`]. If both are given, punted packets stay with
//! the kernel whatever the rules contain.
//!
//! Rules that take nothing (`none`) are for a port that only transmits. In copy mode no program is attached then, so the
//! interface may have that of another owner, also of another process of netmem. It is attached with the first rules.
//!
//! # What is trusted
//! No value read from a ring is trusted. Three kinds of invalid values take the port down with the reason, and cause no
//! read and no frame:
//! - an index further away than the ring is long,
//! - an address outside the UMEM, or of a chunk that this port does not hold,
//! - a length that leaves its chunk.
//!
//! # When frames are freed
//! Frames in FILL, RX, TX and COMPLETION stay posted until it is proven that nobody writes or reads them.
//!
//! Copy mode. The kernel touches the UMEM in two places: when the program redirects a packet to the socket (xsk_rcv,
//! within the driver's poll), and when this process calls send or poll (xsk_generic_xmit). A socket is released when
//! its last descriptor *and* its last mapping are gone, and release runs before that system call returns. Release takes
//! the socket out of the map, marks it unbound and waits until every poll that could still see it is over (xsk_release:
//! xsk_unbind_dev, synchronize_net).
//!
//! So [`XdpPort::close`] detaches the program, drops the mappings and then the socket. No other thread may be using the
//! socket (the [`Umem`]'s lock). Its descriptor is close-on-exec, and a forked child does not get its mappings. After
//! that, every frame posted for reception belongs to the process again. A frame for transmission belongs to the process
//! again if the kernel never took it out of TX, or completed it; close waits up to a second for completions. A frame
//! that was taken and not completed may still be read (a driver such as virtio_net sends from the UMEM's own pages in
//! copy mode too), so it stays posted: [`Closed::stranded`].
//!
//! If an interface is removed, the kernel removes the state of its sockets too, and the port then takes the steps of
//! close. The port is down, and resumes when there is an interface of that name again. An interface that is set down
//! keeps all its state, and the port resumes with it.
//!
//! Zero-copy mode. The device writes the UMEM by itself. After release, a work queue later makes the driver give up its
//! buffers. The driver has done so when the queue accepts another socket. So close binds one for a moment, and tries
//! that for up to a second ([`bind_for_a_moment`](crate::sys::xdp::bind_for_a_moment)). Then all frames belong to the
//! process again. If that fails, and if the interface is removed, all frames that the kernel held stay posted and are
//! reported.
//!
//! # Checksums
//! Hosts behind veths and taps leave checksums to a card that does not exist. AF_XDP does not report which packets have
//! an open checksum. So packets from a software device, or in generic mode, are checked. A checksum that is only the
//! pseudo-header's sum is completed (`csum_completed`, [`wire::offload`](crate::wire::offload)). Behind a card in
//! native mode no packet is checked.
//!
//! # Interference by other programs
//! A program with CAP_NET_ADMIN or CAP_BPF can take the redirect program off its interface, or the socket out of the
//! program's map. No packet comes in then. Both are checked once a second. The port is down with the reason until the
//! program is attached, and the socket in the map, again. The port tries to restore them a second later and from then
//! on.
//!
//! # After fork(2)
//! Rings and socket belong to the process that opened the port. A child's copy of the port is down, with that reason.
//! It posts and gives back no frame, and closing it affects nothing of the parent's.
//!
//! The program is removed with its link's descriptor: on close, on exit, on a panic and on SIGKILL.
//!
//! Source: Documentation/networking/af_xdp.rst; net/xdp/xsk.c of Linux 6.17.

mod absence;
mod again;
mod attach;
#[allow(unsafe_code)]
mod bind;
mod close;
mod complete;
mod coverage;
mod error;
mod fill;
mod gather;
mod grant;
mod health;
#[allow(unsafe_code)]
mod held;
mod index;
mod installed;
mod later;
mod maps;
mod mode;
mod own;
mod queues;
mod registration;
mod rx;
mod take;
#[cfg(test)]
mod tests;
mod tx;
mod wake;

pub use crate::sys::bpf::{AttachedBy, AttachedProgram, BpfError, Punt, Take, TakeError, TakeRule, XdpMode};
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
use crate::sys::errno::Errno;
use crate::sys::event::Watch;
use crate::sys::fork::Birthplace;
use crate::sys::xdp::{Descriptor, Rings, Socket};
use absence::Presence;
use attach::Attachment;
use complete::CompletionQueue;
use coverage::Coverage;
use fill::FillQueue;
use gather::{Gather, gather_for};
use health::Health;
use held::Held;
use rx::RxQueue;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use take::HeldRules;
use tx::TxQueue;

/// The XDP mode that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum XdpModePreference {
    /// Native if the driver supports it, otherwise generic; [`XdpPort::native_refused`] returns the reason.
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
    /// Whether the device may use the UMEM itself. Default: it may.
    pub zero_copy: ZeroCopy,
    /// The packets that are left to the kernel, the same for all ports of an interface. Default none.
    pub punt: Punt,
    /// The only packets that come to the port, the same for all ports of an interface; the rest is left to the kernel.
    /// Default None: all packets that are not punted. Rules that take nothing (`none`) need no program in copy mode.
    pub take: Option<Take>,
    /// Bytes of the largest IP packets into which the port cuts a TCP packet that stands for many (GSO). The kernel does
    /// not report the segment size. Set it to the smallest MTU of the links by which the packets leave. Default the
    /// interface's own.
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
    /// Received packets may have checksums that their sender has left to a card, and nothing marks them.
    may_be_unfinished: bool,
    /// Puts packets together that are longer than a chunk; None if they were not requested.
    gather: Option<Box<Gather>>,
    /// The four rings while they can be trusted.
    queues: Option<Queues>,
    /// The four rings after that, until close.
    stopped: Option<Queues>,
    /// The socket and the program; present exactly while one of the above is. The socket is released only when the
    /// rings' mappings are gone too, so [`Umem::unbind`] drops those first.
    binding: Option<Binding>,
    /// Frames in FILL, with the driver, or in RX.
    filled: Held,
    /// Frames in TX, with the driver, or in COMPLETION. Without an interface, those that wait to be given back.
    sent: Held,
    /// Frames that stay posted for good.
    stranded: usize,
    presence: Presence,
    /// Number of sockets before this one.
    sockets: u32,
    /// The interface is down for now, or absent.
    link_down: bool,
    /// The reason why the port is down, for good or until its interface is there again.
    down: Option<String>,
    /// Poll rounds, wrapping.
    rounds: u32,
    /// It was opened with a grant.
    is_granted: bool,
    health: Health,
    /// Whether the ports of its interface have all queues.
    coverage: Coverage,
    birthplace: Birthplace,
    /// The packets that its interface's ports take; None if they take all.
    taking: Option<HeldRules>,
    /// The kernel's counts that are already in `counters`.
    published: Cell<KernelCounts>,
    /// The program's count that is already in `counters`.
    left: Cell<Option<u64>>,
    counters: Arc<PortCounters>,
    /// When the interface's MTU was last asked for.
    mtu_asked: Instant,
}

/// The four rings.
#[derive(Debug)]
struct Queues {
    fill: FillQueue,
    rx: RxQueue,
    tx: TxQueue,
    complete: CompletionQueue,
}

/// The connection between the rings and the interface.
#[derive(Debug)]
struct Binding {
    attachment: Arc<Attachment>,
    socket: Arc<Socket>,
    /// Watches the socket for a sleeping worker.
    watch: Watch,
    /// The last attempt to watch it succeeded.
    is_watched: bool,
}

/// The reason why a port cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("{0} {1}")]
    Corrupt(&'static str, Corrupt),
    #[error("{0} ring: the descriptor {1:?} is invalid")]
    Descriptor(&'static str, Descriptor),
    #[error("the socket is broken: {0}")]
    Broken(Errno),
}

/// The kernel's counts for one socket.
#[derive(Clone, Copy, Debug, Default)]
struct KernelCounts {
    rx_no_frame: u64,
    rx_ring_full: u64,
    rx_dropped: u64,
    tx_invalid: u64,
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
        let may_be_unfinished = may_be_unfinished(&netdev, binding.attachment.mode());
        let mut port = XdpPort {
            name,
            may_be_unfinished,
            gather: gather_for(may_be_unfinished, &binding),
            coverage: Coverage::new(&netdev),
            netdev,
            queue,
            config: config.clone(),
            taking: binding.attachment.taking().map(HeldRules::by_port),
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
            is_granted: false,
            health: Health::default(),
            birthplace: Birthplace::here(),
            published: Cell::default(),
            counters: Arc::default(),
            mtu_asked: Instant::now(),
        };
        port.follow_mtu();
        port
    }

    /// Resumes with another socket, maybe on another interface of the same name.
    #[cold]
    fn adopt(&mut self, netdev: Netdev, binding: Binding, rings: Rings) {
        self.mode = binding.attachment.mode();
        self.may_be_unfinished = may_be_unfinished(&netdev, self.mode);
        if self.gather.is_none() {
            self.gather = gather_for(self.may_be_unfinished, &binding);
        }
        self.netdev = netdev;
        self.native_refused = binding.attachment.native_refused().map(str::to_owned);
        self.zero_copy = binding.socket.is_zero_copy();
        self.queues = Some(Queues::new(rings));
        self.left.set(binding.attachment.left(self.queue));
        // What was lost of the last binding went with it.
        self.health = Health::default();
        self.coverage.ask_again();
        self.taking = binding.attachment.taking().map(HeldRules::by_port);
        self.binding = Some(binding);
        self.sockets = self.sockets.wrapping_add(1);
        self.follow_mtu();
    }

    /// Counts in `counters` from now on, and adds the counts so far.
    #[cold]
    fn count_into(&mut self, counters: &Arc<PortCounters>) {
        counters.add(&self.counters);
        self.counters = Arc::clone(counters);
    }

    /// The number of the port's current socket; None if it has none.
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

    /// The mode its program runs in, or will probably run in if it is attached later ([`XdpConfig::take`]).
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// The packets of its queue that are left to the kernel.
    pub fn punt(&self) -> Punt {
        self.config.punt
    }

    /// The control of the packets that it takes of its queue, shared with the other ports of its interface. None if it
    /// takes all that are not punted ([`XdpConfig::take`]).
    pub fn take_control(&self) -> Option<Arc<TakeControl>> {
        self.taking.as_ref().map(HeldRules::control)
    }

    /// The reason why it is not in native mode, if that was tried.
    pub fn native_refused(&self) -> Option<&str> {
        self.native_refused.as_deref()
    }

    /// Returns whether the device uses the UMEM itself.
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
            // The reason is permanent now.
            (self.presence, self.down) = (Presence::Here, None);
        }
        self.down.get_or_insert_with(|| fault.to_string());
        self.stopped = self.queues.take().or(self.stopped.take());
    }
}

/// Returns whether packets longer than a chunk are requested from the beginning: only if a device would not have to give
/// up zero-copy for them. For a device without XDP they are requested once that is known.
#[cold]
fn may_be_long(netdev: &Netdev, config: &XdpConfig) -> bool {
    config.mode == XdpModePreference::Generic || netdev.is_virtual().unwrap_or(false)
}

/// Returns whether packets with unfinished checksums can come. They come from a host at the other end of a software
/// device, and to a program that runs behind the driver, where packets of guests come as well. A driver with a card
/// completes them before it runs a program.
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

    /// After a fault, after it was closed, and when its grant has ended.
    fn is_failed(&self) -> bool {
        self.down.is_some() && self.presence == Presence::Here
    }

    /// Its interface has got receive queues without a port ([`XdpQueues::all_of`]), or cannot be made promiscuous.
    fn complaint(&self) -> Option<String> {
        self.complaint_while_open()
    }

    /// Also reads the kernel's counters again.
    fn counters(&self) -> Arc<PortCounters> {
        if !self.birthplace.is_elsewhere() {
            self.publish_statistics();
        }
        Arc::clone(&self.counters)
    }
}
