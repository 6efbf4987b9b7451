//! The counters of every port.

use crate::pool::Frame;
use crate::stats::{Count, Writer};

/// Additional counters of a port that wraps another port, readable from any thread.
pub trait WrapCounters: Send + Sync {
    /// Every counter with its name, which begins with the port's kind.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// The counters of one port. Its worker writes them through the [`Writer`](crate::stats::Writer), and any thread may
/// read them.
///
/// - Of every frame that the device offered: `rx` reached the caller, and [`PortCounters::rx_drops`] were dropped:
///   `rx_no_frame`, `rx_ring_full`, `rx_dropped`, `rx_too_long` and `udp_without_size`.
/// - Of every transmitted frame: `tx == completed + tx_stranded + in flight`. Frames in flight when the port is closed
///   count as completed or as stranded.
/// - Of the completed frames, those in `tx_lost` went nowhere, and neither did those in `tx_invalid` that the port
///   took. Frames that a port rejects at once because it can never carry them are not even in `tx`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PortCounters {
    /// Frames received, and their bytes.
    pub rx: Count,
    /// Bytes received.
    pub rx_bytes: Count,
    /// Frames posted for transmission.
    pub tx: Count,
    /// Bytes posted for transmission.
    pub tx_bytes: Count,
    /// Frames sent and given back.
    pub completed: Count,
    /// Empty frames posted for reception.
    pub filled: Count,
    /// Frames the device dropped because no empty frame was posted.
    pub rx_no_frame: Count,
    /// Frames the device dropped because the receive ring was full, or the host because the queue of a TAP interface was.
    pub rx_ring_full: Count,
    /// Frames the device dropped for other causes, or that were not yet taken when the port was closed.
    pub rx_dropped: Count,
    /// Frames dropped because they are longer than the empty frames posted, or than 64 KiB.
    pub rx_too_long: Count,
    /// Frames that arrived at the port's queue or interface and were left to the kernel. The kernel has them, so they
    /// are not lost.
    pub rx_kernel: Count,
    /// Frames received that were truncated when they were recorded.
    pub rx_snapped: Count,
    /// Packets of a capture that were skipped, since they were recorded on an interface without Ethernet frames.
    pub rx_other_link: Count,
    /// Frames received whose sender had left the checksum to a card, which the port completed.
    pub csum_completed: Count,
    /// Packets received that stand for many (GSO) and that the port cut. The resulting segments are counted in `rx`.
    pub gso_cut: Count,
    /// Frames received that stand for several segments and were not cut ([`Rx::keep_offloads`](super::Rx::keep_offloads)).
    pub gso_kept: Count,
    /// Of the packets that were cut, those without a segment size: they are cut to an MTU.
    pub cut_without_size: Count,
    /// Packets received that are longer than their link allows, may stand for several, and are not TCP. Nothing defines
    /// how to cut them, so they are dropped.
    pub udp_without_size: Count,
    /// Frames offered for `tx` or `fill` whose memory the device cannot reach; they stayed with the caller. A frame counts
    /// each time that it is offered. If a pool lies in another memory, each refill counts its frames again.
    pub wrong_memory: Count,
    /// Invalid descriptors and numbers from the device; each takes the port down.
    pub bad_descriptor: Count,
    /// Frames that the port can never carry, and descriptors that the device refused. Frames of another memory count in
    /// [`wrong_memory`](Self::wrong_memory).
    pub tx_invalid: Count,
    /// Frames offered for `tx` that lie in more chunks than the device takes for one packet, or that are longer than the
    /// interface's MTU allows. They stayed with the caller.
    pub tx_too_long: Count,
    /// Frames transmitted that the device lost afterwards: they were kept for writing or sending, and that failed, or
    /// the port was closed before, or the [`MemDevice`](super::mem::MemDevice) that had them was dropped. Also those that
    /// the kernel refuses to a `packet` port each time.
    pub tx_lost: Count,
    /// Frames transmitted that a peer behind the device had not acknowledged when its connection ended
    /// ([`Tx::tx_unread`](super::Tx::tx_unread), and lent frames). It may have read the last of them.
    pub tx_left_unread: Count,
    /// Frames transmitted that never come back. The device had them when its interface was removed, and nothing proves
    /// that it has finished with them. They stay posted for good.
    pub tx_stranded: Count,
    /// Wake-ups that the device requested and received.
    pub kicks: Count,
    /// Frames whose bytes were copied between the device's memory and the frames, once each.
    pub copied: Count,
}

impl Writer<PortCounters> {
    /// Counts received frames, for [`Rx::rx`](super::Rx::rx) to return. Returns their number.
    #[inline]
    pub fn count_rx(&self, received: &[Frame]) -> usize {
        self.rx.add(received.len() as u64);
        self.rx_bytes.add(bytes(received));
        received.len()
    }

    /// Counts frames that [`Tx::tx`](super::Tx::tx) takes, before it posts them. Returns their number.
    #[inline]
    pub fn count_tx(&self, taken: &[Frame]) -> usize {
        self.tx.add(taken.len() as u64);
        self.tx_bytes.add(bytes(taken));
        taken.len()
    }

    /// Counts `n` frames that [`Fill::fill`](super::Fill::fill) took. Returns `n`.
    #[inline]
    pub fn count_filled(&self, n: usize) -> usize {
        self.filled.add(n as u64);
        n
    }

    /// Counts `n` frames that [`Complete::complete`](super::Complete::complete) gives back. Returns `n`.
    #[inline]
    pub fn count_completed(&self, n: usize) -> usize {
        self.completed.add(n as u64);
        n
    }
}

/// The number of data bytes of all frames.
#[inline]
fn bytes(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

impl PortCounters {
    /// Every counter with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.all().into_iter().map(|(name, count)| (name, count.get()))
    }

    /// Adds what `within` has counted since the last call, for a port that wraps it. `seen` has the counts of then. The
    /// counts of frames received and dropped are not added, since the wrapping port counts its own.
    pub(super) fn follow(&self, within: &PortCounters, seen: &PortCounters) {
        for (((name, count), (_, of)), (_, seen)) in self.all().into_iter().zip(within.all()).zip(seen.all())
        {
            if !matches!(name, "rx" | "rx_bytes" | "rx_dropped") {
                count.follow(of.get(), seen);
            }
        }
    }

    /// Adds all that `other` has counted.
    #[cfg(feature = "xdp")]
    pub(super) fn add(&self, other: &PortCounters) {
        for ((_, count), (_, more)) in self.all().into_iter().zip(other.all()) {
            count.add(more.get());
        }
    }

    fn all(&self) -> [(&'static str, &Count); 27] {
        [
            ("rx", &self.rx),
            ("rx_bytes", &self.rx_bytes),
            ("tx", &self.tx),
            ("tx_bytes", &self.tx_bytes),
            ("completed", &self.completed),
            ("filled", &self.filled),
            ("rx_no_frame", &self.rx_no_frame),
            ("rx_ring_full", &self.rx_ring_full),
            ("rx_dropped", &self.rx_dropped),
            ("rx_too_long", &self.rx_too_long),
            ("rx_kernel", &self.rx_kernel),
            ("rx_snapped", &self.rx_snapped),
            ("rx_other_link", &self.rx_other_link),
            ("csum_completed", &self.csum_completed),
            ("gso_cut", &self.gso_cut),
            ("gso_kept", &self.gso_kept),
            ("cut_without_size", &self.cut_without_size),
            ("udp_without_size", &self.udp_without_size),
            ("wrong_memory", &self.wrong_memory),
            ("bad_descriptor", &self.bad_descriptor),
            ("tx_invalid", &self.tx_invalid),
            ("tx_too_long", &self.tx_too_long),
            ("tx_lost", &self.tx_lost),
            ("tx_left_unread", &self.tx_left_unread),
            ("tx_stranded", &self.tx_stranded),
            ("kicks", &self.kicks),
            ("copied", &self.copied),
        ]
    }

    /// Frames that reached the device and not the caller, for any cause.
    pub fn rx_drops(&self) -> u64 {
        self.rx_no_frame.get()
            + self.rx_ring_full.get()
            + self.rx_dropped.get()
            + self.rx_too_long.get()
            + self.udp_without_size.get()
    }
}
