//! A port as a device.

use crate::link;
use crate::tokens::{RxFrame, TxFrame};
use netmem::limits::BATCH_MAX;
use netmem::port::{NextHop, NextHops};
use netmem::system::event::sleep_until_readable;
use netmem::wire::ethernet;
use netmem::{Batch, Frame, Pool, Port, PortState, Worker};
use smoltcp::phy::{Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// The longest sleep, with a device that wakes and with one that does not.
const LOOK: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_millis(50);
/// The sleep while frames wait for the device, or packets for a frame: completions wake no thread.
const SHORTEST: Duration = Duration::from_millis(1);
/// The least MTU of an IPv4 link (RFC 791 §3.2). With less than two headers, smoltcp's TCP panics.
const MTU_MIN: usize = 68;
/// Maximum number of packets for smoltcp in one poll, which ends only when there are none.
const POLL_MAX: usize = 4 * BATCH_MAX;

/// A port, the worker for its calls, and the pool that it receives into, as a device of smoltcp. See [the
/// crate](crate).
pub struct PortDevice {
    port: Box<dyn Port>,
    worker: Worker,
    pool: Pool,
    /// Makes the link header; None if smoltcp makes it.
    next_hops: Option<NextHops>,
    mtu: usize,
    /// Slots of the receive ring.
    ring: usize,
    /// Maximum number of frames posted for reception; None for three quarters of the pool.
    posted_max: Option<usize>,
    received: Batch,
    /// Packets that smoltcp got since the last one that it did not get, or the last flush or wait.
    polled: usize,
    /// Frames that smoltcp has read, to be freed in bulk.
    read: Batch,
    to_send: Batch,
    /// The next packet's frame.
    spare: Option<Frame>,
    /// The pool had too few frames for the last refill, and frames that are elsewhere may return to it.
    is_short: bool,
    /// The port reported a packet instead of a sleep. Nothing was received since then.
    was_ready: bool,
    unsent: u64,
    ignored: u64,
}

/// The reason why a port cannot be a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The pool has no frame.
    #[error("the pool has no free frame")]
    NoFrame,
    /// A packet of that size does not fit into a frame.
    #[error(
        "a packet of {mtu} bytes and its link header need more than the {room} bytes of a frame: give the pool larger frames"
    )]
    Mtu {
        /// The requested MTU.
        mtu: usize,
        /// Bytes for which every frame of the pool has room.
        room: usize,
    },
    /// The MTU is less than every IPv4 link carries.
    #[error(
        "an MTU of {mtu} bytes: an IPv4 link carries packets of {MTU_MIN} at least (RFC 791), an IPv6 link of 1280"
    )]
    ShortMtu {
        /// The requested MTU.
        mtu: usize,
    },
    /// The port cannot receive into the pool's frames ([`Fill::can_refill_from`](netmem::Fill::can_refill_from)).
    #[error(
        "the port cannot receive into the frames of the pool, which lie in another memory or are too small: give the pool that \
         the port was opened with"
    )]
    Pool,
}

impl fmt::Debug for PortDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.port.name();
        f.debug_struct("PortDevice").field("port", &name).field("mtu", &self.mtu).finish_non_exhaustive()
    }
}

impl PortDevice {
    /// Makes a device that is a station of its own on the link: smoltcp has MAC addresses, and finds neighbours. The
    /// port must pass ARP and neighbour discovery to it. `mtu` is the longest IP packet (1500 on most links). `worker`
    /// is the pool's owner, or another worker of its memory.
    ///
    /// # Errors
    /// Returns [`DeviceError`].
    pub fn station(
        port: Box<dyn Port>,
        worker: Worker,
        pool: &Pool,
        mtu: usize,
    ) -> Result<PortDevice, DeviceError> {
        PortDevice::new(port, worker, pool, mtu, None)
    }

    /// Makes a device beside the kernel, with one of its IP addresses: packets are sent to the station from which the
    /// last one of their destination came. smoltcp's interface has
    /// [`HardwareAddress::Ip`](smoltcp::wire::HardwareAddress::Ip). Otherwise as [`PortDevice::station`].
    ///
    /// # Errors
    /// Returns [`DeviceError`].
    pub fn beside_kernel(
        port: Box<dyn Port>,
        worker: Worker,
        pool: &Pool,
        mtu: usize,
    ) -> Result<PortDevice, DeviceError> {
        PortDevice::new(port, worker, pool, mtu, Some(NextHops::default()))
    }

    fn new(
        mut port: Box<dyn Port>,
        mut worker: Worker,
        pool: &Pool,
        mtu: usize,
        next_hops: Option<NextHops>,
    ) -> Result<PortDevice, DeviceError> {
        if !port.can_refill_from(pool) {
            return Err(DeviceError::Pool);
        }
        if mtu < MTU_MIN {
            return Err(DeviceError::ShortMtu { mtu });
        }
        let room = pool.room();
        if room < mtu.saturating_add(ethernet::HEADER_LEN) {
            return Err(DeviceError::Mtu { mtu, room });
        }
        let spare = pool.alloc(&mut worker).ok_or(DeviceError::NoFrame)?;
        let (received, read, to_send) = (Batch::new(), Batch::new(), Batch::new());
        let (spare, pool) = (Some(spare), pool.clone());
        let ring = port.fill_room() + port.rx_posted();
        // Offload work that a sender left to its card would fail smoltcp's check.
        port.keep_offloads(false);
        Ok(PortDevice {
            port,
            worker,
            pool,
            next_hops,
            mtu,
            ring,
            posted_max: None,
            received,
            polled: 0,
            read,
            to_send,
            spare,
            is_short: false,
            was_ready: false,
            unsent: 0,
            ignored: 0,
        })
    }

    /// Sets the maximum number of frames posted for reception, before the first poll. The rest of the pool is for
    /// transmission. By default three quarters of the pool, and never more. Devices that share a pool must be set so that
    /// together they leave frames for transmission.
    pub fn set_posted_max(&mut self, frames: usize) {
        self.posted_max = Some(frames);
    }

    /// Maximum number of frames posted for reception. It follows the size of the pool.
    pub fn posted_max(&self) -> usize {
        let most = self.pool.frames() - self.pool.frames() / 4;
        self.posted_max.map_or(most, |set| set.min(most))
    }

    /// Sets the function that returns the next hop of a destination, for sockets that connect, and for a server with several
    /// routers or with peers that are quiet for long ([`NextHops`]). If it returns None, a packet goes to the station from
    /// which the last one of its destination came. `ask` is called for each packet. Only
    /// [beside the kernel](PortDevice::beside_kernel).
    pub fn set_next_hop(&mut self, ask: impl FnMut(IpAddr) -> Option<NextHop> + Send + 'static) {
        if let Some(next_hops) = &mut self.next_hops {
            next_hops.set_ask(ask);
        }
    }

    /// Gives the port the frames that smoltcp wrote, frees those that it read, and posts empty frames. Call it after
    /// each poll.
    pub fn flush(&mut self) {
        self.polled = 0;
        self.turn_over();
    }

    fn turn_over(&mut self) {
        self.send();
        self.tend();
    }

    /// Sleeps until a packet comes, at most that long (None: until one comes, or the port must be checked). Returns at
    /// once if there is a packet that can be answered. While packets wait to be sent, it sleeps for at most a
    /// millisecond. While there is no room for another packet, or packets wait for a frame, it sleeps for a millisecond,
    /// also if `at_most` is shorter: smoltcp could do nothing before. A port that is down for good
    /// ([`Port::is_failed`](netmem::Port::is_failed)) ends no sleep early, and no packet comes any more: ask
    /// [`PortDevice::port`] for it between the sleeps.
    ///
    /// # Cost
    /// One system call.
    pub fn wait(&mut self, at_most: Option<Duration>) {
        self.polled = 0;
        let can_send = self.can_send();
        if can_send && !self.received.is_empty() {
            return;
        }
        if !can_send {
            // The port looks at its interface.
            let _has_frames = self.port.arm();
            self.port.disarm();
            // A packet would end the sleep at once, and could not be answered.
            sleep_until_readable(&[], SHORTEST);
            return;
        }
        let is_ready = self.port.arm();
        let was_ready = std::mem::replace(&mut self.was_ready, is_ready);
        if !is_ready {
            // Without a posted frame, packets that cannot be received would end each sleep at once.
            let can_receive = self.port.rx_posted() > 0 || !self.is_short;
            let fd = self.port.wakeup_fd().filter(|_| can_receive);
            let longest = self.longest_sleep();
            sleep_until_readable(fd.as_slice(), at_most.map_or(longest, |most| longest.min(most)));
        }
        self.port.disarm();
        if is_ready && was_ready {
            // The packets wait for an empty frame, or are dropped as they are received. Only time can help.
            sleep_until_readable(&[], SHORTEST);
        }
    }

    /// The longest time after which the port must be checked although no packet came.
    fn longest_sleep(&self) -> Duration {
        let is_up = self.port.state() == PortState::Up;
        let is_woken = is_up && self.port.rx_posted() > 0 && self.port.wakeup_fd().is_some();
        if self.port.tx_posted() > 0 || !self.to_send.is_empty() {
            SHORTEST
        } else if is_woken && !self.is_short {
            LOOK
        } else {
            LONGEST
        }
    }

    /// Packets of smoltcp that were not sent since the device was made: longer than the MTU, or without a next hop.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Frames beside the kernel that were freed unread since the device was made: not IP, or with a malformed header.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The port, for its state and its counters.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// Returns the port and the worker. Frames that were not sent are freed.
    pub fn into_parts(self) -> (Box<dyn Port>, Worker) {
        (self.port, self.worker)
    }

    /// Gives the port the frames for which it has room. Frames that it can never carry are freed, and the port counts
    /// them.
    fn send(&mut self) {
        if self.to_send.is_empty() {
            return;
        }
        self.port.tx(&mut self.worker, &mut self.to_send);
        if !self.to_send.is_empty() {
            self.port.take_unsendable(&mut self.to_send).free(&mut self.worker);
        }
    }

    /// Frees read and sent frames, posts empty frames, and wakes the device.
    fn tend(&mut self) {
        self.read.free(&mut self.worker);
        loop {
            // Not the port's own number: with one that is too high, this loop might not end.
            self.port.complete(&mut self.worker, &mut self.read);
            if self.read.is_empty() {
                break;
            }
            self.read.free(&mut self.worker);
        }
        self.provide();
        // If the device had all frames, none could be answered, and none would come back.
        let posted_max = self.posted_max();
        self.port.refill_to(&mut self.worker, &self.pool, posted_max);
        self.is_short = self.port.lacks_frames(posted_max);
        self.port.kick();
    }

    /// Returns whether there is a frame for a packet, and room for it among those to be sent.
    fn can_send(&mut self) -> bool {
        if self.to_send.room() == 0 {
            self.send();
        }
        self.provide();
        self.spare.is_some() && self.to_send.room() > 0
    }

    /// Provides the next packet's frame, if the pool has one.
    fn provide(&mut self) {
        if self.spare.is_none() {
            self.spare = self.pool.alloc(&mut self.worker);
        }
    }

    /// The next frame for smoltcp. Returns None after a burst of frames that are not for it, so that its poll ends under
    /// a flood of them. The rest waits for the next poll.
    fn next(&mut self) -> Option<Frame> {
        for _ in 0..BATCH_MAX {
            if self.received.is_empty() {
                self.turn_over();
                let received = self.port.rx(&mut self.worker, &mut self.received);
                self.was_ready &= received == 0;
            }
            let mut frame = self.received.pop_front()?;
            let Some(next_hops) = &mut self.next_hops else { return Some(frame) };
            if link::learn(next_hops, frame.data()) && frame.pull(ethernet::HEADER_LEN).is_ok() {
                return Some(frame);
            }
            self.ignored += 1;
            frame.free(&mut self.worker);
        }
        None
    }
}

impl Device for PortDevice {
    type RxToken<'a> = RxFrame<'a>;
    type TxToken<'a> = TxFrame<'a>;

    fn receive(&mut self, _: Instant) -> Option<(RxFrame<'_>, TxFrame<'_>)> {
        if !self.can_send() {
            return None;
        }
        if self.read.room() == 0 {
            self.read.free(&mut self.worker);
        }
        // A flood would not let smoltcp's poll end: its sockets send only behind it.
        let next = if self.polled < POLL_MAX { self.next() } else { None };
        let Some(frame) = next else {
            self.polled = 0;
            return None;
        };
        self.polled += 1;
        let PortDevice { read, spare, to_send, next_hops, unsent, .. } = self;
        Some((RxFrame { frame, read }, TxFrame { spare, to_send, next_hops: next_hops.as_mut(), unsent }))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxFrame<'_>> {
        if !self.can_send() {
            return None;
        }
        let PortDevice { spare, to_send, next_hops, unsent, .. } = self;
        Some(TxFrame { spare, to_send, next_hops: next_hops.as_mut(), unsent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        let link = match self.next_hops {
            Some(_) => (Medium::Ip, 0),
            None => (Medium::Ethernet, ethernet::HEADER_LEN),
        };
        capabilities.medium = link.0;
        capabilities.max_transmission_unit = self.mtu + link.1;
        let burst = self.ring.min(self.posted_max());
        capabilities.max_burst_size = Some(burst).filter(|frames| *frames > 0);
        capabilities
    }
}
