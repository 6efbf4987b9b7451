//! The state and the counters of a port, and the calls of a thread that sleeps. None of them moves frames.

use super::port::find_port;
use super::types::{list, netmem_count, netmem_port, netmem_worker, place};
use super::worker::{cold, out};
use crate::errno::ENETDOWN;
use crate::failure::Failure;
use crate::own;
use crate::process::Uncancelled;
use crate::registry;
use crate::sites::Site;
use crate::word;
use crate::workers::{OpenPort, State, go_in};
use netmem::PortState;
use netmem::port::xdp::Netdev;
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

/// Runs a call on a port that does not move frames.
fn with(
    (worker, port, call): (netmem_worker, netmem_port, &str),
    work: impl FnOnce(&mut OpenPort) -> Result<c_int, Failure>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, Site::UNKNOWN) };
    // Some devices look at a file, which is a cancellation point.
    let _uncancelled = Uncancelled::begin();
    match find_port(&mut inside.ports, port, call, Site::UNKNOWN) {
        Ok(open) => work(open).unwrap_or_else(Failure::record),
        Err(errno) => errno,
    }
}

/// Wakes the device if it asked for that. Call it once in each round, after the other calls.
/// If a memif port is down, this call continues its handshake. netmem_port_arm and netmem_port_disarm also do
/// so, at once. To wait until the port is up, repeat netmem_port_kick until netmem_port_state returns 0.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_kick(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_kick"), |open| {
        open.port.kick();
        Ok(0)
    })
}

/// Arms the descriptor of netmem_port_fd, before the thread sleeps on it.
/// Returns 0 if nothing has arrived, also if the port is down: the thread may sleep, but each sleep needs a limit
/// (netmem_port_fd). Returns 1 if something has arrived already: the thread should not sleep then.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_arm(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_arm"), |open| {
        open.is_armed = true;
        Ok((open.port.arm() || !open.received.is_empty()).into())
    })
}

/// Disarms the descriptor of netmem_port_fd, after the thread has slept.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_disarm(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_disarm"), |open| {
        open.is_armed = false;
        open.port.disarm();
        Ok(0)
    })
}

/// Returns the descriptor on which the thread sleeps. While the port is armed, it becomes readable when
/// something arrives. The port owns the descriptor and closes it. It may be another one, or none, after each
/// netmem_port_arm: ask for it before each sleep, and register it again in an epoll set of the program (epoll_ctl).
/// Give each sleep a limit, such as 500 ms, and make a round after it: nothing wakes the thread if the interface of an
/// xdp port is removed, and such a port comes up again only by calls. Frames that are freed to an empty pool and
/// completions of some drivers do not wake it either.
/// Returns -ENETDOWN if the port is down and has no descriptor until it is up; netmem_last_error gives the reason. Poll
/// it at an interval, such as 50 ms, until it has one. Returns -EINVAL if the port is up and has no descriptor: poll it
/// instead.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_fd(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_fd"), |open| {
        if let Some(fd) = open.port.wakeup_fd() {
            return Ok(fd.as_raw_fd());
        }
        Err(match open.port.state() {
            PortState::Up => Failure::invalid("this port cannot wake a sleeping thread: poll it"),
            PortState::Down(why) => Failure::new(ENETDOWN, why),
        })
    })
}

/// Looks at the device now, which takes some system calls: do not call it for each packet.
/// Returns 0 if the port carries frames. Returns -ENETDOWN if it does not; netmem_last_error gives the
/// reason, and netmem_port_is_failed says whether the port can come up again.
/// Between netmem_port_arm and netmem_port_disarm, the result is the state at netmem_port_arm.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_state(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_state"), |open| {
        look(open);
        match open.port.state() {
            PortState::Up => Ok(0),
            PortState::Down(why) => Err(Failure::new(ENETDOWN, why)),
        }
    })
}

/// Makes the port look at its device, as it does by itself only when it is armed and every so many rounds. An armed port
/// has looked, and a second look would take the event that wakes the thread.
fn look(open: &mut OpenPort) {
    if !open.is_armed {
        let _ = open.port.arm();
        open.port.disarm();
    }
}

/// Returns 1 if the port is down for good: close it, and open it again. Returns 0 otherwise, also for a port that is
/// down until its link, peer or interface comes back. It looks at the device as netmem_port_state does.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_is_failed(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_is_failed"), |open| {
        look(open);
        Ok(open.port.is_failed().into())
    })
}

/// Returns the number of frames that were posted for transmission and that netmem_port_complete has not claimed yet.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_tx_posted(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_tx_posted"), |open| Ok(number(open.port.tx_posted())))
}

/// Returns the number of completed frames whose copies a memif peer has not read yet. They are lost if the port is
/// closed now. It is 0 for other ports, which have sent the frames that they complete, and for lent frames.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_tx_unread(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_tx_unread"), |open| Ok(number(open.port.tx_unread())))
}

fn number(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

/// Returns 1 if the port will receive nothing more, because it reads a file and has reached its end. Returns
/// 0 otherwise. The result is the state at the last netmem_port_kick.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_finished(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_finished"), |open| {
        Ok((open.received.is_empty() && open.port.rx_finished()).into())
    })
}

/// Writes the name of the port, such as "xdp:eth0", to `name`. The name is valid until the port is closed.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_name(
    worker: netmem_worker,
    port: netmem_port,
    name: *mut *const c_char,
) -> c_int {
    with((worker, port, "netmem_port_name"), |open| {
        // SAFETY: the promise of C.
        *unsafe { place("name", name) }? = open.name.as_ptr();
        Ok(0)
    })
}

/// Writes what is known of the port beyond its name to `detail`, as netmem gen prints it: of an xdp port the mode of its
/// program and whether frames are copied, as in "native mode, zero-copy" or "generic mode (native: Operation not
/// supported), copied by the kernel", then what it leaves to the kernel. Other ports have other words, or none (""). It is
/// a line for people: later versions may word it differently. It tells of the time when the port was opened, and is valid
/// until the port is closed.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_detail(
    worker: netmem_worker,
    port: netmem_port,
    detail: *mut *const c_char,
) -> c_int {
    with((worker, port, "netmem_port_detail"), |open| {
        // SAFETY: the promise of C.
        *unsafe { place("detail", detail) }? = open.detail.as_ptr();
        Ok(0)
    })
}

/// Writes the MAC address of the port's end of its link to the six bytes at `mac`. For xdp and packet ports that is the
/// address that their interface has now. The call asks for it by the interface's name, in the network namespace of the
/// calling thread; while there is no such interface, it writes the address that it knew last. For other ports it is mac=
/// of the port's string, or otherwise an address that was generated when the port was opened.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_mac(worker: netmem_worker, port: netmem_port, mac: *mut u8) -> c_int {
    with((worker, port, "netmem_port_mac"), |open| {
        // SAFETY: the promise of C.
        let to = unsafe { place("mac", mac.cast::<[u8; 6]>()) }?;
        open.mac = open
            .interface
            .as_deref()
            .and_then(|name| Netdev::open(name).ok()?.frame_mac().ok())
            .unwrap_or(open.mac);
        *to = open.mac;
        Ok(0)
    })
}

/// Returns the MTU of the port's interface when the port was opened, in bytes without the Ethernet header. Returns 0 if
/// the link has no interface, as that of a memif or pcap port.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_mtu(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_mtu"), |open| Ok(open.mtu.unwrap_or(0).into()))
}

/// Asks the port to keep what senders leave to a card (`keep` is 1), or not to (0, as after netmem_port_open): checksums
/// to be completed and segments to be cut. Without it, the port completes and cuts what it receives, so that a program
/// need not look. With it, received frames have an offload (netmem_get_offload) if work is left, and a packet of up to
/// 64 KiB that stands for many comes in as few frames as it fits: open a pool with frame_size 32768. Packets that were
/// received before stay as they are.
/// Returns 1 if the port keeps offloads now: `packet` and `tap` ports. Returns 0 if it does not: with `keep` 0, and for
/// other ports, whose devices do not tell what is left. Their frames come complete.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_keep_offloads(worker: netmem_worker, port: netmem_port, keep: c_int) -> c_int {
    const CALL: &str = "netmem_port_keep_offloads";
    with((worker, port, CALL), |open| match keep {
        0 | 1 => Ok(open.port.keep_offloads(keep == 1).into()),
        _ => Err(Failure::invalid(format!("{CALL}: keep is {keep}: give 0 or 1"))),
    })
}

/// Returns 1 if the port takes frames with an offload for transmission: the kernel does the work, or passes it on to the
/// receiver (`packet` and `tap` ports). Returns 0 if it does not take them: call netmem_finish_checksum and
/// netmem_cut_segments first, which do the work in the program. netmem_port_take_unsendable finds such frames.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_carries_offloads(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_carries_offloads"), |open| Ok(open.port.carries_offloads().into()))
}

/// Reads the counters of a port, under the names that `netmem stat ports` shows. Writes at most `room`
/// counters to `counts`. There are 27 in this version: room for 64 is enough until 1.0.
/// Frames received:
///   rx, rx_bytes   received, and their bytes
///   filled         empty frames posted for reception
///   rx_no_frame    dropped: no empty frame was posted (netmem_port_refill)
///   rx_ring_full   dropped: the program did not receive fast enough
///   rx_too_long    dropped: longer than the posted frames, or than 64 KiB
///   rx_dropped     dropped for another cause, or not received before the port was closed
///   rx_kernel      left to the kernel, which has them
///   rx_snapped     truncated when they were recorded (pcap)
///   rx_other_link  of a capture, skipped: no Ethernet frames
///   csum_completed received with a checksum that the sender had left open, which the port completed
///   gso_cut, gso_kept                    packets that stand for many: cut into frames, or kept
///   cut_without_size, udp_without_size   of these: cut to an MTU; dropped
/// Frames transmitted:
///   tx, tx_bytes   taken for transmission, and their bytes
///   completed      sent or given up, and claimed by netmem_port_complete
///   tx_lost        of the completed frames: not sent, such as those of a capture on a full disk
///   tx_left_unread of the completed frames: a memif peer had not acknowledged them when it went (or was closed). It may
///                  have read the last of them
///   tx_stranded    taken and never completed: the device had them when its interface went
///   tx_invalid     frames that the port can never carry, one for each offer, and taken frames that the device refused
///   tx_too_long    as tx_invalid, for frames that lie in more pieces than the device takes
///   wrong_memory   as tx_invalid, for frames of a memory that the device cannot reach
/// Others: bad_descriptor (each takes the port down), kicks (system calls that woke the device), copied (frames copied
/// between the device's memory and frames).
/// Of the completed frames, tx_lost and tx_invalid were not sent, if the program takes frames that the port can never
/// carry out before netmem_port_tx (netmem_port_take_unsendable). Otherwise tx_invalid also counts frames that were not
/// taken.
/// The kernel completes also frames that an interface without carrier drops. No counter of the port has these: the kernel
/// counts them (tx_dropped of `ip -s link`).
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_counts(
    worker: netmem_worker,
    port: netmem_port,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    with((worker, port, "netmem_port_counts"), |open| {
        let counters = open.port.counters();
        let all = counters.iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}

/// Closes a port. Its frames are freed, except for frames that the device still uses: an AF_XDP device in zero-copy mode
/// that does not give up its ring, or one whose interface went. They stay `posted` in netmem_pool_ledger, and
/// netmem_pool_close then returns -ETIMEDOUT. Frames that were received and not yet passed to the program are freed, and
/// counted nowhere. Received frames of a memory of the port's own (netmem_port_open) stay valid until they are freed.
/// netmem_memory_close waits for them, and says how many are left and of which port.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_close(worker: netmem_worker, port: netmem_port) -> c_int {
    cold(worker, "netmem_port_close", |mut inside| {
        let State { ports, worker, .. } = &mut *inside;
        if let Err(errno) = find_port(ports, port, "netmem_port_close", Site::UNKNOWN) {
            return Ok(errno);
        }
        registry::remove_port(port.word);
        let mut open = ports[word::place(port.word)].take();
        if let Some(open) = &mut open {
            open.received.free(worker);
        }
        let own = open.as_ref().and_then(|open| open.port.own_pool().cloned());
        drop(open);
        if let Some(pool) = own {
            own::close(&pool);
        }
        Ok(0)
    })
}
