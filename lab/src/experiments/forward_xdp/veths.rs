//! Two hosts and a machine between them, inside this one: three network namespaces joined by veth pairs. COLD.
//!
//! ```text
//!   h1                            dut                            h2
//!   eth0 ═══════════════════ one       two ═══════════════════ eth0
//!   10.77.1.1                10.77.1.254 10.77.2.254           10.77.2.1
//! ```
//! The hosts' addresses are in packets only: nobody answers. The machine has its own two where the kernel is the router.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use netmem::port::Port;
use netmem::port::packet;
use netmem::sys::netns;

/// The link address of host 1 or 2, and that of the interface that faces it.
pub(super) fn host_mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, host, 1]
}

/// See [`host_mac`].
pub(super) fn port_mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, host, 0xfe]
}

/// The three namespaces; gone when dropped.
pub(super) struct Veths {
    names: [String; 3],
}

const H1: usize = 0;
const DUT: usize = 1;
const H2: usize = 2;

impl Veths {
    /// Lays them.
    ///
    /// # Errors
    /// Why that cannot be done here.
    pub(super) fn lay() -> Result<Veths, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number that nobody else has is all it is for.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |place| format!("netmem-lab-{}-{number}-{place}", std::process::id());
        let veths = Veths { names: ["h1", "dut", "h2"].map(name) };
        for name in &veths.names {
            ip(&format!("netns add {name}")).map_err(|why| format!("no network namespaces: {why}"))?;
            // Only the stream's packets shall travel. Not there in a kernel without IPv6, which is just as well.
            netns::inside(name, || {
                ["all", "default"].map(|which| {
                    fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1").ok();
                    fs::write(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter"), "0").ok();
                })
            })
            .map_err(|error| format!("cannot enter a network namespace: {error}"))?;
        }
        for (host, place, port) in [(1, H1, "one"), (2, H2, "two")] {
            let (mac, port_mac) = (written(host_mac(host)), written(port_mac(host)));
            let (near, dut) = (&veths.names[place], &veths.names[DUT]);
            ip(&format!(
                "-n {near} link add eth0 address {mac} type veth peer name {port} address {port_mac} netns {dut}"
            ))?;
            ip(&format!("-n {near} link set dev eth0 up"))?;
            ip(&format!("-n {dut} link set dev {port} up"))?;
        }
        Ok(veths)
    }

    /// Makes the kernel between them the router.
    ///
    /// # Errors
    /// What ip(8) or the system says.
    pub(super) fn route(&self) -> Result<(), String> {
        let dut = &self.names[DUT];
        for (host, port) in [(1, "one"), (2, "two")] {
            ip(&format!("-n {dut} addr add 10.77.{host}.254/24 dev {port}"))?;
            let mac = written(host_mac(host));
            ip(&format!("-n {dut} neigh add 10.77.{host}.1 lladdr {mac} dev {port}"))?;
        }
        let on = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        netns::inside(dut, on).and_then(|done| done).map_err(|error| format!("ip_forward: {error}"))
    }

    /// A program that is to run on the machine between the hosts.
    pub(super) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[DUT]]).arg(program);
        command
    }

    /// Packet ports on both hosts, to send by the first and to receive by the second.
    ///
    /// # Errors
    /// The step and the remedy.
    pub(super) fn ports(&self, ring: usize) -> Result<[Box<dyn Port>; 2], String> {
        let open = |place: usize| {
            let port = netns::inside(&self.names[place], || packet::open("eth0", ring));
            let port = port.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            Ok::<_, String>(Box::new(port) as Box<dyn Port>)
        };
        Ok([open(H1)?, open(H2)?])
    }
}

impl Drop for Veths {
    fn drop(&mut self) {
        for name in &self.names {
            // One that was not made, or is gone already, is just as well.
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// As ip(8) writes it.
fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs ip(8) with these words (split at spaces).
fn ip(words: &str) -> Result<(), String> {
    let out = Command::new("ip").args(words.split_whitespace()).stdin(Stdio::null()).output();
    match out {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(format!("ip {words}: {}", String::from_utf8_lossy(&out.stderr).trim())),
        Err(error) => Err(format!("ip(8) cannot be run ({error}): apt-get install iproute2")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_refuses_is_told_with_its_words() {
        let why = ip("netns del netmem-no-such-namespace").unwrap_err();
        assert!(why.contains("netmem-no-such-namespace"), "{why}");
        assert_eq!(written(port_mac(2)), "02:00:00:00:02:fe");
    }
}
