//! Frames that are longer than the interface's MTU allows.

use super::*;
use netmem::wire::{Ipv4, ipv4};
use std::thread;

/// Seen: the port posted and completed such a frame, and the kernel dropped it. No counter of the port showed that.
#[test]
fn a_frame_longer_than_the_mtu_is_refused_and_counted_and_sent_when_the_mtu_is_raised() {
    let name = "mtu::a_frame_longer_than_the_mtu_is_refused_and_counted_and_sent_when_the_mtu_is_raised";
    in_namespace(name, || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        let mut port = here.open("a0").unwrap();
        let wire = Wire::open("a1");
        // A tag more than the MTU.
        let packet = |len: usize| [ethernet(1), vec![1; len - 60]].concat();
        let mut batch = Batch::new();
        let put = |here: &mut Bench, batch: &mut Batch, len| {
            let mut frame = here.pool.alloc(&mut here.w).unwrap();
            frame.put_slice(&packet(len)).unwrap();
            batch.push(frame).unwrap();
        };
        [1519, 1518, 1536].into_iter().for_each(|len| put(&mut here, &mut batch, len));
        assert_eq!((port.tx(&mut here.w, &mut batch), batch.len()), (1, 2));
        port.kick();
        assert!(wire.receive() == packet(1518));
        let counters = port.counters();
        let counts = [&counters.tx, &counters.tx_too_long, &counters.tx_invalid].map(|count| count.get());
        assert_eq!(counts, [1, 2, 0]);
        assert!(batch.iter().all(|frame| port.is_too_long(frame)));
        assert_eq!((port.take_unsendable(&mut batch).len(), batch.len()), (2, 0));

        ["a0", "a1"].iter().for_each(|name| drop(ip(&format!("link set dev {name} mtu 1600"))));
        put(&mut here, &mut batch, 1536);
        let end = Instant::now() + PATIENCE;
        while port.tx(&mut here.w, &mut batch) == 0 {
            assert!(Instant::now() < end, "{counters:?}");
        }
        port.kick();
        assert!(wire.receive() == packet(1536));
        drop((port, batch));
        assert!(here.pool.ledger().all_freed());
    });
}

/// Seen: for up to a second after an MTU was raised, longer datagrams were dropped as packets of many segments.
#[test]
fn a_datagram_that_a_raised_mtu_allows_is_received_before_the_next_look_at_the_interface() {
    let name = "mtu::a_datagram_that_a_raised_mtu_allows_is_received_before_the_next_look_at_the_interface";
    in_namespace(name, || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        let mut port = here.open("a0").unwrap();
        port.kick();
        // So far apart are two questions for the MTU.
        thread::sleep(Duration::from_millis(150));
        ["a0", "a1"].iter().for_each(|name| drop(ip(&format!("link set dev {name} mtu 1700"))));
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut packet = ethernet(1);
        packet.truncate(12);
        packet.extend([8, 0]);
        packet.extend(Ipv4::new(src, dst, ipv4::UDP, 64, 1600).to_bytes());
        // Without a checksum, which would prove that it is one datagram.
        packet.extend([0, 7, 0, 9, 0x06, 0x40, 0, 0]);
        packet.resize(14 + 20 + 1600, 7);
        Wire::open("a1").send(&packet);
        let mut batch = Batch::new();
        let counters = port.counters();
        wait_for("the datagram", || {
            port.rx(&mut here.w, &mut batch);
            (batch.len() + counters.udp_without_size.get() as usize > 0).then_some(())
        });
        assert!(batch.iter().any(|frame| frame.data() == packet), "{counters:?}");
        drop((port, batch));
        assert!(here.pool.ledger().all_freed());
    });
}
