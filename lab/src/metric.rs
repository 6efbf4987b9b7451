//! The units of rows, and their values from ticks per operation.

/// The unit of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Nanoseconds per operation.
    NsPerOp,
    /// Ticks of the time stamp counter per operation.
    CyclesPerOp,
    /// Nanoseconds per packet.
    NsPerPacket,
    /// Packets per second: one over the time per packet, so its p10 is the p90 of that time.
    Pps,
    /// A count. The row's parameters name the counted item.
    Count,
    /// Bytes of memory.
    Bytes,
    /// A share of a whole, times 100.
    Percent,
    /// Nanoseconds from one event to another.
    LatencyNs,
}

impl Metric {
    /// Returns the name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::NsPerOp => "ns_per_op",
            Self::CyclesPerOp => "cycles_per_op",
            Self::NsPerPacket => "ns_per_packet",
            Self::Pps => "pps",
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Percent => "percent",
            Self::LatencyNs => "latency_ns",
        }
    }

    /// Returns true if more ticks give a smaller figure.
    pub fn falls_with_ticks(self) -> bool {
        self == Self::Pps
    }

    /// Returns the figure for `ticks` per operation at `ticks_per_ns`. A count is the figure itself.
    pub fn of(self, ticks: f64, ticks_per_ns: f64) -> f64 {
        match self {
            Self::NsPerOp | Self::NsPerPacket | Self::LatencyNs => ticks / ticks_per_ns,
            Self::CyclesPerOp | Self::Count | Self::Bytes | Self::Percent => ticks,
            Self::Pps => 1e9 * ticks_per_ns / ticks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_hundred_nanoseconds_a_packet_are_two_million_packets_a_second() {
        assert_eq!(Metric::Pps.of(1_000.0, 2.0), 2e6);
        assert_eq!(Metric::NsPerPacket.of(1_000.0, 2.0), 500.0);
        assert_eq!(Metric::CyclesPerOp.of(1_000.0, 2.0), 1_000.0);
    }

    #[test]
    fn what_is_counted_does_not_depend_on_the_clock() {
        for counted in [Metric::Count, Metric::Bytes, Metric::Percent] {
            assert_eq!((counted.of(64.0, 2.6), counted.falls_with_ticks()), (64.0, false));
        }
    }
}
