//! The two ends of a transfer from one core to another: numbers or packets, netmem's or DPDK's.

use netmem::packet::{HeadCache, Packet, Packets};
use netmem::pool::{Batch, Pool};
use netmem::ring::{Receiver, Sender};
use netmem::sync::Worker;

use super::{LINE, STAMP};
use crate::rivals::dpdk::{BURST, PacketReceiving, PacketSending, Passed, Receiving, Sending};
use crate::rivals::libnetmem::crossing::{LaneReceiving, LaneSending};

/// Items that a side passes between two readings of the clock.
pub(super) const PASS: u64 = 256;

/// Looks without success after which a waiting side lets its caller read the clock.
const LOOKS: usize = 1_024;

/// One end of a ring, on one core.
pub(super) trait Side: Send {
    /// Passes bursts, the first item with the number `next`, until [`PASS`] items have passed or [`LOOKS`] looks in a
    /// row found nothing from the other side.
    fn pass(&mut self, next: u64) -> Passed;

    /// Ends the sending of a side that receives and sends. Returns how much it has sent.
    fn stop_sending(&mut self) -> u64 {
        0
    }
}

/// A side that passes one item by each call of the ring.
pub(super) struct Singly<S>(pub(super) S);

/// Calls `step`, which passes a burst, or nothing, with the number of items passed before it.
#[inline(always)]
pub(super) fn pass(next: u64, mut step: impl FnMut(u64) -> Passed) -> Passed {
    let (mut done, mut looks) = (Passed::default(), 0);
    while done.items < PASS && looks < LOOKS {
        let Passed { items, wrong } = step(next + done.items);
        done.items += items;
        done.wrong += wrong;
        looks += usize::from(items == 0);
    }
    done
}

/// Numbers in order.
impl Side for Sender<u64> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| {
            let room = self.room(BURST) == BURST;
            let items = if room { self.send_burst(BURST, &mut (next..next + BURST as u64)) } else { 0 };
            Passed { items: items as u64, wrong: 0 }
        })
    }
}

impl Side for Receiver<u64> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| {
            let (mut wanted, mut wrong) = (next, 0);
            let items = self.recv_burst(BURST, |number| {
                wrong += u64::from(number != wanted);
                wanted += 1;
            });
            Passed { items: items as u64, wrong }
        })
    }
}

impl Side for Singly<Sender<u64>> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| Passed { items: self.0.send(next).is_ok().into(), wrong: 0 })
    }
}

impl Side for Singly<Receiver<u64>> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| Passed::of(self.0.recv(), next))
    }
}

/// Packets that are numbered: allocated, written and sent.
pub(super) struct Giving {
    pub(super) worker: Worker,
    pub(super) pool: Pool,
    pub(super) heads: HeadCache,
    pub(super) packets: Packets,
    pub(super) ring: Sender<Packet>,
}

impl Giving {
    #[inline(always)]
    fn burst(&mut self, next: u64) -> Passed {
        let Self { worker, pool, heads, packets, ring } = self;
        if ring.room(BURST) < BURST {
            return Passed::default();
        }
        let mut frames = Batch::new();
        pool.alloc_burst(worker, &mut frames, BURST);
        let made = heads.attach_burst(worker, &mut frames, packets);
        packets.put_each(LINE, |i, line| {
            line.fill(STAMP);
            line[..8].copy_from_slice(&(next + i as u64).to_ne_bytes());
        });
        let items = packets.send(ring) as u64;
        Passed { items, wrong: (BURST - made) as u64 }
    }
}

impl Side for Giving {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let done = pass(next, |next| self.burst(next));
        self.heads.end_round(&mut self.worker);
        done
    }
}

/// Packets that are numbered: received, read and freed.
pub(super) struct Taking {
    pub(super) worker: Worker,
    pub(super) heads: HeadCache,
    pub(super) packets: Packets,
    pub(super) ring: Receiver<Packet>,
}

impl Taking {
    #[inline(always)]
    fn burst(&mut self, next: u64) -> Passed {
        let Self { worker, heads, packets, ring } = self;
        let items = packets.receive(ring, BURST);
        let wrong =
            |(packet, number): &(&Packet, u64)| packet.data().first_chunk() != Some(&number.to_ne_bytes());
        let wrong = packets.iter().zip(next..).filter(wrong).count() as u64;
        heads.free_bulk(worker, packets);
        Passed { items: items as u64, wrong }
    }
}

impl Side for Taking {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let done = pass(next, |next| self.burst(next));
        self.heads.end_round(&mut self.worker);
        done
    }
}

impl Side for Sending {
    fn pass(&mut self, next: u64) -> Passed {
        self.send(next, PASS)
    }
}

impl Side for Receiving {
    fn pass(&mut self, next: u64) -> Passed {
        self.receive(next, PASS)
    }
}

impl Side for PacketSending {
    fn pass(&mut self, next: u64) -> Passed {
        self.send(next, PASS)
    }
}

impl Side for PacketReceiving {
    fn pass(&mut self, next: u64) -> Passed {
        self.receive(next, PASS)
    }
}

impl Side for LaneSending {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        self.inside(|end| pass(next, |next| end.burst(next, STAMP)))
    }
}

impl Side for LaneReceiving {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        self.inside(|end| pass(next, |next| end.burst(next)))
    }
}
