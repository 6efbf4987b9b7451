//! How often the tests' loops go round, and how much of a range they try.

/// All rounds; a fiftieth of them, and four at least, under Miri, which takes a thousand times as long for each.
pub fn rounds(all: usize) -> usize {
    if cfg!(miri) { (all / 50).max(4) } else { all }
}

/// How far apart the tested ones of a range are: all of them; under Miri every `step`-th.
pub fn stride(step: usize) -> usize {
    if cfg!(miri) { step } else { 1 }
}
