//! Packets that the far end of a veth pair refuses, beside packets that it takes: in network namespaces, as root.

#![allow(clippy::unwrap_used)]

// It uses a part of this.
#[allow(dead_code)]
mod netns;

use netmem::pool::Batch;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::conformance::Fixture;
use netmem::port::{Complete, Port, Tx};
use netns::{Wire, in_namespace, ip, veth};

/// The packets of one burst, in their order: true: longer than the far end takes.
const BURST: [bool; 10] = [true, true, false, false, false, true, false, false, false, false];

/// Seen: 3,000 such packets a second cost a flow beside them more than half of its packets.
#[test]
fn packets_that_the_far_end_refuses_cost_no_packets_of_others() {
    in_namespace("packets_that_the_far_end_refuses_cost_no_packets_of_others", || {
        veth("left", "right", 1);
        ip("link set dev right mtu 1000");
        let mut port = AfPacketPort::open("left", &AfPacketConfig::default()).unwrap();
        let (receiver, mut fixture, mut batch) = (Wire::open("right"), Fixture::new(2048), Batch::new());
        let bursts = 500;
        for number in 0..bursts {
            assert_eq!(fixture.pool.alloc_burst(&mut fixture.w, &mut batch, BURST.len()), BURST.len());
            for (frame, is_bad) in batch.iter_mut().zip(BURST) {
                let data = vec![number as u8; if is_bad { 1200 } else { 400 }];
                frame.put_slice(&[&[0xff; 12][..], &[0x88, 0xb5], &data].concat()).unwrap();
            }
            let before = sent(&port);
            // As a forwarder does: what the port does not take now is dropped.
            port.tx(&mut fixture.w, &mut batch);
            batch.free(&mut fixture.w);
            for _ in before..sent(&port) {
                assert_eq!(receiver.receive()[14], number as u8);
            }
            port.complete(&mut fixture.w, &mut batch);
            batch.free(&mut fixture.w);
        }
        // A kernel that still has one of our packets is waited for, which may cost a burst now and then.
        let good = BURST.iter().filter(|&&is_bad| !is_bad).count() as u64 * bursts;
        assert!(sent(&port) >= good * 9 / 10, "{} of {good} packets were sent", sent(&port));
        assert!(port.counters().tx_lost.get() > bursts, "{:?}", port.counters());
    });
}

/// Returns the number of packets that the kernel took and sent.
fn sent(port: &AfPacketPort) -> u64 {
    let counters = port.counters();
    counters.tx.get() - counters.tx_lost.get()
}
