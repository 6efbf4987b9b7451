//! `--port xdp:…`: queues of an interface, the packets that are taken, and those that stay with the kernel.

use super::options::Keys;
use netmem::port::xdp::{Punt, Take, XdpError, XdpModePreference, XdpQueues, ZeroCopy};
use std::fmt;
use std::path::PathBuf;

/// An AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpSpec {
    /// The interface's name.
    pub interface: String,
    /// The number of its queue, or of the first one.
    pub queue: u32,
    /// The number of queues.
    pub queues: QueueCount,
    /// The packets that are left to the kernel; None if the mode decides.
    pub punt: Option<Punt>,
    /// The only packets that are taken of the rest; None takes all.
    pub take: Option<Take>,
    /// Where the redirect program runs; None as [`OpenConfig::xdp_mode`](crate::OpenConfig::xdp_mode) says.
    pub mode: Option<XdpModePreference>,
    /// Whether the device may use the packet memory itself.
    pub copy: ZeroCopy,
    /// The socket of the process that grants the queues and some packets ([`XdpGrant`](netmem::port::xdp::XdpGrant)); None if
    /// this process opens them itself.
    pub grant: Option<PathBuf>,
}

/// The number of an interface's queues that a port has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueCount {
    /// One for each worker.
    EachWorker,
    /// That many, distributed over the workers.
    Number(u32),
    /// All from the first one on, distributed over the workers.
    All,
}

impl QueueCount {
    /// Returns the number for that many workers, or None if it depends on the interface.
    pub fn number(self, workers: usize) -> Option<u32> {
        match self {
            QueueCount::EachWorker => Some(workers as u32),
            QueueCount::Number(number) => Some(number),
            QueueCount::All => None,
        }
    }
}

impl XdpSpec {
    /// Returns the number of queues, one or more for each of `workers`.
    ///
    /// # Errors
    /// Returns one line if there are too few, or the number is not known.
    pub fn count(&self, workers: usize) -> Result<u32, String> {
        let count = match self.queues {
            QueueCount::EachWorker => return Ok(workers as u32),
            QueueCount::Number(number) => number,
            QueueCount::All => self.all()?,
        };
        if (count as usize) < workers {
            return Err(format!(
                "{workers} workers need a queue each, and {self} has {count}: use fewer workers, or give the interface \
                 more queues (ethtool -L)"
            ));
        }
        Ok(count)
    }

    /// Returns the numbers of worker `number`'s queues, of `count` queues.
    pub fn of_worker(&self, number: u32, workers: usize, count: u32) -> Vec<u32> {
        (number..count).step_by(workers.max(1)).map(|queue| self.queue.saturating_add(queue)).collect()
    }

    fn all(&self) -> Result<u32, String> {
        let all = XdpQueues::all_of(&self.interface).map_err(|error| error.to_string())?;
        let queues = all.len() as u32;
        match queues.saturating_sub(self.queue) {
            0 => {
                let (interface, queue) = (self.interface.clone(), self.queue);
                let error = XdpError::NoSuchQueue { interface, queue, queues: Some(queues) };
                Err(error.to_string())
            }
            count => Ok(count),
        }
    }
}

/// Maximum number of queues of a port: the program's map of sockets has room for as many.
const QUEUES_MAX: u32 = 1024;

/// The keys of an xdp port.
const KEYS: Keys = Keys {
    kind: "xdp",
    names: &["queues", "kernel", "take", "mode", "copy", "grant"],
    form: "queues=N or queues=all, kernel=none, kernel=neighbours or kernel=control, take=RULES as in take=udp:53+tcp:53@192.0.2.1, \
           mode=auto, mode=native or mode=generic, copy=auto, copy=yes or copy=no, grant=PATH of netmem grant",
};

/// Parses the text behind `xdp:`.
///
/// # Errors
/// Returns a line that says what would be valid.
pub fn xdp(text: &str) -> Result<XdpSpec, String> {
    let (place, rest) = text.split_once(',').unwrap_or((text, ""));
    let mut parts = place.split(':');
    let (interface, queue) = (parts.next().unwrap_or_default().to_owned(), parts.next());
    if interface.is_empty() || parts.next().is_some() {
        return Err("write xdp:IFNAME or xdp:IFNAME:QUEUE, as in xdp:eth0:1".into());
    }
    let queue =
        queue.unwrap_or("0").parse().map_err(|_| "the queue must be a number from 0, as in xdp:eth0:1")?;
    let (queues, copy) = (QueueCount::EachWorker, ZeroCopy::Try);
    let mut spec =
        XdpSpec { interface, queue, queues, punt: None, take: None, mode: None, copy, grant: None };
    for option in KEYS.options(rest)? {
        match option {
            ("queues", "all") => spec.queues = QueueCount::All,
            ("queues", number) => {
                let number = number.parse().ok().filter(|number| (1..=QUEUES_MAX).contains(number));
                let wrong = || format!("xdp: give queues=all, or queues=N from 1 to {QUEUES_MAX}");
                spec.queues = QueueCount::Number(number.ok_or_else(wrong)?);
            }
            ("kernel", "none") => spec.punt = Some(Punt::Nothing),
            ("kernel", "control") => spec.punt = Some(Punt::Control),
            ("kernel", "neighbours") => spec.punt = Some(Punt::Neighbours),
            ("take", rules) => {
                spec.take = Some(rules.parse().map_err(|error| format!("xdp: take={rules}: {error}"))?);
            }
            ("mode", "auto") => spec.mode = Some(XdpModePreference::NativeThenGeneric),
            ("mode", "native") => spec.mode = Some(XdpModePreference::Native),
            ("mode", "generic") => spec.mode = Some(XdpModePreference::Generic),
            ("copy", "auto") => spec.copy = ZeroCopy::Try,
            ("copy", "yes") => spec.copy = ZeroCopy::Never,
            ("copy", "no") => spec.copy = ZeroCopy::Require,
            ("grant", path) if !path.is_empty() => spec.grant = Some(path.into()),
            _ => return Err(KEYS.refuse(option)),
        }
    }
    if spec.grant.is_some() && (spec.take.is_some() || spec.punt.is_some() || spec.mode.is_some()) {
        return Err("xdp: with grant=PATH the other process decides about the packets and the mode: leave take=, kernel= and mode= out"
            .into());
    }
    Ok(spec)
}

/// The text form; an interface's first queue has no number.
impl fmt::Display for XdpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xdp:{}", self.interface)?;
        if self.queue > 0 {
            write!(f, ":{}", self.queue)?;
        }
        match self.queues {
            QueueCount::EachWorker => {}
            QueueCount::Number(number) => write!(f, ",queues={number}")?,
            QueueCount::All => f.write_str(",queues=all")?,
        }
        match self.punt {
            None => {}
            Some(Punt::Nothing) => f.write_str(",kernel=none")?,
            Some(Punt::Control) => f.write_str(",kernel=control")?,
            Some(Punt::Neighbours) => f.write_str(",kernel=neighbours")?,
        }
        if let Some(take) = &self.take {
            write!(f, ",take={take}")?;
        }
        match self.mode {
            None => {}
            Some(XdpModePreference::NativeThenGeneric) => f.write_str(",mode=auto")?,
            Some(XdpModePreference::Native) => f.write_str(",mode=native")?,
            Some(XdpModePreference::Generic) => f.write_str(",mode=generic")?,
        }
        f.write_str(match self.copy {
            ZeroCopy::Try => "",
            ZeroCopy::Never => ",copy=yes",
            ZeroCopy::Require => ",copy=no",
        })?;
        match &self.grant {
            Some(path) => write!(f, ",grant={}", path.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_kernel_is_written_behind_the_interface() {
        for (text, queue, punt) in [
            ("eth0", 0, None),
            ("eth0:1,kernel=control", 1, Some(Punt::Control)),
            ("eth0,kernel=none", 0, Some(Punt::Nothing)),
            ("eth0,kernel=neighbours", 0, Some(Punt::Neighbours)),
        ] {
            let spec = xdp(text).unwrap();
            let (queues, copy) = (QueueCount::EachWorker, ZeroCopy::Try);
            let (interface, take, mode, grant) = ("eth0".to_owned(), None, None, None);
            let wanted = XdpSpec { interface, queue, queues, punt, take, mode, copy, grant };
            assert_eq!(spec, wanted);
            assert_eq!(spec.to_string(), format!("xdp:{text}"));
        }
        for bad in ["eth0,kernel", "eth0,kernel=all", "eth0,punt=none"] {
            assert!(xdp(bad).unwrap_err().contains("kernel=control"), "{bad}");
        }
    }

    #[test]
    fn the_option_take_is_rules_behind_the_interface() {
        for text in [
            "eth0,take=udp:53",
            "eth0:1,kernel=control,take=ip@192.0.2.0/24+udp:443@2001:db8::1",
            "eth0,take=none",
        ] {
            assert_eq!(xdp(text).unwrap().to_string(), format!("xdp:{text}"));
        }
        for (bad, said) in
            [("take=udp:dns", "no port \"dns\""), ("take=", "write udp, tcp"), ("takes=udp", "take=RULES")]
        {
            let error = xdp(&format!("eth0,{bad}")).unwrap_err();
            assert!(error.starts_with("xdp: ") && error.contains(said) && !error.contains('\n'), "{error}");
        }
    }

    /// Seen: from a string, and so from C, neither the XDP mode nor zero-copy could be chosen.
    #[test]
    fn the_options_mode_and_copy_are_written_behind_the_interface() {
        for (text, mode, copy) in [
            ("eth0,mode=native", Some(XdpModePreference::Native), ZeroCopy::Try),
            ("eth0:1,mode=generic,copy=yes", Some(XdpModePreference::Generic), ZeroCopy::Never),
            ("eth0,mode=auto,copy=no", Some(XdpModePreference::NativeThenGeneric), ZeroCopy::Require),
            ("eth0,take=udp:53,copy=yes", None, ZeroCopy::Never),
        ] {
            let spec = xdp(text).unwrap();
            assert_eq!((spec.mode, spec.copy), (mode, copy), "{text}");
            assert_eq!(spec.to_string(), format!("xdp:{text}"));
        }
        assert_eq!(xdp("eth0,copy=auto").unwrap(), xdp("eth0").unwrap());
        for bad in ["eth0,mode=skb", "eth0,mode", "eth0,copy=zero", "eth0,zerocopy=no"] {
            let error = xdp(bad).unwrap_err();
            assert!(error.contains("mode=generic") && error.contains("copy=no"), "{error}");
        }
    }

    /// Wanted: a C program, or `netmem forward`, without privileges.
    #[test]
    fn a_grant_is_written_behind_the_interface_and_leaves_the_rest_to_the_other_process() {
        for text in ["eth0,grant=/run/dns.sock", "eth0:1,grant=@dns", "eth0,queues=all,copy=yes,grant=@dns"] {
            let spec = xdp(text).unwrap();
            assert!(spec.grant.is_some());
            assert_eq!(spec.to_string(), format!("xdp:{text}"));
        }
        for beside in ["take=udp:53", "kernel=none", "mode=native"] {
            let error = xdp(&format!("eth0,{beside},grant=@dns")).unwrap_err();
            assert!(error.contains("the other process decides"), "{beside}: {error}");
        }
        assert!(xdp("eth0,grant=").unwrap_err().contains("grant=PATH of netmem grant"));
    }

    #[test]
    fn queues_are_dealt_out_to_workers_in_turn() {
        let of = |text, workers| {
            let spec = xdp(text).unwrap();
            let count = spec.count(workers).unwrap();
            (0..workers as u32).map(|number| spec.of_worker(number, workers, count)).collect::<Vec<_>>()
        };
        assert_eq!(of("eth0", 1), [[0]]);
        assert_eq!(of("eth0:4", 2), [[4], [5]]);
        assert_eq!(of("eth0,queues=3", 1), [[0, 1, 2]]);
        assert_eq!(of("eth0:1,queues=5", 2), [vec![1, 3, 5], vec![2, 4]]);
        assert_eq!(xdp("eth0:1,queues=5").unwrap().to_string(), "xdp:eth0:1,queues=5");
        let few = xdp("eth0,queues=2").unwrap().count(3).unwrap_err();
        assert!(
            few.starts_with("3 workers need a queue each, and xdp:eth0,queues=2 has 2: ")
                && few.contains("ethtool -L"),
            "{few}"
        );
        for bad in [
            "eth0,queues=0",
            "eth0,queues=",
            "eth0,queues=some",
            "eth0,queues=1025",
            "eth0,queues=4294967295",
        ] {
            assert!(xdp(bad).unwrap_err().contains("queues=all, or queues=N from 1 to 1024"), "{bad}");
        }
    }

    #[test]
    fn all_queues_are_those_of_an_interface_that_says_how_many_it_has() {
        let refused = |text: &str| xdp(text).unwrap().count(1).unwrap_err();
        assert!(refused("nosuch0,queues=all").contains("nosuch0 does not exist"));
        assert!(refused("lo,queues=all").contains("give queues=N"));
    }
}
