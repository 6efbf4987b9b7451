//! Mistakes in the code that passes frames to the kernel and takes them back.

use super::*;
use crate::pool::tests::planted::{Scene, Site, all_are_seen};

/// Ends of the FILL and TX rings, and the frames that the kernel holds of each.
struct Rings {
    fill: FillQueue,
    tx: TxQueue,
    held: Held,
}

impl Drop for Rings {
    /// The same steps as when a port is taken down.
    fn drop(&mut self) {
        close::free_all(std::iter::from_fn(|| self.held.claim_any()));
    }
}

/// Returns a region's rings, into which nothing has been posted.
fn rings(scene: &Scene) -> Rings {
    let held = Held::new(scene.memory.region(), CHUNK_SIZE);
    Rings { fill: FillQueue::new(Ring::plain(64)), tx: TxQueue::new(Ring::plain(64)), held }
}

#[test]
fn a_frame_miscounted_on_its_way_to_the_kernel_or_back_is_seen() {
    let site = |name, prepare| Site { name, place: FrameState::Posted, prepare };
    let sites = [
        site("xdp fill", |scene, mut frames| {
            let mut rings = rings(scene);
            Box::new(move |scene| {
                rings.fill.burst(&scene.workers[0], &mut rings.held, &mut frames).unwrap();
                Box::new(rings)
            })
        }),
        site("xdp tx", |scene, mut frames| {
            let mut rings = rings(scene);
            Box::new(move |scene| {
                rings.tx.burst(&scene.workers[0], &mut rings.held, &mut frames).unwrap();
                Box::new(rings)
            })
        }),
        site("xdp taken back", |scene, mut frames| {
            let mut rings = rings(scene);
            rings.fill.burst(&scene.workers[0], &mut rings.held, &mut frames).unwrap();
            Box::new(move |scene| {
                let count = rings.held.count();
                while let Some(frame) = rings.held.claim_any() {
                    frames.push(frame).unwrap();
                }
                rings.held.taken_back(count, &scene.workers[1], &mut frames, 0);
                Box::new(frames)
            })
        }),
        site("xdp closed", |scene, mut frames| {
            let mut rings = rings(scene);
            rings.fill.burst(&scene.workers[0], &mut rings.held, &mut frames).unwrap();
            Box::new(move |_| {
                drop(rings);
                Box::new(())
            })
        }),
    ];
    assert!(all_are_seen(&sites) >= 200);
}
