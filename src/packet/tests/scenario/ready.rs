//! Chapters about ready packets: by worker, and in one stack.

use super::Scene;
use crate::packet::Packets;

impl Scene {
    pub(super) fn ready(&mut self) {
        let Scene { ready, w, other, .. } = self;
        let mut packets = Packets::new();
        let one = ready.get(w);
        let got = usize::from(one.is_some())
            + ready.get_burst(w, &mut packets, 8)
            + ready.get_burst(other, &mut packets, 3);
        packets.iter_mut().for_each(|packet| packet.put_slice(b"used").unwrap());
        packets.pop().into_iter().for_each(|packet| ready.free(other, packet));
        ready.free_bulk(w, &mut packets);
        one.into_iter().for_each(|packet| ready.free(w, packet));
        let stats = ready.stats();
        assert_eq!((stats.now, stats.kept - stats.taken - stats.released), (ready.now() as u64, stats.now));
        assert_eq!(ready.get_burst(w, &mut packets, 2), packets.len());
        assert!(packets.iter().all(|packet| packet.is_empty()), "a ready packet is as if just made");
        // Not to be kept: a packet with a second holder.
        let second = packets.pop().and_then(|mut packet| {
            packet.put_slice(b"shared").unwrap();
            let second = self.heads.share(w, &mut packet);
            ready.free(w, packet);
            second
        });
        ready.free_bulk(other, &mut packets);
        second.into_iter().for_each(|packet| ready.free(other, packet));
        let now = ready.now();
        assert_eq!((ready.drain(other), ready.now()), (now, 0));
        self.refused += 12 - got;
        // Some ready stay ready for the chapters to come.
        ready.get_burst(w, &mut packets, 4);
        ready.free_bulk(w, &mut packets);
    }

    pub(super) fn stack(&mut self) {
        let Scene { stack, w, other, .. } = self;
        let packets: Vec<_> = (0..8).filter_map(|_| stack.get(w)).collect();
        let got = packets.len();
        for mut packet in packets {
            packet.put_slice(b"used").unwrap();
            stack.free(other, packet);
        }
        // While the pool traces, each packet passes it.
        assert_eq!(stack.now(), if self.pool.is_traced() { 0 } else { got.min(stack.max()) });
        let again = stack.get(other);
        assert!(again.as_ref().is_none_or(|packet| packet.is_empty()), "a ready packet is as if just made");
        again.into_iter().for_each(|packet| stack.free(w, packet));
        let stats = stack.stats();
        assert_eq!(stats.kept - stats.taken - stats.released, stats.now);
        self.refused += 8 - got;
        assert_eq!((stack.drain(w), stack.now()), (stats.now as usize, 0));
        // One pair stays ready for the chapters to come.
        stack.get(w).into_iter().for_each(|packet| stack.free(w, packet));
    }
}
