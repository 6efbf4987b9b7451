/* A DPDK program with many mempools: many EAL-ARGUMENTS. Of each two, the names differ in a character that is no letter. It waits until
 * its input ends. */
#include <rte_eal.h>
#include <rte_mempool.h>
#include <stdio.h>

#define POOLS 300

int main(int argc, char **argv)
{
    if (rte_eal_init(argc, argv) < 0)
        return 2;
    for (int i = 0; i < POOLS; i++) {
        char name[RTE_MEMPOOL_NAMESIZE];
        void *object;
        snprintf(name, sizeof name, i % 2 ? "mb-%d" : "mb_%d", i / 2);
        struct rte_mempool *pool = rte_mempool_create_empty(name, 4, 64, 0, 0, SOCKET_ID_ANY, 0);
        if (!pool || rte_mempool_set_ops_byname(pool, "netmem", NULL) != 0 || rte_mempool_populate_default(pool) < 0
            || rte_mempool_get(pool, &object) != 0)
            return 3;
    }
    printf("made\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
