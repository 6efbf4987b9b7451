/* What the mempool ops "netmem" tell by DPDK's telemetry.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pools.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <rte_common.h>
#include <rte_telemetry.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define add_number rte_tel_data_add_dict_uint
#else
#define add_number rte_tel_data_add_dict_u64
#endif

/* Bytes of an answer. DPDK leaves out of 16 KiB of JSON what does not fit, and says nothing. */
#define ANSWER (16384 - 512)
/* Parts of an answer. One entry is for the number of those that are left out. */
#define PARTS (RTE_TEL_MAX_DICT_ENTRIES - 1)
/* Bytes of the name of a part. */
#define KEY (RTE_MEMPOOL_NAMESIZE + 32)

/* An answer, a dictionary of parts. */
struct answer {
    struct rte_tel_data *data;
    /* Parts to leave out, those of earlier answers. */
    unsigned long skip;
    unsigned int parts;
    /* Bytes of JSON of the parts. */
    size_t bytes;
    /* Parts for which there is no room. After one that is left out, so are all others: a later answer begins there. */
    uint64_t left_out;
    bool is_full;
    char keys[PARTS][KEY];
};

/* A part of an answer, and bytes of its JSON. */
struct part {
    struct rte_tel_data *data;
    size_t bytes;
};

/* Whether the next part is one of an earlier answer. */
static bool is_skipped(struct answer *answer)
{
    if (answer->skip == 0)
        return false;
    answer->skip--;
    return true;
}

static void add_text(struct part *part, const char *name, const char *text)
{
    rte_tel_data_add_dict_string(part->data, name, text);
    /* A character can become two. */
    part->bytes += strlen(name) + 2 * strlen(text) + sizeof "\"\":\"\",";
}

static void add_count(struct part *part, const char *name, uint64_t count)
{
    add_number(part->data, name, count);
    part->bytes += snprintf(NULL, 0, "\"%s\":%" PRIu64 ",", name, count);
}

static bool has_key(const struct answer *answer, const char *key)
{
    for (unsigned int i = 0; i < answer->parts; i++)
        if (strcmp(answer->keys[i], key) == 0)
            return true;
    return false;
}

/* Adds a part to an answer. DPDK 22.11 accepts parts with names only in dictionaries, and only some characters in names: two names can
 * become the same, and the second gets a number. */
static void add_part(struct answer *answer, const char *name, const struct part *part)
{
    char plain[RTE_MEMPOOL_NAMESIZE + 16], key[KEY];
    snprintf(plain, sizeof plain, "%s", name);
    for (char *at = plain; *at; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    snprintf(key, sizeof key, "%s", plain);
    for (unsigned int number = 2; has_key(answer, key); number++)
        snprintf(key, sizeof key, "%s_%u", plain, number);
    size_t bytes = part->bytes + strlen(key) + sizeof "\"\":{},";
    answer->is_full |= answer->parts == PARTS || answer->bytes + bytes > ANSWER;
    if (answer->is_full || rte_tel_data_add_dict_container(answer->data, key, part->data, 0) != 0) {
        answer->left_out++;
        rte_tel_data_free(part->data);
        return;
    }
    answer->bytes += bytes;
    strcpy(answer->keys[answer->parts++], key);
}

/* Adds the ledger of one mempool. */
static void add_ledger(struct answer *answer, const struct known *pool)
{
    if (is_skipped(answer))
        return;
    netmem_stock_counts counts;
    struct cached cached = cached_of(pool);
    int adds_up = netmem_stock_ledger(pool->stock, cached.objects, cached.n, &counts);
    free(cached.objects);
    struct part one = {adds_up < 0 || answer->is_full ? NULL : rte_tel_data_alloc(), 0};
    if (!one.data) {
        answer->left_out++;
        return;
    }
    rte_tel_data_start_dict(one.data);
    add_text(&one, "name", pool->name);
    add_count(&one, "adds_up", adds_up);
    /* 0: what is in caches is counted as out. */
    add_count(&one, "caches_known", cached.is_known);
    add_count(&one, "total", counts.total);
    add_count(&one, "free", counts.free);
    add_count(&one, "cached", counts.cached);
    add_count(&one, "out", counts.out);
    add_count(&one, "duplicated", counts.duplicated);
    add_count(&one, "taken", counts.taken);
    add_count(&one, "returned", counts.returned);
    add_count(&one, "failed", counts.failed);
    add_count(&one, "freed_twice", counts.freed_twice);
    add_count(&one, "made_up", counts.made_up);
    add_part(answer, pool->name, &one);
}

/* Adds the call sites that hold objects of one mempool. None if its caches cannot be read: what they have would be among the objects. */
static void add_holders(struct answer *answer, const struct known *pool)
{
    netmem_stock_holder holders[HOLDERS];
    struct cached cached = cached_of(pool);
    int n = cached.is_known ? netmem_stock_holders(pool->stock, cached.objects, cached.n, holders, HOLDERS) : 0;
    free(cached.objects);
    if (n > HOLDERS)
        answer->left_out += n - HOLDERS;
    for (int i = 0; i < n && i < HOLDERS; i++) {
        char name[RTE_MEMPOOL_NAMESIZE + 16];
        if (is_skipped(answer))
            continue;
        struct part one = {answer->is_full ? NULL : rte_tel_data_alloc(), 0};
        if (!one.data) {
            answer->left_out++;
            continue;
        }
        snprintf(name, sizeof name, "%s_%d", pool->name, i);
        rte_tel_data_start_dict(one.data);
        add_text(&one, "name", pool->name);
        add_text(&one, "place", or_unknown(holders[i].site));
        add_count(&one, "objects", holders[i].objects);
        add_part(answer, name, &one);
    }
}

/* Answers with the parts of each mempool. The parameter is the number of parts to skip: those of the answers before. */
static int each(const char *parameter, struct rte_tel_data *data, void (*add)(struct answer *, const struct known *))
{
    char *end = NULL;
    unsigned long skip = parameter && isdigit((unsigned char)*parameter) ? strtoul(parameter, &end, 10) : 0;
    if (parameter && *parameter && (!end || *end))
        return -EINVAL;
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer || !lock_list()) {
        free(answer);
        return -ENOMEM;
    }
    answer->data = data;
    answer->skip = skip;
    rte_tel_data_start_dict(data);
    for (const struct known *pool = first; pool; pool = pool->next)
        add(answer, pool);
    unlock_list();
    if (answer->left_out > 0)
        add_number(data, "left_out", answer->left_out);
    free(answer);
    return 0;
}

static int tell_mempools(const char *command, const char *parameters, struct rte_tel_data *data)
{
    (void)command;
    return each(parameters, data, add_ledger);
}

static int tell_holders(const char *command, const char *parameters, struct rte_tel_data *data)
{
    (void)command;
    return each(parameters, data, add_holders);
}

RTE_INIT(netmem_tell)
{
    rte_telemetry_register_cmd("/netmem/mempools", tell_mempools,
                               "Where the objects of netmem's mempools are. Parameters: number of mempools to skip (optional).");
    rte_telemetry_register_cmd("/netmem/holders", tell_holders,
                               "Where objects that are out were taken. Parameters: number of call sites to skip (optional).");
}
