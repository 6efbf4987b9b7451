//! Compiles the rivals' timed loops, with the feature `rivals` only.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
    #[cfg(feature = "rivals")]
    {
        shim();
        dpdk();
        println!("cargo::rustc-env=RTRB_VERSION={}", locked("rtrb"));
        println!("cargo::rustc-env=CROSSBEAM_VERSION={}", locked("crossbeam-queue"));
    }
}

/// As the product is compiled in a release: -O3 and the target's base instruction set.
#[cfg(feature = "rivals")]
fn shim() {
    let mut build = cc::Build::new();
    build.define("SNMALLOC_VERSION", format!("\"{}\"", locked("snmalloc-sys")).as_str());
    if let Some(include) = std::env::var_os("DEP_MIMALLOC_INCLUDE_DIR") {
        build.include(include);
    }
    build.file("shim/rivals.c").opt_level(3).warnings(true).extra_warnings(true).compile("rivals");
}

/// The version of a crate that does not say it itself, as the lock file has it.
#[cfg(feature = "rivals")]
fn locked(name: &str) -> String {
    println!("cargo::rerun-if-changed=../Cargo.lock");
    let lock = std::fs::read_to_string("../Cargo.lock").unwrap_or_default();
    let package = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).map(|(_, rest)| rest);
    package.and_then(|rest| rest.split('"').next()).unwrap_or("of unknown version").to_owned()
}

/// The archives of DPDK that mempools, mbufs and rings need, each before those that it needs; and what they need of
/// the system.
#[cfg(feature = "rivals")]
const DPDK: [&str; 6] = ["rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_kvargs", "rte_telemetry"];
#[cfg(feature = "rivals")]
const SYSTEM: [&str; 5] = ["numa", "bsd", "m", "dl", "pthread"];

/// The loops of DPDK, with `cfg(dpdk)`, if pkg-config finds it. Its archives are linked, so that none of its drivers is
/// looked for at run time.
#[cfg(feature = "rivals")]
fn dpdk() {
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    let found = pkg_config(&["--cflags", "libdpdk"]).zip(pkg_config(&["--variable=libdir", "libdpdk"]));
    let Some((flags, folder)) = found else { return };
    if !std::path::Path::new(&folder).join("librte_mempool_ring.a").exists() {
        return;
    }
    let mut build = cc::Build::new();
    flags.split_whitespace().for_each(|flag| {
        build.flag(flag);
    });
    // Whoever builds the product for this machine builds its rival for it.
    if std::env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("target-cpu=native")) {
        build.flag("-march=native");
    }
    build.file("shim/dpdk.c").opt_level(3).warnings(true).extra_warnings(true).compile("rivals_dpdk");
    println!("cargo::rustc-cfg=dpdk");
    println!("cargo::rustc-link-search=native={folder}");
    // Nothing names what it holds: it registers itself.
    println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=rte_mempool_ring");
    DPDK.iter().for_each(|name| println!("cargo::rustc-link-lib=static:-bundle={name}"));
    SYSTEM.iter().for_each(|name| println!("cargo::rustc-link-lib={name}"));
}

#[cfg(feature = "rivals")]
fn pkg_config(arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new("pkg-config").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
