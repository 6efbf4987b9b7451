//! A port that takes its packets alone: what it does not leave to the kernel, the kernel's stack does not get. COLD.

use super::AfPacketPort;
use super::control::ControlTraffic;
use crate::port::xdp::BpfError;
use crate::sys::bpf::{IngressLink, IngressProgram};
use std::sync::Arc;

/// The program at the ingress of a port's interface.
#[derive(Debug)]
pub(super) struct Alone {
    program: IngressProgram,
    /// Where it is now.
    _link: IngressLink,
}

impl Alone {
    fn new(control: &ControlTraffic, interface: u32) -> Result<Alone, BpfError> {
        let program = IngressProgram::load(control.in_kernel()?.maps())?;
        let link = program.attach(interface)?;
        Ok(Alone { program, _link: link })
    }

    /// Has it at the ingress of the interface of that number instead.
    pub(super) fn move_to(&mut self, interface: u32) -> Result<(), BpfError> {
        self._link = self.program.attach(interface)?;
        Ok(())
    }
}

impl AfPacketPort {
    /// Leaves control traffic to the kernel as [`leave_to_kernel`](AfPacketPort::leave_to_kernel) does, and keeps all else for this station from
    /// its stack, which neither forwards nor answers it then: a program at the interface's ingress drops the kernel's copy, until the
    /// port is dropped or the process ends, in whatever way. Frames for other stations and for VLANs go on, to a bridge or a VLAN's
    /// interface. `control` is what is left.
    ///
    /// ```no_run
    /// use netmem::port::af_packet::{self, ControlTraffic};
    /// use std::sync::Arc;
    ///
    /// let control = Arc::new(ControlTraffic::default());
    /// control.follow()?;
    /// let mut port = af_packet::open("eth0", 512)?;
    /// if let Err(why) = port.take_alone(control) {
    ///     eprintln!("the kernel gets it all as well: {why}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BpfError`] before Linux 6.6, and without CAP_NET_ADMIN and CAP_BPF. Control traffic is left to the kernel all the same, which has
    /// copies of the rest.
    ///
    /// # Cost
    /// As `leave_to_kernel`; and in the kernel some hundred instructions of its program for each frame, in place of its stack's work on it.
    pub fn take_alone(&mut self, control: Arc<ControlTraffic>) -> Result<(), BpfError> {
        let interface = self.device().netdev().index();
        let alone = Alone::new(&control, interface);
        self.leave_to_kernel(control);
        if let Some(left) = &mut self.device_mut().left {
            left.alone = Some(alone?);
        }
        Ok(())
    }
}
