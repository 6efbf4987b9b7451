//! The reverse path check.

use super::*;
use netmem_router::ReversePath;
use netmem_router::route::Path;

const ALL: [ReversePath; 3] = [ReversePath::Off, ReversePath::Loose, ReversePath::Strict];

/// Returns for each check of port 0 whether a packet from `src` that comes in there is forwarded.
fn forwarded(way: Way, src: &str, dst: &str, change: impl Fn(&mut RouterRig)) -> [bool; 3] {
    forwarded_if((way, Allow::default()), src, dst, change)
}

fn forwarded_if(
    (way, allow): (Way, Allow),
    src: &str,
    dst: &str,
    change: impl Fn(&mut RouterRig),
) -> [bool; 3] {
    ALL.map(|how| {
        let mut router = RouterRig::that_checks_and_allows(way, [how, ReversePath::Off], allow);
        change(&mut router);
        let left = router.pass(0, &datagram(src, dst, 64, 20));
        let drops = router.drops();
        let is_forwarded = drops.is_empty();
        assert!(is_forwarded || drops == [("ip_rpfilter", 1)], "{src} with {how}: {drops:?}");
        assert_eq!(left.len(), usize::from(is_forwarded), "nobody is told of {src} with {how}");
        router.end();
        is_forwarded
    })
}

/// RFC 3704 §2.2, §2.4: strict needs a route out of the port, loose needs any route, off needs none. A route
/// without a next hop does not count.
#[test]
fn rfc3704_2_sources_without_a_route_back_are_dropped_where_a_port_asks_for_one() {
    for way in WAYS {
        for (src, dst, wanted) in [
            (HOST[0], OTHER[0], [true, true, true]),
            ("10.1.0.9", OTHER[0], [true, true, false]),
            ("10.5.0.9", OTHER[0], [true, true, false]),
            ("10.4.0.9", OTHER[0], [true, false, false]),
            ("192.0.2.9", OTHER[0], [true, false, false]),
            (HOST[1], OTHER[1], [true, true, true]),
            ("fd00:b::9", OTHER[1], [true, true, false]),
            ("fd00:5::9", OTHER[1], [true, true, false]),
            ("fd00:4::9", OTHER[1], [true, false, false]),
            ("2001:db8::9", OTHER[1], [true, false, false]),
        ] {
            assert_eq!(forwarded(way, src, dst, |_| ()), wanted, "{src} {way:?}");
        }
    }
}

/// RFC 3704 §2.3: of several paths back, one out of the port is enough.
#[test]
fn rfc3704_2_3_a_source_with_one_of_several_paths_by_its_port_is_accepted() {
    for way in WAYS {
        let path = |port| Path { port, via: Some("10.0.0.7".parse().unwrap()), weight: 1, mtu: None };
        for (ports, wanted) in [([Some(1), Some(0)], true), ([Some(1), None], false)] {
            let lead = |router: &mut RouterRig| {
                let paths = Change::Paths(HopId(99), ports.map(path).into());
                router.control.apply(vec![paths, Change::Route("192.0.2.0/24".parse().unwrap(), HopId(99))]);
            };
            assert_eq!(forwarded(way, "192.0.2.9", OTHER[0], lead), [true, true, wanted], "{ports:?}");
        }
    }
}

/// RFC 3704 §2.4: the loose check needs a route, and a `throw` route is none. Seen: it counted as one.
#[test]
fn rfc3704_2_4_a_throw_route_is_no_route_back() {
    for way in WAYS {
        for (src, dst, prefix) in
            [("192.0.2.9", OTHER[0], "192.0.2.0/24"), ("2001:db8::9", OTHER[1], "2001:db8::/32")]
        {
            let throw = |router: &mut RouterRig| router.lead(90, prefix, FibEntry::THROW);
            assert_eq!(forwarded(way, src, dst, throw), [true, false, false], "{src} {way:?}");
            let elsewhere = |router: &mut RouterRig| router.lead(90, prefix, FibEntry::ELSEWHERE);
            assert_eq!(forwarded(way, src, dst, elsewhere), [true, true, false], "{src} {way:?}");
        }
    }
}

/// Other faults of a packet keep their names, and no error is sent about an expired TTL. A priority tag does not
/// hide a source, and other ports have no check.
#[test]
fn rfc3704_2_the_check_counts_bad_sources_alone_and_those_of_its_port_alone() {
    for way in WAYS {
        let strange = |ttl| datagram("192.0.2.9", OTHER[0], ttl, 20);
        let tagged = |frame: Vec<u8>| [&frame[..12], &[0x81, 0, 0x20, 0][..], &frame[12..]].concat();
        let mut elsewhere = strange(64);
        elsewhere[5] ^= 1;
        let corrupt = {
            let mut frame = strange(64);
            frame[ethernet::HEADER_LEN + 10] ^= 0x40;
            frame
        };
        for (frame, reason) in [
            (strange(1), "ip_rpfilter"),
            (tagged(strange(64)), "ip_rpfilter"),
            ([strange(64), vec![0; 7]].concat(), "ip_rpfilter"),
            (elsewhere, "not_for_us"),
            (corrupt, "bad_checksum"),
            (datagram("127.0.0.1", OTHER[0], 64, 20), "martian"),
            (datagram("10.0.255.254", OTHER[0], 64, 20), "martian"),
        ] {
            let mut router = RouterRig::that_checks(way, [ReversePath::Strict, ReversePath::Off]);
            assert_eq!((router.pass(0, &frame), router.drops()), (vec![], vec![(reason, 1)]), "{way:?}");
            router.end();
        }
        let mut router = RouterRig::that_checks(way, [ReversePath::Off, ReversePath::Strict]);
        router.forward(&strange(64));
        router.end();
    }
}

/// Seen: with `--martians forward`, sources of class E were not checked at all.
#[test]
fn rfc3704_2_martian_sources_that_are_allowed_are_checked_as_others_are() {
    let allow = Allow { martians: true, ..Allow::default() };
    for way in WAYS {
        for (port, wanted) in
            [(Some(0), [true, true, true]), (Some(1), [true, true, false]), (None, [true, false, false])]
        {
            let lead = |router: &mut RouterRig| {
                let via = port.map(|port: u8| format!("10.{port}.0.7").parse().unwrap());
                let path = port.map(|port| Path { port: Some(port), via, weight: 1, mtu: None });
                let paths = path.map(|path| Change::Paths(HopId(99), [path].into()));
                let route = Change::Route("240.0.0.0/8".parse().unwrap(), HopId(99));
                router.control.apply(paths.into_iter().flat_map(|paths| [paths, route.clone()]).collect());
            };
            assert_eq!(forwarded_if((way, allow), "240.1.2.3", OTHER[0], lead), wanted, "{port:?} {way:?}");
        }
    }
}

/// RFC 3704 §2: an address of a local prefix that is no address of the router has no sender. Seen: it was a valid source.
#[test]
fn rfc3704_2_a_source_in_a_local_prefix_is_dropped() {
    for way in WAYS {
        for (src, dst, prefix) in
            [("192.0.2.9", OTHER[0], "192.0.2.0/24"), ("2001:db8::9", OTHER[1], "2001:db8::/32")]
        {
            let lead = |router: &mut RouterRig| router.lead(90, prefix, FibEntry::LOCAL);
            assert_eq!(forwarded(way, src, dst, lead), [true, false, false], "{src} {way:?}");
        }
    }
}
