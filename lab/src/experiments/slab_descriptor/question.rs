//! The questions of the source: the time of one form divided by that of another.

use super::form::{COLD_LOCK, DEFAULT, FORMS, Form, LOCKED, PATCHED, VANILLA};
use crate::bench::Comparison;
use crate::metric::Metric;

/// One of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// A lock over 128-bit CAS.
    Lock,
    /// A lock that touches two more lines, which stay in the first cache, over 128-bit CAS.
    LockInterrupts,
    /// A lock that touches two more lines, which have left a core's own caches, over 128-bit CAS.
    LockInterruptsCold,
    /// 56 bytes over 64 bytes.
    Patched,
    /// 56 bytes over 64 bytes, with a lock instead of a compare-and-swap.
    PatchedLock,
    /// The packed word over 128-bit CAS, in the same descriptor.
    Packed,
    /// The product's default over the kernel of the source.
    Default,
}

impl Question {
    const ALL: [Self; 7] = [
        Self::Lock,
        Self::LockInterrupts,
        Self::LockInterruptsCold,
        Self::Patched,
        Self::PatchedLock,
        Self::Packed,
        Self::Default,
    ];

    /// Returns the compared forms: the second is mostly the source's kernel before its change.
    pub(super) fn forms(self) -> [Form; 2] {
        match self {
            Self::Lock => [FORMS[4], VANILLA],
            Self::LockInterrupts => [FORMS[5], VANILLA],
            Self::LockInterruptsCold => [COLD_LOCK, VANILLA],
            Self::Patched => [PATCHED, VANILLA],
            Self::PatchedLock => LOCKED,
            Self::Packed => [FORMS[7], VANILLA],
            Self::Default => [DEFAULT, VANILLA],
        }
    }
}

/// Returns the questions that `forms` can answer, as comparisons of their indices.
pub(super) fn asked(forms: &[Form]) -> Vec<(Question, Comparison)> {
    let place = |form: Form| forms.iter().position(|&one| one == form);
    let comparison = |question: Question| {
        let [a, b] = question.forms();
        Some((question, Comparison { a: place(a)?, b: place(b)?, metric: Metric::NsPerOp }))
    };
    Question::ALL.into_iter().filter_map(comparison).collect()
}

#[cfg(test)]
mod tests {
    use super::super::form::ALL;
    use super::*;

    fn pairs(forms: &[Form]) -> Vec<[String; 2]> {
        let named =
            |(_, Comparison { a, b, .. }): (_, Comparison)| [a, b].map(|place| forms[place].variant());
        asked(forms).into_iter().map(named).collect()
    }

    #[test]
    fn every_question_divides_its_form_by_the_kernel_of_the_source_or_by_the_lock() {
        let wanted = [
            ["64-lock", "64-cas128"],
            ["64-lock-interrupts", "64-cas128"],
            ["64-lock-interrupts-cold", "64-cas128"],
            ["56-cas128", "64-cas128"],
            ["56-lock", "64-lock"],
            ["64-cas64", "64-cas128"],
            ["compact-cas64", "64-cas128"],
        ];
        assert_eq!(pairs(&ALL), wanted.map(|pair| pair.map(|name| format!("netmem/{name}"))));
        assert_eq!(pairs(&FORMS).len(), 6);
    }

    #[test]
    fn five_forms_answer_three_questions() {
        let above: Vec<_> = pairs(&[VANILLA, PATCHED, LOCKED[0], LOCKED[1], DEFAULT]);
        let above: Vec<_> = above.into_iter().map(|[above, _]| above).collect();
        assert_eq!(above, ["netmem/64-lock", "netmem/56-cas128", "netmem/56-lock", "netmem/compact-cas64"]);
    }
}
