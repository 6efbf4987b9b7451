//! Mistakes in what is counted of frames that a holder has: the ledger is off, whichever it is.

use crate::forward::holder::{Holder, Keep, Keeper, Reader, holder};
use crate::pool::tests::planted::{Scene, Site, all_are_seen};
use crate::pool::{Batch, Place};
use std::sync::Arc;
use std::time::Duration;

/// The two ends of a holder that has these frames.
fn holding(scene: &mut Scene, mut frames: Batch) -> (Holder, Reader) {
    let (mut holder, reader) = holder(64);
    holder.put(&mut scene.workers[0], &mut frames);
    assert!(frames.is_empty());
    (holder, reader)
}

#[test]
fn a_frame_miscounted_by_a_holder_its_reader_or_its_keeper_is_seen() {
    let place = Place::Queued;
    let sites = [
        Site {
            name: "holder put",
            place,
            prepare: |_, frames| Box::new(|scene| Box::new(holding(scene, frames))),
        },
        Site {
            name: "reader read",
            place,
            prepare: |scene, frames| {
                let (holder, mut reader) = holding(scene, frames);
                Box::new(move |scene| {
                    let mut frames = Batch::new();
                    assert!(reader.read(&mut scene.workers[1], &mut frames) > 0);
                    Box::new((holder, reader, frames))
                })
            },
        },
        Site {
            name: "keeper freed",
            place,
            prepare: |scene, frames| {
                let (holder, reader) = holding(scene, frames);
                let mut keeper = Keeper::new(reader, Arc::new(Keep::new(0, Duration::from_secs(3600))));
                Box::new(move |scene| {
                    assert!(keeper.turn(&mut scene.workers[1]) > 0);
                    Box::new((holder, keeper))
                })
            },
        },
        Site {
            name: "reader dropped",
            place,
            prepare: |scene, frames| {
                let (holder, reader) = holding(scene, frames);
                Box::new(move |_| {
                    drop(reader);
                    Box::new(holder)
                })
            },
        },
    ];
    assert!(all_are_seen(&sites) >= 200);
}
