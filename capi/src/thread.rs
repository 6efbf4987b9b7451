//! Which thread this is, in one instruction.
//!
//! Unsafe code: the register that holds a thread's own address is read by assembly. Nothing is read or written through it.

/// A number of this thread that no other one has that lives; not 0.
#[inline(always)]
pub fn here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let own: usize;
        // SAFETY: the x86-64 ABI for TLS has the thread's control block at fs, and the block's own address in its first word;
        // it is a load of the thread's own memory.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) own, options(nostack, preserves_flags, pure, readonly))
        };
        own
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        thread_local!(static OWN: u8 = const { 0 });
        OWN.with(|own| std::ptr::from_ref(own).addr())
    }
}
