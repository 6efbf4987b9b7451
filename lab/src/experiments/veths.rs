//! Two hosts and a machine between them, inside this one: three network namespaces joined by veth pairs. COLD.
//!
//! ```text
//!   h1                            dut                            h2
//!   eth0 ═══════════════════ one       two ═══════════════════ eth0
//!   10.77.1.1                10.77.1.254 10.77.2.254           10.77.2.1
//! ```
//! The hosts' addresses are in packets only, and no host answers, unless the addresses are set on them. The machine
//! has two addresses of its own if the kernel is the router.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use netmem::port::Port;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};

use super::namespace::{Namespace, written};

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the MAC address of host 1 or 2. [`port_mac`] is that of the interface that faces it.
pub(super) fn host_mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, host, 1]
}

/// See [`host_mac`].
pub(super) fn port_mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, host, 0xfe]
}

/// The three namespaces. They are removed when this is dropped.
pub(super) struct Veths {
    spaces: [Namespace; 3],
}

const H1: usize = 0;
const DUT: usize = 1;
const H2: usize = 2;

impl Veths {
    /// Makes the namespaces, without a link between them.
    ///
    /// # Errors
    /// The reason why that is not possible here.
    pub(super) fn unjoined() -> Result<Veths, String> {
        let veths = Veths { spaces: [Namespace::new("h1")?, Namespace::new("dut")?, Namespace::new("h2")?] };
        for space in &veths.spaces {
            for which in ["all", "default"] {
                // Only the stream's packets may be sent. A kernel without IPv6 does not have this setting, and does not
                // need it.
                space.set(&format!("ipv6/conf/{which}/disable_ipv6"), "1").ok();
                space.set(&format!("ipv4/conf/{which}/rp_filter"), "0").ok();
            }
        }
        Ok(veths)
    }

    /// Makes the namespaces with their links.
    ///
    /// # Errors
    /// As [`Veths::unjoined`].
    pub(super) fn lay() -> Result<Veths, String> {
        let veths = Veths::unjoined()?;
        for (host, place, port) in [(1, H1, "one"), (2, H2, "two")] {
            let (mac, port_mac) = (written(host_mac(host)), written(port_mac(host)));
            let (near, dut) = (&veths.spaces[place], &veths.spaces[DUT]);
            let there = dut.name();
            near.ip(&format!(
                "link add eth0 address {mac} type veth peer name {port} address {port_mac} netns {there}"
            ))?;
            near.ip("link set dev eth0 up")?;
            dut.ip(&format!("link set dev {port} up"))?;
        }
        Ok(veths)
    }

    /// Moves the TAP interfaces `one` and `two` from the machine in the middle to the hosts, in the place of a veth, as
    /// soon as a program has made them. That program keeps their far ends.
    ///
    /// # Errors
    /// The error of ip(8), also if an interface does not appear.
    pub(super) fn give_taps(&self) -> Result<(), String> {
        let begun = Instant::now();
        for (host, place, port) in [(1, H1, "one"), (2, H2, "two")] {
            let (mac, host_space, dut) = (written(host_mac(host)), &self.spaces[place], &self.spaces[DUT]);
            let give = || {
                dut.ip(&format!("link set dev {port} netns {} name eth0 address {mac}", host_space.name()))
            };
            while let Err(why) = give() {
                if begun.elapsed() > PATIENCE {
                    return Err(why);
                }
                thread::sleep(Duration::from_millis(20));
            }
            host_space.ip("link set dev eth0 up")?;
        }
        Ok(())
    }

    /// Makes the kernel of the machine in the middle the router.
    ///
    /// # Errors
    /// The error of ip(8) or of the system.
    pub(super) fn route(&self) -> Result<(), String> {
        let dut = &self.spaces[DUT];
        for (host, port) in [(1, "one"), (2, "two")] {
            dut.ip(&format!("addr add 10.77.{host}.254/24 dev {port}"))?;
            let mac = written(host_mac(host));
            dut.ip(&format!("neigh add 10.77.{host}.1 lladdr {mac} dev {port}"))?;
        }
        dut.set("ipv4/ip_forward", "1")
    }

    /// Gives the hosts their addresses, and routes to each other over the machine in the middle.
    ///
    /// # Errors
    /// The error of ip(8).
    pub(super) fn address(&self) -> Result<(), String> {
        for (host, place) in [(1, H1), (2, H2)] {
            let space = &self.spaces[place];
            space.ip(&format!("addr add 10.77.{host}.1/24 dev eth0"))?;
            space.ip(&format!("neigh add 10.77.{host}.254 lladdr {} dev eth0", written(port_mac(host))))?;
            space.ip(&format!("route add default via 10.77.{host}.254"))?;
        }
        Ok(())
    }

    /// Makes a TCP connection from the first host to the second, which have [addresses](Veths::address). Returns its
    /// two ends.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn connect(&self) -> Result<[TcpStream; 2], String> {
        let said = |error: io::Error| error.to_string();
        let listener = self.spaces[H2].inside(|| TcpListener::bind("10.77.2.1:0"))?.map_err(said)?;
        let to = listener.local_addr().map_err(said)?;
        let sender = self.spaces[H1].inside(|| TcpStream::connect_timeout(&to, PATIENCE))?.map_err(said)?;
        let (receiver, _) = listener.accept().map_err(said)?;
        Ok([sender, receiver])
    }

    /// Runs `f` on the first host.
    ///
    /// # Errors
    /// The reason why it cannot be entered.
    pub(super) fn on_first<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, String> {
        self.spaces[H1].inside(f)
    }

    /// Does the same as [`Veths::on_first`], on the machine in the middle.
    ///
    /// # Errors
    /// The reason why it cannot be entered.
    pub(super) fn on_middle<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, String> {
        self.spaces[DUT].inside(f)
    }

    /// Returns the name of the machine in the middle for ip-netns(8).
    pub(super) fn middle_name(&self) -> &str {
        self.spaces[DUT].name()
    }

    /// Returns the command of a program that runs on the machine in the middle.
    pub(super) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.spaces[DUT].name()]).arg(program);
        command
    }

    /// Opens packet ports on both hosts, to send on the first and to receive on the second.
    ///
    /// # Errors
    /// The step and the remedy.
    pub(super) fn ports(&self, ring: usize) -> Result<[Box<dyn Port>; 2], String> {
        let open = |place: usize| {
            let port = self.spaces[place]
                .inside(|| AfPacketPort::open("eth0", &AfPacketConfig { ring, ..Default::default() }))?;
            let port = port.map_err(|error| error.to_string())?;
            Ok::<_, String>(Box::new(port) as Box<dyn Port>)
        };
        Ok([open(H1)?, open(H2)?])
    }
}
