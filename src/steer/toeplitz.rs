//! The Toeplitz hash of receive-side scaling, by tables.
//!
//! The hash of an input is the exclusive or of one 32-bit window of the key for each set bit of the input (Microsoft,
//! "RSS Hashing Types" and "Verifying the RSS Hash Calculation"). So it is the exclusive or of one value for each input
//! byte at its position. These values are looked up.

use std::array;
use std::hash::{BuildHasher, RandomState};

/// Number of bytes of a Toeplitz key.
pub const KEY_LEN: usize = 40;

/// Maximum number of input bytes for a key of [`KEY_LEN`]: two IPv6 addresses and two ports.
pub const INPUT_MAX: usize = KEY_LEN - size_of::<u32>();

/// The published key of Microsoft's verification suite, and the default of many cards.
pub const DEFAULT_KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key with which both directions of a connection have the same hash: it repeats after 16 bits, so addresses and
/// ports may be swapped (Woo and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012).
pub const SYMMETRIC_KEY: [u8; KEY_LEN] = {
    let mut key = [0x6d; KEY_LEN];
    let mut at = 1;
    while at < KEY_LEN {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// A random key, different at each call: senders of packets can neither choose the worker nor direct all flows to one
/// worker's inbox.
///
/// ```
/// use netmem::steer::{MeshConfig, random_key};
///
/// assert_ne!(random_key(), random_key());
/// assert_ne!(MeshConfig::default().key, MeshConfig::default().key, "it is the default");
/// ```
#[cold]
pub fn random_key() -> [u8; KEY_LEN] {
    // The standard library seeds it with the system's random numbers, for the same reason: the SipHash of a number
    // cannot be guessed.
    let random = RandomState::new();
    array::from_fn(|at| random.hash_one(at) as u8)
}

/// The Toeplitz hash of RSS, under one key.
#[derive(Clone)]
pub struct Toeplitz {
    /// The value of a byte at a position: `tables[position][byte]`.
    tables: Box<[[u32; 256]; INPUT_MAX]>,
}

impl Toeplitz {
    /// Makes the hash under `key`: 36 KiB of tables, of which IPv4 uses the first 12.
    #[cold]
    pub fn new(key: &[u8; KEY_LEN]) -> Toeplitz {
        let mut tables = Box::new([[0; 256]; INPUT_MAX]);
        for (place, table) in tables.iter_mut().enumerate() {
            let key_bits =
                key[place..place + 5].iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            // The value of a byte is that of the byte without its lowest bit, combined with that bit's window of the
            // key.
            for byte in 1..table.len() {
                let window = (key_bits >> (byte.trailing_zeros() + 1)) as u32;
                table[byte] = table[byte & (byte - 1)] ^ window;
            }
        }
        Toeplitz { tables }
    }

    /// The hash of `input`, of which at most the first 36 bytes count.
    ///
    /// # Cost
    /// One look-up for each byte; the look-ups do not depend on each other.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        input.iter().zip(self.tables.iter()).fold(0, |hash, (byte, table)| hash ^ table[usize::from(*byte)])
    }
}

impl Default for Toeplitz {
    fn default() -> Self {
        Toeplitz::new(&DEFAULT_KEY)
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, bit by bit.
    fn by_definition(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
        let window = |from| (from..from + 32).fold(0, |bits, at| bits << 1 | u32::from(bit(key, at)));
        (0..input.len() * 8).filter(|at| bit(input, *at)).fold(0, |hash, at| hash ^ window(at))
    }

    proptest! {
        #[test]
        fn tables_give_what_the_definition_gives(
            key in prop::array::uniform32(any::<u8>()), tail in prop::array::uniform8(any::<u8>()),
            input in prop::collection::vec(any::<u8>(), 0..=INPUT_MAX),
        ) {
            let key: [u8; KEY_LEN] = [&key[..], &tail[..]].concat().try_into().unwrap();
            prop_assert_eq!(Toeplitz::new(&key).hash(&input), by_definition(&key, &input));
        }

        #[test]
        fn the_symmetric_key_hashes_both_directions_alike(a: [u8; 4], b: [u8; 4], p: [u8; 2], q: [u8; 2]) {
            let hash = Toeplitz::new(&SYMMETRIC_KEY);
            let (there, back) = ([&a[..], &b, &p, &q].concat(), [&b[..], &a, &q, &p].concat());
            prop_assert_eq!(hash.hash(&there), hash.hash(&back));
        }
    }
}
