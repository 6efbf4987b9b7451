//! Ports and numbers that are refused, and a port whose numbers are not trusted.

#![allow(clippy::unwrap_used)]

use netmem::limits::BATCH_MAX;
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemPort};
use netmem::port::wrap::WrapPort;
use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig, Worker};
use netmem_smoltcp::{DeviceError, PortDevice};

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

fn opened(takes: bool, mtu: usize) -> Result<PortDevice, DeviceError> {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let (within, _) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 1 }).unwrap();
    PortDevice::beside_kernel(Box::new(Odd { within, takes }), w, &pool, mtu)
}

/// Seen: the pool of a device lay in another memory than its port. The port was up and never received a frame.
#[test]
fn a_pool_that_the_port_cannot_receive_into_is_refused() {
    let error = opened(false, 1500).unwrap_err();
    assert_eq!(error, DeviceError::Pool);
    assert!(error.to_string().contains("the port was opened with"), "{error}");
}

/// Seen: with an MTU of 40 bytes, smoltcp panicked at the first poll with a TCP socket.
#[test]
fn an_mtu_that_no_ip_link_has_is_refused() {
    for mtu in [0, 40, 67] {
        let error = opened(true, mtu).unwrap_err();
        assert_eq!(error, DeviceError::ShortMtu { mtu });
        assert!(error.to_string().starts_with(&format!("an MTU of {mtu} bytes: ")), "{error}");
    }
    assert!(opened(true, 68).is_ok());
}

/// Seen: a port reported more completed frames than it gave back. `flush` never returned.
#[test]
fn a_port_that_reports_more_completed_frames_than_it_gives_back_does_not_keep_the_device() {
    opened(true, 1500).unwrap().flush();
}
