//! COLD: code addresses of the program as text.
//!
//! Unsafe code: dladdr1(3), which reads the lists of the dynamic linker. The strings that it finds, and the entry of the
//! object, stay valid while the object is loaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The return address of a call. 0 if it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub usize);

/// The result of dladdr1(3).
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    symbol_at: *mut c_void,
}

/// The beginning of the linker's entry of an object (`struct link_map`).
#[repr(C)]
struct Linked {
    /// The difference between the addresses in memory and those in the file: 0 for a program with fixed addresses, which
    /// has a base all the same.
    moved_by: usize,
}

unsafe extern "C" {
    fn dladdr1(address: *const c_void, found: *mut Found, entry: *mut *const Linked, which: c_int) -> c_int;
}

/// Asks dladdr1 for the entry of the object (`RTLD_DL_LINKMAP`).
const LINKED: c_int = 2;

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
        let mut entry = ptr::null();
        // SAFETY: dladdr1 takes any address and writes its results.
        let said = unsafe { dladdr1(ptr::without_provenance(at), &mut found, &mut entry, LINKED) };
        if said == 0 || found.file.is_null() {
            return Some(format!("{at:#x}"));
        }
        // SAFETY: dladdr1 succeeded, so this is the entry of a loaded object, or null.
        let moved_by = unsafe { entry.as_ref() }.map_or(found.base.addr(), |entry: &Linked| entry.moved_by);
        // SAFETY: dladdr1 succeeded, so these are strings, which stay valid while the object is loaded.
        let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let file = text(found.file);
        let name = file.rsplit('/').next().unwrap_or_default();
        let within = format!("{name}+{:#x}", at - moved_by);
        if found.symbol.is_null() {
            return Some(within);
        }
        Some(format!("{within} ({}+{:#x})", text(found.symbol), at - found.symbol_at.addr()))
    }
}
