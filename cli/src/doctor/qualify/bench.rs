//! The two interfaces, their changes, and the undo of the changes. COLD.

use super::both;
use crate::failure::Failure;
use crate::log::{self, Level};
use netmem::port::xdp::Netdev;
use netmem::wire::MacAddr;
use netmem_doctor::{
    Change, ChangeError, Device, Host, Interface, Journal, JournalError, Wanted, WantedPort,
};
use std::path::Path;
use std::process::Command;

/// Two interfaces that are not used otherwise, set up for a measurement.
pub struct Bench {
    /// Their names.
    pub interfaces: [String; 2],
    /// Their MAC addresses.
    pub macs: [MacAddr; 2],
    /// The host's properties before any change.
    pub host: Host,
    journal: Journal,
    /// Number of changes that last until the end.
    lasting: usize,
}

impl Bench {
    /// Sets both interfaces up, and stops the kernel from forwarding packets that come in on them.
    ///
    /// # Errors
    /// [`Failure::Input`] with the remedy if an interface is missing or in use. The host is unchanged then.
    pub fn prepare(names: [&str; 2], journal: &Path) -> Result<Bench, Failure> {
        let refused =
            |why: String| Err(Failure::Input(format!("--qualify {} {}: {why}", names[0], names[1])));
        if names[0] == names[1] {
            return refused("give two interfaces, with a cable between them".into());
        }
        let host = Host::read(&wanted(names));
        for name in names {
            if let Err(why) = may_be_used(&host, name) {
                return refused(why);
            }
        }
        let file = journal.display();
        let journal = Journal::at(journal);
        journal.lock().map_err(Failure::input)?;
        let earlier = journal.changes().map_err(Failure::input)?.len();
        if earlier > 0 {
            return refused(format!(
                "{earlier} changes of a run that was killed are in {file}: undo them with netmem doctor \
                 --undo --journal {file}, or give another file with --journal"
            ));
        }
        let mut macs = [MacAddr::new([0; 6]); 2];
        for (mac, name) in macs.iter_mut().zip(names) {
            match Netdev::open(name).and_then(|netdev| netdev.mac()) {
                Ok(address) => *mac = MacAddr::new(address),
                Err(error) => return refused(format!("MAC address of {name}: {error}")),
            }
        }
        let mut bench = Bench { interfaces: names.map(str::to_owned), macs, host, journal, lasting: 0 };
        if let Err(error) = bench.set_up() {
            return both(Err(error), bench.restore());
        }
        Ok(bench)
    }

    fn set_up(&mut self) -> Result<(), Failure> {
        for name in self.interfaces.clone() {
            if self.host.interfaces.get(&name).is_some_and(|interface| !interface.is_up) {
                self.make(&link(&name, "up", "down"))?;
                self.lasting += 1;
            }
            let key = format!("net.ipv4.conf.{}.forwarding", name.replace('.', "/"));
            let file = format!("/proc/sys/net/ipv4/conf/{name}/forwarding");
            if std::fs::read_to_string(file).is_ok_and(|value| value.trim() == "1") {
                self.make(&Change::Setting { key, from: "1".into(), to: "0".into() })?;
                self.lasting += 1;
            }
        }
        Ok(())
    }

    /// Sets the MTU of both. Returns the message of `ip` if a driver does not support this MTU.
    ///
    /// # Errors
    /// [`Failure::Run`] if `ip` did not say, or the journal cannot be written.
    pub fn set_mtu(&self, mtu: u32) -> Result<Option<String>, Failure> {
        for name in &self.interfaces {
            let now = self.host.interfaces.get(name).map_or(1500, |interface| interface.mtu);
            let words = |mtu: u32| words(&format!("ip link set dev {name} mtu {mtu}"));
            let change = Change::Run { command: words(mtu), undo: words(now) };
            match self.journal.make(&change) {
                Ok(()) => {}
                Err(JournalError::Change(error @ ChangeError::Failed { .. })) => {
                    return Ok(Some(error.to_string()));
                }
                Err(error) => return Err(Failure::run(error)),
            }
        }
        Ok(None)
    }

    /// Sets the second interface down.
    ///
    /// # Errors
    /// [`Failure::Run`] with the message of `ip`.
    pub fn take_down(&self) -> Result<(), Failure> {
        self.make(&link(&self.interfaces[1], "down", "up"))
    }

    /// Undoes the changes that do not last until the end.
    ///
    /// # Errors
    /// [`Failure::Run`] with a line for each change that could not be undone. It is still in the journal.
    pub fn take_back(&self) -> Result<(), Failure> {
        self.undo(self.lasting)
    }

    /// Undoes all changes.
    ///
    /// # Errors
    /// As [`Bench::take_back`].
    pub fn restore(&self) -> Result<(), Failure> {
        self.undo(0)
    }

    fn undo(&self, kept: usize) -> Result<(), Failure> {
        let undone = self.journal.undo_to(kept).map_err(Failure::run)?;
        for line in undone.remarks() {
            log::say(Level::Warning, format_args!("netmem: {line}"));
        }
        let still = |(change, error)| format!("not undone, and still in the journal: {change}: {error}");
        let failed: Vec<String> = undone.failed.into_iter().map(still).collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::Run(failed)) }
    }

    fn make(&self, change: &Change) -> Result<(), Failure> {
        log::say(Level::Info, format_args!("netmem: changed for this run: {change}"));
        self.journal.make(change).map_err(Failure::input)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn link(name: &str, to: &str, from: &str) -> Change {
    let words = |state: &str| words(&format!("ip link set dev {name} {state}"));
    Change::Run { command: words(to), undo: words(from) }
}

/// Returns both interfaces as ports. The host's XDP programs are read only for interfaces of ports.
fn wanted(names: [&str; 2]) -> Wanted {
    let port = |name: &str| WantedPort {
        name: format!("packet:{name}"),
        device: Device::Packet(name.to_owned()),
        traces: Vec::new(),
    };
    Wanted { ports: names.map(port).into(), ..Wanted::default() }
}

/// Checks that the interface is not in use.
fn may_be_used(host: &Host, name: &str) -> Result<(), String> {
    has_no_users(host, name)?;
    has_no_address(name)
}

/// Checks that no other interface, XDP program or AF_XDP socket uses the interface.
fn has_no_users(host: &Host, name: &str) -> Result<(), String> {
    /// Kinds of which two are joined: the link of one is the other, which is not on top of it.
    const PAIRS: [&str; 3] = ["veth", "netkit", "vxcan"];
    let Some(Interface { controller, program, bound, .. }) = host.interfaces.get(name) else {
        return Err(format!("there is no interface {name}: ip link lists the interfaces"));
    };
    if let Some(controller) = controller {
        return Err(format!(
            "{name} is a member of {controller}: remove it first: ip link set dev {name} nomaster"
        ));
    }
    if let Some(program) = program {
        return Err(format!("{name} has an XDP program ({program}): remove that program first"));
    }
    if let Some(socket) = bound.first() {
        let holder = socket.holder.as_deref().unwrap_or("a process that cannot be seen");
        return Err(format!("{name} has an AF_XDP socket of {holder}: stop that process first"));
    }
    let is_on_it = |(_, other): &(&String, &Interface)| {
        let is_pair = other.kind.as_deref().is_some_and(|kind| PAIRS.contains(&kind));
        other.link.as_deref() == Some(name) && !is_pair
    };
    match host.interfaces.iter().find(is_on_it) {
        None => Ok(()),
        Some((above, _)) => Err(format!(
            "{name} has the interface {above} on top of it: remove it first: ip link del {above}"
        )),
    }
}

/// Checks that the interface has no address that other hosts can use.
fn has_no_address(name: &str) -> Result<(), String> {
    let shown = Command::new("ip").args(["-o", "addr", "show", "dev", name, "scope", "global"]).output();
    let shown = shown.map_err(|error| format!("ip: {error}: is iproute2 installed?"))?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let mut addresses = text.split_whitespace().skip_while(|word| !word.starts_with("inet"));
    match addresses.nth(1) {
        None => Ok(()),
        Some(address) => Err(format!(
            "{name} has the address {address}: the test sets the interface down and up and fills it with packets, which disturbs \
             the users of that address; if it has no users, remove it first: ip addr flush dev {name}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Seen: no XDP program was read, so the measurement disturbed a forwarder.
    #[test]
    fn the_programs_of_both_interfaces_are_read() {
        let wanted = wanted(["eth0", "eth1"]);
        let names: Vec<_> = wanted.interfaces().map(|(_, name)| name).collect();
        assert_eq!(names, ["eth0", "eth1"]);
    }

    #[test]
    fn an_interface_with_a_program_a_socket_or_an_interface_on_top_is_in_use() {
        let host: Host = serde_json::from_value(json!({"interfaces": {
            "program": {"program": "\"netmem\" (number 7)"},
            "socket": {"bound": [{"queue": 0, "holder": "x (process 9)"}]},
            "unseen": {"bound": [{"queue": 3, "holder": null}]},
            "below": {},
            "below.7": {"kind": "vlan", "link": "below"},
            "x0": {"kind": "veth", "link": "x1"},
            "x1": {"kind": "veth", "link": "x0"},
        }}))
        .unwrap();
        for (name, said) in [
            ("none", "there is no interface none"),
            ("program", "has an XDP program (\"netmem\" (number 7))"),
            ("socket", "has an AF_XDP socket of x (process 9)"),
            ("unseen", "has an AF_XDP socket of a process that cannot be seen"),
            ("below", "has the interface below.7 on top of it"),
        ] {
            let why = has_no_users(&host, name).unwrap_err();
            assert!(why.contains(said) && why.contains(": "), "{why}");
        }
        assert_eq!(["x0", "x1"].map(|name| has_no_users(&host, name)), [Ok(()), Ok(())]);
    }
}
