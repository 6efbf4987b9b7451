//! The definition of one variant: the receiving worker, the forwarding worker, and the amount of work.

use netmem::limits::{CACHE_LINE, CHUNK_SIZE};
use netmem::steer::RecordedQueue;

use super::turn::PACKET;
use crate::json::params;
use crate::method::round::Label;

/// The distribution of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One worker receives, forwards and transmits. The other core is idle.
    One,
    /// One worker receives, and steers by this policy to two.
    Handed(&'static str),
    /// Two workers, each with receive queues of its own, as with RSS in hardware.
    Queues,
}

/// The program of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The experiment's own loop over the product's stages.
    Loop,
    /// The product's forwarder, which routes frames.
    Frames,
    /// The product's forwarder, which routes packets with heads and matches them with filter rules.
    Packets,
}

/// All packets of the first worker go to the second.
pub(super) const ALL_HANDED: Way = Way::Handed("map=rx0:1,rx1:1,rx2:1,rx3:1");

/// Frames in addition to those posted and in flight: two full caches.
const SPARE: usize = 1024;

/// Slots in the rings of ports that receive nothing.
pub(super) const FEW: usize = 64;

/// One variant.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) variant: String,
    pub(super) way: Way,
    /// Receiving ports of each worker that receives.
    pub(super) ports: usize,
    /// Lines of a packet that the first worker reads before it hands the packet over.
    pub(super) lines: usize,
    /// Number of sums of its 512 bytes that are computed for each packet: none is light work, and one reads it
    /// once.
    pub(super) sums: u64,
    /// Packets that a port receives at once.
    pub(super) burst: usize,
    /// Maximum number of packets in flight between two workers.
    pub(super) inbox: u32,
    pub(super) record: RecordedQueue,
    /// Slots in the rings of one receiving port of each worker, together. Their frames are used in turn, so this is the
    /// working set. Two workers that receive have half of it each.
    pub(super) ring: usize,
    /// Percent of a worker's time that other work on its core takes, in each round in which packets moved.
    pub(super) pressure: u64,
    pub(super) by: By,
    /// True if each flow is consumed by one of two workers, every second flow by the second. A packet that comes to
    /// the other worker is handed over once more.
    pub(super) consumed: bool,
    /// True if the worker that receives hashes each packet, as a policy by hash or by flow does, and does nothing with
    /// the hash.
    pub(super) hashed: bool,
    /// True if a forwarder reads every line of a packet before it routes it.
    pub(super) reads: bool,
    /// Bytes of a forwarder's packets.
    pub(super) bytes: usize,
    /// Percent of all packets that come to the first of two queues. None: as many as its worker takes.
    pub(super) skew: Option<u64>,
}

impl Plan {
    /// Light work, one port, nothing read in advance, bursts of 32, no other work on the cores.
    pub(super) fn new(variant: &str, way: Way) -> Plan {
        Plan {
            variant: format!("netmem/{variant}"),
            way,
            ports: 1,
            lines: 0,
            sums: 0,
            burst: 32,
            inbox: 512,
            record: RecordedQueue::Worker,
            ring: 2048,
            pressure: 0,
            by: By::Loop,
            consumed: false,
            hashed: false,
            reads: false,
            bytes: PACKET,
            skew: None,
        }
    }

    /// Returns the slots in the ring of each receiving port.
    pub(super) fn ring_of_port(&self) -> usize {
        match self.way {
            Way::Queues => self.ring / 2,
            Way::One | Way::Handed(_) => self.ring,
        }
    }

    /// Returns the frames of one receiving worker's pool: those posted, those in flight, and some spare ones. A
    /// forwarder gives each of its ports an equal share, including the port by which packets leave.
    pub(super) fn frames(&self) -> usize {
        let ports = self.ports + usize::from(self.by != By::Loop);
        ports * self.ring_of_port() + self.inbox as usize + SPARE
    }

    /// Returns the frames of a worker that receives nothing: a forwarder's ports need some.
    pub(super) fn few_frames(&self) -> usize {
        (self.ports + 1) * FEW + SPARE
    }

    /// Returns the bytes of all pools.
    pub(super) fn bytes(&self) -> usize {
        let frames = match self.way {
            Way::Queues => 2 * self.frames(),
            Way::One | Way::Handed(_) => self.frames() + self.few_frames(),
        };
        frames * CHUNK_SIZE
    }

    /// Returns a port's variants with one worker, all handed over, and two queues, with their differences.
    pub(super) fn three_ways(name: &str, of: impl Fn(Plan) -> Plan) -> Vec<Plan> {
        [("one", Way::One), ("handed", ALL_HANDED), ("queues", Way::Queues)]
            .map(|(way, by)| of(Plan::new(&format!("{name}-{way}"), by)))
            .into()
    }

    /// Returns true if every packet of a flow must leave in order.
    pub(super) fn keeps_order(&self) -> bool {
        self.way != Way::Handed("round-robin")
    }

    /// Returns true if the worker that receives reads the header of each packet and hashes it. In two workers with queues of
    /// their own, the card would.
    fn hashes(&self) -> bool {
        self.hashed || matches!(self.way, Way::Handed("hash" | "flow"))
    }

    /// Returns the amount of work for a packet.
    pub(super) fn load(&self) -> &'static str {
        match (self.by, self.sums) {
            (By::Packets, _) => "packets",
            (By::Frames, _) if self.reads => "routed and read",
            (By::Frames, _) => "routed",
            (By::Loop, 0) => "light",
            (By::Loop, 1) => "read",
            (By::Loop, _) => "heavy",
        }
    }

    /// Returns the bytes that are read or written before they come up again, by all workers together: of each frame that is
    /// used in turn the headers' line, or the whole packet. This is the working set that caches see.
    pub(super) fn touched(&self) -> usize {
        let of_a_frame = if self.sums == 0 && !self.reads { CACHE_LINE } else { self.bytes };
        self.ports * self.ring * of_a_frame
    }

    pub(super) fn label(&self) -> Label {
        let (workers, policy) = match self.way {
            Way::One => (1, "none"),
            Way::Handed(policy) => (2, policy.split('=').next().unwrap_or(policy)),
            Way::Queues => (2, "none"),
        };
        let mut params = params([
            ("work", "forward".into()),
            ("burst", self.burst.into()),
            ("cores", if workers == 1 { "same" } else { "cross" }.into()),
            ("bytes", self.bytes.into()),
            ("touch", true.into()),
            ("workers", workers.into()),
            ("policy", policy.into()),
            ("ports", self.ports.into()),
            ("lines_before", self.lines.into()),
            ("load", self.load().into()),
            ("inbox", self.inbox.into()),
            ("recorded", if self.record == RecordedQueue::Received { "first" } else { "second" }.into()),
            ("frames_bytes", (self.ports * self.ring * CHUNK_SIZE).into()),
            ("touched", self.touched().into()),
        ]);
        if self.hashes() {
            params.insert("hash".to_owned(), "of each packet, by software".into());
        }
        if self.consumed {
            params.insert("consumed".to_owned(), "by flow".into());
        }
        if let Some(percent) = self.skew {
            params.insert("first_queue_percent".to_owned(), percent.into());
        }
        if self.pressure > 0 {
            params.insert("pressure".to_owned(), self.pressure.into());
        }
        Label { variant: self.variant.clone(), params }
    }
}
