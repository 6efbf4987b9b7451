//! The lower bound of forwarding: frames come out of one ring, one line of their header is touched, and they go
//! into another ring. There is no allocation, completion or table.

use netmem::limits::BATCH_MAX;
use netmem::page::Memory;
use netmem::pool::{Batch, Frame, Pool, PoolConfig};
use netmem::ring::{Receiver, Sender, ring};
use netmem::sync::Worker;

use super::check_all_freed;
use crate::bench::{Bench, SetUpError};

/// Bytes of the packets: the smallest Ethernet frame.
pub(super) const PACKET_BYTES: usize = 64;

/// Offset of the TTL in an Ethernet frame with IPv4.
const TTL: usize = 22;

/// The TTL that the far side writes.
const TTL_SENT: u8 = 64;

/// The device under test.
pub(super) struct Relay {
    input: Receiver<Frame>,
    output: Sender<Frame>,
    pool: Pool,
}

impl Relay {
    /// Makes a relay and its far side with `frames` frames in flight between them.
    pub(super) fn new(
        memory: &Memory,
        worker: &mut Worker,
        frames: usize,
    ) -> Result<(Relay, FarSide), SetUpError> {
        let config = PoolConfig { name: "relay".to_owned(), frames, ..PoolConfig::default() };
        let pool = Pool::new(memory, worker, &config).map_err(SetUpError::at("pool"))?;
        let slots = frames as u32;
        let ((to_relay, input), (output, from_relay)) = (ring(slots), ring(slots));
        let mut far = FarSide { to_relay, from_relay, hand: Batch::new(), sent: 0, returned: 0, corrupt: 0 };
        while (far.sent as usize) < frames && pool.alloc_bulk(worker, &mut far.hand, 1) {
            far.hand.iter_mut().for_each(write_packet);
            far.send();
        }
        Ok((Relay { input, output, pool }, far))
    }

    /// Forwards at most `burst` frames (and at most a batch). Returns the number of frames that were waiting.
    pub(super) fn poll(&mut self, burst: usize) -> usize {
        let mut frames = Batch::new();
        let found = self.input.recv_burst(burst.min(BATCH_MAX), |frame| {
            frame.prefetch();
            // There is room: a burst is at most a batch. Without room the frame would return to its pool.
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

    /// Lets every frame in flight arrive, on this thread. Checks that every frame came back, touched, and is back
    /// in its pool.
    pub(super) fn settle(mut self, mut far: FarSide, worker: &mut Worker, bench: &mut Bench<'_>) {
        let mut in_flight = 0;
        while self.poll(BATCH_MAX) + far.receive() > 0 {
            in_flight += far.hand.len();
            far.hand.free(worker);
        }
        let FarSide { sent, returned, corrupt, .. } = far;
        bench.check(
            "limit: every packet accounted for",
            sent == returned,
            format!("{sent} sent, {returned} received, {in_flight} frames in flight at the end"),
        );
        bench.check("limit: contents intact", corrupt == 0, format!("{corrupt} of {returned} corrupt"));
        drop(far);
        check_all_freed(bench, "limit", &self.pool);
    }
}

/// Generator and sink: checks the frames that come back, rewrites them and sends them again.
pub(super) struct FarSide {
    to_relay: Sender<Frame>,
    from_relay: Receiver<Frame>,
    hand: Batch,
    sent: u64,
    returned: u64,
    /// Frames whose header is not the one that the relay writes.
    corrupt: u64,
}

impl FarSide {
    /// Runs one turn: a batch at most.
    pub(super) fn turn(&mut self) {
        self.receive();
        self.hand.iter_mut().for_each(write_packet);
        self.send();
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
    let grown = frame.put(PACKET_BYTES.saturating_sub(frame.len())).is_ok();
    if let (true, Some(line)) = (grown, frame.data_mut().first_chunk_mut::<PACKET_BYTES>()) {
        *line = [0xa5; PACKET_BYTES];
        line[TTL] = TTL_SENT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::page::MemoryConfig;

    fn relay(frames: usize) -> (Memory, Worker, Relay, FarSide) {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let (relay, far) = Relay::new(&memory, &mut worker, frames).unwrap();
        (memory, worker, relay, far)
    }

    #[test]
    fn every_frame_comes_back_touched() {
        let (_memory, _worker, mut relay, mut far) = relay(200);
        for _ in 0..100 {
            assert_eq!(relay.poll(32), 32);
            far.turn();
        }
        assert_eq!((far.sent, far.returned, far.corrupt), (3_400, 3_200, 0));
    }

    #[test]
    fn a_frame_that_the_relay_did_not_touch_is_counted() {
        let (_memory, _worker, mut relay, mut far) = relay(1);
        let untouched = relay.input.recv().unwrap();
        relay.output.send(untouched).unwrap();
        far.turn();
        assert_eq!(far.corrupt, 1);
    }
}
