//! A program that is attached only when there are packets to take. COLD.
//!
//! A port that only transmits needs no program, and leaves the interface to the programs of other owners.

use super::XdpModePreference;
use super::maps::{Maps, Taken};
use super::mode::is_about_the_mode;
use crate::limits::ONE_BUFFER_MTU_MAX;
use crate::sys::bpf::{BpfError, BpfStep, RedirectLink, RedirectProgram, XdpMode};
use crate::sys::errno::Errno;
use crate::sys::netdev::Netdev;

/// A program on its interface. The link is dropped first, and then the program that it held.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) link: RedirectLink,
    pub(super) program: RedirectProgram,
    /// Whether the driver may give the program, and those that replace it, packets that lie in several buffers.
    pub(super) several: bool,
}

/// What attaches the program to its interface then. Only sockets in copy mode can wait: for zero-copy, the drivers of
/// some cards need a program also to transmit.
#[derive(Debug)]
pub(super) struct Later {
    netdev: Netdev,
    preference: XdpModePreference,
}

impl Later {
    pub(super) fn new(netdev: &Netdev, preference: XdpModePreference) -> Result<Later, Errno> {
        Ok(Later { netdev: netdev.again()?, preference })
    }

    /// The mode that the program will probably have. For a card that is generic: the port then expects what native mode
    /// does not bring, such as packets that GRO has joined.
    pub(super) fn expected(&self) -> XdpMode {
        match self.preference {
            XdpModePreference::Generic => XdpMode::Generic,
            XdpModePreference::Native => XdpMode::Native,
            XdpModePreference::NativeThenGeneric if self.netdev.is_virtual() == Ok(true) => XdpMode::Native,
            XdpModePreference::NativeThenGeneric => XdpMode::Generic,
        }
    }

    fn attach_here(&self, maps: &Maps, take: Taken<'_>) -> Result<Attached, BpfError> {
        let is_bond = self.netdev.is_bond() == Ok(true);
        let several =
            if is_bond { None } else { attach_for_several(maps, take, &self.netdev, self.preference) };
        if let Some(attached) = several {
            return Ok(attached);
        }
        let program = maps.load(take, false)?;
        let in_mode = |mode| program.attach(self.netdev.index(), mode);
        let link = match self.preference {
            XdpModePreference::Generic => in_mode(XdpMode::Generic),
            XdpModePreference::NativeThenGeneric if is_bond => in_mode(XdpMode::Generic),
            // Its members would run it, whose packets reach no socket of the bond.
            XdpModePreference::Native if is_bond => {
                Err(BpfError { step: BpfStep::AttachNative, errno: Errno::OPNOTSUPP, log: String::new() })
            }
            XdpModePreference::Native => in_mode(XdpMode::Native),
            XdpModePreference::NativeThenGeneric => match in_mode(XdpMode::Native) {
                Err(error) if is_about_the_mode(&error) => in_mode(XdpMode::Generic),
                done => done,
            },
        }?;
        Ok(Attached { link, program, several: false })
    }

    /// Attaches it in the best mode that is allowed and possible.
    pub(super) fn attach(&self, maps: &Maps, take: Taken<'_>) -> Result<Attached, BpfError> {
        // The program belongs to the namespace of the thread that attaches it.
        let attached = self.netdev.in_its_namespace(|| self.attach_here(maps, take));
        attached.unwrap_or_else(|error| {
            let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
            Err(BpfError { step: BpfStep::AttachNative, errno, log: error.to_string() })
        })
    }
}

/// Attaches natively a program that accepts packets in several buffers, if such packets are possible: on a software
/// device whose socket takes them. Returns None if that is not possible, for example on a kernel before 5.18.
pub(super) fn attach_for_several(
    maps: &Maps,
    take: Taken<'_>,
    netdev: &Netdev,
    preference: XdpModePreference,
) -> Option<Attached> {
    let are_long = netdev.mtu().is_ok_and(|mtu| mtu > ONE_BUFFER_MTU_MAX) && netdev.is_virtual() == Ok(true);
    if !are_long || !preference.allows(XdpMode::Native) {
        return None;
    }
    let program = maps.load(take, true).ok()?;
    let link = program.attach(netdev.index(), XdpMode::Native).ok()?;
    Some(Attached { link, program, several: true })
}
