//! The maps of the redirect program: from receive queue to socket, of own addresses, and of counts of the frames left
//! to the kernel.

use super::{BPF_OBJ_GET_INFO_BY_FD, BpfError, BpfStep, InfoByFd, MapInfo, bpf, bpf_fd};
use crate::sys::broker::{self, Action, Element, MapKind, Request};
use ipnet::IpNet;
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;

pub(super) const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_LPM_TRIE: u32 = 11;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
/// Changes an element only if it exists.
const BPF_EXIST: u64 = 2;
/// Entries are allocated when they are made.
const BPF_F_NO_PREALLOC: u32 = 1;

/// The maximum number of receive queues that one redirect program can tell apart.
pub const QUEUES_MAX: u32 = 1024;
/// Maximum number of own prefixes of each family.
const ADDRESSES_MAX: u32 = 1 << 16;

/// A map with keys of `K` bytes and values of `V`.
#[derive(Debug)]
pub(super) struct Map<const K: usize, const V: usize>(OwnedFd);

impl<const K: usize, const V: usize> Map<K, V> {
    pub(super) fn new(
        map_type: u32,
        max_entries: u32,
        map_flags: u32,
        map_name: &[u8; 16],
    ) -> Result<Self, Errno> {
        #[repr(C)]
        struct MapCreate {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
            map_flags: u32,
            inner_map_fd: u32,
            numa_node: u32,
            map_name: [u8; 16],
        }
        let attributes = MapCreate {
            map_type,
            key_size: K as u32,
            value_size: V as u32,
            max_entries,
            map_flags,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: *map_name,
        };
        // SAFETY: the attributes of BPF_MAP_CREATE hold no pointers.
        unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) }.map(Map)
    }

    /// Makes a map of the redirect program, with its keys and values; through the broker if there is one.
    fn of_kind(kind: MapKind) -> Result<Self, Errno> {
        if let Some(broker) = broker::current() {
            return Ok(Map(broker::ask_for_one(broker, &Request::Map(kind), &[])?));
        }
        let trie = |name| Map::new(BPF_MAP_TYPE_LPM_TRIE, ADDRESSES_MAX, BPF_F_NO_PREALLOC, name);
        match kind {
            MapKind::Sockets(queues) => Map::new(BPF_MAP_TYPE_XSKMAP, queues, 0, b"netmem_sockets\0\0"),
            MapKind::Counts(queues) => Map::new(BPF_MAP_TYPE_ARRAY, queues, 0, b"netmem_kernel\0\0\0"),
            MapKind::AddressesV4 => trie(b"netmem_own_v4\0\0\0"),
            MapKind::AddressesV6 => trie(b"netmem_own_v6\0\0\0"),
        }
    }

    /// Wraps a map that another process made and handed over: of this type, with keys and values of these lengths.
    ///
    /// # Errors
    /// `INVAL` if it is a different map; the error of bpf(2) if this process may not ask.
    fn given(map: OwnedFd, map_type: u32) -> Result<Self, Errno> {
        let info = info(map.as_fd())?;
        let is_such = info.map_type == map_type && [info.key_size, info.value_size] == [K as u32, V as u32];
        if is_such { Ok(Map(map)) } else { Err(Errno::INVAL) }
    }

    pub(super) fn insert(&self, key: [u8; K], mut value: [u8; V]) -> Result<(), Errno> {
        self.element(Action::Insert, key, &mut value, None)
    }

    pub(super) fn get(&self, key: [u8; K]) -> Result<[u8; V], Errno> {
        let mut value = [0; V];
        self.element(Action::Get, key, &mut value, None).map(|()| value)
    }

    fn remove(&self, key: [u8; K]) -> Result<(), Errno> {
        self.element(Action::Remove, key, &mut [], None)
    }

    pub(super) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Reads or changes an element; through the broker if there is one, which has its own number for a `socket`.
    fn element(
        &self,
        action: Action,
        key: [u8; K],
        value: &mut [u8],
        socket: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        let Some(broker) = broker::current() else { return element(self.0.as_fd(), action, &key, value) };
        let request = Request::Element(Element { action, key: key.to_vec(), value: value.to_vec() });
        let descriptors: Vec<_> = [self.0.as_fd()].into_iter().chain(socket).collect();
        let (answer, _) = broker::ask(broker, &request, &descriptors)?;
        if action == Action::Get {
            value.copy_from_slice(answer.get(..value.len()).ok_or(Errno::PROTO)?);
        }
        Ok(())
    }
}

/// Reads or changes an element of a map of the redirect program that another process handed over.
///
/// # Errors
/// `INVAL` for another type of map, because the kernel may write more than a value for it (for example one for each
/// core). Also `INVAL` for keys and values of other lengths than the map's. Otherwise the error of bpf(2).
pub fn element_of(
    map: BorrowedFd<'_>,
    wanted: &Element,
    socket: Option<BorrowedFd<'_>>,
) -> Result<Vec<u8>, Errno> {
    let Element { action, key, value } = wanted;
    let (info, mut value) = (info(map)?, value.clone());
    let has_value = *action != Action::Remove;
    let (map_type, lengths) = (info.map_type, [info.key_size, info.value_size]);
    let is_ours = match map_type {
        BPF_MAP_TYPE_XSKMAP => lengths == [4, 4],
        BPF_MAP_TYPE_ARRAY => lengths == [4, 8],
        BPF_MAP_TYPE_LPM_TRIE => lengths == [8, 1] || lengths == [20, 1],
        _ => false,
    };
    if !is_ours
        || info.key_size as usize != key.len()
        || (has_value && info.value_size as usize != value.len())
    {
        return Err(Errno::INVAL);
    }
    match (info.map_type == BPF_MAP_TYPE_XSKMAP, socket) {
        (true, Some(socket)) => value = socket.as_raw_fd().to_ne_bytes().to_vec(),
        (false, None) => {}
        (true, None) if *action == Action::Remove => {}
        _ => return Err(Errno::INVAL),
    }
    element(map, *action, key, &mut value)?;
    Ok(value)
}

/// The type of a map, and the lengths of its keys and values.
fn info(map: BorrowedFd<'_>) -> Result<MapInfo, Errno> {
    let mut info = MapInfo::default();
    let attributes = InfoByFd {
        bpf_fd: map.as_raw_fd() as u32,
        info_len: size_of::<MapInfo>() as u32,
        info: (&raw mut info).expose_provenance() as u64,
    };
    // SAFETY: the information is integers alone, has the length given, and outlives the call.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes) }?;
    Ok(info)
}

/// Reads or changes an element with bpf(2). Key and value have the map's lengths, except for a value that is not read.
fn element(map: BorrowedFd<'_>, action: Action, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
    #[repr(C)]
    struct MapElement {
        map_fd: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let (command, flags) = match action {
        Action::Get => (BPF_MAP_LOOKUP_ELEM, 0),
        Action::Insert => (BPF_MAP_UPDATE_ELEM, 0),
        Action::Replace => (BPF_MAP_UPDATE_ELEM, BPF_EXIST),
        Action::Remove => (BPF_MAP_DELETE_ELEM, 0),
    };
    let attributes = MapElement {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr().expose_provenance() as u64,
        value: if value.is_empty() { 0 } else { value.as_mut_ptr().expose_provenance() as u64 },
        flags,
    };
    // SAFETY: key and value have the lengths with which the map was made, and outlive the call.
    unsafe { bpf(command, &attributes) }.map(drop)
}

/// A map from receive queue to AF_XDP socket.
#[derive(Debug)]
pub struct SocketMap(Map<4, 4>);

impl SocketMap {
    /// Makes a map for the queues 0 to `queues` − 1.
    ///
    /// # Errors
    /// [`BpfError`] with `PERM` without CAP_BPF and CAP_NET_ADMIN.
    pub fn new(queues: u32) -> Result<SocketMap, BpfError> {
        Map::of_kind(MapKind::Sockets(queues)).map(SocketMap).map_err(failed(BpfStep::CreateMap))
    }

    /// Wraps a map that another process made and handed over.
    ///
    /// # Errors
    /// [`BpfError`]: `INVAL` for another kind of map, `PERM` before Linux 5.19 if only the privileged may ask.
    pub fn given(map: OwnedFd) -> Result<SocketMap, BpfError> {
        Map::given(map, BPF_MAP_TYPE_XSKMAP).map(SocketMap).map_err(failed(BpfStep::LookAtMap))
    }

    /// Sends frames of receive queue `queue` to `socket` from now on.
    ///
    /// # Errors
    /// [`BpfError`]: `2BIG` if the map has no such queue.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        let (key, mut value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        let done = self.0.element(Action::Insert, key, &mut value, Some(socket));
        done.map_err(failed(BpfStep::AddSocket))
    }

    /// Whether no frame of `queue` goes to a socket any more, because another program has taken `socket` out of the
    /// map. A map of sockets cannot be read (`OPNOTSUPP`), so this puts the same socket in again where one is, which
    /// changes nothing. A socket that another program has put there is replaced.
    #[cold]
    pub fn lacks(&self, queue: u32, socket: BorrowedFd<'_>) -> bool {
        let (key, mut value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        self.0.element(Action::Replace, key, &mut value, Some(socket)) == Err(Errno::NOENT)
    }

    /// Leaves frames of receive queue `queue` to the kernel's stack from now on.
    ///
    /// # Errors
    /// [`BpfError`] if the map has no such queue.
    pub fn remove(&self, queue: u32) -> Result<(), BpfError> {
        self.0.remove(queue.to_ne_bytes()).map_err(failed(BpfStep::RemoveSocket))
    }

    pub(super) fn raw(&self) -> i32 {
        self.0.raw()
    }
}

/// Prefixes of both families, as sets. Packets to an address in one of them belong to the kernel.
///
/// A key is `struct bpf_lpm_trie_key`: the prefix's length in 4 bytes, and its address.
#[derive(Debug)]
pub struct AddressMaps {
    v4: Map<8, 1>,
    v6: Map<20, 1>,
}

/// The key of a prefix.
fn key<const K: usize>(octets: &[u8], length: u8) -> [u8; K] {
    let mut key = [0; K];
    key[..4].copy_from_slice(&u32::from(length).to_ne_bytes());
    key[4..].copy_from_slice(octets);
    key
}

impl AddressMaps {
    /// Makes two empty sets, for 65,536 prefixes each.
    ///
    /// # Errors
    /// [`BpfError`] with `PERM` without CAP_BPF.
    pub fn new() -> Result<AddressMaps, BpfError> {
        let step = BpfStep::CreateAddressMap;
        let v4 = Map::of_kind(MapKind::AddressesV4).map_err(failed(step))?;
        let v6 = Map::of_kind(MapKind::AddressesV6).map_err(failed(step))?;
        Ok(AddressMaps { v4, v6 })
    }

    /// Wraps sets that another process made and handed over.
    ///
    /// # Errors
    /// As [`SocketMap::given`].
    pub fn given(v4: OwnedFd, v6: OwnedFd) -> Result<AddressMaps, BpfError> {
        let failed = || failed(BpfStep::LookAtMap);
        let v4 = Map::given(v4, BPF_MAP_TYPE_LPM_TRIE).map_err(failed())?;
        let v6 = Map::given(v6, BPF_MAP_TYPE_LPM_TRIE).map_err(failed())?;
        Ok(AddressMaps { v4, v6 })
    }

    /// The maps' descriptors.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.v4.0.as_fd(), self.v6.0.as_fd()]
    }

    /// Leaves packets to addresses in `prefix` to the kernel from now on.
    ///
    /// # Errors
    /// [`BpfError`]: `NOSPC` if there is no room for more.
    pub fn insert(&self, prefix: IpNet) -> Result<(), BpfError> {
        let length = prefix.prefix_len();
        let done = match prefix.addr() {
            IpAddr::V4(address) => self.v4.insert(key(&address.octets(), length), [1]),
            IpAddr::V6(address) => self.v6.insert(key(&address.octets(), length), [1]),
        };
        done.map_err(failed(BpfStep::AddAddress))
    }

    /// Redirects packets to addresses in `prefix` from now on, unless another prefix has them.
    ///
    /// # Errors
    /// [`BpfError`]: `NOENT` if the prefix was not there.
    pub fn remove(&self, prefix: IpNet) -> Result<(), BpfError> {
        let length = prefix.prefix_len();
        let done = match prefix.addr() {
            IpAddr::V4(address) => self.v4.remove(key(&address.octets(), length)),
            IpAddr::V6(address) => self.v6.remove(key(&address.octets(), length)),
        };
        done.map_err(failed(BpfStep::RemoveAddress))
    }

    pub(super) fn raw(&self) -> (i32, i32) {
        (self.v4.raw(), self.v6.raw())
    }
}

/// The number of frames of each receive queue that the redirect program left to the kernel's stack.
#[derive(Debug)]
pub struct KernelCounts(Map<4, 8>);

impl KernelCounts {
    /// Makes counts of 0 for the queues 0 to `queues` − 1.
    ///
    /// # Errors
    /// [`BpfError`] with `PERM` without CAP_BPF.
    pub fn new(queues: u32) -> Result<KernelCounts, BpfError> {
        Map::of_kind(MapKind::Counts(queues)).map(KernelCounts).map_err(failed(BpfStep::CreateCounts))
    }

    /// Wraps counts that another process made and handed over.
    ///
    /// # Errors
    /// As [`SocketMap::given`].
    pub fn given(map: OwnedFd) -> Result<KernelCounts, BpfError> {
        Map::given(map, BPF_MAP_TYPE_ARRAY).map(KernelCounts).map_err(failed(BpfStep::LookAtMap))
    }

    /// The count of `queue`.
    ///
    /// # Errors
    /// `NOENT` if the queue has none; otherwise the error of bpf(2), or the broker's.
    ///
    /// # Cost
    /// One system call.
    #[cold]
    pub fn get(&self, queue: u32) -> Result<u64, Errno> {
        self.0.get(queue.to_ne_bytes()).map(u64::from_ne_bytes)
    }

    pub(super) fn raw(&self) -> i32 {
        self.0.raw()
    }
}

pub(super) fn failed(step: BpfStep) -> impl Fn(Errno) -> BpfError {
    move |errno| BpfError::new(step, errno)
}

impl AsFd for SocketMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

impl AsFd for KernelCounts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

impl From<SocketMap> for OwnedFd {
    fn from(map: SocketMap) -> OwnedFd {
        map.0.0
    }
}

impl From<KernelCounts> for OwnedFd {
    fn from(counts: KernelCounts) -> OwnedFd {
        counts.0.0
    }
}

/// Makes an empty set of own addresses.
///
/// # Errors
/// The error of bpf(2).
pub fn address_map(kind: MapKind) -> Result<OwnedFd, Errno> {
    match kind {
        MapKind::AddressesV4 => Map::<8, 1>::of_kind(kind).map(|map| map.0),
        MapKind::AddressesV6 => Map::<20, 1>::of_kind(kind).map(|map| map.0),
        MapKind::Sockets(_) | MapKind::Counts(_) => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BPF_MAP_TYPE_PERCPU_ARRAY.
    const FOR_EACH_CORE: u32 = 6;

    /// Found in a review: the kernel writes a value for each core, but there was room for one value.
    #[test]
    fn a_map_with_a_value_for_each_core_is_not_read_for_another_process() {
        let theirs = match Map::<4, 8>::new(FOR_EACH_CORE, 1, 0, b"for_each_core\0\0\0") {
            Ok(map) => map,
            Err(errno) => {
                assert!(std::env::var_os("NETMEM_NO_SKIP").is_none(), "CAP_BPF: {errno}");
                eprintln!("SKIPPED: a_map_with_a_value_for_each_core…: it takes CAP_BPF");
                return;
            }
        };
        let wanted = Element { action: Action::Get, key: vec![0; 4], value: vec![0; 8] };
        assert_eq!(element_of(theirs.0.as_fd(), &wanted, None), Err(Errno::INVAL));
        let ours = KernelCounts::new(1).expect("as the other one");
        assert_eq!(element_of(ours.as_fd(), &wanted, None), Ok(vec![0; 8]));
        let long = Element { value: vec![0; 16], ..wanted };
        assert_eq!(element_of(ours.as_fd(), &long, None), Err(Errno::INVAL));
    }
}
