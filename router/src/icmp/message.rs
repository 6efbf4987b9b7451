//! The messages of ICMP errors.

use netmem::forward::Reason;

/// The message that is sent about a packet that is not forwarded, in either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Message {
    /// There is no route.
    NetUnreachable,
    /// The route is `unreachable`, or the next hop does not answer.
    HostUnreachable,
    /// The route is `prohibit`.
    Prohibited,
    /// The packet is longer than the next link carries.
    TooBig,
    /// The packet's TTL or hop limit is used up.
    TimeExceeded,
    /// The packet asks for a source route that the router does not follow.
    SourceRouteFailed,
    /// The packet's source is link-local, and its destination is on another link.
    BeyondScope,
    /// A byte of the packet's header is wrong. The error points to the byte.
    ParameterProblem,
}

impl Message {
    /// All values, in the order of their [`index`](Self::index).
    pub const ALL: [Message; 8] = [
        Message::NetUnreachable,
        Message::HostUnreachable,
        Message::Prohibited,
        Message::TooBig,
        Message::TimeExceeded,
        Message::SourceRouteFailed,
        Message::BeyondScope,
        Message::ParameterProblem,
    ];

    /// Returns the message about a packet that was dropped for `reason`, or None if the sender is not informed.
    pub const fn of(reason: Reason) -> Option<Message> {
        Some(match reason {
            Reason::NoRoute => Message::NetUnreachable,
            Reason::Unreachable | Reason::NeighFailed => Message::HostUnreachable,
            Reason::Prohibited => Message::Prohibited,
            Reason::PktTooBig => Message::TooBig,
            Reason::TtlExpired => Message::TimeExceeded,
            Reason::SourceRoute => Message::SourceRouteFailed,
            Reason::BeyondScope => Message::BeyondScope,
            Reason::BadOptions => Message::ParameterProblem,
            _ => return None,
        })
    }

    /// Returns type and code in ICMP (RFC 792, RFC 1812 §5.2.7.1), or None if IPv4 does not have this message.
    pub const fn v4(self) -> Option<(u8, u8)> {
        Some(match self {
            Message::NetUnreachable => (3, 0),
            Message::HostUnreachable => (3, 1),
            Message::Prohibited => (3, 13),
            Message::TooBig => (3, 4),
            Message::SourceRouteFailed => (3, 5),
            Message::TimeExceeded => (11, 0),
            Message::ParameterProblem => (12, 0),
            Message::BeyondScope => return None,
        })
    }

    /// Returns type and code in ICMPv6 (RFC 4443 §3), or None if IPv6 does not have this message.
    pub const fn v6(self) -> Option<(u8, u8)> {
        Some(match self {
            Message::NetUnreachable => (1, 0),
            Message::Prohibited => (1, 1),
            Message::BeyondScope => (1, 2),
            Message::HostUnreachable => (1, 3),
            Message::TooBig => (2, 0),
            Message::TimeExceeded => (3, 0),
            Message::SourceRouteFailed | Message::ParameterProblem => return None,
        })
    }

    /// Returns the name of the counter.
    pub const fn name(self) -> &'static str {
        match self {
            Message::NetUnreachable => "net_unreachable",
            Message::HostUnreachable => "host_unreachable",
            Message::Prohibited => "prohibited",
            Message::TooBig => "too_big",
            Message::TimeExceeded => "time_exceeded",
            Message::SourceRouteFailed => "source_route_failed",
            Message::BeyondScope => "beyond_scope",
            Message::ParameterProblem => "parameter_problem",
        }
    }

    /// Returns the position in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}
