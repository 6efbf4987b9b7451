//! What sequences are run over: a corpus, and random bytes.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::{Path, PathBuf};

/// Random bytes of a sequence, on the average.
pub const BYTES_EACH: usize = 1_600;

/// The folder of a corpus.
pub fn folder(corpus: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().find(|root| root.join("fuzz/corpus").is_dir()).expect("the repository");
    root.join("fuzz/corpus").join(corpus)
}

/// Runs every sequence of a corpus, of which there are at least `least`.
pub fn replay(corpus: &str, least: usize, run: fn(&[u8])) {
    let folder = folder(corpus);
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("a corpus").map(|file| file.expect("a file of it").path()).collect();
    files.sort();
    assert!(files.len() >= least, "{} holds {} sequences", folder.display(), files.len());
    for file in files {
        println!("{}", file.display());
        run(&fs::read(&file).expect("a file of it"));
    }
}

/// Runs random sequences. Their total number of bytes is that of the environment, or the default.
pub fn random(bytes: usize, run: impl Fn(&[u8])) {
    random_of(BYTES_EACH, bytes, run);
}

/// As [`random`], of `each` bytes on the average.
pub fn random_of(each: usize, bytes: usize, run: impl Fn(&[u8])) {
    let cases = (steps(bytes) * BYTES_EACH as u32 / each as u32).max(1);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases) });
    let sequences = prop::collection::vec(any::<u8>(), 0..2 * each);
    runner
        .run(&sequences, |bytes| {
            run(&bytes);
            Ok(())
        })
        .unwrap();
}

/// Returns the number of sequences for the number of random bytes of the environment, or the default.
fn steps(default: usize) -> u32 {
    let bytes = std::env::var("NETMEM_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(default);
    (bytes / BYTES_EACH).max(1) as u32
}
