//! Puts frames of one pool into every place that a frame can be in. Each place is filled at a separate call site.

use netmem::forward::local_queue::{LocalQueue, Reader, Retention, RetentionLimit, local_queue};
use netmem::packet::{HeadCache, Packet, ReadyPackets, ReadyStack, Reset};
use netmem::page::Memory;
use netmem::pool::{Batch, DmaMap, Fragment, Fragments, FrameState, Pool, PoolConfig, SharedFrame, StillOut};
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::{Fill, Tx};
use netmem::sync::Worker;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The contents of each frame with data.
pub const BYTES: &[u8] = b"still here";

/// The number of frames in each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    pub owned: u64,
    pub posted: u64,
    pub queued: u64,
    pub ready: u64,
}

impl Places {
    pub fn total(self) -> u64 {
        self.owned + self.posted + self.queued + self.ready
    }
}

/// The frames that are out when the pool closes. In the device's rings: 4 to receive into, 2 received, 2 sent, 1 to be
/// sent. In queues: 2 that are not read and 2 that a retention keeps. In the stack of pairs: 2. With the program: 2
/// packets in transfer to another thread, a frame with two holders, and one of which a fragment is held.
pub const OUT: Places = Places { owned: 4, posted: 9, queued: 4, ready: 2 };

/// Whatever holds frames.
pub struct Everywhere {
    pub port: MemPort,
    pub device: MemDevice,
    /// Of the queue that is not read, and of the retention's.
    _holders: [LocalQueue; 2],
    pub reader: Reader,
    pub retention: Retention,
    pub packets: Receiver<Packet>,
    pub first: SharedFrame,
    pub clone: SharedFrame,
    pub piece: Fragment,
    pub pieces: Fragments,
    pub stack: ReadyStack,
    pub pairs: ReadyPackets,
    pub heads: HeadCache,
    pub pool: Pool,
    /// The lines that frames of a known number and place were allocated in.
    sites: Vec<(u32, u64, Option<FrameState>)>,
}

#[track_caller]
fn take(pool: &Pool, w: &mut Worker, n: usize) -> Batch {
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(w, &mut batch, n));
    assert_eq!(batch.put_each(BYTES.len(), |_, room| room.copy_from_slice(BYTES)), n);
    batch
}

fn write(room: &mut [u8]) -> usize {
    room[..BYTES.len()].copy_from_slice(BYTES);
    BYTES.len()
}

impl Everywhere {
    /// Puts frames everywhere. `other` is another worker than the pool's owner. Some frames are in its ready pool, some
    /// in the owner's too, and some on the remote free queue. Those do not count as out, and are freed when the pool
    /// closes.
    pub fn lay(memory: &Memory, w: &mut Worker, other: &mut Worker, traced: bool) -> Everywhere {
        let config =
            PoolConfig { frames: 64, cache: 16, refill: 8, dma: DmaMap::Umem, ..PoolConfig::default() };
        let pool = Pool::new(memory, w, &config).unwrap();
        let heads = HeadCache::new(memory).unwrap();
        // While the pool traces, no packet is kept ready.
        let (stack, pairs) = ready(&pool, &heads, w, other);
        pool.trace(traced);
        let (mut port, mut device) = MemPort::pair("0", &MemConfig { ring: 8, coalesce: 2 }).unwrap();
        port.refill_to(w, &pool, 6);
        assert_eq!(device.deliver(2, write), 2);
        let (mut sent, posted) = (take(&pool, w, 3), line!());
        assert_eq!((port.tx(w, &mut sent), device.collect(1, |_| ())), (3, 1));
        let ((mut unread, reader), (mut kept, retention)) = (local_queue(8), local_queue(8));
        let mut retention =
            Retention::new(retention, Arc::new(RetentionLimit::new(usize::MAX, Duration::MAX)));
        let (mut batch, queued) = (take(&pool, other, 4), line!());
        assert_eq!(kept.put(other, &mut take_front(&mut batch, 2)), 2);
        assert_eq!((unread.put(other, &mut batch), retention.turn(w)), (2, 2));
        let (send, packets) = channel();
        let (batch, sent_on) = (&mut take(&pool, w, 2), line!());
        batch.drain().for_each(|frame| send.send(heads.attach(w, frame).unwrap()).unwrap());
        let (mut batch, shared) = (take(&pool, w, 1), line!());
        let first = batch.pop().unwrap().share();
        let mut pieces = Fragments::new(&pool);
        let (mut piece, cut) = (pieces.alloc(w, 64).unwrap(), line!());
        piece.put(BYTES.len()).unwrap();
        write(piece.data_mut());
        take(&pool, w, 3).free(other);
        let sites = vec![
            (posted, 3, Some(FrameState::Posted)),
            (queued, 4, Some(FrameState::Queued)),
            (sent_on, 2, None),
            (shared, 1, None),
            (cut, 1, None),
        ];
        let (clone, _holders) = (first.clone(), [unread, kept]);
        Everywhere {
            port,
            device,
            _holders,
            reader,
            retention,
            packets,
            first,
            clone,
            piece,
            pieces,
            stack,
            pairs,
            heads,
            pool,
            sites,
        }
    }

    /// Asserts that the report of a pool that did not end names the missing frames, their places, and their ages.
    pub fn check_report(&self, still: &StillOut, traced: bool) {
        let StillOut(ledger, holders) = still;
        assert_eq!(holders.iter().map(|holder| holder.frames).sum::<u64>(), ledger.out(), "{still}");
        let said = still.to_string();
        let counts = "19 of 64 frames are still out (4 with the program, 9 with devices, 4 in queues, 2 in ready pools)";
        assert!(said.contains(counts), "{said}");
        if !traced {
            assert_eq!((holders.len(), holders[0].site), (1, None), "{still}");
            return;
        }
        for &(line, frames, place) in &self.sites {
            let here = holders
                .iter()
                .find(|holder| holder.site.is_some_and(|site| (site.file(), site.line()) == (file!(), line)));
            assert_eq!(here.map(|holder| (holder.frames, holder.state)), Some((frames, place)), "{still}");
            assert!(said.contains(&format!("{}:{line}", file!())), "{said}");
        }
        assert!(holders.iter().all(|holder| holder.oldest >= Duration::from_millis(5)), "{still}");
    }
}

/// The first `n` frames.
fn take_front(batch: &mut Batch, n: usize) -> Batch {
    let mut front = Batch::new();
    batch.drain().move_to(&mut front, n);
    front
}

/// The pairs of both workers, and a stack of two whose lock no thread takes.
fn ready(pool: &Pool, heads: &HeadCache, w: &mut Worker, other: &mut Worker) -> (ReadyStack, ReadyPackets) {
    let (mut stack, pairs) =
        (ReadyStack::new(pool, heads, 2, Reset::AtPut), ReadyPackets::new(pool, heads, 4));
    let some = [stack.get(w).unwrap(), stack.get(other).unwrap()];
    some.into_iter().for_each(|packet| stack.free(w, packet));
    for w in [w, other] {
        let some = [pairs.get(w).unwrap(), pairs.get(w).unwrap()];
        some.into_iter().for_each(|packet| pairs.free(w, packet));
    }
    assert_eq!((stack.now(), pairs.now()), (2, 4));
    (stack, pairs)
}
