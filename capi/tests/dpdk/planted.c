/* A DPDK program as it is, with faults that were planted: planted EAL-ARGUMENTS -- CACHE HOW. HOW: "left" ends without rte_mempool_free,
 * "freed" with it, "many" frees an mbuf many times, "unreadable" leaves caches that cannot be read, "asked" too and waits until its
 * input ends, "places" loses an mbuf at each of 20 places, "named" has a mempool whose name is not UTF-8, and "interrupted" ends in a
 * signal handler that interrupted a call of the mempool. */
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
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

/* By the op, as an inlined call of DPDK does: the compiler inlines no call that is made so often. */
#define LOSES(n)                                                               \
    __attribute__((noinline, noclone, no_icf)) static void loses_##n(void)     \
    {                                                                          \
        void *lost;                                                            \
        if (rte_mempool_get_ops(pool->ops_index)->dequeue(pool, &lost, 1) < 0) \
            abort();                                                           \
        __asm__ volatile("");                                                  \
    }
#define TWENTY(EACH) \
    EACH(0) EACH(1) EACH(2) EACH(3) EACH(4) EACH(5) EACH(6) EACH(7) EACH(8) EACH(9) EACH(10) EACH(11) EACH(12) EACH(13) EACH(14) EACH(15) \
    EACH(16) EACH(17) EACH(18) EACH(19)
TWENTY(LOSES)

static void loses_at_twenty_places(void)
{
#define CALL(n) loses_##n();
    TWENTY(CALL)
}

/* As rte_eal_cleanup does, if what lies there afterwards cannot be read. */
static void hide_caches(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)pool->local_cache, to = from + RTE_MAX_LCORE * sizeof *pool->local_cache;
    from = (from + page - 1) & ~(page - 1);
    if (mprotect((void *)from, (to & ~(page - 1)) - from, PROT_NONE) != 0)
        abort();
}

static void end_in_a_call(int number)
{
    void *object;
    struct rte_mempool_ops *ops = rte_mempool_get_ops(pool->ops_index);
    (void)number;
    int said = rte_mempool_avail_count(pool) <= MBUFS ? ops->dequeue(pool, &object, 1) : 0;
    if (said == -EBUSY)
        exit(0);
    if (said == 0)
        ops->enqueue(pool, &object, 1);
}

static void work_until_a_call_is_interrupted(void)
{
    struct rte_mbuf *mbufs[64];
    struct itimerval every = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, end_in_a_call);
    setitimer(ITIMER_REAL, &every, NULL);
    for (;;)
        if (rte_pktmbuf_alloc_bulk(pool, mbufs, 64) == 0)
            rte_pktmbuf_free_bulk(mbufs, 64);
}

int main(int argc, char **argv)
{
    int said = rte_eal_init(argc, argv);
    if (said < 0 || argc - said < 3)
        return 2;
    const char *how = argv[said + 2];
    pool = rte_pktmbuf_pool_create(strcmp(how, "named") == 0 ? "planted\xfc" : "planted", MBUFS, (unsigned)atoi(argv[said + 1]), 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!pool)
        return 3;
    struct rte_mbuf *mbuf, *more[MORE];
    loses_some();
    if (rte_pktmbuf_alloc_bulk(pool, more, MORE) != 0 || !(mbuf = rte_pktmbuf_alloc(pool)))
        return 4;
    frees_it(mbuf);
    for (int i = 0; i < (strcmp(how, "many") == 0 ? 300 : 1); i++)
        frees_it_again(mbuf);
    /* So many, one by one, that a cache of an lcore is flushed. */
    for (int i = 0; i < MORE; i++)
        rte_pktmbuf_free(more[i]);
    if (strcmp(how, "freed") == 0)
        rte_mempool_free(pool);
    if (strcmp(how, "interrupted") == 0)
        work_until_a_call_is_interrupted();
    if (strcmp(how, "places") == 0)
        loses_at_twenty_places();
    if (strcmp(how, "unreadable") == 0 || strcmp(how, "asked") == 0)
        hide_caches();
    if (strcmp(how, "asked") == 0) {
        printf("hidden\n");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    printf("done\n");
    return 0;
}
