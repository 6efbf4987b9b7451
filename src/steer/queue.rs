//! The transmit queue of a frame.

/// Returns the transmit queue of a frame, out of `queues`. It is the recorded receive queue, reduced below `queues` by
/// subtraction, so that the frames of a receive queue use one transmit queue. Without a recorded queue, it is the
/// scaled hash of its flow. (Both are as in the kernel's `skb_tx_hash`.)
///
/// Returns 0 if there are no queues.
#[inline]
pub fn tx_queue(recorded: Option<u16>, hash: u32, queues: u16) -> u16 {
    match recorded {
        // The remainder is the result of repeated subtraction.
        Some(queue) if queue < queues => queue,
        Some(queue) => queue.checked_rem(queues).unwrap_or(0),
        None => ((u64::from(hash) * u64::from(queues)) >> 32) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_queue_goes_out_by_its_own_number_as_long_as_there_are_as_many() {
        let out = [0, 1, 2, 3, 4, 7].map(|queue| tx_queue(Some(queue), u32::MAX, 3));
        assert_eq!(out, [0, 1, 2, 0, 1, 1]);
    }

    #[test]
    fn without_a_recorded_queue_the_hash_spreads_over_all() {
        let out = [0, 0x5555_5555, 0x5555_5556, 0xaaaa_aaab, u32::MAX].map(|hash| tx_queue(None, hash, 3));
        assert_eq!(out, [0, 0, 1, 2, 2]);
        assert_eq!((tx_queue(Some(4), 9, 0), tx_queue(None, 9, 0)), (0, 0));
    }
}
