//! Stage `port`: where frames meet devices.
//!
//! Every device has the same four queues, and every port the same four files for them:
//!
//! ```text
//!   fill      empty frames  ──►  device      rx        device  ──►  received frames
//!   tx        full frames   ──►  device      complete  device  ──►  sent frames, to be freed
//! ```
//!
//! A frame given to [`Port::fill`] or [`Port::tx`] is *posted*: it belongs to the device until
//! [`Port::rx`] or [`Port::complete`] mints it again. There is no other way back.
