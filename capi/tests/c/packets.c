/* Packets and shared frames, used as they should be. Compiled as C11 and as C++17. usage: packets IN OUT */
#include "packets.h"
#include <pthread.h>

static void one_part(void)
{
    netmem_packet packet = a_packet("hello");
    CHECK(says(packet, "hello") && netmem_packet_data(worker, packet) == netmem_packet_write(worker, packet));
    CHECK(netmem_packet_pull(worker, packet, 2) == 0 && says(packet, "llo"));
    CHECK(netmem_packet_push(worker, packet, 1) == 0 && says(packet, "ello"));
    CHECK(netmem_packet_trim(worker, packet, 2) == 0 && says(packet, "el"));
    CHECK(netmem_packet_trim(worker, packet, 3) == -ENOBUFS && netmem_packet_pull(worker, packet, 3) == -ENOBUFS);
    CHECK(netmem_packet_push(worker, packet, 3000) == -ENOBUFS && netmem_packet_put(worker, packet, 3000) == NULL);
    netmem_part part;
    CHECK(netmem_packet_parts(worker, packet, &part, 1) == 1);
    CHECK(part.data == netmem_packet_data(worker, packet) && part.len == 2);
    CHECK(part.headroom + part.len + part.tailroom == 2048);
    uint32_t hash = 1;
    CHECK(netmem_packet_flow_hash(worker, packet, &hash) == 0 && hash == 0);
    CHECK(netmem_packet_set_flow_hash(worker, packet, 77) == 0 && netmem_packet_flow_hash(worker, packet, &hash) == 0 && hash == 77);
    CHECK(netmem_heads_free(worker, heads, &packet, 1) == 0 && netmem_worker_held(worker) == 0);
}

#define MANY 150

static void bursts(void)
{
    netmem_packet packets[MANY];
    netmem_frame frames[MANY];
    netmem_count counts[32];
    CHECK(netmem_packet_alloc(worker, heads, pool, packets, MANY) == MANY && netmem_worker_held(worker) == MANY);
    CHECK(netmem_heads_close(heads) == -EBUSY && strstr(netmem_last_error(), "150 packets") != NULL);
    CHECK(netmem_packet_into_frames(worker, packets, frames, MANY) == MANY && netmem_worker_held(worker) == MANY);
    for (int i = 0; i < MANY; i++)
        *(unsigned char *)netmem_put(worker, frames[i], 1) = (unsigned char)i;
    CHECK(netmem_packet_from_frames(worker, heads, frames, packets, MANY) == MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(*(const unsigned char *)netmem_packet_data(worker, packets[i]) == i);
    CHECK(netmem_packet_free(worker, packets, MANY) == 0 && netmem_worker_held(worker) == 0);
    CHECK(netmem_packet_alloc(worker, heads, pool, NULL, 0) == 0 && netmem_packet_alloc(worker, heads, pool, NULL, 1) == -EFAULT);
    int n = netmem_heads_counts(heads, counts, 32);
    CHECK(n > 5 && n <= 32 && strcmp(counts[0].name, "ready") == 0 && counts[0].value > 0);
    CHECK(netmem_packet_alloc(worker, heads, pool, packets, 3) == 3 && netmem_worker_reclaim(worker) == 3);
}

static void bytes_for_a_burst(void)
{
    netmem_packet packets[4] = {a_packet("one"), a_packet("shared"), a_packet("chain"), a_packet("full")}, second;
    uint32_t lens[4] = {1, 2, 3, 3000};
    void *to[4];
    CHECK(netmem_packet_share(worker, packets[1], &second) == 0 && netmem_packet_append(worker, packets[2], a_packet("ed")) == 0);
    CHECK(netmem_packet_put_each(worker, packets, lens, 4, to) == -ENOBUFS && to[1] == NULL && to[3] == NULL);
    CHECK(netmem_packet_len(worker, packets[1]) == 6 && netmem_packet_len(worker, packets[3]) == 4);
    memcpy(to[0], "!", 1);
    memcpy(to[2], "...", 3);
    CHECK(says(packets[0], "one!") && says(packets[2], "chained...") && says(second, "shared"));
    CHECK(netmem_packet_put_each(worker, NULL, NULL, 0, NULL) == 0);
    CHECK(netmem_packet_free(worker, packets, 4) == 0 && netmem_packet_free(worker, &second, 1) == 0);
}

#define BELOW 65500
#define MIXED 128

/* The library keeps the uses of 65,536 objects and packets together. */
static void bursts_of_packets_whose_uses_are_kept_apart(void)
{
    static netmem_object below[BELOW];
    netmem_cache cache;
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.size = 64;
    CHECK(netmem_cache_open(worker, &config, &cache) == 0 && netmem_object_alloc(worker, cache, below, BELOW) == BELOW);
    for (int round = 0; round < 3; round++) {
        netmem_packet packets[MIXED], mixed[MIXED];
        netmem_part parts[MIXED];
        uint32_t lens[MIXED], beyond = 0;
        void *to[MIXED];
        CHECK(netmem_packet_alloc(worker, heads, pool, packets, MIXED) == MIXED);
        for (uint32_t i = 0; i < MIXED; i++) {
            mixed[i] = packets[i % 2 == 0 ? i / 2 : MIXED - 1 - i / 2];
            lens[i] = 1 + i;
            beyond += (packets[i].word & 0x1fffffff) >= 65536;
        }
        CHECK(beyond > 0 && beyond < MIXED);
        CHECK(netmem_packet_put_each(worker, mixed, lens, MIXED, to) == 0);
        for (uint32_t i = 0; i < MIXED; i++)
            memset(to[i], (int)i, lens[i]);
        CHECK(netmem_packet_first_parts(worker, mixed, MIXED, parts) == 0);
        for (uint32_t i = 0; i < MIXED; i++)
            CHECK(parts[i].data == to[i] && parts[i].len == lens[i] && *(const unsigned char *)parts[i].data == i);
        CHECK(netmem_packet_free(worker, mixed, MIXED) == 0);
        CHECK(netmem_worker_held(worker) == BELOW);
    }
    CHECK(netmem_object_free(worker, below, BELOW) == 0 && netmem_cache_close(cache) == 0);
}

static void chains(void)
{
    netmem_packet packet = a_packet("middle"), front = a_packet("front "), end = a_packet(" end"), rest;
    netmem_part parts[2];
    CHECK(netmem_packet_append(worker, packet, end) == 0 && netmem_packet_prepend(worker, packet, front) == 0);
    CHECK(says(packet, "front middle end") && netmem_worker_held(worker) == 1);
    CHECK(netmem_packet_parts(worker, packet, parts, 2) == 3 && parts[0].len == 6 && parts[1].len == 6);
    CHECK(parts[0].headroom > 0 && parts[0].tailroom == 0 && parts[1].headroom == 0 && parts[1].tailroom == 0);
    CHECK(netmem_packet_append(worker, packet, packet) == -EINVAL && says(packet, "front middle end"));
    /* Between two parts, and through one, which both share then. */
    CHECK(netmem_packet_split(worker, packet, 12, &rest) == 0 && says(packet, "front middle") && says(rest, " end"));
    netmem_packet two[2] = {rest, packet};
    CHECK(netmem_packet_first_parts(worker, two, 2, parts) == 1 && parts[0].len == 4 && parts[0].tailroom > 0);
    CHECK(parts[1].len == 6 && parts[1].headroom > 0 && parts[1].tailroom == 0);
    CHECK(parts[0].data == netmem_packet_data(worker, rest) && parts[1].data == netmem_packet_data(worker, packet));
    CHECK(netmem_packet_first_parts(worker, NULL, 0, NULL) == 0 && netmem_packet_first_parts(worker, two, 2, NULL) == -EFAULT);
    CHECK(netmem_packet_free(worker, &rest, 1) == 0);
    CHECK(netmem_packet_split(worker, packet, 8, &rest) == 0 && says(packet, "front mi") && says(rest, "ddle"));
    CHECK(netmem_packet_split(worker, packet, 9, &end) == -ENOBUFS && netmem_packet_write(worker, rest) == NULL);
    CHECK(netmem_packet_make_writable(worker, rest, pool) == 0 && netmem_packet_write(worker, rest) != NULL);
    netmem_frame frame;
    CHECK(netmem_packet_into_frames(worker, &packet, &frame, 1) == -EBUSY && says(packet, "front mi"));
    CHECK(netmem_packet_linearize(worker, packet, pool) == 0 && netmem_packet_parts(worker, packet, parts, 2) == 1);
    CHECK(netmem_packet_pull(worker, packet, 6) == 0 && says(packet, "mi"));
    netmem_packet both[2] = {packet, rest};
    CHECK(netmem_packet_free(worker, both, 2) == 0 && netmem_worker_held(worker) == 0);
}

static void several_read_one_frame(void)
{
    netmem_shared whole = a_shared("hello"), end;
    netmem_frame frame;
    CHECK(netmem_shared_holders(worker, whole) == 1 && netmem_shared_clone(worker, whole, &end) == 0);
    CHECK(netmem_shared_pull(worker, end, 3) == 0 && netmem_shared_len(worker, end) == 2);
    CHECK(netmem_shared_pull(worker, end, 3) == -ENOBUFS && netmem_shared_trim(worker, whole, 4) == 0);
    CHECK(memcmp(netmem_shared_data(worker, whole), "hell", 4) == 0 && memcmp(netmem_shared_data(worker, end), "lo", 2) == 0);
    CHECK(netmem_shared_into_frame(worker, end, &frame) == -EBUSY && netmem_shared_holders(worker, end) == 2);
    CHECK(netmem_shared_free(worker, &whole, 1) == 0 && netmem_worker_held(worker) == 1);
    CHECK(netmem_shared_into_frame(worker, end, &frame) == 0 && netmem_len(worker, frame) == 2);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_worker_held(worker) == 0);
}

static void a_packet_over_shared_bytes(void)
{
    netmem_shared shared = a_shared("kept"), second;
    netmem_packet packet, other;
    netmem_frame frame;
    CHECK(netmem_shared_clone(worker, shared, &second) == 0);
    CHECK(netmem_packet_from_shared(worker, heads, shared, &packet) == 0 && says(packet, "kept"));
    CHECK(netmem_packet_write(worker, packet) == NULL && netmem_shared_holders(worker, second) == 2);
    CHECK(netmem_packet_make_sendable(worker, packet, pool) == 1 && netmem_shared_holders(worker, second) == 1);
    CHECK(netmem_packet_make_sendable(worker, packet, pool) == 0);
    CHECK(netmem_packet_share(worker, packet, &other) == 0 && says(other, "kept") && netmem_packet_write(worker, packet) == NULL);
    CHECK(netmem_packet_into_frames(worker, &packet, &frame, 1) == -EBUSY && netmem_packet_free(worker, &other, 1) == 0);
    CHECK(netmem_packet_into_frames(worker, &packet, &frame, 1) == 1 && netmem_free(worker, &frame, 1) == 0);
    CHECK(netmem_shared_free(worker, &second, 1) == 0 && netmem_worker_held(worker) == 0);
}

static void holders_are_named_by_place(void)
{
    netmem_holder holders[4];
    CHECK(netmem_trace(1) == 0);
    netmem_packet packets[2], second;
    CHECK(netmem_packet_alloc(worker, heads, pool, packets, 2) == 2);
    netmem_shared shared = a_shared("x");
    CHECK(netmem_pool_holders(pool, holders, 4) == 2 && holders[0].frames == 2 && holders[1].frames == 1);
    CHECK(strstr(holders[0].site, "packets.c:") != NULL && strstr(holders[1].site, "packets.h:") != NULL);
    CHECK(netmem_packet_share(worker, packets[0], &second) == 0 && netmem_pool_holders(pool, holders, 4) == 3);
    CHECK(netmem_packet_free(worker, packets, 2) == 0 && netmem_packet_free(worker, &second, 1) == 0);
    CHECK(netmem_shared_free(worker, &shared, 1) == 0 && netmem_pool_holders(pool, holders, 4) == 0);
    CHECK(netmem_trace(0) == 0);
}

static netmem_packet passed;
static netmem_shared passed_shared;

/* By a worker of its own, which gives the head back to the one that it is of. */
static void *take_over(void *unused)
{
    netmem_worker second;
    (void)unused;
    CHECK(netmem_worker_open(memory, &second) == 0);
    CHECK(netmem_packet_attach(second, &passed, 1) == 1 && netmem_shared_attach(second, &passed_shared, 1) == 1);
    CHECK(netmem_packet_len(second, passed) == 6 && netmem_shared_len(second, passed_shared) == 4);
    CHECK(memcmp(netmem_packet_data(second, passed), "passed", 6) == 0 && netmem_worker_held(second) == 2);
    CHECK(netmem_packet_free(second, &passed, 1) == 0 && netmem_shared_free(second, &passed_shared, 1) == 0);
    CHECK(netmem_heads_end_round(second, heads) == 0 && netmem_worker_close(second) == 0);
    return NULL;
}

static void what_is_detached_another_thread_attaches(void)
{
    pthread_t thread;
    passed = a_packet("passed");
    passed_shared = a_shared("also");
    CHECK(netmem_packet_detach(worker, &passed, 1) == 1 && netmem_shared_detach(worker, &passed_shared, 1) == 1);
    CHECK(netmem_worker_held(worker) == 0 && netmem_heads_close(heads) == -EBUSY);
    CHECK(pthread_create(&thread, NULL, take_over, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/* A capture passes as packets, whole. */
static void by_a_port(const char *in, const char *out)
{
    char text[4096];
    netmem_port port;
    netmem_packet packets[100];
    int received = 0, sent = 0;
    snprintf(text, sizeof text, "pcap:in=%s,out=%s", in, out);
    CHECK(netmem_port_open(worker, pool, text, NULL, &port) == 0);
    while (netmem_port_finished(worker, port) == 0) {
        CHECK(netmem_port_refill(worker, port, pool) >= 0);
        int n = netmem_port_rx_packets(worker, port, heads, packets, 100);
        CHECK(n >= 0 && netmem_worker_held(worker) == n);
        received += n;
        int taken = netmem_port_tx_packets(worker, port, packets, (uint32_t)n);
        CHECK(taken >= 0 && netmem_worker_held(worker) == n - taken);
        sent += taken;
        CHECK(netmem_packet_free(worker, packets + taken, (uint32_t)(n - taken)) == 0);
        CHECK(netmem_port_complete(worker, port) >= 0 && netmem_port_kick(worker, port) == 0);
    }
    while (netmem_port_complete(worker, port) > 0)
        ;
    CHECK(netmem_port_close(worker, port) == 0);
    printf("%d received, %d sent\n", received, sent);
}

/* A full port gives the words back that it has no room for, with what was recorded of each. */
static void by_a_full_port(void)
{
    netmem_port port;
    netmem_port_config config;
    netmem_packet packets[200];
    memset(&config, 0, sizeof config);
    config.ring = 16;
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", &config, &port) == 0);
    CHECK(netmem_packet_alloc(worker, heads, pool, packets, 200) == 200);
    for (uint32_t i = 0; i < 200; i++)
        CHECK(netmem_packet_put(worker, packets[i], 60) != NULL && netmem_packet_set_flow_hash(worker, packets[i], i + 1) == 0);
    netmem_packet several = a_packet("two");
    CHECK(netmem_packet_append(worker, several, a_packet(" parts")) == 0);
    CHECK(netmem_port_tx_packets(worker, port, &several, 1) == -EBUSY && says(several, "two parts"));
    int taken = netmem_port_tx_packets(worker, port, packets, 200);
    CHECK(taken > 0 && taken < 200 && netmem_worker_held(worker) == 201 - taken);
    for (int i = taken; i < 200; i++) {
        uint32_t hash;
        CHECK(netmem_packet_len(worker, packets[i]) == 60 && netmem_packet_flow_hash(worker, packets[i], &hash) == 0);
        CHECK(hash == (uint32_t)i + 1);
    }
    CHECK(netmem_packet_free(worker, packets + taken, (uint32_t)(200 - taken)) == 0 && netmem_packet_free(worker, &several, 1) == 0);
    CHECK(netmem_port_complete(worker, port) == taken && netmem_port_close(worker, port) == 0);
}

int main(int argc, char **argv)
{
    open_heads();
    one_part();
    bursts();
    bytes_for_a_burst();
    bursts_of_packets_whose_uses_are_kept_apart();
    chains();
    several_read_one_frame();
    a_packet_over_shared_bytes();
    holders_are_named_by_place();
    what_is_detached_another_thread_attaches();
    by_a_full_port();
    if (argc == 3)
        by_a_port(argv[1], argv[2]);
    CHECK(netmem_worker_held(worker) == 0);
    check_home();
    close_heads();
    CHECK(all_misuses() == 0);
    return 0;
}
