//! A shared library that is opened at run time (dlopen(3)) and stays open.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// An open library.
#[derive(Debug, Clone, Copy)]
pub struct Library(*mut c_void);

impl Library {
    /// Opens the library with this name or path. Returns None if there is none.
    ///
    /// # Safety
    /// The code that it runs when it is opened is sound.
    pub unsafe fn open(name: &str) -> Option<Library> {
        let name = CString::new(name).ok()?;
        // SAFETY: a text that lives over the call; the caller answers for the library.
        let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!opened.is_null()).then_some(Library(opened))
    }

    /// Returns the function with this name, or None if there is none.
    ///
    /// # Safety
    /// `F` is a pointer to a function of the same type as the library's function.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a pointer to a function");
        // SAFETY: an address that is not NULL, of a function of that type: the caller's promise.
        self.address(name).map(|found| unsafe { std::mem::transmute_copy(&found) })
    }

    /// Returns the address of the symbol with this name, in the library or in one that it needs, or None if there
    /// is none.
    pub fn address(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: a library that is open, and a text that lives over the call.
        NonNull::new(unsafe { libc::dlsym(self.0, name.as_ptr()) })
    }
}
