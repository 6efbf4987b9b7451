//! The answers of the figures to the source's thread.

use netmem::limits::CHUNK_SIZE;

use super::groups::{ONE_HASHED, SHARED};
use super::plan::Plan;
use crate::bench::Bench;
use crate::json::{Published, Ratio};
use crate::method::ratio::BesideOne;
use crate::method::round::Label;

/// Returns the figure that the source, and its nearest descendant, printed for the same quantity.
pub(super) fn published(label: &Label) -> Option<Published> {
    let load = label.params.get("load").and_then(|load| load.as_str()).unwrap_or_default();
    let (value, of) = match (label.variant.as_str(), load) {
        ("netmem/handed", "light") => (
            4e6,
            "the source's Nehalem machine of two sockets, 60-byte packets; whether with its patch is not told",
        ),
        ("netmem/one", "heavy") => (
            718_135.0,
            "cpumap notes of 2019, [brouer19-cpumap], another work: UDP sink on the receiving CPU, i40e",
        ),
        ("netmem/handed", "heavy") => (
            2_311_585.0,
            "cpumap notes of 2019, [brouer19-cpumap], another work: UDP sink on another CPU, i40e",
        ),
        _ => return None,
    };
    Some(Published { value, unit: "pps".to_owned(), of: of.to_owned() })
}

/// Returns the direction in which a ratio decides.
fn says(ratio: &Ratio) -> &'static str {
    match ratio.beside_one() {
        BesideOne::TooFew => "has too few set-ups or rounds to tell",
        BesideOne::Above => "gains",
        BesideOne::Below => "loses",
        BesideOne::Around => "is neither better nor worse, as far as this run can tell,",
    }
}

/// Answers for one load.
pub(super) fn answer(bench: &mut Bench<'_>, load: &str) {
    for (variant, what) in [("netmem/handed", "all packets"), (SHARED, "half the flows")] {
        let over = |one| bench.reported_ratio_with(("load", load), variant, one).map(sentence);
        let (Some(one), Some(two)) = (over("netmem/one"), over("netmem/queues")) else { continue };
        let hashed = over(ONE_HASHED).map_or_else(String::new, |hashed| {
            format!(
                ". Its first worker reads each packet's header and hashes it, which neither that one nor the two do: \
                 against one worker that hashes each packet too, it {hashed}"
            )
        });
        bench.note(format!(
            "{load} work, {what} handed to a second worker: at equal core counts it {two} against two queues on two cores; \
             with one core more it {one} against one worker that does it all{hashed}",
        ));
    }
}

fn sentence(ratio: &Ratio) -> String {
    let Ratio { median, low, high, .. } = ratio;
    format!("{} ({median} times the rate, {low} to {high})", says(ratio))
}

/// Notes the interpretation of the rows.
pub(super) fn notes(bench: &mut Bench<'_>, most: &Plan) {
    let cache = last_level_cache();
    let reached = match cache {
        Some(bytes) if bytes > (most.ring * CHUNK_SIZE) as u64 => {
            "neither the frames nor the lines that are read reach past it"
        }
        Some(bytes) if bytes > most.touched() as u64 => {
            "the frames reach past it, the lines that are read do not"
        }
        Some(_) => "the frames and the lines that are read reach past it",
        None => "whether the sweep reaches past it is not known",
    };
    let cache = cache.map_or("of unknown size".to_owned(), |bytes| format!("of {} MiB", bytes >> 20));
    bench.note(format!(
        "up to {} MiB of frames of one port are used in turn (frames_bytes), of which {} MiB are read (touched), and a \
         last-level cache {cache}, which other virtual machines may use too: {reached}. It counts the frames posted \
         by all workers together: each of two queues has half of them",
        (most.ring * CHUNK_SIZE) >> 20,
        most.touched() >> 20
    ));
    bench.note(
        "the source claims more than 40 % with hand-off, on eight cores with cards of several queues, as another way beside \
         careful binding of queues and interrupts. So neither one worker beside an idle core nor two workers with \
         equal queues is its baseline. It gives \
         4 Mpps of 60-byte packets for its Nehalem machine and 1.2 for Bensley, but not whether with hand-off. Here \
         packets have 512 bytes, and 64 in routed-64-bytes-... routed-skewed-queues-... has queues on both cores, of \
         which the first gets a fourth or a tenth of the packets, as with queues that are not bound carefully. Its \
         \"8 times\" the last-level cache is 15 by its own figures",
    );
    bench.note(
        "the loop has no generator: its packets come in as descriptors of bytes that were written before, and go out \
         unread. A packet's number is the length of its padding, so its order is checked without access to it. A \
         router changes a packet, so with the forwarder (routed-..., packets-...) the worker that receives writes the \
         headers' line of each packet, and the worker that sends compares it. That store is the first access to a \
         frame, in one core and in hand-off alike, and a card's DMA takes no core for it. In hand-off it runs beside \
         the routing on the other core, which is a part of the gain of these variants that a card would not give: rows \
         of percent tell what share of its time the receiving worker takes in place of a card. The \
         effect of a card's DMA on caches is not included. The network waits if an inbox is full, so no packet is \
         dropped",
    );
    bench.note(
        "light work swaps the MAC addresses. If packets are read it also sums their 512 bytes, once, and in heavy \
         work as often as the key sums says. One worker leaves the other core idle. With two queues, windows in \
         which one core was paused are dropped. The number of packets that round-robin reorders is approximate: two \
         workers record one flow at the same time",
    );
}

/// Returns the bytes of the last-level cache, as the kernel reports them.
fn last_level_cache() -> Option<u64> {
    let size =
        |level| std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).ok();
    let text = (0..5).rev().find_map(size)?;
    text.trim().strip_suffix('K')?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{ratio, report_of};
    use crate::json::params;

    /// Returns the answers for `load` of ratios at light work.
    fn answered(load: &str, too_few: bool) -> Vec<String> {
        let report = report_of(false, |bench| {
            for one in ["netmem/one", "netmem/queues"] {
                let params = params([("load", "light".into())]);
                bench.report_ratio(Ratio { params, ..ratio("netmem/handed", one, (1.1, 1.2), too_few) });
            }
            answer(bench, load);
        });
        report.notes.into_iter().filter(|note| note.contains("handed to a second worker")).collect()
    }

    /// Seen: if no window of heavy work counted, the ratios of light work were the answer for it.
    #[test]
    fn the_answer_for_a_load_is_that_of_its_own_ratios() {
        assert!(answered("light", false)[0].contains("it gains (1.15 times"));
        assert_eq!(answered("heavy", false), [""; 0]);
    }

    #[test]
    fn ratios_of_too_few_set_ups_answer_nothing() {
        let answers = answered("light", true);
        assert!(answers[0].contains("it has too few set-ups or rounds to tell (1.15 times"), "{answers:?}");
    }
}
