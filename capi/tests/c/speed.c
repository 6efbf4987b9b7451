/* What a handle costs beside a raw frame: ns of an allocation and a free together. Windows are short and
 * take turns; of each kind the value that a tenth of them is below is shown, since the machine may stand still. usage: speed */
#include "first.h"
#include <time.h>

#define WINDOWS 5001
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

static void handles(uint32_t burst)
{
    netmem_frame frames[64];
    netmem_alloc(worker, pool, frames, burst);
    netmem_free(worker, frames, burst);
}

static void raw(uint32_t burst)
{
    netmem_raw frames[64];
    netmem_raw_alloc(worker, pool, frames, burst);
    netmem_raw_free(worker, frames, burst);
}

static double window(void (*pair)(uint32_t), uint32_t burst)
{
    double begun = now();
    for (int j = 0; j < ROUNDS; j++)
        pair(burst);
    return (now() - begun) / ROUNDS / burst;
}

int main(void)
{
    static double with[WINDOWS], without[WINDOWS];
    open_all();
    for (uint32_t burst = 1; burst <= 64; burst *= burst == 1 ? 32 : 2) {
        for (int i = 0; i < WINDOWS; i++) {
            with[i] = window(handles, burst);
            without[i] = window(raw, burst);
        }
        qsort(with, WINDOWS, sizeof *with, by_size);
        qsort(without, WINDOWS, sizeof *without, by_size);
        double handle = with[WINDOWS / 10], bare = without[WINDOWS / 10];
        printf("by %2u: handles %.2f ns, raw %.2f ns a frame, %.2f ns more\n", burst, handle, bare, handle - bare);
    }
    close_all();
    return 0;
}
