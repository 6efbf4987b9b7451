use super::*;
use etherparse::{IpNumber, PacketBuilder};
use netmem::wire::ethernet::HEADER_LEN;
use std::net::SocketAddr;
use zerocopy::IntoBytes;

/// A client, a server, and the router between them that sends an error, in each family.
const HOSTS: [[&str; 3]; 2] =
    [["10.5.0.2:1000", "10.9.0.1:80", "10.1.0.2:0"], ["[fd05::2]:1000", "[fd09::1]:80", "[fd01::2]:0"]];

fn hosts(texts: [&str; 3]) -> [SocketAddr; 3] {
    texts.map(|text| text.parse().unwrap())
}

/// Returns a frame from `src` to `dst`: TCP, UDP, or any other protocol with these bytes.
fn frame(src: SocketAddr, dst: SocketAddr, protocol: IpNumber, payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let ip = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => link.ipv4(src.octets(), dst.octets(), 64),
        (IpAddr::V6(src), IpAddr::V6(dst)) => link.ipv6(src.octets(), dst.octets(), 64),
        _ => unreachable!("both of one family"),
    };
    let mut bytes = Vec::new();
    match protocol {
        IpNumber::TCP => ip.tcp(src.port(), dst.port(), 1, 1024).write(&mut bytes, payload),
        IpNumber::UDP => ip.udp(src.port(), dst.port()).write(&mut bytes, payload),
        other => ip.write(&mut bytes, other, payload),
    }
    .unwrap();
    bytes
}

/// Returns a frame with an ICMP message of this type, which quotes these bytes.
fn message(src: SocketAddr, dst: SocketAddr, kind: u8, quoted: &[u8]) -> Vec<u8> {
    let protocol = if src.is_ipv4() { IpNumber::ICMP } else { IpNumber::IPV6_ICMP };
    frame(src, dst, protocol, &[Icmp::v4(kind, 0, 1300, quoted).as_bytes(), quoted].concat())
}

#[test]
fn all_flow_hashes_of_a_process_have_one_seed_and_do_not_print_it() {
    let (own, to) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let [a, b] = [FlowHash::default(), FlowHash::default()];
    assert_eq!(a.between(own, to), b.between(own, to));
    assert_ne!(a.between(own, to), a.between(to, own));
    let given = FlowHash::seeded(0x1234_5678);
    assert_ne!(given.between(own, to), FlowHash::seeded(0x1234_5679).between(own, to));
    assert_eq!(format!("{given:?}"), "FlowHash { .. }");
    assert_eq!([given.of(&[0; 60]), given.between(own, IpAddr::from([0; 16]))], [0, 0]);
    assert_eq!(given.of_error_about(&[0; 60]), 0);
}

#[test]
fn a_frame_without_ports_has_the_hash_of_its_addresses() {
    let hash = FlowHash::seeded(7);
    for [src, dst, _] in HOSTS.map(hosts) {
        for protocol in [IpNumber::GRE, IpNumber::ICMP, IpNumber::IPV6_ICMP] {
            let frame = frame(src, dst, protocol, &[0; 12]);
            assert_eq!(hash.of(&frame), hash.between(src.ip(), dst.ip()), "{src} {protocol:?}");
        }
    }
}

/// Seen: errors about the packets of one of several servers with one address reached another of them, which knew
/// nothing of their flows, so the server did not learn the path MTU.
#[test]
fn an_icmp_error_has_the_hash_of_the_flow_that_it_is_about_in_its_own_direction() {
    let hash = FlowHash::seeded(7);
    for (texts, kinds) in HOSTS.into_iter().zip([&ERRORS[..], &ERRORS_V6]) {
        let [client, server, router] = hosts(texts);
        let echo = if client.is_ipv4() { IpNumber::ICMP } else { IpNumber::IPV6_ICMP };
        for protocol in [IpNumber::TCP, IpNumber::UDP, IpNumber::GRE, echo] {
            // An echo request of each family, or bytes of no meaning.
            let payload = [if client.is_ipv4() { 8 } else { 128 }, 0, 0, 0, 0, 0, 0, 0];
            let request = frame(client, server, protocol, &payload);
            let answer = frame(server, client, protocol, &payload);
            for kind in kinds {
                let error = message(router, server, *kind, &answer[HEADER_LEN..]);
                assert_eq!(
                    hash.of(&error),
                    hash.of(&request),
                    "type {kind} about {protocol:?} from {server}"
                );
            }
            assert_eq!(hash.of_error_about(&answer), hash.of(&request));
        }
        // An echo and a redirect of IPv6, neighbour discovery, and types of no meaning.
        for kind in (0..=255).filter(|kind| !kinds.contains(kind)) {
            let answer = frame(server, client, IpNumber::TCP, &[0; 8]);
            let other = message(router, server, kind, &answer[HEADER_LEN..]);
            assert_eq!(hash.of(&other), hash.between(router.ip(), server.ip()), "type {kind}");
        }
    }
}

/// All fragments of a flow take one path, by its addresses. Errors about them take the path of the other direction's.
#[test]
fn an_error_about_a_fragment_has_the_hash_of_its_flows_fragments() {
    let hash = FlowHash::seeded(7);
    for [client, server, router] in HOSTS.map(hosts) {
        let [mut request, mut answer] =
            [(client, server), (server, client)].map(|(src, dst)| frame(src, dst, IpNumber::UDP, &[0; 8]));
        for whole in [&mut request, &mut answer] {
            if client.is_ipv4() {
                whole[HEADER_LEN + 6] = 0x20;
            } else {
                // A Fragment header before UDP.
                whole.splice(54..54, [17, 0, 0, 1, 0, 0, 0, 1]);
                (whole[19], whole[20]) = (24, 44);
            }
        }
        let error = message(router, server, if client.is_ipv4() { 3 } else { 2 }, &answer[HEADER_LEN..]);
        assert_eq!(hash.of(&error), hash.of(&request), "{server}");
        assert_eq!(hash.of(&error), hash.between(client.ip(), server.ip()), "{server}");
        assert_eq!(hash.of_error_about(&answer), hash.of(&request), "{server}");
    }
}

/// Of a fragmented error only the first fragment has the quoted packet.
#[test]
fn all_fragments_of_an_icmp_error_have_the_hash_of_its_addresses() {
    let hash = FlowHash::seeded(7);
    for [client, server, router] in HOSTS.map(hosts) {
        let answer = frame(server, client, IpNumber::TCP, &[0; 8]);
        let mut error = message(router, server, 3, &answer[HEADER_LEN..]);
        if client.is_ipv4() {
            let mut header = etherparse::Ipv4Header::from_slice(&error[HEADER_LEN..]).unwrap().0;
            (header.more_fragments, header.dont_fragment) = (true, false);
            header.header_checksum = header.calc_header_checksum();
            error[HEADER_LEN..HEADER_LEN + 20].copy_from_slice(&header.to_bytes());
        } else {
            error.splice(54..54, [58, 0, 0, 1, 0, 0, 0, 1]);
            (error[19], error[20]) = (error[19] + 8, 44);
        }
        assert_eq!(hash.of(&error), hash.between(router.ip(), server.ip()), "{server}");
    }
}

#[test]
fn an_error_that_quotes_no_ports_goes_by_the_quoted_addresses_and_without_them_by_its_own() {
    let hash = FlowHash::seeded(7);
    for [client, server, router] in HOSTS.map(hosts) {
        let (kind, header) = if client.is_ipv4() { (3, 20) } else { (2, 40) };
        let answer = frame(server, client, IpNumber::UDP, &[0; 8]);
        let quotes = |quoted: &[u8]| hash.of(&message(router, server, kind, quoted));
        let own = hash.between(router.ip(), server.ip());
        let quoted_addresses = hash.between(client.ip(), server.ip());
        let flow = hash.of(&frame(client, server, IpNumber::UDP, &[0; 8]));
        for length in 0..=answer.len() - HEADER_LEN {
            let wanted = match length {
                _ if length < header => own,
                _ if length < header + 4 => quoted_addresses,
                _ => flow,
            };
            assert_eq!(quotes(&answer[HEADER_LEN..][..length]), wanted, "{length} bytes from {server}");
        }
        let mut strange = answer[HEADER_LEN..].to_vec();
        strange[0] |= 0xf;
        // Of IPv4 a header of 60 bytes, which are not there; in IPv6 a bit of the traffic class.
        assert_eq!(quotes(&strange), if client.is_ipv4() { quoted_addresses } else { flow });
        strange[0] = 0x50;
        assert_eq!(quotes(&strange), own, "version 5");
        // Less than an ICMP header.
        let protocol = if client.is_ipv4() { IpNumber::ICMP } else { IpNumber::IPV6_ICMP };
        assert_eq!(hash.of(&frame(router, server, protocol, &[kind, 0, 0])), own);
    }
}
