//! [zhang09-handoff]: lists of packets handed to another core.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::Report;
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::HAND_OFF,
    title: "Lists of packets handed to another core (Zhang Yanmin; Miller objects, 2009)",
    claims: &[
        Claim {
            experiment: "handoff",
            says: "Handing received packets to a second core forwards over 40 % more, with light work on each packet.",
            published: "> 1.4 times",
            judge: |report| handed(report, "netmem/one", "light", 1.4),
        },
        Claim {
            experiment: "handoff",
            says: "The same, where a packet is much work.",
            published: "> 1.4 times",
            judge: |report| handed(report, "netmem/one", "heavy", 1.4),
        },
        Claim {
            experiment: "handoff",
            says: "At equal core counts: handing over beats two cores that poll a queue each. This its author did not measure, and the thread doubts it.",
            published: "> 1.4 times, by the claim",
            judge: |report| handed(report, "netmem/queues", "light", 1.4),
        },
        Claim {
            experiment: "handoff",
            says: "What became of it, cpumap in 2019: another core that does the heavy part triples the rate.",
            published: "718,135 → 2,311,585 packets/s",
            judge: |report| handed(report, "netmem/one", "heavy", 2_311_585.0 / 718_135.0),
        },
    ],
    slip: Some(
        "The source says that packets pass through the last-level cache 8 times a second; by its own figures, 120 MB/s through 8 MB, it is 15.",
    ),
};

fn handed(report: &Report, against: &str, load: &str, published: f64) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/handed", against, &[("load", load)])?;
    let of = if against == "netmem/one" {
        "the packets of one core that does all"
    } else {
        "the packets of two cores with a queue each"
    };
    Some(ratio.finding(published, "two cores, one handing all to the other, forward", of))
}
