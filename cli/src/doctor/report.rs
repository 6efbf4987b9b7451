//! The findings, as text for people and as JSON for programs.

use crate::control::client::printable;
use netmem_doctor::{Finding, Harm};
use serde_json::json;
use std::fmt::Write;

/// The findings on a host.
pub struct Report<'a> {
    /// The most harmful first.
    pub findings: &'a [Finding],
    /// The properties that could not be read.
    pub unseen: &'a [String],
    /// True if the text is to mention `netmem doctor --fix`.
    pub can_fix: bool,
}

impl Report<'_> {
    /// Returns two lines for each finding, the unknown properties, and the sum. A saved host may be another one's: its control
    /// characters are not shown.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for finding in self.findings {
            let [about, what, remedy] =
                [&finding.about, &finding.what, &finding.remedy].map(|text| printable(text));
            let _ = writeln!(text, "{about}: {}: {what}\n    {remedy}", finding.harm.name());
        }
        for unseen in self.unseen {
            let _ = writeln!(text, "not seen: {}", printable(unseen));
        }
        let _ = writeln!(text, "{}", self.sum());
        text
    }

    fn sum(&self) -> String {
        let count = |harm| self.findings.iter().filter(|finding| finding.harm == harm).count();
        let mut sum = match self.findings.len() {
            0 => "nothing found".to_owned(),
            all => {
                let (fails, loses, slow) = (count(Harm::Fails), count(Harm::Loses), count(Harm::Slow));
                format!("{all} found: {fails} will not work, {loses} lose packets, {slow} slow")
            }
        };
        let changes = self.changed();
        if self.can_fix && changes > 0 {
            let _ = write!(sum, "; --fix changes {changes} of them, and --undo undoes the changes");
        }
        sum
    }

    /// Returns the number of findings that `--fix` changes. Some have the change of an earlier finding.
    fn changed(&self) -> usize {
        let changes: Vec<_> =
            self.findings.iter().filter_map(|finding| Some(finding.change.as_ref()?.to_string())).collect();
        self.findings.iter().filter(|finding| changes.contains(&finding.remedy)).count()
    }

    /// Returns one object.
    pub fn json(&self) -> String {
        printable(&json!({"findings": self.findings, "unseen": self.unseen}).to_string()) + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem_doctor::{Device, Wanted, WantedPort};

    #[test]
    fn findings_with_the_change_of_an_earlier_one_are_changed_too() {
        let host = serde_json::from_str(r#"{"interfaces": {"x0": {"index": 2}}}"#).unwrap();
        let port =
            WantedPort { name: "packet:x0".into(), device: Device::Packet("x0".into()), traces: Vec::new() };
        let wanted = Wanted { ports: vec![port; 2], longest: 1514, ..Wanted::default() };
        let mut findings = netmem_doctor::findings(&host, &wanted);
        findings.retain(|finding| finding.rule == "down");
        let report = Report { findings: &findings, unseen: &[], can_fix: true };
        let text = report.text();
        assert!(
            text.contains("\n2 found: 2 will not work, ") && text.contains("; --fix changes 2 of them"),
            "{text}"
        );
    }

    /// Seen: a name in the file of another host contained an escape sequence, and `--from` cleared the screen with it.
    #[test]
    fn nothing_of_a_saved_host_reaches_the_terminal_raw() {
        let host = "{\"interfaces\": {\"x\\u001b[2J\\u009b7\\u007f\": {\"index\": 2}}}";
        let host = serde_json::from_str(host).unwrap();
        let name = "x\u{1b}[2J\u{9b}7\u{7f}".to_owned();
        let port = WantedPort {
            name: format!("packet:{name}"),
            device: Device::Packet(name.clone()),
            traces: Vec::new(),
        };
        let wanted = Wanted { ports: vec![port], longest: 1514, ..Wanted::default() };
        let findings = netmem_doctor::findings(&host, &wanted);
        let report = Report { findings: &findings, unseen: &[name], can_fix: true };
        for said in [report.text(), report.json()] {
            let is_raw = said.chars().any(|character| character.is_control() && character != '\n');
            assert!(!is_raw && said.contains("packet:x"), "{said:?}");
        }
        assert!(report.text().contains("packet:x?[2J?7?: "), "{}", report.text());
    }

    #[test]
    fn a_host_without_findings_is_said_to_have_none() {
        let unseen = ["offloads: Operation not supported".to_owned()];
        let report = Report { findings: &[], unseen: &unseen, can_fix: true };
        assert_eq!(report.text(), "not seen: offloads: Operation not supported\nnothing found\n");
        assert_eq!(report.json(), "{\"findings\":[],\"unseen\":[\"offloads: Operation not supported\"]}\n");
    }
}
