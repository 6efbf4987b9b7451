//! Requests of a process without privileges: its broker loads and attaches programs. COLD.

use super::{BpfError, BpfStep, Punted, Selection, SocketMap};
use crate::sys::broker::{self, Broker, Hook, Leaves, Redirect, Refusal, Request};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Has the broker load the redirect program.
#[cold]
pub(super) fn load_by(
    broker: &Broker,
    sockets: &SocketMap,
    selection: Option<&Selection<'_>>,
    several: bool,
) -> Result<OwnedFd, BpfError> {
    let mut descriptors = vec![sockets.as_fd()];
    let leaves = selection.map(|&Selection { punted, take, counts }| {
        descriptors.push(counts.as_fd());
        if let Punted::Control(own) = punted {
            descriptors.extend(own.descriptors());
        }
        Leaves { punt: punted.punt() as u8, take: take.map(|(take, mac)| (take.to_string(), mac)) }
    });
    let request = Request::Redirect(Redirect { leaves, several });
    broker::ask_for_one(broker, &request, &descriptors).map_err(refused(BpfStep::LoadProgram))
}

/// Has the broker attach a program to the interface of that number.
#[cold]
pub(super) fn attach_by(
    broker: &Broker,
    hook: Hook,
    interface: u32,
    program: BorrowedFd<'_>,
) -> Result<OwnedFd, Errno> {
    Ok(broker::ask_for_one(broker, &Request::Attach(hook, interface), &[program])?)
}

/// Converts a refusal of the broker at this step.
pub(super) fn refused(step: BpfStep) -> impl Fn(Refusal) -> BpfError {
    move |Refusal { errno, text: log, .. }| BpfError { step, errno, log }
}
