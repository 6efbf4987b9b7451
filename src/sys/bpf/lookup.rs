//! The kernel's route lookup (`bpf_fib_lookup`). A BPF program of netmem asks for one destination after the other,
//! inside the kernel: no packet is sent, and no answer crosses a socket.
//!
//! BPF_PROG_TEST_RUN runs the program. Each run takes the next destination from a map, asks the kernel, and records the
//! answer:
//!
//! ```text
//!   state.next += 1  ─►  destinations[state.next]  ─►  bpf_fib_lookup  ─►  state.result, state.mac, state.others
//! ```
//! The same program without the call measures the cost of the rest.
//!
//! Source: bpf-helpers(7) on `bpf_fib_lookup`, `struct bpf_fib_lookup` of `linux/bpf.h`.

use super::instruction::{Assembler, Instruction, Load, Store, When};
use super::map::{BPF_MAP_TYPE_ARRAY, Map, failed};
use super::test_run::test_run;
use super::{BpfError, BpfStep, ON_PACKETS, Program, load_or_say_why};
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Functions of the kernel (`linux/bpf.h`).
const MAP_LOOKUP: i32 = 1;
const FIB_LOOKUP: i32 = 69;

/// The verdict that passes a packet: TC_ACT_OK.
const GO_ON: i32 = 0;

/// `struct bpf_fib_lookup`: its length, and the positions of its fields.
const PARAMS: i16 = 64;
const FAMILY: i16 = 0;
const TOTAL_LENGTH: i16 = 6;
const INTERFACE: i16 = 8;
const DESTINATION: i16 = 32;
const DESTINATION_MAC: i16 = 58;

/// Its position on the program's stack, and behind it the key of a map.
const ON_STACK: i16 = -72;
const KEY: i16 = -8;

/// The fields of the state, in a value of [`STATE`] bytes.
const NEXT: i16 = 0;
const OTHERS: i16 = 4;
const RESULT: i16 = 8;
const MAC: i16 = 12;
const STATE: usize = 24;

/// The length of the packet in a lookup: far below any link's MTU, so that it never decides the result.
const PACKET: i32 = 64;

/// The frame that a run is given. The program does not read it.
const FRAME: [u8; 64] = [0; 64];

/// Registers: argument, kept context, state, destination, stack.
const ARGUMENT: u8 = 1;
const CONTEXT: u8 = 6;
const THE_STATE: u8 = 7;
const THE_DESTINATION: u8 = 8;
const STACK: u8 = 10;

/// The kernel's answer for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The packet goes to the station with this MAC address.
    Station([u8; 6]),
    /// Any other result of the function: `BPF_FIB_LKUP_RET_…` of `linux/bpf.h`.
    Other(u32),
}

impl Answer {
    /// A `blackhole` route.
    pub const BLACKHOLE: Answer = Answer::Other(1);
}

/// The kernel's route lookup, for a list of destinations of one family.
///
/// A run is in the network namespace of the calling thread.
#[derive(Debug)]
pub struct RouteLookup {
    asking: OwnedFd,
    bare: OwnedFd,
    state: Map<4, STATE>,
    /// The programs hold this map, too.
    _destinations: Map<4, 16>,
}

impl RouteLookup {
    /// Loads the lookup for packets that come in through interface number `interface` for these destinations, in turn.
    /// It uses as many of them as the largest power of two that is not above their number. All have the family of the
    /// first.
    ///
    /// # Errors
    /// [`BpfError`]: `PERM` without CAP_BPF and CAP_NET_ADMIN, `INVAL` without a destination. If the verifier refused,
    /// with its words.
    pub fn load(interface: u32, destinations: &[IpAddr]) -> Result<RouteLookup, BpfError> {
        let step = BpfStep::CreateLookupMap;
        let count = 1_u32 << destinations.len().checked_ilog2().ok_or(BpfError::new(step, Errno::INVAL))?;
        let (kind, name) = (BPF_MAP_TYPE_ARRAY, b"netmem_lookup\0\0\0");
        let state = Map::new(kind, 1, 0, name).map_err(failed(step))?;
        let to = Map::new(kind, count, 0, name).map_err(failed(step))?;
        for (place, destination) in (0..count).zip(destinations) {
            to.insert(place.to_ne_bytes(), octets(*destination)).map_err(failed(step))?;
        }
        let v6 = destinations[0].is_ipv6();
        let program = |asks| {
            let code = &program((state.raw(), to.raw()), (count, v6), interface, asks);
            // Only programs under the GPL may call the function. The licence of this crate allows everybody to pass
            // these instructions on under the GPL, and this is the kernel's word for that. An XDP program would do as
            // well, but to run one several times the kernel waits for all cores, twice.
            let license = c"Dual MIT/GPL";
            let program = Program { kind: ON_PACKETS, name: b"netmem_lookup\0\0\0", license, code };
            load_or_say_why(BpfStep::LoadLookup, &program)
        };
        Ok(RouteLookup { asking: program(true)?, bare: program(false)?, state, _destinations: to })
    }

    /// Asks for the next `count` destinations.
    ///
    /// # Errors
    /// [`BpfError`] if the kernel does not run the program; `INTR` for a signal.
    pub fn ask(&self, count: u32) -> Result<(), BpfError> {
        run(&self.asking, count).map_err(failed(BpfStep::RunLookup))
    }

    /// Does everything that [`ask`](Self::ask) does, except the lookup itself.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask).
    pub fn pass_over(&self, count: u32) -> Result<(), BpfError> {
        run(&self.bare, count).map_err(failed(BpfStep::RunLookup))
    }

    /// The kernel's answer for destination number `place`. The next lookup continues with the destination behind it.
    ///
    /// # Errors
    /// [`BpfError`] if the kernel does not run the program.
    pub fn answer(&self, place: u32) -> Result<Answer, BpfError> {
        let step = BpfStep::RunLookup;
        let mut state = [0; STATE];
        state[..4].copy_from_slice(&place.to_ne_bytes());
        self.state.insert([0; 4], state).map_err(failed(step))?;
        self.ask(1)?;
        let state = self.state.get([0; 4]).map_err(failed(step))?;
        Ok(match word(&state, RESULT) {
            0 => {
                let mac = MAC as usize;
                Answer::Station([0, 1, 2, 3, 4, 5].map(|byte| state[mac + byte]))
            }
            other => Answer::Other(other),
        })
    }

    /// The number of destinations since the last [`answer`](Self::answer) that did not lead to a station.
    ///
    /// # Errors
    /// [`BpfError`] if the map cannot be read.
    pub fn others(&self) -> Result<u32, BpfError> {
        let state = self.state.get([0; 4]).map_err(failed(BpfStep::RunLookup))?;
        Ok(word(&state, OTHERS))
    }
}

/// The octets in network order, an IPv4 address in the first four.
fn octets(address: IpAddr) -> [u8; 16] {
    let mut octets = [0; 16];
    match address {
        IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => octets = address.octets(),
    }
    octets
}

fn word(state: &[u8; STATE], at: i16) -> u32 {
    let at = at as usize;
    u32::from_ne_bytes([0, 1, 2, 3].map(|byte| state[at + byte]))
}

/// The program over the maps of state and destinations. A run without `asks` makes no call and counts nothing.
fn program(
    (state, destinations): (i32, i32),
    (count, v6): (u32, bool),
    interface: u32,
    asks: bool,
) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let done = a.label();
    a.copy(CONTEXT, ARGUMENT);
    a.set(3, 0);
    a.store(Store::Word, STACK, KEY, 3);
    element(&mut a, state, THE_STATE);
    a.go_when(THE_STATE, When::Equal, 0, done);
    a.load(Load::Word, 3, THE_STATE, NEXT);
    a.copy(4, 3);
    a.add(4, 1);
    a.store(Store::Word, THE_STATE, NEXT, 4);
    a.and(3, count as i32 - 1);
    a.store(Store::Word, STACK, KEY, 3);
    element(&mut a, destinations, THE_DESTINATION);
    a.go_when(THE_DESTINATION, When::Equal, 0, done);
    write_params(&mut a, v6, interface);
    a.copy(1, CONTEXT);
    a.copy(2, STACK);
    a.add(2, ON_STACK.into());
    a.set(3, PARAMS.into());
    a.set(4, 0);
    if asks {
        a.call(FIB_LOOKUP);
    } else {
        a.set(0, 0);
    }
    note_answer(&mut a);
    a.here(done);
    a.set(0, GO_ON);
    a.exit();
    a.finish()
}

/// Loads the address of the array element whose number lies on the stack, or 0.
fn element(a: &mut Assembler, map: i32, into: u8) {
    a.set_map(1, map);
    a.copy(2, STACK);
    a.add(2, KEY.into());
    a.call(MAP_LOOKUP);
    a.copy(into, 0);
}

/// Writes all of `struct bpf_fib_lookup`. Fields that are not named here are 0.
fn write_params(a: &mut Assembler, v6: bool, interface: u32) {
    a.set(3, 0);
    for word in (0..PARAMS).step_by(8) {
        a.store(Store::Double, STACK, ON_STACK + word, 3);
    }
    // The protocol beside it is 0; so is the high byte.
    a.set(3, if v6 { libc::AF_INET6 } else { libc::AF_INET });
    a.store(Store::Half, STACK, ON_STACK + FAMILY, 3);
    a.set(3, PACKET);
    a.store(Store::Half, STACK, ON_STACK + TOTAL_LENGTH, 3);
    a.set(3, interface as i32);
    a.store(Store::Word, STACK, ON_STACK + INTERFACE, 3);
    let (load, store, parts): (_, _, &[i16]) =
        if v6 { (Load::Double, Store::Double, &[0, 8]) } else { (Load::Word, Store::Word, &[0]) };
    for part in parts {
        a.load(load, 3, THE_DESTINATION, *part);
        a.store(store, STACK, ON_STACK + DESTINATION + part, 3);
    }
}

/// Records the result, the MAC address, and whether the answer was not a station.
fn note_answer(a: &mut Assembler) {
    a.store(Store::Word, THE_STATE, RESULT, 0);
    for part in [0, 2, 4] {
        a.load(Load::Half, 3, STACK, ON_STACK + DESTINATION_MAC + part);
        a.store(Store::Half, THE_STATE, MAC + part, 3);
    }
    let station = a.label();
    a.go_when(0, When::Equal, 0, station);
    a.load(Load::Word, 3, THE_STATE, OTHERS);
    a.add(3, 1);
    a.store(Store::Word, THE_STATE, OTHERS, 3);
    a.here(station);
}

/// Runs a program `count` times.
fn run(program: &OwnedFd, count: u32) -> Result<(), Errno> {
    if count == 0 { Ok(()) } else { test_run(program, &FRAME, count).map(drop) }
}
