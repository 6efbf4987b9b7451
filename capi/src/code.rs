//! COLD: code addresses of the program as text.
//!
//! Unsafe code: dladdr(3), which reads the lists of the dynamic linker. The strings that it finds stay valid while the
//! object is loaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The return address of a call. 0 if it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub usize);

/// The result of dladdr(3).
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
    /// No address.
    pub const UNKNOWN: Code = Code(0);

    /// Returns the address as "program+0x1234 (function+0x56)", with the offset that addr2line(1) takes, or
    /// None if it is not known.
    pub fn text(self) -> Option<String> {
        // The call instruction lies before its return address.
        let at = self.0.checked_sub(1)?;
        let mut found = Found {
            file: ptr::null(),
            base: ptr::null_mut(),
            symbol: ptr::null(),
            symbol_at: ptr::null_mut(),
        };
        // SAFETY: dladdr takes any address and writes its result.
        if unsafe { dladdr(ptr::without_provenance(at), &mut found) } == 0 || found.file.is_null() {
            return Some(format!("{at:#x}"));
        }
        // SAFETY: dladdr succeeded, so these are strings, which stay valid while the object is loaded.
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
