//! COLD: places in the program's code, as text.
//!
//! Unsafe code: dladdr(3), which reads the lists of the dynamic linker, and the strings that it finds there, which stay for as long as the
//! object is loaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The address behind a call; 0 where it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub usize);

/// What dladdr(3) says.
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    symbol_at: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
}

impl Code {
    /// Where it was not said.
    pub const UNKNOWN: Code = Code(0);

    /// As "program+0x1234 (function+0x56)", the offset as addr2line(1) takes it; None where it is not known.
    pub fn text(self) -> Option<String> {
        // The call itself is before the address that it returns to.
        let at = self.0.checked_sub(1)?;
        let mut found = Found {
            file: ptr::null(),
            base: ptr::null_mut(),
            symbol: ptr::null(),
            symbol_at: ptr::null_mut(),
        };
        // SAFETY: it takes any address, and writes what it finds.
        if unsafe { dladdr(ptr::without_provenance(at), &mut found) } == 0 || found.file.is_null() {
            return Some(format!("{at:#x}"));
        }
        // SAFETY: it was found, so these are strings, which stay while the object is loaded.
        let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let file = text(found.file);
        let name = file.rsplit('/').next().unwrap_or_default();
        let within = format!("{name}+{:#x}", at - found.base.addr());
        if found.symbol.is_null() {
            return Some(within);
        }
        Some(format!("{within} ({}+{:#x})", text(found.symbol), at - found.symbol_at.addr()))
    }
}
