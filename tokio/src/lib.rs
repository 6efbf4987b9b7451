//! Ports of [netmem] in tokio.
//!
//! A port, the worker at whose caches its calls are, and the pool that it receives into are one value, [`AsyncPort`]: all of it is
//! `Send`, so a task that has one may move between the threads of a runtime, and `&mut` proves that one task at a time is at
//! it. There are two ways to use it:
//!
//! - [`AsyncPort::receive`] and [`AsyncPort::transmit`], where one task does everything.
//! - [`AsyncPort::share`], where many tasks handle frames: a task of the port's own, the [`Driver`], moves frames between the device and two
//!   queues, [`Incoming`] and [`Outgoing`]. A frame may be dropped by any task on any thread; it goes home to its pool.
//!
//! # Cancelling
//! Every future here may be dropped at every point at which it waits. Frames are appended to a batch in the very call that returns,
//! and what was not transmitted is still in the batch.
//!
//! # Waiting
//! A port that has nothing to do is armed, looked at once more, and then waited for by its descriptor, so that no wake-up is lost
//! ([`Wake`](netmem::port::Wake)); what wakes nobody (frames that a device has sent, frames that come home to a dry pool) is looked for after a
//! millisecond, then after twice as long, up to 50. A port that waits for frames from its device alone is looked at once a second,
//! since nothing wakes anybody when an interface goes: a hundred of them cost a hundred looks a second.
//!
//! A memory has at most 64 workers, and each [`AsyncPort`] has one.
//!
//! The descriptor that tokio watches is one of this crate's own (epoll in epoll), so that no copy of a port's socket outlives the port.
//!
//! ```
//! use netmem::port::mem::{MemConfig, wire};
//! use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig};
//! use netmem_tokio::{AsyncPort, closed};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
//! let mut worker = memory.worker()?;
//! let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 64, ..Default::default() })?;
//! let (port, mut device) = wire("0", &MemConfig { coalesce: 1, ..Default::default() })?; // or an XdpPort
//! let mut port = AsyncPort::new(Box::new(port), worker, pool.clone())?;
//!
//! let network = tokio::spawn(async move {
//!     while device.deliver(1, |_room| 60) == 0 {
//!         tokio::task::yield_now().await;
//!     }
//!     while device.collect(1, |_packet| ()) == 0 {
//!         tokio::task::yield_now().await;
//!     }
//! });
//! let mut frames = Batch::new();
//! assert_eq!(port.receive(&mut frames).await, 1);
//! assert_eq!(port.transmit(&mut frames).await, 1); // and back
//! network.await?;
//! drop((port, frames));
//! closed(&pool).await; // all frames are home
//! # Ok(())
//! # }
//! ```

mod pool;
mod port;
mod share;
mod watch;

pub use pool::closed;
pub use port::AsyncPort;
pub use share::{Driver, Incoming, Outgoing};
