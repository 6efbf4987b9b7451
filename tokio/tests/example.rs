//! The example `shared_echo` and clients of another host: each is answered, also after the link was down, and SIGTERM
//! ends it with every frame free.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use rustix::process::{Pid, Signal, kill_process};
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::time::Duration;
use testbed::{Testbed, Wiring, example, wait_until};

/// The example; killed when dropped.
struct Server(Option<Child>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.take().map(|mut server| server.kill().and_then(|()| server.wait()));
    }
}

/// Asks until the echo answers.
fn ask(bed: &Testbed, question: &[u8]) {
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    wait_until("the echo answers", || {
        let _ = socket.send_to(question, ("10.77.0.254", 7));
        let mut answer = [0; 64];
        socket.recv(&mut answer).is_ok_and(|len| answer[..len] == *question)
    });
}

#[test]
fn each_client_is_answered_and_sigterm_ends_the_server_with_all_frames_free() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let mut command = bed.dut.command(&example("netmem-tokio", "shared_echo").display().to_string());
    let server = command.args(["one", "10.77.0.254:7"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut server = Server(Some(server));
    wait_until("the server has its interface", || bed.dut.xdp_sockets() == 1);
    (0..100_u8).for_each(|client| ask(&bed, &[client; 33]));
    bed.dut.ip("link set one down");
    bed.dut.ip("link set one up");
    ask(&bed, b"after the link was down");
    // Another echo service would answer the answer, and so on.
    let service = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 7)).unwrap());
    service.send_to(b"echo", ("10.77.0.254", 7)).unwrap();
    (0..10_u8).for_each(|client| ask(&bed, &[client; 20]));
    service.set_nonblocking(true).unwrap();
    assert!(service.recv(&mut [0; 64]).is_err(), "the service's own port is not answered");

    let child = server.0.take().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let out = child.wait_with_output().unwrap();
    let printed = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{printed}");
    assert!(printed.ends_with("everything is sent: true, all frames are free: true\n"), "{printed}");
    bed.assert_nothing_left();
}
