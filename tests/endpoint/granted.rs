//! The example `udp_echo` with a grant.

use super::{Example, lay};
use crate::testbed::{PATIENCE, example, scratch, wait_until};
use netmem::port::xdp::{GrantListener, XdpGrant, XdpModePreference};
use std::io::Read;
use std::process::Stdio;

/// Seen: the server printed nothing and never ended, although it needs another grant to open its interface again.
#[test]
fn a_granted_echo_ends_with_the_reason_when_its_interface_is_removed() {
    let Some(bed) = lay(&[]) else { return };
    let socket = scratch("echo-grant");
    let listener = GrantListener::open(&socket, 0o600, None).expect("listens");
    let mut command = bed.dut.command(&example("netmem", "udp_echo").display().to_string());
    let command = command.arg(&socket).arg("7").stderr(Stdio::piped());
    let mut server = Example(command.spawn().expect("the example starts"));
    listener.wait(PATIENCE);
    let request = listener.accept().expect("a request");
    let take = "udp:7".parse().expect("a rule");
    let grant =
        bed.dut.inside(|| XdpGrant::new("one", &[0], XdpModePreference::default(), &take)).expect("a grant");
    request.give(&grant).expect("given");
    drop(grant);
    wait_until("the echo has its interface", || bed.program("one").is_some() && bed.sockets() == 1);
    bed.dut.ip("link del one");
    let mut status = None;
    wait_until("the echo ends", || {
        status = server.0.try_wait().expect("wait");
        status.is_some()
    });
    let mut said = String::new();
    server.0.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
    assert_eq!(status.and_then(|status| status.code()), Some(2), "{said}");
    assert!(said.contains("interface one is gone; start again for another grant"), "{said}");
}
