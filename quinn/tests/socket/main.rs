//! Tests of a socket over a port in memory.

#![allow(clippy::unwrap_used)]

mod receive;
mod transmit;

use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::wire::{Datagram, MacAddr};
use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
use netmem_quinn::{PortSocket, SocketError};
use netmem_tokio::{AsyncPort, close_pool};
use quinn::AsyncUdpSocket;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use std::future::poll_fn;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;

const OWN: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 2]);
/// Only guards against hangs: the machine may be stopped for a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a socket of 192.0.2.1:443 over a ring of that many slots, its device, and the pool of that many frames.
fn socket(ring: usize, frames: usize) -> (Arc<PortSocket>, MemDevice, Pool) {
    socket_of("192.0.2.1:443".parse().unwrap(), ring, frames)
}

fn socket_of(local: SocketAddr, ring: usize, frames: usize) -> (Arc<PortSocket>, MemDevice, Pool) {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut worker = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    let (port, device) = MemPort::pair("0", &MemConfig { ring, coalesce: 1 }).unwrap();
    let port = AsyncPort::new(Box::new(port), worker, pool.clone()).unwrap();
    (Arc::new(PortSocket::new(port, local).unwrap()), device, pool)
}

/// Drops both ends of the port, and checks that all frames are freed.
async fn end(socket: Arc<PortSocket>, device: MemDevice, pool: Pool) {
    drop((socket, device));
    timeout(PATIENCE, close_pool(&pool)).await.expect("all frames are freed");
}

fn from(src: &str, tos: u8) -> Datagram {
    let (src, dst) = (src.parse().unwrap(), "192.0.2.1:443".parse().unwrap());
    Datagram { src_mac: PEER, dst_mac: OWN, src, dst, hop_limit: 64, tos }
}

/// From an address of IPv6 to 2001:db8::1.
fn from_v6(src: &str) -> Datagram {
    let (src, dst) = (src.parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
    Datagram { src, dst, ..from("192.0.2.7:1", 0) }
}

async fn deliver(device: &mut MemDevice, datagram: &Datagram, payload: &[u8]) {
    let headers = datagram.headers_len();
    let write = |room: &mut [u8]| {
        let len = headers + payload.len();
        room[headers..len].copy_from_slice(payload);
        datagram.write(&mut room[..len]).unwrap();
        len
    };
    while device.deliver(1, write) == 0 {
        tokio::task::yield_now().await;
    }
}

/// Receives into that many buffers of that many bytes. Returns the data with its metadata.
async fn receive(socket: &PortSocket, buffers: usize, len: usize) -> Vec<(Vec<u8>, RecvMeta)> {
    let (mut room, mut meta) = (vec![vec![0; len]; buffers], vec![RecvMeta::default(); buffers]);
    let mut slices: Vec<_> = room.iter_mut().map(|room| IoSliceMut::new(room)).collect();
    let received = poll_fn(|context| socket.poll_recv(context, &mut slices, &mut meta));
    let filled = timeout(PATIENCE, received).await.unwrap().unwrap();
    let came = room.into_iter().zip(meta).take(filled);
    came.map(|(room, meta)| (room[..meta.len].to_vec(), meta)).collect()
}

/// Asks once, so that frames are posted and waiting frames are sent.
async fn ask(socket: &PortSocket) {
    let mut room = [0; 100];
    let mut slices = [IoSliceMut::new(&mut room)];
    let mut meta = [RecvMeta::default()];
    let asked = poll_fn(|context| Poll::Ready(socket.poll_recv(context, &mut slices, &mut meta).is_ready()));
    assert!(!asked.await, "nothing came yet");
}

fn transmit<'a>(to: &str, contents: &'a [u8], segment_size: Option<usize>) -> Transmit<'a> {
    let (destination, ecn) = (to.parse().unwrap(), Some(EcnCodepoint::Ect0));
    Transmit { destination, ecn, contents, segment_size, src_ip: None }
}

/// Returns the datagrams that the device was given to send.
fn sent(device: &mut MemDevice) -> Vec<(Datagram, Vec<u8>)> {
    let mut all = Vec::new();
    device.collect(64, |frame| {
        let (datagram, payload) = Datagram::parse(frame).unwrap();
        all.push((datagram, payload.to_vec()));
    });
    all
}

/// Seen: packets left with source port 0 (quinn's clients ask for port 0), and the connection ended by its time limit.
#[tokio::test]
async fn a_socket_without_a_udp_port_is_an_error() {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut worker = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let (port, _device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 1 }).unwrap();
    let port = AsyncPort::new(Box::new(port), worker, pool).unwrap();
    let local = "192.0.2.1:0".parse().unwrap();
    let error = PortSocket::new(port, local).unwrap_err();
    assert_eq!(error, SocketError::NoPort { local });
    assert!(error.to_string().starts_with("192.0.2.1:0 has UDP port 0"), "{error}");
}
