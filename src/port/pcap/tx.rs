//! HOT but for the writing behind: packets into a file.

use super::format::{PACKET_MAX, RECORD, header, record};
use crate::pool::Frame;
use crate::port::anew::Anew;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes kept to be written at most.
const BEHIND: usize = 2 * (PACKET_MAX + RECORD);

/// A file that is written behind.
#[derive(Debug)]
pub(super) struct Output {
    file: Anew,
    path: String,
    /// What is to be written; grows no further than [`BEHIND`].
    behind: Vec<u8>,
    /// It has its header.
    begun: bool,
}

impl Output {
    /// A file that stays as it is until a round ends, or something that was sent is written.
    pub(super) fn new(file: Anew, path: String) -> Output {
        Output { file, path, behind: Vec::with_capacity(BEHIND), begun: false }
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

    /// Writes what was kept, and the header before all else.
    ///
    /// # Errors
    /// What the file system says; what was kept is lost then.
    #[cold]
    pub(super) fn write_behind(&mut self) -> Result<(), String> {
        let mut written = Ok(());
        if !self.begun {
            self.begun = true;
            written = self.file.write_all(&header());
        }
        if !self.behind.is_empty() {
            written = written.and_then(|()| self.file.write_all(&self.behind));
            self.behind.clear();
        }
        written.map_err(|error| format!("write {}: {error}", self.path))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.behind.is_empty() {
            // Nobody is left who could be told.
            let _ = self.write_behind();
        }
    }
}
