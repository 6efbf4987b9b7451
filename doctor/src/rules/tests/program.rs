//! Programs of other owners on the interface of an xdp port.

use super::*;

#[test]
fn a_port_that_only_transmits_in_copy_mode_may_be_beside_the_program_of_another_owner() {
    let is_found = |takes_none, copies, zero_copy| {
        let (mut host, mut wanted) = (good_host(), wanted());
        eth0(&mut host).program = Some("\"other\" (number 7), held by x (process 9)".into());
        if let Some(modes) = &mut eth0(&mut host).modes {
            modes.zero_copy = zero_copy;
        }
        (place(&mut wanted).takes_none, place(&mut wanted).copies) = (takes_none, copies);
        findings(&host, &wanted).iter().any(|finding| finding.rule == "program")
    };
    assert!(!is_found(true, false, false) && is_found(true, false, true) && !is_found(true, true, true));
    assert!(is_found(false, false, false) && is_found(false, true, false));
}

/// Seen: the remedy was `ip link set dev eth0 xdp off`, which does not remove a program that a BPF link holds.
#[test]
fn a_program_of_a_bpf_link_is_not_to_be_removed_by_ip() {
    let remedy = |program: &str| {
        let mut host = good_host();
        eth0(&mut host).program = Some(program.into());
        let found = findings(&host, &wanted()).into_iter().find(|finding| finding.rule == "program");
        found.unwrap().remedy
    };
    let unseen = "held by no process that can be seen";
    assert!(remedy(&format!("\"other\" (number 7), {unseen}")).contains("ip link set dev eth0 xdp off"));
    assert!(remedy(&format!("\"other\" (number 7, by netlink), {unseen}")).contains("xdp off"));
    assert!(
        remedy(&format!("\"other\" (number 7, by a BPF link), {unseen}")).contains("bpftool -f link show")
    );
    let held = remedy("\"other\" (number 7, by a BPF link), held by x (process 9)");
    assert!(held.starts_with("stop that process") && !held.contains("ip link"), "{held}");
}
