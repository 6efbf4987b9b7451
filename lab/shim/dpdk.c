// The timed loops of DPDK: mempools, mbufs and rings between one producer and one consumer. Each loop lies here as a
// whole, around DPDK's own inline functions, so that no operation crosses the border between two languages; but for
// rings of many producers, of which one call passes a burst.

#define _GNU_SOURCE

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pause.h>
#include <rte_prefetch.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>
#include <rte_version.h>

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// The compiler must believe that what was allocated is used.
#define KEEP(place) __asm__ volatile("" : : "r"(place) : "memory")

// Bytes written: one cache line.
#define LINE 64

// Items moved by one call of a ring, where it is not one.
#define BURST 32

// Looks in vain after which a waiting side lets its caller look at the clock.
#define LOOKS 1024

static int started = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t registered;

static void unregister(void *unused) {
    (void)unused;
    rte_thread_unregister();
}

// Starts the environment on the calling thread, without devices, huge pages or files, and leaves the thread on the
// cores that it was on.
static void start(void) {
    static char core[32];
    static char *arguments[] = {"netmem-lab", "--no-huge",      "--no-shconf",  "--no-pci", "--no-telemetry",
                                "-m",         "512",            "--iova-mode=va", "--log-level=critical",
                                "--lcores",   core,             NULL};
    cpu_set_t before;
    int here = sched_getcpu();
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere != NULL)
        rte_openlog_stream(nowhere);
    snprintf(core, sizeof core, "0@%d", here < 0 ? 0 : here);
    if (pthread_getaffinity_np(pthread_self(), sizeof before, &before) != 0 ||
        pthread_key_create(&registered, unregister) != 0)
        return;
    started = rte_eal_init(RTE_DIM(arguments) - 1, arguments);
    pthread_setaffinity_np(pthread_self(), sizeof before, &before);
}

// Makes the calling thread one that has caches of its own, until it ends; 0 if it is one now.
int rival_dpdk_thread(void) {
    pthread_once(&once, start);
    if (started < 0)
        return -1;
    if (rte_lcore_id() != LCORE_ID_ANY)
        return 0;
    if (rte_thread_register() != 0)
        return -1;
    return pthread_setspecific(registered, &registered);
}

const char *rival_dpdk_version(void) {
    return rte_version();
}

// On pages of 4 KiB a mempool would begin every object on a page of its own, all of them in the same sets of the
// first-level cache, unless told that objects may cross pages, as they may where pages are huge.
#define LAYOUT RTE_MEMPOOL_F_NO_IOVA_CONTIG

// A mempool of bare objects of `bytes`, or NULL.
struct rte_mempool *rival_dpdk_frames_new(const char *name, unsigned count, unsigned bytes, unsigned cache) {
    return rte_mempool_create(name, count, bytes, cache, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, LAYOUT);
}

// The same by these ops, or NULL.
struct rte_mempool *rival_dpdk_objects_new(const char *name, const char *ops, unsigned count, unsigned bytes,
                                           unsigned cache) {
    struct rte_mempool *pool = rte_mempool_create_empty(name, count, bytes, cache, 0, SOCKET_ID_ANY, LAYOUT);
    if (pool == NULL)
        return NULL;
    if (rte_mempool_set_ops_byname(pool, ops, NULL) == 0 && rte_mempool_populate_default(pool) > 0)
        return pool;
    rte_mempool_free(pool);
    return NULL;
}

// Registers the ops of this name that a plug-in has registered in another table, that of the DPDK which it is linked to; 0
// where they are there now. A mempool names its ops by their place: so they get the same place in that table, for what
// the plug-in calls there.
int rival_dpdk_adopt_ops(struct rte_mempool_ops_table *table, const char *name) {
    for (uint32_t i = 0; i < rte_mempool_ops_table.num_ops; i++)
        if (strcmp(rte_mempool_ops_table.ops[i].name, name) == 0)
            return 0;
    for (uint32_t i = 0; i < table->num_ops && i < RTE_MEMPOOL_MAX_OPS_IDX; i++)
        if (strcmp(table->ops[i].name, name) == 0) {
            int place = rte_mempool_register_ops(&table->ops[i]);
            if (place < 0)
                return -1;
            table->ops[place] = table->ops[i];
            table->num_ops = RTE_MAX(table->num_ops, (uint32_t)place + 1);
            return 0;
        }
    return -1;
}

// A mempool of mbufs with `bytes` of room for data behind the headroom, or NULL: rte_pktmbuf_pool_create() with the
// layout of above.
struct rte_mempool *rival_dpdk_packets_new(const char *name, unsigned count, unsigned bytes, unsigned cache) {
    struct rte_pktmbuf_pool_private sizes = {.mbuf_data_room_size = RTE_PKTMBUF_HEADROOM + bytes};
    unsigned size = sizeof(struct rte_mbuf) + sizes.mbuf_data_room_size;
    return rte_mempool_create(name, count, size, cache, sizeof sizes, rte_pktmbuf_pool_init, &sizes, rte_pktmbuf_init,
                              NULL, SOCKET_ID_ANY, LAYOUT);
}

// Objects that are neither in the pool nor in a cache.
unsigned rival_dpdk_out(const struct rte_mempool *pool) {
    return rte_mempool_in_use_count(pool);
}

void rival_dpdk_pool_free(struct rte_mempool *pool) {
    rte_mempool_free(pool);
}

static inline void write_line(void *place) {
    memset(place, 0xa5, LINE);
}

// One frame out and back, `ops` times. Returns how many were refused.
uint64_t rival_dpdk_frames_single(struct rte_mempool *pool, int touched, uint64_t ops) {
    uint64_t refused = 0;
    for (uint64_t i = 0; i < ops; i++) {
        void *frame;
        if (rte_mempool_get(pool, &frame) != 0) {
            refused++;
            continue;
        }
        if (touched)
            write_line(frame);
        KEEP(frame);
        rte_mempool_put(pool, frame);
    }
    return refused;
}

// `burst` frames out and back at once, until `ops` went round; `held` has room for them. Returns how many were refused.
uint64_t rival_dpdk_frames_bulk(struct rte_mempool *pool, void **held, unsigned burst, int touched, uint64_t ops) {
    uint64_t refused = 0;
    for (uint64_t done = 0; done + burst <= ops; done += burst) {
        if (rte_mempool_get_bulk(pool, held, burst) != 0) {
            refused += burst;
            continue;
        }
        if (touched)
            for (unsigned i = 0; i < burst; i++)
                write_line(held[i]);
        KEEP(held);
        rte_mempool_put_bulk(pool, held, burst);
    }
    return refused;
}

// One packet of a line out, written and back, `ops` times. Returns how many were refused.
uint64_t rival_dpdk_packets_single(struct rte_mempool *pool, uint64_t ops) {
    uint64_t refused = 0;
    for (uint64_t i = 0; i < ops; i++) {
        struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
        char *data = packet == NULL ? NULL : rte_pktmbuf_append(packet, LINE);
        if (data == NULL) {
            refused++;
            continue;
        }
        write_line(data);
        KEEP(packet);
        rte_pktmbuf_free(packet);
    }
    return refused;
}

// `burst` packets of a line out, written and back at once, until `ops` went round; `held` has room for them.
uint64_t rival_dpdk_packets_bulk(struct rte_mempool *pool, struct rte_mbuf **held, unsigned burst, uint64_t ops) {
    uint64_t refused = 0;
    for (uint64_t done = 0; done + burst <= ops; done += burst) {
        if (rte_pktmbuf_alloc_bulk(pool, held, burst) != 0) {
            refused += burst;
            continue;
        }
        for (unsigned i = 0; i < burst; i++) {
            char *data = rte_pktmbuf_append(held[i], LINE);
            if (data != NULL)
                write_line(data);
            else
                refused++;
        }
        KEEP(held);
        rte_pktmbuf_free_bulk(held, burst);
    }
    return refused;
}

// Takes `count` packets and keeps them in `held`; 0 if all came.
int rival_dpdk_packets_take(struct rte_mempool *pool, struct rte_mbuf **held, unsigned count) {
    return rte_pktmbuf_alloc_bulk(pool, held, count);
}

// How many of the packets in the calling thread's cache must be out for the next one to lie a multiple of 4 KiB from the
// cache's counter.
unsigned rival_dpdk_packets_above_alias(struct rte_mempool *pool) {
    const struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());
    unsigned slot = (4096 + offsetof(struct rte_mempool_cache, len) - offsetof(struct rte_mempool_cache, objs)) /
                    sizeof(void *);
    return cache != NULL && cache->len > slot + 1 ? cache->len - slot - 1 : 0;
}

void rival_dpdk_packets_give(struct rte_mbuf **held, unsigned count) {
    rte_pktmbuf_free_bulk(held, count);
}

// A ring between one producer and one consumer, or NULL.
struct rte_ring *rival_dpdk_ring_new(const char *name, unsigned slots) {
    return rte_ring_create(name, slots, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

void rival_dpdk_ring_free(struct rte_ring *ring) {
    rte_ring_free(ring);
}

// Numbers through the ring, `BY` by one call.
//   send     from `next` on, until `ops` went or the ring stayed full; returns how many went
//   receive  numbers, which must begin at `next`, until `ops` came or the ring stayed empty; returns how many came, and
//            adds to `wrong` how many were others
#define NUMBERS(name, BY)                                                                                          \
    uint64_t rival_dpdk_ring_send_##name(struct rte_ring *ring, uint64_t next, uint64_t ops) {                     \
        uint64_t sent = 0;                                                                                         \
        for (unsigned looks = 0; sent < ops && looks < LOOKS;) {                                                   \
            void *items[BY];                                                                                       \
            for (uintptr_t i = 0; i < BY; i++)                                                                     \
                items[i] = (void *)(uintptr_t)(next + sent + i);                                                   \
            unsigned n = rte_ring_sp_enqueue_bulk(ring, items, BY, NULL);                                          \
            sent += n;                                                                                             \
            looks += n == 0;                                                                                       \
        }                                                                                                          \
        return sent;                                                                                               \
    }                                                                                                              \
                                                                                                                   \
    uint64_t rival_dpdk_ring_receive_##name(struct rte_ring *ring, uint64_t next, uint64_t ops, uint64_t *wrong) { \
        uint64_t received = 0;                                                                                     \
        for (unsigned looks = 0; received < ops && looks < LOOKS;) {                                               \
            void *items[BY];                                                                                       \
            unsigned n = rte_ring_sc_dequeue_burst(ring, items, BY, NULL);                                         \
            for (unsigned i = 0; i < n; i++)                                                                       \
                *wrong += (uintptr_t)items[i] != next + received + i;                                              \
            received += n;                                                                                         \
            looks += n == 0;                                                                                       \
        }                                                                                                          \
        return received;                                                                                           \
    }

NUMBERS(one, 1)
NUMBERS(burst, BURST)

// A ring of ids between any number of producers and one consumer, or as many, or NULL.
struct rte_ring *rival_dpdk_ids_new(const char *name, unsigned slots, int one_consumer) {
    return rte_ring_create_elem(name, sizeof(uint32_t), slots, SOCKET_ID_ANY, one_consumer ? RING_F_SC_DEQ : 0);
}

// Sends at most `count` ids; returns how many had room.
unsigned rival_dpdk_ids_send(struct rte_ring *ring, const uint32_t *ids, unsigned count) {
    return rte_ring_mp_enqueue_burst_elem(ring, ids, sizeof *ids, count, NULL);
}

// Receives at most `count` ids; returns how many.
unsigned rival_dpdk_ids_receive(struct rte_ring *ring, uint32_t *ids, unsigned count) {
    return rte_ring_dequeue_burst_elem(ring, ids, sizeof *ids, count, NULL);
}

// Allocates packets in bursts, writes a line into each, its number first, from `next` on, and sends them, until `ops`
// went or the ring stayed full. Returns how many; adds to `refused` how many there was no memory for.
uint64_t rival_dpdk_packets_send(struct rte_mempool *pool, struct rte_ring *ring, uint64_t next, uint64_t ops,
                                 uint64_t *refused) {
    uint64_t sent = 0;
    for (unsigned looks = 0; sent < ops && looks < LOOKS;) {
        struct rte_mbuf *packets[BURST];
        if (rte_ring_free_count(ring) < BURST) {
            looks++;
            continue;
        }
        if (rte_pktmbuf_alloc_bulk(pool, packets, BURST) != 0) {
            *refused += BURST;
            return sent;
        }
        for (unsigned i = 0; i < BURST; i++) {
            uint64_t *line = (uint64_t *)rte_pktmbuf_append(packets[i], LINE);
            if (line == NULL)
                continue;
            write_line(line);
            line[0] = next + sent + i;
        }
        unsigned n = rte_ring_sp_enqueue_burst(ring, (void **)packets, BURST, NULL);
        if (n < BURST)
            rte_pktmbuf_free_bulk(packets + n, BURST - n);
        sent += n;
    }
    return sent;
}

// Receives packets in bursts, reads of each its number, which must begin at `next`, and frees them, until `ops` came or
// the ring stayed empty. Returns how many; adds to `wrong` how many held something else.
uint64_t rival_dpdk_packets_receive(struct rte_ring *ring, uint64_t next, uint64_t ops, uint64_t *wrong) {
    uint64_t received = 0;
    for (unsigned looks = 0; received < ops && looks < LOOKS;) {
        struct rte_mbuf *packets[BURST];
        unsigned n = rte_ring_sc_dequeue_burst(ring, (void **)packets, BURST, NULL);
        if (n == 0) {
            looks++;
            continue;
        }
        // The lines come from the other core: all are on their way before the first is read. DPDK's forwarding examples
        // do the same behind a burst (examples/l2fwd, examples/l3fwd), and netmem's call that receives packets does it
        // itself. On Zen 4, with cores that share a cache, it makes no difference: 10.6 ns a packet, and 10.5 without.
        for (unsigned i = 0; i < n; i++)
            rte_prefetch0(rte_pktmbuf_mtod(packets[i], void *));
        for (unsigned i = 0; i < n; i++)
            *wrong += *rte_pktmbuf_mtod(packets[i], uint64_t *) != next + received + i;
        rte_pktmbuf_free_bulk(packets, n);
        received += n;
    }
    return received;
}
