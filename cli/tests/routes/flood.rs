//! More events than the socket holds.

use crate::comparison::assert_same;
use crate::router::Router;
use crate::testbed::scratch;
use rustix::process::Signal;
use std::fmt::Write;
use std::fs;

/// Enough events for some megabytes, more than netmem keeps room for at first.
const ROUTES: u32 = 30_000;

#[test]
fn changes_lost_while_netmem_was_stopped_are_read_by_a_resync() {
    let Some(router) = Router::start(&[], &[]) else { return };
    assert_same(&router);
    let before = router.number("netlink", "resyncs");
    router.signal(Signal::STOP);
    batch(&router, "add", |_| true);
    batch(&router, "del", |n| n % 3 == 0);
    router.signal(Signal::CONT);
    assert!(assert_same(&router) >= ROUTES as usize / 3 * 2);
    let [overruns, after] = ["overruns", "resyncs"].map(|name| router.number("netlink", name));
    assert!(overruns > 0 && after > before, "{overruns} overruns, {before} then {after} resyncs");
    router.end();
}

/// Does this to every route whose number is chosen.
fn batch(router: &Router, what: &str, chosen: impl Fn(u32) -> bool) {
    let mut lines = String::new();
    for n in (0..ROUTES).filter(|n| chosen(*n)) {
        let [_, a, b, c] = (n << 4).to_be_bytes();
        writeln!(lines, "route {what} 100.{a}.{b}.{c}/28 via 10.77.2.1").expect("a String");
    }
    let path = scratch("batch");
    fs::write(&path, lines).expect("a file for ip -batch");
    router.bed.dut.ip(&format!("-batch {}", path.display()));
    fs::remove_file(path).expect("the file");
}
