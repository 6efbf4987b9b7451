//! Network namespaces for tests. Each test runs in a child process inside its own namespace, which is removed
//! afterwards, also if the test fails.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, io, process};

/// Set for the child: the name of the test that it is to run.
const INSIDE: &str = "NETMEM_TEST_INSIDE";

/// Runs `body` in its own network namespace, with IPv6 off so that only the test's frames are sent.
///
/// Prints "SKIPPED" with the reason if that is not possible. Fails instead if NETMEM_NO_SKIP is 1.
///
/// # Panics
/// If the child fails. Its output is shown.
pub fn in_namespace(test: &str, body: impl FnOnce()) {
    if env::var(INSIDE).is_ok_and(|inside| inside == test) {
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").ok();
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
        return body();
    }
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(reason) => return skip(test, &reason),
    };
    let out = again(test)
        .args_before(&["ip", "netns", "exec", &namespace.name])
        .stdin(Stdio::null())
        .output()
        .expect("run the test in the namespace");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("1 passed"), "{test} inside {}:\n{text}", namespace.name);
}

/// Runs this test program again, for one test, which is then inside.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the test program's path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, test);
    command
}

/// Puts words before a command's own.
trait ArgsBefore {
    fn args_before(&self, words: &[&str]) -> Command;
}

impl ArgsBefore for Command {
    fn args_before(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.get_program()).args(self.get_args());
        for (key, value) in self.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        command
    }
}

/// Prints on the terminal (past the test runner's capture) that a test was not run, and why.
pub fn skip(test: &str, reason: &str) {
    assert!(env::var_os("NETMEM_NO_SKIP").is_none_or(|v| v != "1"), "{test} must not be skipped: {reason}");
    writeln!(io::stderr(), "SKIPPED {test}: {reason}").expect("stderr");
}

/// Runs `ip` with these words (split at spaces).
///
/// # Panics
/// When it fails.
pub fn ip(words: &str) -> String {
    let out = run("ip", words).expect("ip(8)");
    assert!(out.status.success(), "ip {words}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A veth pair, both ends up, `queues` queues each way. Waits until both carry packets: the kernel drops those that are
/// sent before it has heard of the carrier, and reports them as sent.
///
/// # Panics
/// If they do not within two minutes.
pub fn veth(one: &str, other: &str, queues: u32) {
    let n = format!("numrxqueues {queues} numtxqueues {queues}");
    ip(&format!("link add {one} {n} type veth peer name {other} {n}"));
    ip(&format!("link set dev {one} up"));
    ip(&format!("link set dev {other} up"));
    let begun = Instant::now();
    while ![one, other].iter().all(|end| ip(&format!("link show dev {end}")).contains("state UP")) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{one} and {other} do not carry packets");
    }
}

fn run(program: &str, words: &str) -> io::Result<Output> {
    Command::new(program).args(words.split_whitespace()).stdin(Stdio::null()).output()
}

/// A namespace with a unique name. It is removed when dropped.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new() -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Err("not root".into());
        }
        loop {
            let name = format!("netmem-{}-{}", process::id(), NEXT.fetch_add(1, Relaxed));
            let out = run("ip", &format!("netns add {name}"))
                .map_err(|error| format!("no ip(8), install iproute2 ({error})"))?;
            let said = String::from_utf8_lossy(&out.stderr);
            // A killed process that had this number has left one.
            match out.status.success() {
                true => return Ok(Namespace { name }),
                false if said.contains("File exists") => {}
                false => return Err(said.trim().into()),
            }
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run("ip", &format!("netns del {}", self.name)).ok();
    }
}

/// An AF_PACKET socket on one interface: the host at the other end of the wire.
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// Opens it on the interface of that name.
    pub fn open(interface: &str) -> Wire {
        let every_protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: socket(2) takes no pointers.
        let fd = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, every_protocol.into())
        };
        assert!(fd >= 0, "packet socket: {}", io::Error::last_os_error());
        // SAFETY: the descriptor is new, and no other code has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let index = rustix::net::netdevice::name_to_index(&socket, interface).expect("the interface");
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every_protocol;
        address.sll_ifindex = index as i32;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is a sockaddr_ll of that length and outlives the call.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(bound, 0, "bind packet socket: {}", io::Error::last_os_error());
        // Guards against a hang, nothing else.
        let patience = Some(std::time::Duration::from_secs(60));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, patience)
            .expect("receive timeout");
        Wire { socket }
    }

    /// Puts one frame onto the wire.
    pub fn send(&self, frame: &[u8]) {
        let sent = rustix::net::send(&self.socket, frame, rustix::net::SendFlags::empty()).expect("send");
        assert_eq!(sent, frame.len());
    }

    /// Waits for one frame.
    pub fn receive(&self) -> Vec<u8> {
        let mut frame = vec![0; 4096];
        let (len, _) = rustix::net::recv(&self.socket, &mut frame[..], rustix::net::RecvFlags::empty())
            .expect("receive");
        frame.truncate(len);
        frame
    }
}
