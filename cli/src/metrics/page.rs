//! The text of a scrape: Prometheus' classic format, or OpenMetrics.

use crate::forward::cuts::Counted;
use std::fmt::{Display, Write};

/// The format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`.
    Classic,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Format {
    /// Returns the value of the header.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The kind of a family's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows. Its samples end in `_total`.
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Names and values of labels.
pub type Labels<'a> = [(&'a str, &'a str)];

/// A page that is being written.
pub struct Page {
    format: Format,
    text: String,
}

/// The samples of one family.
pub struct Family<'a> {
    page: &'a mut Page,
    name: &'static str,
    suffix: &'static str,
}

impl Page {
    /// Makes an empty page.
    pub fn new(format: Format) -> Page {
        Page { format, text: String::with_capacity(16 << 10) }
    }

    /// Begins a family. `name` is without `_total`.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let suffix = if kind == Kind::Counter { "_total" } else { "" };
        // In the classic format the family has the name of its samples.
        let named = if self.format == Format::Classic { suffix } else { "" };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name}{named} {help}\n# TYPE {name}{named} {kind}");
        Family { page: self, name, suffix }
    }

    /// Returns the whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: &Labels<'_>, value: impl Display) {
        self.line(self.suffix, labels, None, value);
    }

    /// Adds a sample of a summary: the value that `share` of the values do not exceed.
    pub fn quantile(&mut self, labels: &Labels<'_>, share: &str, value: f64) {
        self.line("", labels, Some(("quantile", share)), value);
    }

    /// Adds the number of values in a summary.
    pub fn count(&mut self, labels: &Labels<'_>, count: u64) {
        self.line("_count", labels, None, count);
    }

    /// Adds the samples of a histogram whose values are in `unit`ths of the family's unit.
    pub fn histogram(&mut self, labels: &Labels<'_>, counted: &Counted, unit: f64) {
        for &(bound, count) in &counted.up_to {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| format!("{:?}", bound as f64 / unit));
            self.line("_bucket", labels, Some(("le", &bound)), count);
        }
        self.line("_sum", labels, None, counted.sum as f64 / unit);
        self.line("_count", labels, None, counted.up_to.last().map_or(0, |(_, all)| *all));
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, more: Option<(&str, &str)>, value: impl Display) {
        let text = &mut self.page.text;
        let _ = write!(text, "{}{suffix}", self.name);
        let mut before = '{';
        for (name, value) in labels.iter().chain(&more) {
            let _ = write!(text, "{before}{name}=\"");
            value.chars().for_each(|c| escape(text, c));
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

/// Adds a character of a label's value.
fn escape(text: &mut String, c: char) {
    match c {
        '\\' => text.push_str("\\\\"),
        '"' => text.push_str("\\\""),
        '\n' => text.push_str("\\n"),
        c => text.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        page.family("netmem_things", Kind::Counter, "Things.").sample(&[("a", "x\\y\"z\n")], 7);
        page.family("netmem_here", Kind::Gauge, "Here.").sample(&[], 0.5);
        page.finish()
    }

    #[test]
    fn the_two_formats_differ_in_a_counters_name_and_in_the_end() {
        let samples = "netmem_things_total{a=\"x\\\\y\\\"z\\n\"} 7\n# HELP netmem_here Here.\n# TYPE netmem_here gauge\n\
                       netmem_here 0.5\n";
        assert_eq!(
            page(Format::Classic),
            format!("# HELP netmem_things_total Things.\n# TYPE netmem_things_total counter\n{samples}")
        );
        assert_eq!(
            page(Format::OpenMetrics),
            format!("# HELP netmem_things Things.\n# TYPE netmem_things counter\n{samples}# EOF\n")
        );
    }

    #[test]
    fn a_histogram_has_its_buckets_its_sum_and_its_count_in_the_unit_of_its_name() {
        let mut page = Page::new(Format::Classic);
        let bursts = Counted { up_to: vec![(Some(1), 1), (Some(4), 2), (None, 3)], sum: 303 };
        page.family("netmem_burst", Kind::Histogram, "Bursts.").histogram(&[("worker", "0")], &bursts, 1.0);
        let times = Counted { up_to: vec![(Some(256), 1), (Some(1 << 20), 1), (None, 1)], sum: 100 };
        page.family("netmem_time_seconds", Kind::Histogram, "Times.").histogram(&[], &times, 1e9);
        let text = page.finish();
        for line in [
            "netmem_burst_bucket{worker=\"0\",le=\"1.0\"} 1\n",
            "netmem_burst_bucket{worker=\"0\",le=\"4.0\"} 2\n",
            "netmem_burst_bucket{worker=\"0\",le=\"+Inf\"} 3\n",
            "netmem_burst_sum{worker=\"0\"} 303\n",
            "netmem_burst_count{worker=\"0\"} 3\n",
            "netmem_time_seconds_bucket{le=\"2.56e-7\"} 1\n",
            "netmem_time_seconds_bucket{le=\"0.001048576\"} 1\n",
            "netmem_time_seconds_sum 0.0000001\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
