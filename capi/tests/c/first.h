/* What each of these programs begins with: a memory, a worker, a pool; and checks that end the program. C11 and C++17. */
#ifndef FIRST_H
#define FIRST_H
#include <errno.h>
#include <netmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                   \
    do {                                                                                              \
        if (!(what)) {                                                                                \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, netmem_last_error()); \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

static netmem_memory memory;
static netmem_worker worker;
static netmem_pool pool;

static inline void open_all(void)
{
    netmem_memory_config config;
    memset(&config, 0, sizeof config);
    config.bytes = 16u << 20;
    config.small_pages = 1;
    CHECK(netmem_memory_open(&config, &memory) == 0);
    CHECK(netmem_worker_open(memory, &worker) == 0);
    CHECK(netmem_pool_open(worker, NULL, &pool) == 0);
}

static inline void close_all(void)
{
    CHECK(netmem_pool_close(pool, 1000) == 0);
    CHECK(netmem_worker_close(worker) == 0);
    CHECK(netmem_memory_close(memory, 1000) == 0);
}

/* How often a kind of misuse was counted. */
static inline uint64_t misuses(const char *kind)
{
    netmem_count counts[32];
    int n = netmem_misuses(counts, 32);
    for (int i = 0; i < n && i < 32; i++)
        if (strcmp(counts[i].name, kind) == 0)
            return counts[i].value;
    fprintf(stderr, "there is no kind of misuse %s\n", kind);
    exit(1);
}

/* How often misuse of any kind was counted. */
static inline uint64_t all_misuses(void)
{
    netmem_count counts[32];
    uint64_t sum = 0;
    int n = netmem_misuses(counts, 32);
    CHECK(n > 0 && n <= 32);
    for (int i = 0; i < n; i++)
        sum += counts[i].value;
    return sum;
}

/* All frames of the pool are home, and the ledger adds up. */
static inline void check_home(void)
{
    netmem_ledger ledger;
    CHECK(netmem_pool_ledger(pool, &ledger) == 1);
    CHECK(ledger.owned == 0 && ledger.posted == 0 && ledger.total == ledger.free + ledger.cached + ledger.returning);
}

/* A part of a program, by the name with which the program is started. */
struct test_case {
    const char *name;
    void (*run)(void);
};

/* Runs the case of this name between `open` and `close`, and checks that all frames are back. Returns the exit code. */
static inline int run_case(const struct test_case *all, size_t n, const char *name, void (*open)(void), void (*close)(void))
{
    size_t i;
    open();
    for (i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) {
            all[i].run();
            check_home();
            close();
            printf("%s: as it should be\n", name);
            return 0;
        }
    fprintf(stderr, "there is no %s\n", name);
    return 2;
}

static inline netmem_frame one(void)
{
    netmem_frame frame;
    CHECK(netmem_alloc(worker, pool, &frame, 1) == 1);
    return frame;
}
#endif
