"""Counts the packets of a capture and their bytes: python3 count.py FILE"""
import sys
from ctypes import CDLL, byref, c_char_p, c_uint64, c_void_p, string_at
netmem = CDLL("libnetmem.so.0")
netmem.netmem_last_error.restype, netmem.netmem_data_at.restype = c_char_p, c_void_p  # By default it is an int of 32 bits.
netmem.netmem_len_at.argtypes = netmem.netmem_data_at.argtypes = [c_uint64, c_uint64, c_char_p]  # So is frames[0].
memory, worker, pool, port = (c_uint64() for _ in range(4))
frames, packets, octets = (c_uint64 * 64)(), 0, 0
def must(said): return said if said >= 0 else sys.exit(netmem.netmem_last_error().decode())
must(netmem.netmem_memory_open(None, byref(memory))), must(netmem.netmem_worker_open(memory, byref(worker)))
must(netmem.netmem_pool_open(worker, None, byref(pool)))
must(netmem.netmem_port_open(worker, pool, f"pcap:in={sys.argv[1]}".encode(), None, byref(port)))
while not must(netmem.netmem_port_finished(worker, port)):
    must(netmem.netmem_port_refill(worker, port, pool)), must(netmem.netmem_port_kick(worker, port))
    packets += (came := must(netmem.netmem_port_rx_at(worker, port, frames, 64, None)))
    data = [string_at(netmem.netmem_data_at(worker, f, None), netmem.netmem_len_at(worker, f, None)) for f in frames[:came]]
    octets += sum(map(len, data))
    must(netmem.netmem_free_at(worker, frames, came, None))
print(packets, "packets,", octets, "bytes")
must(netmem.netmem_port_state(worker, port))  # A capture that is damaged ends with an error.
