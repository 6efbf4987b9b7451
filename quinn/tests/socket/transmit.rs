//! Tests of what a socket sends, and of a sender that waits for room.

use super::*;
use netmem::port::NextHop;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, ConnectionError, Endpoint, EndpointConfig, TokioRuntime, TransportConfig};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake};
use tokio::time::advance;

/// Seen: quinn's path MTU discovery sent its probes in frames with more room than others. Most later datagrams of the length
/// that it found were `too_long`, and the connection fell back to 1,200 bytes.
#[tokio::test]
async fn a_datagram_that_is_longer_than_the_room_of_every_frame_is_sent_in_none() {
    let (socket, mut device, pool) = socket(256, 256);
    socket.set_next_hop(|_| Some(NextHop { src_mac: OWN, dst_mac: PEER }));
    let longest = vec![7; pool.room() - 42];
    let longer = vec![7; longest.len() + 1];
    for _ in 0..32 {
        socket.try_send(&transmit("192.0.2.7:1", &longest, None)).unwrap();
        socket.try_send(&transmit("192.0.2.7:1", &longer, None)).unwrap();
    }
    let sent = sent(&mut device);
    assert!(sent.iter().all(|(_, payload)| *payload == longest));
    assert_eq!((sent.len(), socket.counts().too_long), (32, 32));
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
