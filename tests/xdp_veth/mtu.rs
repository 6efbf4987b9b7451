//! Frames that are longer than the interface's MTU allows.

use super::*;

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
