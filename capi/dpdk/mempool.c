/* The mempool ops "netmem" for DPDK. A stock of libnetmem records which objects of a mempool are free, and refuses an object that is given back twice.
 *
 *   PROGRAM -d librte_mempool_netmem.so --mbuf-pool-ops-name=netmem ...
 *
 * DPDK decides where the objects lie. The pool_id of a mempool holds the handle of its stock. A secondary process has none of the
 * primary's stocks, so the library refuses the handle there like any invalid one. If the mempool has a cache for each lcore, an object
 * arrives here together with many others, long after the program gave it back. So the call site is recorded only without such caches.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "pools.h"
#include <errno.h>
#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_eal.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Maximum number of calls in the backtrace of a misuse. */
#define CALLS 10

struct known *first;
/* The process that listed the newest of them. */
static _Atomic pid_t listed_by;
/* Protects the list. Never held while the ops of a mempool move objects. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
/* Whether this thread has the list or waits for it. */
static __thread volatile sig_atomic_t has_list;

bool lock_list(void)
{
    if (has_list)
        return false;
    has_list = true;
    pthread_mutex_lock(&list_lock);
    return true;
}

void unlock_list(void)
{
    pthread_mutex_unlock(&list_lock);
    has_list = false;
}

/* Whether this is a child (fork(2)) of the process that has the mempools: another thread of that process may have had the lock. */
static bool is_child(void)
{
    return listed_by != 0 && getpid() != listed_by;
}

/* Waits of 10 ms for room in the file of the reports, for the whole process. */
static atomic_int waits_left = 100;

/* Makes text that is not UTF-8, such as the name of a mempool can be, text that the library takes. */
static void make_ascii(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            *text = '?';
}

/* netmem_report for a line that may have the name of a mempool in it. */
static int report_line(char *line)
{
    int said = netmem_report(line);
    if (said != -EINVAL)
        return said;
    make_ascii(line);
    return netmem_report(line);
}

/* Reports a line where the library reports misuse. Called when mempools are made, freed and at the program's end, so it may wait a moment. */
static __attribute__((format(printf, 1, 2))) void report(const char *format, ...)
{
    const struct timespec moment = {0, 10000000};
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    while (report_line(line) == -EAGAIN && atomic_fetch_sub(&waits_left, 1) > 0)
        nanosleep(&moment, NULL);
}

/* Reads memory of this process. Returns false, where a load would end the process: DPDK may have unmapped the memory. */
static bool read_own(void *to, const void *from, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
    return bytes == 0 || process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

struct cached cached_of(const struct known *pool)
{
    struct cached cached = {NULL, 0, true}, unknown = {NULL, 0, false};
    uint32_t len[RTE_MAX_LCORE];
    size_t total = 0;
    if (!pool->caches)
        return cached;
    for (unsigned int lcore = 0; lcore < RTE_MAX_LCORE; lcore++) {
        if (!read_own(&len[lcore], &pool->caches[lcore].len, sizeof *len))
            return unknown;
        len[lcore] = RTE_MIN(len[lcore], (uint32_t)RTE_DIM(pool->caches->objs));
        total += len[lcore];
    }
    if (total > 0 && !(cached.objects = calloc(total, sizeof(void *))))
        return unknown;
    for (unsigned int lcore = 0; lcore < RTE_MAX_LCORE; cached.n += len[lcore++])
        if (!read_own(cached.objects + cached.n, pool->caches[lcore].objs, len[lcore] * sizeof(void *))) {
            free(cached.objects);
            return unknown;
        }
    return cached;
}

const char *or_unknown(const char *place)
{
    return place[0] ? place : "an unknown place (the mempool has a cache for each lcore)";
}

/* Reads the caches and then the ledger of a mempool. Returns what netmem_stock_ledger does; the caches are only read if that is not negative. */
static int take_census(const struct known *pool, struct cached *cached, netmem_stock_counts *counts)
{
    *cached = cached_of(pool);
    int said = netmem_stock_ledger(pool->stock, cached->objects, cached->n, counts);
    if (said < 0)
        free(cached->objects);
    return said;
}

/* Whether a second census shows the same as this one: otherwise threads move objects, and one that is on its way is in two places. */
static bool is_at_rest(const struct known *pool, const struct cached *cached, const netmem_stock_counts *counts)
{
    const struct timespec moment = {0, 10000000};
    struct cached again;
    netmem_stock_counts then;
    nanosleep(&moment, NULL);
    if (take_census(pool, &again, &then) < 0)
        return false;
    bool is_same = again.n == cached->n && then.taken == counts->taken && then.returned == counts->returned
        && (again.n == 0 || memcmp(again.objects, cached->objects, again.n * sizeof(void *)) == 0);
    free(again.objects);
    return is_same;
}

/* Reports the objects of a mempool by state, not by DPDK's log, which may be closed. `also_good`: also if none is out, and none was misused. */
static void say(const struct known *pool, const char *when, bool also_good)
{
    netmem_stock_counts counts;
    netmem_stock_holder holders[HOLDERS];
    struct cached cached;
    int said = take_census(pool, &cached, &counts);
    if (said == -EBUSY)
        report("netmem: mempool %s %s: cannot be read: a call was interrupted", pool->name, when);
    if (said < 0)
        return;
    if (!also_good && counts.out + counts.duplicated + counts.freed_twice + counts.made_up == 0) {
        free(cached.objects);
        return;
    }
    report("netmem: mempool %s %s: %" PRIu64 " objects: %" PRIu64 " free, %" PRIu64 " in caches, %" PRIu64 " out%s; %" PRIu64
           " taken, %" PRIu64 " given back, %" PRIu64 " freed twice, %" PRIu64 " made up, %" PRIu64 " failed calls",
           pool->name, when, counts.total, counts.free, counts.cached, counts.out,
           cached.is_known ? "" : " or in caches, which cannot be read", counts.taken, counts.returned,
           counts.freed_twice, counts.made_up, counts.failed);
    if (counts.duplicated > 0 && is_at_rest(pool, &cached, &counts))
        report("netmem: mempool %s: %" PRIu64 " objects lie in caches of lcores, but are free or there twice: freed twice", pool->name,
               counts.duplicated);
    else if (counts.duplicated > 0)
        report("netmem: mempool %s: threads still move objects: these numbers are not exact", pool->name);
    int n = cached.is_known ? netmem_stock_holders(pool->stock, cached.objects, cached.n, holders, HOLDERS) : 0;
    for (int i = 0; i < n && i < HOLDERS; i++)
        report("netmem: mempool %s: %" PRIu64 " objects are out that were taken at %s", pool->name, holders[i].objects,
               or_unknown(holders[i].site));
    if (n > HOLDERS)
        report("netmem: mempool %s: objects are out that were taken at %d more places", pool->name, n - HOLDERS);
    free(cached.objects);
}

/* Makes the stock of a mempool that has no objects forget those that it had. DPDK frees the memory of all objects if it cannot place
 * enough of them. Before that it takes each of them from these ops, so the stock has them as objects that are out. */
static int forget_freed(const struct rte_mempool *mp)
{
    netmem_stock stock = {mp->pool_id};
    return mp->populated_size == 0 ? netmem_stock_clear(stock) : 0;
}

/* Reports a mempool before its memory is freed, while the ledger is still valid. A program may make and free thousands: nothing is said of one
 * that is as it should be. */
static void on_event(enum rte_mempool_event event, struct rte_mempool *mp, void *unused)
{
    (void)unused;
    if (event != RTE_MEMPOOL_EVENT_DESTROY)
        return;
    if (is_child() || !lock_list())
        return;
    for (struct known *pool = first; pool; pool = pool->next)
        if (pool->mp == mp) {
            forget_freed(mp);
            say(pool, "at its end", false);
        }
    unlock_list();
}

static int alloc_stock(struct rte_mempool *mp)
{
    static bool is_registered;
    struct known *pool = calloc(1, sizeof *pool);
    if (!pool)
        return -ENOMEM;
    snprintf(pool->name, sizeof pool->name, "%s", mp->name);
    netmem_stock_config config = {.name = pool->name, .objects = mp->size};
    int said = netmem_stock_open(&config, &pool->stock);
    if (said == -EINVAL) {
        make_ascii(pool->name);
        said = netmem_stock_open(&config, &pool->stock);
    }
    if (said < 0) {
        report("netmem: mempool %s: %s", mp->name, netmem_last_error());
        free(pool);
        return said;
    }
    if (!lock_list()) {
        netmem_stock_close(pool->stock);
        free(pool);
        return -EBUSY;
    }
    pool->mp = mp;
    pool->caches = mp->cache_size > 0 ? mp->local_cache : NULL;
    mp->pool_id = pool->stock.word;
    pool->next = first;
    first = pool;
    listed_by = getpid();
    if (!is_registered && rte_mempool_event_callback_register(on_event, NULL) < 0)
        report("netmem: what mempools hold at their end is not said: no callback");
    is_registered = true;
    unlock_list();
    return 0;
}

static void free_stock(struct rte_mempool *mp)
{
    if (is_child()) {
        /* Refused, counted and reported. */
        netmem_stock_close((netmem_stock){mp->pool_id});
        return;
    }
    if (!lock_list())
        return;
    for (struct known **at = &first; *at; at = &(*at)->next)
        if ((*at)->mp == mp) {
            struct known *pool = *at;
            *at = pool->next;
            netmem_stock_close(pool->stock);
            free(pool);
            break;
        }
    unlock_list();
}

static const void *place(const struct rte_mempool *mp, const void *from)
{
    return mp->cache_size == 0 ? from : NULL;
}

/* Whether a backtrace is reported: 16 at once, then one each second, as the library reports misuse. */
static bool may_say_calls(void)
{
    static _Atomic uint64_t whole_at;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t now = (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000, before = whole_at, next;
    do {
        next = RTE_MAX(before, now) + 1000;
        if (next > now + 16 * 1000)
            return false;
    } while (!atomic_compare_exchange_weak(&whole_at, &before, next));
    return true;
}

/* Reports the backtrace of a misuse. It shows the caller if the compiler did not inline a DPDK function, in which the call site then lies.
 * It never waits: the caller may be the dataplane. */
static __attribute__((noinline)) void say_calls(const struct rte_mempool *mp)
{
    char line[RTE_MEMPOOL_NAMESIZE + 80];
    void *calls[CALLS];
    int n = backtrace(calls, CALLS);
    char **names = backtrace_symbols(calls, n);
    snprintf(line, sizeof line, "netmem: mempool %s: the calls on the way there, the last one first:", mp->name);
    /* Skips this function and the op. */
    for (int i = 2, said = report_line(line); names && said == 0 && i < n; i++)
        said = report_line(names[i]);
    free(names);
}

static int enqueue(struct rte_mempool *mp, void *const *objects, unsigned int n)
{
    netmem_stock stock = {mp->pool_id};
    int said = netmem_stock_give(stock, objects, n, place(mp, __builtin_return_address(0)));
    if (unlikely(said < 0) && mp->cache_size == 0 && netmem_policy() != NETMEM_COUNT && may_say_calls())
        say_calls(mp);
    return said;
}

static int dequeue(struct rte_mempool *mp, void **objects, unsigned int n)
{
    netmem_stock stock = {mp->pool_id};
    return netmem_stock_take(stock, objects, n, place(mp, __builtin_return_address(0)));
}

static unsigned int get_count(const struct rte_mempool *mp)
{
    netmem_stock stock = {mp->pool_id};
    int free = netmem_stock_count(stock);
    return free < 0 ? 0 : (unsigned int)free;
}

/* The callback of DPDK for each object that it places; and how many objects the stock refused. */
struct placed {
    rte_mempool_populate_obj_cb_t *call;
    void *argument;
    int refused;
};

/* Adds an object to the stock, and only then to DPDK's list of the mempool's objects. */
static void take_in(struct rte_mempool *mp, void *argument, void *object, rte_iova_t iova)
{
    struct placed *placed = argument;
    netmem_stock stock = {mp->pool_id};
    int said = netmem_stock_add(stock, &object, 1);
    if (said >= 0) {
        placed->call(mp, placed->argument, object, iova);
    } else if (placed->refused++ == 0) {
        report("netmem: mempool %s: %s", mp->name, netmem_last_error());
    }
}

/* Uses the layout of DPDK. DPDK places each object, which is out then, and gives it to these ops.
 * Returns the number of objects that the mempool now has more. Each object that the stock refused is left out of DPDK's list too. If
 * there are no others, this is 0: only then does DPDK give the memory back and keep what the mempool has. After a negative number it
 * keeps this memory, or frees all memory of the mempool. */
static int populate(struct rte_mempool *mp, unsigned int at_most, void *memory, rte_iova_t iova, size_t bytes,
                    rte_mempool_populate_obj_cb_t *call, void *argument)
{
    struct placed placed = {.call = call, .argument = argument};
    int said = forget_freed(mp);
    if (said < 0) {
        report("netmem: mempool %s: %s", mp->name, netmem_last_error());
        return 0;
    }
    int n = rte_mempool_op_populate_helper(mp, 0, at_most, memory, iova, bytes, take_in, &placed);
    return n < 0 ? n : n - placed.refused;
}

static const struct rte_mempool_ops ops = {
    .name = "netmem",
    .alloc = alloc_stock,
    .free = free_stock,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .get_count = get_count,
    .populate = populate,
};

RTE_MEMPOOL_REGISTER_OPS(ops);

/* The policy for misuse, for a program that does not know the library. */
RTE_INIT(netmem_read_policy)
{
    static const char *const names[] = {[NETMEM_COUNT] = "count", [NETMEM_REPORT] = "report", [NETMEM_ABORT] = "abort"};
    const char *name = secure_getenv("NETMEM_POLICY");
    if (!name)
        return;
    for (unsigned int policy = 0; policy < RTE_DIM(names); policy++)
        if (strcmp(name, names[policy]) == 0) {
            netmem_set_policy((int)policy);
            return;
        }
    report("netmem: NETMEM_POLICY=%.100s is no policy and has no effect: give count, report or abort", name);
}

/* Reports the mempools that were not freed when the program ends. A signal handler can end it in the middle of a call: what that call
 * holds is refused, which is no reason to abort a program that ends. */
RTE_FINI(netmem_end)
{
    if (listed_by == 0 || is_child())
        return;
    if (netmem_policy() == NETMEM_ABORT)
        netmem_set_policy(NETMEM_REPORT);
    if (!lock_list()) {
        report("netmem: mempools at the program's end: cannot be read: a call was interrupted");
        return;
    }
    for (const struct known *pool = first; pool; pool = pool->next)
        say(pool, "at the program's end", true);
    unlock_list();
}
