//! An AF_XDP port in tokio, between network namespaces: its socket wakes the task, and so does the next one's, after
//! the interface was removed and made again.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use netmem::port::xdp::{Umem, XdpConfig, XdpPort};
use netmem::wire::Datagram;
use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig, Tx, Wake};
use netmem_tokio::{AsyncPort, close_pool};
use std::net::UdpSocket;
use std::time::Duration;
use testbed::{Testbed, Wiring, wait_until};

const SERVER: (&str, u16) = ("10.77.0.254", 7);

/// Asks until the echo answers.
fn ask(bed: &Testbed, question: &[u8]) {
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    wait_until("the echo answers", || {
        // While there is no wire, there is no route.
        let _ = socket.send_to(question, SERVER);
        let mut answer = [0; 64];
        socket.recv(&mut answer).is_ok_and(|len| answer[..len] == *question)
    });
}

#[test]
fn an_echo_is_woken_by_its_socket_and_by_the_one_after_its_interface_came_back() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let address = || bed.dut.ip("addr add 10.77.0.254/24 dev one");
    address();
    let memory =
        Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 1, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
    let umem = Umem::new(&memory);
    let config = XdpConfig { take: Some("udp:7".parse().unwrap()), ..XdpConfig::default() };
    let port = bed.dut.inside(|| XdpPort::open(&umem, &mut w, &pool, "one", 0, &config).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut port = runtime.block_on(async { AsyncPort::new(Box::new(port), w, pool.clone()).unwrap() });
    let server = runtime.spawn(async move {
        let mut frames = Batch::new();
        loop {
            port.receive(&mut frames).await;
            frames.each_data_mut(0, |_, data| {
                let _ = Datagram::swap_endpoints(data);
            });
            port.transmit(&mut frames).await;
            // Frames of an interface that is gone.
            frames.free(port.worker());
        }
    });
    ask(&bed, b"one");
    bed.dut.ip("link del dev one");
    bed.wire(1, 1);
    address();
    ask(&bed, b"two");
    server.abort();
    runtime.block_on(async {
        assert!(server.await.unwrap_err().is_cancelled());
        tokio::time::timeout(Duration::from_secs(60), close_pool(&pool)).await.expect("all frames are freed");
    });
    bed.assert_nothing_left();
}

/// Seen: while the interface was gone, a frame of two chunks was called one that the port can never carry, and was freed
/// uncounted.
#[test]
fn a_frame_of_two_chunks_waits_while_its_interface_is_gone() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let memory =
        Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 1, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 512, ..PoolConfig::of_frames(4096) };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let umem = Umem::new(&memory);
    let config = XdpConfig::default();
    let mut port = bed.dut.inside(|| XdpPort::open(&umem, &mut w, &pool, "one", 0, &config).unwrap());
    let mut frames = Batch::new();
    assert_eq!(pool.alloc_burst(&mut w, &mut frames, 1), 1);
    frames[0].put(3000).unwrap().fill(1);
    bed.dut.ip("link del dev one");
    wait_until("the port has no socket", || {
        let _ = port.arm();
        port.disarm();
        port.wakeup_fd().is_none()
    });
    assert_eq!(port.tx(&mut w, &mut frames), 0);
    assert!(port.take_unsendable(&mut frames).is_empty() && !port.is_too_long(&frames[0]));
    assert_eq!(frames.len(), 1);
}
