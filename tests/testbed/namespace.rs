//! One network namespace, and what can be done in it.

use super::{child, skip, wait_until};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::process::{self, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

/// A network namespace with a unique name. It is removed when dropped.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with its loopback up, IPv6 off, and IPv4's settings off that the machine outside may have on, for the
    /// host of that name.
    ///
    /// # Errors
    /// The output of ip(8), or the error of a setting.
    pub fn new(host: &str) -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let cannot = |why: &str| Err(format!("cannot make network namespaces: {}", why.trim()));
        let name = loop {
            let name = format!("netmem-{}-{}-{host}", process::id(), NEXT.fetch_add(1, Relaxed));
            let out = output(Command::new("ip").args(["netns", "add", &name]));
            let said = String::from_utf8_lossy(&out.stderr);
            // A killed process that had this number has left one.
            match out.status.success() {
                true => break name,
                false if said.contains("File exists") => {}
                false => return cannot(&said),
            }
        };
        let namespace = Namespace { name };
        if let Err(error) = namespace.switch_off_ipv4_settings() {
            return cannot(&format!("its settings of IPv4: {error}"));
        }
        namespace.set_ipv6(false);
        namespace.ip("link set dev lo up");
        Ok(namespace)
    }

    /// Switches off what would change the answers of a host or a router, for all interfaces, those to come too. IPv4's
    /// settings begin as they are outside.
    fn switch_off_ipv4_settings(&self) -> io::Result<()> {
        self.inside(|| -> io::Result<()> {
            // In this order: a write to `forwarding` may change others.
            for setting in
                ["forwarding", "rp_filter", "arp_ignore", "arp_filter", "accept_local", "proxy_arp"]
            {
                for interfaces in ["all", "default"] {
                    fs::write(format!("/proc/sys/net/ipv4/conf/{interfaces}/{setting}"), "0")?;
                }
            }
            Ok(())
        })
    }

    /// Its name for ip-netns(8).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a namespace of that name exists.
    pub fn exists(name: &str) -> bool {
        let out = output(Command::new("ip").args(["netns", "list"]));
        String::from_utf8_lossy(&out.stdout).split_whitespace().any(|word| word == name)
    }

    /// Switches IPv6 on or off for all interfaces, those to come too.
    pub fn set_ipv6(&self, on: bool) {
        let disable = if on { "0" } else { "1" };
        for interfaces in ["default", "all"] {
            let key = format!("/proc/sys/net/ipv6/conf/{interfaces}/disable_ipv6");
            // Not there in a kernel without IPv6, which is just as well.
            self.inside(|| fs::write(key, disable).ok());
        }
    }

    /// A program that is to run inside. It does not outlive the thread that starts it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        child::tie(&mut command);
        command
    }

    /// Runs a program inside with these arguments (split at spaces). Returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, program: &str, words: &str) -> String {
        succeed(self.command(program).args(words.split_whitespace()))
    }

    /// Sends `count` pings, at these settings, and asserts that each of them is answered.
    ///
    /// With a deadline (`-w`) ping waits for replies. Without one it gives up one interval after its last packet, and a
    /// forwarder that was not scheduled meanwhile seems to have lost it. Packets that it sends beyond `count` do not
    /// matter.
    pub fn ping(&self, address: &str, count: usize, settings: &str) {
        let said = self.run("ping", &format!("-c {count} -w 60 {settings} {address}"));
        for seq in 1..=count {
            assert!(said.contains(&format!("icmp_seq={seq} ")), "{seq} of {count} was not answered: {said}");
        }
    }

    /// Runs `ip` with these arguments (split at spaces) for this namespace. Returns its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn ip(&self, words: &str) -> String {
        succeed(Command::new("ip").args(["-n", &self.name]).args(words.split_whitespace()))
    }

    /// Waits until the kernel has noticed that an interface got its other end. Until then it drops what the interface is
    /// to send, and reports it as sent. A TAP interface that a process makes has one from its beginning, and is in
    /// another state.
    ///
    /// # Panics
    /// When patience is at its end.
    pub fn wait_for_the_carrier(&self, interface: &str) {
        let words = format!("link show dev {interface}");
        wait_until(&format!("{interface} has its carrier"), || self.ip(&words).contains("state UP"));
    }

    /// Runs ip(8) or tc(8) with these arguments (split at spaces) for this namespace. If the kernel lacks the kind of
    /// interface or of queueing discipline that they name, prints that the test on this thread is skipped, and returns
    /// false.
    ///
    /// # Panics
    /// When it fails for another reason.
    #[allow(dead_code, reason = "for tests of kinds that are modules of the kernel")]
    pub fn makes(&self, program: &str, words: &str) -> bool {
        let mut command = Command::new(program);
        let out = output(command.args(["-n", &self.name]).args(words.split_whitespace()));
        let said = String::from_utf8_lossy(&out.stderr);
        if ["Unknown device type", "qdisc kind is unknown"].iter().any(|lacks| said.contains(lacks)) {
            skip(&format!("needs a kernel with the kind in `{program} {words}`: {}", said.trim()));
            return false;
        }
        assert!(out.status.success(), "{command:?} failed: {said}");
        true
    }

    /// Gives an interface that is up another name. It stays up where the kernel allows that (since Linux 6.2).
    #[allow(dead_code, reason = "for tests of names")]
    pub fn rename(&self, from: &str, to: &str) {
        let words = format!("link set dev {from} name {to}");
        let mut command = Command::new("ip");
        let out = output(command.args(["-n", &self.name]).args(words.split_whitespace()));
        let said = String::from_utf8_lossy(&out.stderr);
        if said.contains("Device or resource busy") {
            self.ip(&format!("link set dev {from} down"));
            self.ip(&words);
            self.ip(&format!("link set dev {to} up"));
        } else {
            assert!(out.status.success(), "{command:?} failed: {said}");
        }
    }

    /// AF_XDP sockets open inside.
    pub fn xdp_sockets(&self) -> usize {
        let protocols = self.inside(|| fs::read_to_string("/proc/thread-self/net/protocols"));
        xdp_sockets(&protocols.expect("/proc/net/protocols")).expect("a line XDP in it")
    }

    /// Runs `f` on a thread inside the namespace. A socket that it opens stays of this namespace.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let there = File::open(format!("/run/netns/{}", self.name)).expect("the namespace");
        let enter = move || {
            move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).expect("setns(2)");
            f()
        };
        thread::scope(|scope| scope.spawn(enter).join().expect("a thread inside the namespace"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        output(Command::new("ip").args(["netns", "del", &self.name]));
    }
}

/// The number of sockets in the line XDP of /proc/net/protocols: name, size, sockets.
pub fn xdp_sockets(protocols: &str) -> Option<usize> {
    let line = protocols.lines().find(|line| line.starts_with("XDP "))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn succeed(command: &mut Command) -> String {
    let out = output(command);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?} failed: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}
