/* Forwards between two ports, in both directions: redirect xdp:eth0 xdp:eth1
 * A frame is moved when the other port has taken it. Ends with 1 if a port is down at the end: it may have lost its last frames.
 *
 *   cc redirect.c -o redirect $(pkg-config --cflags --libs netmem) */
#include <netmem.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BURST 64

static volatile sig_atomic_t stopped;
static netmem_worker worker;
static netmem_pool pool;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static int must(int said)
{
    if (said < 0) {
        fprintf(stderr, "redirect: %s\n", netmem_last_error());
        exit(1);
    }
    return said;
}

/* Moves one burst from a port to another. Returns the number of frames received. */
static int move(netmem_port from, netmem_port to, unsigned long *dropped)
{
    netmem_frame frames[BURST];
    int came = must(netmem_port_rx(worker, from, frames, BURST));
    int fit = came - must(netmem_port_take_unsendable(worker, to, frames, came));
    int sent = fit > 0 ? must(netmem_port_tx(worker, to, frames, fit)) : 0;
    /* The port can never carry these frames, or had no room for them. The program drops them and must free them. */
    must(netmem_free(worker, frames + sent, came - sent));
    *dropped += came - sent;
    must(netmem_port_complete(worker, to));
    must(netmem_port_refill(worker, from, pool));
    must(netmem_port_kick(worker, from));
    return came;
}

/* Waits until something arrives. At most half a second: the removal of an xdp port's interface wakes no thread. */
static void rest(netmem_port *ports)
{
    struct pollfd wake[2];
    int busy = 0, fds = 0;
    for (int i = 0; i < 2; i++) {
        busy |= must(netmem_port_arm(worker, ports[i]));
        int fd = netmem_port_fd(worker, ports[i]);
        if (fd >= 0) /* Otherwise the port is down, or never has one: poll it. */
            wake[fds++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    if (!busy)
        poll(wake, fds, fds == 2 ? 500 : 1);
    for (int i = 0; i < 2; i++)
        must(netmem_port_disarm(worker, ports[i]));
}

int main(int argc, char **argv)
{
    netmem_memory memory;
    netmem_port ports[2];
    unsigned long moved = 0, dropped = 0, down = 0;
    if (argc != 3)
        return fprintf(stderr, "usage: redirect PORT PORT, as in redirect xdp:eth0 xdp:eth1\n"), 2;
    signal(SIGINT, stop), signal(SIGTERM, stop);
    must(netmem_memory_open(NULL, &memory)), must(netmem_worker_open(memory, &worker));
    must(netmem_pool_open(worker, &(netmem_pool_config){.name = "redirect", .frames = 16384}, &pool));
    for (int i = 0; i < 2; i++)
        must(netmem_port_open(worker, pool, argv[1 + i], NULL, &ports[i]));
    while (!stopped && !(netmem_port_finished(worker, ports[0]) && netmem_port_finished(worker, ports[1]))) {
        int came = move(ports[0], ports[1], &dropped) + move(ports[1], ports[0], &dropped);
        moved += came;
        if (came == 0)
            rest(ports);
    }
    for (int i = 0; i < 2; i++) {
        if (netmem_port_state(worker, ports[i]) < 0)
            fprintf(stderr, "redirect: %s\n", netmem_last_error()), down++;
        must(netmem_port_close(worker, ports[i]));
    }
    must(netmem_pool_close(pool, 1000)), must(netmem_worker_close(worker)), must(netmem_memory_close(memory, 1000));
    return printf("%lu moved, %lu dropped\n", moved - dropped, dropped), down > 0;
}
