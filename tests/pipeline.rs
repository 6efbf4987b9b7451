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

/// Seen: the first worker offered its frames without end, and nothing reported the panic of the second.
#[test]
fn a_pipeline_ends_when_its_reader_panics() {
    let passed = pipeline::run_with(100_000, |_, _, _| panic!("the panic of this test")).expect("a pipeline");
    assert!(passed.handed_over < 100_000, "{passed:?}");
    assert_eq!(passed.in_order, 0);
}
