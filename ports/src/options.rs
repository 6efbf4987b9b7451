//! The options of a port, as they are written behind its kind.

/// The options in `text`: `KEY=VALUE` with commas between.
pub(super) fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',')
        .filter(|option| !option.is_empty())
        .map(|option| option.split_once('=').unwrap_or((option, "")))
}
