//! The example of a pipeline, with fewer frames.

// Its `main` is the program's.
#[allow(dead_code)]
#[path = "../examples/pipeline.rs"]
mod pipeline;

use pipeline::Passed;

/// Seen: with the usual settings 75.7 % of the frames were lost between the two workers, to a flow limit.
#[test]
fn a_pipeline_of_two_workers_with_the_usual_settings_loses_no_frame() {
    const FRAMES: u64 = 100_000;
    let passed = pipeline::run(FRAMES).expect("a pipeline");
    assert_eq!(passed, Passed { handed_over: FRAMES, in_order: FRAMES, dropped: 0 });
}
