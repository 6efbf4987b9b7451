#!/usr/bin/env python3
"""Recomputes every verdict of the lab's page from the JSON of the runs, by rules and figures of its own.

    docs/report/verdicts.py docs/report/xeon-167.json --page docs/report/report.html

Claims, targets and losses are judged here once more, from the intervals in the JSON, and compared with what the page says.
The rules are those of lab/src/report, written a second time. So this finds a stale page, a wrong figure and a slip in one of
the two programs. It cannot find a wrong rule, which both would have.
Prints each difference and ends with 1 if there is one, with 0 if all are equal, with 2 for bad input. Standard library only.
"""

import argparse
import html
import json
import re
import sys
from math import log

NEEDED = "not measured"
COMPARABLE = "not comparable"
HOLDS = "holds"
REGIME = "holds in another regime"
TELL = "cannot tell"
FAILS = "does not hold"
WORSE = [NEEDED, COMPARABLE, HOLDS, REGIME, TELL, FAILS]


class Missing(Exception):
    """The run lacks the rows."""


# ---- what a run has ----------------------------------------------------------------------------------------------------

def plain(value):
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def has(entry, fixed):
    return all(name in entry["params"] and plain(entry["params"][name]) == wanted for name, wanted in fixed.items())


def find_ratio(run, a, b, without=(), **fixed):
    for ratio in run["ratios"]:
        fits = (ratio["a"], ratio["b"]) == (a, b) and has(ratio, fixed)
        if fits and not any(name in ratio["params"] for name in without):
            return ratio["low"], ratio["high"], ratio.get("undecided", False)
    raise Missing


def over_third(run, a, b, third, **fixed):
    """The ratio of two variants, or the quotient of the ratios of both to a third."""
    try:
        return find_ratio(run, a, b, **fixed)
    except Missing:
        (low, high, one), (least, most, other) = (find_ratio(run, variant, third, **fixed) for variant in (a, b))
        return low / most, high / least, one or other


def find_row(run, variant, metric, **fixed):
    for row in run["rows"]:
        if (row["variant"], row["metric"]) == (variant, metric) and has(row, fixed):
            return row
    raise Missing


def over(a, b):
    """Two rows that no ratio joins, by the spread of their windows."""
    if b["p10"] == 0 or b["p90"] == 0:
        raise Missing
    return a["p10"] / b["p90"], a["p90"] / b["p10"], False


def over_windows(run, a, b):
    """The same, of rows that were timed: of too few set-ups they decide nothing."""
    low, high, _ = over(a, b)
    return low, high, too_few(run, [a, b])


def ratio_or_rows(run, a, b, metric):
    try:
        return find_ratio(run, a, b)
    except Missing:
        return over_windows(run, find_row(run, a, metric), find_row(run, b, metric))


# ---- the set-ups behind a ratio ----------------------------------------------------------------------------------------

SETUPS_MIN = 9
# The settings of the labs whose reports have no version: the least set-ups, the rounds of a set-up, the windows of a round.
OLD_QUICK, OLD_FULL = (7, (3, 1), 48), (11, (10, 5, 3, 2, 1), 64)


def windows(row):
    return row["windows"] + row["windows_dropped"]


def setups(run, rows):
    """The set-ups that a run of an older lab has behind these rows at least, as far as it tells; otherwise 0."""
    least, rounds, each = OLD_QUICK if run["quick"] else OLD_FULL
    known = []
    if not run.get("interrupted", False) and any(row["windows"] > 1 and windows(row) % least == 0 for row in run["rows"]):
        known.append(least)
    by_windows = []
    for count in map(windows, rows):
        sizes = [share * each for share in rounds if count and count % (share * each) == 0]
        by_windows += [count // sizes[0]] if sizes else []
    return max(known + ([min(by_windows)] if by_windows else []), default=0)


def too_few(run, rows):
    return run.get("version") is None and setups(run, rows) < SETUPS_MIN


def mark(run):
    """Newer labs mark the ratios of too few set-ups themselves."""
    def divides(ratio, row):
        params = ((name, value) for name, value in ratio["params"].items() if name != "placement")
        side = row["variant"] in (ratio["a"], ratio["b"]) and row["metric"] == ratio["metric"]
        return side and all(name in row["params"] and row["params"][name] == value for name, value in params)
    for ratio in run["ratios"]:
        if too_few(run, [row for row in run["rows"] if divides(ratio, row)]):
            ratio["undecided"] = ratio["too_few"] = True
    return run


# ---- the rules ---------------------------------------------------------------------------------------------------------

def against(interval, published):
    """Half of a published effect to twice of it holds, in logarithms; below a twentieth there is none."""
    low, high, undecided = interval
    least, most = sorted(log(end) / log(published) for end in (low, high))
    if undecided:
        return TELL
    if most < 0.05 or (least <= 0 and most < 0.5):
        return FAILS
    if least <= 0:
        return TELL
    if least >= 0.5 and most <= 2:
        return HOLDS
    return REGIME if most < 0.5 or least > 2 else TELL


def at_least(interval, published):
    """The source says more than this, which is above 1."""
    low, high, undecided = interval
    if undecided:
        return TELL
    if low >= published:
        return HOLDS
    if against(interval, published) == FAILS:
        return FAILS
    return REGIME if low > 1 and high < published else TELL


def near_one(interval, share):
    low, high, undecided = interval
    if undecided:
        return TELL
    if low >= 1 - share and high <= 1 + share:
        return HOLDS
    return FAILS if low > 1 + share or high < 1 - share else TELL


def more(interval):
    low, high, undecided = interval
    if undecided or low <= 1 <= high:
        return TELL
    return HOLDS if low > 1 else FAILS


def more_by(interval, share):
    """More than this share above 1; up to it counts as no difference."""
    low, high, undecided = interval
    if undecided or low <= 1 + share < high:
        return TELL
    return HOLDS if low > 1 + share else FAILS


def of_settings(intervals):
    """All that lies between the ends, over settings that the source leaves open."""
    lows, highs, undecided = zip(*intervals)
    return min(lows), max(highs), any(undecided)


def at_settings(verdicts):
    """The verdict of those at each such setting."""
    if HOLDS in verdicts:
        return HOLDS if set(verdicts) == {HOLDS} else REGIME
    return FAILS if set(verdicts) == {FAILS} else TELL


# ---- the claims, with the sources' figures -----------------------------------------------------------------------------

def patched(run):
    """Who frees heads alone in bulk, as the source; runs before it was made have what does more."""
    try:
        find_row(run, "netmem/patched", "pps")
        return "netmem/patched"
    except Missing:
        return "netmem/bulk"


def over_settings(run, interval, *pairs):
    """With the same at other settings of the merged slabs; older runs have it alone."""
    try:
        return of_settings([interval] + [find_ratio(run, "netmem/" + a, "netmem/" + b) for a, b in pairs])
    except Missing:
        return interval


def bulk_free(run):
    pairs = [(f"patched-{setting}", f"base-{setting}") for setting in ("eighth", "alone", "256")]
    return against(over_settings(run, find_ratio(run, patched(run), "netmem/base"), *pairs), 2090522 / 2043575)


def tuned(run):
    interval = ratio_or_rows(run, "netmem/tuned", patched(run), "pps")
    return against(over_settings(run, interval, ("tuned-256", "patched-256")), 2124217 / 2090522)


def nomerge(run):
    params = find_row(run, "netmem/nomerge", "pps")["params"]
    if params.get("cpu_partial") == 256 or "tuned" in params.get("heads", ""):
        return COMPARABLE  # the source's was not tuned
    interval = ratio_or_rows(run, "netmem/nomerge", patched(run), "pps")
    pairs = ("nomerge", "patched-eighth"), ("nomerge", "patched-alone"), ("nomerge-256", "patched-256")
    return against(over_settings(run, interval, *pairs), 2121824 / 2090522)


def slow_paths(run):
    """Rows of older runs have another name: they also count fast paths."""
    share = lambda variant: find_row(run, variant, "percent", by="callgrind", what="instructions under slow paths")
    return against(over(share("netmem/patched"), share("netmem/base")), 0.76 / 3.73)


def latency(run):
    """At fixed rates, by the median packet. Older runs have full load alone, where it is the rate in other units."""
    for variant in ("netmem/base", patched(run)):
        find_row(run, variant, "latency_ns", quantile="p50")
    try:
        halves = [find_ratio(run, "netmem/patched", "netmem/base", quantile="p50", load=load) for load in ("a quarter", "half")]
        for load in ("a quarter", "half"):
            find_ratio(run, "netmem/patched", "netmem/base", quantile="p99", load=load)
    except Missing:
        return COMPARABLE
    longer = [more_by(half, 0.02) for half in halves]
    if HOLDS in longer:
        return FAILS
    return HOLDS if all(one == FAILS for one in longer) else TELL


def ready(run):
    """Over what differs in the array of heads alone, at each size of the array, of which the source gives none."""
    arrays = ["netmem/ready-8", "netmem/ready-16"]
    arrays += [f"netmem/ready-{size}-{refill}" for size in (128, 256) for refill in (8, 16)]
    return at_settings([more_by(find_ratio(run, array, "netmem/collected-nomerge"), 0.02) for array in arrays])


VANILLA, PATCHED, LOCK = "netmem/64-cas128", "netmem/56-cas128", "netmem/64-lock-interrupts"
COLD_LOCK = LOCK + "-cold"


def warm(run):
    words = [r for r in run["ratios"] if r["b"] == VANILLA and r["a"] in ("netmem/64-lock", LOCK, COLD_LOCK) and has(r, {"use": "warm"})]
    if not words:
        raise Missing
    return max((near_one((r["low"], r["high"], r.get("undecided", False)), 0.02) for r in words), key=WORSE.index)


def warm_path(run):
    def shares(use):
        slow = {"event": "free_slowpath", "use": use}
        found = [row["median"] for row in run["rows"] if row["metric"] == "percent" and has(row, slow)]
        if not found:
            raise Missing
        return found
    return HOLDS if max(shares("warm")) == 0 and min(shares("cold+write")) >= 50 else FAILS


def cold(run, a, size, b=VANILLA):
    fixed = {"use": "cold+write", "bytes": size, "work": "object"}
    return find_ratio(run, a, b, without=("threads", "noise"), **fixed)


def lock(run):
    """Between lines that stay in the first cache and lines that are cold whatever the objects do."""
    return against(of_settings([cold(run, LOCK, "256"), cold(run, COLD_LOCK, "256")]), 1 / 0.7)


def size_alone(run):
    verdicts = [more(cold(run, PATCHED, "32")), more(cold(run, "netmem/56-lock", "32", "netmem/64-lock"))]
    return max(verdicts, key=WORSE.index)


def by_size(run):
    cold(run, PATCHED, "4096")
    verdicts = [against(cold(run, PATCHED, "32"), 1.05)]
    for size in ("1536", "2048", "4096", "8192"):
        try:
            low, high, undecided = cold(run, PATCHED, size)
        except Missing:
            continue
        verdicts.append(more((1 / high, 1 / low, undecided)))
    return max(verdicts, key=WORSE.index)


def fades(run):
    fixed = {"use": "cold+write", "bytes": "256", "work": "object"}
    alone = cold(run, LOCK, "256")
    beside = [find_ratio(run, LOCK, VANILLA, **fixed, **more) for more in ({"noise": "true"}, {"threads": "2"})]
    if any(undecided for _, _, undecided in [alone, *beside]) or alone[0] <= 1:
        return TELL
    if all(high < alone[0] for _, high, _ in beside):
        return HOLDS
    return FAILS if any(low > alone[1] for low, _, _ in beside) else TELL


def not_linear(run):
    row = lambda variant, burst: find_row(run, variant, "cycles_per_op", burst=burst, order="in turn", touch="false")
    low, high, undecided = over_windows(run, row("netmem/detached", "8"), row("netmem/loop", "1"))
    return more((8 * low, 8 * high, undecided))


def counted(run, event, published):
    """In both orders, of which the worse counts. A quick run tells nothing."""
    rows = [
        [find_row(run, variant, "count", event=event, by="cachegrind", order=order) for variant in (PATCHED, VANILLA)]
        for order in ("random", "in turn")
    ]
    if run["quick"]:
        return TELL
    return max((against(over(*pair), published) for pair in rows), key=WORSE.index)


def branches(run):
    over(*(find_row(run, variant, "count", event="branch misses") for variant in (PATCHED, VANILLA)))
    return COMPARABLE


def in_practice(run):
    """All differences of the source, the worst of which counts."""
    find = lambda a, b: find_ratio(run, a, b, work="forward")
    verdicts = [near_one(find(PATCHED, VANILLA), 0.02)]
    for a, b in (("netmem/64-lock", VANILLA), (LOCK, VANILLA), ("netmem/56-lock", "netmem/64-lock")):
        try:
            verdicts.append(near_one(find(a, b), 0.02))
        except Missing:  # of before it was measured
            continue
    return max(verdicts, key=WORSE.index)


def memory(run):
    after, before = (find_row(run, variant, "bytes", per="GiB")["median"] for variant in ("netmem/56", "netmem/64"))
    return against((after / before, after / before, False), 14 / 16)


def knee(run):
    """The list of 128 beside the tuned one, with 128 and with 512 pages out."""
    at = lambda lists, metric, out: find_row(run, "netmem", metric, lists=lists, stats="on", outstanding=out)
    stands = at("brouer-2017", "count", "128")["p90"] == 0 and at("brouer-2017", "count", "129")["p10"] > 0
    stands = stands and at("tuned", "count", "512")["p90"] == 0

    def beside(out):
        try:
            return find_ratio(run, "netmem", "netmem", order="0", stats="on", outstanding=out)
        except Missing:
            return over_windows(run, *(at(lists, "cycles_per_op", out) for lists in ("brouer-2017", "tuned")))
    beside("128")
    return more(beside("512")) if stands else FAILS


def offset(run):
    """Every point's offset by statistics between half and twice the one in the middle."""
    ends, few = [], False
    for ratio in run["ratios"]:
        if (ratio["a"], ratio["b"]) == ("netmem", "netmem/stats-off") and has(ratio, {"lists": "brouer-2017"}):
            out = plain(ratio["params"]["outstanding"])
            ns = find_row(run, "netmem", "ns_per_op", lists="brouer-2017", stats="on", outstanding=out)["median"]
            ends.append([ns - ns / ratio[end] for end in ("low", "median", "high")])
            few = few or ratio.get("too_few", False)
    if not ends:
        raise Missing
    middle = sorted(median for _, median, _ in ends)[len(ends) // 2]
    if few:
        return TELL
    if any(high < middle / 2 or low > middle * 2 for low, _, high in ends):
        return FAILS
    return HOLDS if all(low >= middle / 2 and high <= middle * 2 for low, _, high in ends) else TELL


def crossing(run):
    """Of pages with a reference count, as the source's; older runs had none."""
    where = {"policy": "spin", "side": "both", "touch": "false"}
    try:
        return against(find_ratio(run, "netmem/shared", "limit", **where), 210 / 31)
    except Missing:
        find_ratio(run, "netmem", "limit", **where)
        return COMPARABLE


def delayed(run):
    where = {"policy": "never waits", "side": "B", "touch": "false"}
    try:
        return against(find_ratio(run, "netmem/shared-delay-1", "netmem/shared", **where), 152 / 210)
    except Missing:
        over_third(run, "netmem/delay-1", "netmem", "limit", **where)
        return COMPARABLE


def only_if(*looks):
    """Not comparable, where the run has what would be compared."""
    def judge(run):
        for look in looks:
            look(run)
        return COMPARABLE
    return judge


def plainly(a, b, published, **fixed):
    return lambda run: against(find_ratio(run, a, b, **fixed), published)


def handed(run, b, load):
    return find_ratio(run, "netmem/handed", b, load=load)


def routed(variant):
    return lambda run: at_least(find_ratio(run, variant + "-handed", variant + "-one"), 1.4)


def caller(run):
    low, high, undecided = find_ratio(run, "netmem/fast-lock-50-list-locked", "netmem/fast-lock-50-list")
    find_ratio(run, "netmem/fast-lock-50-list", "netmem/fast-lock-50")
    return more((1 / high, 1 / low, undecided))


FORWARD = "forward-bulk-free"
CLAIMS = {
    "detached-freelists": ("slab-bulk", plainly("netmem/detached", "netmem/loop", 20 / 74, burst="64", order="in turn", touch="false")),
    "bulk-free": (FORWARD, bulk_free),
    "tuned": (FORWARD, tuned),
    "nomerge": (FORWARD, nomerge),
    "slow-paths": (FORWARD, slow_paths),
    "latency": (FORWARD, latency),
    "ready-heads": (FORWARD, ready),
    "hand-off-light": ("handoff", lambda run: at_least(handed(run, "netmem/one", "light"), 1.4)),
    "hand-off-heavy": ("handoff", lambda run: at_least(handed(run, "netmem/one", "heavy"), 1.4)),
    "hand-off-equal-cores": ("handoff", lambda run: more(handed(run, "netmem/queues", "light"))),
    "hand-off-forwarder": ("handoff", routed("netmem/routed")),
    "hand-off-forwarder-large": ("handoff", routed("netmem/routed-ring")),
    "hand-off-forwarder-read": ("handoff", routed("netmem/routed-read")),
    "cpumap": ("handoff", only_if(lambda run: handed(run, "netmem/one", "heavy"))),
    "warm": ("slab-descriptor", warm),
    "warm-path": ("slab-descriptor", warm_path),
    "lock": ("slab-descriptor", lock),
    "fades": ("slab-descriptor", fades),
    "by-size": ("slab-descriptor", by_size),
    "size-alone": ("slab-descriptor", size_alone),
    "loads": ("slab-descriptor", lambda run: counted(run, "last-level loads", 556751 / 883412)),
    "load-misses": ("slab-descriptor", lambda run: counted(run, "last-level misses", 339106 / 566546)),
    "branch-misses": ("slab-descriptor", branches),
    "in-practice": ("slab-descriptor", in_practice),
    "memory": ("slab-descriptor", memory),
    "pairs-fast-lock": ("cluster-pool", plainly("netmem/fast-lock-50-by-round", "netmem/fast-lock-0-by-round", 355 / 276)),
    "pairs-fast-free": ("cluster-pool", plainly("netmem/fast-free-50-by-round", "netmem/fast-free-0-by-round", 383 / 365)),
    "pairs-full-lock": ("cluster-pool", plainly("netmem/full-lock-50-by-round", "netmem/full-lock-0-by-round", 227 / 195)),
    # "They hardly show": a claim of no difference.
    "pairs-full-free": (
        "cluster-pool",
        lambda run: near_one(find_ratio(run, "netmem/full-free-50-by-round", "netmem/full-free-0-by-round"), 0.05),
    ),
    "pairs-own-form": ("cluster-pool", plainly("netmem/fast-lock-50-list-by-round", "netmem/fast-lock-0-by-round", 355 / 276)),
    "pairs-caller": ("cluster-pool", caller),
    "one-page": ("page-fast-path", only_if(lambda run: find_row(run, "netmem", "cycles_per_op", touch="false"))),
    "statistics": ("page-fast-path", plainly("netmem", "netmem/stats-off", 143 / 97, touch="false")),
    "orders": ("page-order", only_if(
        lambda run: find_row(run, "netmem", "ns_per_op", order="0", per="block"),
        lambda run: find_row(run, "netmem", "ns_per_op", order="1", per="block"))),
    "knee": ("page-outstanding", knee),
    "offset": ("page-outstanding", offset),
    "bulk-pages": ("page-bulk", plainly("netmem", "netmem/loop", 110 / 199, burst="128", touch="false")),
    "crossing": ("page-cross-worker", crossing),
    "delayed": ("page-cross-worker", delayed),
    "recycling": ("pool-recycle", plainly("netmem", "netmem/page", 19 / 238, held="0", map_ns="0")),
    "bulk-speedup": ("slab-bulk", plainly("netmem/detached", "netmem/loop", 1 / 1.6, burst="8", order="in turn", touch="false")),
    "bulk-not-linear": ("slab-bulk", not_linear),
    "xdp": ("xdp-verdicts", plainly("netmem/tx", "netmem/drop", 1.7)),
}


# What was counted, which no pause of the machine spoils.
COUNTED = {"slow-paths", "warm-path", "loads", "load-misses", "branch-misses", "memory"}


def does_not_stand(run):
    return ((run.get("pauses") or {}).get("during_percent") or 0) >= 50


def claim(name, runs):
    """The worst of the machines."""
    experiment, judge = CLAIMS[name]
    verdicts = []
    for run in (run for run in runs if run["experiment"] == experiment):
        try:
            verdict = judge(run)
        except Missing:
            verdict = NEEDED
        spoilt = does_not_stand(run) and name not in COUNTED and verdict not in (NEEDED, COMPARABLE)
        verdicts.append(TELL if spoilt else verdict)
    return max(verdicts, key=WORSE.index, default=NEEDED)


# ---- the targets: must and aim, whose ratio, and its settings ----------------------------------------------------------

ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc")
FRAME, SAME, CROSS = {"work": "frame"}, {"cores": "same"}, {"cores": "cross"}
WRITTEN, PACKETS = {"touch": "true"}, {"work": "packet", "burst": "32", **CROSS}
RING = {"work": "ring", "burst": "32", "bytes": "8", **CROSS}
OBJECT = {"work": "object", "bytes": "256", **WRITTEN}
TARGETS = [
    (0.45, 0.2, ["netmem"], ["dpdk"], {**FRAME, "burst": "1", "touch": "false", **SAME}),
    (0.75, 0.5, ["netmem"], ["dpdk"], {**FRAME, "burst": "32", "touch": "false", **SAME}),
    (1.15, 1.0, ["netmem"], ["dpdk"], {**FRAME, "burst": "32", **WRITTEN, **SAME}),
    (0.5, 0.3, ["netmem"], ["dpdk"], {"work": "packet", "burst": "1", **WRITTEN, **SAME}),
    (0.5, 0.33, ["netmem"], ["dpdk"], {"work": "packet", "burst": "32", **WRITTEN, **SAME}),
    (0.5, 0.25, ["netmem"], ["dpdk"], PACKETS),
    (0.7, 0.7, ["netmem"], "tenth", PACKETS),
    (0.7, 0.5, ["netmem"], ["dpdk"], RING),
    (0.7, 0.5, ["netmem"], ["rtrb"], RING),
    (0.5, 0.3, ["netmem"], ALLOCATORS, {**OBJECT, "burst": "1", **SAME}),
    (0.3, 0.2, ["netmem"], ["mimalloc"], {**OBJECT, "burst": "64", **SAME}),
    (0.5, 0.3, ["netmem"], ["netmem/sheaf-loop"], {**OBJECT, "burst": "64"}),
    (1.0, 0.8, ["netmem"], ALLOCATORS, {**OBJECT, "burst": "1024", **SAME}),
    (1.0, 0.8, ["netmem"], ALLOCATORS, {**OBJECT, "burst": "8192", **SAME}),
    (1.0, 0.8, ["netmem"], ALLOCATORS, {**OBJECT, "burst": "65536", **SAME}),
    (0.4, 0.2, ["netmem"], ALLOCATORS, {"work": "page", "burst": "1", "bytes": "4096", "touch": "false", **SAME}),
    (2.0, 1.3, ["netmem"], ["limit"], {"side": "both", "policy": "spin", "touch": "false"}),
    (2.0, 1.3, ["netmem"], ["limit"], {"side": "both", "policy": "back-off", "touch": "false"}),
    (1.8, 1.3, ["netmem/frames-bulk", "netmem/route"], ["limit"], {}),
    (1.0, 0.8, ["netmem"], ["dpdk"], {"port": "memif"}),
    (1.0, 0.85, ["netmem"], ["dpdk"], {"port": "xdp"}),
    (1.1, 0.9, ["netmem/ip"], ["kernel"], {"port": "xdp"}),
    (0.333, 0.25, ["netmem"], ["netmem/cut"], {"work": "tcp"}),
    (2.2, 1.6, ["netmem"], ["kernel"], {"work": "tcp"}),
    (1.0, 0.8, ["netmem"], ["sockets"], {"work": "echo"}),
    (1.0, 0.8, ["netmem"], ["sockets"], {"work": "dns"}),
    (1.0, 1.1, ["netmem/bulk"], ["netmem/base"], {}),
]


def over_tenth(run, fixed):
    try:
        ours, rival = (find_row(run, variant, "ns_per_op", **fixed) for variant in ("netmem", "dpdk"))
    except Missing:
        return []
    bounds = {end: ours[of] / rival["p10"] for end, of in (("low", "p10"), ("median", "median"), ("high", "p90"))}
    # Rows do not tell their set-ups; the first ratio of the same variants does.
    inside = [r for r in run["ratios"] if (r["a"], r["b"]) == ("netmem", "dpdk") and has(r, fixed)]
    return [{"metric": "ns_per_op", "too_few": bool(inside) and inside[0].get("too_few", False), **bounds}]


def target(place, runs):
    must, aim, ours, rivals, fixed = TARGETS[place]

    def is_rival(variant):
        return any(variant == rival or (len(rivals) == 1 and variant.startswith(rival + "/")) for rival in rivals)

    reached = []
    for run in runs:
        if rivals == "tenth":
            found = over_tenth(run, fixed)
        else:
            found = [r for r in run["ratios"] if r["a"] in ours and is_rival(r["b"]) and has(r, fixed)]
        reached += [(run, ratio) for ratio in found]
    # A run that does not stand, and a ratio of too few set-ups, counts only where there is no other.
    stands = lambda pair: not does_not_stand(pair[0]) and not pair[1].get("too_few", False)
    reached = [pair for pair in reached if stands(pair)] or reached
    if not reached:
        return "not measured"
    cost = lambda ratio: -ratio["median"] if ratio["metric"] == "pps" else ratio["median"]
    run, ratio = max(reached, key=lambda pair: cost(pair[1]))
    rate = ratio["metric"] == "pps"
    best, worst = (ratio["high"], ratio["low"]) if rate else (ratio["low"], ratio["high"])
    within = (lambda x, bound: x > bound) if rate else (lambda x, bound: x <= bound)
    if not stands((run, ratio)):
        return "undecided"
    if within(worst, must):
        return "aim reached" if within(worst, aim) else "reached"
    return "undecided" if within(best, must) else "missed"


# ---- the losses --------------------------------------------------------------------------------------------------------

def losses(runs):
    """For each pair in each run: in how many settings the whole interval lies on the rival's side, of how many."""
    ours = lambda variant: variant.split("/")[0] == "netmem"
    rival = lambda variant: variant.split("/")[0] not in ("netmem", "limit")
    found = []
    for run in runs:
        pairs = {}
        for ratio in run["ratios"]:
            a, b = ratio["a"], ratio["b"]
            # A placement's ratio is over some of the rounds that the ratio without one has.
            if "placement" in ratio["params"] or not (ours(a) and rival(b) or rival(a) and ours(b)):
                continue
            inverse = (ratio["metric"] == "pps") != rival(a)
            low, median = (1 / ratio["high"], 1 / ratio["median"]) if inverse else (ratio["low"], ratio["median"])
            of = pairs.setdefault((run["experiment"], a, b, ratio["metric"]), [0, 0, 0.0])
            of[1] += 1
            if low > 1 and not ratio.get("too_few", False):
                of[0], of[2] = of[0] + 1, max(of[2], median)
        for (experiment, a, b, _), (lost, count, worst) in pairs.items():
            if lost:
                found.append(f"{experiment}: {a} over {b}, {lost} of {count} settings; at worst {worst:.2f} times the cost")
    return sorted(found)


# ---- the page ----------------------------------------------------------------------------------------------------------

def words(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()


def of_page(page):
    section = lambda name: re.search(rf'<section id="{name}">(.*?)<section id="', page, re.S).group(1)
    claims = re.findall(r'<li id="claim-([\w-]+)">.*?<span class="mark \w+">([^<]*)</span>', section("claims"), re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", section("targets").split("<tbody>", 1)[1], re.S)
    targets = [words(re.search(r'<span class="mark \w+">([^<]*)</span>', row).group(1)) for row in rows]
    lost = re.findall(r'<details class="loss"><summary>(.*?)</summary>', section("losses"), re.S)
    return dict(claims), targets, sorted(map(words, lost))


def best_of_each(runs):
    """Of the runs of one experiment on one machine a whole one, then a full one, then the last."""
    machine = lambda run: tuple(run["machine"].get(part) for part in ("cpu", "cores", "kernel"))
    failed = lambda run: any(not check["ok"] and check["name"].startswith("set-up: ") for check in run["checks"])
    rank = lambda run: (bool(run["rows"]), not run.get("interrupted", False), not failed(run), not run["quick"])
    return list({(run["experiment"], machine(run)): mark(run) for run in sorted(runs, key=rank)}.values())


def differences(runs, page):
    claims, targets, lost = of_page(page)
    yield from (f"claim {name}: only one of the two has it" for name in claims.keys() ^ CLAIMS.keys())
    for name in claims.keys() & CLAIMS.keys():
        if (here := claim(name, runs)) != claims[name]:
            yield f"claim {name}: the page says {claims[name]!r}, the JSON {here!r}"
    if len(targets) != len(TARGETS):
        yield f"{len(targets)} targets on the page, {len(TARGETS)} here"
    for place, said in enumerate(targets[: len(TARGETS)]):
        if (here := target(place, runs)) != said:
            yield f"target {place + 1}: the page says {said!r}, the JSON {here!r}"
    here = losses(runs)
    yield from (f"loss only on the page: {one}" for one in lost if one not in here)
    yield from (f"loss only in the JSON: {one}" for one in here if one not in lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", nargs="+", help="what netmem lab run --json wrote")
    parser.add_argument("--page", required=True, help="what netmem lab report made of it")
    asked = parser.parse_args()
    runs = []
    try:
        for path in asked.json:
            with open(path, encoding="utf-8") as file:
                one = json.load(file)
            runs += one if isinstance(one, list) else [one]
        with open(asked.page, encoding="utf-8") as file:
            page = file.read()
        found = sorted(differences(best_of_each(runs), page))
    except (OSError, ValueError, KeyError, AttributeError, IndexError) as error:
        print(f"error: {asked.json} or {asked.page}: {error!r}", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    if not found:
        print(f"equal: {len(CLAIMS)} claims, {len(TARGETS)} targets, {len(losses(best_of_each(runs)))} lines of losses")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
