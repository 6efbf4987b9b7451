//! IPv4 options: RFC 791 §3.1, RFC 1812 §5.3.13, RFC 7126.

use super::*;

/// Makes a packet from one host to the other with these options.
fn with_options(options: &[u8]) -> Vec<u8> {
    to(OTHER[0], options)
}

fn to(dst: &str, options: &[u8]) -> Vec<u8> {
    let length = (20 + options.len()) as u16;
    let mut header =
        Ipv4::new(HOST[0].parse().unwrap(), dst.parse().unwrap(), 253, 64, length).as_bytes().to_vec();
    header.extend(options);
    header.extend([7; 20]);
    with_v4(frame(ethernet::IPV4, &header), |packet| packet[0] = 0x45 + (options.len() / 4) as u8)
}

/// Returns the options of a frame.
fn options(frame: &[u8]) -> &[u8] {
    let packet = &frame[ethernet::HEADER_LEN..];
    let (header, _) = Ipv4::parse(packet).unwrap();
    &packet[20..header.header_len()]
}

/// RFC 1812 §4.2.2.6 (c) and §5.3.13.1: unknown options are passed through. So is the router alert, which is for
/// routers that know its protocol (RFC 2113 §2.1).
#[test]
fn rfc1812_5_3_13_1_options_that_are_not_known_are_forwarded_unchanged() {
    on_each_way(|router| {
        for unknown in
            [&[25, 4, 1, 2][..], &[148, 4, 0, 0], &[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 1, 1, 0]]
        {
            assert_eq!(options(&router.forward(&with_options(unknown))), unknown);
        }
    });
}

/// RFC 1812 §5.3.13.5: the router writes the address of the interface that the packet leaves by, while there is room.
#[test]
fn rfc1812_5_3_13_5_the_record_route_option_is_filled_in() {
    on_each_way(|router| {
        let left = router.forward(&with_options(&[7, 7, 4, 0, 0, 0, 0, 0]));
        assert_eq!(options(&left), [7, 7, 8, 10, 1, 255, 254, 0]);
        assert_eq!(
            options(&router.forward(&with_options(&[7, 7, 8, 1, 2, 3, 4, 0]))),
            [7, 7, 8, 1, 2, 3, 4, 0]
        );
        // RFC 1812 §2.2.7: if the link has no number, any address of the router is used.
        let only = Box::from(["10.0.255.254/16".parse().unwrap()]);
        router.control.apply(vec![Change::Addresses(1, Box::default()), Change::OwnAddresses(only)]);
        let left = router.forward(&with_options(&[7, 7, 4, 0, 0, 0, 0, 0]));
        assert_eq!(options(&left), [7, 7, 8, 10, 0, 255, 254, 0]);
        router
            .control
            .apply(vec![Change::Addresses(0, Box::default()), Change::OwnAddresses(Box::default())]);
        let nameless = router.forward(&with_options(&[7, 7, 4, 0, 0, 0, 0, 0]));
        assert_eq!(options(&nameless), [7, 7, 4, 0, 0, 0, 0, 0], "without an address there is none to write");
    });
}

/// RFC 1812 §2.2.7: if no link has a number, an address that the router has elsewhere is used. Seen: only addresses of
/// the ports were recorded, and only those were recognised.
#[test]
fn rfc1812_5_3_13_5_a_router_with_addresses_on_the_loopback_interface_alone_records_one() {
    on_each_way(|router| {
        let nets = ["127.0.0.1/8", "10.255.0.1/32"].map(|net| net.parse().unwrap());
        router.control.apply(vec![
            Change::Addresses(0, Box::default()),
            Change::Addresses(1, Box::default()),
            Change::OwnAddresses(nets.into()),
        ]);
        let left = router.forward(&with_options(&[7, 7, 4, 0, 0, 0, 0, 0]));
        assert_eq!(options(&left), [7, 7, 8, 10, 255, 0, 1, 0]);
        let left = router.forward(&with_options(&[68, 12, 5, 3, 10, 255, 0, 1, 0, 0, 0, 0]));
        assert_eq!(options(&left)[..8], [68, 12, 13, 3, 10, 255, 0, 1]);
    });
}

/// RFC 1812 §5.3.13.6: the router writes its address and the time, or counts an overflow if there is no room.
#[test]
fn rfc1812_5_3_13_6_the_timestamp_option_is_filled_in() {
    on_each_way(|router| {
        let left = router.forward(&with_options(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(options(&left)[..8], [68, 12, 13, 1, 10, 1, 255, 254]);
        assert_is_now(&options(&left)[8..]);
        let left = router.forward(&with_options(&[68, 8, 5, 0, 0, 0, 0, 0]));
        assert_eq!(options(&left)[..4], [68, 8, 9, 0]);
        assert_is_now(&options(&left)[4..]);
        let full = router.forward(&with_options(&[68, 8, 9, 0x10, 1, 2, 3, 4]));
        assert_eq!(options(&full), [68, 8, 9, 0x20, 1, 2, 3, 4]);
    });
}

/// Asserts that these bytes are the time, in milliseconds since midnight UT, within half an hour.
#[track_caller]
fn assert_is_now(bytes: &[u8]) {
    const DAY: i64 = 86_400_000;
    let seen = i64::from(u32::from_be_bytes(bytes.try_into().unwrap()));
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let behind = (since.as_millis() as i64 % DAY - seen).rem_euclid(DAY);
    assert!((0..DAY).contains(&seen) && behind < 1_800_000, "{seen} is {behind} ms ago");
}

/// RFC 1812 §5.3.13.6: a timestamp is requested from one address, which may be that of any interface. Seen: only
/// that of the egress interface was recognised, so the option stayed the same for all later routers.
#[test]
fn rfc1812_5_3_13_6_a_timestamp_for_any_own_address_is_filled_in() {
    on_each_way(|router| {
        for own in [[10, 0, 255, 254], [10, 1, 255, 254]] {
            let asked = [&[68, 12, 5, 3][..], &own, &[0; 4]].concat();
            let left = router.forward(&with_options(&asked));
            assert_eq!(options(&left)[..8], [&[68, 12, 13, 3][..], &own].concat());
            assert_is_now(&options(&left)[8..]);
        }
        let others = [68, 12, 5, 3, 10, 1, 0, 9, 0, 0, 0, 0];
        assert_eq!(options(&router.forward(&with_options(&others))), others);
    });
}

/// RFC 792 and RFC 1812 §5.3.13: malformed options are dropped with a parameter problem that points at the byte.
#[test]
fn rfc1812_5_3_13_bad_options_cause_a_parameter_problem_with_a_pointer_to_the_byte() {
    on_each_way(|router| {
        for (bad, at) in [
            (&[7, 7, 3, 0, 0, 0, 0, 0][..], 22),
            (&[7, 9, 4, 0, 0, 0, 0, 0], 21),
            (&[1, 25, 0, 0], 22),
            (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 23),
            // Two source routes. Seen: the last one was used.
            (&[137, 3, 4, 131, 3, 4, 0, 0], 23),
        ] {
            let sent = with_options(bad);
            let left = router.pass(0, &sent);
            let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
            let said = read(error);
            assert_eq!((said.kind, said.code, said.rest), (12, 0, at << 24), "{bad:?}");
            assert_eq!(said.quoted, sent[14..]);
        }
        assert_eq!(router.drops(), [("bad_options", 5)]);
    });
}

/// RFC 7126 §4.3 and §4.4, RFC 1812 §5.2.7.1 code 5: source routes are recognised and not followed, unless the
/// operator allows loose ones between two of their stops.
#[test]
fn rfc7126_4_3_source_routed_packets_are_dropped_unless_loose_source_routes_are_allowed() {
    let allow = Allow { source_routes: true, ..Allow::default() };
    let (loose, strict) = ([131, 7, 4, 10, 1, 0, 9, 0], [137, 7, 4, 10, 1, 0, 9, 0]);
    for way in WAYS {
        let (mut router, mut willing) = (RouterRig::new(way), RouterRig::that_allows(way, allow));
        dropped(&mut router, &with_options(&loose), "source_route", Some(Message::SourceRouteFailed));
        assert_eq!(options(&willing.forward(&with_options(&loose))), loose);
        for router in [&mut router, &mut willing] {
            let left = router.pass(0, &with_options(&strict));
            let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
            assert_eq!((read(error).kind, read(error).code), (3, 5));
            // The next stop of a route that ends here is the kernel's responsibility.
            dropped(router, &to("10.0.255.254", &loose), "local_address", None);
        }
        router.end();
        willing.end();
    }
}

/// A packet with options waits unchanged for its neighbour, and its route is recorded once.
#[test]
fn rfc1812_5_3_13_the_options_of_a_waiting_packet_are_filled_in_when_it_leaves() {
    on_each_way_of(RouterRig::that_waits, |router| {
        assert!(router.pass(0, &to("10.5.0.1", &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])).is_empty());
        let neighbour = netmem_router::route::Neighbour { port: 1, address: [10, 5, 0, 1].into() };
        router.control.apply(vec![Change::Neighbour(neighbour, Some(HOSTS[1]))]);
        let left = router.settle();
        assert_eq!(options(&left[0].1), [7, 11, 8, 10, 1, 255, 254, 0, 0, 0, 0, 0]);
    });
}
