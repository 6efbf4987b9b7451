//! The `netmem` program. Its code is in `netmem_cli`.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    netmem_cli::main()
}
