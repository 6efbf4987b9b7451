/* Ready pools: what they are for, and every kind of misuse of them, planted once. Compiled as C11 and as C++17. */
#include "packets.h"

static netmem_ready ready;

static uint64_t counted(const char *name)
{
    netmem_count counts[16];
    int n = netmem_ready_counts(ready, counts, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].value;
    return UINT64_MAX;
}

static void open_ready(void)
{
    open_heads();
    CHECK(netmem_ready_open(worker, heads, pool, 32, &ready) == 0);
}

static void close_ready(void)
{
    CHECK(netmem_heads_close(heads) == -EBUSY && netmem_ready_close(ready) == 0);
    /* What was ready is home before the pool is closed. */
    check_home();
    close_heads();
}

static netmem_packet a_ready_one(void)
{
    netmem_packet packet;
    CHECK(netmem_ready_alloc(worker, ready, &packet, 1) == 1);
    return packet;
}

static netmem_packet freed(void)
{
    netmem_packet packet = a_ready_one();
    CHECK(netmem_ready_free(worker, ready, &packet, 1) == 0);
    return packet;
}

/* What is freed is taken again, empty, and with nothing recorded; what there is no room for goes home. */
static void what_is_freed_is_ready(void)
{
    netmem_packet packets[100];
    netmem_ledger ledger;
    uint32_t hash;
    CHECK(netmem_ready_alloc(worker, ready, packets, 100) == 100 && counted("missed") == 100 && counted("now") == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(netmem_packet_put(worker, packets[i], 60) != NULL);
        CHECK(netmem_packet_set_flow_hash(worker, packets[i], 7) == 0);
    }
    CHECK(netmem_ready_free(worker, ready, packets, 20) == 0 && counted("now") == 20 && netmem_worker_held(worker) == 80);
    CHECK(netmem_pool_ledger(pool, &ledger) == 1 && ledger.ready == 20 && ledger.owned == 80);
    CHECK(netmem_ready_alloc(worker, ready, packets, 20) == 20 && counted("taken") == 20 && counted("missed") == 100);
    CHECK(netmem_packet_len(worker, packets[0]) == 0 && netmem_packet_flow_hash(worker, packets[0], &hash) == 0 && hash == 0);
    CHECK(netmem_ready_free(worker, ready, packets, 100) == 0 && counted("now") + counted("passed") == 100);
    CHECK(counted("now") == 32 && netmem_worker_held(worker) == 0);
    CHECK(netmem_ready_drain(worker, ready) == 32 && counted("now") == 0 && netmem_ready_drain(worker, ready) == 0);
}

/* A chain is none of those that stay ready. */
static void a_chain_goes_home(void)
{
    netmem_packet packet = a_packet("a");
    CHECK(netmem_packet_append(worker, packet, a_packet("b")) == 0);
    uint64_t passed = counted("passed");
    CHECK(netmem_ready_free(worker, ready, &packet, 1) == 0 && counted("now") == 0 && counted("passed") == passed + 1);
}

/* The pool gets frames that are ready before an allocation of it fails. */
static void a_dry_pool_gets_what_is_ready(void)
{
    netmem_pool_config config;
    netmem_pool few;
    netmem_ready of_few;
    netmem_packet packets[16];
    netmem_frame frames[16];
    memset(&config, 0, sizeof config);
    config.frames = 16;
    CHECK(netmem_pool_open(worker, &config, &few) == 0 && netmem_ready_open(worker, heads, few, 0, &of_few) == 0);
    CHECK(netmem_ready_alloc(worker, of_few, packets, 16) == 16 && netmem_ready_free(worker, of_few, packets, 16) == 0);
    CHECK(netmem_alloc(worker, few, frames, 16) == 16 && netmem_ready_alloc(worker, of_few, packets, 1) == 0);
    CHECK(netmem_free(worker, frames, 16) == 0);
    CHECK(netmem_ready_close(of_few) == 0 && netmem_pool_close(few, 1000) == 0);
}

/* Each plants one misuse in a fresh state and returns what the call said. */
static int freed_twice(void)
{
    netmem_packet packet = freed();
    return netmem_ready_free(worker, ready, &packet, 1);
}

static int freed_twice_in_one_burst(void)
{
    netmem_packet packet = a_ready_one(), twice[3] = {packet, a_ready_one(), packet};
    return netmem_ready_free(worker, ready, twice, 3);
}

static int freed_once_more_by_its_heads(void)
{
    netmem_packet packet = freed();
    return netmem_packet_free(worker, &packet, 1);
}

static int read_while_it_is_ready(void)
{
    return netmem_packet_len(worker, freed());
}

static int used_after_it_was_taken_again(void)
{
    netmem_packet old = freed(), again = a_ready_one();
    CHECK((uint32_t)old.word == (uint32_t)again.word && old.word != again.word);
    int said = netmem_packet_pull(worker, old, 0);
    CHECK(netmem_ready_free(worker, ready, &again, 1) == 0);
    return said;
}

static int freed_with_other_heads(void)
{
    netmem_heads other;
    netmem_packet packet;
    CHECK(netmem_heads_open(worker, NULL, &other) == 0 && netmem_packet_alloc(worker, other, pool, &packet, 1) == 1);
    int said = netmem_ready_free(worker, ready, &packet, 1);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0 && netmem_heads_close(other) == 0);
    return said;
}

static int made_up(void)
{
    netmem_packet packet = {0x01234567c9abcdef};
    return netmem_ready_free(worker, ready, &packet, 1);
}

static int taken_from_a_closed_one(void)
{
    netmem_ready other;
    netmem_packet packet;
    CHECK(netmem_ready_open(worker, heads, pool, 1, &other) == 0 && netmem_ready_close(other) == 0);
    return netmem_ready_alloc(worker, other, &packet, 1);
}

static int freed_to_a_closed_one(void)
{
    netmem_ready other;
    netmem_packet packet = a_ready_one();
    CHECK(netmem_ready_open(worker, heads, pool, 1, &other) == 0 && netmem_ready_close(other) == 0);
    int said = netmem_ready_free(worker, other, &packet, 1);
    CHECK(netmem_ready_free(worker, ready, &packet, 1) == 0);
    return said;
}

static int taken_after_its_pool_was_closed(void)
{
    netmem_pool other;
    netmem_ready of_other;
    netmem_packet packet;
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_ready_open(worker, heads, other, 8, &of_other) == 0);
    CHECK(netmem_ready_alloc(worker, of_other, &packet, 1) == 1 && netmem_ready_free(worker, of_other, &packet, 1) == 0);
    CHECK(netmem_pool_close(other, 1000) == 0);
    int said = netmem_ready_alloc(worker, of_other, &packet, 1);
    CHECK(netmem_ready_close(of_other) == 0);
    return said;
}

static int from_another_memory(void)
{
    netmem_memory memory2;
    netmem_worker worker2;
    netmem_packet packet;
    CHECK(netmem_memory_open(NULL, &memory2) == 0 && netmem_worker_open(memory2, &worker2) == 0);
    int said = netmem_ready_alloc(worker2, ready, &packet, 1);
    CHECK(netmem_worker_close(worker2) == 0 && netmem_memory_close(memory2, 1000) == 0);
    return said;
}

static int freed_by_another_worker(void)
{
    netmem_worker second;
    netmem_packet packet = a_ready_one();
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_ready_free(second, ready, &packet, 1);
    CHECK(netmem_worker_close(second) == 0 && netmem_ready_free(worker, ready, &packet, 1) == 0);
    return said;
}

static int kept_over_a_close(void)
{
    netmem_packet packet = freed();
    close_ready();
    open_ready();
    return netmem_packet_len(worker, packet);
}

static const struct {
    const char *name;
    int (*plant)(void);
    int says;
    const char *kind;
} CASES[] = {
#define CASE(plant, says, kind) {#plant, plant, says, kind}
    CASE(freed_twice, -ESTALE, "freed_twice"),
    CASE(freed_twice_in_one_burst, -ESTALE, "freed_twice"),
    CASE(freed_once_more_by_its_heads, -ESTALE, "freed_twice"),
    CASE(read_while_it_is_ready, -ESTALE, "used_after_free"),
    CASE(used_after_it_was_taken_again, -ESTALE, "stale"),
    CASE(freed_with_other_heads, -EXDEV, "wrong_cache"),
    CASE(made_up, -EBADF, "made_up"),
    CASE(taken_from_a_closed_one, -ESTALE, "closed"),
    CASE(freed_to_a_closed_one, -ESTALE, "closed"),
    CASE(taken_after_its_pool_was_closed, -ESTALE, "closed"),
    CASE(from_another_memory, -EXDEV, "wrong_memory"),
    CASE(freed_by_another_worker, -EPERM, "wrong_worker"),
    CASE(kept_over_a_close, -ESTALE, "used_after_free"),
};

int main(void)
{
    int failed = 0;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_ready();
    what_is_freed_is_ready();
    a_chain_goes_home();
    a_dry_pool_gets_what_is_ready();
    CHECK(all_misuses() == 0);
    close_ready();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_ready();
        uint64_t all = all_misuses(), kind = misuses(CASES[i].kind);
        int said = CASES[i].plant();
        int seen = said == CASES[i].says && all_misuses() == all + 1 && misuses(CASES[i].kind) == kind + 1;
        if (!seen)
            printf("NOT FOUND: %s: %d, %s\n", CASES[i].name, said, netmem_last_error());
        failed += !seen;
        CHECK(netmem_worker_held(worker) == 0);
        close_ready();
    }
    printf("%zu kinds of misuse, %d not found\n", sizeof CASES / sizeof *CASES, failed);
    return failed != 0;
}
