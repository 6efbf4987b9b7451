//! Gives the shared library the name and the versions of symbols that programs are linked against.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=libnetmem.map");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnetmem.so.0");
    // A thread calls a function of the library when it ends (src/thread.rs), so the library is never unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/libnetmem.map");
}
