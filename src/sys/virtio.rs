//! The header before each frame of a packet socket or a TAP interface (`linux/virtio_net.h`).

/// Bytes of `struct virtio_net_hdr`.
pub const HEADER: usize = 10;

/// The offload left to be done on a frame, in the form of `struct virtio_net_hdr`. All 0 means nothing.
pub type VirtioHeader = [u8; HEADER];
