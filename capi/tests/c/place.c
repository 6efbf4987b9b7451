/* Loses an object, and writes the call site that a stock has for it. */
#include "first.h"

static char bytes[64];

__attribute__((noinline, noclone)) static void *where_it_is(void)
{
    void *here = __builtin_return_address(0);
    __asm__ volatile("");
    return here;
}

int main(void)
{
    netmem_stock stock;
    netmem_stock_config config;
    netmem_stock_holder holder;
    void *object = bytes;
    memset(&config, 0, sizeof config);
    config.objects = 1;
    CHECK(netmem_stock_open(&config, &stock) == 0 && netmem_stock_add(stock, &object, 1) == 0);
    CHECK(netmem_stock_give(stock, &object, 1, NULL) == 0 && netmem_stock_take(stock, &object, 1, where_it_is()) == 0);
    CHECK(netmem_stock_holders(stock, NULL, 0, &holder, 1) == 1 && netmem_stock_close(stock) == 1);
    printf("%s\n", holder.site);
    return 0;
}
