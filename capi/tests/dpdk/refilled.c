/* A DPDK program that populates a mempool again: refilled EAL-ARGUMENTS. The first time DPDK's heap has no memory for all objects. It also
 * gives the same memory to a mempool twice. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>

#define OBJECTS 20000
#define BYTES 512
#define FEW 8
/* Enough for about half of the objects. */
#define HOLE ((size_t)6 << 20)

#define CHECK(what)                                                                                              \
    do {                                                                                                         \
        if (!(what)) {                                                                                           \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, rte_strerror(rte_errno)); \
            exit(1);                                                                                             \
        }                                                                                                        \
    } while (0)

static struct rte_mempool *empty(const char *name, unsigned int objects)
{
    struct rte_mempool *pool = rte_mempool_create_empty(name, objects, BYTES, 0, 0, SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
    CHECK(pool && rte_mempool_set_ops_byname(pool, "netmem", NULL) == 0);
    return pool;
}

/* Memory for so many objects that is not of DPDK's heap. */
static char *memory_for(unsigned int objects, size_t *bytes)
{
    *bytes = (size_t)objects * rte_mempool_calc_obj_size(BYTES, RTE_MEMPOOL_F_NO_IOVA_CONTIG, NULL);
    char *memory = aligned_alloc(RTE_MEMPOOL_ALIGN, *bytes);
    CHECK(memory);
    return memory;
}

/* Leaves DPDK's heap little more than one hole. */
static void take_the_heap(void)
{
    void *hole = rte_malloc(NULL, HOLE, 0);
    CHECK(hole);
    for (size_t bytes = (size_t)1 << 30; bytes > (size_t)64 << 10; bytes /= 2)
        while (rte_malloc(NULL, bytes, 0))
            ;
    rte_free(hole);
}

/* Takes all objects of a mempool, each of which lies in this memory, and puts them back. */
static void use_all(struct rte_mempool *pool, const char *memory, size_t bytes)
{
    void **objects = calloc(pool->populated_size, sizeof(void *));
    CHECK(objects);
    for (unsigned int i = 0; i < pool->populated_size; i++) {
        CHECK(rte_mempool_get(pool, &objects[i]) == 0);
        CHECK((char *)objects[i] >= memory && (char *)objects[i] < memory + bytes);
    }
    CHECK(rte_mempool_avail_count(pool) == 0);
    for (unsigned int i = 0; i < pool->populated_size; i++)
        rte_mempool_put(pool, objects[i]);
    free(objects);
}

static void fails_and_is_populated_again(void)
{
    size_t bytes;
    char *memory = memory_for(OBJECTS, &bytes);
    struct rte_mempool *pool = empty("refilled", OBJECTS);
    take_the_heap();
    CHECK(rte_mempool_populate_default(pool) < 0 && pool->populated_size == 0);
    CHECK(rte_mempool_populate_iova(pool, memory, RTE_BAD_IOVA, bytes, NULL, NULL) == OBJECTS);
    CHECK(rte_mempool_avail_count(pool) == OBJECTS);
    use_all(pool, memory, bytes);
    rte_mempool_free(pool);
    free(memory);
}

static void fails_and_is_freed(void)
{
    struct rte_mempool *pool = empty("failed", OBJECTS);
    CHECK(rte_mempool_populate_default(pool) < 0);
    rte_mempool_free(pool);
}

static void is_given_the_same_memory_twice(void)
{
    size_t bytes;
    char *memory = memory_for(FEW, &bytes);
    struct rte_mempool *pool = empty("twice", 2 * FEW);
    CHECK(rte_mempool_populate_iova(pool, memory, RTE_BAD_IOVA, bytes, NULL, NULL) == FEW);
    CHECK(rte_mempool_populate_iova(pool, memory, RTE_BAD_IOVA, bytes, NULL, NULL) == 0);
    CHECK(pool->populated_size == FEW && rte_mempool_avail_count(pool) == FEW);
    use_all(pool, memory, bytes);
    rte_mempool_free(pool);
    free(memory);
}

int main(int argc, char **argv)
{
    CHECK(rte_eal_init(argc, argv) >= 0);
    fails_and_is_populated_again();
    fails_and_is_freed();
    is_given_the_same_memory_twice();
    printf("done\n");
    return 0;
}
