//! Refusals of an XDP mode.

use crate::sys::bpf::{BpfError, BpfStep, XdpMode};
use crate::sys::errno::Errno;

/// Returns whether another mode may work: the driver refused, and the cause is not a permission, a program, a missing
/// interface or a missing descriptor.
pub(super) fn is_about_the_mode(error: &BpfError) -> bool {
    let attach = matches!(error.step, BpfStep::AttachNative | BpfStep::AttachGeneric);
    let others = matches!(
        error.errno,
        Errno::PERM | Errno::BUSY | Errno::EXIST | Errno::NODEV | Errno::MFILE | Errno::NFILE
    );
    attach && !others
}

/// `native: Operation not supported`
pub(super) fn mode_refused(error: &BpfError) -> String {
    let mode = if error.step == BpfStep::AttachNative { XdpMode::Native } else { XdpMode::Generic };
    format!("{mode}: {}", error.errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_mode_is_tried_for_a_driver_without_xdp_and_not_against_a_program_or_a_ban() {
        let refused =
            |errno| is_about_the_mode(&BpfError { step: BpfStep::AttachNative, errno, log: String::new() });
        assert!(refused(Errno::OPNOTSUPP) && refused(Errno::RANGE) && refused(Errno::INVAL));
        assert!(!refused(Errno::BUSY) && !refused(Errno::EXIST) && !refused(Errno::PERM));
        assert!(!refused(Errno::MFILE) && !refused(Errno::NFILE));
        let load = BpfError { step: BpfStep::LoadProgram, errno: Errno::INVAL, log: String::new() };
        assert!(!is_about_the_mode(&load));
    }
}
