//! Tests of a socket over a port in memory.

#![allow(clippy::unwrap_used)]

use netmem::limits::BATCH_MAX;
use netmem::port::NextHop;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::wire::{Datagram, MacAddr};
use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
use netmem_quinn::PortSocket;
use netmem_tokio::{AsyncPort, close_pool};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::{self, RootCertStore};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, ConnectionError, Endpoint, EndpointConfig, TokioRuntime, TransportConfig,
};
use std::future::poll_fn;
use std::io::{ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};
use std::time::Duration;
use tokio::time::{advance, timeout};

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
    (Arc::new(PortSocket::new(port, local)), device, pool)
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

#[tokio::test]
async fn datagrams_of_one_sender_come_as_one_buffer_with_their_ecn_and_others_apart() {
    let (socket, mut device, pool) = socket(64, 64);
    ask(&socket).await;
    let (one, other) = (from("192.0.2.7:999", 0b10), from("192.0.2.8:999", 0b11));
    for payload in [&b"aaaa"[..], b"bbbb", b"c", b"dddd"] {
        deliver(&mut device, &one, payload).await;
    }
    deliver(&mut device, &other, b"eeee").await;
    let came = receive(&socket, 8, 100).await;
    let said: Vec<_> =
        came.iter().map(|(bytes, meta)| (&bytes[..], meta.stride, meta.addr, meta.ecn)).collect();
    assert_eq!(
        said,
        [
            (&b"aaaabbbbc"[..], 4, one.src, Some(EcnCodepoint::Ect0)), // a short datagram is the last
            (b"dddd", 4, one.src, Some(EcnCodepoint::Ect0)),
            (b"eeee", 4, other.src, Some(EcnCodepoint::Ce)),
        ]
    );
    assert!(came.iter().all(|(_, meta)| meta.dst_ip == Some(one.dst.ip())));
    end(socket, device, pool).await;
}

#[tokio::test]
async fn datagrams_without_a_buffer_wait_in_order_for_the_next_call() {
    let (socket, mut device, pool) = socket(64, 64);
    ask(&socket).await;
    for (client, payload) in [("192.0.2.7:1", b"a"), ("192.0.2.7:2", b"b"), ("192.0.2.7:3", b"c")] {
        deliver(&mut device, &from(client, 0), payload).await;
    }
    assert_eq!(receive(&socket, 0, 10).await.len(), 0);
    let mut came = receive(&socket, 2, 10).await;
    assert_eq!(came.len(), 2);
    came.extend(receive(&socket, 2, 10).await);
    assert_eq!(came.iter().flat_map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(), b"abc");
    end(socket, device, pool).await;
}

#[tokio::test]
async fn datagrams_for_other_sockets_are_ignored_and_counted() {
    let (socket, mut device, pool) = socket(64, 64);
    ask(&socket).await;
    let good = from("192.0.2.7:1", 0);
    let other_port = Datagram { dst: "192.0.2.1:444".parse().unwrap(), ..good };
    let other_address = Datagram { dst: "192.0.2.2:443".parse().unwrap(), ..good };
    deliver(&mut device, &other_port, b"port").await;
    deliver(&mut device, &other_address, b"address").await;
    deliver(&mut device, &good, b"").await;
    deliver(&mut device, &good, &[7; 11]).await; // longer than the buffer
    assert_eq!(
        device.deliver(1, |room| {
            room[..60].fill(0xff);
            60
        }),
        1
    );
    deliver(&mut device, &good, b"good").await;
    let came = receive(&socket, 4, 10).await;
    assert_eq!(came.iter().map(|(bytes, _)| &bytes[..]).collect::<Vec<_>>(), [b"good"]);
    assert_eq!(socket.counts().ignored, 5);
    end(socket, device, pool).await;
}

/// Seen: datagrams to a multicast group, from port 0, or from the socket's own address reached quinn, which answered them.
/// A socket of `[::]` has none of IPv4.
#[tokio::test]
async fn datagrams_of_the_other_family_and_such_that_must_not_be_answered_are_ignored() {
    let (socket, mut device, pool) = socket_of("[::]:443".parse().unwrap(), 64, 64);
    ask(&socket).await;
    let v4 = from("192.0.2.7:1", 0);
    let good =
        Datagram { src: "[2001:db8::7]:1".parse().unwrap(), dst: "[2001:db8::1]:443".parse().unwrap(), ..v4 };
    let group = Datagram { dst: "[ff02::1]:443".parse().unwrap(), ..good };
    let portless = Datagram { src: "[2001:db8::7]:0".parse().unwrap(), ..good };
    let own = Datagram { src: good.dst, ..good };
    for ignored in [v4, group, portless, own] {
        deliver(&mut device, &ignored, b"no").await;
    }
    deliver(&mut device, &good, b"yes").await;
    let came = receive(&socket, 8, 10).await;
    assert_eq!(came.iter().map(|(bytes, _)| &bytes[..]).collect::<Vec<_>>(), [b"yes"]);
    assert_eq!(socket.counts().ignored, 4);
    end(socket, device, pool).await;
}

#[tokio::test]
async fn segments_are_cut_into_frames_to_the_station_that_the_last_datagram_came_from() {
    let (socket, mut device, pool) = socket(64, 64);
    let lost = transmit("192.0.2.7:999", b"x", None);
    socket.try_send(&lost).unwrap();
    assert_eq!(socket.counts().no_next_hop, 1, "no next hop is known");
    ask(&socket).await;
    deliver(&mut device, &from("192.0.2.7:999", 0), b"hello").await;
    receive(&socket, 1, 10).await;

    socket.try_send(&transmit("192.0.2.7:999", b"aaaabbbbc", Some(4))).unwrap();
    let all = sent(&mut device);
    assert_eq!(
        all.iter().map(|(_, payload)| &payload[..]).collect::<Vec<_>>(),
        [&b"aaaa"[..], b"bbbb", b"c"]
    );
    let datagram = Datagram {
        src_mac: OWN,
        dst_mac: PEER,
        src: "192.0.2.1:443".parse().unwrap(),
        dst: "192.0.2.7:999".parse().unwrap(),
        hop_limit: 64,
        tos: 0b10,
    };
    assert!(all.iter().all(|(sent, _)| *sent == datagram), "{all:?}");

    socket.try_send(&transmit("192.0.2.7:999", &[0; 4000], None)).unwrap();
    assert_eq!(socket.counts().too_long, 1);
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    socket.try_send(&transmit("192.0.2.9:1", b"asked", None)).unwrap();
    assert_eq!(sent(&mut device).len(), 1);
    let mixed: SocketAddr = "[2001:db8::1]:1".parse().unwrap();
    socket.try_send(&Transmit { destination: mixed, ..transmit("192.0.2.9:1", b"x", None) }).unwrap();
    assert_eq!((socket.counts().unaddressable, sent(&mut device).len()), (1, 0));
    end(socket, device, pool).await;
}

/// Seen: quinn calls the socket with its own lock held, and the next use of that lock ended the process (exit 134).
#[tokio::test]
async fn a_panic_of_the_function_for_next_hops_loses_the_datagram_and_the_socket_goes_on() {
    let (socket, mut device, pool) = socket(16, 256);
    socket.set_next_hop(|_| panic!("on purpose"));
    for _ in 0..2 {
        socket.try_send(&transmit("192.0.2.7:1", b"lost", None)).unwrap();
    }
    let counts = socket.counts();
    assert_eq!((counts.no_next_hop, counts.next_hop_panics, sent(&mut device).len()), (2, 2, 0));
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    socket.try_send(&transmit("192.0.2.7:1", b"sent", None)).unwrap();
    assert_eq!(sent(&mut device).len(), 1);
    end(socket, device, pool).await;
}

#[tokio::test]
async fn a_device_without_room_blocks_the_sender_until_it_is_woken_and_nothing_is_lost_or_sent_twice() {
    let (socket, mut device, pool) = socket(16, 256);
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    let mut queued = 0_u32;
    let blocked = loop {
        let number = queued.to_be_bytes();
        match socket.try_send(&transmit("192.0.2.7:1", &number, None)) {
            Ok(()) => queued += 1,
            Err(error) => break error.kind(),
        }
        assert!(queued < 1000);
    };
    assert_eq!(blocked, ErrorKind::WouldBlock);
    let mut poller = Arc::clone(&socket).create_io_poller();
    let mut all = Vec::new();
    let collect = async {
        while all.len() < queued as usize {
            all.extend(sent(&mut device));
            ask(&socket).await;
            tokio::task::yield_now().await;
        }
    };
    let woken = poll_fn(|context| poller.as_mut().poll_writable(context));
    let (woken, ()) = timeout(PATIENCE, async { tokio::join!(woken, collect) }).await.unwrap();
    woken.unwrap();
    let numbers: Vec<u32> =
        all.iter().map(|(_, bytes)| u32::from_be_bytes(bytes[..].try_into().unwrap())).collect();
    assert_eq!(numbers, (0..queued).collect::<Vec<_>>());
    drop(poller);
    end(socket, device, pool).await;
}

/// Seen: a sender waited for room for 32 datagrams, which a pool of fewer than 128 frames never has.
#[tokio::test]
async fn a_small_pool_has_room_for_as_many_datagrams_as_the_socket_says() {
    for (frames, segments) in [(4, 1), (16, 4), (64, 16), (256, 32)] {
        let (socket, mut device, pool) = socket(256, frames);
        socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
        ask(&socket).await;
        assert_eq!(socket.max_transmit_segments(), segments);
        let mut poller = Arc::clone(&socket).create_io_poller();
        let writable = poll_fn(|context| poller.as_mut().poll_writable(context));
        timeout(PATIENCE, writable).await.expect("there is room").unwrap();
        socket.try_send(&transmit("192.0.2.7:1", &vec![0; 2 * segments], Some(2))).unwrap();
        assert_eq!(sent(&mut device).len(), segments);
        socket.try_send(&transmit("192.0.2.7:1", &vec![0; 2 * segments + 1], Some(2))).unwrap();
        let lost = (socket.counts().too_many, sent(&mut device).len());
        assert_eq!(lost, (segments as u64 + 1, 0), "never more at once than the socket says");
        drop(poller);
        end(socket, device, pool).await;
    }
}

/// Found in a review: all frames of the pool were posted for reception, and no sender found room again.
#[tokio::test]
async fn a_sender_finds_room_in_a_pool_that_was_made_smaller() {
    let (socket, mut device, pool) = socket(2048, 1024);
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    ask(&socket).await;
    assert_eq!(socket.max_transmit_segments(), 32);
    pool.resize(64).unwrap();
    assert_eq!(socket.max_transmit_segments(), 16);
    // Frames that are posted come back with packets.
    for _ in 0..40 {
        while device.deliver(1, |_| 60) > 0 {}
        ask(&socket).await;
    }
    let mut poller = Arc::clone(&socket).create_io_poller();
    let writable = poll_fn(|context| poller.as_mut().poll_writable(context));
    timeout(PATIENCE, writable).await.expect("there is room").unwrap();
    socket.try_send(&transmit("192.0.2.7:1", &[0; 32], Some(2))).unwrap();
    assert_eq!(sent(&mut device).len(), 16);
    drop(poller);
    end(socket, device, pool).await;
}

/// Seen: a sender waited for frames that the device had sent, and no task claimed them.
#[tokio::test]
async fn a_sender_that_waits_claims_the_frames_that_were_sent() {
    let (socket, mut device, pool) = socket(64, 16);
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    ask(&socket).await;
    let mut queued = 0;
    while socket.try_send(&transmit("192.0.2.7:1", b"x", None)).is_ok() {
        queued += 1;
        assert!(queued < 1000);
    }
    assert_eq!(sent(&mut device).len(), queued);
    assert!(sent(&mut device).is_empty(), "all are given back");
    let mut poller = Arc::clone(&socket).create_io_poller();
    let writable = poll_fn(|context| poller.as_mut().poll_writable(context));
    timeout(PATIENCE, writable).await.expect("there is room").unwrap();
    drop(poller);
    end(socket, device, pool).await;
}

/// Seen: the answers of a link-local server came from an address without a scope, and quinn dropped them.
#[tokio::test]
async fn link_local_senders_have_the_scope_of_the_socket_and_nothing_is_sent_to_mapped_addresses() {
    let local: SocketAddr = "[fe80::1%5]:443".parse().unwrap();
    let (socket, mut device, pool) = socket_of(local, 64, 64);
    ask(&socket).await;
    let datagram = |src: &str| Datagram {
        src: src.parse().unwrap(),
        dst: "[fe80::1]:443".parse().unwrap(),
        ..from("192.0.2.7:1", 0)
    };
    for payload in [b"aa", b"bb"] {
        deliver(&mut device, &datagram("[fe80::7]:1"), payload).await;
    }
    deliver(&mut device, &datagram("[2001:db8::7]:1"), b"cc").await;
    let came: Vec<_> =
        receive(&socket, 8, 100).await.into_iter().map(|(bytes, meta)| (bytes, meta.addr)).collect();
    let (near, far) = ("[fe80::7%5]:1".parse().unwrap(), "[2001:db8::7]:1".parse().unwrap());
    assert_eq!(came, [(b"aabb".to_vec(), near), (b"cc".to_vec(), far)]);
    socket.try_send(&transmit("[fe80::7%5]:1", b"back", None)).unwrap();
    assert_eq!(sent(&mut device).len(), 1);
    socket.try_send(&transmit("[::ffff:192.0.2.9]:1", b"x", None)).unwrap();
    assert_eq!((socket.counts().unaddressable, sent(&mut device).len()), (1, 0));
    end(socket, device, pool).await;
}

/// Seen: a client of an IPv6 address connected to an IPv4 address. The socket's error ended the connection's task, and
/// the connection as one that its own side had closed.
#[tokio::test]
async fn a_connection_to_an_address_of_the_other_family_ends_by_its_time_limit() {
    let (socket, device, pool) = socket_of("[2001:db8::1]:5000".parse().unwrap(), 64, 64);
    let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    let endpoint = Endpoint::new_with_abstract_socket(config, None, socket.clone(), runtime).unwrap();
    let roots = RootCertStore::empty();
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_millis(100).try_into().unwrap()));
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    client.transport_config(Arc::new(transport));
    let connecting = endpoint.connect_with(client, "192.0.2.9:443".parse().unwrap(), "files.test").unwrap();
    let end_of_it = timeout(PATIENCE, connecting).await.expect("it ends");
    assert_eq!(end_of_it.unwrap_err(), ConnectionError::TimedOut);
    assert!(socket.counts().unaddressable > 0);
    timeout(PATIENCE, endpoint.wait_idle()).await.expect("no connection is left");
    drop(endpoint);
    end(socket, device, pool).await;
}

/// Seen: under a flood of frames that are not for the socket, one call of the endpoint's task freed thousands of them
/// under the socket's lock, and no connection could send meanwhile.
#[tokio::test]
async fn a_call_ends_after_a_burst_of_ignored_frames_and_wakes_its_task_to_go_on() {
    const WAITING: usize = 4 * BATCH_MAX;
    let (socket, mut device, pool) = socket(WAITING, 2 * WAITING);
    ask(&socket).await;
    assert!((0..WAITING).all(|_| device.deliver(1, |_| 60) == 1));
    ask(&socket).await;
    let ignored = socket.counts().ignored;
    assert!(ignored <= BATCH_MAX as u64, "{ignored} frames in one call");
    let next = tokio::spawn({
        let socket = socket.clone();
        async move { receive(&socket, 1, 10).await }
    });
    timeout(PATIENCE, async {
        while socket.counts().ignored < WAITING as u64 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("its task goes on");
    deliver(&mut device, &from("192.0.2.7:1", 0), b"good").await;
    let came = timeout(PATIENCE, next).await.unwrap().unwrap();
    assert_eq!(came[0].0, b"good");
    end(socket, device, pool).await;
}

/// A task's wake-ups, counted.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Seen: a sender had waited long for room, and found it. When it next waited, the rest of the long pause came first.
#[tokio::test(start_paused = true)]
async fn a_sender_that_found_room_waits_only_shortly_the_next_time() {
    let (socket, mut device, pool) = socket(64, 16);
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    ask(&socket).await;
    let wakes = Arc::new(Wakes::default());
    let (waker, mut poller) = (wakes.clone().into(), Arc::clone(&socket).create_io_poller());
    let mut context = Context::from_waker(&waker);
    let fill = || while socket.try_send(&transmit("192.0.2.7:1", b"x", None)).is_ok() {};
    fill();
    // The pauses become as long as they can be. The clock only moves where the test moves it.
    for _ in 0..20 {
        assert!(poller.as_mut().poll_writable(&mut context).is_pending());
        advance(Duration::from_millis(50)).await;
    }
    assert!(poller.as_mut().poll_writable(&mut context).is_pending());
    sent(&mut device);
    sent(&mut device);
    assert!(poller.as_mut().poll_writable(&mut context).is_ready(), "there is room");
    fill();
    let before = wakes.0.load(SeqCst);
    assert!(poller.as_mut().poll_writable(&mut context).is_pending());
    advance(Duration::from_millis(2)).await;
    assert_eq!(wakes.0.load(SeqCst), before + 1, "the first pause is short");
    drop(poller);
    end(socket, device, pool).await;
}
