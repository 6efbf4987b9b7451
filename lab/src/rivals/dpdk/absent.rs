//! Replaces DPDK in a build without it: none of these types can be made.

use std::ffi::CStr;
use std::num::NonZeroU32;

use super::Passed;
use crate::system::library::Library;

/// DPDK, which is not built in.
#[derive(Debug, Clone, Copy)]
pub enum Dpdk {}

/// A mempool of frames, which is not built in.
#[derive(Debug)]
pub enum Frames {}

/// A mempool of packets, which is not built in.
#[derive(Debug)]
pub enum Packets {}

/// The sending end of a ring of packets, which is not built in.
#[derive(Debug)]
pub enum PacketSending {}

/// The receiving end of a ring of packets, which is not built in.
#[derive(Debug)]
pub enum PacketReceiving {}

/// The sending end of a ring, which is not built in.
#[derive(Debug)]
pub enum Sending {}

/// The receiving end of a ring, which is not built in.
#[derive(Debug)]
pub enum Receiving {}

/// A sending end of a ring of ids, which is not built in.
#[derive(Debug, Clone)]
pub enum IdSending {}

/// The receiving end of a ring of ids, which is not built in.
#[derive(Debug)]
pub enum IdReceiving {}

#[allow(missing_docs)]
impl Dpdk {
    /// # Errors
    /// Always: the remedy.
    pub fn start() -> Result<Dpdk, String> {
        let feature = "cargo build --release --bin netmem --features rivals";
        Err(if cfg!(feature = "rivals") {
            format!(
                "pkg-config found no libdpdk when this was built: apt-get install libdpdk-dev, then {feature}"
            )
        } else {
            format!("not built in: apt-get install gcc libdpdk-dev, then {feature}")
        })
    }

    pub fn version(&self) -> String {
        match *self {}
    }

    pub fn frames(&self, _: usize, _: usize, _: usize) -> Result<Frames, String> {
        match *self {}
    }

    pub fn objects(&self, _: &CStr, _: usize, _: usize, _: usize) -> Result<Frames, String> {
        match *self {}
    }

    /// # Errors
    /// Always: there is no DPDK to call.
    pub fn adopt_ops(&self, _: Library, _: &CStr) -> Result<(), String> {
        match *self {}
    }

    pub fn packets(&self, _: usize, _: usize, _: usize) -> Result<Packets, String> {
        match *self {}
    }

    pub fn ring(&self, _: usize, _: bool) -> Result<(Sending, Receiving), String> {
        match *self {}
    }

    pub fn ids(&self, _: usize, _: bool) -> Result<(IdSending, IdReceiving), String> {
        match *self {}
    }
}

#[allow(missing_docs)]
impl Frames {
    pub fn run(&mut self, _: usize, _: bool, _: u32) -> u64 {
        match *self {}
    }

    pub fn out(&self) -> u64 {
        match *self {}
    }
}

#[allow(missing_docs)]
impl Packets {
    pub fn run(&mut self, _: usize, _: u32) -> u64 {
        match *self {}
    }

    pub fn out(&self) -> u64 {
        match *self {}
    }

    pub fn ring(&self, _: usize) -> Result<(PacketSending, PacketReceiving), String> {
        match *self {}
    }

    pub fn hold(&mut self, _: usize) -> bool {
        match *self {}
    }

    pub fn alias(&mut self) -> bool {
        match *self {}
    }

    pub fn give_back(&mut self) {
        match *self {}
    }
}

#[allow(missing_docs)]
impl Sending {
    pub fn send(&mut self, _: u64, _: u64) -> Passed {
        match *self {}
    }
}

#[allow(missing_docs)]
impl Receiving {
    pub fn receive(&mut self, _: u64, _: u64) -> Passed {
        match *self {}
    }
}

#[allow(missing_docs)]
impl PacketSending {
    pub fn send(&mut self, _: u64, _: u64) -> Passed {
        match *self {}
    }
}

#[allow(missing_docs)]
impl PacketReceiving {
    pub fn receive(&mut self, _: u64, _: u64) -> Passed {
        match *self {}
    }
}

#[allow(missing_docs)]
impl IdSending {
    pub fn send(&self, _: &[NonZeroU32]) -> usize {
        match *self {}
    }
}

#[allow(missing_docs)]
impl IdReceiving {
    pub fn receive(&mut self, _: &mut [u32]) -> usize {
        match *self {}
    }
}
