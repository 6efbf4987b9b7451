//! Ports and numbers that are refused, and a port whose numbers are not trusted.

#![allow(clippy::unwrap_used)]

use netmem::limits::BATCH_MAX;
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::wrap::WrapPort;
use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig, Worker};
use netmem_tokio::AsyncPort;
use std::io;
use tokio::runtime::Builder;

/// A port that takes the frames of no pool, or reports a full batch of completed frames each time.
struct Odd {
    within: MemPort,
    takes: bool,
}

impl WrapPort for Odd {
    fn within(&self) -> &dyn Port {
        &self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut self.within
    }

    fn takes_frames_of(&self, _: &Pool) -> bool {
        self.takes
    }

    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.within_mut().complete(w, frames);
        BATCH_MAX
    }
}

fn opened(takes: bool) -> io::Result<(AsyncPort, MemDevice)> {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let (within, device) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 1 }).unwrap();
    AsyncPort::new(Box::new(Odd { within, takes }), w, pool).map(|port| (port, device))
}

fn with_runtime(run: impl AsyncFnOnce()) {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(run());
}

/// Seen: the pool of an async port lay in another memory than its port. The port was up and never received a frame.
#[test]
fn a_pool_that_the_port_cannot_receive_into_is_refused() {
    with_runtime(async || {
        let error = opened(false).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let line = error.to_string();
        assert!(line.contains("mem:0") && line.contains("the port was opened with"), "{line}");
    });
}

/// Seen: a port reported more completed frames than it gave back. The task never returned.
#[test]
fn a_port_that_reports_more_completed_frames_than_it_gives_back_does_not_keep_the_task() {
    with_runtime(async || {
        let (mut port, mut device) = opened(true).unwrap();
        let mut frames = Batch::new();
        assert_eq!(port.transmit_now(&mut frames), 0);
        assert_eq!(device.deliver(1, |_| 60), 1);
        assert_eq!(port.receive(&mut frames).await, 1);
    });
}

/// Seen: more than tokio's own limit panicked with a text of tokio's, about permits.
#[test]
fn queues_of_any_depth_but_0_are_made() {
    with_runtime(async || drop(opened(true).unwrap().0.share(usize::MAX)));
}
