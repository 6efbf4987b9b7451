//! Tests of datagrams against etherparse, and of frames that contain no datagram.

use super::*;
use etherparse::{IpHeaders, IpNumber, Ipv4Header, Ipv6Header, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

const A: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 2]);

fn datagram(src: &str, dst: &str) -> Datagram {
    Datagram {
        src_mac: A,
        dst_mac: B,
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        hop_limit: 9,
        tos: 0x2a,
    }
}

fn v4() -> Datagram {
    datagram("192.0.2.1:4000", "192.0.2.2:53")
}

fn v6() -> Datagram {
    datagram("[2001:db8::1]:4000", "[2001:db8::2]:53")
}

fn written(datagram: &Datagram, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xee; datagram.headers_len()];
    frame.extend(payload);
    datagram.write(&mut frame).unwrap();
    frame
}

/// The same, built by etherparse.
fn built(datagram: &Datagram, payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(datagram.src_mac.bytes(), datagram.dst_mac.bytes());
    let ip = match (datagram.src.ip(), datagram.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let [src, dst] = [src, dst].map(|address| address.octets());
            let mut ip = Ipv4Header::new(0, datagram.hop_limit, IpNumber::UDP, src, dst).unwrap();
            ip.dscp = (datagram.tos >> 2).try_into().unwrap();
            ip.ecn = (datagram.tos & 3).try_into().unwrap();
            link.ip(IpHeaders::Ipv4(ip, Default::default()))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let [source, destination] = [src, dst].map(|address| address.octets());
            let hop_limit = datagram.hop_limit;
            let (traffic_class, next_header) = (datagram.tos, IpNumber::UDP);
            let ip = Ipv6Header {
                traffic_class,
                next_header,
                hop_limit,
                source,
                destination,
                ..Default::default()
            };
            link.ip(IpHeaders::Ipv6(ip, Default::default()))
        }
        _ => panic!("mixed"),
    };
    let mut frame = Vec::new();
    ip.udp(datagram.src.port(), datagram.dst.port()).write(&mut frame, payload).unwrap();
    frame
}

fn changed(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    frame
}

#[test]
fn each_frame_without_a_datagram_is_told_why_and_is_not_turned_round() {
    let sealed = |mut frame: Vec<u8>| {
        Ipv4::seal(&mut frame[14..]);
        frame
    };
    let options = {
        let mut frame = written(&v4(), b"hello");
        frame.splice(34..34, [1, 1, 1, 0]);
        frame[14] = 0x46;
        frame[17] += 4;
        sealed(frame)
    };
    let tagged = {
        let mut frame = written(&v4(), b"hello");
        frame.splice(12..12, [0x81, 0, 0, 7]);
        frame
    };
    for (frame, why) in [
        (vec![0; 13], NoDatagram::Malformed(Malformed::ShortFrame)),
        (tagged, NoDatagram::Ethertype(0x8100)),
        (changed(written(&v4(), b"hello"), 15, 1), NoDatagram::Malformed(Malformed::BadChecksum)),
        (changed(written(&v6(), b"hello"), 14, 0x45), NoDatagram::Malformed(Malformed::BadVersion)),
        (written(&v6(), b"hello")[..60].to_vec(), NoDatagram::Malformed(Malformed::Truncated)),
        (options, NoDatagram::Options),
        (sealed(changed(written(&v4(), b"hello"), 20, 0x20)), NoDatagram::Fragment),
        (sealed(changed(written(&v4(), b"hello"), 23, 6)), NoDatagram::Protocol(6)),
        (changed(written(&v6(), b"hello"), 20, 44), NoDatagram::Protocol(44)),
        (changed(written(&v4(), b"hello"), 39, 14), NoDatagram::BadLength),
        (changed(written(&v6(), b"hello"), 59, 7), NoDatagram::BadLength),
    ] {
        let mut turned = frame.clone();
        assert_eq!(Datagram::parse(&frame).unwrap_err(), why);
        assert_eq!(Datagram::swap_endpoints(&mut turned).unwrap_err(), why);
        assert_eq!(turned, frame);
    }
}

#[test]
fn a_wrong_checksum_is_seen_and_goes_back_wrong() {
    for at in [44, 40] {
        let mut frame = changed(written(&v4(), b"hello"), at, 0xa5);
        assert_eq!(Datagram::parse(&frame), Err(NoDatagram::BadChecksum));
        Datagram::swap_endpoints(&mut frame).unwrap();
        assert_eq!(Datagram::parse(&frame), Err(NoDatagram::BadChecksum));
    }
    let without = |frame: Vec<u8>, at| changed(changed(frame, at, 0), at + 1, 0);
    assert!(Datagram::parse(&without(written(&v4(), b"hello"), 40)).is_ok(), "none is needed over IPv4");
    assert_eq!(Datagram::parse(&without(written(&v6(), b"hello"), 60)), Err(NoDatagram::BadChecksum));
}

#[test]
fn what_is_from_or_for_many_or_nobody_is_answered_by_nobody() {
    for (src, dst) in [
        ("192.0.2.1:4000", "239.1.2.3:53"),
        ("192.0.2.1:4000", "255.255.255.255:53"),
        ("0.0.0.0:4000", "192.0.2.2:53"),
        ("192.0.2.1:0", "192.0.2.2:53"),
        ("[2001:db8::1]:4000", "[ff02::1]:53"),
        ("[::]:4000", "[2001:db8::2]:53"),
        ("192.0.2.2:53", "192.0.2.2:53"),
        ("192.0.2.2:4000", "192.0.2.2:53"),
        ("[2001:db8::2]:4000", "[2001:db8::2]:53"),
        ("127.0.0.1:4000", "192.0.2.2:53"),
        ("[::1]:4000", "[2001:db8::2]:53"),
    ] {
        let came = datagram(src, dst);
        let mut frame = written(&came, b"hello");
        assert_eq!(came.answer(), None);
        assert_eq!(Datagram::swap_endpoints(&mut frame), Err(NoDatagram::Unanswerable));
        assert_eq!(frame, written(&came, b"hello"));
    }
    for (src_mac, dst_mac) in [(A, MacAddr::BROADCAST), (MacAddr::new([1, 0, 0x5e, 0, 0, 1]), B)] {
        assert_eq!(Datagram { src_mac, dst_mac, ..v4() }.answer(), None);
    }
}

#[test]
fn headers_that_cannot_be_written_leave_the_frame_as_it_was() {
    let mixed = datagram("192.0.2.1:4000", "[2001:db8::2]:53");
    for (datagram, len, why) in [
        (v4(), 41, WriteError::TooShort { has: 41, needs: 42 }),
        (v6(), 61, WriteError::TooShort { has: 61, needs: 62 }),
        (v4(), 42 + 65_508, WriteError::TooLong(65_508)),
        (mixed, 100, WriteError::MixedFamilies),
    ] {
        let mut frame = vec![7; len];
        assert_eq!(datagram.write(&mut frame), Err(why));
        assert!(frame.iter().all(|byte| *byte == 7));
    }
    assert_eq!(Datagram::parse(&written(&v4(), &[7; 65_507])).unwrap().1.len(), 65_507);
    assert_eq!(Datagram::parse(&written(&v6(), b"")).unwrap(), (v6(), &b""[..]));
}

prop_compose! {
    fn any_datagram()(
        six in any::<bool>(), src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(),
        ports in any::<(u16, u16)>(), macs in any::<([u8; 6], [u8; 6])>(), hop_limit in any::<u8>(),
        tos in any::<u8>(),
    ) -> Datagram {
        let ip = |bytes: [u8; 16]| {
            if six { IpAddr::from(bytes) } else { IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]) }
        };
        Datagram {
            src_mac: MacAddr::new(macs.0),
            dst_mac: MacAddr::new(macs.1),
            src: SocketAddr::new(ip(src), ports.0),
            dst: SocketAddr::new(ip(dst), ports.1),
            hop_limit,
            tos,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_what_others_build_and_read(
        datagram in any_datagram(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let frame = written(&datagram, &payload);
        prop_assert_eq!(&frame, &built(&datagram, &payload));
        prop_assert_eq!(Datagram::parse(&frame), Ok((datagram, &payload[..])));
        let read = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Udp(udp)) = read.transport else { panic!("no UDP") };
        prop_assert_eq!(udp.payload(), &payload[..]);
    }

    #[test]
    fn what_is_turned_round_is_the_answer_with_the_same_payload(
        datagram in any_datagram(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        padding in 0_usize..20,
    ) {
        let mut frame = written(&datagram, &payload);
        frame.resize(frame.len() + padding, 0);
        let turned = Datagram::swap_endpoints(&mut frame);
        let Some(answer) = datagram.answer() else {
            prop_assert_eq!(turned, Err(NoDatagram::Unanswerable));
            return Ok(());
        };
        prop_assert_eq!(turned, Ok(datagram));
        frame.truncate(frame.len() - padding);
        prop_assert_eq!(frame, written(&answer, &payload));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        mut frame in prop::collection::vec(any::<u8>(), 0..120),
        ethertype in prop::sample::select(vec![0x0800_u16, 0x86dd, 0x8100]),
    ) {
        if let Some(at) = frame.get_mut(12..15) {
            at[..2].copy_from_slice(&ethertype.to_be_bytes());
            at[2] = if ethertype == 0x86dd { 0x60 } else { 0x45 };
        }
        if let Ok((datagram, payload)) = Datagram::parse(&frame) {
            prop_assert!(frame.len() >= datagram.headers_len() + payload.len());
        }
        let _ = Datagram::swap_endpoints(&mut frame);
    }
}
