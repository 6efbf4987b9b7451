/* Packets of TCP and UDP over IPv4, as a sender makes them that leaves the checksum to its card. C11 and C++17. */
#ifndef INET_H
#define INET_H
#include "packets.h"

/* Bytes before the header of TCP or UDP. */
#define TRANSPORT 34

static inline uint32_t sum_of(const uint8_t *bytes, size_t n, uint32_t sum)
{
    for (size_t i = 0; i < n; i++)
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static inline uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* The sum of the pseudo-header of an IPv4 packet. */
static inline uint32_t pseudo_of(const uint8_t *packet)
{
    uint32_t len = get16(packet + 16) - 20u;
    return sum_of(packet + 26, 8, packet[23] + len);
}

/* Whether the checksum of TCP or UDP is the right one. */
static inline int is_intact(const uint8_t *packet)
{
    return sum_of(packet + TRANSPORT, get16(packet + 16) - 20u, pseudo_of(packet)) == 0xffff;
}

/* Bytes from the header of TCP or UDP to the checksum. */
static inline uint16_t offset_of_checksum(int is_udp)
{
    return is_udp ? 6 : 16;
}

/* Writes the headers of a packet from 10.77.0.9 to port 4000 of 10.77.0.1, with an open checksum, before `n` bytes that
 * are there already. They have 42 bytes for UDP, 54 for TCP. */
static inline void write_headers(uint8_t *packet, int is_udp, uint32_t n)
{
    static const uint8_t LINK_AND_IP[34] = {2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 9, 9, 8, 0, 0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 0, 0, 0,
                                            10, 77, 0, 9, 10, 77, 0, 1};
    uint8_t *transport = packet + TRANSPORT;
    uint32_t header = is_udp ? 8 : 20;
    memcpy(packet, LINK_AND_IP, sizeof LINK_AND_IP);
    put16(packet + 16, 20 + header + n);
    packet[23] = is_udp ? 17 : 6;
    put16(packet + 24, 0xffff ^ sum_of(packet + 14, 20, 0));
    memset(transport, 0, header);
    put16(transport, 4009);
    put16(transport + 2, 4000);
    if (is_udp) {
        put16(transport + 4, 8 + n);
    } else {
        put16(transport + 6, 1000); /* the sequence number */
        transport[12] = 5 << 4;
        transport[13] = 0x18;
    }
    put16(transport + offset_of_checksum(is_udp), pseudo_of(packet));
}

/* A frame of `from` that holds such a packet, whose payload is 0, 1, 2 and so on. It has no offload yet. */
static inline netmem_frame a_datagram(netmem_pool from, int is_udp, uint32_t n)
{
    netmem_frame frame;
    uint32_t headers = is_udp ? 42 : 54;
    CHECK(netmem_alloc(worker, from, &frame, 1) == 1);
    uint8_t *packet = (uint8_t *)netmem_put(worker, frame, headers + n);
    CHECK(packet != NULL);
    for (uint32_t i = 0; i < n; i++)
        packet[headers + i] = (uint8_t)(i * 7 / 3);
    write_headers(packet, is_udp, n);
    return frame;
}

static inline netmem_offload open_checksum(int is_udp)
{
    netmem_offload offload;
    memset(&offload, 0, sizeof offload);
    offload.checksum = 1;
    offload.checksum_start = TRANSPORT;
    offload.checksum_offset = offset_of_checksum(is_udp);
    return offload;
}

static inline netmem_offload segments_of(uint32_t gso, uint32_t size)
{
    netmem_offload offload = open_checksum(gso == NETMEM_GSO_UDP);
    offload.gso = gso;
    offload.gso_size = size;
    return offload;
}

static inline int is_same(const netmem_offload *one, const netmem_offload *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

static inline int text_has(const char *text)
{
    int is_said = strstr(netmem_last_error(), text) != NULL;
    if (!is_said)
        printf("\"%s\" is not in: %s\n", text, netmem_last_error());
    return is_said;
}
#endif
