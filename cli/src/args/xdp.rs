//! `--port xdp:…`: a queue of an interface, and what of its packets stays with the kernel.

use super::port::options;
use netmem::port::xdp::Punt;
use std::fmt;

/// An AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpSpec {
    /// The interface's name.
    pub interface: String,
    /// The number of its queue.
    pub queue: u32,
    /// What is left to the kernel; None where the mode says.
    pub punt: Option<Punt>,
}

/// Reads what follows `xdp:`.
pub fn xdp(text: &str) -> Result<XdpSpec, String> {
    let (place, rest) = text.split_once(',').unwrap_or((text, ""));
    let mut parts = place.split(':');
    let (interface, queue) = (parts.next().unwrap_or_default().to_owned(), parts.next());
    if interface.is_empty() || parts.next().is_some() {
        return Err("write xdp:IFNAME or xdp:IFNAME:QUEUE, as in xdp:eth0:1".into());
    }
    let queue =
        queue.unwrap_or("0").parse().map_err(|_| "the queue must be a number from 0, as in xdp:eth0:1")?;
    let mut spec = XdpSpec { interface, queue, punt: None };
    for option in options(rest) {
        match option {
            ("kernel", "none") => spec.punt = Some(Punt::Nothing),
            ("kernel", "control") => spec.punt = Some(Punt::Control),
            _ => return Err("xdp: give kernel=none or kernel=control".into()),
        }
    }
    Ok(spec)
}

/// As it is written; an interface's first queue without its number.
impl fmt::Display for XdpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xdp:{}", self.interface)?;
        if self.queue > 0 {
            write!(f, ":{}", self.queue)?;
        }
        match self.punt {
            None => Ok(()),
            Some(Punt::Nothing) => f.write_str(",kernel=none"),
            Some(Punt::Control) => f.write_str(",kernel=control"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_the_kernel_is_written_behind_the_interface() {
        for (text, queue, punt) in [
            ("eth0", 0, None),
            ("eth0:1,kernel=control", 1, Some(Punt::Control)),
            ("eth0,kernel=none", 0, Some(Punt::Nothing)),
        ] {
            let spec = xdp(text).unwrap();
            assert_eq!(spec, XdpSpec { interface: "eth0".into(), queue, punt });
            assert_eq!(spec.to_string(), format!("xdp:{text}"));
        }
        for bad in ["eth0,kernel", "eth0,kernel=all", "eth0,punt=none"] {
            assert!(xdp(bad).unwrap_err().contains("kernel=control"), "{bad}");
        }
    }
}
