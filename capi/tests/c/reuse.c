/* A stale word is offered after each of 2^20 reuses of its place; and so many mutations of good words. usage: reuse [mutations] */
#include "first.h"

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t random_word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Accepted at no number of reuses below 2^25, at which the generation is the same again. */
static void stale_words(void)
{
    netmem_frame first = one();
    CHECK(netmem_free(worker, &first, 1) == 0);
    unsigned accepted = 0;
    for (unsigned reuse = 1; reuse <= 1u << 20; reuse++) {
        netmem_frame frame = one();
        CHECK((uint32_t)frame.word == (uint32_t)first.word);
        accepted += netmem_len(worker, first) >= 0;
        accepted += netmem_free(worker, &first, 1) == 0;
        CHECK(netmem_free(worker, &frame, 1) == 0);
    }
    printf("a stale word was accepted %u times in 2^20 reuses\n", accepted);
    CHECK(accepted == 0);
}

#define HELD 64

/* Each mutation changes some bits of a good word. It is refused, unless it is another good word. */
static void mutations(unsigned long number)
{
    netmem_frame held[HELD];
    CHECK(netmem_alloc(worker, pool, held, HELD) == HELD);
    unsigned long accepted = 0;
    for (unsigned long i = 0; i < number; i++) {
        uint64_t mask = random_word();
        /* From all bits changed to one. */
        for (unsigned few = i % 6; few > 0; few--)
            mask &= random_word();
        netmem_frame mutant = {held[random_word() % HELD].word ^ mask}, mutants[] = {mutant, mutant};
        int good = 0;
        for (int j = 0; j < HELD; j++)
            good |= held[j].word == mutant.word;
        /* Alone, and in a burst: were one of that accepted, its frame could not be freed below. */
        int said = i % 2 ? netmem_len(worker, mutant) : good ? 0 : netmem_free(worker, mutants, 1 + i / 2 % 2);
        accepted += !good && said >= 0;
    }
    printf("%lu of %lu mutations were accepted\n", accepted, number);
    CHECK(accepted == 0 && netmem_free(worker, held, HELD) == 0);
}

/* As above, of packets and of shared frames. */
static void mutations_of_packets(unsigned long number)
{
    netmem_heads heads;
    netmem_packet packets[HELD], rest;
    netmem_frame frames[HELD];
    netmem_shared shared[HELD];
    CHECK(netmem_heads_open(worker, NULL, &heads) == 0 && netmem_packet_alloc(worker, heads, pool, packets, HELD) == HELD);
    CHECK(netmem_alloc(worker, pool, frames, HELD) == HELD && netmem_share(worker, frames, shared, HELD) == HELD);
    unsigned long accepted = 0;
    for (unsigned long i = 0; i < number; i++) {
        uint64_t mask = random_word();
        for (unsigned few = i % 6; few > 0; few--)
            mask &= random_word();
        uint64_t mutant = (i % 2 ? packets[random_word() % HELD].word : shared[random_word() % HELD].word) ^ mask;
        netmem_packet packet = {mutant};
        netmem_shared claim = {mutant};
        int good = 0, said;
        for (int j = 0; j < HELD; j++)
            good |= packets[j].word == mutant || shared[j].word == mutant;
        if (good)
            continue;
        switch (i / 2 % 6) {
        case 0: said = netmem_packet_free(worker, &packet, 1); break;
        case 1: said = netmem_packet_len(worker, packet); break;
        case 2: said = netmem_packet_split(worker, packet, 0, &rest); break;
        case 3: said = netmem_packet_append(worker, packets[0], packet); break;
        case 4: said = netmem_shared_free(worker, &claim, 1); break;
        default: said = netmem_shared_len(worker, claim);
        }
        accepted += said >= 0;
    }
    printf("%lu of %lu mutations of packets and shared frames were accepted\n", accepted, number);
    CHECK(accepted == 0 && netmem_packet_free(worker, packets, HELD) == 0 && netmem_shared_free(worker, shared, HELD) == 0);
    CHECK(netmem_heads_close(heads) == 0);
}

/* Of a packet, at no number of reuses below 2^25. */
static void stale_packet(void)
{
    netmem_heads heads;
    netmem_packet first, packet;
    unsigned accepted = 0;
    CHECK(netmem_heads_open(worker, NULL, &heads) == 0 && netmem_packet_alloc(worker, heads, pool, &first, 1) == 1);
    CHECK(netmem_packet_free(worker, &first, 1) == 0);
    for (unsigned reuse = 1; reuse <= 1u << 20; reuse++) {
        CHECK(netmem_packet_alloc(worker, heads, pool, &packet, 1) == 1 && (uint32_t)packet.word == (uint32_t)first.word);
        accepted += netmem_packet_len(worker, first) >= 0;
        accepted += netmem_packet_free(worker, &first, 1) == 0;
        CHECK(netmem_packet_free(worker, &packet, 1) == 0);
    }
    printf("a stale word of a packet was accepted %u times\n", accepted);
    CHECK(accepted == 0 && netmem_heads_close(heads) == 0);
}

/* As above, of objects and of pages. */
static void mutations_of_others(unsigned long number)
{
    netmem_cache cache;
    netmem_cache_config config;
    netmem_object objects[HELD];
    netmem_page pages[HELD];
    memset(&config, 0, sizeof config);
    config.size = 48;
    CHECK(netmem_cache_open(worker, &config, &cache) == 0);
    CHECK(netmem_object_alloc(worker, cache, objects, HELD) == HELD && netmem_page_alloc(worker, 0, pages, HELD) == HELD);
    unsigned long accepted = 0;
    for (unsigned long i = 0; i < number; i++) {
        uint64_t mask = random_word();
        for (unsigned few = i % 6; few > 0; few--)
            mask &= random_word();
        uint64_t mutant = (i % 2 ? objects[random_word() % HELD].word : pages[random_word() % HELD].word) ^ mask;
        netmem_object object = {mutant};
        netmem_page page = {mutant};
        int good = 0, said;
        for (int j = 0; j < HELD; j++)
            good |= objects[j].word == mutant || pages[j].word == mutant;
        if (good)
            continue;
        switch (i / 2 % 4) {
        case 0: said = netmem_object_free(worker, &object, 1); break;
        case 1: said = netmem_object_size(worker, object); break;
        case 2: said = netmem_page_free(worker, &page, 1); break;
        default: said = netmem_page_size(worker, page);
        }
        accepted += said >= 0;
    }
    printf("%lu of %lu mutations of objects and pages were accepted\n", accepted, number);
    CHECK(accepted == 0 && netmem_object_free(worker, objects, HELD) == 0 && netmem_page_free(worker, pages, HELD) == 0);
    CHECK(netmem_cache_close(cache) == 0);
}

/* Of an object, at no number of reuses below 2^25. */
static void stale_object(void)
{
    netmem_sizes sizes;
    netmem_object first, object;
    unsigned accepted = 0;
    CHECK(netmem_sizes_open(worker, NULL, &sizes) == 0 && netmem_sizes_alloc(worker, sizes, 100, &first) == 0);
    CHECK(netmem_object_free(worker, &first, 1) == 0);
    for (unsigned reuse = 1; reuse <= 1u << 20; reuse++) {
        CHECK(netmem_sizes_alloc(worker, sizes, 100, &object) == 0 && (uint32_t)object.word == (uint32_t)first.word);
        accepted += netmem_object_size(worker, first) >= 0;
        accepted += netmem_object_free(worker, &first, 1) == 0;
        CHECK(netmem_object_free(worker, &object, 1) == 0);
    }
    printf("a stale word of an object was accepted %u times\n", accepted);
    CHECK(accepted == 0 && netmem_sizes_close(sizes) == 0);
}

int main(int argc, char **argv)
{
    unsigned long number = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_all();
    stale_words();
    stale_object();
    stale_packet();
    mutations(number);
    mutations_of_others(number);
    mutations_of_packets(number);
    check_home();
    close_all();
    return 0;
}
