"""Mistakes as switches: many of them in one build, of which a run makes the one that NETMEM_MISTAKE names."""

import hashlib
import re

from operators import masked

# Behind the library's root: which mistake a run makes.
ROOT = """
/// Whether this run makes the mistake of this number.
#[doc(hidden)]
pub fn mistake(number: u32) -> bool {
    static MADE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let made = || std::env::var("NETMEM_MISTAKE").map_or(0, |number| number.parse().unwrap_or(0));
    number == *MADE.get_or_init(made)
}
"""
ORDERING = "std::sync::atomic::Ordering::"

# A whole line: what stands before the expression that is changed, and behind it.
FORMS = [
    # A condition; one of several lines; what follows `else`.
    (r"(?:\} else )?if (?!let\b)", r" \{"),
    (r"while (?!let\b)", r" \{"),
    (r"\(", r"\)\.then\(\|\| \{"),
    (r"(?:&&|\|\|) (?!let\b)", r"(?: \{)?"),
    (r"let [\w ():,&<>\[\]]+? = ", r" else \{(?: .* \};)?"),
    (r"let [\w ():,&<>\[\]]+? = ", r";"),
    (r"return ", r";"),
    # A match arm, a field, an argument.
    (r"[\w:(){}|&, .]+ => ", r",?"),
    (r"\w+: ", r","),
]


def number(mistake):
    """By its text, so that it stays what it is when other mistakes come and go."""
    return int.from_bytes(hashlib.sha256(mistake.key().encode()).digest()[:4]) | 1


def is_balanced(code):
    depth = 0
    for c in code:
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            return False
    return depth == 0


def is_expression(code):
    """Whether this may be one: closures that begin here end here, and nothing is cut off."""
    return bool(code.strip()) and is_balanced(code) and not re.match(r"^(\||move\b|let\b|mut\b)", code) and not code.endswith(("=", "|"))


def switch(mistake, text):
    """The line of the mistake with the switch in it; None where this small grammar finds no way."""
    first, last = text.rfind("\n", 0, mistake.at) + 1, text.find("\n", mistake.at)
    line, at = text[first:last], mistake.at - first
    end = at + len(mistake.old)
    if end > len(line):
        return None
    crate = "crate" if mistake.path.startswith("src/") else "netmem"
    made = f"{crate}::mistake({number(mistake)})"
    old, new = mistake.old, mistake.new
    if re.fullmatch(r"(Ordering::)?(Acquire|Release|AcqRel)", old):
        new, old = new.removeprefix("Ordering::"), old.removeprefix("Ordering::")
        value = f"if {made} {{ {ORDERING}{new} }} else {{ {ORDERING}{old} }}"
        return f"{line[:at]}({value}){line[end:]}"
    if re.fullmatch(r"\d+|true|false", old):
        return f"{line[:at]}(if {made} {{ {new} }} else {{ {old} }}){line[end:]}"
    indent = line[: len(line) - len(line.lstrip())]
    code, body = masked(text)[first:last].strip(), line.strip()
    wrong = (line[:at] + new + line[end:]).strip()
    for before, behind in FORMS:
        m = re.fullmatch(f"({before})(.*?)({behind})", code)
        if m and is_expression(m.group(2)):
            start, stop = m.span(2)
            tail = len(body) - stop
            value = f"(if {made} {{ {wrong[start:len(wrong) - tail]} }} else {{ {body[start:stop]} }})"
            if not (body[:start] == wrong[:start] and body[stop:] == wrong[len(wrong) - tail :]):
                return None
            return f"{indent}{body[:start]}{value}{body[stop:]}"
    following = text[last + 1 :].lstrip()
    is_statement = code.endswith(";") and is_balanced(code) and not code.startswith(("let ", ".", "return"))
    is_tail = is_expression(code) and following.startswith("}") and not code.startswith((".", "&&", "||", "fn ", "+", "-", "?"))
    previous = text[:first].rstrip()
    begins = previous.endswith((";", "{", "}")) or masked(text)[:first].rstrip().endswith((";", "{", "}"))
    if (is_statement or is_tail and not code.endswith(",")) and begins:
        return f"{indent}if {made} {{ {wrong} }} else {{ {body} }}"
    return None


def switched(text, chosen):
    """A source with the switches of these mistakes, no two of which are on one line."""
    by_line = {mistake.line: switch(mistake, text) for mistake in chosen}
    lines = text.split("\n")
    return "\n".join(by_line.get(number, line) for number, line in enumerate(lines, 1))
