//! Replaces the allocators in a build without them: none of these types can be made.

use super::dpdk::Passed;
use super::{ALLOCATORS, Found, Missing, NOT_BUILT_IN};

pub(super) fn find() -> Found {
    let missing = ALLOCATORS.map(|name| Missing { name, remedy: NOT_BUILT_IN.to_owned() });
    Found { there: Vec::new(), missing: missing.into() }
}

#[derive(Debug)]
pub(super) enum Loops {}

/// Slots for blocks. No value can be used.
#[derive(Debug)]
pub struct Held(());

impl Held {
    /// Makes no room.
    pub fn new(_: usize) -> Self {
        Self(())
    }
}

/// The sending end.
#[derive(Debug)]
pub enum Sending {}

/// The receiving end.
#[derive(Debug)]
pub enum Receiving {}

impl Loops {
    pub(super) fn single(&self, _: usize, _: bool, _: u32) -> u64 {
        match *self {}
    }

    pub(super) fn bulk(&self, _: &mut Held, _: usize, _: bool, _: u32) -> u64 {
        match *self {}
    }

    pub(super) fn ring(&self, _: usize, _: usize, _: bool) -> (Sending, Receiving) {
        match *self {}
    }
}

#[allow(missing_docs)]
impl Sending {
    pub fn burst(&mut self, _: u64) -> Passed {
        match *self {}
    }
}

#[allow(missing_docs)]
impl Receiving {
    pub fn burst(&mut self, _: u64) -> Passed {
        match *self {}
    }
}
