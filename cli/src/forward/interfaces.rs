//! The interfaces of a plan's ports, and their queues: those of this machine, of a run, or of a host that was saved. COLD.

use super::unfit::refuse;
use crate::failure::Failure;
use netmem::system::netdev::Netdev;
use netmem_doctor::Host;
use netmem_ports::{DeviceSpec, PortSpec, QueueCount, XdpSpec};

/// The place where a plan looks for its interfaces.
#[derive(Debug, Clone, Copy)]
pub enum Interfaces<'a> {
    /// This network namespace.
    Here,
    /// This network namespace, before they are waited for: none has to exist.
    Awaited,
    /// Those that a run has, with the numbers of queues that it opened, whatever has become of them since.
    OfRun(&'a [(XdpSpec, u32)]),
    /// A host that `netmem doctor --save` has written.
    Saved(&'a Host),
}

impl Interfaces<'_> {
    /// Returns the number that all names of an interface have in common, or None if there is no interface of this name.
    pub fn number(self, name: &str) -> Option<u32> {
        match self {
            Interfaces::Here | Interfaces::Awaited => Some(Netdev::open(name).ok()?.index()),
            // The run has checked them at its start.
            Interfaces::OfRun(_) => None,
            Interfaces::Saved(host) => {
                let (own, _) = host.interface(name)?;
                let at = host.interfaces.keys().position(|other| other == own)?;
                u32::try_from(at).ok()
            }
        }
    }

    /// Returns the number of queues of an xdp port, one or more for each of `workers`.
    ///
    /// If a saved host lacks some of them, or the interface, that is a finding of its rules and not an error. All queues of
    /// an interface that is still waited for count as one for each worker.
    ///
    /// # Errors
    /// One line if there are too few here, or the number is not known.
    pub fn queues(self, spec: &XdpSpec, workers: usize) -> Result<u32, String> {
        let all = match self {
            Interfaces::Here => return count(spec, workers),
            _ if spec.queues != QueueCount::All => return count(spec, workers),
            Interfaces::Awaited => 0,
            Interfaces::OfRun(counts) => {
                counts.iter().find(|(its, _)| its == spec).map_or(0, |(_, count)| *count)
            }
            Interfaces::Saved(host) => {
                let queues = host.interface(&spec.interface).and_then(|(_, its)| its.queues);
                queues.map_or(0, |queues| queues.now.saturating_sub(spec.queue))
            }
        };
        Ok(all.max(workers as u32))
    }

    /// Returns the number of queues of each xdp port.
    ///
    /// # Errors
    /// [`Failure::Input`] about a port whose number of queues is not known.
    pub fn counts(self, ports: &[PortSpec], workers: usize) -> Result<Vec<(XdpSpec, u32)>, Failure> {
        let specs = ports.iter().filter_map(PortSpec::xdp);
        let counts = specs.map(|spec| Ok((spec.clone(), self.queues(spec, workers)?)));
        counts.collect::<Result<_, _>>().map_err(Failure::Input)
    }
}

/// Checks that no queue of an interface belongs to two ports.
///
/// # Errors
/// [`Failure::Input`] about two ports, or about a port whose number of queues is not known.
pub fn check_queues(ports: &[PortSpec], workers: usize, interfaces: Interfaces<'_>) -> Result<(), Failure> {
    let mut taken: Vec<(&XdpSpec, u32, Option<u32>)> = Vec::new();
    for one in ports.iter().filter_map(PortSpec::xdp) {
        let count = interfaces.queues(one, workers).map_err(Failure::Input)?;
        let number = interfaces.number(&one.interface);
        let overlaps = |&&(other, its, its_number): &&(&XdpSpec, u32, Option<u32>)| {
            let is_one = one.interface == other.interface || number.is_some() && number == its_number;
            let between = one.queue.abs_diff(other.queue);
            is_one && between < if one.queue < other.queue { count } else { its }
        };
        if let Some((other, its, _)) = taken.iter().find(overlaps) {
            return refuse(format!(
                "--port {one} and {other}: with {workers} workers they take {count} and {its} queues, and some are \
                 the same; leave more queues between them, or give fewer --workers or queues"
            ));
        }
        taken.push((one, count, number));
    }
    Ok(())
}

/// Returns the maximum number of rings in each direction of one worker's ports.
///
/// # Errors
/// [`Failure::Input`] about a port whose number of queues is not known.
pub fn rings(ports: &[PortSpec], workers: usize, interfaces: Interfaces<'_>) -> Result<usize, Failure> {
    let of = |port: &PortSpec| match &port.device {
        DeviceSpec::Xdp(spec) => {
            interfaces.queues(spec, workers).map(|count| (count as usize).div_ceil(workers))
        }
        DeviceSpec::Memif { config, .. } => Ok(config.queues.into()),
        DeviceSpec::Packet(_) | DeviceSpec::Tap { .. } | DeviceSpec::Pcap { .. } => Ok(1),
    };
    ports.iter().map(of).sum::<Result<_, _>>().map_err(Failure::Input)
}

/// As [`XdpSpec::count`], with an error about the workers that begins with their option.
fn count(spec: &XdpSpec, workers: usize) -> Result<u32, String> {
    let of_workers = |line| if spec.count(1).is_ok() { format!("--workers {workers}: {line}") } else { line };
    spec.count(workers).map_err(of_workers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem_ports::port_spec;

    fn saved() -> Host {
        let text = r#"{"interfaces": {
            "nosuch0": {"other_names": ["wan0"], "queues": {"now": 4, "most": 8}},
            "nosuch1": {}
        }}"#;
        serde_json::from_str(text).unwrap()
    }

    /// Seen: a memif port of eight queues got the frames of one queue.
    #[test]
    fn each_queue_of_a_memif_port_counts() {
        let ports = ["memif:a,queues=8", "tap:t0"].map(|port| port_spec(port).unwrap());
        assert_eq!(rings(&ports, 1, Interfaces::Here).unwrap(), 9);
    }

    #[test]
    fn all_queues_of_a_saved_host_are_those_that_were_saved_and_at_least_one_for_each_worker() {
        let host = saved();
        let count = |text: &str, workers: usize, interfaces: Interfaces<'_>| {
            let port = port_spec(text).unwrap();
            interfaces.queues(port.xdp().unwrap(), workers)
        };
        for (text, workers, queues) in [
            ("xdp:nosuch0,queues=all", 2, 4),
            ("xdp:wan0:1,queues=all", 2, 3),
            ("xdp:nosuch0:7,queues=all", 1, 1),
            ("xdp:nosuch1,queues=all", 2, 2),
            ("xdp:nosuch2,queues=all", 3, 3),
            ("xdp:nosuch0,queues=6", 3, 6),
            ("xdp:nosuch0", 3, 3),
        ] {
            assert_eq!(count(text, workers, Interfaces::Saved(&host)), Ok(queues), "{text}");
        }
        let here = count("xdp:nosuch0,queues=all", 1, Interfaces::Here).unwrap_err();
        assert!(here.contains("nosuch0 does not exist"), "{here}");
    }

    /// Seen: `--wait` ended at once with `queues=all`, and no reload was possible while an interface was away or after
    /// `ethtool -L`.
    #[test]
    fn all_queues_are_one_for_each_worker_before_the_interface_exists_and_as_before_in_a_run() {
        let ports =
            ["xdp:nosuch0,queues=all", "xdp:nosuch1:2", "tap:t0"].map(|port| port_spec(port).unwrap());
        let spec = |at: usize| ports[at].xdp().unwrap().clone();
        let awaited = Interfaces::Awaited.counts(&ports, 2).unwrap();
        assert_eq!(awaited, [(spec(0), 2), (spec(1), 2)]);
        let run = [(spec(0), 8), (spec(1), 2)];
        assert_eq!(Interfaces::OfRun(&run).counts(&ports, 2).unwrap(), run);
        assert_eq!(Interfaces::OfRun(&run[1..]).counts(&ports, 3).unwrap(), [(spec(0), 3), (spec(1), 3)]);
    }

    #[test]
    fn the_names_of_an_interface_have_one_number() {
        let host = saved();
        let number = |name| Interfaces::Saved(&host).number(name);
        assert!(number("wan0").is_some() && number("wan0") == number("nosuch0"));
        assert!(number("nosuch1").is_some() && number("nosuch1") != number("nosuch0"));
        assert_eq!((number("nosuch2"), Interfaces::Here.number("nosuch0")), (None, None));
        assert_eq!(Interfaces::Here.number("lo"), Some(1));
    }

    /// Found by reasoning: ports with the same queue of one interface by two of its names were only refused when the
    /// kernel refused the second one.
    #[test]
    fn a_queue_has_one_port_by_whichever_name_of_its_interface() {
        let host = saved();
        let check = |texts: [&str; 2]| {
            let ports = texts.map(|text| port_spec(text).unwrap());
            check_queues(&ports, 2, Interfaces::Saved(&host)).is_ok()
        };
        assert!(!check(["xdp:nosuch0", "xdp:wan0:1"]) && !check(["xdp:nosuch2:1", "xdp:nosuch2"]));
        assert!(check(["xdp:nosuch0", "xdp:wan0:2"]) && check(["xdp:nosuch0", "xdp:nosuch1"]));
        assert!(
            check(["xdp:nosuch2", "xdp:nosuch3"]),
            "of interfaces that are not known yet the names count"
        );
    }
}
