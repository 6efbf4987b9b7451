//! Several queues of one interface as one port: for an interface with more queues than there are workers.
//!
//! Packets from any of the queues are received; the first queue transmits all packets. A flow arrives at one queue and
//! leaves by one, so it keeps its order.

use super::error::{Attempt, watch};
use super::{Netdev, NetdevQueues, Umem, XdpConfig, XdpError, XdpGrant, XdpPort};
use crate::pool::{Batch, Frame, Pool};
use crate::port::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake};
use crate::sync::Worker;
use crate::sys::event::Watch;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Queues of one interface, polled by one worker.
///
/// Its counters are the sums of all its queues. It is down while one of them is. There is one exception: a queue other
/// than the first that is only missing, because the interface came back with fewer receive queues. No packet comes by a
/// missing queue. If the interface gets more queues than the ports have that were opened on all of them,
/// [`complaint`](Port::complaint) says so: packets that come by the new queues go to the kernel until the port is
/// closed and opened again.
#[derive(Debug)]
pub struct XdpQueues {
    /// `xdp:eth0:0,2`
    name: String,
    /// One or more.
    queues: Vec<XdpPort>,
    /// The queue with which reception begins. It is the next one in each call, so that a flooded queue cannot starve
    /// the others.
    turn: usize,
    /// All sockets as one descriptor.
    watch: Watch,
    /// The socket of each queue that is watched, by its number; None if it is not.
    watched: Vec<Option<u32>>,
    /// The last attempt to watch all of them succeeded.
    is_watched: bool,
    /// The counters of all queues.
    counters: Arc<PortCounters>,
}

impl XdpQueues {
    /// Opens a port over `umem` on each of `queues` of `interface`, as [`XdpPort::open`] does, and makes one port of
    /// them. All FILL rings together get at most a quarter of the pool before the first packet comes.
    ///
    /// # Errors
    /// Returns [`XdpError`] of the first queue that cannot be opened; `NoQueues` if `queues` is empty.
    #[cold]
    pub fn open(
        umem: &Arc<Umem>,
        w: &mut Worker,
        pool: &Pool,
        interface: &str,
        queues: &[u32],
        config: &XdpConfig,
    ) -> Result<XdpQueues, XdpError> {
        let most = pool.frames() / 4 / queues.len().max(1);
        let mut open = |&queue: &u32| XdpPort::open_filled(umem, w, pool, (interface, queue), config, most);
        let ports = queues.iter().map(&mut open).collect::<Result<Vec<_>, _>>()?;
        XdpQueues::of(interface, ports)
    }

    /// Opens a port on each queue of a grant, as [`XdpPort::open_granted`] does, and makes one port of them. All FILL rings
    /// together get at most a quarter of the pool before the first packet comes.
    ///
    /// # Errors
    /// Returns [`XdpError`] of the first queue that cannot be opened; `NoQueues` if all were
    /// [split off](XdpGrant::split_off). The grant is used up.
    #[cold]
    pub fn open_granted(
        umem: &Arc<Umem>,
        w: &mut Worker,
        pool: &Pool,
        grant: XdpGrant,
        config: &XdpConfig,
    ) -> Result<XdpQueues, XdpError> {
        let interface = grant.interface().to_owned();
        let ports = grant.open(umem, w, pool, config)?;
        XdpQueues::of(&interface, ports)
    }

    /// Makes one port of them.
    fn of(interface: &str, mut ports: Vec<XdpPort>) -> Result<XdpQueues, XdpError> {
        if ports.is_empty() {
            return Err(XdpError::NoQueues { interface: interface.to_owned() });
        }
        let counters = Arc::default();
        ports.iter_mut().for_each(|port| port.count_into(&counters));
        let queues: Vec<String> = ports.iter().map(|port| port.queue().to_string()).collect();
        Ok(XdpQueues {
            name: format!("xdp:{interface}:{}", queues.join(",")),
            watched: vec![None; ports.len()],
            is_watched: true,
            queues: ports,
            turn: 0,
            watch: watch(interface)?,
            counters,
        })
    }

    /// Returns the numbers of all queues of `interface`, for [`XdpQueues::open`]. A server needs all of them, since the
    /// kernel refuses the clients whose packets arrive at any other.
    ///
    /// # Errors
    /// Returns [`XdpError`]: `UncountedQueues` if the driver does not report its queues, `UnpairedQueues` if the interface
    /// has more receive than transmit queues, so that some cannot be opened, and `UnknownInterface`.
    #[cold]
    pub fn all_of(interface: &str) -> Result<Vec<u32>, XdpError> {
        let config = XdpConfig::default();
        let attempt = Attempt::of_no_memory(interface, 0, &config);
        let netdev = Netdev::open(interface).map_err(|errno| attempt.netdev("find the interface", errno))?;
        let queues = netdev.queues().map_err(|errno| attempt.netdev("count its queues", errno))?;
        all(interface, queues)
    }

    /// The queues, each a port; the first one transmits.
    pub fn queues(&self) -> &[XdpPort] {
        &self.queues
    }

    /// The queue with the most room for empty frames, and its room.
    #[inline]
    fn emptiest(&mut self) -> (usize, usize) {
        let mut most = (0, 0);
        for (i, queue) in self.queues.iter_mut().enumerate() {
            let room = queue.fill_room();
            if room > most.1 {
                most = (i, room);
            }
        }
        most
    }
}

/// Returns the numbers of all receive queues, unless one has no transmit queue.
fn all(interface: &str, queues: Option<NetdevQueues>) -> Result<Vec<u32>, XdpError> {
    let interface = || interface.to_owned();
    let NetdevQueues { rx, tx, .. } =
        queues.ok_or_else(|| XdpError::UncountedQueues { interface: interface() })?;
    if rx > tx {
        return Err(XdpError::UnpairedQueues { interface: interface(), rx, tx });
    }
    Ok((0..rx).collect())
}

impl Fill for XdpQueues {
    /// The room of the queue with the most room: the next frames go there, so that all queues are filled alike.
    #[inline]
    fn fill_room(&mut self) -> usize {
        self.emptiest().1
    }

    #[inline]
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let (emptiest, _) = self.emptiest();
        self.queues[emptiest].fill(w, frames)
    }

    fn rx_posted(&self) -> usize {
        self.queues.iter().map(XdpPort::rx_posted).sum()
    }

    #[cold]
    fn takes_frames_of(&self, pool: &Pool) -> bool {
        self.queues[0].takes_frames_of(pool)
    }
}

impl Rx for XdpQueues {
    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let (before, first) = (frames.len(), self.turn);
        self.turn = if first + 1 < self.queues.len() { first + 1 } else { 0 };
        let (later, sooner) = self.queues.split_at_mut(first);
        for queue in sooner.iter_mut().chain(later) {
            if frames.room() == 0 {
                break;
            }
            queue.rx(w, frames);
        }
        frames.len() - before
    }
}

impl Tx for XdpQueues {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.queues[0].tx(w, frames)
    }

    fn tx_posted(&self) -> usize {
        self.queues[0].tx_posted()
    }

    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        self.queues[0].take_unsendable(frames)
    }

    fn is_too_long(&self, frame: &Frame) -> bool {
        self.queues[0].is_too_long(frame)
    }
}

impl Complete for XdpQueues {
    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.queues[0].complete(w, frames)
    }
}

impl Wake for XdpQueues {
    #[inline]
    fn kick(&mut self) {
        self.queues.iter_mut().for_each(XdpPort::kick);
    }

    fn arm(&mut self) -> bool {
        self.watch.clear();
        let mut ready = false;
        self.is_watched = true;
        for (queue, watched) in self.queues.iter_mut().zip(&mut self.watched) {
            ready |= queue.arm();
            let socket = queue.socket_number();
            if *watched != socket
                && let Some(fd) = queue.wakeup_fd()
                && self.watch.add(fd).is_ok()
            {
                *watched = socket;
            }
            let is_missed = queue.is_unwatched() || queue.wakeup_fd().is_some() && *watched != socket;
            self.is_watched &= !is_missed;
        }
        ready
    }

    /// As that of one queue: none while no queue has a socket, as while the interface is away.
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        let has_one = self.queues.iter().any(|queue| queue.wakeup_fd().is_some());
        (self.is_watched && has_one).then(|| self.watch.as_fd())
    }

    fn disarm(&mut self) {
        self.queues.iter_mut().for_each(XdpPort::disarm);
    }
}

impl Port for XdpQueues {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "xdp"
    }

    fn state(&self) -> PortState {
        let there = self.queues.iter().enumerate().filter(|(i, queue)| *i == 0 || !queue.lacks_queue());
        let mut states = there.map(|(_, queue)| queue.state());
        states.find(|state| *state != PortState::Up).unwrap_or(PortState::Up)
    }

    /// One of its queues has failed: it is down until it is closed and opened again.
    fn is_failed(&self) -> bool {
        self.queues.iter().any(XdpPort::is_failed)
    }

    fn complaint(&self) -> Option<String> {
        self.queues.iter().find_map(XdpPort::complaint)
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.queues.iter().for_each(|queue| drop(queue.counters()));
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, bench};
    use super::*;

    /// Seen: an interface had more receive than transmit queues. The ports of its server were refused by another number, or
    /// left out the last queues without a word.
    #[test]
    fn all_queues_are_those_that_receive_and_none_without_a_transmit_queue_is_left_out() {
        let of = |rx, tx| all("eth9", Some(NetdevQueues { rx, tx }));
        assert_eq!(of(4, 4), Ok(vec![0, 1, 2, 3]));
        assert_eq!(of(2, 4), Ok(vec![0, 1]), "a queue that only transmits loses no packet");
        assert_eq!(of(4, 2), Err(XdpError::UnpairedQueues { interface: "eth9".into(), rx: 4, tx: 2 }));
        assert_eq!(all("eth9", None), Err(XdpError::UncountedQueues { interface: "eth9".into() }));
        let absent = XdpQueues::all_of("nosuch0");
        assert_eq!(absent, Err(XdpError::UnknownInterface { interface: "nosuch0".into() }));
    }

    /// Seen: a port of an empty list was refused because the interface had no queue that both receives and sends.
    #[test]
    fn a_port_of_no_queue_is_refused_with_where_the_queues_come_from() {
        let Bench { memory, mut w, pool } = bench(8);
        let opened = XdpQueues::open(&Umem::new(&memory), &mut w, &pool, "lo", &[], &XdpConfig::default())
            .unwrap_err();
        assert_eq!(opened, XdpError::NoQueues { interface: "lo".into() });
        assert!(opened.to_string().ends_with("XdpQueues::all_of returns all of them"), "{opened}");
    }
}
