//! A port whose kernel wrote an index that no ring can have.

use crate::health::says;
use crate::netns::{in_namespace, veth};
use crate::{bench, small};
use netmem::pool::Batch;
use netmem::port::xdp::XdpQueues;
use netmem::port::{Port, PortState, Rx};
use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;

/// Returns the address of the RX ring of each socket of this process, by /proc/self/maps. The ring's producer index is its
/// first word.
fn rx_rings() -> Vec<u64> {
    let maps = read_to_string("/proc/self/maps").unwrap();
    let rings = maps.lines().filter(|line| line.contains("socket:[") && line.contains(" 00000000 "));
    rings.map(|line| u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()).collect()
}

/// Seen: a port of several queues, of which one had failed for good, never said so. Its user waited for it to come up.
#[test]
fn a_port_of_several_queues_has_failed_as_soon_as_one_of_them_has() {
    in_namespace("failed::a_port_of_several_queues_has_failed_as_soon_as_one_of_them_has", || {
        veth("a0", "a1", 2);
        for broken in [0, 1] {
            let mut here = bench(256);
            let mut port =
                XdpQueues::open(&here.umem, &mut here.w, &here.pool, "a0", &[0, 1], &small()).unwrap();
            assert!(port.state() == PortState::Up && !port.is_failed());
            let index = rx_rings()[broken];
            let memory = File::options().write(true).open("/proc/self/mem").unwrap();
            memory.write_all_at(&0x7fff_ffff_u32.to_ne_bytes(), index).unwrap();
            assert_eq!(port.rx(&mut here.w, &mut Batch::new()), 0);
            assert!(says(&port).contains("RX"), "{}", says(&port));
            let failed = port.queues().iter().filter(|queue| queue.is_failed()).count();
            assert!(failed == 1 && port.is_failed());
            drop(port);
            assert!(here.pool.ledger().all_freed(), "{:?}", here.pool.ledger());
        }
    });
}
