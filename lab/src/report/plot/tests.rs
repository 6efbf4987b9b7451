use super::*;
use crate::experiments::EXPERIMENTS;
use crate::json::tests::sample;
use crate::json::{Published, Row};

fn drawn(report: &Report) -> String {
    let mut html = Html::default();
    write(&mut html, report);
    html.into_markup()
}

/// `page-bulk` with two bulks of two variants, the second larger.
fn bulks() -> Report {
    let row = |variant: &str, burst: u64, median: f64| Row {
        variant: variant.into(),
        params: crate::json::params([("burst", burst.into()), ("touch", false.into())]),
        metric: "cycles_per_op".into(),
        median,
        p10: median * 0.9,
        p90: median * 1.1,
        published: Some(Published { value: 202.0, unit: "cycles".into(), of: "a kernel".into() }),
        ..sample().rows.remove(0)
    };
    let rows = vec![
        row("netmem", 1, 22.0),
        row("netmem", 128, 1.2),
        row("netmem/loop", 1, 17.0),
        row("netmem/loop", 128, 18.0),
    ];
    Report { experiment: "page-bulk".into(), rows, ratios: vec![], ..sample() }
}

#[test]
fn a_curve_has_named_axes_units_intervals_and_the_published_points_at_both_widths() {
    let markup = drawn(&bulks());
    for class in ["narrow", "wide"] {
        assert_eq!(markup.matches(&format!("<svg class=\"{class}\"")).count(), 1, "{class}");
    }
    assert_eq!(markup.matches(">cycles per operation (of 2.6 GHz)").count(), 2);
    assert_eq!(markup.matches(">in one bulk</text>").count(), 2);
    let said = "Upwards: cycles per operation (of 2.6 GHz), logarithmic, less is better. Across: in one bulk, logarithmic.";
    assert!(markup.contains(said), "{markup}");
    assert_eq!(markup.matches("class=\"published ").count(), 2 * 4);
    assert_eq!(markup.matches("class=\"s1\" x1").count(), 2 * 2, "a bar for each point");
    assert_eq!(markup.matches(">128</text>").count(), 2);
}

#[test]
fn dots_have_the_budget_of_a_packet_and_rates_as_times() {
    let mut report = Report { experiment: "xdp-verdicts".into(), ratios: vec![], ..sample() };
    report.rows[0].metric = "ns_per_packet".into();
    report.rows[0].params.insert("bytes".to_owned(), 64.into());
    report.rows[0].published = Some(Published { value: 17e6, unit: "pps".into(), of: "a card".into() });
    let markup = drawn(&report);
    assert_eq!(markup.matches("67.2 ns: 64 bytes at 10G").count(), 2);
    assert_eq!(markup.matches("6.72 ns: 64 bytes at 100G").count(), 2);
    assert_eq!(markup.matches("class=\"published ").count(), 2);
    assert!(markup.contains(">ns per packet, logarithmic, less is better</text>"));
}

#[test]
fn all_shapes_of_a_plot_stay_inside_it() {
    let mut report = bulks();
    report.rows[0].variant = "netmem/a-setting-with-a-name-that-is-longer-than-any-telephone-is-wide".into();
    report.rows[1].median = f64::MAX;
    report.rows[2].p10 = -4.0;
    report.ratios = sample().ratios;
    let markup = drawn(&report);
    let number = |text: &str| text.split('"').next().and_then(|n| n.parse::<f64>().ok());
    let mut plots = 0;
    for svg in markup.split("<svg ").skip(1).filter(|svg| svg.starts_with("class")) {
        plots += 1;
        let size = svg.split("viewBox=\"0 0 ").nth(1).unwrap().split('"').next().unwrap();
        let (width, height) = size.split_once(' ').unwrap();
        for (name, most) in [
            (" x=\"", width),
            (" x1=\"", width),
            (" x2=\"", width),
            (" y=\"", height),
            (" y1=\"", height),
            (" y2=\"", height),
        ] {
            let most: f64 = most.parse().unwrap();
            let places: Vec<f64> = svg.split(name).skip(1).filter_map(number).collect();
            assert!(
                !places.is_empty() && places.iter().all(|at| (0.0..=most).contains(at)),
                "{name} {places:?}"
            );
        }
    }
    assert!(plots > 0, "no plot was drawn");
}

#[test]
fn every_declared_plot_is_of_an_experiment_of_the_registry() {
    for figure in declared::FIGURES {
        assert!(EXPERIMENTS.iter().any(|e| e.name == figure.experiment), "{}", figure.experiment);
    }
}

#[test]
fn an_experiment_without_declared_plots_gets_dots_of_what_it_has() {
    let report = Report { experiment: "of-another-version".into(), ..sample() };
    assert!(drawn(&report).contains("Time per operation"));
}
