//! `netmem grant`.

use super::port::PortParser;
use clap::Args;
use netmem::port::xdp::ZeroCopy;
use netmem_ports::{DeviceSpec, XdpSpec, port_spec};
use std::path::PathBuf;

/// Hand queues of an interface to a server without privileges. The server gets the packets that match RULES, and the kernel all others.
///
/// A server that connects to the socket gets the queues and keeps them until it ends. It gets an open AF_XDP socket for each and
/// the attached program by SCM_RIGHTS. This process keeps none, so when the server ends in any way, the interface is as before.
/// The server asks by a port xdp:IFNAME,queues=all,grant=PATH or with XdpGrant::ask of the library, and needs no capability. It must be
/// allowed to lock its memory: above 8 MiB, set LimitMEMLOCK of its unit, or ulimit -l. netmem grant ends at Ctrl-C or SIGTERM; servers go on.
/// Of each user, 32 requests are answered at once and then one a second; of all users together, 128 at once and then eight a
/// second. Of the lines about them, 32 are printed at once and then one a second, for all users together.
///
/// Example: netmem grant --port xdp:eth0,queues=all,take=udp:53 --to /run/dns.sock --mode 660 --group 65534
#[derive(Debug, Args)]
pub struct GrantArgs {
    /// xdp:IFNAME[:QUEUE][,queues=N|all],take=RULES: the queues, one by default, and the packets to take, as in netmem forward --port
    #[arg(long, value_name = "PORT", value_parser = PortParser(xdp_that_takes))]
    pub port: XdpSpec,

    /// The socket to which servers connect: a path, or @NAME for an abstract socket, open to any process of the network namespace
    #[arg(long, value_name = "PATH")]
    pub to: PathBuf,

    /// The permission bits of the socket, in octal: who may connect
    #[arg(long, value_name = "BITS", default_value = "600", value_parser = octal)]
    pub mode: u32,

    /// The group of the socket, by its number
    #[arg(long, value_name = "GID", value_parser = clap::value_parser!(u32).range(..i64::from(u32::MAX)))]
    pub group: Option<u32>,
}

fn octal(text: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
    bits.ok_or_else(|| format!("{text:?} are not permission bits: give three octal digits, as 660"))
}

/// Queues of AF_XDP, part of whose packets are taken.
fn xdp_that_takes(text: &str) -> Result<XdpSpec, String> {
    let spec = port_spec(text)?;
    match spec.device {
        DeviceSpec::Xdp(xdp) if spec.wraps.is_empty() && xdp.take.is_some() && leaves_the_rest(&xdp) => Ok(xdp),
        _ => Err("give xdp:IFNAME,queues=all,take=RULES or xdp:IFNAME:QUEUE,take=RULES: queues of which some packets are taken".into()),
    }
}

/// Whether the port says nothing else of what stays with the kernel, nor of the mode or copies: the server chooses those.
fn leaves_the_rest(xdp: &XdpSpec) -> bool {
    xdp.grant.is_none() && xdp.punt.is_none() && xdp.mode.is_none() && xdp.copy == ZeroCopy::Try
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_all_packets_or_with_other_packets_for_the_kernel_is_not_granted() {
        let good =
            ["xdp:eth0,take=udp:53", "xdp:eth0:3,take=udp:53+tcp:53", "xdp:eth0,queues=all,take=udp:53"];
        for good in good {
            assert_eq!(xdp_that_takes(good).unwrap().to_string(), good);
        }
        for bad in [
            "xdp:eth0",
            "packet:eth0",
            "xdp:eth0,grant=/run/dns.sock",
            "xdp:eth0,kernel=control,take=udp:53",
            "xdp:eth0,take=udp:53,mode=native",
            "xdp:eth0,take=udp:53,copy=yes",
        ] {
            assert!(
                xdp_that_takes(bad).unwrap_err().contains("queues of which some packets are taken"),
                "{bad}"
            );
        }
    }
}
