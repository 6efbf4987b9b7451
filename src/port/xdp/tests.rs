//! Tests of the four queues against a kernel that the test plays over plain memory, honest and hostile.

#[cfg(not(loom))]
mod ledger;
mod refusals;

use super::gather::Limits;
use super::rx::Next;
use super::*;
use crate::limits::CHUNK_SIZE;
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, Frame, FrameState, Pool, PoolConfig};
use crate::ring::cursor::{Consumer, Producer};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use crate::sys::xdp::{Entry, Ring, SharedIndex};
use crate::wire::offload::{Offload, complete_checksum};
use crate::wire::segment::Segments;
use crate::wire::{Ipv4, ipv4, udp};

/// Frames may have any length.
const ANY: Option<Limits> = None;
/// A link with an MTU of 1,500.
const LINK: Option<Limits> = Some(Limits { mtu: 1500, cut_mtu: 1500 });
/// Bytes of its longest frame.
const LONGEST: usize = 1514;

pub(super) struct Bench {
    pub(super) memory: Memory,
    pub(super) w: Worker,
    pub(super) pool: Pool,
}

pub(super) fn bench(frames: usize) -> Bench {
    let config = MemoryConfig {
        bytes: 2 << 20,
        workers: 1,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    Bench { memory, w, pool }
}

/// The kernel's end of a ring that it fills.
struct KernelProduces<T> {
    ring: Ring<T>,
    producer: Producer<SharedIndex>,
}

impl<T: Entry> KernelProduces<T> {
    fn of(ours: &Ring<T>) -> Self {
        let ring = ours.other_end();
        KernelProduces { producer: Producer::new(ring.producer(), ring.consumer(), ring.size()), ring }
    }

    fn give(&mut self, entry: T) {
        assert_eq!(self.producer.room(1), Ok(1));
        self.ring.write(self.producer.slot(0), entry);
        self.producer.publish(1);
    }
}

/// Takes everything out of a ring that the kernel empties.
fn kernel_takes<T: Entry>(ring: &Ring<T>) -> Vec<T> {
    let mut consumer = Consumer::new(ring.consumer(), ring.producer(), ring.size());
    let n = consumer.ready(ring.size()).unwrap();
    let taken = (0..n).map(|i| ring.read(consumer.slot(i))).collect();
    consumer.release(n);
    taken
}

fn packet(addr: u64, len: u32) -> Descriptor {
    Descriptor { addr, len, options: 0 }
}

#[test]
fn a_frame_goes_through_fill_and_rx_and_is_rebased() {
    let Bench { memory, mut w, pool } = bench(64);
    let (fill_ring, rx_ring) = (Ring::plain(8), Ring::plain(8));
    let (kernel_fill, mut kernel_rx) = (fill_ring.other_end(), KernelProduces::of(&rx_ring));
    let (mut fill, mut rx) = (FillQueue::new(fill_ring), RxQueue::new(rx_ring));
    let mut filled = Held::new(memory.region(), CHUNK_SIZE);
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 10);
    let ids: Vec<_> = frames.iter().map(Frame::id).collect();

    assert_eq!(fill.burst(&w, &mut filled, &mut frames), Ok(8));
    assert_eq!((frames.len(), fill.room(), pool.ledger().posted), (2, Ok(0), 8));
    let chunks: Vec<u64> = kernel_takes(&kernel_fill);
    assert!(chunks.iter().all(|addr| addr % 2048 == 0), "whole chunks, whatever the colour was: {chunks:?}");
    assert_eq!(fill.room(), Ok(8));

    kernel_rx.give(packet(chunks[3] + 256, 60));
    let mut received = Batch::new();
    assert_eq!(rx.burst(&mut filled, &mut received, ANY), Ok(Next::Any));
    assert_eq!((received[0].id(), received[0].headroom(), received[0].len()), (ids[3], 256, 60));
    FrameState::Posted.fetch(Some(&w), &received);
    FrameState::Posted.fetch(None, &std::iter::from_fn(|| filled.claim_any()).collect::<Vec<_>>());
    drop((frames, received));
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn a_frame_goes_out_as_it_lies_and_comes_back_empty() {
    let Bench { memory, mut w, pool } = bench(64);
    let (tx_ring, completion_ring) = (Ring::plain(4), Ring::plain(4));
    let (kernel_tx, mut kernel_completion) = (tx_ring.other_end(), KernelProduces::of(&completion_ring));
    let (mut tx, mut complete) = (TxQueue::new(tx_ring), CompletionQueue::new(completion_ring));
    let mut sent = Held::new(memory.region(), CHUNK_SIZE);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put(100).unwrap();
    let (id, off) = (frame.id(), frame.headroom() as u64);
    let mut frames = Batch::new();
    frames.push(frame).unwrap();

    assert_eq!(tx.burst(&w, &mut sent, &mut frames), Ok((1, 100)));
    assert_eq!(tx.unsent(), Ok(1));
    let chunk = u64::from(id.get() - memory.region().first_chunk()) * 2048;
    assert_eq!(tx.unsent_addresses(), Ok(vec![chunk + off]));
    assert_eq!(kernel_takes(&kernel_tx), [packet(chunk + off, 100)]);
    assert_eq!((tx.unsent(), tx.unsent_addresses()), (Ok(0), Ok(vec![])));

    assert_eq!(complete.burst(&mut sent, &mut frames), Ok(()));
    assert!(frames.is_empty(), "nothing is completed before the kernel says so");
    kernel_completion.give(chunk + off);
    assert_eq!(complete.burst(&mut sent, &mut frames), Ok(()));
    assert_eq!((frames[0].id(), frames[0].len(), sent.count()), (id, 0, 0));
}

#[test]
fn hostile_descriptors_fault_and_the_frames_before_them_are_good() {
    let hostile = |chunk: u64| {
        [
            packet(chunk + 2 * 2048, 60),
            packet(u64::MAX - 255, 60),
            packet(chunk + 256, 1793),
            Descriptor { addr: chunk + 256, len: 60, options: 2 },
        ]
    };
    for which in 0..4 {
        let Bench { memory, mut w, pool } = bench(64);
        let rx_ring = Ring::plain(8);
        let mut kernel = KernelProduces::of(&rx_ring);
        let mut rx = RxQueue::new(rx_ring);
        let mut filled = Held::new(memory.region(), CHUNK_SIZE);
        let mut batch = Batch::new();
        assert!(pool.alloc_bulk(&mut w, &mut batch, 3));
        let chunks: Vec<u64> = batch.drain().map(|frame| filled.post(frame)).collect();
        let highest = chunks.iter().copied().max().unwrap();
        let good = chunks.iter().copied().min().unwrap();
        let bad = hostile(highest)[which];
        kernel.give(packet(good + 256, 60));
        kernel.give(bad);
        kernel.give(packet(good + 256, 60));
        assert_eq!(rx.burst(&mut filled, &mut batch, ANY), Err(Fault::Descriptor("RX", bad)));
        assert_eq!((batch.len(), filled.count()), (1, 2));
    }
}

#[test]
fn a_completion_of_a_frame_never_sent_faults() {
    let Bench { memory, .. } = bench(8);
    let ring = Ring::plain(4);
    let mut kernel = KernelProduces::of(&ring);
    let (mut complete, mut sent) = (CompletionQueue::new(ring), Held::new(memory.region(), CHUNK_SIZE));
    kernel.give(2048);
    let mut frames = Batch::new();
    assert!(matches!(complete.burst(&mut sent, &mut frames), Err(Fault::Descriptor("COMPLETION", _))));
    assert!(frames.is_empty());
}

/// Returns a packet of as many descriptors as there are `parts`, each full of its number, and the state of its chunks. It
/// came by a ring of 8, or of the next power of two.
fn gathered(
    parts: &[u32],
    spoil: impl Fn(&mut [Descriptor]),
    room: usize,
) -> (Result<Option<usize>, Fault>, Vec<u8>, usize, usize) {
    let slots = parts.len().next_power_of_two().max(8);
    let Bench { memory, mut w, pool } = bench(slots.max(64));
    let rx_ring = Ring::plain(slots as u32);
    let mut kernel = KernelProduces::of(&rx_ring);
    let mut rx = RxQueue::new(rx_ring);
    let mut filled = Held::new(memory.region(), CHUNK_SIZE);
    let mut descriptors = Vec::new();
    for (i, len) in parts.iter().enumerate() {
        let mut frame = pool.alloc(&mut w).unwrap();
        frame.push(frame.headroom()).unwrap();
        frame.put(frame.tailroom()).unwrap();
        frame.data_mut().fill(i as u8);
        let options = if i + 1 < parts.len() { Descriptor::CONTINUED } else { 0 };
        descriptors.push(Descriptor { addr: filled.post(frame) + 256, len: *len, options });
    }
    spoil(&mut descriptors);
    descriptors.into_iter().for_each(|descriptor| kernel.give(descriptor));
    let mut batch = Batch::new();
    assert_eq!(rx.burst(&mut filled, &mut batch, LINK), Ok(Next::Long));
    assert!(batch.is_empty());
    let (mut to, mut spare) = (vec![0xff; room], Vec::new());
    let done = rx.gather(&mut filled, &mut to, (&mut spare, &mut Vec::new()));
    (done, to, spare.len(), filled.count())
}

#[test]
fn a_packet_of_several_chunks_is_put_together_and_its_chunks_stay_held() {
    let (done, to, spare, held) = gathered(&[1792, 1792, 5], |_| (), 4000);
    assert_eq!((done, spare, held), (Ok(Some(3589)), 3, 3));
    assert!(to[..3589] == [vec![0; 1792], vec![1; 1792], vec![2; 5]].concat() && to[3589] == 0xff);
    let (done, to, spare, held) = gathered(&[1792, 1792, 5], |_| (), 1800);
    assert_eq!((done, spare, held), (Ok(Some(3589)), 3, 3));
    assert!(to[1792..] == [0xff; 8], "the second part has no room, and is not cut");
}

/// Seen: one packet of a host with BIG TCP took the port down, because it came in more descriptors than a batch has frames.
#[test]
fn a_packet_of_more_chunks_than_a_batch_has_frames_gives_all_of_them_back() {
    let (done, to, spare, held) = gathered(&[1792; 105], |_| (), 4000);
    assert_eq!((done, spare, held), (Ok(Some(105 * 1792)), 105, 105));
    assert!(to[3584..] == [0xff; 416], "what has no room is not written");
    let twice = |descriptors: &mut [Descriptor]| descriptors[104].addr = descriptors[0].addr;
    let (done, _, spare, held) = gathered(&[1792; 105], twice, 4000);
    assert!(matches!(done, Err(Fault::Descriptor("RX", _))));
    assert_eq!((spare, held), (0, 105));
}

/// Seen: a host's packet of two segments that fits into one chunk was dropped as longer than the link, and its TCP waited
/// for a timeout.
#[test]
fn a_packet_that_is_longer_than_its_link_s_is_a_long_one_in_one_chunk_too() {
    let (done, to, spare, held) = gathered(&[1515], |_| (), 4000);
    assert_eq!((done, spare, held), (Ok(Some(1515)), 1, 1));
    assert!(to[..1515] == [0; 1515] && to[1515] == 0xff);
}

#[test]
fn a_tag_does_not_make_a_frame_longer_than_its_link_s() {
    let Bench { memory, mut w, pool } = bench(64);
    for (ethertypes, len, is_long) in [
        (&[0x0800][..], LONGEST, false),
        (&[0x0800], LONGEST + 1, true),
        (&[0x8100], LONGEST + 4, false),
        (&[0x8100], LONGEST + 5, true),
        (&[0x88a8, 0x8100], LONGEST + 8, false),
        (&[0x88a8, 0x8100], LONGEST + 9, true),
    ] {
        let rx_ring = Ring::plain(8);
        let mut kernel = KernelProduces::of(&rx_ring);
        let mut rx = RxQueue::new(rx_ring);
        let mut filled = Held::new(memory.region(), CHUNK_SIZE);
        let mut frame = pool.alloc(&mut w).unwrap();
        frame.push(frame.headroom()).unwrap();
        frame.put(frame.tailroom()).unwrap();
        for (i, ethertype) in ethertypes.iter().enumerate() {
            let at = 256 + 12 + 4 * i;
            frame.data_mut()[at..at + 2].copy_from_slice(&u16::to_be_bytes(*ethertype));
        }
        kernel.give(packet(filled.post(frame) + 256, len as u32));
        let mut batch = Batch::new();
        let next = if is_long { Next::Long } else { Next::Any };
        assert_eq!(rx.burst(&mut filled, &mut batch, LINK), Ok(next), "{ethertypes:x?} {len}");
        assert_eq!((batch.len(), filled.count()), (usize::from(!is_long), usize::from(is_long)));
    }
}

/// Returns an IPv4 packet of this protocol and total length behind its link header. Its checksum is the pseudo-header's
/// sum, as a host leaves it to a card, if it `is_open`.
fn from_host(protocol: u8, total: u16, is_open: bool) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(Ipv4::new(src, dst, protocol, 64, total - 20).to_bytes());
    frame.resize(14 + usize::from(total), 0);
    frame[34 + 12] = 5 << 4;
    let sum = udp::pseudo_header(src, dst, total - 20).fold() - u16::from(ipv4::UDP) + u16::from(protocol);
    let at = 34 + if protocol == ipv4::TCP { 16 } else { 6 };
    frame[at..at + 2].copy_from_slice(&(sum - u16::from(!is_open)).to_be_bytes());
    frame
}

/// Seen: TCP of a host whose packets of several segments fit the link's MTU, but not the next link's, was dropped by
/// the router as too long for that.
#[test]
fn what_a_host_left_to_a_card_is_cut_if_it_may_not_leave_and_what_came_from_a_wire_is_not() {
    let limits = Limits { mtu: 1500, cut_mtu: 1400 };
    let Bench { memory, mut w, pool } = bench(64);
    for (protocol, total, is_open, segments, is_long) in [
        (ipv4::TCP, 1400, true, 1, false),
        (ipv4::TCP, 1401, true, 2, true),
        (ipv4::TCP, 1500, true, 2, true),
        (ipv4::TCP, 1500, false, 1, false),
        (ipv4::UDP, 1500, true, 1, false),
        (ipv4::TCP, 1501, false, 2, true),
        (ipv4::TCP, 1505, false, 2, true),
        (ipv4::UDP, 1504, true, 1, true),
        (ipv4::UDP, 1505, true, 0, true),
    ] {
        let frame = from_host(protocol, total, is_open);
        let cut = limits.cut(&frame);
        let count = |cut: Offload| Segments::of(&frame, &cut).map_or(1, |segments| segments.count());
        assert_eq!(cut.map_or(0, count), segments, "{protocol} {total} {is_open}");
        let rx_ring = Ring::plain(8);
        let mut kernel = KernelProduces::of(&rx_ring);
        let (mut rx, mut filled) = (RxQueue::new(rx_ring), Held::new(memory.region(), CHUNK_SIZE));
        let mut posted = pool.alloc(&mut w).unwrap();
        posted.push(posted.headroom()).unwrap();
        posted.put(posted.tailroom()).unwrap();
        posted.data_mut()[256..][..frame.len()].copy_from_slice(&frame);
        kernel.give(packet(filled.post(posted) + 256, frame.len() as u32));
        let next = if is_long { Next::Long } else { Next::Any };
        assert_eq!(
            rx.burst(&mut filled, &mut Batch::new(), Some(limits)),
            Ok(next),
            "{protocol} {total} {is_open}"
        );
    }
}

/// Seen: behind a bridge with a smaller MTU than its hosts, and for a second after an MTU was raised, ping and single
/// datagrams were dropped as packets of several.
#[test]
fn a_packet_longer_than_the_mtu_that_can_only_be_one_passes_whole() {
    let limits = Limits { mtu: 1400, cut_mtu: 1400 };
    let [icmp, ipip, gre, esp, sctp] = [1, 4, 47, 50, 132];
    let correct = || {
        let mut frame = from_host(ipv4::UDP, 1600, true);
        assert!(complete_checksum(&mut frame));
        frame
    };
    let changed = |mut frame: Vec<u8>, at: usize, bytes: [u8; 2]| {
        frame[at..at + 2].copy_from_slice(&bytes);
        frame
    };
    let fragment = |protocol| {
        let mut frame = from_host(protocol, 1600, true);
        frame[20] = 0x20;
        Ipv4::seal(&mut frame[14..]);
        frame
    };
    let whole = Some(Offload::default());
    for (frame, expected) in [
        (from_host(ipv4::UDP, 1440, true), whole),
        (from_host(ipv4::UDP, 1504, true), whole),
        (from_host(ipv4::UDP, 1505, true), None),
        (from_host(ipv4::UDP, 1440, false), whole),
        (correct(), whole),
        (changed(correct(), 100, [1, 2]), None),
        (changed(correct(), 40, [0, 0]), None),
        (fragment(ipv4::UDP), whole),
        (fragment(ipv4::TCP), whole),
        (from_host(icmp, 1440, true), whole),
        (from_host(icmp, 9000, true), whole),
        (from_host(esp, 9000, true), whole),
        (changed(from_host(icmp, 9000, true), 12, [0x88, 0x47]), whole),
        (from_host(ipip, 1504, true), whole),
        (from_host(ipip, 1505, true), None),
        (from_host(gre, 1505, true), None),
        (from_host(sctp, 1505, true), None),
    ] {
        assert_eq!(limits.cut(&frame), expected, "{} bytes: {:x?}", frame.len(), &frame[..42]);
    }
}

#[test]
fn a_packet_whose_end_has_not_come_is_waited_for_until_the_ring_is_full_of_it() {
    let endless = |descriptors: &mut [Descriptor]| {
        descriptors.iter_mut().for_each(|descriptor| descriptor.options = Descriptor::CONTINUED);
    };
    let (done, _, spare, held) = gathered(&[60; 7], endless, 4000);
    assert_eq!((done, spare, held), (Ok(None), 0, 7));
    let (done, _, spare, held) = gathered(&[60; 8], endless, 4000);
    assert!(matches!(done, Err(Fault::Descriptor("RX", _))));
    assert_eq!((spare, held), (0, 8));
}

#[test]
fn hostile_parts_of_a_packet_fault_and_no_chunk_is_read_twice() {
    for spoil in [
        |descriptors: &mut [Descriptor]| descriptors[1].addr = descriptors[0].addr,
        |descriptors: &mut [Descriptor]| descriptors[1].len = 1793,
        |descriptors: &mut [Descriptor]| descriptors[1].addr = u64::MAX - 255,
        |descriptors: &mut [Descriptor]| descriptors[1].options = 3,
        |descriptors: &mut [Descriptor]| descriptors[2].options = 4,
    ] {
        let (done, _, spare, held) = gathered(&[60; 3], spoil, 4000);
        assert!(matches!(done, Err(Fault::Descriptor("RX", _))), "{done:?}");
        assert_eq!((spare, held), (0, 3));
    }
}

#[test]
fn hostile_indices_fault_in_all_four_rings_and_nothing_is_read() {
    let Bench { memory, mut w, pool } = bench(64);
    let mut held = Held::new(memory.region(), CHUNK_SIZE);
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 16);
    for far in [9u32, 1 << 20, 1 << 31] {
        let ring = Ring::plain(8);
        ring.other_end().producer().store_release(far);
        assert!(matches!(
            RxQueue::new(ring).burst(&mut held, &mut frames, ANY),
            Err(Fault::Corrupt("RX", _))
        ));
        let ring = Ring::plain(8);
        ring.other_end().producer().store_release(far);
        let done = CompletionQueue::new(ring).burst(&mut held, &mut frames);
        assert!(matches!(done, Err(Fault::Corrupt("COMPLETION", _))));
        let ring = Ring::plain(8);
        let kernel = ring.other_end();
        let mut fill = FillQueue::new(ring);
        kernel.consumer().store_release(far);
        assert!(fill.burst(&w, &mut held, &mut frames).is_err());
        let ring = Ring::plain(8);
        let kernel = ring.other_end();
        let mut tx = TxQueue::new(ring);
        kernel.consumer().store_release(far);
        assert!(tx.burst(&w, &mut held, &mut frames).is_err() && tx.unsent_addresses().is_err());
    }
    assert_eq!((frames.len(), held.count()), (16, 0));
}

#[test]
fn a_ring_wraps_and_keeps_every_frame() {
    let Bench { memory, mut w, pool } = bench(64);
    let (fill_ring, rx_ring) = (Ring::plain(4), Ring::plain(4));
    let (kernel_fill, mut kernel_rx) = (fill_ring.other_end(), KernelProduces::of(&rx_ring));
    let (mut fill, mut rx) = (FillQueue::new(fill_ring), RxQueue::new(rx_ring));
    let mut filled = Held::new(memory.region(), CHUNK_SIZE);
    let mut frames = Batch::new();
    for round in 0..1000 {
        pool.alloc_burst(&mut w, &mut frames, 1 + round % 4);
        let n = frames.len();
        assert_eq!(fill.burst(&w, &mut filled, &mut frames), Ok(n));
        for chunk in kernel_takes(&kernel_fill) {
            kernel_rx.give(packet(chunk + 256, 60));
        }
        assert_eq!(rx.burst(&mut filled, &mut frames, ANY), Ok(Next::Any));
        assert_eq!((frames.len(), filled.count()), (n, 0));
        FrameState::Posted.fetch(Some(&w), &frames);
        frames.free(&mut w);
    }
    assert!(pool.ledger().all_freed());
}

#[test]
fn frames_that_do_not_belong_are_set_aside_in_order() {
    let Bench { memory: _memory, mut w, pool } = bench(64);
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 8);
    let ids: Vec<_> = frames.iter().map(Frame::id).collect();
    let keep = |frame: &Frame| ids.iter().position(|id| *id == frame.id()).unwrap() % 3 != 1;
    let aside = set_aside(&mut frames, keep);
    let of = |batch: &Batch| batch.iter().map(Frame::id).collect::<Vec<_>>();
    assert_eq!(of(&aside), [ids[1], ids[4], ids[7]]);
    assert_eq!(of(&frames), [ids[0], ids[2], ids[3], ids[5], ids[6]]);
}
