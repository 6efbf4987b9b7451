//! The kernel's packet filter, which does not see what netmem forwards.

use crate::router::{Router, addressed};
use std::process::Output;

/// Seen: a chain with the policy drop at the hook `forward` had no effect on what netmem forwarded, and no line said so.
#[test]
fn a_packet_filter_of_the_kernel_that_does_not_apply_is_named_at_the_start_and_by_the_doctor() {
    let Some(bed) = addressed(&["nft"]) else { return };
    let nft = |rules: &str| {
        let out = bed.dut.command("nft").arg(rules).output().expect("nft");
        assert!(out.status.success(), "{out:?}");
    };
    let doctor = || {
        let mut netmem = bed.dut.command(env!("CARGO_BIN_EXE_netmem"));
        let Output { stdout, .. } = netmem.args(["doctor", "one", "two"]).output().expect("netmem");
        String::from_utf8(stdout).expect("text")
    };
    nft("add table inet fw; add chain inet fw f { type filter hook forward priority 0; policy accept; }");
    assert!(!doctor().contains("packet filter"), "{}", doctor());
    nft("add chain inet fw f { policy drop; }");
    let line = "the kernel's packet filter and NAT (nftables inet fw f) do not apply to what netmem forwards";
    assert!(doctor().contains(line), "{}", doctor());
    let router = Router::start_in(bed, ["xdp:one", "xdp:two"], &[]);
    let (_, said) = router.end_with();
    assert!(said.contains(line), "{said}");
}
