//! Interfaces that are renamed while a router by the kernel's routes has them.

use crate::router::Router;
use crate::testbed::wait_until;

/// Whether netmem knows a neighbour on the interface with this name.
fn has_interface(router: &Router, name: &str) -> bool {
    router.stat("neighbours").iter().any(|neighbour| neighbour["dev"] == name)
}

/// Gives interfaces other names, from and to, while packets pass by two that have these `names` at the end. Returns what
/// netmem said.
fn renamed(ports: [&str; 2], steps: &[(&str, &str)], names: [&str; 2]) -> Option<String> {
    let router = Router::start_on(ports, &["ping"], &[])?;
    wait_until("packets pass", || router.pings("10.77.2.1"));
    for (from, to) in steps {
        router.bed.dut.rename(from, to);
    }
    wait_until("netmem has the new names", || names.iter().all(|name| has_interface(&router, name)));
    wait_until("packets pass again", || router.pings("10.77.2.1"));
    let (_, said) = router.end_with();
    Some(said)
}

/// Whether it reported the new name of the port's interface.
fn has_said(said: &str, port: &str, name: &str) -> bool {
    let begin = format!("netmem: port {port}: its interface ");
    let end = format!("or restart netmem with {name}");
    said.lines().any(|line| line.starts_with(&begin) && line.ends_with(&end))
}

/// Seen: routes and neighbours went with the name, and all packets were dropped as `not_for_us` without a word.
#[test]
fn packets_pass_by_an_interface_that_was_renamed_and_a_line_says_so() {
    for ports in [["packet:one", "packet:two"], ["xdp:one", "xdp:two"]] {
        let Some(said) = renamed(ports, &[("two", "uplink")], ["one", "uplink"]) else { return };
        assert!(has_said(&said, ports[1], "uplink"), "{said}");
    }
}

#[test]
fn packets_pass_by_two_interfaces_that_have_swapped_their_names() {
    let swap = [("one", "third"), ("two", "one"), ("third", "two")];
    let Some(said) = renamed(["packet:one", "packet:two"], &swap, ["one", "two"]) else { return };
    assert!(has_said(&said, "packet:one", "two"), "{said}");
    assert!(has_said(&said, "packet:two", "one"), "{said}");
}

/// Seen: the summary showed the address that the interface had at the start.
#[test]
fn the_summary_has_the_address_that_an_interface_has_at_the_end() {
    let Some(router) = Router::start_on(["packet:one", "packet:two"], &["ping"], &[]) else { return };
    wait_until("packets pass", || router.pings("10.77.2.1"));
    const NEW: &str = "02:00:00:00:77:01";
    router.bed.dut.ip(&format!("link set one address {NEW}"));
    let (summary, said) = router.end_with();
    let detail = summary["ports"][0]["detail"].as_str().expect("a detail");
    assert!(detail.ends_with(&format!("address {NEW}")), "{detail}");
    assert!(said.contains(&format!("interface one now has address {NEW} and MTU ")), "{said}");
}
