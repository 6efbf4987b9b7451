//! The registration of the UMEM that a socket uses. COLD.
//!
//! All sockets of one registration are zero-copy or none is, and the same holds for packets of several chunks (xsk_bind,
//! xp_assign_dev_shared of Linux). So ports that differ in this register the same memory once more, and a port on a card
//! is zero-copy beside a port on a software device. A frame belongs to no registration, and goes from one to the other
//! as it goes from port to port.

use crate::sys::netdev::NetdevId;
use crate::sys::xdp::{Socket, ZeroCopy};
use std::sync::{Arc, Weak};

/// A socket of a port that is open.
#[derive(Debug)]
pub(super) struct BoundSocket {
    pub(super) interface: NetdevId,
    pub(super) queue: u32,
    pub(super) socket: Weak<Socket>,
    /// Packets of several chunks were requested.
    pub(super) several: bool,
}

/// How a socket comes to a registration.
#[derive(Debug)]
pub(super) enum Registration {
    /// It registers the UMEM itself, and is bound with this setting.
    Own(ZeroCopy),
    /// It shares that of this socket.
    Shared(Arc<Socket>),
}

/// The same, with the number of the other socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Own(ZeroCopy),
    Shared(usize),
}

/// What all sockets of one registration have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    zero_copy: bool,
    /// Packets of several chunks were requested.
    several: bool,
}

impl Registration {
    /// Returns the registration to try first, and those to try in this order if the kernel refuses it.
    pub(super) fn choose(
        sockets: &[BoundSocket],
        preference: ZeroCopy,
        several: bool,
    ) -> (Registration, Vec<Registration>) {
        let there = sockets.iter().filter_map(|one| Some((one.socket.upgrade()?, one.several)));
        // A socket that lost its interface has nothing to share any more.
        let there: Vec<_> = there.filter(|(socket, _)| socket.is_bound()).collect();
        let kind = |(socket, several): &(Arc<Socket>, bool)| Kind {
            zero_copy: socket.is_zero_copy(),
            several: *several,
        };
        let kinds: Vec<Kind> = there.iter().map(kind).collect();
        let of = |choice| match choice {
            Choice::Own(zero_copy) => Registration::Own(zero_copy),
            Choice::Shared(i) => Registration::Shared(there[i].0.clone()),
        };
        let (first, others) = choose(&kinds, preference, several);
        (of(first), others.into_iter().map(of).collect())
    }
}

fn choose(there: &[Kind], preference: ZeroCopy, several: bool) -> (Choice, Vec<Choice>) {
    let find = |suits: &dyn Fn(&Kind) -> bool| there.iter().position(suits).map(Choice::Shared);
    let zero_copy = find(&|kind| kind.zero_copy);
    let by_copies = match find(&|kind| *kind == Kind { zero_copy: false, several }) {
        Some(shared) => (shared, vec![]),
        // If no more memory may be locked, packets longer than a chunk are lost rather than all.
        None => (Choice::Own(ZeroCopy::Never), find(&|kind| !kind.zero_copy).into_iter().collect()),
    };
    match preference {
        ZeroCopy::Require => (zero_copy.unwrap_or(Choice::Own(ZeroCopy::Require)), vec![]),
        ZeroCopy::Never => by_copies,
        // A device whose packets may have several chunks is a software device, or its driver has no XDP.
        ZeroCopy::Try if several => by_copies,
        ZeroCopy::Try if there.is_empty() => (Choice::Own(ZeroCopy::Try), vec![]),
        ZeroCopy::Try => {
            let others = [vec![by_copies.0], by_copies.1].concat();
            (zero_copy.unwrap_or(Choice::Own(ZeroCopy::Require)), others)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Choice::{Own, Shared};
    use super::ZeroCopy::{Never, Require, Try};
    use super::*;

    const CARD: Kind = Kind { zero_copy: true, several: false };
    const SLOW_CARD: Kind = Kind { zero_copy: false, several: false };
    const VETH: Kind = Kind { zero_copy: false, several: true };

    /// Returns all that are tried.
    fn tried(there: &[Kind], preference: ZeroCopy, several: bool) -> Vec<Choice> {
        let (first, others) = choose(there, preference, several);
        [vec![first], others].concat()
    }

    /// Seen on a virtio-net card of Linux 6.18: with a port on it, none could be opened on a veth interface, and a card
    /// behind a veth interface was not zero-copy.
    #[test]
    fn a_card_is_zero_copy_beside_software_devices_in_any_order() {
        assert_eq!(tried(&[], Try, false), [Own(Try)]);
        assert_eq!(tried(&[CARD], Try, true), [Own(Never)]);
        assert_eq!(tried(&[], Try, true), [Own(Never)]);
        assert_eq!(tried(&[VETH], Try, false), [Own(Require), Own(Never), Shared(0)]);
        assert_eq!(tried(&[VETH, CARD], Try, true), [Shared(0)]);
        assert_eq!(tried(&[VETH, CARD], Try, false), [Shared(1), Own(Never), Shared(0)]);
        assert_eq!(tried(&[VETH, SLOW_CARD], Try, false), [Own(Require), Shared(1)]);
    }

    #[test]
    fn a_setting_is_kept_whatever_the_others_have() {
        for several in [false, true] {
            assert_eq!(tried(&[], Require, several), [Own(Require)]);
            assert_eq!(tried(&[VETH, SLOW_CARD], Require, several), [Own(Require)]);
            assert_eq!(tried(&[VETH, CARD], Require, several), [Shared(1)]);
            assert_eq!(tried(&[CARD], Never, several), [Own(Never)]);
        }
        assert_eq!(tried(&[CARD, SLOW_CARD], Never, false), [Shared(1)]);
        assert_eq!(tried(&[CARD, SLOW_CARD], Never, true), [Own(Never), Shared(1)]);
    }
}
