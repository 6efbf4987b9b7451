//! Compiles the rivals' timed loops, with the feature `rivals` only.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim/rivals.c");
    #[cfg(feature = "rivals")]
    shim();
}

/// As the product is compiled in a release: -O3 and the target's base instruction set.
#[cfg(feature = "rivals")]
fn shim() {
    let mut build = cc::Build::new();
    if let Some(include) = std::env::var_os("DEP_MIMALLOC_INCLUDE_DIR") {
        build.include(include);
    }
    build.file("shim/rivals.c").opt_level(3).warnings(true).extra_warnings(true).compile("rivals");
}
