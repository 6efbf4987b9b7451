//! The Internet checksum: RFC 1071, and its incremental update, RFC 1624.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A partial one's complement sum, in the machine's byte order.
///
/// The sum may be taken in any byte order as long as the result is stored in the same one (RFC 1071 §2(B)). So bytes
/// are added in memory order, and only numbers are converted.
///
/// Invariant: `0` holds fewer than 2^32 words of 32 bits, so it cannot overflow: 16 GiB of bytes.
///
/// ```
/// use netmem::wire::checksum::Sum;
///
/// // The example of RFC 1071 §3: the sum is 0xddf2, the checksum its complement.
/// let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(Sum::new().bytes(&bytes).checksum(), !0xddf2);
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// Returns the sum of no bytes.
    pub const fn new() -> Self {
        Sum(0)
    }

    /// The sum over the pseudo-header of IPv4 that the checksums of TCP and UDP cover.
    #[inline]
    pub(super) fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: u16) -> Self {
        Sum::new().double_word(src.to_bits()).double_word(dst.to_bits()).word(protocol.into()).word(length)
    }

    /// The same over IPv6 (RFC 8200 §8.1).
    #[inline]
    pub(super) fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, length: u32) -> Self {
        let addresses = Sum::new().bytes(&src.octets()).bytes(&dst.octets());
        addresses.double_word(length).double_word(protocol.into())
    }

    /// Adds `bytes`. An odd last byte counts as if a zero byte followed, so only the last piece may have an odd length.
    ///
    /// # Cost
    /// One add per four bytes, which the compiler turns into vectors.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            sum += u64::from(u32::from_ne_bytes(last));
        }
        Sum(sum)
    }

    /// Adds one 16-bit number of a header.
    #[inline]
    pub const fn word(self, number: u16) -> Self {
        Sum(self.0 + number.to_be() as u64)
    }

    /// Adds one 32-bit number of a header.
    #[inline]
    pub const fn double_word(self, number: u32) -> Self {
        Sum(self.0 + number.to_be() as u64)
    }

    /// The sum folded to 16 bits. It is 0 only if everything added was 0. Over data that carries a correct checksum it
    /// is `0xffff`.
    #[inline]
    pub const fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        u16::from_be(sum as u16)
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Returns whether data that carries its checksum is intact.
    #[inline]
    pub const fn intact(self) -> bool {
        self.fold() == 0xffff
    }
}

impl std::ops::Add for Sum {
    type Output = Sum;

    /// The sum over two pieces. The first has an even length.
    #[inline]
    fn add(self, more: Sum) -> Sum {
        Sum(self.0 + more.0)
    }
}

/// Returns the checksum after one 16-bit word under it changed from `old` to `new`: RFC 1624 equation 4, `HC' = HC - ~m
/// - m'`, a subtraction with end-around borrow.
///
/// All three may be in either byte order, if all are in the same one (RFC 1071 §2(B)).
///
/// Unlike the older equations, it returns `0x0000`, and never `0xffff`, where a full sum would. The two are the same
/// number in one's complement, but not the same bytes. The result is exact for any data that is not all zeros.
///
/// # Cost
/// A few instructions, two if both words are constants; no other byte of the data is read.
#[inline]
pub const fn replaced(checksum: u16, old: u16, new: u16) -> u16 {
    let (sum, carry) = new.overflowing_add(!old);
    let (rest, borrow) = checksum.overflowing_sub(sum.wrapping_add(carry as u16));
    rest.wrapping_sub(borrow as u16)
}

/// [`replaced`] for both words of an IPv4 address.
#[inline]
pub const fn replaced_address(checksum: u16, old: Ipv4Addr, new: Ipv4Addr) -> u16 {
    let (old, new) = (old.to_bits(), new.to_bits());
    let checksum = replaced(checksum, (old >> 16) as u16, (new >> 16) as u16);
    replaced(checksum, old as u16, new as u16)
}

/// [`replaced`] for the eight words of an IPv6 address.
#[inline]
pub const fn replaced_address_v6(mut checksum: u16, old: Ipv6Addr, new: Ipv6Addr) -> u16 {
    let (old, new) = (old.segments(), new.segments());
    let mut i = 0;
    while i < old.len() {
        checksum = replaced(checksum, old[i], new[i]);
        i += 1;
    }
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §1 word by word, with nothing deferred: the reference for the tests.
    fn plain_checksum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_sum_of_nothing_and_of_zeros_is_zero() {
        assert_eq!(Sum::new().fold(), 0);
        assert_eq!(Sum::new().bytes(&[0; 64]).checksum(), 0xffff);
    }

    #[test]
    fn many_ones_fold_without_losing_a_carry() {
        for length in [2, 4, 20, 1480, 65_535, 1 << 20] {
            let ones = vec![0xff; length];
            assert_eq!(Sum::new().bytes(&ones).checksum(), plain_checksum(&ones), "{length} bytes");
        }
    }

    #[test]
    fn the_example_of_rfc_1624_gives_zero_and_not_its_twin() {
        // §4: HC = 0xDD2F, m = 0x5555, m' = 0x3285 gives 0x0000, where RFC 1141 gave 0xFFFF.
        assert_eq!(replaced(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn any_bytes_sum_as_word_by_word(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(Sum::new().bytes(&bytes).checksum(), plain_checksum(&bytes));
        }

        #[test]
        fn pieces_and_words_sum_as_the_whole(
            head in prop::collection::vec(any::<u16>(), 0..20),
            double in any::<u32>(),
            tail in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
            let words = head.iter().fold(Sum::new(), |sum, word| sum.word(*word));
            bytes.extend(double.to_be_bytes());
            bytes.extend(&tail);
            let whole = words.double_word(double) + Sum::new().bytes(&tail);
            prop_assert_eq!(whole.checksum(), plain_checksum(&bytes));
        }

        #[test]
        fn a_replaced_word_gives_what_a_full_sum_gives(
            mut words in prop::collection::vec(any::<u16>(), 2..20),
            at in any::<prop::sample::Index>(),
            new in any::<u16>(),
        ) {
            words[0] |= 1; // not all zeros, before or after
            let at = 1 + at.index(words.len() - 1);
            let sum = |words: &[u16]| words.iter().fold(Sum::new(), |sum, word| sum.word(*word)).checksum();
            let (before, old) = (sum(&words), words[at]);
            words[at] = new;
            prop_assert_eq!(replaced(before, old, new), sum(&words));
        }
    }
}
