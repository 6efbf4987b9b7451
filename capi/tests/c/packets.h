/* What the programs about packets begin with: heads beside what first.h opens. C11 and C++17. */
#ifndef PACKETS_H
#define PACKETS_H
#include "first.h"

static netmem_heads heads;

static inline void open_heads(void)
{
    open_all();
    CHECK(netmem_heads_open(worker, NULL, &heads) == 0);
}

static inline void close_heads(void)
{
    CHECK(netmem_heads_close(heads) == 0);
    close_all();
}

/* A packet that holds a text. */
static inline netmem_packet a_packet(const char *text)
{
    netmem_packet packet;
    CHECK(netmem_packet_alloc(worker, heads, pool, &packet, 1) == 1);
    if (text[0] != 0)
        memcpy(netmem_packet_put(worker, packet, (uint32_t)strlen(text)), text, strlen(text));
    return packet;
}

/* Whether a packet holds this text. */
static inline int says(netmem_packet packet, const char *text)
{
    char bytes[256];
    int n = netmem_packet_copy(worker, packet, bytes, sizeof bytes);
    return n == netmem_packet_len(worker, packet) && n == (int)strlen(text) && memcmp(bytes, text, strlen(text)) == 0;
}

/* A shared frame that holds a text. */
static inline netmem_shared a_shared(const char *text)
{
    netmem_frame frame = one();
    netmem_shared shared;
    memcpy(netmem_put(worker, frame, (uint32_t)strlen(text)), text, strlen(text));
    CHECK(netmem_share(worker, &frame, &shared, 1) == 1);
    return shared;
}
#endif
