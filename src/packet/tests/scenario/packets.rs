//! Chapters about packets: their bytes, chains, kinds of memory, bulk calls, and packets with a device.

use super::Scene;
use crate::packet::{External, InFlightHeads, Packet, Packets};
use crate::pool::Batch;
use crate::ring::ring;

impl Scene {
    /// A packet of `bytes`.
    fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let frame = self.pool.alloc(&mut self.w);
        let frame = self.got(frame)?;
        let packet = self.heads.attach(&mut self.w, frame).map_err(|frame| frame.free(&mut self.w)).ok();
        let mut packet = self.got(packet)?;
        packet.put_slice(bytes).unwrap();
        Some(packet)
    }

    pub(super) fn bytes(&mut self) {
        let Some(mut packet) = self.packet(&[1; 100]) else { return };
        packet.pull(20).unwrap();
        packet.push(10).unwrap();
        packet.put_zeroed(30).unwrap();
        packet.trim(80).unwrap();
        packet.data_mut().unwrap()[..10].fill(2);
        packet.prefetch();
        packet.record_rx_queue(3);
        packet.set_flow_hash(4);
        assert_eq!((packet.rx_queue(), packet.flow_hash(), packet.offload()), (Some(3), 4, None));
        assert_eq!(packet.timestamp(), None);
        assert_eq!((packet.len(), packet.is_empty(), packet.is_linear()), (80, false, true));
        assert!(packet.headroom() + packet.len() + packet.tailroom() < packet.pinned());
        assert_eq!((&packet.data()[..10], &packet.data()[10..]), (&[2; 10][..], &[1; 70][..]));
        match self.heads.detach(&mut self.w, packet) {
            Ok(frame) => frame.free(&mut self.other),
            Err(packet) => panic!("{packet:?} is one frame"),
        }
    }

    /// Two parts: shared, cut, joined, copied, and made one again.
    pub(super) fn chain(&mut self) {
        let (Some(mut packet), end) = (self.packet(&[1; 60]), self.packet(&[2; 60])) else { return };
        end.into_iter().for_each(|end| packet.append(end));
        let bytes: Vec<u8> = packet.segments().flatten().copied().collect();
        let share = self.heads.share(&mut self.w, &mut packet);
        let second = self.got(share);
        let split = self.heads.split(&mut self.other, &mut packet, 30).ok();
        if let Some(rest) = self.got(split) {
            assert_eq!((packet.len(), packet.data()), (30, &bytes[..30]));
            packet.append(rest);
        }
        let mut condensed = second;
        if let Some(packet) = &mut condensed {
            let before = packet.pinned();
            assert_eq!(self.copy_break.apply(&mut self.w, packet), before - packet.pinned());
        }
        let writable = packet.make_writable(&mut self.w, &self.pool).ok();
        if self.got(writable).is_some() {
            packet.data_mut().unwrap()[0] = 9;
            assert!(packet.reclaim());
        }
        let linear = self.heads.linearize(&mut self.w, &mut packet, &self.pool).ok();
        if self.got(linear).is_some() {
            assert_eq!(packet.data().len(), bytes.len());
        }
        if let Some(packet) = &mut condensed {
            let sendable = self.heads.make_sendable(&mut self.w, packet, &self.pool).ok();
            let sendable = self.got(sendable).is_some();
            assert!(!sendable || packet.data_mut().is_some());
        }
        for (packet, from) in [Some(packet), condensed].into_iter().flatten().zip([1, 0]) {
            let mut copy = vec![0; bytes.len()];
            assert_eq!(packet.copy_to(&mut copy), bytes.len());
            assert_eq!(copy[from..], bytes[from..]);
            self.heads.free(&mut self.other, packet);
        }
    }

    /// Heads on memory of every kind. No memory is lost if there is no head.
    pub(super) fn kinds(&mut self) {
        let Scene { pool, heads, pieces, w, other, .. } = self;
        let shared = pool.alloc(other).map(|mut frame| {
            frame.put(50).unwrap();
            frame.share()
        });
        let kept = shared.clone();
        let piece = pieces.alloc(w, 50);
        let external = External::new([5; 50], drop);
        let mut view = external.clone();
        view.pull(10).unwrap();
        view.trim(30).unwrap();
        assert_eq!((view.data(), view.len(), view.is_empty(), view.pinned()), (&[5; 30][..], 30, false, 50));
        let all = [
            shared.and_then(|frame| heads.attach_shared(w, frame).map_err(|frame| frame.free(w)).ok()),
            piece.and_then(|piece| heads.attach_fragment(w, piece).map_err(|piece| piece.free(w)).ok()),
            heads.attach_external(w, external).ok(),
            heads.attach_external(other, view).ok(),
        ];
        let all: Vec<Packet> = all.into_iter().filter_map(|packet| self.got(packet)).collect();
        drop(kept);
        let mut packets = Packets::default();
        all.into_iter().for_each(|packet| packets.push(packet).unwrap());
        self.heads.free_bulk(&mut self.w, &mut packets);
        self.pieces.flush(&mut self.w);
    }

    /// Packets that were words meanwhile, behind others.
    #[allow(unsafe_code)]
    pub(super) fn kept_as_words(&mut self) {
        let (one, two) = (self.packet(&[1; 10]), self.packet(&[2; 20]));
        let (mut packets, mut kept) = (Packets::new(), Packets::new());
        one.into_iter().for_each(|packet| packets.push(packet).unwrap());
        two.into_iter().for_each(|packet| kept.push(packet).unwrap());
        let (before, all) = (packets.len(), kept.len());
        // SAFETY: each packet was made words in this call, and is written once, from the first place on.
        let written = unsafe {
            packets.append_with(|places| {
                for (place, packet) in places.iter_mut().zip(kept.drain()) {
                    let (head, frame) = packet.into_raw();
                    place.write(Packet::from_raw(head, frame));
                }
                all
            })
        };
        assert_eq!((written, packets.len(), packets.room()), (all, before + all, 64 - before - all));
        assert!(packets[before..].iter().all(|packet| packet.data() == [2; 20]));
        self.heads.free_bulk(&mut self.w, &mut packets);
    }

    pub(super) fn bulk(&mut self) {
        let Scene { pool, heads, w, other, .. } = self;
        let (mut frames, mut packets, mut more) = (Batch::new(), Packets::new(), Packets::new());
        self.refused += 14 - pool.alloc_burst(w, &mut frames, 14);
        heads.attach_burst(w, &mut frames, &mut packets);
        self.refused += frames.len();
        frames.free(w);
        more.append(&mut packets);
        let (all, (mut sends, mut receives)) = (more.len(), ring(8));
        assert_eq!((more.send(&mut sends), more.len()), (all.min(8), all.saturating_sub(8)));
        assert_eq!(packets.receive(&mut receives, 5), all.min(5));
        // Packets left in the rings are freed with the rings.
        let (mut enters, mut leaves) = ring(4);
        let sent = more.send_queued(w, &mut enters, |packet| packet);
        assert_eq!(packets.receive_queued(other, &mut leaves, 2, |packet| packet), sent.min(2));
        more.drain().take(2).for_each(|packet| packets.push(packet).unwrap());
        assert_eq!(packets.room() + packets.len(), 64);
        let there = packets.len();
        packets.pop().into_iter().for_each(|packet| heads.free(other, packet));
        assert_eq!(heads.detach_burst(w, &mut packets, &mut frames), there.saturating_sub(1));
        frames.free(other);
        self.refused += 4 - pool.alloc_burst(other, &mut frames, 4);
        heads.attach_burst(other, &mut frames, &mut packets);
        self.refused += frames.len();
        frames.free(other);
        heads.free_bulk(w, &mut packets);
        heads.end_round(w);
        heads.end_round(other);
        heads.shrink();
        let stats = heads.stats();
        assert_eq!(
            stats.ready + stats.freed,
            (stats.refilled + stats.kept).wrapping_sub(stats.taken + stats.flushed),
            "{:?}: {:?}",
            heads.mode(),
            heads.attributes()
        );
    }

    /// Packets whose frames are with a device and come back, or are not taken.
    pub(super) fn flight(&mut self) {
        let (mut flight, mut frames, mut packets) = (InFlightHeads::new(4), Batch::new(), Packets::new());
        for i in 0..4 {
            let Some(packet) = self.packet(&[i; 70]) else { continue };
            flight.detach(packet, &mut frames).unwrap();
        }
        assert_eq!((flight.len(), flight.is_empty()), (frames.len(), frames.is_empty()));
        let mut back = Batch::new();
        frames.drain().move_to(&mut back, 2);
        let arrived = flight.attach(&mut back, &mut packets);
        let recalled = flight.attach_newest(&mut frames, &mut packets);
        assert_eq!((packets.len(), flight.len()), (arrived + recalled, 0));
        // A packet whose frame the device lost.
        if let Some(Ok(())) = packets.pop().map(|packet| flight.detach(packet, &mut frames)) {
            frames.free(&mut self.w);
            flight.free_newest(2, &self.heads, &mut self.w);
            assert!(flight.is_empty());
        }
        self.heads.free_bulk(&mut self.w, &mut packets);
    }
}
