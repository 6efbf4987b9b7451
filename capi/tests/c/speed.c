/* What a handle costs beside a raw frame, and what packets cost: ns of an allocation and a free together. Windows are short and
 * take turns; of each kind the value that a tenth of them is below is shown, since the machine may stand still. usage: speed [WINDOWS] */
#include "packets.h"
#include <time.h>

#define WINDOWS_MAX 5001
#define ROUNDS 200

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Ends the program if a pool has too few. */
static inline void must(int got, uint32_t burst)
{
    if (got != (int)burst)
        abort();
}

static void handles(uint32_t burst)
{
    netmem_frame frames[64];
    must(netmem_alloc(worker, pool, frames, burst), burst);
    netmem_free(worker, frames, burst);
}

static void raw(uint32_t burst)
{
    netmem_raw frames[64];
    must(netmem_raw_alloc(worker, pool, frames, burst), burst);
    netmem_raw_free(worker, frames, burst);
}

static void raw_to_their_pool(uint32_t burst)
{
    netmem_raw frames[64];
    must(netmem_raw_alloc(worker, pool, frames, burst), burst);
    netmem_raw_pool_free(worker, pool, frames, burst);
}

static netmem_ready ready;

static void fresh_packets(uint32_t burst)
{
    netmem_packet packets[64];
    must(netmem_packet_alloc(worker, heads, pool, packets, burst), burst);
    netmem_packet_free(worker, packets, burst);
}

static void ready_packets(uint32_t burst)
{
    netmem_packet packets[64];
    must(netmem_ready_alloc(worker, ready, packets, burst), burst);
    netmem_ready_free(worker, ready, packets, burst);
}

static double window(void (*pair)(uint32_t), uint32_t burst)
{
    double begun = now();
    for (int j = 0; j < ROUNDS; j++)
        pair(burst);
    return (now() - begun) / ROUNDS / burst;
}

static const struct {
    const char *name;
    void (*pair)(uint32_t);
} KINDS[] = {{"raw frames", raw}, {"raw, to pool", raw_to_their_pool}, {"frames", handles}, {"packets", fresh_packets},
           {"ready packets", ready_packets}};

#define NUMBER (sizeof KINDS / sizeof *KINDS)

int main(int argc, char **argv)
{
    static double windows[NUMBER][WINDOWS_MAX];
    int number = argc > 1 ? atoi(argv[1]) : WINDOWS_MAX;
    CHECK(number > 0 && number <= WINDOWS_MAX);
    open_heads();
    CHECK(netmem_ready_open(worker, heads, pool, 64, &ready) == 0);
    for (uint32_t burst = 1; burst <= 64; burst *= burst == 1 ? 32 : 2) {
        for (int i = 0; i < number; i++)
            for (size_t kind = 0; kind < NUMBER; kind++)
                windows[kind][i] = window(KINDS[kind].pair, burst);
        for (size_t kind = 0; kind < NUMBER; kind++) {
            qsort(windows[kind], (size_t)number, sizeof *windows[kind], by_size);
            printf("by %2u: %-13s %6.2f ns each\n", burst, KINDS[kind].name, windows[kind][number / 10]);
        }
    }
    CHECK(netmem_ready_close(ready) == 0);
    close_heads();
    return 0;
}
