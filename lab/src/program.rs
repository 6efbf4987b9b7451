//! The program that measures, as a short hash of its file: the version is the same for every build of it.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::sync::OnceLock;

/// This program's file, even if another one has taken its name since.
const FILE: &str = "/proc/self/exe";

/// Returns the hash of this program's file, or `None` if it cannot be read.
pub(crate) fn hash() -> Option<String> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    HASH.get_or_init(|| of(File::open(FILE).ok()?).ok()).clone()
}

/// Returns the hash of all bytes. It is compared for equality only, and equal files are one program with one hasher.
fn of(mut file: impl Read) -> io::Result<String> {
    let (mut hasher, mut bytes) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            count => hasher.write(&bytes[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_same_hash_each_time_and_another_one_another() {
        assert!(hash().is_some_and(|hash| hash.len() == 16));
        let hashes = [b"one", b"one", b"two"].map(|bytes| of(&bytes[..]).unwrap());
        assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2], "{hashes:?}");
    }
}
