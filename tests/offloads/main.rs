//! Tests of segmentation and checksums against Linux. Packets with offloads are given to an interface that supports
//! none, and the packets at the other end are compared byte by byte.

#![allow(clippy::unwrap_used)]

#[path = "../netns/mod.rs"]
mod netns;

use netmem::pool::Batch;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::conformance::Fixture;
use netmem::port::{Port, Tx};
use netmem::system::netdev::Netdev;
use netmem::system::packet::PacketSocket;
use netmem::wire::checksum::Sum;
use netmem::wire::offload::{Gso, GsoKind, Offload, PartialChecksum};
use netmem::wire::segment::Segments;
use netmem::wire::{Ipv4, ethernet};
use netns::{Wire, in_namespace, ip, skip, veth};
use std::io::IoSlice;
use std::num::NonZeroU16;
use std::process::Command;

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

/// Returns at most two IPv6 extension headers before this protocol, and the type of the first header.
fn extensions(random: &mut Random, protocol: u8) -> (u8, Vec<u8>) {
    let n = random.below(6).saturating_sub(3);
    let kinds = [0, 60];
    let types = [&kinds[2 - n..], &[protocol]].concat();
    let mut bytes = Vec::new();
    for next in &types[1..] {
        let eights = random.below(3);
        let padding = 4 + 8 * eights;
        bytes.extend([*next, eights as u8, 1, padding as u8]);
        bytes.resize(bytes.len() + padding, 0);
    }
    (types[0], bytes)
}

/// Returns a packet of TCP or UDP with an incomplete checksum, and its offload.
fn packet(random: &mut Random) -> (Vec<u8>, Offload) {
    let (is_v6, is_udp) = (random.below(2) == 1, random.below(3) == 0);
    let options = if is_udp { 0 } else { random.below(11) };
    let payload = {
        let len = if random.below(8) == 0 { random.below(60_000) } else { random.below(6000) };
        random.bytes(1 + len)
    };
    let protocol = if is_udp { 17 } else { 6 };
    let header = if is_udp { 8 } else { 20 + 4 * options };
    let length = (header + payload.len()) as u16;
    let mut frame = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
    let ip = ethernet::HEADER_LEN;
    if is_v6 {
        let (next, extensions) = extensions(random, protocol);
        frame.extend([0x86, 0xdd, 0x60, random.below(16) as u8, 0, 7]);
        frame.extend((length + extensions.len() as u16).to_be_bytes());
        frame.extend([next, 64]);
        frame.extend([[0xfd; 16], [0xfe; 16]].concat());
        frame.extend(extensions);
    } else {
        frame.extend([8, 0, 0x45, random.below(256) as u8]);
        frame.extend((length + 20).to_be_bytes());
        frame.extend(random.bytes(2));
        frame.extend([if random.below(2) == 0 { 0x40 } else { 0 }, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        Ipv4::seal(&mut frame[ip..]);
    }
    let start = frame.len();
    frame.extend(random.bytes(4));
    if is_udp {
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0]);
    } else {
        frame.extend(random.bytes(8));
        frame.extend([((5 + options) as u8) << 4, random.below(256) as u8, 1, 0, 0, 0, 0, 0]);
        frame.extend(vec![1; 4 * options]);
    }
    frame.extend(&payload);
    let addresses = if is_v6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
    let sum = Sum::new().bytes(&frame[addresses]).double_word(length.into()).word(u16::from(protocol)).fold();
    let offset = if is_udp { 6 } else { 16 };
    frame[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
    let checksum = PartialChecksum { start: start as u16, offset: offset as u16 };
    let kind = match (is_udp, is_v6) {
        (true, _) => GsoKind::Udp,
        (false, true) => GsoKind::TcpV6,
        (false, false) => GsoKind::TcpV4,
    };
    // No segment is longer than an MTU of 1,500 allows, nor are there more than a datagram may have.
    let most = 1500 - (start - ip) - header;
    let least = payload.len() / 60 + 1;
    let size = NonZeroU16::new((least + random.below(most - least)) as u16).unwrap();
    // What fits an MTU may be left to be completed alone.
    let is_one = payload.len() <= usize::from(size.get());
    let gso = (!is_one).then_some(Gso { kind, size });
    (frame, Offload { checksum: Some(checksum), gso })
}

/// Returns the packets that are sent for it, as this test computes them.
fn cut(packet: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    if offload.gso.is_none() {
        let mut packet = packet.to_vec();
        offload.checksum.unwrap().finish(&mut packet).unwrap();
        return vec![packet];
    }
    let segments = Segments::of(packet, offload).unwrap();
    let segment = |i| {
        let mut segment = vec![0; segments.bytes(i)];
        assert!(segments.write(packet, i, &mut segment));
        segment
    };
    (0..segments.count()).map(segment).collect()
}

/// A million packets: `NETMEM_STEPS=50000000`.
#[test]
fn packets_are_cut_and_completed_byte_for_byte_as_linux_does_it() {
    let test = "packets_are_cut_and_completed_byte_for_byte_as_linux_does_it";
    in_namespace(test, || {
        veth("left", "right", 1);
        let off = ["-K", "left", "tx", "off", "tso", "off", "gso", "off"];
        match Command::new("ethtool").args(off).output() {
            Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
            Err(error) => return skip(test, &format!("no ethtool(8), install ethtool ({error})")),
        }
        ip("link set dev left gso_max_segs 1");
        let (sender, receiver) =
            (PacketSocket::open(Netdev::open("left").unwrap().index()), Wire::open("right"));
        let (sender, mut random) = (sender.unwrap(), Random(7));
        let steps = std::env::var("NETMEM_STEPS").ok().and_then(|steps| steps.parse().ok());
        let mut segments = 0;
        // A packet to which nothing is left to be done crosses as it is.
        let (open, offload) = packet(&mut random);
        let complete = cut(&open, &offload).swap_remove(0);
        Wire::open("left").send(&complete);
        assert_eq!(receiver.receive(), complete);
        for round in 0..steps.unwrap_or(100_000_usize) / 50 {
            let (packet, offload) = packet(&mut random);
            let wanted = cut(&packet, &offload);
            let header = offload.to_virtio(&packet);
            assert_eq!(sender.send(&[(header, IoSlice::new(&packet))]), Ok(1), "{round}: {offload:?}");
            for (i, wanted) in wanted.iter().enumerate() {
                let got = receiver.receive();
                assert!(got == *wanted, "{round}, segment {i}: {offload:?}\n{got:02x?}\n{wanted:02x?}");
            }
            segments += wanted.len();
        }
        println!("{segments} segments are Linux's");
    });
}

/// Found: the kernel returns ENOMEM for such a frame each time, and the port offered it forever.
#[test]
fn a_frame_that_linux_cannot_cut_is_lost_and_those_behind_it_are_sent() {
    in_namespace("a_frame_that_linux_cannot_cut_is_lost_and_those_behind_it_are_sent", || {
        veth("left", "right", 1);
        let mut port = AfPacketPort::open("left", &AfPacketConfig::default()).unwrap();
        let (receiver, mut fixture, mut batch) = (Wire::open("right"), Fixture::new(2048), Batch::new());
        fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 3);
        let size = NonZeroU16::new(500).unwrap();
        let checksum = Some(PartialChecksum { start: 34, offset: 16 });
        let offload = Offload { checksum, gso: Some(Gso { kind: GsoKind::TcpV4, size }) };
        for (i, frame) in batch.iter_mut().enumerate() {
            // A TCP header of one word, which is too short, with payload for three segments.
            let mut bad = vec![0; 1434];
            bad[..6].fill(0xff);
            (bad[12], bad[14]) = (8, 0x45);
            bad[16..18].copy_from_slice(&1420_u16.to_be_bytes());
            (bad[22], bad[23], bad[46]) = (64, 6, 1 << 4);
            if i == 1 {
                frame.put_slice(&bad).unwrap();
                frame.set_offload(offload).unwrap();
            } else {
                frame.put_slice(&[&[0xff; 12][..], &[0x88, 0xb5], &[i as u8; 46]].concat()).unwrap();
            }
        }
        let mut tried = 0;
        while !batch.is_empty() {
            port.tx(&mut fixture.w, &mut batch);
            tried += 1;
            assert!(tried < 1_000_000, "{} frames are not sent", batch.len());
        }
        assert_eq!([receiver.receive()[14], receiver.receive()[14]], [0, 2]);
        assert_eq!((port.counters().tx_lost.get(), port.counters().tx_invalid.get()), (1, 0));
    });
}
