//! A port in a child of the process that opened it.

use crate::health::says;
use crate::netns::{Wire, in_namespace, veth};
use crate::{bench, ethernet, receive};
use netmem::pool::Batch;
use netmem::port::{Complete, Fill, Port, Rx, Tx, Wake};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work` in a child of this process. Returns its status, as wait(2) gives it.
fn in_child(work: impl FnOnce()) -> libc::c_int {
    // SAFETY: the child has only this thread, and ends without running the parent's exit handlers. This process has no
    // other thread that could hold a lock which the child needs, except for that of the test runner, which sleeps.
    match unsafe { libc::fork() } {
        0 => {
            let done = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: it ends the process, whatever its state.
            unsafe { libc::_exit(libc::c_int::from(done.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is an integer that outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status
        }
    }
}

/// Seen: the child's first poll was its end, by SIGSEGV.
#[test]
fn in_a_child_a_port_is_down_with_the_reason_and_the_parents_goes_on() {
    let test = "forked::in_a_child_a_port_is_down_with_the_reason_and_the_parents_goes_on";
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let mut port = here.open("a0").unwrap();
        let wire = Wire::open("a1");
        let mut frames = Batch::new();
        for n in 1..=2 {
            let status = in_child(|| {
                let mut frames = Batch::new();
                assert_eq!(port.rx(&mut here.w, &mut frames), 0);
                assert!(says(&port).contains("open a port after fork(2)"), "{}", says(&port));
                here.pool.alloc_burst(&mut here.w, &mut frames, 4);
                let mine = frames.len();
                assert!(mine > 0, "the child's copy of the pool works");
                frames.put_each(60, |_, bytes| bytes.fill(1));
                assert_eq!((port.fill(&mut here.w, &mut frames), port.tx(&mut here.w, &mut frames)), (0, 0));
                assert_eq!((port.fill_room(), port.complete(&mut here.w, &mut frames)), (0, 0));
                assert_eq!(frames.len(), mine);
                port.kick();
                assert!(!port.arm());
                port.counters();
                port.close();
                frames.free(&mut here.w);
            });
            assert_eq!(status, 0, "the child's end");
            // Neither the child nor its end took anything from the parent.
            wire.send(&ethernet(n));
            receive(&mut port, &mut here.w, &mut frames, 1);
            assert_eq!(frames[0].data(), ethernet(n));
            frames.free(&mut here.w);
            port.refill(&mut here.w, &here.pool);
        }
        assert_eq!(in_child(|| drop(port)), 0);
    });
}
