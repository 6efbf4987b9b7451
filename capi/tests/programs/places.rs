//! Call sites as addresses in the program.

use crate::prefix::{Compiler, GCC, command, compiled, good};

/// Seen: addr2line printed "??:0" for the address in a program that is not position-independent.
#[test]
fn addr2line_finds_the_line_of_a_call_site_in_programs_at_any_and_at_fixed_addresses() {
    const FIXED: Compiler = Compiler { program: "gcc", flags: &["-std=gnu11", "-O2", "-g", "-no-pie"] };
    for compiler in [GCC, FIXED] {
        let program = compiled("tests/c/place.c", &compiler);
        let site = good(&mut command(&program));
        let address = site.split('+').nth(1).and_then(|text| text.split_whitespace().next());
        let line = good(command("addr2line").arg("-e").arg(&program).arg(address.expect(&site)));
        assert!(line.contains("place.c:"), "{site}{line}");
    }
}
