//! How often the tests' loops go round.

/// All rounds; a fiftieth of them, and four at least, under Miri, which takes a thousand times as long for each.
pub fn rounds(all: usize) -> usize {
    if cfg!(miri) { (all / 50).max(4) } else { all }
}
