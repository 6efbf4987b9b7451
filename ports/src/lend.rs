//! The word that memif peers may be lent frames: the crate's only unsafe code.

use netmem::port::memif::Lend;

/// The word for a port that is named with `lend=yes`.
pub fn said_by_the_operator() -> Lend {
    // SAFETY: it is given where the person who wrote the port wrote `lend=yes` for this very one, and nowhere else, and what is
    // said of that option (`netmem forward --help`) says what is vouched for by it: that the peer is a sane program, which writes into no frame but
    // those whose turn it is. Without the word a port copies, and by default it speaks only with peers of the same user, who
    // could write this process's memory by other ways (ptrace(2)) as well.
    unsafe { Lend::to_trusted_peers() }
}
