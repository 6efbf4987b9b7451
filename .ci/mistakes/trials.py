"""A trial: the tests that belong to a file are run with its mistake made, the cheapest first. All mistakes are in one build,
in a tree of their own."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import switches

MEMORY = 12 << 30
FILE = 1 << 30


@dataclass(frozen=True)
class Tests:
    """One build, and what of it is run: `only` are filters of the names, all tests when there is none."""

    build: tuple
    only: tuple = ()
    loom: bool = False

    def name(self):
        return " ".join((*(("loom",) if self.loom else ()), *self.build, *self.only))


LIB = ("-p", "netmem", "--lib")
CLI = ("-p", "netmem-cli")
# The loop is tested through the router and the test traffic.
FORWARDER = Tests(("-p", "netmem-router", "--test", "forwarder"))
BESIDE = Tests(("-p", "netmem-router", "-p", "netmem-traffic"))
# Integration tests of the library that need no interface.
WIDE = Tests(("-p", "netmem", "--test", "sequences", "--test", "close", "--test", "memfd"))
STRESS = Tests(("-p", "netmem", "--test", "stress"))
# The program's tests by the folder of its sources.
PROGRAM = {
    "forward": ("forward", "ports", "steer", "turns", "signals"),
    "args": ("bad_input", "forward"),
    "control": ("control",),
    "stat": ("control", "stat"),
    "top": ("top",),
    "metrics": ("metrics",),
    "set": ("control",),
    "traffic": ("traffic", "memif"),
    "lab": ("lab",),
}
ALL_PROGRAM = ("bad_input", "control", "forward", "memif", "metrics", "ports", "service", "signals", "stat", "steer", "top", "traffic", "turns")


def models(root):
    """The filters of the models, as .ci/interleavings has them."""
    found = re.search(r"^models=\(([^)]*)\)", (root / ".ci/interleavings").read_text(), re.MULTILINE)
    if not found:
        raise SystemExit("seed-mistakes: .ci/interleavings has no list models=(...)")
    return tuple(found.group(1).split())


def program(names):
    return Tests((*CLI, *(part for name in names for part in ("--test", name))))


def tests_for(mistake, filters):
    """What a mistake is shown to, one after the other, until something notices it."""
    parts = mistake.path.removesuffix(".rs").split("/")
    if parts[0] == "cli":
        place = parts[2]
        yield Tests((*CLI, "--lib"))
        if place in PROGRAM:
            yield program(PROGRAM[place])
        yield program(ALL_PROGRAM)
        return
    if parts[0] == "ports":
        yield Tests(("-p", "netmem-ports"))
        yield program(("bad_input", "ports"))
        return
    if parts[0] in ("router", "traffic"):
        yield BESIDE
        yield program(("forward", "ports", "steer", "traffic"))
        return
    stage = parts[1]
    own = tuple(f for f in filters if f.startswith(stage))
    if mistake.category == "orderings":
        if own:
            yield Tests(LIB, own, loom=True)
        yield Tests(LIB, (f"{stage}::",))
        yield Tests(LIB, filters, loom=True)
    else:
        yield Tests(LIB, (f"{stage}::",))
    if stage == "forward":
        yield FORWARDER
    yield Tests(LIB)
    yield WIDE
    yield STRESS
    if own and mistake.category != "orderings":
        yield Tests(LIB, own, loom=True)
    if stage in ("port", "forward", "steer"):
        yield program(("forward", "ports", "memif", "steer", "traffic"))
    if parts[1:3] == ["port", "xdp"] and os.geteuid() == 0:
        yield Tests(("-p", "netmem", "--test", "xdp_veth"))


class Tree:
    """A copy of the work tree, with a switch for each mistake and a target folder of its own."""

    def __init__(self, source, work, limit):
        self.source, self.root, self.target = source, work / "tree", work / "target"
        self.scratch, self.limit, self.built, self.fine = work / "tmp", limit, {}, set()
        self.filters = models(source)
        self.scratch.mkdir(parents=True, exist_ok=True)

    def write(self, chosen):
        """Makes the copy what the work tree is, with these mistakes; what stays as it is keeps its time."""
        listed = subprocess.check_output(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=self.source, text=True
        )
        names = {name for name in listed.split("\0") if name and (self.source / name).is_file()}
        for name in names:
            there, here = self.root / name, (self.source / name).read_bytes()
            mine = [mistake for mistake in chosen if mistake.path == name]
            if mine:
                here = switches.switched(here.decode(), mine).encode()
            if name == "src/lib.rs":
                here += switches.ROOT.encode()
            if not there.is_file() or there.read_bytes() != here:
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(here)
                shutil.copymode(self.source / name, there)
        for there in self.root.rglob("*"):
            if there.is_file() and str(there.relative_to(self.root)) not in names:
                there.unlink()

    def numbers(self):
        """Those of the mistakes that are in the copy."""
        sources = (path.read_text() for folder in ("src", "router/src", "traffic/src", "ports/src", "cli/src") for path in (self.root / folder).rglob("*.rs"))
        return {int(found) for text in sources for found in re.findall(r"::mistake\((\d+)\)", text)}

    def environment(self, tests, mistake=None):
        # Apart, so that one may be built while another is.
        target = self.target / ("loom" if tests.loom else "program" if tests.build[:2] == CLI else "library")
        env = {**os.environ, "CARGO_TARGET_DIR": str(target), "RUST_BACKTRACE": "0"}
        env["NETMEM_STRESS_SECONDS"] = env.get("NETMEM_STRESS_SECONDS", "2")
        env["NETMEM_MISTAKE"] = str(switches.number(mistake) if mistake else 0)
        env["TMPDIR"] = str(self.scratch / env["NETMEM_MISTAKE"])
        if tests.loom:
            # As in .ci/interleavings.
            env.update(RUSTFLAGS="--cfg loom", LOOM_MAX_PREEMPTIONS="3", CARGO_PROFILE_DEV_LTO="false")
        return env

    def cargo(self, verb, tests, *more):
        """The messages of a cargo command, and whether it succeeded."""
        # Without debug information, which takes long and which nobody looks at.
        quick = [f"--config=profile.dev.package.{package}.debug=0" for package in ("netmem", "netmem-router", "netmem-traffic", "netmem-ports", "netmem-cli")]
        done = subprocess.run(
            ["cargo", verb, "--quiet", *quick, *tests.build, *more, "--message-format=json"], cwd=self.root,
            env=self.environment(tests), text=True, stdout=subprocess.PIPE, check=False,
        )
        return done.returncode == 0, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def uncompiled(self, chosen):
        """Those of these mistakes, all of which are in the tree, that do not compile, as far as one look says."""
        checks = [Tests(LIB)]
        if not all(mistake.path.startswith("src/") for mistake in chosen):
            checks.append(Tests((*CLI, "--lib")))
        for tests in checks:
            succeeded, messages = self.cargo("check", tests)
            if succeeded:
                continue
            errors = [m["message"] for m in messages if m.get("reason") == "compiler-message"]
            errors = [error for error in errors if error["level"] == "error"]
            for only_primary in (True, False):
                places = {
                    (span["file_name"], line) for error in errors for span in error["spans"]
                    if span["is_primary"] or not only_primary for line in range(span["line_start"], span["line_end"] + 1)
                }
                wrong = [m for m in chosen if (m.path, m.line) in places]
                if wrong:
                    return wrong
            # It shows elsewhere: it is the nearest one.
            near = {(abs(m.line - line), m) for m in chosen for path, line in places if m.path == path}
            if near:
                return [min(near, key=lambda pair: (pair[0], pair[1].line))[1]]
            raise SystemExit("seed-mistakes: it does not compile, and no mistake is why:\n"
                             + "\n".join(error["rendered"] for error in errors[:3]))
        return []

    def build(self, tests):
        """Makes the test programs, once, and sees that these tests pass without any mistake."""
        key = Tests(tests.build, loom=tests.loom)
        if key not in self.built:
            succeeded, messages = self.cargo("test", tests, "--no-run")
            if not succeeded:
                said = [m["message"]["rendered"] for m in messages if m.get("message", {}).get("level") == "error"]
                raise SystemExit(f"seed-mistakes: {tests.name()} does not build:\n" + "\n".join(said[:5]))
            self.built[key] = [(m["executable"], Path(m["manifest_path"]).parent) for m in messages
                               if m.get("executable") and m["profile"]["test"]]
        if tests not in self.fine:
            for program, folder in self.built[key]:
                listed = subprocess.check_output([program, *tests.only, "--list"], cwd=folder, env=self.environment(tests), text=True)
                if ": test" not in listed:
                    raise SystemExit(f"seed-mistakes: {tests.name()}: no test has such a name")
                result, names = self.run(program, folder, tests, None)
                if result != "passed":
                    raise SystemExit(f"seed-mistakes: without any mistake: {tests.name()}: {result}: {' '.join(names)}")
            self.fine.add(tests)

    def run(self, program, folder, tests, mistake):
        """Whether the program's tests pass, are seen to fail, or do not end in time; and which. It is ended at the first
        that fails."""
        def bounds():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        env = self.environment(tests, mistake)
        os.makedirs(env["TMPDIR"], exist_ok=True)
        # As /tmp is: some tests make files there as another user.
        os.chmod(env["TMPDIR"], 0o1777)
        child = subprocess.Popen(
            [program, *tests.only], cwd=folder, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=bounds, text=True,
            errors="replace",
        )
        late = threading.Event()

        def end():
            late.set()
            os.killpg(child.pid, signal.SIGKILL)

        timer = threading.Timer(self.limit, end)
        timer.start()
        failed, slow, last = [], [], ""
        for line in child.stdout:
            if found := re.search(r"^test (\S+)(?: - should panic)? \.\.\. FAILED", line):
                failed.append(found.group(1))
                break
            if found := re.search(r"test (\S+) has been running", line):
                slow.append(found.group(1))
            last = line.strip() or last
        if failed or late.is_set():
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.stdout.close()
        code = child.wait()
        timer.cancel()
        try:
            # What it left behind.
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shutil.rmtree(env["TMPDIR"], ignore_errors=True)
        if failed:
            return "noticed", failed
        if late.is_set():
            return "noticed by time", slow[:3]
        return ("passed", []) if code == 0 else ("noticed", [f"ended by {code}: {last[:80]}"])

    def show(self, mistake, tests):
        """What these tests make of the mistake: (result, the names of those that noticed it, seconds)."""
        begun, result, names = time.monotonic(), "passed", []
        for program, folder in self.built[Tests(tests.build, loom=tests.loom)]:
            result, names = self.run(program, folder, tests, mistake)
            if result != "passed":
                break
        return result, names, time.monotonic() - begun

    def trials(self, chosen, jobs):
        """(mistake, result, the tests that decided, their names, seconds) as they are decided: what is next for most of
        those undecided comes first, so that few things are built before much is known."""
        waiting = {m: list(dict.fromkeys(tests_for(m, self.filters))) for m in chosen}
        seconds = dict.fromkeys(chosen, 0.0)
        while waiting:
            kinds = Counter(Tests(left[0].build, loom=left[0].loom) for left in waiting.values())
            kind = kinds.most_common(1)[0][0]
            turn = {m: left.pop(0) for m, left in waiting.items() if Tests(left[0].build, loom=left[0].loom) == kind}
            for tests in dict.fromkeys(turn.values()):
                self.build(tests)
            with ThreadPoolExecutor(jobs) as pool:
                shown = {pool.submit(self.show, mistake, tests): mistake for mistake, tests in turn.items()}
                for done in as_completed(shown):
                    mistake, (result, names, took) = shown[done], done.result()
                    seconds[mistake] += took
                    if result != "passed" or not waiting[mistake]:
                        del waiting[mistake]
                        by, result = turn[mistake].name(), result.replace("passed", "survived")
                        yield mistake, result, by, names, round(seconds[mistake], 1)
                    else:
                        print(f"not noticed by {turn[mistake].name()}: {mistake.path}:{mistake.line} {mistake.before}  =>  "
                              f"{mistake.after}", flush=True)
