//! A UDP echo whose port many tasks share. `shared_echo eth0 192.0.2.1:7` answers each datagram in a task of its own, which
//! waits for a while as if for a database, and the kernel has all other packets of the interface. Needs root. Ctrl-C or
//! SIGTERM ends it: it sends the answers that are queued, and leaves nothing behind.

use netmem::port::xdp::{XdpConfig, XdpQueues};
use netmem::wire::Datagram;
use netmem::{DmaMap, Memory, MemoryConfig, Pool, PoolConfig, Umem};
use netmem_tokio::{AsyncPort, DriverControl, Incoming, Outgoing, close_pool};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

/// Frames in each of the two queues between the port's task and the others.
const DEPTH: usize = 256;
/// The time that an answer takes.
const WORK: Duration = Duration::from_millis(1);
/// Maximum time to wait for the device, and for the tasks that still have frames, at the end.
const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&words).await {
        eprintln!("shared_echo: {error}");
        std::process::exit(2);
    }
}

async fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [interface, address] = words else { return Err("usage: shared_echo INTERFACE ADDRESS:PORT".into()) };
    let address = address.parse().map_err(|_| format!("{address}: not ADDRESS:PORT"))?;
    let (port, pool) = open(interface, address)?;
    let (incoming, outgoing, driver) = port.share(DEPTH);
    let (control, mut driver) = (driver.control(), tokio::spawn(driver.run()));
    tokio::spawn(log(control.clone()));
    let mut end = signal(SignalKind::terminate())?;
    tokio::select! {
        () = serve(incoming, outgoing) => {} // the port is down for good
        _ = tokio::signal::ctrl_c() => {}
        _ = end.recv() => {}
    }
    control.finish();
    let Ok(port) = timeout(PATIENCE, &mut driver).await else {
        // The port closes, and what was queued is freed.
        driver.abort();
        driver.await.ok();
        return Err(format!("{interface} took no frame for {PATIENCE:?}: answers are lost").into());
    };
    let port = port?;
    let (reason, has_failed) = (port.port().state(), port.port().is_failed());
    let is_sent = port.close(PATIENCE).await;
    let is_free = timeout(PATIENCE, close_pool(&pool)).await.is_ok();
    println!("everything is sent: {is_sent}, all frames are free: {is_free}");
    if has_failed { Err(format!("{interface} is {reason}").into()) } else { Ok(()) }
}

fn open(interface: &str, address: SocketAddr) -> Result<(AsyncPort, Pool), Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig::default())?;
    let mut worker = memory.worker()?;
    let config = PoolConfig { frames: 16384, dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &config)?;
    let take = format!("udp:{}@{}", address.port(), address.ip()).parse()?;
    let config = XdpConfig { take: Some(take), ..XdpConfig::default() };
    // A card spreads flows over its queues.
    let queues = XdpQueues::all_of(interface)?;
    let port = XdpQueues::open(&Umem::new(&memory), &mut worker, &pool, interface, &queues, &config)?;
    Ok((AsyncPort::new(Box::new(port), worker, pool.clone())?, pool))
}

/// Answers each datagram in a task of its own. A task that panics or is aborted frees its frame.
async fn serve(mut incoming: Incoming, outgoing: Outgoing) {
    while let Some(mut frame) = incoming.receive().await {
        let outgoing = outgoing.clone();
        tokio::spawn(async move {
            sleep(WORK).await;
            let asked = Datagram::swap_endpoints(frame.data_mut());
            // One from the service's own port is not answered: two echo services would answer each other without end.
            if asked.is_ok_and(|asked| asked.src.port() != asked.dst.port()) {
                // A frame that is not queued, since the port is down or the server ends, is freed.
                outgoing.transmit(frame).await.ok();
            }
        });
    }
}

/// Prints each change of the port's state.
async fn log(control: DriverControl) {
    let mut state = control.state();
    while let Some(now) = control.changed(&state).await {
        println!("the port is {now}");
        state = now;
    }
}
