//! Random words from the system's generator, or from the standard library's keys.

/// Two random words from getrandom(2). If the call is refused, and under Miri, which does not have it here, they are
/// two hashes of the clock by keys of [`RandomState`](std::hash::RandomState). The standard library draws these keys
/// once for each thread, as for its maps, and changes them for each hash here.
pub fn words() -> [u64; 2] {
    #[cfg(not(miri))]
    {
        let mut bytes = [0; 16];
        let got = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
        // Up to 256 bytes come whole and without an error once the system has booted. A filter of system calls may
        // refuse the call.
        if got == Ok(bytes.len()) {
            return [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte])));
        }
    }
    let hashed = || {
        std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            super::clock::ticks(),
        )
    };
    [hashed(), hashed()]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_askings_get_other_words() {
        assert_ne!(words(), words());
    }
}
