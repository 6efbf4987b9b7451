//! A port that takes its packets alone: packets that it does not leave to the kernel do not reach the kernel's stack.
//! COLD.

use super::AfPacketPort;
use super::control::ControlTraffic;
use crate::port::xdp::BpfError;
use crate::sys::bpf::{IngressLink, IngressProgram};
use std::sync::Arc;

/// The program at the ingress of a port's interface.
#[derive(Debug)]
pub(super) struct Alone {
    program: IngressProgram,
    /// The place where the program is attached now; None while the port's interface is gone.
    link: Option<IngressLink>,
}

impl Alone {
    fn new(control: &ControlTraffic, interface: u32) -> Result<Alone, BpfError> {
        let program = IngressProgram::load(control.in_kernel()?.maps())?;
        let link = program.attach(interface)?;
        Ok(Alone { program, link: Some(link) })
    }

    /// Detaches the program. An interface that has moved to another network namespace keeps it otherwise, and the
    /// kernel there receives nothing.
    pub(super) fn detach(&mut self) {
        self.link = None;
    }

    /// Attaches the program to the ingress of the interface of that number. The kernel does not attach it to one
    /// interface twice.
    pub(super) fn move_to(&mut self, interface: u32) -> Result<(), BpfError> {
        self.detach();
        self.link = Some(self.program.attach(interface)?);
        Ok(())
    }
}

impl AfPacketPort {
    /// Leaves control traffic to the kernel as [`leave_to_kernel`](AfPacketPort::leave_to_kernel) does, and keeps all
    /// other frames for this station from the kernel's stack. The stack then neither forwards nor answers them. A
    /// program at the interface's ingress drops the kernel's copy, until the port is dropped or the process ends in any
    /// way. Frames for other stations and for VLANs continue to a bridge or a VLAN's interface. `control` is the
    /// traffic that is left to the kernel.
    ///
    /// ```no_run
    /// use netmem::port::af_packet::{AfPacketConfig, AfPacketPort, ControlTraffic};
    /// use std::sync::Arc;
    ///
    /// let control = Arc::new(ControlTraffic::default());
    /// control.follow()?;
    /// let mut port = AfPacketPort::open("eth0", &AfPacketConfig::default())?;
    /// if let Err(why) = port.take_alone(control) {
    ///     eprintln!("the kernel gets it all as well: {why}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`BpfError`] before Linux 6.6, and without CAP_NET_ADMIN and CAP_BPF. Control traffic is left to the
    /// kernel all the same, and the kernel has copies of the other frames.
    ///
    /// # Cost
    /// The cost of `leave_to_kernel`. In addition, the kernel runs some hundred instructions of its program for each
    /// frame, in place of its stack's work on the frame.
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
