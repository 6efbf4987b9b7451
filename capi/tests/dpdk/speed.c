/* What netmem's mempool ops cost beside DPDK's own: ns an object, to get it and put it back. Windows are short and take turns; of each the
 * value that a tenth of them is below is shown, since the machine may stand still. usage: speed EAL-ARGUMENTS */
#include <rte_eal.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WINDOWS 2001
#define ROUNDS 200
#define OBJECTS 4096
#define OPS 3

static const char *const NAMES[OPS] = {"ring_mp_mc", "stack", "netmem"};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct rte_mempool *make(const char *ops, unsigned int cache)
{
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "%s-%u", ops, cache);
    struct rte_mempool *pool = rte_mempool_create_empty(name, OBJECTS, 256, cache, 0, SOCKET_ID_ANY, 0);
    if (!pool || rte_mempool_set_ops_byname(pool, ops, NULL) != 0 || rte_mempool_populate_default(pool) < 0) {
        fprintf(stderr, "no mempool %s\n", name);
        exit(1);
    }
    return pool;
}

static double window(struct rte_mempool *pool, unsigned int burst)
{
    void *objects[64];
    double begun = now();
    for (int i = 0; i < ROUNDS; i++) {
        if (rte_mempool_get_bulk(pool, objects, burst) != 0)
            exit(1);
        rte_mempool_put_bulk(pool, objects, burst);
    }
    return (now() - begun) / ROUNDS / burst;
}

int main(int argc, char **argv)
{
    static double windows[OPS][WINDOWS];
    if (rte_eal_init(argc, argv) < 0)
        return 2;
    for (unsigned int cache = 0; cache <= 256; cache += 256) {
        struct rte_mempool *pools[OPS];
        for (int ops = 0; ops < OPS; ops++)
            pools[ops] = make(NAMES[ops], cache);
        for (unsigned int burst = 1; burst <= 32; burst += 31) {
            for (int i = 0; i < WINDOWS; i++)
                for (int ops = 0; ops < OPS; ops++)
                    windows[ops][i] = window(pools[ops], burst);
            for (int ops = 0; ops < OPS; ops++) {
                qsort(windows[ops], WINDOWS, sizeof(double), by_size);
                printf("cache %3u, by %2u: %-10s %6.2f ns\n", cache, burst, NAMES[ops], windows[ops][WINDOWS / 10]);
            }
        }
    }
    return 0;
}
