//! Frames to other MAC addresses.

use super::*;

/// How many programs have the interface promiscuous.
fn promiscuity(interface: &str) -> u32 {
    let shown = ip(&format!("-d link show dev {interface}"));
    let (_, behind) = shown.split_once("promiscuity ").unwrap();
    behind.split_whitespace().next().unwrap().parse().unwrap()
}

/// Seen: a bridge kept frames between its members to itself, and no counter showed that the port did not get them.
#[test]
fn a_port_on_a_bridge_gets_frames_between_its_members() {
    in_namespace("promiscuous::a_port_on_a_bridge_gets_frames_between_its_members", || {
        veth("a0", "a1", 1);
        veth("b0", "b1", 1);
        ip("link add br0 type bridge");
        ip("link set dev br0 up");
        ip("link set dev a0 master br0");
        ip("link set dev b0 master br0");
        let mut here = bench(64);
        let config = XdpConfig { mode: XdpModePreference::Generic, ..small() };
        let mut port = here.open_with("br0", 0, &config).unwrap();
        let wire = Wire::open("a1");
        let mut frames = Batch::new();
        wait_for("a frame to another address", || {
            wire.send(&ethernet(7));
            port.kick();
            port.rx(&mut here.w, &mut frames);
            frames.iter().any(|frame| frame.data() == ethernet(7)).then_some(())
        });
        assert_eq!(port.complaint(), None);
    });
}

#[test]
fn an_interface_is_promiscuous_while_a_port_takes_all_its_packets_and_not_for_some() {
    let name = "promiscuous::an_interface_is_promiscuous_while_a_port_takes_all_its_packets_and_not_for_some";
    in_namespace(name, || {
        veth("a0", "a1", 2);
        let mut here = bench(256);
        let some = XdpConfig { take: Some("udp:7".parse().unwrap()), ..small() };
        let port = here.open_with("a0", 0, &some).unwrap();
        assert_eq!(promiscuity("a0"), 0);
        drop(port);
        let (one, other) = (here.open_with("a0", 0, &small()), here.open_with("a0", 1, &small()));
        assert_eq!(promiscuity("a0"), 1);
        drop(one.unwrap());
        assert_eq!(promiscuity("a0"), 1);
        drop(other.unwrap());
        assert_eq!(promiscuity("a0"), 0);
    });
}
