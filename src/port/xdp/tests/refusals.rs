//! Pools and workers that a port cannot be opened with.

use super::{Bench, bench};
use crate::pool::{Pool, PoolConfig};
use crate::port::xdp::{Umem, XdpConfig, XdpError, XdpPort, XdpQueues};
use crate::sync::Worker;

/// Seen: each of these ports was up, and received nothing for ever. A worker of another memory did not panic, as the
/// documentation said.
#[test]
fn a_pool_that_the_port_could_not_receive_into_is_refused_and_so_is_a_worker_of_another_memory() {
    let (mut here, mut elsewhere) = (bench(8), bench(8));
    let (umem, large) = (Umem::new(&here.memory), Umem::with_chunks(&here.memory, 4096).unwrap());
    let name = || here.pool.name().to_owned();
    let (wrong, small) = (
        XdpError::WrongMemory { pool: elsewhere.pool.name().to_owned() },
        XdpError::SmallFrames { pool: name(), frame_size: 2048, chunk_size: 4096 },
    );
    let config = XdpConfig::default();
    let refuses = |umem, w: &mut Worker, pool, refused: XdpError| {
        let opened = XdpPort::open(umem, w, pool, "nosuch0", 0, &config).map(drop);
        assert_eq!(opened, Err(refused.clone()));
        let opened = XdpQueues::open(umem, w, pool, "nosuch0", &[0, 1], &config).map(drop);
        assert_eq!(opened, Err(refused.clone()));
        let line = refused.to_string();
        assert!(line.starts_with("open an xdp port with pool") && !line.contains("  "), "{line}");
    };
    refuses(&umem, &mut elsewhere.w, &elsewhere.pool, wrong);
    refuses(&large, &mut here.w, &here.pool, small);
    refuses(&umem, &mut elsewhere.w, &here.pool, XdpError::WrongWorker { pool: name() });
    let Bench { memory, mut w, .. } = here;
    let config = PoolConfig { frames: 8, ..PoolConfig::of_frames(8192) };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let opened = XdpPort::open(&large, &mut w, &pool, "nosuch0", 0, &XdpConfig::default()).map(drop);
    assert_eq!(opened, Err(XdpError::UnknownInterface { interface: "nosuch0".into() }), "larger frames fit");
}
