//! A zero-copy port written outside of the crate. A card, which this program plays, writes into the posted frames and
//! reads those that are sent. The ledger counts them, and `tests/own_port.rs` checks the promises of all ports.

use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::{Complete, Fill, Port, PortCounters, PortState, Posted, Rx, Tx, Wake};
use netmem::{page::Memory, stats::Writer, sync::Worker};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::VecDeque, iter::from_fn};

/// The card: empty frames, received frames, frames to be sent, and sent frames.
#[derive(Default)]
pub struct Card([VecDeque<Posted>; 4]);

impl Card {
    /// Receives a packet into the oldest empty frame. Returns None if there is none, or not enough room in it.
    pub fn receive(&mut self, packet: &[u8]) -> Option<()> {
        let [empty, received, ..] = &mut self.0;
        empty.front_mut()?.room().get_mut(..packet.len())?.copy_from_slice(packet);
        received.extend(empty.pop_front());
        received.back_mut()?.set_len(packet.len()).ok()
    }
    /// Sends the oldest frame. Returns its bytes, in place.
    pub fn send(&mut self) -> Option<&[u8]> {
        let [.., queued, sent] = &mut self.0;
        sent.push_back(queued.pop_front()?);
        sent.back().map(Posted::data)
    }
}

/// The dataplane's side of a [`Card`], with at most 64 frames posted in each direction.
#[derive(Default)]
pub struct CardPort(pub Arc<Mutex<Card>>, Writer<PortCounters>);

impl CardPort {
    /// Works on the rings under one lock, so that a frame which the card moves is never counted in two of them.
    fn rings<T>(&self, work: impl FnOnce(&mut [VecDeque<Posted>; 4]) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

#[rustfmt::skip]
impl Fill for CardPort {
    fn fill_room(&mut self) -> usize { 64_usize.saturating_sub(self.rx_posted()) }
    fn rx_posted(&self) -> usize { self.rings(|[empty, received, ..]| empty.len() + received.len()) }
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.fill_room().min(frames.len());
        self.rings(|[empty, ..]| empty.extend(frames.post(w, n)));
        self.1.count_filled(n)
    }
}
impl Rx for CardPort {
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        self.rings(|[_, received, ..]| frames.claim(w, from_fn(|| received.pop_front())));
        self.1.count_rx(&frames[before..])
    }
}
#[rustfmt::skip]
impl Tx for CardPort {
    fn tx_posted(&self) -> usize { self.rings(|[.., queued, sent]| queued.len() + sent.len()) }
    /// Frames with open offload work: the card completes no checksum and cuts no packet.
    fn take_unsendable(&self, frames: &mut Batch) -> Batch { frames.extract(|frame| frame.offload().is_some()) }
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut unsendable = self.take_unsendable(frames);
        self.1.add(|counters| &counters.tx_invalid, unsendable.len() as u64);
        let n = 64_usize.saturating_sub(self.tx_posted()).min(frames.len());
        self.1.count_tx(&frames[..n]);
        self.rings(|[.., queued, _]| queued.extend(frames.post(w, n)));
        frames.append(&mut unsendable);
        n
    }
}
impl Complete for CardPort {
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.1.count_completed(self.rings(|[.., sent]| frames.claim(w, from_fn(|| sent.pop_front()))))
    }
}
#[rustfmt::skip]
impl Wake for CardPort { fn kick(&mut self) {} }
#[rustfmt::skip]
impl Port for CardPort {
    fn name(&self) -> &str { "card:0" }
    fn kind(&self) -> &'static str { "card" }
    fn state(&self) -> PortState { PortState::Up }
    fn counters(&self) -> Arc<PortCounters> { self.1.reader() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = Memory::new(&Default::default())?;
    let mut w = memory.worker()?;
    let (pool, mut port) = (Pool::new(&memory, &mut w, &PoolConfig::default())?, CardPort::default());
    port.refill(&mut w, &pool);
    println!("posted: {}", pool.ledger().posted);
    Ok(())
}
