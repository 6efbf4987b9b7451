//! A server over a netmem port, which answers in the frame of the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netmem::port::xdp::XdpConfig;
use netmem::port::{Complete, Fill, Rx, Tx, Wake};
use netmem::system::event::sleep_until_readable;
use netmem::wire::Datagram;
use netmem::{Batch, DmaMap, Frame, Memory, MemoryConfig, Pool, PoolConfig, Umem, Worker, XdpPort};

use super::super::super::veths::Veths;
use super::super::INTERFACE;
use super::super::work::{LONGER, Work};
use super::{LOOK, Server};

/// Whether it sleeps when no packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idle {
    Sleep,
    Poll,
}

pub(super) fn sleeping(veths: &Veths, work: Work) -> Result<Server, String> {
    open(veths, work, ("netmem", Idle::Sleep))
}

pub(super) fn polling(veths: &Veths, work: Work) -> Result<Server, String> {
    open(veths, work, ("netmem/polling", Idle::Poll))
}

fn open(veths: &Veths, work: Work, (name, idle): (&'static str, Idle)) -> Result<Server, String> {
    let mut server = veths.on_middle(|| PortServer::new(work).map_err(|error| error.to_string()))??;
    let serve = move |ends: &AtomicBool| {
        server.serve(idle, ends);
        Ok(())
    };
    Ok(Server { name, serve: Box::new(serve) })
}

struct PortServer {
    work: Work,
    // In the order of their drop.
    port: XdpPort,
    frames: Batch,
    pool: Pool,
    worker: Worker,
    _umem: Arc<Umem>,
}

impl PortServer {
    fn new(work: Work) -> Result<PortServer, Box<dyn std::error::Error>> {
        let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..MemoryConfig::default() })?;
        let mut worker = memory.worker()?;
        let config = PoolConfig { frames: 4096, dma: DmaMap::Umem, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut worker, &config)?;
        let take = Some(format!("udp:{}", work.port()).parse()?);
        let config = XdpConfig { take, ..XdpConfig::default() };
        let umem = Umem::new(&memory);
        let port = XdpPort::open(&umem, &mut worker, &pool, INTERFACE, 0, &config)?;
        Ok(PortServer { work, port, frames: Batch::new(), pool, worker, _umem: umem })
    }

    fn serve(&mut self, idle: Idle, ends: &AtomicBool) {
        // Relaxed: a request to end, which carries no data.
        while !ends.load(Ordering::Relaxed) {
            let moved = self.round();
            if moved == 0 && self.frames.is_empty() && idle == Idle::Sleep {
                if !self.port.arm() {
                    sleep_until_readable(self.port.wakeup_fd().as_slice(), LOOK);
                }
                self.port.disarm();
            }
        }
    }

    /// Receives, answers and sends once. Returns the number of moved frames.
    fn round(&mut self) -> usize {
        let PortServer { work, port, frames, pool, worker, .. } = self;
        port.refill(worker, pool);
        let mut moved = 0;
        if frames.is_empty() {
            moved += port.rx(worker, frames);
            frames
                .iter_mut()
                .for_each(|frame| answer(*work, frame).or_else(|| frame.trim(0).ok()).unwrap_or(()));
            frames.retain(worker, |frame| !frame.is_empty());
        }
        port.tx(worker, frames);
        port.kick();
        let mut sent = Batch::new();
        moved += port.complete(worker, &mut sent);
        sent.free(worker);
        moved
    }
}

/// Turns a request into its answer, in its frame. Returns None if it is not a request.
fn answer(work: Work, frame: &mut Frame) -> Option<()> {
    if work == Work::Echo {
        return Datagram::swap_endpoints(frame.data_mut()).ok().map(drop);
    }
    let (request, payload) = Datagram::parse(frame.data()).ok()?;
    let (answer, len) = (request.answer()?, payload.len());
    let headers = answer.headers_len();
    frame.trim(headers + len).ok()?;
    frame.put(LONGER).ok()?;
    let end = work.answer(&mut frame.data_mut()[headers..], len)?;
    frame.trim(headers + end).ok()?;
    answer.write(frame.data_mut()).ok()
}
