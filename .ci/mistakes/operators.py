"""Which mistakes can be made in a Rust source that rustfmt has formatted: every one is one small change of its text."""

import functools
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A change of one file: `old` at `at` becomes `new`."""

    path: str
    category: str
    at: int
    old: str
    new: str
    line: int
    before: str
    after: str
    # Which of the same changes of the same line's text in this file, from 0.
    nth: int

    def key(self):
        return f"{self.path}|{self.before}|{self.after}|{self.nth}"


def blank(text, spans):
    """The text with these spans as spaces; lines stay where they are."""
    out = list(text)
    for start, end in spans:
        for i in range(start, end):
            if out[i] != "\n":
                out[i] = " "
    return "".join(out)


LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\\n])\'', re.S
)


@functools.lru_cache(maxsize=64)
def masked(text):
    """The text without comments, strings and characters."""
    return blank(text, [m.span() for m in LITERALS.finditer(text)])


def item_end(code, start):
    """Where the item that begins at `start` ends: behind its braces, or at the semicolon before any."""
    depth, i = 0, start
    while i < len(code):
        c = code[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0 and c == "}":
                return i + 1
        elif c == ";" and depth == 0:
            return i + 1
        i += 1
    return len(code)


NOT_PRODUCT = re.compile(
    r"#\[cfg\((?!not\(loom|not\(any|not\(test)[^\]]*\b(?:test|loom|tsan)\b[^\]]*\]"
    r"|^[ ]*(?:pub(?:\([^)]*\))? )?use [^;]*;"
    r"|^[ ]*(?:pub(?:\([^)]*\))? )?const [^;{]*="
    r"|^[ ]*impl[^{;]*\b(?:Debug|Display) for\b"
    r"|\bdebug_assert\w*!\("
    r"|^[ ]*macro_rules! ",
    re.M,
)


def product(code):
    """The masked text without attributes and without what is not for the product: tests, models, Debug, Display,
    imports, constants (which are choices, held by measurements), debug assertions."""
    spans = []
    for m in NOT_PRODUCT.finditer(code):
        word = m.group().strip()
        if word.startswith("debug_assert"):
            spans.append((m.start(), code.find(";", m.start()) + 1))
        elif word.startswith("use") or " use " in word:
            spans.append(m.span())
        elif word.startswith("#["):
            spans.append((m.start(), item_end(code, m.end())))
        else:
            spans.append((m.start(), item_end(code, m.start())))
    code = blank(code, spans)
    return blank(code, [m.span() for m in re.finditer(r"#!?\[[^\]]*\]", code)])


def swap(*pairs):
    return [pair for a, b in pairs for pair in ((a, b), (b, a))]


# Category, pattern over the masked text, and what may stand there instead; "" removes it.
PATTERNS = [
    ("orderings", r"\bAcqRel\b", ["Relaxed", "Acquire", "Release"]),
    ("orderings", r"(?<!fence\()\b(?:Acquire|Release)\b", ["Relaxed"]),
    ("orderings", r"(?<![\w.])(?:compiler_)?fence\(\w+\);", [""]),
    *[("boundaries", re.escape(f" {a} "), [f" {b} "]) for a, b in swap(("<", "<="), (">", ">="), ("==", "!="))],
    ("boundaries", r"\.min\(", [".max("]),
    ("boundaries", r"\.max\(", [".min("]),
    ("boundaries", r"\.\.=", [".."]),
    *[("arithmetic", re.escape(f" {a} "), [f" {b} "]) for a, b in swap(("+", "-"), ("<<", ">>"), ("&", "|"), ("*", "/"))],
    *[("arithmetic", rf"\.{a}\(", [f".{b}("]) for a, b in swap(("wrapping_add", "wrapping_sub"))],
    ("arithmetic", r"\.saturating_sub\(", [".saturating_add("]),
    ("arithmetic", r"(?<![\w.#])\d{1,2}(?![\w.])", ["+1", "-1"]),
    *[("counters", re.escape(f" {a} "), [f" {b} "]) for a, b in swap(("+=", "-="))],
    ("counters", r"(?m)^ +[\w.*:&()\[\]]+(?:\.add\(.*\)| [+-]= .*);$", [""]),
    ("counters", r"(?m)^ +[\w.*:&()\[\]]+\.(?:fetch_add|fetch_sub|set)\(.*\);$", [""]),
    ("conditions", r" && (?!let\b)", [" || "]),
    ("conditions", r"(?<![=,(|]) \|\| (?!\{)", [" && "]),
    ("conditions", r"\btrue\b", ["false"]),
    ("conditions", r"\bfalse\b", ["true"]),
    ("conditions", r"(?<=[ (])!(?=[\w(*])", [""]),
    *[("conditions", rf"\.{a}\(\)", [f".{b}()"]) for a, b in swap(("is_some", "is_none"), ("is_ok", "is_err"))],
    ("checks", r"(?m)^ +(?!let|return|break)[\w.:*]+\(.*\)\?;$", [""]),
    ("statements", r"(?m)^ +(?!let |return\b|break\b|continue\b|use |drop\(w|assert|type |mod |pub |fn |static )[\w*][\w.:*&()\[\], ]*;$", [""]),
]
IF = re.compile(r"^( +(?:\} else )?if )(?!let\b|cfg!)([^\n{]+)( \{)$", re.M)
FIELD = re.compile(r"^ +(\w+): (.*\.)(\w+)\b([^\w]*),$")


def changes(code, text):
    """(category, start, end, replacement) of every mistake in this product code, of which `text` has the strings too."""
    for category, pattern, replacements in PATTERNS:
        for m in re.finditer(pattern, code):
            start, end = m.span()
            if replacements == [""] and m.group().startswith(" "):
                start += len(m.group()) - len(m.group().lstrip())
            for new in replacements:
                if new in ("+1", "-1"):
                    value = int(m.group()) + int(new)
                    if value < 0:
                        continue
                    new = str(value)
                yield category, start, end, new
    for m in IF.finditer(code):
        condition = m.group(2)
        if " let " in condition:
            continue
        yield "conditions", m.start(2), m.end(2), f"!({text[m.start(2):m.end(2)]})"
        leaves = code[m.end() : m.end() + 200].lstrip()
        if leaves.startswith(("return", "continue", "break")):
            yield "checks", m.start(2), m.end(2), "false"
    yield from neighbours(code)


def neighbours(code):
    """The value of the next field of the same kind: of `a: x.a,` and `b: x.b,` the second's for the first."""
    at, last = 0, None
    for line in code.split("\n"):
        m = FIELD.match(line)
        if m and last and (m.group(2), m.group(4)) == (last[1].group(2), last[1].group(4)):
            start, before = last
            if before.group(3) != m.group(3):
                yield "counters", start + before.start(3), start + before.end(3), m.group(3)
        last = (at, m) if m else None
        at += len(line) + 1


def mistakes(path, text):
    """Every mistake that can be made in this source, in the order of its text."""
    code = product(masked(text))
    seen, found = {}, []
    for category, start, end, new in sorted(set(changes(code, text)), key=lambda c: (c[1], c[2], c[3], c[0])):
        old = text[start:end]
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        before, after = text[first:last].strip(), (text[first:start] + new + text[end:last]).strip()
        if before == after:
            continue
        nth = seen[before, after] = seen.get((before, after), -1) + 1
        line = text.count("\n", 0, start) + 1
        found.append(Mistake(path, category, start, old, new, line, before, after, nth))
    return found
