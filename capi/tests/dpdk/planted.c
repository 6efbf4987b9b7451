/* A DPDK program as it is, with faults that were planted: planted EAL-ARGUMENTS -- CACHE. It ends without rte_mempool_free or with it
 * (CACHE, then "freed"). */
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
    int said = rte_eal_init(argc, argv);
    if (said < 0 || argc - said < 2)
        return 2;
    pool = rte_pktmbuf_pool_create("planted", MBUFS, (unsigned)atoi(argv[said + 1]), 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!pool)
        return 3;
    struct rte_mbuf *mbuf, *more[MORE];
    loses_some();
    if (rte_pktmbuf_alloc_bulk(pool, more, MORE) != 0 || !(mbuf = rte_pktmbuf_alloc(pool)))
        return 4;
    frees_it(mbuf);
    frees_it_again(mbuf);
    /* So many, one by one, that a cache of an lcore is flushed. */
    for (int i = 0; i < MORE; i++)
        rte_pktmbuf_free(more[i]);
    if (argc - said > 2 && strcmp(argv[said + 2], "freed") == 0)
        rte_mempool_free(pool);
    printf("done\n");
    return 0;
}
