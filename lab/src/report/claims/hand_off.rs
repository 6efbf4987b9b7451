//! [zhang09-handoff]: lists of packets handed to another core.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::Report;
use crate::report::{number, pick};
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::HAND_OFF,
    title: "Lists of packets handed to another core (Zhang Yanmin; Miller objects, 2009)",
    claims: &[
        Claim {
            name: "hand-off-light",
            experiment: "handoff",
            says: "Handing received packets to a second core forwards over 40 % more, with light work on each packet.",
            published: "> 1.4 times",
            timed: true,
            judge: |report| handed(report, "light"),
        },
        Claim {
            name: "hand-off-heavy",
            experiment: "handoff",
            says: "The same, where a packet is much work.",
            published: "> 1.4 times",
            timed: true,
            judge: |report| handed(report, "heavy"),
        },
        Claim {
            name: "hand-off-equal-cores",
            experiment: "handoff",
            says: "At equal core counts: handing over beats two cores that poll a queue each. Its author did not claim this; Miller objects that cards with several queues need no software spreading.",
            published: "a question, no figure",
            timed: true,
            judge: equal_cores,
        },
        Claim {
            name: "hand-off-forwarder",
            experiment: "handoff",
            says: "Handing over forwards over 40 % more IPv4 packets, as the text has it of its own forwarding: the product's forwarder with its routes.",
            published: "> 1.4 times",
            timed: true,
            judge: |report| routed(report, "routed"),
        },
        Claim {
            name: "hand-off-forwarder-large",
            experiment: "handoff",
            says: "The same with so many frames in turn that their headers outgrow a core's own cache. The source argues that packets are flushed from the caches anyway.",
            published: "> 1.4 times",
            timed: true,
            judge: |report| routed(report, "routed-ring"),
        },
        Claim {
            name: "hand-off-forwarder-read",
            experiment: "handoff",
            says: "The same with packets that are read whole and outgrow the last-level cache too.",
            published: "> 1.4 times",
            timed: true,
            judge: |report| routed(report, "routed-read"),
        },
    ],
    slip: Some(
        "The source says that packets pass through the last-level cache 8 times a second; by its own figures, 120 MB/s through 8 MB, it is 15.",
    ),
};

/// The source's own baseline is not known: its CPUs were partly idle, and it calls the patch another way beside careful
/// binding of queues and interrupts.
fn handed(report: &Report, load: &str) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/handed", "netmem/one", &[("load", load)])?;
    let what = "two cores, one handing all to the other, forward";
    let finding =
        ratio.finding_over(1.4, what, "the packets of one core that does all while the other is idle");
    Some(finding.because(
        "The frames at hand are 16 MiB and the packets 512 bytes; the source's packets are 60 bytes, and its argument is of caches that the packets flush.",
    ))
}

fn equal_cores(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/handed", "netmem/queues", &[("load", "light")])?;
    let sentence = format!(
        "Here two cores, one handing all to the other, forward {} times the packets of two cores with a queue each.",
        ratio.text()
    );
    Some(Finding { measured: format!("{:.3}", ratio.median), verdict: ratio.is_more(), sentence })
}

fn routed(report: &Report, variant: &str) -> Option<Finding> {
    let [handed, one] = ["handed", "one"].map(|way| format!("netmem/{variant}-{way}"));
    let ratio = Measured::find(report, &handed, &one, &[])?;
    let what = "two cores, one handing all to the other, route";
    let finding = ratio.finding_over(1.4, what, "the packets of one core that does both");
    // Rows of older runs name the bytes of all frames the working set.
    let row = pick::row(report, &handed, "pps", &[]);
    let mebibytes =
        |name: &str| row?.params.get(name)?.as_u64().map(|bytes| bytes as f64 / f64::from(1 << 20));
    let frames = mebibytes("frames_bytes").or_else(|| mebibytes("working_set"));
    Some(match (frames, mebibytes("touched")) {
        (Some(frames), Some(touched)) => finding.because(&format!(
            "The frames used in turn are {} MiB, of which {} MiB are touched.",
            number::figure(frames),
            number::figure(touched)
        )),
        _ => finding,
    })
}
