//! The frames that the far side sends.

use netmem_traffic::{Hop, INTERFACES, Outcome, Sink, Traffic};

use super::Fate;
use crate::experiments::relay::PACKET_BYTES;

/// Different frames, sent in turn.
pub(super) const FRAMES: usize = 256;

pub(super) type Bytes = [u8; PACKET_BYTES];

/// Returns the frames of the product's generator, each with the expected output, which the product's sink confirms.
pub(super) fn frames(fate: Fate) -> Result<Vec<(Bytes, Bytes)>, String> {
    let said = |error: netmem_traffic::TrafficError| error.to_string();
    let hop = match fate {
        Fate::Routed => Hop::Routed,
        Fate::Reflected | Fate::Crossed => Hop::Reflected,
        Fate::Redirected | Fate::Dropped | Fate::Kept(_) => Hop::Unchanged,
    };
    let mut traffic = Traffic::new(1, PACKET_BYTES).map_err(said)?;
    let mut sink = Sink::new(1, PACKET_BYTES, hop).map_err(said)?;
    let router = netmem_traffic::router();
    let mut pair = || {
        let mut sent = [0; PACKET_BYTES];
        traffic.write(&mut sent);
        let mut out = sent;
        match fate {
            Fate::Routed => {
                netmem_router::ip::forward_ip(&mut out, &INTERFACES[0], &router);
            }
            Fate::Reflected | Fate::Crossed => {
                let (to, from) = (sent[..6].to_vec(), sent[6..12].to_vec());
                out[..6].copy_from_slice(&from);
                out[6..12].copy_from_slice(&to);
            }
            Fate::Redirected | Fate::Dropped | Fate::Kept(_) => {}
        }
        match sink.verify(&out) {
            Outcome::Good { .. } => Ok((sent, out)),
            Outcome::Corrupt(fault) => Err(format!("the sink refuses a prebuilt frame: {}", fault.name())),
        }
    };
    (0..FRAMES).map(|_| pair()).collect()
}
