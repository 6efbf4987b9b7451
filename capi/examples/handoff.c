/* One thread receives from a port and passes the frames through a lane. A second thread sends them through another port, as soon as that port is
 * up: it waits for a memif peer or a link until SIGINT. Ends at the end of a capture, or on SIGINT, and with 1 if a port is down or frames were not sent.
 * Usage: handoff PORT PORT, for example: handoff pcap:in=a.pcap pcap:out=b.pcap */
#include <err.h>
#include <errno.h>
#include <netmem.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BURST 32
/* Rounds of a millisecond without progress, after which the program waits no longer for the port. */
#define IDLE_MAX 1000
#define MUST(call) ((call) < 0 ? errx(1, "%s: %s", #call, netmem_last_error()) : (void)0)

static netmem_memory memory;
static netmem_pool pool;
static netmem_lane lane;
static volatile sig_atomic_t stopped;
/* Written by the second thread, read after it has ended. */
static long not_sent;

/* The second thread's port, and what became of its frames. */
struct output {
    netmem_worker worker;
    netmem_port port;
    long taken, completed, freed;
    int idle;
};

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* Ends a round: claims the sent frames and wakes the port. Returns 0 if waiting is in vain: the port is down, or nothing moves. */
static int end_round(struct output *to, int taken)
{
    int completed = netmem_port_complete(to->worker, to->port);
    MUST(completed);
    MUST(netmem_port_kick(to->worker, to->port));
    to->taken += taken, to->completed += completed;
    to->idle = taken + completed > 0 ? 0 : to->idle + 1;
    if (to->idle == 0)
        return 1;
    poll(NULL, 0, 1);
    /* The call looks at the interface or the peer: only while nothing moves. */
    return netmem_port_state(to->worker, to->port) == 0 && to->idle < IDLE_MAX;
}

/* Frees frames that are not sent, and counts them. */
static void give_up(struct output *to, const netmem_frame *frames, int n)
{
    MUST(netmem_free(to->worker, frames, (uint32_t)n));
    to->freed += n;
}

/* Sends a burst: repeats the call for the frames that the port had no room for. Those that the port can never carry are taken out first: it
 * would be offered them for ever, and would count each offer. A port that is down takes none. */
static void send_all(struct output *to, netmem_frame *frames, int n)
{
    int goes_on = 1, bad = netmem_port_take_unsendable(to->worker, to->port, frames, (uint32_t)n);
    MUST(bad);
    n -= bad;
    give_up(to, frames + n, bad);
    while (n > 0 && goes_on) {
        int taken = netmem_port_tx(to->worker, to->port, frames, (uint32_t)n);
        MUST(taken);
        frames += taken, n -= taken;
        goes_on = end_round(to, taken);
    }
    give_up(to, frames, n);
}

/* Returns the sum of these counters of a port. The last name is NULL. */
static long sum(netmem_worker worker, netmem_port port, const char *const *names)
{
    netmem_count counts[64];
    long sum = 0;
    int n = netmem_port_counts(worker, port, counts, 64);
    MUST(n);
    for (; *names != NULL; names++)
        for (int i = 0; i < n && i < 64; i++)
            if (strcmp(counts[i].name, *names) == 0)
                sum += (long)counts[i].value;
    return sum;
}

/* Waits until the device has sent all frames and a memif peer has read its copies, and prints what became of them. */
static void report(struct output *to)
{
    /* Of the completed frames, those that were not written, as on a full disk, that the device refused, or that a memif peer had not read
     * when it went. The second counter has no other frames here, because the port was not offered those that it can never carry. */
    static const char *const LOST[] = {"tx_lost", "tx_invalid", "tx_left_unread", NULL};
    while ((to->completed < to->taken || netmem_port_tx_unread(to->worker, to->port) > 0) && end_round(to, 0))
        ;
    int unread = netmem_port_tx_unread(to->worker, to->port);
    MUST(unread);
    long sent = to->completed - sum(to->worker, to->port, LOST) - unread;
    not_sent = to->taken + to->freed - sent;
    printf("%ld handed over and sent\n", sent);
    if (not_sent > 0)
        warnx("%ld not sent: %s", not_sent,
              netmem_port_state(to->worker, to->port) < 0 ? netmem_last_error() : "the port or its peer has no room for them, refused them, or can never carry them");
}

/* The second thread. Sleeps while nothing arrives. Ends when the sender has closed its end and the lane is empty. */
static void *send_what_comes(void *text)
{
    struct output to = {0};
    netmem_frame frames[BURST];
    int n;
    MUST(netmem_worker_open(memory, &to.worker));
    MUST(netmem_lane_join(to.worker, lane));
    MUST(netmem_port_open(to.worker, pool, (const char *)text, NULL, &to.port));
    while (!stopped && netmem_port_state(to.worker, to.port) < 0)
        end_round(&to, 0);
    to.idle = 0;
    struct pollfd bell = {netmem_lane_fd(to.worker, lane), POLLIN, 0};
    while ((n = netmem_lane_receive(to.worker, lane, frames, BURST)) != -EPIPE) {
        MUST(n);
        send_all(&to, frames, n);
        if (n == 0) {
            if (netmem_lane_arm(to.worker, lane) == 0)
                poll(&bell, 1, 50);
            netmem_lane_disarm(to.worker, lane);
            int completed = netmem_port_complete(to.worker, to.port);
            MUST(completed);
            to.completed += completed;
            MUST(netmem_port_kick(to.worker, to.port));
        }
    }
    report(&to);
    MUST(netmem_port_close(to.worker, to.port));
    MUST(netmem_lane_close(to.worker, lane));
    MUST(netmem_worker_close(to.worker));
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
    do {
        netmem_port_refill(worker, port, pool);
        int n = netmem_port_rx(worker, port, frames, BURST), sent = 0;
        MUST(n);
        /* If the lane is full, this thread waits. No frame is dropped here: the second thread empties the lane, also after SIGINT. */
        while (sent < n) {
            int more = netmem_lane_send(worker, lane, frames + sent, (uint32_t)(n - sent));
            MUST(more);
            if ((sent += more) < n)
                poll(NULL, 0, 1);
        }
        netmem_port_kick(worker, port);
    } while (!stopped && netmem_port_finished(worker, port) == 0);
    MUST(netmem_lane_close(worker, lane));
    pthread_join(thread, NULL);
    /* A capture that is damaged ends early. */
    int is_down = netmem_port_state(worker, port) < 0;
    if (is_down)
        warnx("%s", netmem_last_error());
    static const char *const DROPPED[] = {"rx_no_frame", "rx_ring_full", "rx_too_long", "rx_dropped", "udp_without_size", NULL};
    long dropped = sum(worker, port, DROPPED);
    if (dropped > 0)
        warnx("%ld not received: they are longer than a frame, or came faster than this program took them", dropped);
    MUST(netmem_port_close(worker, port));
    MUST(netmem_pool_close(pool, 1000));
    MUST(netmem_worker_close(worker));
    MUST(netmem_memory_close(memory, 1000));
    return is_down || not_sent > 0;
}
