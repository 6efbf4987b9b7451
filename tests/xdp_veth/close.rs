//! What happens to the frames of a port that is closed.

use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{Bench, bench, ethernet, small};
use netmem::page::Watermarks;
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::xdp::XdpPort;
use netmem::port::{Fill, Port, PortState, Tx, Wake};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn frames_in_all_four_rings_return_to_their_pool_when_the_port_is_closed() {
    in_namespace("close::frames_in_all_four_rings_return_to_their_pool_when_the_port_is_closed", || {
        for down in [false, true] {
            veth("a0", "a1", 1);
            let mut here = bench(256);
            let mut port = here.open("a0").unwrap();
            let Bench { mut w, pool, .. } = here;
            let wire = Wire::open("a1");
            for n in 0..8 {
                wire.send(&ethernet(n));
            }
            // Some sent and not fetched from COMPLETION, some not even sent.
            for _ in 0..2 {
                let mut frames = Batch::new();
                for n in 0..8 {
                    let mut frame = pool.alloc(&mut w).unwrap();
                    frame.put(60).unwrap();
                    frame.data_mut().copy_from_slice(&ethernet(n));
                    frames.push(frame).unwrap();
                }
                assert_eq!(port.tx(&mut w, &mut frames), 8);
                if port.tx_posted() == 8 {
                    port.kick();
                }
            }
            if down {
                ip("link set dev a0 down");
            }
            let ledger = pool.ledger();
            assert!(ledger.balanced() && ledger.posted == 64 + 16, "{ledger:?}");
            let closed = port.close();
            assert_eq!((closed.freed, closed.stranded), (64 + 16, 0));
            assert_eq!(port.close().freed, 0);
            assert_eq!(port.state(), PortState::Down("closed".into()));
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
            ip("link del dev a0");
        }
    });
}

/// Found in a review: frames behind the one whose free ran the caller's code stayed posted, and frames that the kernel
/// could still send were free.
#[test]
fn a_close_in_which_the_callers_code_panics_frees_all_frames_that_are_ours() {
    in_namespace("close::a_close_in_which_the_callers_code_panics_frees_all_frames_that_are_ours", || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let only = PoolConfig { frames: 1, ..PoolConfig::default() };
        let closing = Pool::new(&here.memory, &mut here.w, &only).unwrap();
        let mut port = XdpPort::open(&here.umem, &mut here.w, &closing, "a0", 0, &small()).unwrap();
        let mut frames = Batch::new();
        closing.alloc_burst(&mut here.w, &mut frames, 1);
        here.pool.alloc_burst(&mut here.w, &mut frames, 40);
        assert_eq!(port.fill(&mut here.w, &mut frames), 41);
        here.pool.alloc_burst(&mut here.w, &mut frames, 8);
        frames.iter_mut().for_each(|frame| drop(frame.put(60)));
        assert_eq!(port.tx(&mut here.w, &mut frames), 8);
        assert_eq!((closing.ledger().posted, here.pool.ledger().posted), (1, 48));
        closing.close();
        // The end of pressure, which the closed pool's last frame brings about, runs a callback.
        let mark = here.memory.stats().free as usize + 1;
        here.memory.set_watermarks(Watermarks { min: 0, low: mark, high: mark }).unwrap();
        here.memory.on_pressure(|_, pressure| assert!(pressure.begins, "pressure ends"));
        assert!(catch_unwind(AssertUnwindSafe(|| port.close())).is_err());
        assert_eq!((port.close().freed, port.state()), (0, PortState::Down("closed".into())));
        assert_eq!(port.counters().completed.get(), 8);
        drop(port);
        assert!(here.pool.ledger().all_freed(), "{:?}", here.pool.ledger());
    });
}
