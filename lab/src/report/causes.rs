//! The causes of netmem's losses, as far as they are known, by experiment and setting.

use serde_json::Value;

use super::pick::{self, Fixed};
use crate::json::{Params, Ratio, Report};

/// A single page: also the cause of a missed target.
pub(super) const PAGE: &str = "58 instructions: the worker enters its list and leaves it in a way that lets another thread take pages from it, each call changes a gauge and a counter, and a free checks to whom the page belongs; a general allocator pops from a list of its thread.";
/// Frames in bulk, written.
pub(super) const WRITTEN: &str = "A frame carries the length of its data, so each write has a fifth store in addition to the four of the line, and 23 instructions; an element of a mempool has no length. In some layouts of the binary the times of both differ by a factor of two, because stores to frames and loads of the batch lie a multiple of 4 KiB apart.";
/// Routing between veths, compared with the kernel.
pub(super) const COPIES: &str = "In copy mode the kernel copies each packet twice, from its own buffer into netmem's and from netmem's into a new one of its own, on two cores: about 585 ns were seen on the sender's core and as many on the device's. The kernel's own forwarding takes 765 ns in all, copies nothing and stays on one core. testpmd takes about as long as netmem. ADR 0032 has the samples: a third of the sender's time is the reception by AF_XDP, and a quarter of the device's is the kernel's new packet and its copy.";
const ORDERS: &str = "Above order 9 a worker has no list of its own: each block is taken from its node and given back to it, each under the node's lock. A general allocator keeps a freed block of that size in a bin.";
const HELD: &str = "More objects are held than a worker's sheaves and the barn keep, so that the rest come out of slabs and go back into them; a general allocator's list of its thread has no such end.";
const UNKNOWN: &str = "The cause is not known.";

/// One cause of a loss.
struct Cause {
    experiment: &'static str,
    fits: fn(&Params) -> bool,
    why: &'static str,
}

fn number(params: &Params, name: &str) -> u64 {
    params.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn is(params: &Params, name: &str, value: &str) -> bool {
    pick::has(params, &[(name, value)])
}

/// The first that matches is reported.
const CAUSES: &[Cause] = &[
    Cause { experiment: "page-fast-path", fits: |_| true, why: PAGE },
    Cause { experiment: "page-order", fits: |params| number(params, "order") > 9, why: ORDERS },
    // A worker's lists of these orders are other code than those of smaller ones, whose instructions were counted.
    Cause { experiment: "page-order", fits: |params| number(params, "order") > 3, why: UNKNOWN },
    Cause { experiment: "page-order", fits: |_| true, why: PAGE },
    Cause {
        experiment: "rivals",
        fits: |params| is(params, "work", "page") && number(params, "burst") == 1,
        why: PAGE,
    },
    Cause {
        experiment: "rivals",
        fits: |params| is(params, "work", "object") && number(params, "burst") >= 1_024,
        why: HELD,
    },
    Cause {
        experiment: "rivals",
        fits: |params| is(params, "work", "frame") && is(params, "touch", "true"),
        why: WRITTEN,
    },
    Cause { experiment: "forward-xdp", fits: |params| is(params, "routes", "true"), why: COPIES },
];

/// Returns the cause of this lost ratio.
pub(super) fn of(experiment: &str, ratio: &Ratio) -> &'static str {
    let fits = |cause: &&Cause| cause.experiment == experiment && (cause.fits)(&ratio.params);
    CAUSES.iter().find(fits).map_or(UNKNOWN, |cause| cause.why)
}

/// Work that is expensive compared with the limit of the same run, without a rival.
struct Dear {
    experiment: &'static str,
    what: &'static str,
    a: &'static str,
    fixed: Fixed<'static>,
    why: &'static str,
}

/// The multiple of the bound's cost from which on it is reported.
const WORTH_TELLING: f64 = 4.0;

const DEAR: &[Dear] = &[Dear {
    experiment: "page-cross-worker",
    what: "A frame of a pool that is freed by itself on another core, for that core",
    a: "netmem/frame",
    fixed: &[("side", "B"), ("touch", "false")],
    why: "Each takes a compare-and-swap of its own on the remote free queue, and a store into a line that the owner reads; frames that are freed as a batch pay that once for all of them.",
}];

/// Returns the work that is certainly expensive, one sentence each.
pub(super) fn dear(reports: &[Report]) -> Vec<String> {
    let all = DEAR.iter().flat_map(|dear| {
        let of_it = reports.iter().filter(|report| report.experiment == dear.experiment);
        of_it.filter_map(move |report| Some((dear, pick::ratio(report, dear.a, "limit", dear.fixed)?)))
    });
    let reported = all.filter(|(_, ratio)| ratio.low > WORTH_TELLING && !ratio.too_few);
    reported
        .map(|(dear, Ratio { median, low, high, .. })| {
            format!(
                "{}: {median:.1} ({low:.1} to {high:.1}) times the bare ring ({}). {}",
                dear.what, dear.experiment, dear.why
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{params, tests::sample};

    fn lost(experiment: &str, settings: Params) -> &'static str {
        of(experiment, &Ratio { params: settings, ..sample().ratios.remove(0) })
    }

    #[test]
    fn a_loss_has_the_cause_of_its_setting() {
        assert_eq!(lost("page-order", params([("order", 3.into())])), PAGE);
        let objects = |burst: u64| params([("work", "object".into()), ("burst", burst.into())]);
        assert_eq!(lost("rivals", objects(8_192)), HELD);
        assert_eq!(lost("rivals", objects(8)), UNKNOWN);
    }

    /// Seen: "From order 4 on a worker has no list of its own", where it has lists of orders 4 to 9.
    #[test]
    fn only_the_largest_order_is_lost_for_want_of_a_list() {
        let lost = |order: u64| lost("page-order", params([("order", order.into())]));
        assert_eq!([4, 9, 10].map(lost), [UNKNOWN, UNKNOWN, ORDERS]);
    }

    #[test]
    fn a_cost_is_reported_only_if_the_whole_interval_shows_it() {
        let mut report = Report { experiment: "page-cross-worker".into(), ..sample() };
        let ratio = &mut report.ratios[0];
        (ratio.a, ratio.b) = ("netmem/frame".into(), "limit".into());
        ratio.params = params([("side", "B".into()), ("touch", false.into())]);
        (ratio.low, ratio.median, ratio.high) = (20.0, 30.0, 40.0);
        let reported = dear(&[report.clone()]);
        assert!(reported[0].contains("30.0 (20.0 to 40.0) times the bare ring"), "{reported:?}");
        report.ratios[0].low = 3.0;
        assert!(dear(&[report]).is_empty());
    }
}
