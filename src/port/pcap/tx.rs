//! HOT but for the writing behind: packets into a file.

use super::format::{PACKET_MAX, RECORD, header, record};
use crate::pool::Frame;
use std::fs::File;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes kept to be written at most.
const BEHIND: usize = 2 * (PACKET_MAX + RECORD);

/// A file that is written behind.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    path: String,
    /// What is to be written; grows no further than [`BEHIND`].
    behind: Vec<u8>,
}

impl Output {
    /// An empty file, which gets its header with the first packets, or when this is dropped.
    pub(super) fn new(file: File, path: String) -> Output {
        let mut behind = Vec::with_capacity(BEHIND);
        behind.extend(header());
        Output { file, path, behind }
    }

    /// Keeps as many of `frames` as there is room for, to be written; returns how many. Frames of one burst have one
    /// time stamp.
    #[inline]
    pub(super) fn send(&mut self, frames: &[Frame]) -> usize {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (i, frame) in frames.iter().enumerate() {
            if RECORD + frame.len() > BEHIND - self.behind.len() {
                return i;
            }
            self.behind.extend(record(at, frame.len()));
            self.behind.extend_from_slice(frame.data());
        }
        frames.len()
    }

    /// Writes what was kept.
    ///
    /// # Errors
    /// What the file system says; what was kept is lost then.
    #[cold]
    pub(super) fn write_behind(&mut self) -> Result<(), String> {
        if self.behind.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.behind);
        self.behind.clear();
        written.map_err(|error| format!("write {}: {error}", self.path))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _ = self.write_behind();
    }
}
