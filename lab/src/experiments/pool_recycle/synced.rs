//! The gain of synchronizing only the touched part of a frame with a device that does not see the processor's
//! caches: bursts of frames through a pool whose device takes a fixed time for each line.

use netmem::limits::PAGE_SIZE;
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::sync::Worker;

use super::iommu::Iommu;
use super::{CACHE, Scene};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::check_all_freed;
use crate::experiments::pages::LINE;
use crate::json::params;
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// Frames of a burst.
const BURST: usize = 32;
/// Nanoseconds for a line: nothing if the device sees the caches, and about the time of a write-back to memory.
const LINE_NS: [u32; 2] = [0, 10];

/// Bytes of each frame that are synchronized, and the name of the row.
const TOUCHED: [(&str, usize); 2] = [("netmem/sync-touched", LINE), ("netmem/sync-whole", PAGE_SIZE / 2)];

/// Bursts that are allocated, written, handed to the device, taken back and freed.
struct Bursts<'a> {
    pool: Pool,
    scene: &'a Scene<'a>,
    bytes: usize,
    short: u64,
}

impl Bursts<'_> {
    fn turn(&mut self, w: &mut Worker, batch: &mut Batch) {
        let taken = self.pool.alloc_burst(w, batch, BURST);
        // Both variants write one line of the data.
        let put = batch.put_each(self.bytes, |_, data| data[..LINE].fill(7));
        self.short += (2 * BURST - taken - put) as u64;
        batch.sync_for_device(w, BURST);
        batch.sync_for_cpu(w, 0);
        batch.free(w);
    }

    fn run(&mut self, ops: u32) {
        let w = &mut self.scene.worker.borrow_mut();
        let mut batch = Batch::new();
        for _ in 0..ops / BURST as u32 {
            self.turn(w, &mut batch);
        }
    }
}

/// Measures both variants with each cost of a line.
pub(super) fn measure(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    for line_ns in LINE_NS {
        let mut all = Vec::new();
        for (_, bytes) in TOUCHED {
            let dma = Iommu::map(*scene.clock, 0, line_ns);
            let config = PoolConfig {
                name: "synced".to_owned(),
                frames: 4 * CACHE,
                cache: CACHE,
                dma,
                ..PoolConfig::of_frames(PAGE_SIZE)
            };
            let pool = Pool::new(scene.memory, &mut scene.worker.borrow_mut(), &config);
            all.push(Bursts { pool: pool.map_err(SetUpError::at("pool"))?, scene, bytes, short: 0 });
        }
        let variant = |(bursts, (name, _)): (_, &(&str, usize))| -> Box<dyn Variant + '_> {
            let bursts: &mut Bursts<'_> = bursts;
            let loops = OpLoop::of(
                BURST as u32,
                label(name, bursts.bytes, line_ns),
                scene.clock,
                Box::new(|ops| bursts.run(ops)),
            );
            Box::new(loops)
        };
        let mut variants: Vec<_> = all.iter_mut().zip(&TOUCHED).map(variant).collect();
        let comparison = Comparison { a: 0, b: 1, metric: Metric::NsPerOp };
        let series = bench.measure_with(&mut variants, &[comparison], Cores::Same, scene.effort);
        drop(variants);
        series.iter().for_each(|one| bench.row(one, Metric::NsPerOp, None));
        for (bursts, (name, bytes)) in all.iter().zip(TOUCHED) {
            let what = format!("{name}, {line_ns} ns a line");
            let (short, over) = (bursts.short, bursts.pool.synced_bytes());
            bench.check_done(
                &format!("{what}: every frame came, and its {bytes} bytes went over each way"),
                over > 0,
                short == 0 && over.is_multiple_of((2 * BURST * bytes) as u64),
                format!("{short} frames missing, {over} bytes"),
            );
            check_all_freed(bench, &what, &bursts.pool);
        }
    }
    bench.note(
        "/sync-touched, /sync-whole: bursts of 32 frames of 4 KiB. One line of each is written. That line or half \
         of the frame is handed to the device and taken back, as a model: it takes the core this number of \
         nanoseconds for each line, 0 for a device that sees the caches",
    );
    Ok(())
}

fn label(variant: &str, bytes: usize, line_ns: u32) -> Label {
    let params = params([
        ("work", "frame".into()),
        ("burst", BURST.into()),
        ("cores", "same".into()),
        ("bytes", PAGE_SIZE.into()),
        ("touch", true.into()),
        ("synced", bytes.into()),
        ("line_ns", line_ns.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}
