//! What varies, one group of variants for each: the first one is what the others are held against.

use netmem::steer::Record;

use super::plan::{ALL_HANDED, Plan, Way};

/// Places in a ring where packets are handed over by flow. A frame is of one flow always, and a pool gives out first what
/// its owner freed itself: the more frames are posted, beside those that stay at home, the less that favours its flows.
const RING_BY_FLOW: usize = 8192;

/// Variants that are measured in the same rounds, each over the first.
pub(super) type Group = Vec<Plan>;

/// One worker, hand-off of all to a second, two workers with queues of their own, and hand-off of half the flows, at light
/// and at heavy work.
pub(super) fn headlines(sums: u64) -> [Group; 2] {
    [0, sums].map(|sums| {
        [("one", Way::One), ("handed", ALL_HANDED), ("queues", Way::Queues), ("shared", Way::Handed("hash"))]
            .map(|(variant, way)| Plan { sums, ring: RING_BY_FLOW, ..Plan::new(variant, way) })
            .into()
    })
}

/// Places in the ring of the one port, whose frames come round in turn: working sets of 2, 64, 256, 1,024 and 2,048 MiB.
pub(super) const RINGS: [usize; 5] = [1 << 10, 1 << 15, 1 << 17, 1 << 19, 1 << 20];

/// All the other axes, each swept alone; working sets as far as `rings` go.
pub(super) fn sweeps(sums: u64, rings: &[usize]) -> Vec<Group> {
    let handed = |variant: String| Plan::new(&variant, ALL_HANDED);
    let heavy = |variant: &str, way| Plan { sums, ring: RING_BY_FLOW, ..Plan::new(variant, way) };
    let mut groups = vec![
        [0, 1, 2].map(|lines| Plan { lines, ..handed(format!("lines-{lines}")) }).into(),
        vec![
            heavy("map", ALL_HANDED),
            heavy("round-robin", Way::Handed("round-robin")),
            heavy("hash", Way::Handed("hash")),
            heavy("flow", Way::Handed("flow")),
        ],
        [32, 8, 64].map(|burst| Plan { burst, ..handed(format!("burst-{burst}")) }).into(),
        [512, 128, 2048].map(|inbox| Plan { inbox, ..handed(format!("inbox-{inbox}")) }).into(),
        [("tx-second", Record::Second), ("tx-first", Record::First)]
            .map(|(variant, record)| Plan { record, ..handed(variant.to_owned()) })
            .into(),
    ];
    let ports = |variant: &str, way| {
        [1, 2, 4].map(|ports| Plan { ports, ..Plan::new(&format!("{variant}-{ports}"), way) })
    };
    groups.extend([ports("ports-one", Way::One), ports("ports-handed", ALL_HANDED)].map(Group::from));
    let sets = |variant: &str, way| {
        let plan =
            |ring: &usize| Plan { ring: *ring, sums: 1, ..Plan::new(&format!("{variant}-{ring}"), way) };
        rings.iter().map(plan).collect()
    };
    groups.extend([sets("ring-one", Way::One), sets("ring-handed", ALL_HANDED)]);
    groups
}
