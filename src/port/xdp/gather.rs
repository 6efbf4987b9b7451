//! COLD: packets that are longer than a chunk, which the kernel stores in several chunks, and packets that are longer
//! than their link's packets, or than the packets that may leave.
//!
//! ```text
//!   RX  ─[ goes on ]─[ goes on ]─[ end ]─►  one slot of memory  ─► frames: the whole packet in one, or a segment each
//!            chunks ─────────────────────►  spare  ─► those frames
//! ```
//! Such a packet is either a jumbo frame, for which the frames may or may not be large enough, or it stands for many
//! (GSO). A host behind a software device sends the second kind where its own card would cut it, and it may fit into
//! one chunk. AF_XDP reports neither the segment size nor whether it is such a packet. TCP longer than its link's MTU is
//! cut to [`XdpConfig::cut_mtu`] (`cut_without_size`). UDP datagrams cannot be separated again: a packet that may be
//! several is dropped if longer than both the link's MTU and Ethernet's of 1,500 (`udp_without_size`), otherwise it passes
//! as one datagram. A packet of more than 64 KiB (BIG TCP) is dropped (`rx_too_long`).
//!
//! The MTU limits what an interface sends. A bridge of other hosts, or a link whose other end has a larger MTU, delivers
//! longer packets, and all of them pass that can only be one packet (`may_stand_for_several`).
//!
//! A shorter packet is cut too if it is longer than `cut_mtu` and its checksum is open: a host on the link left it to a
//! card. Other packets of this length stay whole. They may come from another link, and their sender has to be told that
//! they are too long for the next one.
//!
//! A packet has more segments than the chunks it came in. For the other segments the port keeps frames back from the
//! FILL ring (`spare`). They are posted like those in the ring, and given to the caller with data in them. Frames that
//! no packet waits for go back to the ring.

use super::held::Held;
use super::rx::RxQueue;
use super::{Binding, Fault, XdpConfig, XdpPort};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, FrameState};
use crate::port::uncut::Uncut;
use crate::sync::Worker;
use crate::sys::xdp::{Descriptor, PACKET_HEADROOM};
use crate::wire::offload::{
    Offload, complete_checksum, cut_to_mtu, cut_unfinished_to_mtu, may_stand_for_several,
};
use crate::wire::{Ethernet, ethernet};

/// Bytes of the longest IP packet that the port cuts. Hosts that are configured for it (BIG TCP) send longer ones, whose
/// headers do not have the length.
const LONGEST_PACKET: usize = u16::MAX as usize;

/// Bytes of the longest IP packet of hosts whose MTU nobody has changed.
const ETHERNET_MTU: u16 = 1500;

/// The lengths of packets that need not be cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of the link's longest packet.
    pub(super) mtu: u16,
    /// Bytes of the longest packet that TCP is cut into; at most `mtu`.
    pub(super) cut_mtu: u16,
}

impl Limits {
    /// Bytes of the longest frame without a tag that is never cut.
    #[inline]
    pub(super) fn never_cut(self) -> usize {
        ethernet::HEADER_LEN + usize::from(self.cut_mtu)
    }

    /// Returns how `frame` is cut: [`Offload::default`] if it stays whole, None if it would have to be cut and cannot.
    pub(super) fn cut(self, frame: &[u8]) -> Option<Offload> {
        let Limits { mtu, cut_mtu } = self;
        let len = length_beyond_link(frame);
        // A link lets packets pass that are longer by a tag, also without the tag (Linux, is_skb_forwardable).
        let longest = usize::from(mtu.max(ETHERNET_MTU)) + ethernet::TAG_LEN;
        let whole = Some(Offload::default());
        match len.saturating_sub(mtu.into()) {
            0 if len <= usize::from(cut_mtu) => whole,
            0 => cut_unfinished_to_mtu(frame, cut_mtu).or(whole),
            _ => cut_to_mtu(frame, cut_mtu)
                .or_else(|| whole.filter(|_| len <= longest || !may_stand_for_several(frame))),
        }
    }

    /// Returns whether `frame` is longer than its link's packets, or is cut.
    pub(super) fn is_long(self, frame: &[u8]) -> bool {
        length_beyond_link(frame) > usize::from(self.mtu) || self.cut(frame) != Some(Offload::default())
    }
}

/// Long packets that are being moved into frames.
#[derive(Debug)]
pub(super) struct Gather {
    uncut: Uncut,
    /// Addresses of chunks that are held, and in no ring.
    spare: Vec<u64>,
    /// Room for the parts of a packet. Empty between two calls.
    parts: Vec<Frame>,
    limits: Limits,
}

impl Gather {
    /// The MTU of the link is not known before [`follow`](Self::follow).
    pub(super) fn new() -> Gather {
        let limits = Limits { mtu: ETHERNET_MTU, cut_mtu: ETHERNET_MTU };
        Gather { uncut: Uncut::new(1), spare: Vec::new(), parts: Vec::with_capacity(BATCH_MAX), limits }
    }

    /// Adopts the MTU of the link.
    pub(super) fn follow(&mut self, mtu: u32, config: &XdpConfig) {
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        self.limits = Limits { mtu, cut_mtu: config.cut_mtu.map_or(mtu, |most| most.min(mtu)) };
    }

    #[inline]
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns whether a packet, or segments of one, wait for frames.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !self.uncut.is_empty()
    }

    /// Returns whether it has chunks, or needs some.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.is_waiting() || !self.spare.is_empty()
    }

    /// Number of frames needed for the packets that wait.
    #[inline]
    pub(super) fn wanted(&self) -> usize {
        if self.is_waiting() { self.uncut.frames().saturating_sub(self.spare.len()) } else { 0 }
    }

    /// Forgets the spare chunks: the socket is gone, and all frames that it held are free.
    pub(super) fn forget_spare(&mut self) {
        self.spare.clear();
    }
}

impl RxQueue {
    /// Copies the packet that begins in the next descriptor and continues in those behind it to `to`, as far as there
    /// is room. Its chunks stay held, and their addresses are appended to `spare`. `parts` is empty before and after.
    /// Returns its length, or None if its end has not come yet.
    pub(super) fn gather(
        &mut self,
        filled: &mut Held,
        to: &mut [u8],
        (spare, parts): (&mut Vec<u64>, &mut Vec<Frame>),
    ) -> Result<Option<usize>, Fault> {
        let ready = self.ready(self.size())?;
        let Some(end) = (0..ready).find(|&i| self.read(i).options & Descriptor::CONTINUED == 0) else {
            // The kernel drops a packet for which the ring has no room, so a full ring has the end of one.
            let endless = ready == self.size();
            return if endless { Err(Fault::Descriptor("RX", self.read(0))) } else { Ok(None) };
        };
        // All are claimed before one is held again, so none is taken twice.
        for i in 0..=end {
            let descriptor = self.read(i);
            let claimed = match descriptor.options & !Descriptor::CONTINUED {
                0 => filled.claim(descriptor.addr, descriptor.len),
                _ => None,
            };
            let Some(frame) = claimed else {
                self.release(i);
                for frame in parts.drain(..) {
                    filled.post(frame);
                }
                return Err(Fault::Descriptor("RX", descriptor));
            };
            parts.push(frame);
        }
        self.release(end + 1);
        let mut len = 0;
        for frame in parts.drain(..) {
            if let Some(to) = to.get_mut(len..len + frame.len()) {
                to.copy_from_slice(frame.data());
            }
            len += frame.len();
            spare.push(filled.post(frame));
        }
        Ok(Some(len))
    }
}

impl XdpPort {
    /// Takes the next packet, which is in several descriptors or longer than its link's packets, and appends its
    /// segments.
    #[cold]
    #[inline(never)]
    pub(super) fn gather(&mut self, w: &Worker, frames: &mut Batch) -> Result<usize, Fault> {
        // The MTU may have been raised since the last look.
        self.follow_mtu_for_long_packet();
        let Some(queues) = &mut self.queues else { return Ok(0) };
        // The port did not request such packets.
        let Some(gather) = &mut self.gather else { return Err(Fault::Descriptor("RX", queues.rx.read(0))) };
        let Gather { uncut, spare, parts, limits } = &mut **gather;
        let Some(to) = uncut.beyond().next() else { return Ok(0) };
        let Some(len) = queues.rx.gather(&mut self.filled, to, (spare, parts))? else { return Ok(0) };
        let packet = to.get(..len).filter(|packet| length_beyond_link(packet) <= LONGEST_PACKET);
        let Some(packet) = packet else {
            self.counters.rx_too_long.add(1);
            return Ok(0);
        };
        let Some(offload) = limits.cut(packet) else {
            self.counters.udp_without_size.add(1);
            return Ok(0);
        };
        match uncut.wait(0, &[], len, None, offload, None) {
            Ok(()) => self.counters.cut_without_size.add(offload.gso.is_some().into()),
            Err(_) => self.counters.rx_dropped.add(1),
        }
        Ok(self.hand_out(w, frames))
    }

    /// Appends the segments of the waiting packet, as far as there are frames for them. Returns their number.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_out(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let Some(Gather { uncut, spare, .. }) = self.gather.as_deref_mut() else { return 0 };
        let (before, held) = (frames.len(), self.filled.count());
        while frames.room() > 0
            && let Some(len) = uncut.next_len()
            && let Some(addr) = spare.pop()
        {
            // It was posted and is in no ring.
            let Some(mut frame) = self.filled.claim(addr + PACKET_HEADROOM as u64, 0) else { continue };
            if uncut.write_next(frame.put(len).ok(), &self.counters).is_some() {
                self.counters.csum_completed.add(complete_checksum(frame.data_mut()).into());
                // There is room.
                let _ = frames.push(frame);
            } else {
                spare.push(self.filled.post(frame));
            }
        }
        if frames.len() > before {
            self.filled.taken_back(held, w, frames, before);
        }
        self.counters.copied.add((frames.len() - before) as u64);
        self.count_received(&frames[before..])
    }

    /// Gives the kernel the chunks back that no packet waits for: those of a packet that was dropped, or that made
    /// fewer frames than it had chunks.
    #[cold]
    #[inline(never)]
    pub(super) fn return_spare(&mut self) {
        let (Some(queues), Some(gather)) = (&mut self.queues, &mut self.gather) else { return };
        if gather.is_waiting() {
            return;
        }
        if let Err(corrupt) = queues.fill.put_back(&mut gather.spare) {
            self.fault(&Fault::Corrupt("FILL", corrupt));
        }
    }

    /// Keeps frames from the front of `frames`, all of which the UMEM takes, for the waiting packet. Returns their
    /// number.
    #[cold]
    #[inline(never)]
    pub(super) fn fill_spare(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let Some(gather) = self.gather.as_deref_mut() else { return 0 };
        let n = gather.wanted().min(frames.len());
        FrameState::Posted.enter_batch(w, frames, n);
        for frame in frames.hand_over(FrameState::Posted, w, n) {
            gather.spare.push(self.filled.post(frame));
        }
        self.counters.filled.add(n as u64);
        n
    }
}

/// Number of bytes of a frame behind its link header and tags.
fn length_beyond_link(frame: &[u8]) -> usize {
    let tags = match Ethernet::parse(frame) {
        Ok((link, _)) if link.ethertype() == ethernet::VLAN => 1,
        Ok((link, _)) if link.ethertype() == ethernet::SERVICE_VLAN => 2,
        _ => 0,
    };
    frame.len().saturating_sub(ethernet::HEADER_LEN + tags * ethernet::TAG_LEN)
}

/// Returns the place for long packets, if they can come: the socket may share a UMEM whose first socket requested
/// packets of several chunks, and a host that leaves checksums to a card may leave it the segmentation too.
#[cold]
pub(super) fn gather_for(may_be_unfinished: bool, binding: &Binding) -> Option<Box<Gather>> {
    let may_be_long = may_be_unfinished || binding.socket.takes_several();
    may_be_long.then(|| Box::new(Gather::new()))
}
