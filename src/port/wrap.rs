//! Ports around other ports: to look at their frames, change them, count them or lose them.
//!
//! A wrapper implements [`WrapPort`], which says what is within it, and changes the operations that it is for. All others are
//! those of the inner port, also those that later versions add. [`trace`](super::trace), [`fault`](super::fault) and
//! [`bounce`](super::bounce) are such ports.

use super::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake, WrapCounters};
use crate::pool::{Batch, Frame, Pool};
use crate::sync::Worker;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Makes the trait, whose operations are those of the inner port, and a port of whatever implements it.
macro_rules! wrap {
    (
        $(#[$of_trait:meta])*
        $($queue:ident {
            $($(#[$of_mut:meta])* mut fn $mut:ident($($a:ident: $A:ty),*) $(-> $Mut:ty)?;)*
            $(ref fn $ref:ident($($b:ident: $B:ty),*) -> $Ref:ty;)*
        })*
    ) => {
        $(#[$of_trait])*
        pub trait WrapPort: Send {
            /// The inner port.
            fn within(&self) -> &dyn Port;

            /// The inner port.
            fn within_mut(&mut self) -> &mut dyn Port;

            $($(
                #[doc = concat!("[`", stringify!($queue), "::", stringify!($mut), "`], by default of the inner port.")]
                $(#[$of_mut])*
                #[inline]
                fn $mut(&mut self $(, $a: $A)*) $(-> $Mut)? {
                    self.within_mut().$mut($($a),*)
                }
            )*
            $(
                #[doc = concat!("[`", stringify!($queue), "::", stringify!($ref), "`], by default of the inner port.")]
                #[inline]
                fn $ref(&self $(, $b: $B)*) -> $Ref {
                    self.within().$ref($($b),*)
                }
            )*)*
        }

        $(impl<W: WrapPort> $queue for W {
            $(#[inline]
            fn $mut(&mut self $(, $a: $A)*) $(-> $Mut)? {
                WrapPort::$mut(self $(, $a)*)
            })*
            $(#[inline]
            fn $ref(&self $(, $b: $B)*) -> $Ref {
                WrapPort::$ref(self $(, $b)*)
            })*
        })*
    };
}

wrap! {
    /// A port around another port. Whatever implements this is a [`Port`].
    ///
    /// Some operations belong together, and one that changes one of them changes the other:
    /// - `fill` and `refill_to`: a dataplane calls the second one, which does not call the first.
    /// - `rx`, `rx_pending` and `rx_finished`, if frames wait in the wrapper; then `arm` returns true.
    /// - `rx` and `keep_offloads`, if packets are changed: a frame may be longer than the MTU and have an open checksum, unless
    ///   `keep_offloads` hands false to the inner port, and returns it.
    /// - `tx`, `take_unsendable` and `is_too_long`, if frames become longer.
    /// - `tx`, `tx_posted` and `complete`, if the device gets other frames than the wrapper was given.
    ///
    /// A wrapper counts in counters of its own ([`WrapCounters`]), and puts them before those of the inner port. What it frees,
    /// keeps or adds is missing in [`PortCounters`], which the device writes.
    ///
    /// # Cost
    /// A call through `dyn Port`. It is direct if `within` has one type, as in the example.
    ///
    /// # Imports
    /// The operations have the names of the queues' methods. Where this trait and those are imported, call them on a `dyn Port`.
    ///
    /// # Example
    /// A port that receives the packets of one neighbour alone:
    /// ```
    /// use netmem::port::mem::{MemConfig, MemPort};
    /// use netmem::port::wrap::WrapPort;
    /// use netmem::port::{Port, WrapCounters};
    /// use netmem::stats::{Count, Writer};
    /// use netmem::{Batch, Worker};
    /// use std::sync::Arc;
    ///
    /// struct Only {
    ///     within: MemPort,
    ///     from: [u8; 6],
    ///     counters: Writer<OnlyCounters>,
    /// }
    ///
    /// #[derive(Default)]
    /// struct OnlyCounters {
    ///     others: Count,
    /// }
    ///
    /// impl WrapCounters for OnlyCounters {
    ///     fn counts(&self) -> Vec<(&'static str, u64)> {
    ///         vec![("only_others", self.others.get())]
    ///     }
    /// }
    ///
    /// impl WrapPort for Only {
    ///     fn within(&self) -> &dyn Port {
    ///         &self.within
    ///     }
    ///     fn within_mut(&mut self) -> &mut dyn Port {
    ///         &mut self.within
    ///     }
    ///     fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
    ///         let (before, mut at) = (frames.len(), 0);
    ///         let received = self.within_mut().rx(w, frames);
    ///         let mut others = frames.extract(|frame| {
    ///             at += 1;
    ///             at > before && frame.data().get(6..12) != Some(&self.from)
    ///         });
    ///         let dropped = others.len();
    ///         self.counters.add(|counters| &counters.others, dropped as u64);
    ///         others.free(w);
    ///         received - dropped
    ///     }
    ///     fn wrap_counters(&self) -> Vec<Arc<dyn WrapCounters>> {
    ///         vec![self.counters.reader()]
    ///     }
    /// }
    ///
    /// # let config = netmem::MemoryConfig { bytes: 2 << 20, ..Default::default() };
    /// # let memory = netmem::Memory::new(&config)?;
    /// # let mut w = memory.worker()?;
    /// # let pool = netmem::Pool::new(&memory, &mut w, &netmem::PoolConfig::default())?;
    /// let (within, mut device) = MemPort::pair("0", &MemConfig::default())?;
    /// let from = [2, 0, 0, 0, 0, 1];
    /// let mut port: Box<dyn Port> = Box::new(Only { within, from, counters: Writer::default() });
    /// port.refill(&mut w, &pool);
    /// for last in [1, 2, 1] {
    ///     device.deliver(1, |room| {
    ///         room[6..12].copy_from_slice(&[2, 0, 0, 0, 0, last]);
    ///         60
    ///     });
    /// }
    /// let mut frames = Batch::new();
    /// assert_eq!(port.rx(&mut w, &mut frames), 2);
    /// assert_eq!(port.wrap_counters()[0].counts(), [("only_others", 1)]);
    /// frames.free(&mut w);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Fill {
        mut fn fill_room() -> usize;
        mut fn fill(w: &mut Worker, frames: &mut Batch) -> usize;
        mut fn refill_to(w: &mut Worker, pool: &Pool, most: usize) -> usize;
        mut fn lacks_frames(most: usize) -> bool;
        ref fn rx_posted() -> usize;
        ref fn own_pool() -> Option<&Pool>;
        ref fn takes_frames_of(pool: &Pool) -> bool;
    }
    Rx {
        mut fn rx(w: &mut Worker, frames: &mut Batch) -> usize;
        mut fn rx_pending() -> Option<usize>;
        mut fn keep_offloads(keep: bool) -> bool;
        ref fn rx_finished() -> bool;
    }
    Tx {
        mut fn tx(w: &mut Worker, frames: &mut Batch) -> usize;
        mut fn tx_unread() -> usize;
        ref fn tx_posted() -> usize;
        ref fn can_retry_tx() -> bool;
        ref fn carries_offloads() -> bool;
        ref fn take_unsendable(frames: &mut Batch) -> Batch;
        ref fn is_too_long(frame: &Frame) -> bool;
    }
    Complete {
        mut fn complete(w: &mut Worker, frames: &mut Batch) -> usize;
    }
    Wake {
        mut fn kick();
        #[must_use = "true: frames have come, so the worker must not sleep"]
        mut fn arm() -> bool;
        mut fn disarm();
        ref fn wakeup_fd() -> Option<BorrowedFd<'_>>;
    }
    Port {
        ref fn name() -> &str;
        ref fn kind() -> &'static str;
        ref fn state() -> PortState;
        ref fn is_failed() -> bool;
        ref fn complaint() -> Option<String>;
        ref fn notice() -> Option<String>;
        ref fn counters() -> Arc<PortCounters>;
        ref fn wrap_counters() -> Vec<Arc<dyn WrapCounters>>;
    }
}
