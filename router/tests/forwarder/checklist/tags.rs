//! 802.1Q tags on frames of a link without VLANs.

use super::*;

/// Inserts tags behind a frame's addresses.
fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

/// A tag with the highest priority, one with the drop eligible bit, and one with all fields 0.
const PRIORITIES: [[u8; 4]; 3] = [[0x81, 0, 0xe0, 0], [0x81, 0, 0x10, 0], [0x81, 0, 0, 0]];

/// IEEE 802.1Q: a priority-tagged frame is treated like an untagged one. Linux takes the tag off too.
///
/// Seen: such frames of industrial and wireless equipment were dropped for an unknown ethertype.
#[test]
fn priority_tagged_frames_are_forwarded_answered_and_queued_as_untagged_ones() {
    on_each_way_of(RouterRig::that_waits, |router| {
        let mut frames = Vec::new();
        for (host, other) in HOST.into_iter().zip(OTHER) {
            for (hops, payload) in [(64, 30), (64, 1), (1, 30), (2, 300)] {
                frames.push(datagram(host, other, hops, payload));
            }
        }
        for tag in PRIORITIES {
            for frame in &frames {
                let wanted = router.pass(0, frame);
                assert_eq!(wanted.len(), 1);
                assert_eq!(router.pass(0, &tagged(frame, &tag)), wanted);
                assert_eq!(router.pass(0, &padded(&tagged(frame, &tag))), wanted);
            }
        }
        // A full burst, in which every third frame is tagged.
        let usual: Vec<Vec<u8>> = frames.iter().cycle().take(64).cloned().collect();
        let odd = usual.iter().enumerate();
        let burst: Vec<_> = odd
            .map(|(i, frame)| if i % 3 == 0 { tagged(frame, &PRIORITIES[0]) } else { frame.clone() })
            .collect();
        let wanted = router.pass_burst(0, &usual);
        assert_eq!((wanted.len(), router.pass_burst(0, &burst)), (64, wanted));
        let waits = datagram(HOST[0], "10.5.0.7", 64, 30);
        assert_eq!(router.pass(0, &tagged(&waits, &PRIORITIES[0])), []);
        let neighbour = Neighbour { port: 1, address: "10.5.0.7".parse().unwrap() };
        router.control.apply(vec![Change::Neighbour(neighbour, Some(HOSTS[1]))]);
        let left = router.settle();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].1[12..14], waits[12..14]);
        assert_eq!(left[0].1[34..], waits[34..]);
    });
}

#[test]
fn frames_of_a_vlan_with_two_tags_or_half_a_tag_are_dropped_as_not_ip() {
    on_each_way(|router| {
        let frame = datagram(HOST[0], OTHER[0], 64, 30);
        for tags in
            [&[0x81, 0, 0xe0, 5][..], &[0x81, 0, 1, 0], &[0x88, 0xa8, 0, 0], &[0x81, 0, 0, 0, 0x81, 0, 0, 0]]
        {
            dropped(router, &tagged(&frame, tags), "unknown_ethertype", None);
        }
        for length in 14..18 {
            dropped(router, &tagged(&frame, &PRIORITIES[0])[..length], "unknown_ethertype", None);
        }
        dropped(router, &tagged(&frame, &PRIORITIES[0])[..18], "short", None);
        dropped(router, &tagged(&super::frame(ethernet::ARP, &[0; 28]), &PRIORITIES[0]), "arp", None);
    });
}
