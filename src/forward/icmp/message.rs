//! What an error says.

use crate::forward::verdict::Reason;

/// What is said about a packet that is not forwarded, in either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Message {
    /// There is no route.
    NetUnreachable,
    /// The route says that it cannot be reached, or the next hop does not answer.
    HostUnreachable,
    /// The route says that it is prohibited.
    Prohibited,
    /// The packet is longer than the next link carries.
    TooBig,
    /// The packet has passed as many routers as it may.
    TimeExceeded,
}

impl Message {
    /// All of them, in the order of their [`index`](Self::index).
    pub const ALL: [Message; 5] = [
        Message::NetUnreachable,
        Message::HostUnreachable,
        Message::Prohibited,
        Message::TooBig,
        Message::TimeExceeded,
    ];

    /// What is said of a packet that was dropped for `reason`; None where nothing is.
    pub const fn of(reason: Reason) -> Option<Message> {
        Some(match reason {
            Reason::NoRoute => Message::NetUnreachable,
            Reason::Unreachable | Reason::SilentNeighbour => Message::HostUnreachable,
            Reason::Prohibited => Message::Prohibited,
            Reason::TooLong => Message::TooBig,
            Reason::TtlExpired => Message::TimeExceeded,
            _ => return None,
        })
    }

    /// Its type and code in ICMP (RFC 792, RFC 1812 §5.2.7.1).
    pub const fn v4(self) -> (u8, u8) {
        match self {
            Message::NetUnreachable => (3, 0),
            Message::HostUnreachable => (3, 1),
            Message::Prohibited => (3, 13),
            Message::TooBig => (3, 4),
            Message::TimeExceeded => (11, 0),
        }
    }

    /// Its type and code in ICMPv6 (RFC 4443 §3).
    pub const fn v6(self) -> (u8, u8) {
        match self {
            Message::NetUnreachable => (1, 0),
            Message::HostUnreachable => (1, 3),
            Message::Prohibited => (1, 1),
            Message::TooBig => (2, 0),
            Message::TimeExceeded => (3, 0),
        }
    }

    /// The name of its counter.
    pub const fn name(self) -> &'static str {
        match self {
            Message::NetUnreachable => "net_unreachable",
            Message::HostUnreachable => "host_unreachable",
            Message::Prohibited => "prohibited",
            Message::TooBig => "too_big",
            Message::TimeExceeded => "time_exceeded",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}
