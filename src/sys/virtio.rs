//! What goes before each frame of a packet socket or a TAP interface (`linux/virtio_net.h`).

/// Bytes of `struct virtio_net_hdr`.
pub const HEADER: usize = 10;

/// What is left to be done to a frame, as `struct virtio_net_hdr` says it; nothing where it is all 0.
pub type VirtioHeader = [u8; HEADER];
