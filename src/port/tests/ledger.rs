//! Mistakes in the counts of posted or queued frames: each makes the ledger wrong.

use crate::pool::tests::planted::{Kept, Scene, Site, all_are_seen};
use crate::pool::{Batch, Frame, FrameState};
use crate::port::copying::{CopyingPort, Device, RxBuffers};
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::port::posted::{Posted, PostedQueue};
use crate::port::{Port, PortCounters, PortState};
use crate::stats::Writer;
use crate::steer::{Inbox, Mesh, MeshConfig, Outbox, Source};

/// Receives as many packets as requested, and sends all.
struct Endless;

impl Device for Endless {
    fn kind(&self) -> &'static str {
        "endless"
    }

    fn receive(&mut self, rooms: &mut RxBuffers<'_>, _counters: &Writer<PortCounters>) -> usize {
        rooms.iter_mut().for_each(|mut room| room.put(60).unwrap().fill(1));
        rooms.len()
    }

    fn send(&mut self, frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        frames.len()
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}

/// The action of a site; its result is then kept.
type Step = Box<dyn FnOnce(&mut Scene) -> Kept>;

fn mem() -> (MemPort, MemDevice) {
    MemPort::pair("0", &MemConfig::default()).unwrap()
}

fn copying() -> CopyingPort<Endless> {
    CopyingPort::new("endless:0".into(), Endless, 64)
}

/// Empties the frames, as they are before they are filled.
fn empty(mut frames: Batch) -> Batch {
    frames.iter_mut().for_each(|frame| frame.trim(0).unwrap());
    frames
}

/// Returns a port that is filled with frames.
fn filled<P: Port>(scene: &mut Scene, mut port: P, frames: Batch) -> P {
    let mut frames = empty(frames);
    port.fill(&mut scene.workers[0], &mut frames);
    assert!(frames.is_empty());
    port
}

/// Returns a port that has frames to send.
fn sending<P: Port>(scene: &mut Scene, mut port: P, mut frames: Batch) -> P {
    port.tx(&mut scene.workers[0], &mut frames);
    assert!(frames.is_empty());
    port
}

fn fill<P: Port + 'static>(port: P, behind: impl std::any::Any, frames: Batch) -> Step {
    Box::new(move |scene| Box::new((filled(scene, port, frames), behind)))
}

fn tx<P: Port + 'static>(port: P, behind: impl std::any::Any, frames: Batch) -> Step {
    Box::new(move |scene| Box::new((sending(scene, port, frames), behind)))
}

fn rx<P: Port + 'static>(mut port: P, behind: impl std::any::Any) -> Step {
    Box::new(move |scene| {
        let mut frames = Batch::new();
        assert!(port.rx(&mut scene.workers[0], &mut frames) > 0);
        Box::new((port, behind, frames))
    })
}

fn complete<P: Port + 'static>(mut port: P, behind: impl std::any::Any) -> Step {
    Box::new(move |scene| {
        let mut frames = Batch::new();
        assert!(port.complete(&mut scene.workers[0], &mut frames) > 0);
        Box::new((port, behind, frames))
    })
}

fn dropped(what: impl std::any::Any) -> Step {
    Box::new(move |_| {
        drop(what);
        Box::new(())
    })
}

const fn posted(name: &'static str, prepare: fn(&mut Scene, Batch) -> Step) -> Site {
    Site { name, place: FrameState::Posted, prepare }
}

const fn queued(name: &'static str, prepare: fn(&mut Scene, Batch) -> Step) -> Site {
    Site { name, place: FrameState::Queued, prepare }
}

#[test]
fn a_frame_miscounted_by_a_mem_port_at_any_of_its_queues_is_seen() {
    let sites = [
        posted("mem fill", |_, frames| {
            let (port, device) = mem();
            fill(port, device, frames)
        }),
        posted("mem rx", |scene, frames| {
            let (port, mut device) = mem();
            let port = filled(scene, port, frames);
            assert!(device.deliver(64, |_| 60) > 0);
            rx(port, device)
        }),
        posted("mem tx", |_, frames| {
            let (port, device) = mem();
            tx(port, device, frames)
        }),
        posted("mem complete", |scene, frames| {
            let (port, mut device) = mem();
            let port = sending(scene, port, frames);
            assert!(device.collect(64, |_| ()) > 0 && device.collect(64, |_| ()) == 0);
            complete(port, device)
        }),
        posted("mem dropped", |scene, frames| {
            let (port, device) = mem();
            dropped((filled(scene, port, frames), device))
        }),
    ];
    assert!(all_are_seen(&sites) >= 200);
}

/// Returns frames that a port written elsewhere has posted by `Batch::post`.
fn by_hand(scene: &Scene, mut frames: Batch) -> Vec<Posted> {
    let n = frames.len();
    let posted: Vec<_> = frames.post(&scene.workers[0], n).collect();
    assert!(frames.is_empty() && posted.len() == n);
    posted
}

#[test]
fn a_frame_miscounted_by_post_or_claim_of_a_port_of_ones_own_is_seen() {
    let sites = [
        posted("post", |_, frames| Box::new(move |scene| Box::new(by_hand(scene, frames)))),
        posted("claim", |scene, frames| {
            let ring = by_hand(scene, frames);
            Box::new(move |scene| {
                let mut frames = Batch::new();
                assert!(frames.claim(&scene.workers[0], ring) > 0);
                Box::new(frames)
            })
        }),
        posted("posted, dropped", |scene, frames| dropped(by_hand(scene, frames))),
    ];
    assert!(all_are_seen(&sites) >= 100);
}

#[test]
fn a_frame_miscounted_by_a_copying_port_at_any_of_its_queues_is_seen() {
    let sites = [
        posted("copying fill", |_, frames| fill(copying(), (), frames)),
        posted("copying rx", |scene, frames| rx(filled(scene, copying(), frames), ())),
        posted("copying tx", |_, frames| tx(copying(), (), frames)),
        posted("copying complete", |scene, frames| complete(sending(scene, copying(), frames), ())),
        posted("copying dropped", |scene, frames| dropped(filled(scene, copying(), frames))),
    ];
    assert!(all_are_seen(&sites) >= 200);
}

/// Returns frames in a queue, as memif keeps the frames that it lends.
fn in_queue(scene: &Scene, mut frames: Batch) -> PostedQueue {
    let (mut queue, n) = (PostedQueue::new(64), frames.len());
    queue.post(&scene.workers[0], &mut frames, n);
    queue
}

#[test]
fn a_frame_miscounted_by_a_queue_of_lent_frames_is_seen() {
    let sites = [
        posted("lent post", |_, frames| Box::new(|scene| Box::new(in_queue(scene, frames)))),
        posted("lent claim", |scene, frames| {
            let mut queue = in_queue(scene, frames);
            Box::new(move |scene| {
                let mut frames = Batch::new();
                queue.claim(&scene.workers[0], &mut frames, 64);
                Box::new((queue, frames))
            })
        }),
        posted("lent split off", |scene, frames| {
            let mut queue = in_queue(scene, frames);
            Box::new(move |_| {
                drop(queue.split_off(0));
                Box::new(queue)
            })
        }),
        posted("lent dropped", |scene, frames| dropped(in_queue(scene, frames))),
    ];
    assert!(all_are_seen(&sites) >= 200);
}

/// Returns the two ends of a lane with frames listed for its reader.
fn listed(scene: &mut Scene, mut frames: Batch) -> (Outbox, Inbox) {
    let config = MeshConfig { workers: 2, policy: "map=rx0:1".parse().unwrap(), ..Default::default() };
    let (_, mut ends) = Mesh::new(&config).unwrap();
    let inbox = ends.pop().unwrap().1;
    let mut outbox = ends.pop().unwrap().0;
    outbox.steer_or_drop(&mut scene.workers[0], Source { port: 0, queue: 0 }, &mut frames);
    assert!(frames.is_empty());
    (outbox, inbox)
}

#[test]
fn a_frame_miscounted_by_a_lane_between_workers_is_seen() {
    let sites = [
        queued("lane sent", |scene, frames| {
            let (mut outbox, inbox) = listed(scene, frames);
            Box::new(move |scene| {
                outbox.flush(&mut scene.workers[0]);
                Box::new((outbox, inbox))
            })
        }),
        queued("lane taken", |scene, frames| {
            let (mut outbox, mut inbox) = listed(scene, frames);
            outbox.flush(&mut scene.workers[0]);
            Box::new(move |scene| {
                let mut frames = Batch::new();
                assert!(inbox.take(&mut scene.workers[1], &mut frames).is_some());
                Box::new((outbox, inbox, frames))
            })
        }),
        queued("lane dropped", |scene, frames| {
            let (mut outbox, inbox) = listed(scene, frames);
            outbox.flush(&mut scene.workers[0]);
            dropped((outbox, inbox))
        }),
    ];
    assert!(all_are_seen(&sites) >= 200);
}
