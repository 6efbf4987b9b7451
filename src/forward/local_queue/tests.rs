//! Mistakes in the counts of frames in a local queue: each makes the ledger wrong.

use crate::forward::local_queue::{
    LocalQueue, LocalQueueCounters, Reader, Retention, RetentionLimit, local_queue,
};
use crate::pool::tests::planted::{Scene, Site, all_are_seen};
use crate::pool::{Batch, FrameState};
use std::sync::Arc;
use std::time::Duration;

/// Returns the two ends of a local queue that has these frames.
fn holding(scene: &mut Scene, mut frames: Batch) -> (LocalQueue, Reader) {
    let (mut local_queue, reader) = local_queue(64);
    local_queue.put(&mut scene.workers[0], &mut frames);
    assert!(frames.is_empty());
    (local_queue, reader)
}

#[test]
fn a_frame_miscounted_by_a_holder_its_reader_or_its_keeper_is_seen() {
    let place = FrameState::Queued;
    let sites = [
        Site {
            name: "local_queue put",
            place,
            prepare: |_, frames| Box::new(|scene| Box::new(holding(scene, frames))),
        },
        Site {
            name: "reader read",
            place,
            prepare: |scene, frames| {
                let (local_queue, mut reader) = holding(scene, frames);
                Box::new(move |scene| {
                    let mut frames = Batch::new();
                    assert!(reader.read(&mut scene.workers[1], &mut frames) > 0);
                    Box::new((local_queue, reader, frames))
                })
            },
        },
        Site {
            name: "retention freed",
            place,
            prepare: |scene, frames| {
                let (local_queue, reader) = holding(scene, frames);
                let mut retention =
                    Retention::new(reader, Arc::new(RetentionLimit::new(0, Duration::from_secs(3600))));
                Box::new(move |scene| {
                    assert!(retention.turn(&mut scene.workers[1]) > 0);
                    Box::new((local_queue, retention))
                })
            },
        },
        Site {
            name: "reader dropped",
            place,
            prepare: |scene, frames| {
                let (local_queue, reader) = holding(scene, frames);
                Box::new(move |_| {
                    drop(reader);
                    Box::new(local_queue)
                })
            },
        },
    ];
    assert!(all_are_seen(&sites) >= 200);
}

/// Seen: the number of held frames wrapped, because a reader had counted frames that the forwarder had not.
#[test]
fn nothing_is_held_while_more_frames_are_counted_as_given_than_as_taken() {
    let counters = LocalQueueCounters::default();
    counters.taken.add(3);
    counters.given.add(5);
    assert_eq!(counters.held(), 0);
    counters.taken.add(4);
    assert_eq!(counters.held(), 2);
}
