//! Checks whether the interface has got receive queues that no port has. COLD.
//!
//! Packets that come by such a queue go to the kernel. If the ports of a UMEM once had all queues of their interface,
//! that is not what their user wants, and they complain. Ports that never had all queues were opened so on purpose.
//!
//! The look of once a second asks for the number of queues only if nothing was received since the last look, because
//! that call waits for the kernel's lock of all interfaces. While packets come, it is asked when the program has left
//! packets of the first queue behind the known ones to the kernel, whose count is read without that lock.

use super::XdpPort;
use super::absence::Presence;
use crate::sys::netdev::Netdev;

#[derive(Debug)]
pub(super) struct Coverage {
    /// Number of receive queues when the port was opened. None if the driver does not report it.
    opened: Option<u32>,
    /// The ports of the UMEM had all of these at one time.
    is_whole: bool,
    /// Number of receive queues when the interface was asked last, or that at the beginning if it was greater.
    known: u32,
    /// Number of packets that had been left to the kernel by then on the first queue behind these.
    left: Option<u64>,
    /// The interface may be another one than when it was asked.
    is_due: bool,
    complaint: Option<String>,
}

impl Coverage {
    pub(super) fn new(netdev: &Netdev) -> Coverage {
        let opened = netdev.queues().ok().flatten().map(|queues| queues.rx);
        let known = opened.unwrap_or_default();
        Coverage { opened, is_whole: false, known, left: Some(0), is_due: false, complaint: None }
    }

    /// The queues without a port, and the remedy, if there are any.
    pub(super) fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }

    /// Asks for the number of queues at the next look.
    pub(super) fn ask_again(&mut self) {
        self.is_due = true;
    }

    /// Returns whether the interface should be asked, if `left` packets of the first queue behind the known ones have
    /// been left to the kernel. A complaint that stands is not worth a wait while packets come.
    fn is_to_ask(&self, is_silent: bool, left: Option<u64>) -> bool {
        self.is_whole && (is_silent || self.is_due || self.complaint.is_none() && left != self.left)
    }
}

impl XdpPort {
    /// What its user should know of the interface; None while the port is closed or down.
    pub(super) fn complaint_while_open(&self) -> Option<String> {
        let is_open = self.presence == Presence::Here && self.queues.is_some();
        let binding = self.binding.as_ref().filter(|_| is_open)?;
        let of_queues = self.coverage.complaint().map(str::to_owned);
        let of_addresses = |errno| {
            let name = self.netdev.name();
            format!(
                "frames to other MAC addresses do not come: a packet socket for {name} is refused ({errno}); \
                 allow AF_PACKET, or use `ip link set dev {name} promisc on`"
            )
        };
        of_queues.or_else(|| binding.attachment.promiscuous_refused().map(of_addresses))
    }

    /// Checks whether each receive queue has a port, if they all had one. `is_silent`: nothing was received since the
    /// last look.
    #[cold]
    pub(super) fn look_after_coverage(&mut self, is_silent: bool) {
        let (coverage, interface) = (&mut self.coverage, self.netdev.name());
        let Some((binding, opened)) = self.binding.as_ref().zip(coverage.opened) else { return };
        let attachment = &binding.attachment;
        coverage.is_whole |= attachment.lacking(0..opened) == 0;
        if !coverage.is_to_ask(is_silent, attachment.left(coverage.known)) {
            return;
        }
        // If it is gone or being renamed, a later look tells.
        let Ok(Some(now)) = self.netdev.queues_at_once() else { return };
        let lacking = attachment.lacking(opened..now.rx);
        coverage.known = now.rx.max(opened);
        coverage.left = attachment.left(coverage.known);
        coverage.is_due = false;
        coverage.complaint = (lacking > 0).then(|| {
            format!(
                "{lacking} of the {} receive queues of {interface} have no port, and their packets go to the kernel: it had {opened} \
                 when the port was opened; restart the program, or close the port and open it on all queues",
                now.rx
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_packets_come_the_queues_are_counted_only_if_there_are_signs_of_another_one() {
        let known = Coverage {
            opened: Some(2),
            is_whole: true,
            known: 2,
            left: Some(7),
            is_due: false,
            complaint: None,
        };
        assert!(known.is_to_ask(true, Some(7)) && known.is_to_ask(false, Some(8)));
        assert!(!known.is_to_ask(false, Some(7)));
        let standing = Coverage { complaint: Some("2 of the 4".into()), ..known };
        assert!(!standing.is_to_ask(false, Some(8)) && standing.is_to_ask(true, Some(8)));
        let again = Coverage { is_due: true, ..standing };
        assert!(again.is_to_ask(false, Some(8)));
        assert!(!Coverage { is_whole: false, ..again }.is_to_ask(true, Some(9)), "it was never to have all");
    }
}
