use super::*;
use crate::experiments::EXPERIMENTS;
use crate::json::tests::sample;
use crate::json::{Check, Ratio, Report};

/// The numbers that follow `name` and end in `px`.
fn pixels(text: &str, name: &str) -> Vec<f64> {
    let after = |at: usize| text[at + name.len()..].trim_start_matches([':', ' ', '"']);
    let number = |text: &str| text.split("px").next().and_then(|number| number.trim().parse().ok());
    text.match_indices(name).filter_map(|(at, _)| number(after(at))).collect()
}

fn report_of(experiment: &str) -> Report {
    Report { experiment: experiment.into(), ..sample() }
}

#[test]
fn every_experiment_is_shown_or_said_to_be_missing_with_its_command() {
    let page = page(&[report_of("page-bulk"), report_of("of-another-version")]);
    for known in EXPERIMENTS {
        assert!(page.contains(&format!("id=\"{}\"", known.name)), "{}", known.name);
        assert!(page.contains(known.question.split(['\'', '"', '<', '&']).next().unwrap()), "{}", known.name);
        let command = format!("netmem lab run {0} --json {0}.json", known.name);
        assert_eq!(page.contains(&command), known.name != "page-bulk", "{}", known.name);
    }
    assert!(page.contains("id=\"of-another-version\""));
}

#[test]
fn what_a_file_says_cannot_become_markup() {
    let hostile = "</td></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'";
    let mut report = sample();
    report.experiment = hostile.into();
    report.source = hostile.into();
    report.machine.cpu = Some(hostile.into());
    report.rows[0].variant = hostile.into();
    report.rows[0].metric = hostile.into();
    report.rows[0].params.insert(hostile.into(), hostile.into());
    report.rows[0].published.as_mut().unwrap().of = hostile.into();
    report.ratios[0].a = hostile.into();
    report.checks[0].detail = hostile.into();
    report.notes[0] = hostile.into();
    let page = page(&[report]);
    assert!(page.contains("&lt;script&gt;"), "it is shown");
    assert!(!page.contains("<script") && !page.contains("<img"), "as text only");
    assert_eq!(page.matches("</style>").count(), 1);
}

#[test]
fn the_page_loads_nothing() {
    let (mut page, mut links) = (page(&[sample()]), Vec::new());
    assert!(page.contains("default-src 'none'"));
    // A link to a source loads nothing before a reader follows it.
    for source in super::claims::SOURCES {
        let link = format!("<a href=\"{}\"", source.text.link.replace('&', "&amp;").replace('\'', "&#39;"));
        assert!(page.contains(&link), "{link}");
        links.push(link);
    }
    // Two groups of claims may be of one text.
    page = links.iter().fold(page, |page, link| page.replace(link, "<a"));
    for forbidden in ["http://", "https://", "url(", "@import", "<script", "src="] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn no_text_is_smaller_than_twelve_pixels() {
    let page = page(&[sample()]);
    let sizes = pixels(&page, "font-size");
    assert!(sizes.len() > 10, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size >= 12.0), "{sizes:?}");
    let short: Vec<f64> = page
        .match_indices("font: ")
        .filter_map(|(at, _)| page[at..].split("px").next()?.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(!short.is_empty() && short.iter().all(|size| *size >= 12.0), "{short:?}");
}

#[test]
fn the_page_is_not_wider_than_a_telephone_on_a_narrow_screen() {
    let page = page(&[sample()]);
    let narrow = page.replace(include_str!("style.css"), "");
    assert!(!narrow.contains("width:"), "widths stand in the style sheet only");
    let wide = pixels(include_str!("style.css"), "min-width");
    assert!(wide.iter().all(|width| *width <= 200.0 || *width == 768.0), "{wide:?}");
    assert!(include_str!("style.css").contains("td.head { display: block; min-width: 0; }"));
}

#[test]
fn a_failed_check_and_a_claim_that_does_not_hold_stand_in_the_open() {
    let mut report = report_of("handoff");
    report.checks.push(Check { name: "order kept".into(), ok: false, detail: "2 of 9".into() });
    let slower = Ratio {
        a: "netmem/handed".into(),
        b: "netmem/one".into(),
        metric: "pps".into(),
        median: 0.8,
        low: 0.7,
        high: 0.9,
        undecided: false,
        too_few: false,
        params: crate::json::params([("load", "light".into())]),
    };
    report.ratios.push(slower);
    let page = page(&[report]);
    assert!(page.contains("A check failed. </b>order kept: 2 of 9"));
    assert!(page.contains(">does not hold<") && page.contains("0.800 (0.700 to 0.900) times"));
}

#[test]
fn a_lost_race_is_listed() {
    let mut report = sample();
    report.ratios[0].b = "dpdk".into();
    let page = page(&[report]);
    let losses = page.split("Where netmem loses").nth(1).unwrap();
    assert!(
        losses.starts_with("</h2>")
            && losses.contains("netmem over dpdk, 1 of 1 settings; at worst 2.00 times the cost")
    );
}

#[test]
fn of_two_machines_both_are_shown_and_the_worst_verdict_counts() {
    let handed = |cpu: &str, median: f64| {
        let mut report = report_of("handoff");
        report.machine.cpu = Some(cpu.into());
        let [low, high] = [median - 0.05, median + 0.05];
        let (a, b, metric) = ("netmem/handed".into(), "netmem/one".into(), "pps".into());
        let params = crate::json::params([("load", "light".into())]);
        report.ratios =
            vec![Ratio { a, b, metric, median, low, high, undecided: false, too_few: false, params }];
        report
    };
    let reports = [handed("the first", 1.5), handed("the second", 0.8)];
    let page = page(&reports);
    assert!(page.contains("id=\"handoff\"") && page.contains("id=\"handoff-2\""));
    assert!(page.contains("More than one machine."));
    let value = serde_json::to_value(findings(&reports)).unwrap();
    let claims = value["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["name"] == "hand-off-light").unwrap();
    assert_eq!(claim["verdict"], "fails");
    let machines = claim["machines"].as_array().unwrap();
    let verdicts: Vec<_> = machines.iter().map(|one| one["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["fails", "holds"]);
    assert!(machines[0]["machine"].as_str().unwrap().starts_with("the second"));
}

#[test]
fn of_two_reports_of_one_experiment_the_last_is_shown() {
    let earlier = Report { notes: vec!["the earlier one".into()], ..sample() };
    let page = page(&[earlier, sample()]);
    assert!(!page.contains("the earlier one"));
    assert!(page.contains("1 more reports of the same experiments"));
}

/// Seen: a quick, interrupted report with one ratio replaced a full one on the page.
#[test]
fn a_later_report_of_less_worth_does_not_replace_a_full_one() {
    let noted = |note: &str| Report { notes: vec![note.into()], ..sample() };
    let full = Report { quick: false, ..noted("the full one") };
    let interrupted = Report { interrupted: true, ..noted("the interrupted one") };
    let empty = Report { rows: vec![], quick: false, ..noted("the empty one") };
    let page = page(&[full, noted("the quick one"), interrupted, empty]);
    assert!(page.contains("the full one"));
    assert!(["quick", "interrupted", "empty"].iter().all(|one| !page.contains(&format!("the {one} one"))));
    assert!(page.contains("3 more reports of the same experiments"));
}
