//! Mirrors of a forwarder between two interfaces.

use super::*;
use netmem::forward::mirror::mirror;
use netmem::forward::{CrossConnect, Forwarder};

/// Seen: every mirrored frame was empty, since the kernel gives back only the address of a sent frame. An answer came
/// before its packet.
#[test]
fn a_mirror_gets_whole_frames_in_order_of_both_directions() {
    in_namespace("mirror::a_mirror_gets_whole_frames_in_order_of_both_directions", || {
        veth("a0", "a1", 1);
        veth("b0", "b1", 1);
        let mut here = bench(512);
        let (a, b) = (here.open("a0").unwrap(), here.open("b0").unwrap());
        let wires = [Wire::open("a1"), Wire::open("b1")];
        let ports: Vec<Box<dyn Port>> = vec![Box::new(a), Box::new(b)];
        let mut forwarder = Forwarder::new(ports, here.pool.clone(), Box::new(CrossConnect)).unwrap();
        let (mirror, mut reader) = mirror(64);
        forwarder.add_mirror(mirror);
        let mut mirrored = Vec::new();
        for n in 0..40u8 {
            let (from, to) = (usize::from(n % 2), usize::from(1 - n % 2));
            wires[from].send(&ethernet(n));
            wait_for("the frame to be transmitted", || {
                forwarder.poll(&mut here.w);
                (forwarder.meters().transmitted.get() > u64::from(n)).then_some(())
            });
            assert_eq!(wires[to].receive(), ethernet(n));
        }
        wait_for("every frame", || {
            forwarder.poll(&mut here.w);
            reader.read(64, |claim| mirrored.push(claim.data().to_vec()));
            (mirrored.len() == 40).then_some(())
        });
        assert_eq!(mirrored, (0..40).map(ethernet).collect::<Vec<_>>());
        drop((forwarder, reader));
        assert!(here.pool.ledger().all_freed());
    });
}
