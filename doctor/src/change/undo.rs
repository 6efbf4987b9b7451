//! The undo of a change, as far as its effect is still there.

use super::{Change, ChangeError, HUGE_PAGES, file_of};
use std::fs;

/// The result of an undo that did not fail.
#[derive(Debug)]
pub(crate) enum Reverted {
    /// This change was made, or was not necessary.
    By(Change),
    /// Nothing was changed: the setting has a value that the change did not give it. This change would have been made.
    Overwritten(Change, String),
}

impl Change {
    /// Undoes the change. A setting whose value is not that of the change is left alone: someone else has set it since.
    ///
    /// # Errors
    /// As [`Change::apply`].
    pub(crate) fn undo(&self) -> Result<Reverted, ChangeError> {
        let Change::Setting { key, from, to } = self else {
            let back = self.reversed();
            return back.apply().map(|()| Reverted::By(back));
        };
        let path = file_of(key);
        let now = fs::read_to_string(&path).map_err(|error| ChangeError::Setting { path, error })?;
        let now = now.trim_end();
        let Some(value) = value_without(key, (from, to), now) else {
            return Ok(Reverted::Overwritten(self.reversed(), now.to_owned()));
        };
        let back = Change::Setting { key: key.clone(), from: now.to_owned(), to: value };
        // The change may have been recorded and not made.
        if back.value() != Some(now) {
            back.apply()?;
        }
        Ok(Reverted::By(back))
    }

    /// Returns the value that this change gives a setting.
    fn value(&self) -> Option<&str> {
        match self {
            Change::Setting { to, .. } => Some(to),
            Change::Run { .. } => None,
        }
    }
}

/// Returns the value that a setting would have now without its change. None if someone else has set it since.
fn value_without(key: &str, (from, to): (&str, &str), now: &str) -> Option<String> {
    if key == HUGE_PAGES {
        return pages_without((from, to), now).map(|pages| pages.to_string());
    }
    [from, to].contains(&now).then(|| from.to_owned())
}

/// Returns the number of huge pages without those that a change added. Other programs may have added some since, which stay. The
/// kernel may have found fewer than the change asked for, so that no fewer than before are left. If it has fewer now, it keeps these.
fn pages_without((from, to): (&str, &str), now: &str) -> Option<u64> {
    let [from, to, now] = [from, to, now].map(|pages| pages.parse::<u64>().ok());
    let (from, to, now) = (from?, to?, now?);
    Some(now.min(from.max(now.saturating_sub(to.saturating_sub(from)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: an undo wrote the value of before over one that someone else had set since.
    #[test]
    fn a_value_that_someone_else_has_set_since_is_left_alone() {
        let value = |now: &str| value_without("net.ipv4.conf.eth0.rp_filter", ("1", "2"), now);
        assert_eq!(value("2"), Some("1".to_owned()));
        assert_eq!(value("1"), Some("1".to_owned()), "it was not made, or is undone");
        assert_eq!(value("0"), None);
    }

    /// Found in a review: the huge pages that another program had reserved since were taken from it.
    #[test]
    fn an_undo_takes_only_the_huge_pages_that_the_change_has_added() {
        let pages = |now: &str| value_without(HUGE_PAGES, ("10", "42"), now).unwrap();
        assert_eq!(pages("42"), "10");
        assert_eq!(pages("142"), "110", "another program has added 100");
        assert_eq!(pages("30"), "10", "the kernel had no more");
        assert_eq!((pages("10"), pages("4")), ("10".to_owned(), "4".to_owned()));
        assert_eq!(value_without(HUGE_PAGES, ("10", "42"), "many"), None);
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_not_written() {
        let key = "net.ipv4.conf.netmem-none.rp_filter".to_owned();
        let change = Change::Setting { key, from: "1".into(), to: "2".into() };
        assert!(matches!(change.undo(), Err(ChangeError::Setting { .. })));
    }
}
