//! Finds the name that was probably meant.

/// Returns the name of `names` that is nearest to `wanted`, unless more than a third of it would have to change.
pub fn nearest<'a>(names: impl IntoIterator<Item = &'a str>, wanted: &str) -> Option<&'a str> {
    let near = names.into_iter().map(|name| (distance(name, wanted), name)).min_by_key(|(far, _)| *far);
    near.filter(|(far, _)| 3 * far <= wanted.chars().count()).map(|(_, name)| name)
}

/// Number of letters to change, insert or remove to turn `a` into `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
        assert_eq!(
            (nearest(names, "colour"), nearest([], "workers"), nearest(names, "")),
            (None, None, None)
        );
    }
}
