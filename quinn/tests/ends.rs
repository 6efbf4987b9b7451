//! Tests of the end of a socket: its port is down for good, or its endpoint has finished.

#![allow(clippy::unwrap_used)]

use netmem::port::mem::{MemConfig, MemPort};
use netmem::port::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake};
use netmem::stats::Writer;
use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig, Worker};
use netmem_quinn::PortSocket;
use netmem_tokio::{AsyncPort, close_pool};
use quinn::{Endpoint, EndpointConfig, TokioRuntime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::timeout;

/// Only guards against hangs: the machine may be stopped for a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port without packets, which is down for good when this is true.
#[derive(Default)]
struct Failing(Arc<AtomicBool>, Writer<PortCounters>);

impl Fill for Failing {
    fn fill_room(&mut self) -> usize {
        0
    }
    fn fill(&mut self, _w: &mut Worker, _frames: &mut Batch) -> usize {
        0
    }
    fn rx_posted(&self) -> usize {
        0
    }
}

impl Rx for Failing {
    fn rx(&mut self, _w: &mut Worker, _frames: &mut Batch) -> usize {
        0
    }
}

impl Tx for Failing {
    fn tx(&mut self, _w: &mut Worker, _frames: &mut Batch) -> usize {
        0
    }
    fn tx_posted(&self) -> usize {
        0
    }
}

impl Complete for Failing {
    fn complete(&mut self, _w: &mut Worker, _frames: &mut Batch) -> usize {
        0
    }
}

impl Wake for Failing {
    fn kick(&mut self) {}
}

impl Port for Failing {
    fn name(&self) -> &str {
        "failing"
    }
    fn kind(&self) -> &'static str {
        "failing"
    }
    fn state(&self) -> PortState {
        if self.is_failed() { PortState::Down("its card burns".into()) } else { PortState::Up }
    }
    fn is_failed(&self) -> bool {
        self.0.load(SeqCst)
    }
    fn complaint(&self) -> Option<String> {
        (!self.is_failed()).then(|| "its card is hot".into())
    }
    fn counters(&self) -> Arc<PortCounters> {
        self.1.add(|counters| &counters.rx_dropped, 1);
        self.1.reader()
    }
}

fn socket(port: impl Port + 'static) -> (Arc<PortSocket>, Pool) {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut worker = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let port = AsyncPort::new(Box::new(port), worker, pool.clone()).unwrap();
    (Arc::new(PortSocket::new(port, "192.0.2.1:443".parse().unwrap()).unwrap()), pool)
}

fn endpoint(socket: &Arc<PortSocket>) -> Endpoint {
    let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    Endpoint::new_with_abstract_socket(config, None, socket.clone(), runtime).unwrap()
}

/// Seen: the port of an endpoint was down for good. The endpoint waited for it forever, and nothing said so: the socket
/// owned the port.
#[tokio::test]
async fn an_endpoint_ends_when_its_port_is_down_for_good_and_its_socket_says_why() {
    let port = Failing::default();
    let failed = port.0.clone();
    let (socket, _pool) = socket(port);
    let endpoint = endpoint(&socket);
    let accepts = tokio::spawn(async move { endpoint.accept().await.is_none() });
    tokio::task::yield_now().await;
    assert!(socket.state() == PortState::Up && !socket.is_failed() && !accepts.is_finished());
    assert_eq!(socket.complaint().as_deref(), Some("its card is hot"));
    failed.store(true, SeqCst);
    assert!(timeout(PATIENCE, accepts).await.expect("it ends").unwrap());
    assert!(socket.is_failed());
    assert_eq!(socket.state().to_string(), "down: its card burns");
}

/// Seen: while an endpoint had the socket, no task could read the counters that the device keeps.
#[tokio::test]
async fn the_counters_of_a_ports_device_are_read_while_an_endpoint_has_it() {
    let (socket, _pool) = socket(Failing::default());
    let _endpoint = endpoint(&socket);
    let before = socket.port_counters().rx_dropped.get();
    assert_eq!(socket.port_counters().rx_dropped.get(), before + 1);
}

#[tokio::test]
async fn a_socket_closes_its_port_when_its_endpoint_has_gone_and_not_before() {
    let (port, device) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 1 }).unwrap();
    let (socket, pool) = socket(port);
    let endpoint = endpoint(&socket);
    assert!(!socket.clone().close(Duration::from_millis(5)).await, "the endpoint has it");
    endpoint.close(0_u32.into(), b"");
    timeout(PATIENCE, endpoint.wait_idle()).await.expect("no connection is left");
    drop(endpoint);
    assert!(timeout(PATIENCE, socket.close(PATIENCE)).await.expect("it closes"));
    drop(device);
    timeout(PATIENCE, close_pool(&pool)).await.expect("all frames are freed");
}

/// Found in a review: it panicked, since no clock goes so far.
#[tokio::test]
async fn a_socket_that_may_close_as_long_as_it_takes_closes() {
    let (port, _device) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 1 }).unwrap();
    let (socket, _pool) = socket(port);
    assert!(timeout(PATIENCE, socket.close(Duration::MAX)).await.expect("it closes"));
}
