/* A DPDK program as it is, with faults that were planted: planted EAL-ARGUMENTS -- CACHE HOW. HOW: "left" ends without rte_mempool_free,
 * "freed" with it, "many" frees an mbuf many times, and "unreadable" leaves caches that cannot be read. */
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MBUFS 1024
#define LOST 7
#define MORE 600

static struct rte_mempool *pool;

__attribute__((noinline, noclone, no_icf)) void frees_it(struct rte_mbuf *mbuf)
{
    rte_pktmbuf_free(mbuf);
    __asm__ volatile("");
}

__attribute__((noinline, noclone, no_icf)) void frees_it_again(struct rte_mbuf *mbuf)
{
    rte_pktmbuf_free(mbuf);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) void loses_some(void)
{
    for (int i = 0; i < LOST; i++)
        if (!rte_pktmbuf_alloc(pool))
            abort();
    __asm__ volatile("");
}

/* As rte_eal_cleanup does, if what lies there afterwards cannot be read. */
static void hide_caches(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)pool->local_cache, to = from + RTE_MAX_LCORE * sizeof *pool->local_cache;
    from = (from + page - 1) & ~(page - 1);
    if (mprotect((void *)from, (to & ~(page - 1)) - from, PROT_NONE) != 0)
        abort();
}

int main(int argc, char **argv)
{
    int said = rte_eal_init(argc, argv);
    if (said < 0 || argc - said < 3)
        return 2;
    pool = rte_pktmbuf_pool_create("planted", MBUFS, (unsigned)atoi(argv[said + 1]), 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!pool)
        return 3;
    struct rte_mbuf *mbuf, *more[MORE];
    loses_some();
    if (rte_pktmbuf_alloc_bulk(pool, more, MORE) != 0 || !(mbuf = rte_pktmbuf_alloc(pool)))
        return 4;
    frees_it(mbuf);
    for (int i = 0; i < (strcmp(argv[said + 2], "many") == 0 ? 300 : 1); i++)
        frees_it_again(mbuf);
    /* So many, one by one, that a cache of an lcore is flushed. */
    for (int i = 0; i < MORE; i++)
        rte_pktmbuf_free(more[i]);
    if (strcmp(argv[said + 2], "freed") == 0)
        rte_mempool_free(pool);
    if (strcmp(argv[said + 2], "unreadable") == 0)
        hide_caches();
    printf("done\n");
    return 0;
}
