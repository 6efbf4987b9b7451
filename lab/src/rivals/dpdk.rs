//! DPDK: mempools, mbufs, and rings between one producer and one consumer, or many producers.
//!
//! Its environment is started on first use, on the calling thread. It has no huge pages, devices, files of its own
//! or signal handlers. One thread of its own sleeps forever. Each thread that uses a pool is registered first, so
//! that it has caches, and is unregistered when it ends.

#[cfg(not(dpdk))]
mod absent;
#[cfg(dpdk)]
#[allow(unsafe_code)]
mod shim;

#[cfg(not(dpdk))]
use absent as built;
#[cfg(dpdk)]
use shim as built;

pub use built::{
    Dpdk, Frames, IdReceiving, IdSending, PacketReceiving, PacketSending, Packets, Receiving, Sending,
};

/// The result of one call at one side of a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Items that were passed.
    pub items: u64,
    /// Failed allocations, or items that differ from the sent ones.
    pub wrong: u64,
}

impl Passed {
    /// Returns the result for at most one number, which should be `wanted`.
    #[inline(always)]
    pub fn of(number: Option<u64>, wanted: u64) -> Passed {
        let wrong = number.is_some_and(|number| number != wanted);
        Passed { items: number.is_some().into(), wrong: wrong.into() }
    }
}

/// Items that one call of a ring moves, unless it moves one.
pub const BURST: usize = 32;

#[cfg(all(test, dpdk))]
mod tests {
    use super::*;
    use std::num::NonZeroU32;
    use std::thread;

    #[test]
    fn every_frame_and_packet_comes_back() {
        let dpdk = Dpdk::start().unwrap();
        let mut frames = dpdk.frames(1_023, 2_048, 256).unwrap();
        let mut packets = dpdk.packets(1_023, 2_048, 256).unwrap();
        for burst in [1, 8, 32, 64, 256] {
            for touch in [false, true] {
                assert_eq!(frames.run(burst, touch, 1_024), 0);
            }
            assert_eq!(packets.run(burst, 1_024), 0);
        }
        assert_eq!((frames.out(), packets.out()), (0, 0));
    }

    #[test]
    fn an_allocation_from_an_empty_pool_is_refused_and_kept_frames_count_as_out() {
        let dpdk = Dpdk::start().unwrap();
        let mut frames = dpdk.frames(63, 2_048, 0).unwrap();
        assert_eq!(frames.run(64, false, 640), 640);
        let mut packets = dpdk.packets(63, 2_048, 0).unwrap();
        assert!(packets.hold(7));
        assert_eq!(packets.out(), 7);
        assert_eq!(packets.run(57, 57), 57);
        packets.give_back();
        assert_eq!(packets.out(), 0);
    }

    #[test]
    fn a_mempool_has_the_ops_that_it_is_asked_for_or_there_is_none() {
        let dpdk = Dpdk::start().unwrap();
        let mut objects = dpdk.objects(c"ring_mp_mc", 1_023, 2_048, 0).unwrap();
        assert_eq!((objects.run(32, false, 1_024), objects.out()), (0, 0));
        assert!(dpdk.objects(c"ring_of_nobody", 1_023, 2_048, 0).is_err());
    }

    #[test]
    fn packets_cross_threads_whole_and_in_order() {
        let dpdk = Dpdk::start().unwrap();
        let packets = dpdk.packets(4_095, 2_048, 256).unwrap();
        let (mut sending, mut receiving) = packets.ring(256).unwrap();
        let (mut sent, mut received) = (0, 0);
        while received < 10_000 {
            let there = &mut sending;
            let more = thread::scope(|scope| scope.spawn(|| there.send(sent, 128)).join().unwrap());
            assert_eq!(more.wrong, 0);
            sent += more.items;
            let came = receiving.receive(received, more.items);
            assert_eq!(came, Passed { items: more.items, wrong: 0 });
            received += came.items;
        }
        assert_eq!((sent, packets.out()), (received, 0));
    }

    #[test]
    fn a_number_that_was_not_sent_is_seen() {
        for singly in [false, true] {
            let (mut sending, mut receiving) = Dpdk::start().unwrap().ring(64, singly).unwrap();
            assert_eq!(sending.send(0, 32), Passed { items: 32, wrong: 0 });
            assert_eq!(receiving.receive(1, 32), Passed { items: 32, wrong: 32 });
            assert_eq!(receiving.receive(33, 32).items, 0);
        }
    }

    #[test]
    fn ids_of_two_senders_come_out_in_turn_and_what_has_no_room_stays() {
        for one_receiver in [false, true] {
            let (first, mut receiving) = Dpdk::start().unwrap().ids(8, one_receiver).unwrap();
            let second = first.clone();
            let sent: Vec<NonZeroU32> = (1..=8).filter_map(NonZeroU32::new).collect();
            assert_eq!((first.send(&sent[..4]), second.send(&sent[4..])), (4, 3));
            let mut ids = [0; 4];
            assert_eq!((receiving.receive(&mut ids), ids), (4, [1, 2, 3, 4]));
            assert_eq!((receiving.receive(&mut ids), ids), (3, [5, 6, 7, 4]));
            assert_eq!(receiving.receive(&mut ids), 0);
        }
    }
}
