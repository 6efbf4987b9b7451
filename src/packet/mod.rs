//! Stage packet.
