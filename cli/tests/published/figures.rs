//! The published figures, each with its settings, as the sources' texts print them and not as the lab has them.

/// A published figure.
pub struct Figure {
    pub experiment: &'static str,
    pub variant: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// The settings that the row must have had.
    pub settings: Vec<(&'static str, String)>,
    /// The text that its label must contain, and the text that it must not contain.
    pub says: &'static [&'static str],
    pub never: &'static [&'static str],
}

type Settings<'a> = &'a [(&'static str, &'a str)];

fn figure(
    experiment: &'static str,
    variant: &'static str,
    value: f64,
    unit: &'static str,
    settings: Settings<'_>,
) -> Figure {
    let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Figure { experiment, variant, value, unit, settings, says: &[], never: &[] }
}

/// Every figure that a row may bear, but those of slab-descriptor, whose run takes too long for a test.
pub fn all() -> Vec<Figure> {
    let parts = [pages(), recycling(), verdicts(), cells(), bulk_free(), handed(), objects()];
    parts.into_iter().flatten().collect()
}

/// [brouer17-pages], and the array of pages of [brouer21-arrays].
fn pages() -> Vec<Figure> {
    let mut all = Vec::new();
    let fast: [(_, _, Settings<'_>); 2] =
        [("netmem", 143.0, &[("stats", "on")]), ("netmem/stats-off", 97.0, &[("stats", "off")])];
    for (variant, cycles, settings) in fast {
        let of = figure("page-fast-path", variant, cycles, "cycles", settings);
        all.push(Figure { says: &["Linux 4.11-rc1"], ..of });
    }
    // The slide on pages that cross names no kernel.
    let crossing: [(_, _, Settings<'_>); 4] = [
        ("limit", 31.0, &[("cores", "cross"), ("work", "ring")]),
        ("netmem/shared", 210.0, &[("cores", "cross"), ("free", "at once")]),
        ("netmem/shared-delay-1", 152.0, &[("cores", "cross"), ("side", "B")]),
        ("netmem/one-worker", 145.0, &[("cores", "same"), ("outstanding", "0")]),
    ];
    for (variant, cycles, settings) in crossing {
        let of = figure("page-cross-worker", variant, cycles, "cycles", settings);
        all.push(Figure { never: &["4.11"], ..of });
    }
    let array = [
        ("1", 202.0),
        ("2", 144.0),
        ("3", 134.0),
        ("4", 128.0),
        ("8", 120.0),
        ("16", 116.0),
        ("32", 113.0),
        ("64", 110.0),
        ("128", 110.0),
    ];
    for (burst, cycles) in array {
        let of = figure("page-bulk", "netmem", cycles, "cycles", &[("burst", burst), ("touch", "false")]);
        all.push(Figure { says: &["Linux 5.13", "by array"], ..of });
    }
    let single = figure("page-bulk", "netmem/loop", 199.0, "cycles", &[("burst", "1"), ("touch", "false")]);
    all.push(Figure { says: &["Linux 5.13", "by one call"], ..single });
    all
}

/// page_pool's own benchmark, [brouer25-pool].
fn recycling() -> Vec<Figure> {
    let settings: Settings<'_> = &[("map_ns", "0"), ("held", "0"), ("touch", "false")];
    let of = |variant, cycles| figure("pool-recycle", variant, cycles, "cycles", settings);
    vec![of("netmem", 19.0), of("netmem/ring", 54.0), of("driver/unkept", 238.0)]
}

/// [brouer17-pages]: "approx kernel v4.9", mlx5 at 50 Gbit/s, no size of packets.
fn verdicts() -> Vec<Figure> {
    [("netmem/drop", 17e6, "drop"), ("netmem/tx", 10e6, "tx")]
        .map(|(variant, pps, verdict)| {
            let of = figure("xdp-verdicts", variant, pps, "pps", &[("verdict", verdict)]);
            Figure { says: &["about 4.9", "mlx5 at 50 Gbit/s"], never: &["64-byte"], ..of }
        })
        .into()
}

/// [rizzo02-mbuf], 2 July 2002.
fn cells() -> Vec<Figure> {
    [
        ("netmem/fast-lock-0-by-round", 276.0, "fast", "under a lock", "0"),
        ("netmem/fast-lock-50-by-round", 355.0, "fast", "under a lock", "50"),
        ("netmem/fast-free-0-by-round", 365.0, "fast", "without a lock", "0"),
        ("netmem/fast-free-50-by-round", 383.0, "fast", "without a lock", "50"),
        ("netmem/full-lock-0-by-round", 195.0, "full", "under a lock", "0"),
        ("netmem/full-lock-50-by-round", 227.0, "full", "under a lock", "50"),
        ("netmem/full-free-0-by-round", 142.0, "full", "without a lock", "0"),
        ("netmem/full-free-50-by-round", 146.0, "full", "without a lock", "50"),
    ]
    .map(|(variant, kpps, path, below, pairs)| {
        let settings = [("path", path), ("below", below), ("pairs", pairs), ("completed", "in each round")];
        let of = figure("cluster-pool", variant, kpps * 1e3, "pps", &settings);
        Figure { says: &["2 July 2002"], ..of }
    })
    .into()
}

/// [brouer15-bulk]: "Without SLUB tuning, same performance comes with kernel cmdline slab_nomerge". The share of the
/// slow paths belongs to the kernels before and after the patch, neither of which was tuned.
fn bulk_free() -> Vec<Figure> {
    const FOUND: [(&str, &str); 3] = [("layer", "cpu_slab"), ("cpu_partial", "13"), ("min_partial", "5")];
    const TUNED: [(&str, &str); 3] = [("layer", "cpu_slab"), ("cpu_partial", "256"), ("min_partial", "9")];
    let rows = [
        ("netmem/base", 2_043_575.0, FOUND, "one by one", "true"),
        ("netmem/patched", 2_090_522.0, FOUND, "collected", "true"),
        ("netmem/tuned", 2_124_217.0, TUNED, "collected", "true"),
        ("netmem/nomerge", 2_121_824.0, FOUND, "collected", "false"),
    ];
    let mut all = Vec::new();
    for (variant, pps, tunables, form, merge) in rows {
        let mut settings = tunables.to_vec();
        settings.extend([("form", form), ("free", "single"), ("merge", merge), ("mode", "ip")]);
        let (says, never): (&[_], &[_]) = match variant {
            "netmem/nomerge" => (&["slab_nomerge", "without tuning"], &["tuned"]),
            "netmem/tuned" => (&["cpu_partial 256 and min_partial 9"], &["slab_nomerge"]),
            _ => (&[], &["tuned", "slab_nomerge"]),
        };
        all.push(Figure { says, never, ..figure("forward-bulk-free", variant, pps, "pps", &settings) });
    }
    for (variant, percent, form) in
        [("netmem/base", 3.73, "one by one"), ("netmem/patched", 0.76, "collected")]
    {
        let mut settings = FOUND.to_vec();
        settings.extend([("form", form), ("merge", "true"), ("by", "callgrind")]);
        let of = figure("forward-bulk-free", variant, percent, "percent", &settings);
        all.push(Figure { says: &["not tuned"], ..of });
    }
    all
}

/// [zhang09-handoff] gives 4 Mpps of 60 bytes for a machine and not for its patch. cpumap's notes belong to another
/// work.
fn handed() -> Vec<Figure> {
    vec![
        Figure {
            says: &["60-byte packets", "not told"],
            never: &["with hand-off"],
            ..figure("handoff", "netmem/handed", 4e6, "pps", &[("load", "light")])
        },
        Figure {
            says: &["another work", "UDP sink on the receiving CPU"],
            ..figure("handoff", "netmem/one", 718_135.0, "pps", &[("load", "heavy"), ("workers", "1")])
        },
        Figure {
            says: &["another work", "UDP sink on another CPU"],
            ..figure("handoff", "netmem/handed", 2_311_585.0, "pps", &[("load", "heavy"), ("workers", "2")])
        },
    ]
}

/// The mail of the detached freelists.
fn objects() -> Vec<Figure> {
    let bulks = ["1", "2", "3", "4", "8", "16", "30", "32", "34", "48", "64", "128", "158", "250"];
    let fallback = [62.0, 55.0, 53.0, 52.0, 50.0, 49.0, 49.0, 50.0, 96.0, 83.0, 74.0, 90.0, 99.0, 104.0];
    let detached = [49.0, 30.0, 23.0, 20.0, 18.0, 17.0, 18.0, 18.0, 23.0, 21.0, 20.0, 27.0, 30.0, 37.0];
    let of = |variant, burst, cycles| {
        let settings = [("burst", burst), ("layer", "cpu_slab"), ("order", "in turn"), ("bytes", "256")];
        figure("slab-bulk", variant, cycles, "cycles", &settings)
    };
    let mut all = Vec::new();
    for ((burst, fallback), detached) in bulks.into_iter().zip(fallback).zip(detached) {
        all.push(Figure { says: &["fallback loop"], ..of("netmem/loop", burst, fallback) });
        all.push(Figure {
            says: &["detached"],
            never: &["merged"],
            ..of("netmem/detached", burst, detached)
        });
    }
    for (burst, cycles) in [("64", 48.0), ("128", 57.0), ("158", 59.0), ("250", 56.0)] {
        all.push(Figure { says: &["merged"], ..of("netmem/merged-detached", burst, cycles) });
    }
    all.push(figure(
        "slab-bulk",
        "netmem",
        47.0,
        "cycles",
        &[("burst", "1"), ("bytes", "256"), ("touch", "false")],
    ));
    all
}
