//! Checks of a set-up, and of all set-ups so far.

use super::{Bench, STARVED_MAX, SetUpError};
use crate::json::Check;
use crate::method::ratio::TOO_FEW;
use crate::method::round::Series;

impl Bench<'_> {
    /// Reports a check of this set-up.
    pub fn check(&mut self, name: &str, ok: bool, detail: String) {
        let check = Check { name: name.to_owned(), ok, detail };
        if !ok {
            self.failed.push(check.clone());
        }
        self.report.checks.push(check);
    }

    /// Reports a check of work, some of which must have been done: without any, it fails. In a run that was stopped before
    /// the work began, it is neither failed nor passed.
    pub fn check_done(&mut self, name: &str, done: bool, ok: bool, detail: String) {
        if !done && ok && self.stopped() {
            return self.note(format!("not checked (stopped before it began): {name}"));
        }
        self.check(name, done && ok, detail);
    }

    /// Reports a check of all set-ups so far. It replaces the result of an earlier set-up.
    pub fn judge(&mut self, name: &str, ok: bool, detail: String) {
        self.report.checks.push(Check { name: name.to_owned(), ok, detail });
    }

    /// The same of a ratio, which is not checked if it has too few set-ups or rounds.
    pub fn judge_ratio(&mut self, name: &str, too_few: bool, ok: bool, detail: String) {
        if too_few {
            return self.note(format!("not checked ({TOO_FEW}): {name}: {detail}"));
        }
        self.judge(name, ok, detail);
    }

    /// Runs `body` outside the report and returns its checks: for a planted fault, which the checks must find.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn aside(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), SetUpError>,
    ) -> Result<Vec<Check>, SetUpError> {
        let (checks, failed) = (self.report.checks.len(), self.failed.len());
        let done = body(self);
        self.failed.truncate(failed);
        let aside = self.report.checks.split_off(checks);
        done.map(|()| aside)
    }

    /// Checks that the generator was the faster side in at least four windows of five.
    pub fn check_generator(&mut self, series: &[Series]) {
        let share =
            |s: &Series| s.starved as f64 / (s.per_op.len() as u64 + s.paused + s.starved).max(1) as f64;
        let lost: Vec<String> =
            series.iter().map(|s| format!("{} {:.1} %", s.label.variant, 100.0 * share(s))).collect();
        let ok = series.iter().all(|s| share(s) <= STARVED_MAX);
        self.judge(
            "generator kept a full burst waiting",
            ok,
            format!("windows lost to it: {}", lost.join(", ")),
        );
    }
}
