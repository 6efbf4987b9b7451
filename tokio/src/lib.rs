//! This crate lets tasks of tokio await ports of [netmem].
//!
//! An [`AsyncPort`] is one value of a port, the worker for its calls, and the pool that it receives into. It is `Send`,
//! so a task that has one may move between the threads of a runtime. `&mut` proves that only one task at a time uses
//! it. There are two ways to use it:
//!
//! - [`AsyncPort::receive`] and [`AsyncPort::transmit`], if one task does everything.
//! - [`AsyncPort::share`], if many tasks handle frames: the port's own task, the [`Driver`], moves frames between the
//!   device and two queues, [`Incoming`] and [`Outgoing`], one by one or in bursts. Any task on any thread may drop a
//!   frame; it is freed to its pool. A [`DriverControl`] has the port's state and counters, and asks the driver to
//!   finish.
//!
//! # Frames of a task's own
//! [`AsyncPort::share`] leaves the port's worker with the driver, and the queues allocate no frames. A task that sends
//! first, as a client does, allocates from the pool with another worker of its memory. Tasks can share that worker by a
//! mutex. Each call takes the pool's lock, since the worker is not the pool's owner; `alloc_burst` takes it once for many
//! frames.
//!
//! ```
//! # use netmem::port::mem::{MemConfig, MemPort};
//! # use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
//! # use netmem_tokio::{AsyncPort, close_pool};
//! # use std::sync::{Arc, Mutex};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
//! # let mut owner = memory.worker()?;
//! # let pool = Pool::new(&memory, &mut owner, &PoolConfig { frames: 64, ..Default::default() })?;
//! # let (port, mut device) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 1 })?;
//! let (_incoming, outgoing, driver) = AsyncPort::new(Box::new(port), owner, pool.clone())?.share(16);
//! let (control, driver) = (driver.control(), tokio::spawn(driver.run()));
//!
//! let worker = Arc::new(Mutex::new(memory.worker()?)); // one for all tasks
//! let client = tokio::spawn({
//!     let (worker, pool, outgoing) = (Arc::clone(&worker), pool.clone(), outgoing.clone());
//!     async move {
//!         // The lock is not held while the task waits.
//!         let frame = worker.lock().ok().and_then(|mut w| pool.alloc(&mut w));
//!         let Some(mut frame) = frame else { return false }; // all frames are out: wait, and try again
//!         frame.put_slice(b"a packet").is_ok() && outgoing.transmit(frame).await.is_ok()
//!     }
//! });
//! assert!(client.await?);
//! # while device.collect(1, |packet| assert_eq!(packet, b"a packet")) == 0 {
//! #     tokio::task::yield_now().await;
//! # }
//! # control.finish();
//! # assert!(driver.await?.close(std::time::Duration::from_secs(1)).await);
//! # drop(device);
//! # close_pool(&pool).await;
//! # Ok(())
//! # }
//! ```
//! A pool whose frames are all posted for reception has none for such a task ([`AsyncPort::set_posted_max`]).
//!
//! # A port that is down for good
//! A port whose device or socket has failed carries frames again only after it was closed and opened again
//! ([`Port::is_failed`](netmem::Port::is_failed)). [`AsyncPort::receive`] then returns 0, and [`Driver::run`] returns the
//! port, so that [`Incoming::receive`] returns None and [`Outgoing::transmit`] an error. [`DriverControl::changed`] waits
//! for each change of the state.
//!
//! # Cancelling
//! Every future here may be dropped at every point at which it waits. Frames are appended to a batch in the same call
//! that returns, and frames that were not transmitted are still in the batch. Two calls own frames, and free them unsent
//! if they are dropped: [`Outgoing::transmit`] (use [`Outgoing::room`] or [`Outgoing::transmit_burst`] instead), and
//! [`Driver::run`] (end it by [`DriverControl::finish`] instead).
//!
//! # Closing
//! A port may wait for its device when it closes, for up to two seconds. [`AsyncPort::close`] waits for everything that
//! is not sent yet, and closes the port on a thread for blocking work. An [`AsyncPort`] or a [`Driver`] that is dropped
//! closes it on the runtime's thread. After [`AsyncPort::share`], [`DriverControl::finish`] makes [`Driver::run`] return
//! the port.
//!
//! # Waiting
//! A port without work is armed, checked once more, and then waited for by its descriptor, so that no wake-up is lost
//! ([`Wake`](netmem::port::Wake)). Some events wake no task: frames that a device has sent, and frames that return to a
//! dry pool. They are checked after a millisecond, then after twice as long, up to 50. So is a port that reports packets
//! and gives none, since they wait for an empty frame or are dropped as they are received. A port that waits only for
//! frames from its device is checked once a second, since nothing wakes a task when an interface is removed. A hundred
//! such ports cost a hundred checks a second.
//!
//! A port may be made in one runtime and used in another: its events and timers are those of the runtime that polls it. Each
//! needs I/O and time (`enable_all`).
//!
//! A memory has at most 64 workers, and each [`AsyncPort`] has one.
//!
//! The descriptor that tokio watches belongs to this crate (epoll in epoll), so that no copy of a port's socket
//! outlives the port.
//!
//! ```
//! use netmem::port::mem::{MemConfig, MemPort};
//! use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig};
//! use netmem_tokio::{AsyncPort, close_pool};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
//! let mut worker = memory.worker()?;
//! let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 64, ..Default::default() })?;
//! let (port, mut device) = MemPort::pair("0", &MemConfig { coalesce: 1, ..Default::default() })?; // or an XdpPort
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
//! drop(frames);
//! assert!(port.close(std::time::Duration::from_secs(1)).await); // everything is sent
//! close_pool(&pool).await; // all frames are freed
//! # Ok(())
//! # }
//! ```

mod control;
mod pool;
mod port;
mod queue;
mod share;
mod watch;

pub use control::{DriverControl, DriverCounters};
pub use pool::close_pool;
pub use port::AsyncPort;
pub use queue::{Incoming, Outgoing};
pub use share::Driver;
