//! What the kernel reports beside a received frame, as control messages (cmsg(3)): the VLAN tag that it took out, and the
//! time at which it received the frame.

use std::mem::size_of;
use std::time::Duration;

/// The tag's type if the kernel does not say: 802.1Q.
const VLAN: u16 = 0x8100;

/// Memory for the control messages of one frame, aligned as their headers.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control([u8; CONTROL]);

// SAFETY: CMSG_SPACE only computes.
const CONTROL: usize = unsafe {
    libc::CMSG_SPACE(size_of::<libc::timespec>() as u32)
        + libc::CMSG_SPACE(size_of::<libc::tpacket_auxdata>() as u32)
} as usize;

impl Control {
    pub(super) const EMPTY: Control = Control([0; CONTROL]);

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// Returns the tag that the kernel took out of a received frame, and the time at which it received the frame, as far as
/// it reports them.
///
/// # Safety
/// The kernel must have received the message, into a control buffer that is still there.
pub(super) unsafe fn reported(message: &libc::msghdr) -> (Option<[u8; 4]>, Option<Duration>) {
    let (mut tag, mut time) = (None, None);
    // SAFETY: the kernel has set `msg_controllen` to what it wrote into the buffer that `msg_control` points to, as the
    // caller promises; the buffer is aligned as a cmsghdr.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a whole header in that buffer.
    while let Some(control) = unsafe { next.as_ref() } {
        match (control.cmsg_level, control.cmsg_type) {
            // SAFETY: `control` is in the buffer, with its data. Both types are plain integers.
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => tag = unsafe { data(control) }.and_then(tag_of),
            // SAFETY: as above.
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => time = unsafe { data(control) }.and_then(time_of),
            _ => {}
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    (tag, time)
}

/// Reads the data of a control message, if there is enough of it.
///
/// # Safety
/// The message must lie in a buffer with as many bytes as its header says. Any bytes must be a `T`.
unsafe fn data<T>(control: &libc::cmsghdr) -> Option<T> {
    #[allow(clippy::unnecessary_cast)] // with musl it is a u32
    let whole = control.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size_of::<T>();
    // SAFETY: the message has as many bytes as are read, as the caller promises, and any of them are a `T`.
    whole.then(|| unsafe { libc::CMSG_DATA(control).cast::<T>().read_unaligned() })
}

fn tag_of(aux: libc::tpacket_auxdata) -> Option<[u8; 4]> {
    let has = |bit: u32| aux.tp_status & bit != 0;
    has(libc::TP_STATUS_VLAN_VALID).then(|| {
        let kind = if has(libc::TP_STATUS_VLAN_TPID_VALID) { aux.tp_vlan_tpid } else { VLAN };
        let [[a, b], [c, d]] = [kind, aux.tp_vlan_tci].map(u16::to_be_bytes);
        [a, b, c, d]
    })
}

/// None for a time before 1970.
fn time_of(at: libc::timespec) -> Option<Duration> {
    let nanos = u32::try_from(at.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(at.tv_sec).ok()?, nanos))
}
