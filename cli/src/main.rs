//! The `netmem` program, which `netmem_cli` is.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    netmem_cli::main()
}
