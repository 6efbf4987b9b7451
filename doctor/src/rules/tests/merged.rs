//! Findings that ask for the same change get one.

use super::*;

/// Seen: the number of queues was set to 4, then to 3, then to 2.
#[test]
fn ports_of_one_interface_get_one_change_with_queues_for_all_of_them() {
    let remedies = |numbers: &[u32]| {
        let (host, mut wanted) = (good_host(), wanted());
        queues(&mut wanted, numbers);
        let found = findings(&host, &wanted);
        let remedies: Vec<_> = found.iter().map(|finding| finding.remedy.clone()).collect();
        (changes(&found), remedies)
    };
    let four = "ethtool -L eth0 combined 4".to_owned();
    assert_eq!(remedies(&[3, 2, 1]), (vec![four.clone()], vec![four.clone(); 3]));
    assert_eq!(remedies(&[1, 2, 3]), (vec![four.clone()], vec![four.clone(); 3]));
    let (changes, remedies) = remedies(&[3, 9]);
    assert_eq!((changes, &remedies[0]), (vec![four.clone()], &four));
    assert!(remedies[1].contains("give fewer queues"), "the card has not as many: {remedies:?}");
}

/// Seen: the port was still without a queue.
#[test]
fn a_port_of_all_queues_from_one_that_does_not_exist_gets_that_queue() {
    let (host, mut wanted) = (good_host(), wanted());
    (place(&mut wanted).queue, place(&mut wanted).queues) = (3, None);
    let found = findings(&host, &wanted);
    assert!(changes(&found).contains(&"ethtool -L eth0 combined 4".to_owned()), "{found:?}");
}

/// Seen: `ethtool -K host0 tx-udp-segmentation off` once for each queue.
#[test]
fn a_change_that_an_earlier_finding_has_is_left_out() {
    let fault = ALONE.iter().find(|fault| fault.0 == "udp-segments").unwrap();
    let (mut host, mut wanted) = (good_host(), wanted());
    fault.2(&mut host, &mut wanted);
    wanted.ports = vec![wanted.ports[0].clone(); 4];
    let found = findings(&host, &wanted);
    assert_eq!(rules(&found), [("udp-segments", Harm::Loses); 4]);
    assert_eq!(changes(&found), ["ethtool -K host0 tx-udp-segmentation off"]);
    assert!(found.iter().all(|finding| finding.remedy == found[0].remedy));
}
