/* The mempools that use the ops "netmem", for the files of the plug-in.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef POOLS_H
#define POOLS_H
#include <netmem.h>
#include <rte_mempool.h>
#include <stdbool.h>
#include <stddef.h>

/* Maximum number of call sites in a report of holders. */
#define HOLDERS 16

/* A mempool that uses these ops. */
struct known {
    struct known *next;
    struct rte_mempool *mp;
    netmem_stock stock;
    /* The caches of all lcores. NULL if the mempool has no caches. */
    const struct rte_mempool_cache *caches;
    char name[RTE_MEMPOOL_NAMESIZE];
};

/* The objects in the caches of the lcores. */
struct cached {
    void **objects;
    size_t n;
    /* False if the caches cannot be read: rte_eal_cleanup has unmapped them, or there is no memory for a copy. */
    bool is_known;
};

/* The program has names of its own. */
#pragma GCC visibility push(hidden)
/* The newest one. */
extern struct known *first;
/* Locks the list. Returns false if a signal handler asks, for instance by exit(3), that interrupted a call of this thread that has it. */
bool lock_list(void);
void unlock_list(void);
/* Reads the caches. The caller frees `objects`. */
struct cached cached_of(const struct known *pool);
/* A call site as text. */
const char *or_unknown(const char *place);
#pragma GCC visibility pop

#endif
