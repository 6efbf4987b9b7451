//! The program at an interface's ingress, which keeps the packets that a packet socket takes from the kernel's stack.
//!
//! A packet socket gets its copy of a frame before the ingress, so a drop there removes the frame from the stack alone.
//! The program is attached by a link of TCX (Linux 6.6). As with the link of an `xdp` port, the program goes when the
//! descriptor closes, on every exit of a process.
//!
//! Before 6.6 a program could be at an ingress only as a filter of a queueing discipline. Such a filter stays behind a
//! process that was killed, and leaves a host that forwards and answers nothing. For this reason it is not used.
//!
//! Source: `linux/bpf.h` (BPF_LINK_CREATE, `tcx`), tcx_attach of `kernel/bpf/tcx.c`; `__netif_receive_skb_core` for the
//! order.

use super::program::ingress_program;
use super::test_run::test_run;
use super::{
    AddressMaps, BPF_LINK_CREATE, BpfError, BpfStep, ON_PACKETS, Program, attach_by, bpf_fd, load_or_say_why,
    refused,
};
use crate::sys::broker::{self, Hook, Request};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const BPF_TCX_INGRESS: u32 = 46;

/// The loaded program. It drops all frames except control traffic, frames for another station, and frames for a VLAN.
#[derive(Debug)]
pub struct IngressProgram(OwnedFd);

impl IngressProgram {
    /// Loads the program. It passes packets to the own addresses in `own`, which may change later.
    ///
    /// # Errors
    /// [`BpfError`]: `PERM` without CAP_BPF and CAP_NET_ADMIN. If the verifier refused, with its words.
    pub fn load(own: &AddressMaps) -> Result<IngressProgram, BpfError> {
        if let Some(broker) = broker::current() {
            let made = broker::ask_for_one(broker, &Request::Ingress, &own.descriptors());
            return made.map(IngressProgram).map_err(refused(BpfStep::LoadIngress));
        }
        let code = &ingress_program(own.raw());
        let program = Program { kind: ON_PACKETS, name: b"netmem_ingress\0\0", license: c"MIT", code };
        load_or_say_why(BpfStep::LoadIngress, &program).map(IngressProgram)
    }

    /// The verdict on `frame`, 14 bytes at least, as if it came to the interface `lo`, whose MAC address is
    /// 00:00:00:00:00:00: −1 passes it, 2 drops it (`linux/bpf.h`, TCX_NEXT and TCX_DROP).
    ///
    /// # Errors
    /// [`BpfError`]: `INVAL` for a shorter frame, or for one that does not fit a page.
    pub fn verdict(&self, frame: &[u8]) -> Result<i32, BpfError> {
        let verdict =
            test_run(&self.0, frame, 1).map_err(|errno| BpfError::new(BpfStep::AskProgram, errno))?;
        Ok(verdict.cast_signed())
    }

    /// Attaches the program behind others to the interface number `interface` of the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// [`BpfError`]: `INVAL` before Linux 6.6, `NODEV` without the interface.
    pub fn attach(&self, interface: u32) -> Result<IngressLink, BpfError> {
        #[repr(C)]
        struct LinkCreate {
            prog_fd: u32,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
            relative: u32,
            padding: u32,
            expected_revision: u64,
        }
        let attributes = LinkCreate {
            prog_fd: self.0.as_raw_fd() as u32,
            target_ifindex: interface,
            attach_type: BPF_TCX_INGRESS,
            flags: 0,
            relative: 0,
            padding: 0,
            expected_revision: 0,
        };
        let made = match broker::current() {
            // SAFETY: the attributes of BPF_LINK_CREATE hold no pointers.
            None => unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) },
            Some(broker) => attach_by(broker, Hook::Ingress, interface, self.0.as_fd()),
        };
        made.map(|link| IngressLink { _link: link })
            .map_err(|errno| BpfError::new(BpfStep::AttachIngress, errno))
    }
}

impl From<OwnedFd> for IngressProgram {
    /// Wraps a program that another process loaded and handed over. It is only attached; the kernel checks it then.
    fn from(program: OwnedFd) -> IngressProgram {
        IngressProgram(program)
    }
}

impl From<IngressProgram> for OwnedFd {
    fn from(program: IngressProgram) -> OwnedFd {
        program.0
    }
}

impl From<IngressLink> for OwnedFd {
    fn from(link: IngressLink) -> OwnedFd {
        link._link
    }
}

/// The program at one interface's ingress until this is dropped.
#[derive(Debug)]
pub struct IngressLink {
    _link: OwnedFd,
}
