//! Stage forward.
