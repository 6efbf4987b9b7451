/* What a program asks for again and again while it gets nothing takes no memory from malloc(3), each time. */
#include "first.h"

static unsigned long taken;
extern void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
    taken++;
    return __libc_malloc(bytes);
}

/* Of each of these calls, which all fail, the second takes no memory. */
#define NONE(call)                                  \
    do {                                            \
        CHECK(call);                                \
        unsigned long before = taken;               \
        CHECK(call);                                \
        CHECK(taken == before);                     \
    } while (0)

int main(void)
{
    netmem_stock stock;
    netmem_stock_config config;
    netmem_raw raw;
    void *objects[1];
    static netmem_frame all[5000];
    open_all();
    CHECK(taken > 0);
    memset(&config, 0, sizeof config);
    config.objects = 1;
    CHECK(netmem_stock_open(&config, &stock) == 0);
    NONE(netmem_stock_take(stock, objects, 1, NULL) == -ENOBUFS && strstr(netmem_last_error(), "fewer than 1") != NULL);
    CHECK(netmem_stock_close(stock) == 0 && netmem_raw_alloc(worker, pool, &raw, 1) == 1);
    netmem_frame frame = one();
    NONE(netmem_put(worker, frame, 9000) == NULL && strstr(netmem_last_error(), "9000 bytes wanted") != NULL);
    NONE(netmem_raw_put(&raw, 9000) == NULL && strstr(netmem_last_error(), "netmem_raw_put: 9000 bytes") != NULL);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_raw_free(worker, &raw, 1) == 0);
    int n = netmem_alloc(worker, pool, all, 5000);
    NONE(netmem_alloc(worker, pool, &frame, 1) == 0);
    CHECK(n > 0 && netmem_free(worker, all, (uint32_t)n) == 0);
    check_home();
    close_all();
    puts("as it should be");
    return 0;
}
