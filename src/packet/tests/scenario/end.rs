//! The last chapter: the pool closes with frames out, which come back late.

use super::Scene;
use std::time::Duration;

impl Scene {
    /// Returns how many operations were refused in all.
    pub(super) fn end(mut self) -> usize {
        let packet = self.ready.get(&mut self.w);
        let packet = self.got(packet);
        let shared = self.pool.alloc(&mut self.other);
        let shared = self.got(shared).map(|frame| frame.share());
        let piece = self.pieces.alloc(&mut self.w, 100);
        let piece = self.got(piece);
        let out = [packet.is_some(), shared.is_some(), piece.is_some()].map(u64::from).iter().sum::<u64>();
        let Scene { pieces, ready, stack, keeper, copy_break, sizes, heads, pool, mut w, mut other, refused } =
            self;
        let stacked = stack.now() as u64;
        pool.close();
        assert!(pool.is_closed());
        assert!(pool.alloc(&mut w).is_none() && ready.get(&mut other).is_none());
        if let Err(still) = pool.close_and_wait(Duration::ZERO) {
            assert_eq!(
                (still.0.out(), still.0.ready, still.0.balanced()),
                (out + stacked, stacked, true),
                "{still}"
            );
        }
        packet.into_iter().for_each(|packet| ready.free(&mut other, packet));
        shared.into_iter().for_each(|shared| shared.free(&mut w));
        drop((pieces, piece, stack));
        pool.close_and_wait(Duration::ZERO).unwrap();
        let stats = pool.stats();
        assert_eq!((pool.mapped_pages(), pool.inflight(), ready.now()), (0, 0, 0), "{stats:?}");
        assert!(pool.ledger().all_freed());
        drop((ready, keeper, copy_break, sizes, heads, pool, w, other));
        refused
    }
}
