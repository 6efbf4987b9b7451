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
        netmem_frame mutant = {held[random_word() % HELD].word ^ mask};
        int good = 0;
        for (int j = 0; j < HELD; j++)
            good |= held[j].word == mutant.word;
        int said = i % 2 ? netmem_len(worker, mutant) : good ? 0 : netmem_free(worker, &mutant, 1);
        accepted += !good && said >= 0;
    }
    printf("%lu of %lu mutations were accepted\n", accepted, number);
    CHECK(accepted == 0 && netmem_free(worker, held, HELD) == 0);
}

int main(int argc, char **argv)
{
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_all();
    stale_words();
    mutations(argc > 1 ? strtoul(argv[1], NULL, 10) : 100000);
    check_home();
    close_all();
    return 0;
}
