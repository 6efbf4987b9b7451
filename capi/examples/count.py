"""Counts the packets of a capture: python3 count.py FILE"""
import sys
from ctypes import CDLL, byref, c_char_p, c_uint64

netmem = CDLL("libnetmem.so.0")
netmem.netmem_last_error.restype = c_char_p
memory, worker, pool, port = (c_uint64() for _ in range(4))
frames, packets = (c_uint64 * 64)(), 0
def must(said):
    return said if said >= 0 else sys.exit(netmem.netmem_last_error().decode())
must(netmem.netmem_memory_open(None, byref(memory)))
must(netmem.netmem_worker_open(memory, byref(worker)))
must(netmem.netmem_pool_open(worker, None, byref(pool)))
must(netmem.netmem_port_open(worker, pool, f"pcap:in={sys.argv[1]}".encode(), None, byref(port)))
while not must(netmem.netmem_port_finished(worker, port)):
    must(netmem.netmem_port_refill(worker, port, pool)), must(netmem.netmem_port_kick(worker, port))
    packets += (came := must(netmem.netmem_port_rx_at(worker, port, frames, 64, None)))
    must(netmem.netmem_free_at(worker, frames, came, None))
print(packets, "packets")
must(netmem.netmem_port_state(worker, port))  # A capture that is damaged ends with an error.
