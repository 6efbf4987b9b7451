//! Tests of what a socket receives, and what it ignores.

use super::*;
use netmem::limits::BATCH_MAX;
use std::net::IpAddr;

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
    let damage = |room: &mut [u8]| {
        let len = good.headers_len() + 4;
        good.write(&mut room[..len]).unwrap();
        room[len - 1] ^= 1;
        len
    };
    assert_eq!(device.deliver(1, damage), 1);
    deliver(&mut device, &good, b"good").await;
    let came = receive(&socket, 4, 10).await;
    assert_eq!(came.iter().map(|(bytes, _)| &bytes[..]).collect::<Vec<_>>(), [b"good"]);
    let counts = socket.counts();
    assert_eq!((counts.other_address, counts.unreadable, counts.not_datagram), (2, 2, 1));
    assert_eq!((counts.wrong_checksum, counts.ignored()), (1, 6));
    end(socket, device, pool).await;
}

/// Seen: datagrams to a multicast group, from port 0, or from the socket's own address reached quinn, which answered them.
#[tokio::test]
async fn datagrams_of_the_other_family_and_such_that_must_not_be_answered_are_ignored() {
    for (local, other) in [("0.0.0.0:443", "[2001:db8::1]"), ("[2001:db8::1]:443", "192.0.2.1")] {
        let (socket, mut device, pool) = socket_of(local.parse().unwrap(), 64, 64);
        ask(&socket).await;
        let (v4, v6) = (from("192.0.2.7:1", 0), from_v6("[2001:db8::7]:1"));
        let (good, other) = if other.starts_with('[') { (v4, v6) } else { (v6, v4) };
        let group = if good.dst.is_ipv4() { "224.0.0.1:443" } else { "[ff02::1]:443" };
        let group = Datagram { dst: group.parse().unwrap(), ..good };
        let portless = Datagram { src: SocketAddr::new(good.src.ip(), 0), ..good };
        let own = Datagram { src: good.dst, ..good };
        for ignored in [other, group, portless, own] {
            deliver(&mut device, &ignored, b"no").await;
        }
        deliver(&mut device, &good, b"yes").await;
        let came = receive(&socket, 8, 10).await;
        assert_eq!(came.iter().map(|(bytes, _)| &bytes[..]).collect::<Vec<_>>(), [b"yes"]);
        let counts = socket.counts();
        // The group is another address than the one of a socket.
        let groups = u64::from(!local.starts_with("0."));
        assert_eq!(
            (counts.other_address, counts.unanswerable, counts.ignored()),
            (1 + groups, 3 - groups, 4)
        );
        end(socket, device, pool).await;
    }
}

/// Wanted: a socket of `[::]` serves IPv4 too, as the kernel's does. Before, such clients ended by their time limit.
#[tokio::test]
async fn a_socket_of_all_addresses_has_those_of_ipv4_as_mapped_ones() {
    let (socket, mut device, pool) = socket_of("[::]:443".parse().unwrap(), 64, 64);
    ask(&socket).await;
    let (v4, v6) = (from("192.0.2.7:1", 0), from_v6("[2001:db8::7]:1"));
    for datagram in [v4, v4, v6] {
        deliver(&mut device, &datagram, b"ask").await;
    }
    let came = receive(&socket, 8, 10).await;
    let ends: Vec<_> =
        came.iter().map(|(bytes, meta)| (bytes.len(), meta.addr, meta.dst_ip.unwrap())).collect();
    let mapped: (SocketAddr, IpAddr) =
        ("[::ffff:192.0.2.7]:1".parse().unwrap(), "::ffff:192.0.2.1".parse().unwrap());
    assert_eq!(ends, [(6, mapped.0, mapped.1), (3, v6.src, v6.dst.ip())]);
    for (_, to, from) in ends {
        let answer = Transmit { src_ip: Some(from), ..transmit(&to.to_string(), b"answer", None) };
        socket.try_send(&answer).unwrap();
    }
    let sent: Vec<_> =
        sent(&mut device).into_iter().map(|(datagram, _)| (datagram.src, datagram.dst)).collect();
    assert_eq!(sent, [(v4.dst, v4.src), (v6.dst, v6.src)]);
    socket.try_send(&transmit("[::ffff:192.0.2.7]:1", b"from nowhere", None)).unwrap();
    assert_eq!((socket.counts().unaddressable, socket.counts().ignored()), (1, 0));
    deliver(&mut device, &Datagram { src: mapped.0, ..v6 }, b"as if it were of IPv4").await;
    deliver(&mut device, &v6, b"last").await;
    assert_eq!(receive(&socket, 8, 100).await.len(), 1);
    assert_eq!(socket.counts().unanswerable, 1);
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

/// Seen: under a flood of frames that are not for the socket, one call of the endpoint's task freed thousands of them
/// under the socket's lock, and no connection could send meanwhile.
#[tokio::test]
async fn a_call_ends_after_a_burst_of_ignored_frames_and_wakes_its_task_to_go_on() {
    const WAITING: usize = 4 * BATCH_MAX;
    let (socket, mut device, pool) = socket(WAITING, 2 * WAITING);
    ask(&socket).await;
    assert!((0..WAITING).all(|_| device.deliver(1, |_| 60) == 1));
    ask(&socket).await;
    let ignored = socket.counts().ignored();
    assert!(ignored <= BATCH_MAX as u64, "{ignored} frames in one call");
    let next = tokio::spawn({
        let socket = socket.clone();
        async move { receive(&socket, 1, 10).await }
    });
    timeout(PATIENCE, async {
        while socket.counts().ignored() < WAITING as u64 {
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
