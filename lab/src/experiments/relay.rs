//! The bare bound of forwarding: frames come out of one ring, have one line of their header touched, and go into
//! another ring. No allocation, no completion, no table.

use netmem::limits::BATCH_MAX;
use netmem::pool::{Batch, Frame, Pool};
use netmem::ring::{Receiver, Sender, ring};
use netmem::sync::Worker;

/// Bytes of the packets: the smallest Ethernet frame.
pub(super) const PACKET_BYTES: usize = 64;

/// Where the TTL stands in an Ethernet frame that carries IPv4.
const TTL: usize = 22;

/// The TTL that the far side writes.
const TTL_SENT: u8 = 64;

/// Makes a relay and its far side with `frames` frames of `pool` in flight between them.
pub(super) fn relay(pool: &Pool, worker: &mut Worker, frames: usize) -> (Relay, FarSide) {
    let slots = frames as u32;
    let (to_relay, relay_in) = ring(slots);
    let (relay_out, from_relay) = ring(slots);
    let mut far = FarSide { to_relay, from_relay, hand: Batch::new(), sent: 0, returned: 0, corrupt: 0 };
    while (far.sent as usize) < frames && pool.alloc_bulk(worker, &mut far.hand, 1) {
        far.hand.iter_mut().for_each(write_packet);
        far.send();
    }
    (Relay { input: relay_in, output: relay_out }, far)
}

/// The device under test.
pub(super) struct Relay {
    input: Receiver<Frame>,
    output: Sender<Frame>,
}

impl Relay {
    /// Passes at most `burst` frames (and at most a batch) on; returns how many were waiting.
    pub(super) fn poll(&mut self, burst: usize) -> usize {
        let mut frames = Batch::new();
        let found = self.input.recv_burst(burst.min(BATCH_MAX), |frame| {
            frame.prefetch();
            // There is room: a burst is at most a batch. Were there none, the frame would go home.
            let _ = frames.push(frame);
        });
        for frame in frames.iter_mut() {
            if let Some(ttl) = frame.data_mut().get_mut(TTL) {
                *ttl = ttl.wrapping_sub(1);
            }
        }
        // Both rings have a slot for every frame in flight, so all of them fit.
        self.output.send_burst(found, &mut frames.drain());
        found
    }
}

/// Generator and sink: what it gets back it checks, writes anew and sends again.
pub(super) struct FarSide {
    to_relay: Sender<Frame>,
    from_relay: Receiver<Frame>,
    hand: Batch,
    /// Frames sent to the relay.
    pub(super) sent: u64,
    /// Frames that came back.
    pub(super) returned: u64,
    /// … of which the header was not what the relay makes of it.
    pub(super) corrupt: u64,
}

impl FarSide {
    /// One turn: a batch at most.
    pub(super) fn turn(&mut self) {
        self.receive();
        self.hand.iter_mut().for_each(write_packet);
        self.send();
    }

    /// Lets the relay run dry, on this thread, and gives every frame back; returns how many came.
    pub(super) fn collect(&mut self, relay: &mut Relay, worker: &mut Worker) -> u64 {
        let mut collected = 0;
        while relay.poll(BATCH_MAX) + self.receive() > 0 {
            collected += self.hand.len() as u64;
            self.hand.free(worker);
        }
        collected
    }

    fn receive(&mut self) -> usize {
        let (hand, corrupt) = (&mut self.hand, &mut self.corrupt);
        let returned = self.from_relay.recv_burst(hand.room(), |frame| {
            *corrupt += u64::from(frame.data().get(TTL) != Some(&(TTL_SENT - 1)));
            // There is room: no more were asked for.
            let _ = hand.push(frame);
        });
        self.returned += returned as u64;
        returned
    }

    fn send(&mut self) {
        self.sent += self.to_relay.send_burst(self.hand.len(), &mut self.hand.drain()) as u64;
    }
}

/// Writes the whole header line, as a generator does.
fn write_packet(frame: &mut Frame) {
    let grown = frame.put(PACKET_BYTES.saturating_sub(frame.len()));
    if let (Ok(()), Some(line)) = (grown, frame.data_mut().first_chunk_mut::<PACKET_BYTES>()) {
        *line = [0xa5; PACKET_BYTES];
        line[TTL] = TTL_SENT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::page::{Memory, MemoryConfig};
    use netmem::pool::PoolConfig;

    #[test]
    fn every_frame_comes_back_touched_and_goes_home() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut worker, &PoolConfig::default()).unwrap();
        let (mut relay, mut far) = relay(&pool, &mut worker, 200);
        for _ in 0..100 {
            assert_eq!(relay.poll(32), 32);
            far.turn();
        }
        assert_eq!((far.returned, far.corrupt), (3_200, 0));
        assert_eq!(far.collect(&mut relay, &mut worker), 200);
        assert_eq!(far.sent, far.returned);
        assert!(pool.ledger().all_home() && pool.ledger().balanced());
    }

    #[test]
    fn a_frame_that_the_relay_did_not_touch_is_counted() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut worker, &PoolConfig::default()).unwrap();
        let (mut relay, mut far) = relay(&pool, &mut worker, 1);
        let untouched = relay.input.recv().unwrap();
        relay.output.send(untouched).unwrap();
        far.turn();
        assert_eq!(far.corrupt, 1);
    }
}
