//! The meaning of messages about neighbours.

use super::*;
use netlink_packet_route::neighbour::{NeighbourExtFlags, NeighbourFlags};

/// The MAC address of a group of stations.
const GROUP: [u8; 6] = [3, 0xbf, 0, 0, 0, 1];

#[test]
fn a_neighbours_state_is_derived_from_its_nud_state_and_its_mac_address() {
    let mac = [2, 0, 0, 0, 0, 1];
    let known = |message| match &read(&bytes(message, 0)).0[..] {
        [Event::Neighbour { link: 3, state, .. }] => *state,
        other => panic!("{other:?}"),
    };
    for (state, mac, means) in [
        (NudState::Reachable, mac.to_vec(), NeighbourState::Reachable(MacAddr::new(mac))),
        (NudState::Permanent, mac.to_vec(), NeighbourState::Reachable(MacAddr::new(mac))),
        (NudState::Noarp, mac.to_vec(), NeighbourState::Reachable(MacAddr::new(mac))),
        (NudState::Probe, mac.to_vec(), NeighbourState::Stale(MacAddr::new(mac))),
        (NudState::Failed, mac.to_vec(), NeighbourState::Failed),
        (NudState::Incomplete, mac.to_vec(), NeighbourState::Unknown),
        (NudState::Reachable, vec![1, 0, 0x5e, 0, 0, 1], NeighbourState::Unknown),
        (NudState::Reachable, vec![2, 0, 0, 0], NeighbourState::Unknown),
        (NudState::Permanent, GROUP.to_vec(), NeighbourState::Unusable),
        (NudState::Noarp, GROUP.to_vec(), NeighbourState::Unusable),
        // The kernel's entry for a broadcast address.
        (NudState::Noarp, vec![0xff; 6], NeighbourState::Unknown),
    ] {
        let message = neighbour(state, Some(mac));
        assert_eq!(known(RouteNetlinkMessage::NewNeighbour(message.clone())), means, "{message:?}");
        assert_eq!(known(RouteNetlinkMessage::DelNeighbour(message)), NeighbourState::Unknown);
    }
}

/// Seen in a namespace: a request (NTF_USE) made a permanent entry one that the kernel asks for, and cleared `managed` and
/// `extern_learn` of other entries.
#[test]
fn no_request_is_due_about_an_entry_that_a_routing_daemon_or_the_kernel_keeps_up_to_date() {
    let mac = [2, 0, 0, 0, 0, 1];
    let known = NeighbourState::Reachable(MacAddr::new(mac));
    let learned = |message: &mut NeighbourMessage| message.header.flags = NeighbourFlags::ExtLearned;
    let managed = |message: &mut NeighbourMessage| {
        message.attributes.push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
    };
    for mark in [learned as fn(&mut NeighbourMessage), managed] {
        for (state, mac, means) in [
            (NudState::Stale, Some(mac.to_vec()), known),
            (NudState::Probe, Some(mac.to_vec()), known),
            (NudState::Reachable, Some(GROUP.to_vec()), NeighbourState::Unusable),
            (NudState::Failed, None, NeighbourState::Unusable),
            (NudState::None, None, NeighbourState::Unusable),
            (NudState::Incomplete, None, NeighbourState::Awaited),
        ] {
            let mut message = neighbour(state, mac);
            mark(&mut message);
            let (all, _) = read(&bytes(RouteNetlinkMessage::NewNeighbour(message.clone()), 0));
            let [Event::Neighbour { state, .. }] = all[..] else { panic!("{all:?}") };
            assert_eq!(state, means, "{message:?}");
        }
    }
}

#[test]
fn the_kernels_entries_for_groups_are_no_neighbours() {
    let mut message = neighbour(NudState::Noarp, Some(vec![1, 0, 0x5e, 0, 0, 5]));
    message.attributes[0] =
        NeighbourAttribute::Destination(NeighbourAddress::Inet(Ipv4Addr::new(224, 0, 0, 5)));
    assert_eq!(read(&bytes(RouteNetlinkMessage::NewNeighbour(message), 0)), (vec![], 0));
}
