//! The varied parameters, with one group of variants for each. The others are compared with the first of a group.

use netmem::steer::RecordedQueue;

use super::plan::{ALL_HANDED, By, Plan, Way};

/// Slots in a ring if packets are handed over by flow. A frame always belongs to one flow, and a pool first returns
/// the frames that its owner freed itself. The more frames are posted, compared with those in the pool, the less
/// this favours the owner's flows.
const RING_BY_FLOW: usize = 8192;

/// Variants that are measured in the same rounds, each compared with the first.
pub(super) type Group = Vec<Plan>;

/// The variant whose worker hands half of the flows over, and the one worker that it is compared with: both hash each
/// packet by software.
pub(super) const SHARED: &str = "netmem/shared";
pub(super) const ONE_HASHED: &str = "netmem/one-hashed";

/// One worker, hand-off of all packets to a second, two workers with queues of their own, hand-off of half the flows,
/// and one worker that hashes each packet as the last one does, at light and at heavy work.
pub(super) fn headlines(sums: u64) -> [Group; 2] {
    [0, sums].map(|sums| {
        let ways = [
            ("one", Way::One),
            ("handed", ALL_HANDED),
            ("queues", Way::Queues),
            ("shared", Way::Handed("hash")),
            ("one-hashed", Way::One),
        ];
        let plan = |(variant, way)| {
            let hashed = variant == "one-hashed";
            Plan { sums, ring: RING_BY_FLOW, hashed, ..Plan::new(variant, way) }
        };
        ways.map(plan).into()
    })
}

/// Slots in the ring of the one port, or in those of both workers' ports together, whose frames are used in turn:
/// 2, 64, 256, 1,024 and 2,048 MiB of frames.
pub(super) const RINGS: [usize; 5] = [1 << 10, 1 << 15, 1 << 17, 1 << 19, 1 << 20];

/// All the other parameters, each varied alone, with working sets as far as `rings` go. For ports, working sets and
/// other work on the cores each step is a group: one worker, all handed over, and two queues.
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
        [("consumer-hash", "hash"), ("consumer-flow", "flow")]
            .map(|(variant, policy)| Plan {
                consumed: true,
                sums: 1,
                ring: RING_BY_FLOW,
                ..Plan::new(variant, Way::Handed(policy))
            })
            .into(),
        [32, 8, 64].map(|burst| Plan { burst, ..handed(format!("burst-{burst}")) }).into(),
        [512, 128, 2048].map(|inbox| Plan { inbox, ..handed(format!("inbox-{inbox}")) }).into(),
        [("tx-second", RecordedQueue::Worker), ("tx-first", RecordedQueue::Received)]
            .map(|(variant, record)| Plan { record, ..handed(variant.to_owned()) })
            .into(),
    ];
    groups.extend(
        [1, 2, 4].map(|ports| Plan::three_ways(&format!("ports-{ports}"), |plan| Plan { ports, ..plan })),
    );
    groups.extend(
        rings
            .iter()
            .map(|&ring| Plan::three_ways(&format!("ring-{ring}"), |plan| Plan { ring, sums: 1, ..plan })),
    );
    groups.extend(
        [50, 80].map(|pressure| {
            Plan::three_ways(&format!("pressure-{pressure}"), |plan| Plan { pressure, ..plan })
        }),
    );
    groups
}

/// Slots in the ring of the port with which the product's forwarder uses 64 MiB of frames in turn. It touches the
/// headers' line of each, which are 2 MiB: more than a core's own cache has, and less than a last-level cache.
const RING_OF_FORWARDER: usize = RINGS[1];

/// The same with 256 MiB, of which 64 MiB are read if packets are read whole: more than most last-level caches have.
/// A forwarder's memory is more than twice its frames, so it is measured where the loops have the next larger step.
const RING_READ: usize = RINGS[2];

/// Bytes of a small packet, the generator's smallest. The source's have 60, to which a card adds four.
const SMALL: usize = 64;

/// Queues on both cores, of which the first gets a fourth or a tenth of all packets, as with queues that are not bound
/// carefully. The source calls its patch another way beside careful binding.
fn skewed() -> Group {
    let queues = |percent: u64| Plan {
        skew: Some(percent),
        ..Plan::new(&format!("routed-skewed-queues-{percent}"), Way::Queues)
    };
    vec![
        Plan::new("routed-skewed-one", Way::One),
        Plan::new("routed-skewed-handed", ALL_HANDED),
        queues(25),
        queues(10),
    ]
}

/// The product's forwarder, in the same variants: it routes frames, routes packets with heads, has four ports, has
/// more frames in turn, has other work on its core, has small packets, and reads each packet whole, with still more
/// frames. Also beside queues that are not equally full.
pub(super) fn forwarder(rings: &[usize]) -> Vec<Group> {
    let frames = |plan| Plan { by: By::Frames, ..plan };
    let mut groups = vec![
        Plan::three_ways("routed", frames),
        Plan::three_ways("packets", |plan| Plan { by: By::Packets, ..plan }),
        Plan::three_ways("routed-4-ports", |plan| Plan { ports: 4, ..frames(plan) }),
        Plan::three_ways("routed-ring", |plan| Plan { ring: RING_OF_FORWARDER, ..frames(plan) }),
        Plan::three_ways("routed-pressure-50", |plan| Plan { pressure: 50, ..frames(plan) }),
    ];
    groups.push(Plan::three_ways("routed-64-bytes", |plan| Plan { bytes: SMALL, ..frames(plan) }));
    groups.push(skewed().into_iter().map(frames).collect());
    if rings.last().is_some_and(|&last| last > RING_READ) {
        let read = |plan| Plan { ring: RING_READ, reads: true, ..frames(plan) };
        groups.push(Plan::three_ways("routed-read", read));
    }
    groups
}
