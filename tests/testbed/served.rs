//! A file to be served.

use super::scratch;
use std::fs;
use std::path::PathBuf;

/// A file of bytes that look random. It is removed when dropped.
pub struct Served {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl Served {
    /// One of `len` bytes, a multiple of 8.
    pub fn new(name: &str, len: usize) -> Served {
        let mut state = 7_u64;
        let mut word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let bytes: Vec<u8> = (0..len / 8).flat_map(|_| word()).collect();
        let path = scratch(name);
        fs::write(&path, &bytes).expect("a file in the temporary folder");
        Served { path, bytes }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}
