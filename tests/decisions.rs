//! The examples of decisions of one's own, with what they send counted.

// Their `main` is the program's.
#[allow(dead_code)]
#[path = "../examples/acl.rs"]
mod acl;
#[allow(dead_code)]
#[path = "../examples/balancer.rs"]
mod balancer;

#[test]
fn an_acl_drops_what_is_listed_under_its_own_reason_and_all_else_crosses() {
    let denied = ["10.0.7.0/24", "10.0.16.0/20"].map(|prefix| prefix.parse().expect("a prefix"));
    let fates = acl::run(denied.into(), 25_600).expect("a run");
    assert_eq!(fates, [("crossed", 25_600 - 1_700), ("acl_denied", 1_700)]);
}

#[test]
fn a_load_balancer_on_two_workers_keeps_each_flow_with_one_back_end() {
    const PACKETS: usize = 50_000;
    let got = balancer::run(PACKETS).expect("a run");
    let packets: usize = got.iter().flat_map(|flows| flows.values()).sum();
    let mut flows: Vec<u16> = got.iter().flat_map(|flows| flows.keys().copied()).collect();
    flows.sort_unstable();
    assert_eq!((packets, flows), (PACKETS, (2000..2097).collect()), "each flow in one place, whole");
    // Each worker gives its flows out in turn.
    assert!(
        got.iter().all(|flows| (97 / 3 - 2..=97 / 3 + 2).contains(&flows.len())),
        "{:?}",
        got.map(|flows| flows.len())
    );
}
