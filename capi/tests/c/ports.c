/* A port's calls, over a capture: usage: ports IN OUT [raw], or ports peer, or ports own, or ports lost */
#include "first.h"
#include <unistd.h>

static uint64_t counted(netmem_port port, const char *name)
{
    netmem_count counts[32];
    int n = netmem_port_counts(worker, port, counts, 32);
    for (int i = 0; i < n && i < 32; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].value;
    return UINT64_MAX;
}

static void refused(void)
{
    netmem_port port;
    CHECK(netmem_port_open(worker, pool, "eth0", NULL, &port) == -EINVAL);
    CHECK(strstr(netmem_last_error(), "did you mean packet:eth0 or xdp:eth0?") != NULL);
    CHECK(netmem_port_open(worker, pool, "packet:nosuch0", NULL, &port) == -ENOENT && netmem_last_error()[0] != 0);
    CHECK(netmem_port_open(worker, pool, NULL, NULL, &port) == -EFAULT);
}

/* One burst from a port back to it, by handles. Returns what came, and adds what went to `sent`. */
static int burst(netmem_port port, unsigned long *sent)
{
    netmem_frame frames[10];
    int n = netmem_port_rx(worker, port, frames, 10);
    CHECK(n >= 0);
    int taken = netmem_port_tx(worker, port, frames, n);
    CHECK(taken >= 0 && netmem_free(worker, frames + taken, n - taken) == 0);
    *sent += taken;
    return n;
}

/* As `burst`, without handles. */
static int raw_burst(netmem_port port, unsigned long *sent)
{
    netmem_raw frames[10];
    int n = netmem_port_rx_raw(worker, port, frames, 10);
    CHECK(n >= 0);
    int taken = netmem_port_tx_raw(worker, port, frames, n);
    CHECK(taken >= 0 && netmem_raw_free(worker, frames + taken, n - taken) == 0);
    *sent += taken;
    return n;
}

/* Opens the two ends of a link; `more` are options of the client. */
static void open_link(netmem_port *server, netmem_port *client, const char *more)
{
    char text[128];
    snprintf(text, sizeof text, "memif:@netmem-ports-%d,role=server,holes=ok", (int)getpid());
    CHECK(netmem_port_open(worker, pool, text, NULL, server) == 0);
    snprintf(strchr(text, ','), 64, "%s", more);
    CHECK(netmem_port_open(worker, pool, text, NULL, client) == 0);
    while (netmem_port_state(worker, *server) < 0 || netmem_port_state(worker, *client) < 0)
        CHECK(netmem_port_kick(worker, *server) == 0 && netmem_port_kick(worker, *client) == 0 && usleep(1000) == 0);
}

/* The client receives into frames of a memory of its own, which no call has opened. */
static void frames_of_the_ports_own(void)
{
    netmem_port server, client;
    netmem_frame frames[2], came;
    netmem_packet packet;
    netmem_heads heads;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_link(&server, &client, ",lend=yes,peer=any");
    CHECK(netmem_heads_open(worker, NULL, &heads) == 0 && netmem_alloc(worker, pool, frames, 2) == 2);
    CHECK(netmem_put(worker, frames[0], 60) != NULL && netmem_put(worker, frames[1], 61) != NULL);
    CHECK(netmem_port_refill(worker, client, pool) > 0 && netmem_port_tx(worker, server, frames, 2) == 2);
    while (netmem_port_rx(worker, client, &came, 1) == 0)
        CHECK(netmem_port_kick(worker, server) == 0);
    CHECK(came.word != 0 && netmem_len(worker, came) == 60 && netmem_worker_held(worker) == 1);
    CHECK(netmem_pool_free(worker, pool, &came, 1) == -EXDEV && netmem_free(worker, &came, 1) == 0);
    while (netmem_port_rx_packets(worker, client, heads, &packet, 1) == 0)
        CHECK(netmem_port_kick(worker, server) == 0);
    CHECK(netmem_packet_into_frames(worker, &packet, &came, 1) == 1);
    CHECK(came.word != 0 && netmem_len(worker, came) == 61 && netmem_free(worker, &came, 1) == 0);
    CHECK(netmem_worker_held(worker) == 0 && netmem_heads_close(heads) == 0);
    CHECK(netmem_port_close(worker, server) == 0 && netmem_port_close(worker, client) == 0);
}

/* Of the frames that a client received into a memory of its own, the program loses one raw and one detached. */
static void frames_of_the_ports_own_are_lost(void)
{
    netmem_port server, client;
    netmem_frame frames[4], came;
    netmem_raw raw[2];
    int n = 0;
    open_link(&server, &client, ",lend=yes,peer=any");
    CHECK(netmem_alloc(worker, pool, frames, 4) == 4);
    for (int i = 0; i < 4; i++)
        CHECK(netmem_put(worker, frames[i], 60) != NULL);
    CHECK(netmem_port_refill(worker, client, pool) > 0 && netmem_port_tx(worker, server, frames, 4) == 4);
    for (int i = 0; i < 2; i++) {
        while (netmem_port_rx(worker, client, &came, 1) == 0)
            CHECK(netmem_port_kick(worker, server) == 0);
        CHECK(netmem_detach(worker, &came, 1) == 1);
        /* One while the port is open, one after it was closed. */
        CHECK(i == 1 || netmem_memory_reclaim_detached(memory) == 1);
    }
    while ((n += netmem_port_rx_raw(worker, client, raw + n, 2 - n)) < 2)
        CHECK(netmem_port_kick(worker, server) == 0);
    CHECK(netmem_raw_free(worker, raw + 1, 1) == 0);
    CHECK(netmem_port_close(worker, server) == 0 && netmem_port_close(worker, client) == 0);
    CHECK(netmem_pool_close(pool, 1000) == 0 && netmem_worker_close(worker) == 0);
    CHECK(netmem_memory_close(memory, 0) == -ETIMEDOUT);
    CHECK(strstr(netmem_last_error(), "2 frames of the own memory of memif:@netmem-ports-") != NULL);
    CHECK(netmem_memory_reclaim_detached(memory) == 1 && netmem_memory_close(memory, 0) == -ETIMEDOUT);
    CHECK(strstr(netmem_last_error(), "1 frame of the own memory of memif:@netmem-ports-") != NULL);
    /* A worker of another memory frees the last. */
    open_all();
    CHECK(netmem_raw_free(worker, raw, 1) == 0);
}

/* A peer goes that has not read all packets. */
static void a_peer_that_goes(void)
{
    netmem_port server, client;
    netmem_frame frames[3];
    open_link(&server, &client, "");
    CHECK(netmem_alloc(worker, pool, frames, 3) == 3);
    for (int i = 0; i < 3; i++)
        CHECK(netmem_put(worker, frames[i], 60) != NULL);
    CHECK(netmem_port_tx(worker, client, frames, 3) == 3 && netmem_port_complete(worker, client) == 3);
    CHECK(netmem_port_tx_unread(worker, client) == 3 && counted(client, "tx_left_unread") == 0);
    CHECK(netmem_port_close(worker, server) == 0);
    while (netmem_port_state(worker, client) == 0)
        CHECK(netmem_port_kick(worker, client) == 0);
    CHECK(counted(client, "tx_left_unread") == 3 && counted(client, "completed") == 3 && netmem_port_tx_unread(worker, client) == 0);
    CHECK(netmem_port_close(worker, client) == 0);
}

int main(int argc, char **argv)
{
    char text[4096];
    const char *name;
    netmem_port port;
    netmem_frame frames[4];
    netmem_raw raw[4];
    unsigned long received = 0, sent = 0;
    CHECK(argc >= 2 && argc <= 4);
    const int is_raw = argc == 4;
    open_all();
    if (argc == 2) {
        if (strcmp(argv[1], "own") == 0)
            frames_of_the_ports_own();
        else if (strcmp(argv[1], "lost") == 0) {
            netmem_memory first = memory;
            frames_of_the_ports_own_are_lost();
            CHECK(netmem_memory_close(first, 1000) == 0);
        } else
            a_peer_that_goes();
        check_home();
        close_all();
        printf("as it should be\n");
        return 0;
    }
    refused();
    snprintf(text, sizeof text, "pcap:in=%s,out=%s,mac=02:00:00:00:00:aa", argv[1], argv[2]);
    CHECK(netmem_port_open(worker, pool, text, NULL, &port) == 0 && netmem_port_state(worker, port) == 0);
    CHECK(netmem_port_name(worker, port, &name) == 0 && strncmp(name, "pcap:", 5) == 0);
    uint8_t mac[6];
    CHECK(netmem_port_mac(worker, port, mac) == 0 && memcmp(mac, "\x02\0\0\0\0\xaa", 6) == 0);
    CHECK(netmem_port_mac(worker, port, NULL) == -EFAULT && netmem_port_mtu(worker, port) == 0);
    CHECK(netmem_port_fd(worker, port) >= -EINVAL && netmem_worker_close(worker) == -EBUSY);
    CHECK(netmem_alloc(worker, pool, frames, 4) == 4);
    if (is_raw)
        CHECK(netmem_raw_from_frames(worker, frames, raw, 4) == 4 && netmem_port_fill_raw(worker, port, raw, 4) == 4);
    else
        CHECK(netmem_port_fill(worker, port, frames, 4) == 4);
    while (netmem_port_finished(worker, port) == 0) {
        CHECK(netmem_port_refill(worker, port, pool) >= 0);
        received += is_raw ? raw_burst(port, &sent) : burst(port, &sent);
        CHECK(netmem_port_complete(worker, port) >= 0 && netmem_port_kick(worker, port) == 0);
    }
    while (counted(port, "completed") < sent)
        CHECK(netmem_port_complete(worker, port) >= 0);
    CHECK(received == counted(port, "rx") && sent == counted(port, "tx") && netmem_worker_held(worker) == 0);
    CHECK(netmem_port_arm(worker, port) >= 0 && netmem_port_disarm(worker, port) == 0);
    CHECK(netmem_port_close(worker, port) == 0);
    printf("%lu received, %lu sent\n", received, sent);
    check_home();
    close_all();
    return received == 0 || received != sent;
}
