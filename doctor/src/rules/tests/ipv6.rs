//! Forwarding of IPv6 by the kernel, and what it takes from router advertisements.

use super::{good_host, packet, soft, wanted};
use crate::findings;
use crate::host::Host;
use crate::wanted::{Device, Wanted};

/// Adds a packet port on an interface with IPv6, and turns this setting of IPv6 on.
pub fn turn_on(host: &mut Host, wanted: &mut Wanted, setting: &str) {
    host.interfaces.insert("eth2".into(), soft("veth", None));
    host.settings.insert("net.ipv6.conf.eth2.disable_ipv6".into(), "0".into());
    host.settings.insert(format!("net.ipv6.conf.{setting}"), "1".into());
    wanted.ports.push(packet("eth2"));
}

/// Makes the kernel a host of IPv6 on this interface, as it is by default.
pub fn be_host(host: &mut Host, interface: &str) {
    for (setting, value) in [("disable_ipv6", "0"), ("accept_ra", "1"), ("forwarding", "0")] {
        host.settings.insert(format!("net.ipv6.conf.{interface}.{setting}"), value.into());
    }
}

/// Seen: `conf.IF.forwarding` was read and set, by which IPv6 is not forwarded.
#[test]
fn ipv6_is_forwarded_by_the_setting_of_all_interfaces_or_by_force_and_only_the_latter_is_changed() {
    let found = |settings: &[&str]| {
        let (mut host, mut wanted) = (good_host(), wanted());
        settings.iter().for_each(|setting| turn_on(&mut host, &mut wanted, setting));
        wanted.ports.truncate(3);
        findings(&host, &wanted)
    };
    assert_eq!(found(&["eth2.forwarding"]), [], "that makes it a router, and forwards nothing");
    for by_all in [&["all.forwarding"][..], &["all.forwarding", "eth2.force_forwarding"]] {
        let found = found(by_all);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!(finding.change, None, "its undo would not be exact");
        assert!(finding.remedy.starts_with("sysctl -w net.ipv6.conf.all.forwarding=0 net."), "{finding}");
    }
    let change = found(&["eth2.force_forwarding"]).remove(0).change.unwrap();
    assert_eq!(change.to_string(), "sysctl -w net.ipv6.conf.eth2.force_forwarding=0");
    assert_eq!(found(&["all.forwarding", "eth2.disable_ipv6"]), [], "it receives no IPv6");
}

/// Found in a review: `net.ipv6.conf.all.forwarding=0` alone, which the doctor advised, makes the kernel a host on every
/// interface, and routes in router advertisements of any host on a link were followed.
#[test]
fn where_the_kernel_is_to_stop_forwarding_ipv6_it_stays_a_router_on_the_ports() {
    let remedy = |routes| {
        let (mut host, mut wanted) = (good_host(), wanted());
        turn_on(&mut host, &mut wanted, "all.forwarding");
        host.settings.insert("net.ipv6.conf.eth0.disable_ipv6".into(), "0".into());
        wanted.routes = routes;
        findings(&host, &wanted).remove(0).remedy
    };
    let stop = "sysctl -w net.ipv6.conf.all.forwarding=0";
    let router = " net.ipv6.conf.eth0.forwarding=1 net.ipv6.conf.eth2.forwarding=1";
    assert!(remedy(true).starts_with(&format!("{stop}{router} if ")), "{}", remedy(true));
    assert!(remedy(false).starts_with(&format!("{stop} if ")), "{}", remedy(false));
}

/// As above.
#[test]
fn router_advertisements_are_found_where_the_kernel_is_a_host_and_its_routes_are_followed() {
    let lines = |plant: fn(&mut Host, &mut Wanted)| {
        let (mut host, mut wanted) = (good_host(), wanted());
        be_host(&mut host, "eth0");
        plant(&mut host, &mut wanted);
        findings(&host, &wanted).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    fn set(host: &mut Host, setting: &str, value: &str) {
        host.settings.insert(format!("net.ipv6.conf.eth0.{setting}"), value.into());
    }
    for plant in [|_, _| (), |_, wanted| wanted.ports[0] = packet("eth0")] as [fn(&mut Host, &mut Wanted); 2]
    {
        let found = lines(plant);
        let [line] = &found[..] else { panic!("{found:?}") };
        assert!(line.contains(" a router advertisement of any host on the link changes "), "{line}");
        assert!(line.ends_with(": sysctl -w net.ipv6.conf.eth0.forwarding=1"), "{line}");
    }
    let none = Vec::<String>::new();
    assert_eq!(lines(|host, _| set(host, "accept_ra", "2")), none, "the operator wants them");
    assert_eq!(lines(|host, _| set(host, "accept_ra", "0")), none);
    assert_eq!(lines(|host, _| set(host, "forwarding", "1")), none, "a router ignores them");
    assert_eq!(lines(|host, _| set(host, "disable_ipv6", "1")), none);
    assert_eq!(lines(|_, wanted| wanted.kernel_routes = false), none, "they change no route of netmem");
    let away = |_: &mut Host, wanted: &mut Wanted| {
        let Device::Xdp(place) = &mut wanted.ports[0].device else { unreachable!() };
        place.leaves_control = false;
    };
    assert_eq!(lines(away), none, "the kernel does not get them");
}

/// Found in a review: `--fix` made the kernel a router on a port, by which the interface of the management lost its default route.
#[test]
fn where_another_interface_would_lose_its_routes_of_advertisements_no_change_is_made() {
    let found = |advertised: &[&str]| {
        let (mut host, mut wanted) = (good_host(), wanted());
        be_host(&mut host, "eth0");
        wanted.ports.truncate(1);
        host.advertised = advertised.iter().map(|name| (*name).to_owned()).collect();
        findings(&host, &wanted).remove(0)
    };
    assert!(found(&["eth0"]).change.is_some(), "the port is to lose them");
    let finding = found(&["eth0", "mgmt0.7"]);
    let remedy = "sysctl -w net.ipv6.conf.mgmt0/7.accept_ra=2 net.ipv6.conf.eth0.forwarding=1; ";
    assert!(finding.change.is_none() && finding.remedy.starts_with(remedy), "{finding}");
    assert!(finding.remedy.ends_with(" gave mgmt0.7"), "{finding}");
}
