//! IPv4 fragmentation: RFC 791 §2.3 and §3.2, compared with Linux.

use super::*;
use netmem::wire::udp;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The next link's MTU.
const MTU: usize = 1400;
/// Bytes of data of a packet that exceeds the MTU of every link of the router.
const LONG: usize = 1600;

/// Makes a datagram that may be fragmented.
fn may_be_cut(payload: usize) -> Vec<u8> {
    with_v4(datagram(HOST[0], OTHER[0], 64, payload), |packet| {
        packet[4..6].copy_from_slice(&[0xbe, 0xef]);
        packet[6] = 0;
    })
}

/// Makes the same datagram with these options and this flags and offset field.
fn with_options(options: &[u8], fragment: u16, payload: usize) -> Vec<u8> {
    let frame = may_be_cut(payload);
    let (head, data) = frame.split_at(ethernet::HEADER_LEN + 20);
    let length = (20 + options.len() + data.len()) as u16;
    with_v4([head, options, data].concat(), |packet| {
        packet[0] = 0x45 + (options.len() / 4) as u8;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    })
}

/// Returns the packets that Linux sends for one over a link of this MTU, as `ip_do_fragment` makes them. Returns
/// none if a fragment's offset would exceed the field's range. TTL and addresses stay.
fn linux(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let header = usize::from(packet[0] & 0xf) * 4;
    let (mut head, data) = (packet[..header].to_vec(), &packet[header..]);
    let said = u16::from_be_bytes([packet[6], packet[7]]);
    let (first, more) = (usize::from(said & 0x1fff), said & 0x2000);
    let each = (mtu - header) & !7;
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let left = data.len() - at;
        let n = if left <= mtu - header { left } else { each };
        let offset = u16::try_from(first + at / 8).ok().filter(|offset| *offset <= 0x1fff)?;
        let flag = if n < left { 0x2000 } else { more };
        head[2..4].copy_from_slice(&((header + n) as u16).to_be_bytes());
        head[6..8].copy_from_slice(&(offset | flag).to_be_bytes());
        head[10..12].fill(0);
        let checksum = netmem::wire::checksum::Sum::new().bytes(&head).checksum();
        head[10..12].copy_from_slice(&checksum.to_be_bytes());
        pieces.push([&head, &data[at..at + n]].concat());
        if offset == 0 {
            forget_options(&mut head[20..]);
        }
        at += n;
    }
    Some(pieces)
}

/// As `ip_options_fragment`: options that are not to be copied are replaced by padding.
fn forget_options(mut options: &mut [u8]) {
    while let [kind, rest @ ..] = options {
        let length = match *kind {
            0 => return,
            1 => 1,
            _ => usize::from(*rest.first().unwrap_or(&0)),
        };
        if length == 0 || length > options.len() {
            return;
        }
        let (one, rest) = std::mem::take(&mut options).split_at_mut(length);
        if one[0] & 0x80 == 0 {
            one.fill(1);
        }
        options = rest;
    }
}

/// Reassembles the data of fragments. etherparse parses each and confirms its checksum.
fn together(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut data = Vec::new();
    let (first, _) = etherparse::Ipv4Header::from_slice(&pieces[0]).unwrap();
    let begins = usize::from(first.fragment_offset.value()) * 8;
    for piece in pieces {
        let (header, payload) = etherparse::Ipv4Header::from_slice(piece).unwrap();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(usize::from(header.total_len), piece.len());
        assert_eq!(usize::from(header.fragment_offset.value()) * 8, begins + data.len());
        assert_eq!((header.identification, header.dont_fragment), (first.identification, false));
        data.extend_from_slice(payload);
    }
    data
}

/// Returns the packets that leave by port 1 for a frame. Asserts their MAC addresses.
#[track_caller]
fn pieces(router: &mut RouterRig, frame: &[u8]) -> Vec<Vec<u8>> {
    let left = router.pass(0, frame);
    let packet = |(port, frame): (usize, Vec<u8>)| {
        let (link, packet) = Ethernet::parse(&frame).unwrap();
        assert_eq!((port, link.dst, link.src), (1, HOSTS[1], ENDS[1].mac));
        packet.to_vec()
    };
    left.into_iter().map(packet).collect()
}

/// Returns the packet of a frame as this router forwards it.
fn forwarded(frame: &[u8]) -> Vec<u8> {
    with_v4(frame.to_vec(), |packet| packet[8] -= 1)[ethernet::HEADER_LEN..].to_vec()
}

fn set_mtu(router: &mut RouterRig, mtu: u16) {
    router.control.apply(vec![Change::Interface(1, Interface { mtu, ..ENDS[1] })]);
}

/// RFC 791 §2.3, RFC 1812 §4.2.2.7 and §5.2.6: a packet that is too long for the next link and may be fragmented
/// crosses it in fragments.
///
/// Seen: `ping -M dont -s 4000` through a narrower link was lost permanently, and no ICMP error was sent.
#[test]
fn rfc791_2_3_a_too_long_packet_without_df_crosses_a_link_of_less_mtu_in_fragments() {
    on_each_way(|router| {
        for (payload, lengths) in [(1372, &[1400][..]), (1373, &[1396, 25]), (LONG, &[1396, 252])] {
            let sent = may_be_cut(payload);
            let left = pieces(router, &sent);
            assert_eq!(left.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
            assert_eq!(left, linux(&forwarded(&sent), MTU).unwrap());
            assert_eq!(together(&left), sent[ethernet::HEADER_LEN + 20..]);
        }
        assert_eq!((router.cut(), router.drops()), ((2, 4), vec![]));
    });
}

/// RFC 791 §3.1: the first fragment has every option, and the others those with the copied flag. The header keeps
/// its length, as in Linux.
#[test]
fn rfc791_3_1_later_fragments_have_the_options_that_are_to_be_copied() {
    on_each_way(|router| {
        // A record of the route with room for one address, security, which is copied, and an experiment, which is
        // not.
        let options = [7, 7, 4, 0, 0, 0, 0, 0x82, 4, 9, 9, 1, 0x1e, 3, 9, 0];
        let left = pieces(router, &with_options(&options, 0, LONG));
        assert_eq!(left.len(), 2);
        assert_eq!(left[0][20..36], [7, 7, 8, 10, 1, 255, 254, 0x82, 4, 9, 9, 1, 0x1e, 3, 9, 0]);
        assert_eq!(left[1][20..36], [1, 1, 1, 1, 1, 1, 1, 0x82, 4, 9, 9, 1, 1, 1, 1, 0]);
        together(&left);
    });
}

/// RFC 791 §3.2: a fragment is fragmented like a packet. Only the last fragment of the last one has the flag for
/// more cleared.
#[test]
fn rfc791_3_2_a_fragment_is_fragmented_again_for_a_link_of_still_less_mtu() {
    on_each_way(|router| {
        set_mtu(router, 600);
        for (fragment, said) in [
            (0x2000, [0x2000, 0x2048, 0x2090]),
            (0x2064, [0x2064, 0x20ac, 0x20f4]),
            (0x00c8, [0x20c8, 0x2110, 0x0158]),
        ] {
            let sent = with_options(&[], fragment, 1472 - 8);
            let left = pieces(router, &sent);
            let found = left.iter().map(|piece| u16::from_be_bytes([piece[6], piece[7]]));
            assert_eq!(found.collect::<Vec<_>>(), said);
            assert_eq!(left, linux(&forwarded(&sent), 600).unwrap());
        }
        // The last fragment's offset would exceed the field's range, which no valid packet causes.
        let beyond = with_options(&[], 0x1fff, 1472);
        dropped(router, &beyond, "frag_failed", None);
    });
}

/// For any packet and link, the fragments are those of Linux, and they reassemble to the packet. No packet is sent
/// in part.
#[test]
fn random_packets_are_fragmented_as_by_linux_and_reassemble_to_the_packet() {
    // No options that the router writes into, and no malformed ones.
    let option = prop_oneof![
        Just(vec![1]),
        (
            prop_oneof![Just(0x1e_u8), Just(0x9e), Just(0x82), Just(0x19)],
            prop::collection::vec(any::<u8>(), 0..12)
        )
            .prop_map(|(kind, data)| [&[kind, data.len() as u8 + 2], &data[..]].concat()),
    ];
    let options = prop::collection::vec(option, 0..5).prop_map(|options| {
        let mut bytes: Vec<u8> = options.concat();
        bytes.truncate(if bytes.len() > 40 { 0 } else { 40 });
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    });
    let flags = prop_oneof![3 => Just(0_u16), 2 => Just(0x2000), 1 => Just(0x8000)];
    let offset = prop_oneof![3 => Just(0_u16), 2 => 0..0x1fff_u16, 1 => 0x1f00..0x2000_u16];
    let cases = (options, flags, offset, 0..1450_usize, 40..1500_u16, any::<u16>(), any::<u8>());
    for way in WAYS {
        let mut router = RouterRig::new(way);
        let mut cut = 0;
        let mut runner = TestRunner::deterministic();
        for _ in 0..2000 {
            let case = cases.new_tree(&mut runner).unwrap().current();
            let (options, flags, offset, payload, mtu, id, tos) = case;
            set_mtu(&mut router, mtu);
            let sent = with_v4(with_options(&options, flags | offset, payload), |packet| {
                packet[4..6].copy_from_slice(&id.to_be_bytes());
                packet[1] = tos;
            });
            let whole = forwarded(&sent);
            let (before, left) = (router.cut(), pieces(&mut router, &[&sent[..], &[0xee; 9]].concat()));
            if whole.len() <= usize::from(mtu) {
                assert_eq!(left, [whole]);
                continue;
            }
            let wanted = (mtu >= 68).then(|| linux(&whole, mtu.into())).flatten();
            let Some(wanted) = wanted.filter(|pieces| pieces.len() <= 64) else {
                assert_eq!((left.len(), router.cut()), (0, before));
                continue;
            };
            assert_eq!(router.cut(), (before.0 + 1, before.1 + wanted.len() as u64));
            assert_eq!(left, wanted);
            assert_eq!(together(&left), whole[20 + options.len()..]);
            assert!(left.iter().all(|piece| piece.len() <= usize::from(mtu)));
            cut += 1;
        }
        assert!(cut > 500, "{cut} of 2000");
        router.end();
    }
}

/// RFC 791 §3.2: every IPv4 link carries packets of 68 bytes. A smaller MTU is a configuration error, and the
/// packet is dropped. A packet that would need more than 64 fragments is dropped too.
#[test]
fn rfc791_3_2_a_packet_that_needs_more_than_64_fragments_or_a_link_below_68_bytes_is_dropped_whole() {
    on_each_way(|router| {
        // Headers of 60 bytes, with room for eight more. The last fragment has the remainder.
        let options = [1; 40];
        for (mtu, data) in [(68, 63 * 8 + 8), (75, 63 * 8 + 15), (76, 63 * 16 + 16)] {
            set_mtu(router, mtu);
            let of = |data| with_options(&options, 0, data - udp::HEADER_LEN);
            assert_eq!(pieces(router, &of(data)).len(), 64);
            dropped(router, &of(data + 1), "frag_failed", None);
        }
        for mtu in [67, 60, 28, 20, 1, 0] {
            set_mtu(router, mtu);
            dropped(router, &may_be_cut(100), "frag_failed", None);
            dropped(router, &with_options(&options, 0, 100), "frag_failed", None);
        }
    });
}

/// The fragments leave in the position of their packet.
#[test]
fn fragments_leave_in_order_among_the_packets_around_them() {
    on_each_way(|router| {
        let burst: Vec<_> = [9, LONG, 10, 1400, 1500, 11].map(may_be_cut).into();
        let left = router.pass_burst(0, &burst);
        let lengths: Vec<_> = left.iter().map(|(_, frame)| frame.len() - ethernet::HEADER_LEN).collect();
        assert_eq!(lengths, [37, 1396, 252, 38, 1396, 52, 1396, 152, 39]);
    });
}

/// If there is no frame for one fragment, none is sent. The drop is counted, and the router goes on.
#[test]
fn a_packet_is_dropped_whole_if_there_is_no_frame_for_a_fragment_of_it() {
    on_each_way(|router| {
        set_mtu(router, 600);
        let sent = may_be_cut(1472);
        // On the full path there is a free head after this.
        router.forward(&may_be_cut(9));
        for (left, count) in [(0, 0), (1, 0), (2, 3), (9, 3)] {
            let taken = router.leave_frames(left);
            // The frames in the fill ring are available.
            let passed = pieces(router, &sent);
            assert_eq!(passed.len(), count, "{left} frames");
            drop(taken);
        }
        assert_eq!((router.drops(), router.cut()), (vec![("frag_failed", 2)], (2, 6)));
    });
}

/// A packet waits for its neighbour whole, in one slot of the queue, and is fragmented when it leaves.
#[test]
fn a_packet_waits_for_its_neighbour_whole_and_leaves_in_fragments() {
    on_each_way_of(RouterRig::that_waits, |router| {
        let sent = with_v4(may_be_cut(LONG), |packet| packet[16..20].copy_from_slice(&[10, 5, 0, 7]));
        assert_eq!(router.pass(0, &sent), []);
        assert_eq!(router.cut(), (0, 0));
        let neighbour = Neighbour { port: 1, address: "10.5.0.7".parse().unwrap() };
        router.control.apply(vec![Change::Neighbour(neighbour, Some(HOSTS[1]))]);
        let left = router.settle().into_iter().map(|(_, frame)| frame[ethernet::HEADER_LEN..].to_vec());
        assert_eq!(left.collect::<Vec<_>>(), linux(&forwarded(&sent), MTU).unwrap());
    });
}

/// Routes 10.7/16 and fd00:7::/32 to hosts by a route with an MTU of its own. Port 1 has an MTU of 1,400 bytes.
fn lead_by_own_mtu(router: &mut RouterRig, mtu: u16) {
    let via = ["10.1.0.9", "fd00:b::9"].map(|via| Neighbour { port: 1, address: via.parse().unwrap() });
    let mut changes = Vec::new();
    for ((net, neighbour), id) in ["10.7.0.0/16", "fd00:7::/32"].into_iter().zip(via).zip(70..) {
        let path = Path { port: Some(1), via: Some(neighbour.address), weight: 1, mtu: Some(mtu) };
        changes.extend([
            Change::Neighbour(neighbour, Some(HOSTS[1])),
            Change::Paths(HopId(id), [path].into()),
            Change::Route(net.parse().unwrap(), HopId(id)),
        ]);
    }
    router.control.apply(changes);
}

/// RFC 1191 §3 and §4: a route's MTU may be less than its link's. The smaller of the two is reported and used, as
/// in Linux.
#[test]
fn rfc1191_3_a_routes_own_mtu_is_reported_and_used_for_fragments_if_it_is_less_than_the_links() {
    on_each_way(|router| {
        for (own, counts) in [(1300, 1300), (600, 600), (68, 68), (1400, 1400), (1500, 1400)] {
            lead_by_own_mtu(router, own);
            let of = |length: usize, may_be_cut: bool| {
                with_v4(datagram(HOST[0], "10.7.0.1", 64, length - 28), |packet| {
                    packet[6] = if may_be_cut { 0 } else { 0x40 };
                })
            };
            assert_eq!(pieces(router, &of(counts, false)).len(), 1, "{own}");
            let left = router.pass(0, &of(counts + 1, false));
            let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
            let said = read(error);
            assert_eq!((said.kind, said.code, said.rest), (3, 4, counts as u32));
            let sent = of(counts + 1, true);
            assert_eq!(pieces(router, &sent), linux(&forwarded(&sent), counts).unwrap());
        }
    });
}

/// RFC 8200 §5: the same for IPv6, with the minimum MTU of 1,280 bytes.
#[test]
fn rfc8200_5_a_routes_own_mtu_is_reported_if_it_is_less_than_the_links_and_at_least_1280() {
    on_each_way(|router| {
        for (own, counts) in [(1300, 1300), (1000, 1280), (1500, 1400)] {
            lead_by_own_mtu(router, own);
            let of = |length: usize| datagram(HOST[1], "fd00:7::1", 64, length - 48);
            assert_eq!(router.forward(&of(counts)).len(), ethernet::HEADER_LEN + counts);
            let left = router.pass(0, &of(counts + 1));
            let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
            let said = read(error);
            assert_eq!((said.kind, said.code, said.rest), (2, 0, counts as u32));
        }
    });
}
