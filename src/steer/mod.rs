//! Stage `steer`: lists of frames travel to other workers.
//!
//! Which worker a frame is for follows from its receive queue or its flow.

mod flow;
mod toeplitz;

pub use flow::FlowKey;
pub use toeplitz::{DEFAULT_KEY, KEY_LEN, SYMMETRIC_KEY, Toeplitz};
