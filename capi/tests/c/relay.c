/* Joins two hosts that leave checksums and segments to their cards: relay PORT PORT. Frames pass as they come to a port that
 * carries offloads, and completed and cut to one that does not. Ends by SIGTERM and prints what it met. */
#include "first.h"
#include <poll.h>
#include <signal.h>

static volatile sig_atomic_t stopped;
static unsigned long passed_whole, were_cut, were_finished;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* Sends frames, and frees those for which there is no room: TCP sends them again. */
static void send_all(netmem_port to, netmem_frame *frames, int n)
{
    int sent = netmem_port_tx(worker, to, frames, (uint32_t)n);
    CHECK(sent >= 0 && netmem_port_take_unsendable(worker, to, frames + sent, (uint32_t)(n - sent)) == 0);
    CHECK(netmem_free(worker, frames + sent, (uint32_t)(n - sent)) == 0);
}

/* To a port that carries offloads: the packet keeps its own, which is taken off and put back here. */
static void pass(netmem_port to, netmem_frame frame)
{
    const netmem_offload nothing = {0, 0, 0, 0, 0, {0, 0, 0, 0}};
    netmem_offload offload;
    if (netmem_get_offload(worker, frame, &offload) == 1) {
        passed_whole += offload.gso != NETMEM_GSO_NONE && netmem_len(worker, frame) > 1514;
        CHECK(netmem_set_offload(worker, frame, &nothing) == 0 && netmem_set_offload(worker, frame, &offload) == 0);
    }
    send_all(to, &frame, 1);
}

/* To a port that carries none. */
static void complete(netmem_port to, netmem_frame frame)
{
    static netmem_frame segments[NETMEM_SEGMENTS_MAX];
    netmem_offload offload;
    CHECK(netmem_get_offload(worker, frame, &offload) >= 0);
    if (offload.gso == NETMEM_GSO_NONE) {
        int was_open = netmem_finish_checksum(worker, frame);
        CHECK(was_open >= 0);
        were_finished += (unsigned long)was_open;
        send_all(to, &frame, 1);
        return;
    }
    int n = netmem_cut_segments(worker, pool, frame, segments, NETMEM_SEGMENTS_MAX);
    CHECK(n > 0 && netmem_free(worker, &frame, 1) == 0);
    were_cut++;
    send_all(to, segments, n);
}

/* Moves one burst. Returns the number of frames received. */
static int move(netmem_port from, netmem_port to)
{
    netmem_frame frames[64];
    int carries = netmem_port_carries_offloads(worker, to);
    int came = netmem_port_rx(worker, from, frames, 64);
    CHECK(carries >= 0 && came >= 0);
    for (int i = 0; i < came; i++)
        carries ? pass(to, frames[i]) : complete(to, frames[i]);
    CHECK(netmem_port_complete(worker, to) >= 0 && netmem_port_refill(worker, from, pool) >= 0);
    CHECK(netmem_port_kick(worker, from) == 0 && netmem_port_kick(worker, to) == 0);
    return came;
}

/* Waits until something arrives, half a second at most. */
static void rest(const netmem_port *ports)
{
    struct pollfd wake[2];
    int busy = 0;
    for (int i = 0; i < 2; i++) {
        busy |= netmem_port_arm(worker, ports[i]);
        wake[i].fd = netmem_port_fd(worker, ports[i]);
        wake[i].events = POLLIN;
        CHECK(busy >= 0 && wake[i].fd >= 0);
    }
    if (!busy)
        poll(wake, 2, 500);
    for (int i = 0; i < 2; i++)
        CHECK(netmem_port_disarm(worker, ports[i]) == 0);
}

int main(int argc, char **argv)
{
    netmem_memory_config of_memory = {0};
    netmem_pool_config of_pool = {0};
    netmem_port_config of_port = {0};
    netmem_port ports[2];
    CHECK(argc == 3);
    signal(SIGTERM, stop);
    of_memory.bytes = 80u << 20;
    of_memory.small_pages = 1;
    of_pool.frames = 2048;
    of_pool.frame_size = 32768;
    /* Otherwise the first port would take all frames. */
    of_port.ring = 256;
    CHECK(netmem_memory_open(&of_memory, &memory) == 0 && netmem_worker_open(memory, &worker) == 0);
    CHECK(netmem_pool_open(worker, &of_pool, &pool) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(netmem_port_open(worker, pool, argv[1 + i], &of_port, &ports[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(netmem_port_keep_offloads(worker, ports[i], 1) == netmem_port_carries_offloads(worker, ports[i]));
    printf("forwarding\n"), fflush(stdout);
    while (!stopped)
        if (move(ports[0], ports[1]) + move(ports[1], ports[0]) == 0)
            rest(ports);
    for (int i = 0; i < 2; i++)
        CHECK(netmem_port_close(worker, ports[i]) == 0);
    check_home();
    close_all();
    printf("%lu passed whole, %lu cut, %lu finished\n", passed_whole, were_cut, were_finished);
    return 0;
}
