/* One thread receives from a port and passes the frames through a lane. A second thread sends them through another port. Ends at the end of a capture,
 * or on SIGINT. Usage: handoff PORT PORT, for example: handoff pcap:in=a.pcap pcap:out=b.pcap */
#include <err.h>
#include <errno.h>
#include <netmem.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#define BURST 32
#define MUST(call) ((call) < 0 ? errx(1, "%s: %s", #call, netmem_last_error()) : (void)0)

static netmem_memory memory;
static netmem_pool pool;
static netmem_lane lane;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* Sends all frames of a burst: repeats the call for those that the port had no room for. */
static void send_all(netmem_worker worker, netmem_port port, netmem_frame *frames, int n)
{
    while (n > 0) {
        int taken = netmem_port_tx(worker, port, frames, (uint32_t)n);
        MUST(taken);
        frames += taken, n -= taken;
        netmem_port_complete(worker, port);
        netmem_port_kick(worker, port);
    }
}

/* The second thread. Sleeps while nothing arrives. Ends when the sender has closed its end and all frames are sent. */
static void *send_what_comes(void *text)
{
    netmem_worker worker;
    netmem_port port;
    netmem_frame frames[BURST];
    long sent = 0;
    int n;
    MUST(netmem_worker_open(memory, &worker));
    MUST(netmem_lane_join(worker, lane));
    MUST(netmem_port_open(worker, pool, (const char *)text, NULL, &port));
    struct pollfd bell = {netmem_lane_fd(worker, lane), POLLIN, 0};
    while ((n = netmem_lane_receive(worker, lane, frames, BURST)) != -EPIPE) {
        MUST(n);
        send_all(worker, port, frames, n);
        sent += n;
        if (n == 0) {
            if (netmem_lane_arm(worker, lane) == 0)
                poll(&bell, 1, 50);
            netmem_lane_disarm(worker, lane);
            netmem_port_complete(worker, port);
        }
    }
    while (netmem_port_complete(worker, port) > 0)
        ;
    MUST(netmem_port_close(worker, port));
    MUST(netmem_lane_close(worker, lane));
    MUST(netmem_worker_close(worker));
    printf("%ld handed over and sent\n", sent);
    return NULL;
}

int main(int argc, char **argv)
{
    netmem_worker worker;
    netmem_port port;
    netmem_frame frames[BURST];
    pthread_t thread;
    if (argc != 3)
        errx(2, "usage: handoff PORT PORT");
    signal(SIGINT, stop);
    MUST(netmem_memory_open(NULL, &memory));
    MUST(netmem_worker_open(memory, &worker));
    MUST(netmem_pool_open(worker, NULL, &pool));
    MUST(netmem_port_open(worker, pool, argv[1], NULL, &port));
    MUST(netmem_lane_open(worker, 0, &lane));
    if (pthread_create(&thread, NULL, send_what_comes, argv[2]) != 0)
        errx(1, "no second thread");
    while (!stopped && netmem_port_finished(worker, port) == 0) {
        netmem_port_refill(worker, port, pool);
        int n = netmem_port_rx(worker, port, frames, BURST), sent = 0;
        MUST(n);
        /* If the lane is full, the receiving thread waits. No frame is dropped here. */
        while (sent < n) {
            int more = netmem_lane_send(worker, lane, frames + sent, (uint32_t)(n - sent));
            MUST(more);
            sent += more;
        }
        netmem_port_kick(worker, port);
    }
    MUST(netmem_lane_close(worker, lane));
    pthread_join(thread, NULL);
    MUST(netmem_port_close(worker, port));
    MUST(netmem_pool_close(pool, 1000));
    MUST(netmem_worker_close(worker));
    MUST(netmem_memory_close(memory, 1000));
    return 0;
}
