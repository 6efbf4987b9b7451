//! `netmem forward` without ports: what the JSON object says adds up, whatever is asked for.

mod netmem;

use netmem::{assert_adds_up, dropped, number, object, output, ports, stderr, stdout};

#[test]
fn by_default_it_is_a_router_between_two_mem_ports_and_every_packet_is_accounted_for() {
    let run = object(&output("forward --seconds 0.2 --json"));
    assert_adds_up(&run);
    assert_eq!((run["mode"].as_str(), run["ports"][0]["name"].as_str()), (Some("ip"), Some("mem:0")));
    assert!(run["backing"].as_str().is_some_and(|backing| backing.contains("pages")), "{run}");
}

#[test]
fn a_number_of_packets_is_sent_exactly_and_none_is_lost_on_links_that_pause() {
    for mode in ["ip", "cross-connect"] {
        let run = object(&output(&format!("forward --packets 20001 --json --mode {mode}")));
        assert_adds_up(&run);
        assert_eq!(
            (number(&run, "generator.sent"), number(&run, "sink.received")),
            (20_001, 20_001),
            "{run}"
        );
        assert_eq!((dropped(&run), number(&run, "sink.missing")), (0, 0), "{run}");
        assert_eq!(run["mode"], mode);
        assert!(run["pps"].as_f64() > Some(0.0) && run["ns_per_packet"].as_f64() > Some(0.0), "{run}");
    }
}

#[test]
fn a_single_packet_makes_the_whole_trip() {
    let run = object(&output("forward --packets 1 --json"));
    assert_adds_up(&run);
    assert_eq!((number(&run, "sink.received"), ports(&run, "rx_bytes")), (1, 64));
    assert!(run["pps"].is_null() && run["ns_per_packet"].is_null(), "no window was filled: {run}");
}

#[test]
fn a_burst_into_a_tiny_pool_is_dropped_by_count_and_the_forwarder_goes_on() {
    let run = object(&output("forward --packets 10000 --pause off --frames 64 --json"));
    assert_adds_up(&run);
    assert_eq!(number(&run, "generator.sent"), 10_000);
    assert!(number(&run, "sink.received") >= 32, "what found a frame of the port's half arrives: {run}");
    assert_eq!(
        ports(&run, "rx_no_frame") + ports(&run, "rx_ring_full") + number(&run, "received"),
        10_000,
        "{run}"
    );
}

#[test]
fn links_that_do_not_pause_lose_packets_only_by_count() {
    let run =
        object(&output("forward --packets 300000 --pause off --frames 128 --ring 32 --flows 100 --json"));
    assert_adds_up(&run);
    assert!(number(&run, "sink.received") >= 32, "what the first ring took arrives: {run}");
}

#[test]
fn sizes_flows_and_rings_at_their_ends_add_up() {
    for arguments in [
        "--size 64 --flows 65534",
        "--size 1514 --flows 7",
        "--size 1514 --flows 65534 --mode cross-connect",
        "--ring 2 --frames 64",
        "--ring 16384 --frames 64",
    ] {
        let run = object(&output(&format!("forward --packets 3000 --json {arguments}")));
        assert_adds_up(&run);
        assert_eq!(number(&run, "sink.received"), 3_000, "{arguments}: {run}");
    }
}

#[test]
fn without_json_a_summary_says_where_every_packet_and_frame_is() {
    let out = output("forward --packets 5000");
    let text = stdout(&out);
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""), "no live line without a terminal");
    for part in [
        "sent         5,000",
        "received     5,000",
        "sink         5,000",
        "ns per packet",
        "balanced",
        "MiB on ",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours");
}
