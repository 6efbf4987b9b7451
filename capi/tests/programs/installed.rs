//! The archive, and its installation by the Makefile.

use crate::prefix::{command, folder, good, make, output, prefix, said, scratch};

/// Seen: libnetmem.a had 1290 global symbols, among them `rust_eh_personality`, which another archive from Rust has too.
#[test]
fn the_archive_defines_no_symbols_for_others_but_those_of_the_header() {
    let archive = prefix().join("lib/libnetmem.a");
    let symbols = good(command("nm").args(["--defined-only", "--extern-only"]).arg(archive));
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let others: Vec<&&str> = names.iter().filter(|name| !name.starts_with("netmem_")).collect();
    assert!(names.len() > 100 && others.is_empty(), "{others:?}");
}

/// Seen: `sudo make install` failed, since root had no cargo.
#[test]
fn what_was_built_is_installed_without_cargo() {
    prefix();
    let other = scratch().join("prefix-without-cargo");
    make(&["install", "CARGO=false"], &other);
    assert!(other.join("lib/libnetmem.so").exists() && other.join("lib/libnetmem.a").exists());
    assert!(["tsan.supp", "valgrind.supp"].iter().all(|name| other.join("share/netmem").join(name).exists()));
}

/// Seen: after `git pull`, `make install` installed the new header beside the library that was built before.
#[test]
fn a_source_that_changed_is_built_before_it_is_installed() {
    prefix();
    let other = scratch().join("prefix-of-a-change");
    let source = folder().join("src/lib.rs");
    let changed = format!("--what-if={}", source.display());
    assert!(source.exists() && !make(&["--dry-run", "install"], &other).contains("cargo build"));
    assert!(make(&["--dry-run", &changed, "install"], &other).contains("cargo build"));
}

/// Seen: make installed into the folder of the sources, and with a space into two folders.
#[test]
fn a_prefix_that_is_relative_or_has_a_space_is_refused_in_one_line() {
    for bad in ["PREFIX=rel/x", "PREFIX=/tmp/a b", "PREFIX=", "DESTDIR=rel"] {
        let out = output(command("make").arg("-C").arg(folder()).args(["--dry-run", "install", bad]));
        let said = said(&out);
        assert!(!out.status.success(), "{bad}\n{said}");
        let line = format!("{bad}: give a folder that begins with / and has no space");
        assert!(said.lines().any(|one| one.contains(&line)), "{said}");
    }
}

/// Seen: make looked in target/release, where cargo with a target puts nothing.
#[test]
fn a_build_for_a_target_is_installed_from_the_folder_of_that_target() {
    let target = "CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu";
    let said = make(&["--dry-run", "install", target], &scratch().join("prefix-of-a-target"));
    assert!(said.contains("/aarch64-unknown-linux-gnu/release/libnetmem_capi.so"), "{said}");
    assert!(said.contains("/aarch64-unknown-linux-gnu/release/libnetmem.a"), "{said}");
}
