//! Notes that stay in the reports of all later set-ups.

use super::Bench;

impl Bench<'_> {
    /// Adds a note about this set-up that stays in the report of the run. A rival that failed once is missing in this set-up alone,
    /// and the values of its group before then are not used.
    pub fn lasting_note(&mut self, note: &str) {
        let note = self.history.note(note);
        self.note(note);
    }
}
