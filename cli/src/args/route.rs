//! `--route`, `--address` and `--reverse-path`: the text form, with ports by number or by the interface's name.

use super::port_interface;
use netmem_ports::PortSpec;
use netmem_router::route::{OwnAddress, Route};
use netmem_router::{ReversePath, ReversePathError};
use netmem_rtnetlink::PortInterface;
use std::fmt::Display;
use std::mem::discriminant;
use std::str::FromStr;

/// A value whose port may be named by an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByPort<T> {
    /// All of it; port 0 where `interface` says which.
    value: T,
    /// The port's interface.
    interface: Option<String>,
}

/// Something that is about a port.
pub trait OfPort: Copy {
    /// The same for another port.
    fn with_port(self, port: u8) -> Self;
}

impl OfPort for Route {
    fn with_port(mut self, port: u8) -> Self {
        self.port = port;
        self
    }
}

impl OfPort for OwnAddress {
    fn with_port(mut self, port: u8) -> Self {
        self.port = port;
        self
    }
}

/// A reverse path check of one port, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortReversePath {
    pub how: ReversePath,
    pub port: Option<u8>,
}

impl OfPort for PortReversePath {
    fn with_port(self, port: u8) -> Self {
        PortReversePath { port: Some(port), ..self }
    }
}

impl FromStr for PortReversePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (how, port) = text.split_once(',').map_or((text, None), |(how, port)| (how, Some(port)));
        let how = how.parse().map_err(|error: ReversePathError| error.to_string())?;
        let number = |port: &str| {
            port.parse().map_err(|_| format!("{port:?} is not a port: give its number or its interface"))
        };
        Ok(PortReversePath { how, port: port.map(number).transpose()? })
    }
}

impl<T: OfPort> ByPort<T> {
    /// Returns the value, with the number of its port among `ports`.
    ///
    /// # Errors
    /// One line with the existing interfaces.
    pub fn resolved(&self, option: &str, ports: &[PortSpec]) -> Result<T, String> {
        let Some(wanted) = &self.interface else { return Ok(self.value) };
        let names: Vec<Option<String>> = ports.iter().map(|port| name_of(port_interface(port))).collect();
        match names.iter().position(|name| name.as_ref() == Some(wanted)) {
            Some(number) => Ok(self.value.with_port(number.min(usize::from(u8::MAX)) as u8)),
            None => {
                let names: Vec<String> = names.into_iter().flatten().collect();
                let there_are = match &names[..] {
                    [] => "the ports have no interfaces".to_owned(),
                    names => format!("the ports have {}", names.join(", ")),
                };
                Err(format!(
                    "{option}: no --port has the interface {wanted}: {there_are}; or give a port's number, from 0"
                ))
            }
        }
    }
}

/// Checks that an interface has one port, as a router must. Routes of the kernel and names in options lead to an
/// interface, and would mean only its first port; the source check compares ports. An interface may have several names:
/// `number` returns the number of the interface with a name, or None if it is not known.
///
/// # Errors
/// One line about two ports of one interface.
pub fn check_interfaces(ports: &[PortSpec], number: impl Fn(&str) -> Option<u32>) -> Result<(), String> {
    let mut before: Vec<(&PortSpec, PortInterface, Option<u32>)> = Vec::new();
    for port in ports {
        let its = port_interface(port);
        let Some(name) = its.name() else { continue };
        let its_number = number(name);
        let is_same = |(_, other, other_number): &&(&PortSpec, PortInterface, Option<u32>)| {
            let has_its_name = other.name() == Some(name);
            let has_its_number = its_number.is_some() && *other_number == its_number;
            discriminant(other) == discriminant(&its) && (has_its_name || has_its_number)
        };
        if let Some((other, port_interface, _)) = before.iter().find(is_same) {
            let other_name = port_interface.name().filter(|other| *other != name);
            let are_one = |other| format!("{other} and {name} are one interface, and ");
            let are_one = other_name.map_or_else(String::new, are_one);
            return Err(format!(
                "--port {other} and {port}: {are_one}with --mode ip an interface has one port; leave one out, or give \
                 xdp:{name},queues=N for several of its queues"
            ));
        }
        before.push((port, its, its_number));
    }
    Ok(())
}

fn name_of(port_interface: PortInterface) -> Option<String> {
    port_interface.name().map(str::to_owned)
}

/// Parses one `--route`: `PREFIX,PORT,MAC`, with `default` for 0.0.0.0/0.
pub fn route(text: &str) -> Result<ByPort<Route>, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let (prefix, rest) = text.split_once(',').unwrap_or((text, ""));
    let prefix = if prefix == "default" { "0.0.0.0/0" } else { prefix };
    match parts[..] {
        [_, name, mac] if is_name(name) => by_port(&format!("{prefix},0,{mac}"), Some(name)),
        [_, _, _] => by_port(&format!("{prefix},{rest}"), None),
        _ => by_port(text, None),
    }
}

/// Parses one `--address`: `ADDRESS/LENGTH,PORT`.
pub fn own_address(text: &str) -> Result<ByPort<OwnAddress>, String> {
    before_port(text)
}

/// Parses one `--reverse-path`: `HOW[,PORT]`.
pub fn reverse_path(text: &str) -> Result<ByPort<PortReversePath>, String> {
    before_port(text)
}

/// Parses a value followed by its port.
fn before_port<T: FromStr<Err: Display>>(text: &str) -> Result<ByPort<T>, String> {
    match text.split_once(',') {
        Some((value, name)) if is_name(name) => by_port(&format!("{value},0"), Some(name)),
        _ => by_port(text, None),
    }
}

/// Returns true if a port is given by name, and not by number.
fn is_name(port: &str) -> bool {
    port.starts_with(|first: char| first.is_ascii_alphabetic()) && !port.contains(char::is_whitespace)
}

fn by_port<T: FromStr<Err: Display>>(text: &str, interface: Option<&str>) -> Result<ByPort<T>, String> {
    let value = text.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(ByPort { value, interface: interface.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem_ports::port_spec;

    fn ports() -> Vec<PortSpec> {
        ["xdp:eth0:3", "fault:drop=0.1/packet:eth1", "tap:tap0", "memif:/run/a"]
            .map(|text| port_spec(text).unwrap())
            .into()
    }

    /// Found by reasoning: with two queues of one interface as two ports, `strict` dropped every packet of the second
    /// port, and `strict,eth0` checked only the first, so that a host could send from any source by the other queue.
    #[test]
    fn a_router_takes_one_port_of_an_interface() {
        let check = |texts: &[&str]| {
            let ports: Vec<_> = texts.iter().map(|text| port_spec(text).unwrap()).collect();
            check_interfaces(&ports, |_| None)
        };
        let line = "--port xdp:eth0 and xdp:eth0:1: with --mode ip an interface has one port; leave one out, or give \
                    xdp:eth0,queues=N for several of its queues";
        assert_eq!(check(&["xdp:eth0:0", "xdp:eth1", "xdp:eth0:1"]), Err(line.to_owned()));
        assert!(check(&["xdp:eth0", "fault:drop=0.1/packet:eth0"]).is_err());
        for good in [
            &["xdp:eth0,queues=2", "xdp:eth1"][..],
            &["packet:eth0", "packet:eth0.5"],
            &["memif:/run/a", "memif:/run/b", "pcap:out=/dev/null", "pcap:in=a"],
            // The two ends of one link.
            &["tap:tap0", "packet:tap0"],
        ] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
    }

    /// Found by reasoning: a router with an interface by its name and by an alternative one opened it twice.
    #[test]
    fn a_router_takes_one_port_of_an_interface_by_whichever_of_its_names() {
        let number = |name: &str| ["eth0", "wan0"].contains(&name).then_some(2);
        let check = |texts: [&str; 2]| {
            let ports = texts.map(|text| port_spec(text).unwrap());
            check_interfaces(&ports, number)
        };
        let line = "--port packet:eth0 and packet:wan0: eth0 and wan0 are one interface, and with --mode ip an interface has \
                    one port; leave one out, or give xdp:wan0,queues=N for several of its queues";
        assert_eq!(check(["packet:eth0", "packet:wan0"]), Err(line.to_owned()));
        assert!(check(["fault:drop=0.1/packet:wan0", "xdp:eth0:1"]).is_err());
        assert_eq!(check(["packet:eth1", "packet:eth2"]), Ok(()), "interfaces that do not exist yet");
        assert_eq!(check(["tap:eth0", "packet:wan0"]), Ok(()), "the two ends of one link");
    }

    #[test]
    fn a_route_names_its_port_by_number_or_by_interface() {
        let number = |text: &str| route(text).unwrap().resolved("--route", &ports()).unwrap().to_string();
        assert_eq!(number("10.0.0.0/8,eth1,02:00:00:00:00:02"), "10.0.0.0/8,1,02:00:00:00:00:02");
        assert_eq!(number("10.0.0.0/8,tap0,02:00:00:00:00:02"), "10.0.0.0/8,2,02:00:00:00:00:02");
        assert_eq!(number("default,eth0,02:00:00:00:00:02"), "0.0.0.0/0,0,02:00:00:00:00:02");
        assert_eq!(number("default,3,02:00:00:00:00:02"), "0.0.0.0/0,3,02:00:00:00:00:02");
        assert_eq!(number("fd00:2::/64,eth1,02:00:00:00:00:02"), "fd00:2::/64,1,02:00:00:00:00:02");
        assert_eq!(number("::/0,3,02:00:00:00:00:02"), "::/0,3,02:00:00:00:00:02");
        let own = own_address("10.0.1.254/24,eth1").unwrap().resolved("--address", &ports()).unwrap();
        assert_eq!(own.port, 1);
    }

    #[test]
    fn a_reverse_path_check_is_of_all_ports_or_of_one_by_number_or_by_interface() {
        let read = |text: &str| reverse_path(text).unwrap().resolved("--reverse-path", &ports()).unwrap();
        assert_eq!(read("strict"), PortReversePath { how: ReversePath::Strict, port: None });
        assert_eq!(read("loose,3"), PortReversePath { how: ReversePath::Loose, port: Some(3) });
        assert_eq!(read("off,eth1"), PortReversePath { how: ReversePath::Off, port: Some(1) });
        for bad in ["", "tight", "strict,", "strict,-1", "loose,eth0,eth1"] {
            let read = reverse_path(bad).and_then(|read| read.resolved("--reverse-path", &ports()));
            assert!(read.is_err(), "{bad}");
        }
        assert_eq!(
            reverse_path("tight").unwrap_err(),
            "\"tight\" is not a reverse path check: write strict, loose or off"
        );
    }

    #[test]
    fn an_interface_that_no_port_has_is_refused_with_those_that_ports_have() {
        let unknown = route("10.0.0.0/8,eth7,02:00:00:00:00:02").unwrap();
        let error = unknown.resolved("--route", &ports()).unwrap_err();
        assert!(
            error.starts_with("--route: no --port has the interface eth7: the ports have eth0, eth1, tap0"),
            "{error}"
        );
        assert!(unknown.resolved("--route", &[]).unwrap_err().contains("the ports have no interfaces"));
        for bad in [
            "default",
            "10.0.0.1/8,eth0,02:00:00:00:00:02",
            "10.0.0.0/8,eth0,x",
            "10.0.0.0/8,-1,02:00:00:00:00:02",
        ] {
            assert!(route(bad).is_err(), "{bad}");
        }
    }
}
