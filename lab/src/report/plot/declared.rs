//! The plots of each experiment, in the order in which they are shown.

use super::figures::{Figure, curves, dots, packets};

const BURST: (&str, &str) = ("burst", "in one bulk");
const ORDER: (&str, &str) = ("order", "order: 2^order pages in a block");
const OUT: (&str, &str) = ("outstanding", "pages out at the same time");
const BYTES: (&str, &str) = ("bytes", "bytes of an object");
const HELD: (&str, &str) = ("held", "frames held elsewhere");
const KEPT: (&str, &str) = ("kept_percent", "percent of the pages that are kept for long");

const CYCLES: &str = "cycles_per_op";
const NS: &str = "ns_per_op";

pub(super) const FIGURES: &[Figure] = &[
    dots("page-fast-path", "One page taken and given back", CYCLES),
    Figure { only: &[("per", "block")], ..curves("page-order", "Cost of a block by its order", NS, ORDER) },
    Figure {
        only: &[("per", "4 KiB")],
        ..curves("page-order", "The same for each 4 KiB of the block", NS, ORDER)
    },
    curves("page-order", "Bytes pinned by one fragment of 64 bytes", "bytes", ORDER),
    Figure {
        by: &["lists"],
        variants: &["netmem"],
        ..curves(
            "page-outstanding",
            "Cost of a page by how many are out: the sizes of a worker's list",
            CYCLES,
            OUT,
        )
    },
    Figure {
        only: &[("lists", "brouer-2017")],
        ..curves("page-outstanding", "Statistics on and off, lists as the source saw them", CYCLES, OUT)
    },
    Figure {
        by: &["lists"],
        log: false,
        ..curves("page-outstanding", "Visits to the node for each page", "count", OUT)
    },
    Figure {
        only: &[("touch", "false")],
        ..curves("page-bulk", "A page of a bulk, untouched", CYCLES, BURST)
    },
    Figure {
        only: &[("touch", "true")],
        ..curves("page-bulk", "A page of a bulk, 64 bytes written", CYCLES, BURST)
    },
    Figure {
        only: &[("touch", "false"), ("cores", "cross"), ("policy", "never waits")],
        ..dots("page-cross-worker", "Each core's own cost, untouched, while it never waits", CYCLES)
    },
    Figure {
        only: &[("touch", "false"), ("side", "both")],
        ..dots("page-cross-worker", "The pace of the pair, untouched, waiting included", CYCLES)
    },
    Figure {
        only: &[("cores", "same")],
        ..dots(
            "page-cross-worker",
            "Cross CPU, or outstanding pages? Workers alone and beside each other",
            CYCLES,
        )
    },
    Figure {
        variants: &["netmem/loop", "netmem/detached"],
        only: &[("layer", "cpu_slab"), ("order", "in turn")],
        without: &["op", "merge"],
        ..curves("slab-bulk", "The source's layer: one by one, and by detached freelists", CYCLES, BURST)
    },
    Figure {
        only: &[("layer", "sheaf"), ("order", "in turn")],
        without: &["op", "merge"],
        ..curves("slab-bulk", "Today's layer, sheaves: one by one, and in bulk", CYCLES, BURST)
    },
    Figure {
        only: &[("op", "free")],
        by: &["order"],
        variants: &["netmem/detached", "netmem"],
        ..curves("slab-bulk", "The free alone: best order and worst", CYCLES, BURST)
    },
    Figure {
        variants: &["netmem/loop", "netmem/detached", "netmem/merged-loop", "netmem/merged-detached"],
        only: &[("layer", "cpu_slab")],
        without: &["op"],
        ..curves("slab-bulk", "Merged with a busy cache, and not", CYCLES, BURST)
    },
    Figure {
        only: &[("order", "in turn")],
        without: &["layer", "op"],
        ..dots("slab-bulk", "Beside general allocators", NS)
    },
    Figure {
        variants: &[
            "netmem/56-cas128",
            "netmem/64-cas128",
            "netmem/64-lock-interrupts",
            "netmem/64-lock-interrupts-cold",
            "netmem/compact-cas64",
        ],
        only: &[("use", "cold+write")],
        without: &["threads", "noise", "event"],
        ..curves("slab-descriptor", "Cold objects, written: descriptors and their words by size", NS, BYTES)
    },
    Figure {
        variants: &[
            "netmem/56-cas128",
            "netmem/64-cas128",
            "netmem/64-lock-interrupts",
            "netmem/compact-cas64",
        ],
        only: &[("use", "warm")],
        without: &["event"],
        ..curves("slab-descriptor", "Warm objects: the word is not reached", NS, BYTES)
    },
    packets("slab-descriptor", "Forwarding with a head for each packet"),
    Figure {
        only: &[("event", "last-level loads")],
        ..dots(
            "slab-descriptor",
            "Loads past a simulated first level of 256 KiB, 16.8 million objects of 32 bytes",
            "count",
        )
    },
    Figure {
        only: &[("event", "last-level misses")],
        ..dots("slab-descriptor", "Of these, misses of a simulated last level of 8 MiB", "count")
    },
    Figure {
        only: &[("event", "free_slowpath"), ("bytes", "256")],
        ..dots("slab-descriptor", "Frees that reach a slab's word, by SLUB's counters, 256 bytes", "percent")
    },
    Figure {
        only: &[("event", "instructions")],
        ..dots("slab-descriptor", "Instructions of the same", "count")
    },
    Figure {
        only: &[("map_ns", "0")],
        without: &["kept_percent"],
        ..curves("pool-recycle", "Mapping costs nothing, as with a UMEM", CYCLES, HELD)
    },
    Figure {
        only: &[("map_ns", "100")],
        without: &["kept_percent"],
        ..curves("pool-recycle", "Each map and unmap costs 100 ns", CYCLES, HELD)
    },
    Figure {
        only: &[("map_ns", "500")],
        without: &["kept_percent"],
        ..curves("pool-recycle", "Each map and unmap costs 500 ns", CYCLES, HELD)
    },
    Figure {
        only: &[("map_ns", "100")],
        without: &["held"],
        ..curves("pool-recycle", "The same, if a share of the pages is kept for long", NS, KEPT)
    },
    Figure {
        only: &[("touch", "true")],
        without: &["held", "kept_percent", "of"],
        ..dots(
            "pool-recycle",
            "One of so many frames in use goes back and one comes out, 64 bytes written",
            NS,
        )
    },
    Figure {
        only: &[("touch", "false")],
        without: &["held", "kept_percent", "of"],
        ..dots("pool-recycle", "The same, untouched", NS)
    },
    packets("xdp-verdicts", "Time for a packet by verdict; the source's rates as times"),
    packets("cluster-pool", "Time for a packet; the source's rates of 2002 as times"),
    packets("forward-bulk-free", "Time for a packet; the source's rates as times"),
    Figure {
        without: &["load"],
        ..dots(
            "forward-bulk-free",
            "From receipt to completion, with a generator that is always ahead",
            "latency_ns",
        )
    },
    Figure {
        only: &[("load", "half")],
        ..dots(
            "forward-bulk-free",
            "From when a packet is due to when it is out, at half of what base forwards",
            "latency_ns",
        )
    },
    Figure {
        only: &[("what", "instructions, per packet")],
        ..dots("forward-bulk-free", "Instructions for a packet, by callgrind", "count")
    },
    packets("forward-memif", "Time for a packet from memif to memif, on the device's core"),
    packets("forward-xdp", "Time for a packet from veth to veth, over all cores"),
    Figure {
        only: &[("work", "tcp")],
        ..dots("forward-offload", "Time for a KiB of a TCP stream, over all cores", NS)
    },
    Figure {
        only: &[("work", "tcp-rate")],
        ..dots("forward-offload", "Time that passes for a KiB of eight TCP streams together", NS)
    },
    dots("endpoint", "Time for a UDP request and its answer, over all cores", NS),
    Figure { only: &[("work", "object")], ..dots("hardening", "An object of a hardened memory", NS) },
    Figure {
        only: &[("work", "slab")],
        ..dots("hardening", "The same, with a slab that comes and goes", NS)
    },
    Figure { only: &[("work", "frame")], ..dots("hardening", "A frame in a burst of 32", NS) },
    Figure { only: &[("work", "page")], ..dots("hardening", "A page", NS) },
    Figure { only: &[("load", "light")], ..packets("handoff", "Time for a packet, light work") },
    Figure { only: &[("load", "heavy")], ..packets("handoff", "Time for a packet, heavy work") },
    Figure {
        only: &[("load", "read")],
        ..packets("handoff", "Time for a packet that is read, by slots of the ring whose frames come round")
    },
    Figure {
        only: &[("load", "routed")],
        ..packets("handoff", "Time for a packet that the product's forwarder routes")
    },
    Figure { only: &[("load", "packets")], ..packets("handoff", "The same, with heads and filter rules") },
    Figure {
        only: &[("work", "ring")],
        budgets: false,
        ..packets("handoff", "What a hand-off itself costs")
    },
    Figure {
        only: &[("work", "frame"), ("touch", "false"), ("cores", "same")],
        ..curves("rivals", "Frames", NS, BURST)
    },
    Figure {
        only: &[("work", "frame"), ("touch", "true"), ("cores", "same")],
        ..curves("rivals", "Frames, 64 bytes of each written", NS, BURST)
    },
    Figure {
        only: &[("work", "packet"), ("cores", "same")],
        ..curves("rivals", "Packets, written", NS, BURST)
    },
    Figure {
        only: &[("work", "object"), ("touch", "true"), ("cores", "same")],
        ..curves("rivals", "Objects of 256 bytes, 64 of them written", NS, BURST)
    },
    Figure {
        only: &[("work", "object"), ("touch", "false"), ("cores", "same")],
        ..curves("rivals", "Objects of 256 bytes, untouched", NS, BURST)
    },
    Figure {
        only: &[("work", "page"), ("touch", "true"), ("cores", "same")],
        ..curves("rivals", "Pages, 64 bytes of each written", NS, BURST)
    },
    Figure {
        only: &[("work", "page"), ("touch", "false"), ("cores", "same")],
        ..curves("rivals", "Pages, untouched", NS, BURST)
    },
    Figure {
        only: &[("cores", "cross"), ("work", "packet")],
        ..dots("rivals", "Packets from core to core", NS)
    },
    Figure {
        only: &[("cores", "cross"), ("work", "ring")],
        ..dots("rivals", "Rings alone, from core to core", NS)
    },
    Figure {
        only: &[("cores", "cross"), ("work", "object")],
        ..dots("rivals", "Objects from core to core", NS)
    },
    Figure { only: &[("cores", "cross"), ("work", "page")], ..dots("rivals", "Pages from core to core", NS) },
];
