use super::*;
use crate::json::tests::sample;

fn claims() -> impl Iterator<Item = &'static Claim> {
    SOURCES.iter().flat_map(|source| source.claims)
}

#[test]
fn every_claim_is_of_an_experiment_of_the_registry() {
    for claim in claims() {
        let known = crate::experiments::EXPERIMENTS.iter().any(|known| known.name == claim.experiment);
        assert!(known, "{}: {}", claim.experiment, claim.says);
    }
}

#[test]
fn what_was_not_run_and_what_lacks_the_rows_both_say_how_to_run_it() {
    for claim in claims() {
        let without_rows =
            Report { experiment: claim.experiment.into(), rows: vec![], ratios: vec![], ..sample() };
        for reports in [vec![], vec![without_rows]] {
            let finding = claim.finding(&reports);
            assert_eq!(finding.verdict, Verdict::NotMeasured, "{}", claim.says);
            assert!(finding.sentence.ends_with(&format!("netmem lab run {}", claim.experiment)));
        }
    }
}

#[test]
fn the_slips_of_two_sources_are_stated() {
    let slip = |key| SOURCES.iter().find(|source| source.text.key == key).and_then(|source| source.slip);
    assert!(
        slip("zhang09-handoff").is_some_and(|slip| slip.contains("8 times") && slip.ends_with("it is 15."))
    );
    assert!(slip("rizzo02-mbuf").is_some_and(|slip| slip.contains("195 pps") && slip.ends_with("195 kpps.")));
}
