//! The netmem program.
fn main() {}
