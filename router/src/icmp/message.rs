//! What an error says.

use netmem::forward::Reason;

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
    /// It asks for a source route that is not followed.
    SourceRouteFailed,
    /// Its source means nothing beyond its own link.
    BeyondScope,
    /// A byte of its header is wrong, to which the error points.
    ParameterProblem,
}

impl Message {
    /// All of them, in the order of their [`index`](Self::index).
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

    /// What is said of a packet that was dropped for `reason`; None where nothing is.
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

    /// Its type and code in ICMP (RFC 792, RFC 1812 §5.2.7.1); None where it is about nothing in IPv4.
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

    /// Its type and code in ICMPv6 (RFC 4443 §3); None where it is about nothing in IPv6.
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

    /// The name of its counter.
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

    /// Its place in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}
