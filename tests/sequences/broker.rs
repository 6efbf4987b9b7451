//! Any bytes as a request of the broker. A request that is read is written again as it came, and needs no more
//! descriptors than a message has.

#![allow(missing_docs)]

use netmem::system::broker::Request;

/// Descriptors that come with a request at most.
const DESCRIPTORS: usize = 4;

/// Reads one.
pub fn run(bytes: &[u8]) {
    read(bytes);
}

/// Returns true if the bytes are a request.
pub fn read(bytes: &[u8]) -> bool {
    let Some(request) = Request::of_bytes(bytes) else { return false };
    assert_eq!(request.to_bytes(), bytes);
    assert!(request.descriptors() <= DESCRIPTORS);
    true
}
