//! Finds the name that was probably meant.

/// Returns the name of `names` that is nearest to `wanted`, unless more than a third of it would have to change.
pub fn nearest<'a>(names: impl IntoIterator<Item = &'a str>, wanted: &str) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (distance(name, wanted), name)).min_by_key(|(far, _)| *far);
    near.filter(|(far, _)| 3 * far <= wanted.chars().count()).map(|(_, name)| name)
}

/// Number of letters to change, insert, remove, or exchange with the next one to turn `a` into `b` (optimal string
/// alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(row[j - 1] + 1).min(rows[i - 1][j] + 1);
            if i > 1 && j > 1 && (a[i - 1], a[i - 2]) == (b[j - 2], b[j - 1]) {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_nearest_name_and_another_word_finds_none() {
        let names = ["workers", "frame-size", "page-fast-path"];
        assert_eq!(nearest(names, "worker"), Some("workers"));
        assert_eq!(nearest(names, "frame_size"), Some("frame-size"));
        assert_eq!(nearest(names, "page-fast-pth"), Some("page-fast-path"));
        // Seen: of "xpd:u1f" was said only that its kind is unknown.
        assert_eq!((nearest(["tap", "xdp"], "xpd"), nearest(["tap", "xdp"], "pat")), (Some("xdp"), None));
        assert_eq!(
            (nearest(names, "colour"), nearest([], "workers"), nearest(names, "")),
            (None, None, None)
        );
    }
}
