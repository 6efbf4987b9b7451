/* A signal handler that interrupted a call with a stock: its calls with this stock are refused and wait for nothing, it may ask how
 * many objects are free, and it may end the program. */
#define _GNU_SOURCE
#include "first.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define OBJECTS 4096

static char bytes[OBJECTS][8];
static netmem_stock stock;
/* Calls that were interrupted. */
static volatile sig_atomic_t refused;

static void at_the_end(void)
{
    netmem_stock_counts counts;
    int said = netmem_stock_ledger(stock, NULL, 0, &counts);
    CHECK(said == -EBUSY && netmem_stock_close(stock) == -EBUSY && netmem_stock_clear(stock) == -EBUSY);
    printf("all as it should be\n");
}

static void on_alarm(int number)
{
    void *one;
    int free = netmem_stock_count(stock), said = netmem_stock_take(stock, &one, 1, NULL);
    (void)number;
    CHECK(free >= 0 && free <= OBJECTS && (said == -EBUSY || said == 0 || said == -ENOBUFS));
    if (said == 0)
        CHECK(netmem_stock_give(stock, &one, 1, NULL) == 0);
    if (said == -EBUSY && netmem_stock_give(stock, &one, 1, NULL) == -EBUSY && ++refused == 10)
        exit(0);
}

int main(void)
{
    static void *all[OBJECTS];
    struct itimerval every = {{0, 1000}, {0, 1000}};
    struct sigaction action;
    netmem_stock_config config;
    memset(&config, 0, sizeof config);
    config.objects = OBJECTS;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0 && netmem_stock_open(&config, &stock) == 0 && atexit(at_the_end) == 0);
    for (int i = 0; i < OBJECTS; i++)
        all[i] = bytes[i];
    CHECK(netmem_stock_add(stock, all, OBJECTS) == 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (;;) {
        CHECK(netmem_stock_give(stock, all, OBJECTS, NULL) == 0 && netmem_stock_count(stock) == OBJECTS);
        CHECK(netmem_stock_take(stock, all, OBJECTS, NULL) == 0);
    }
}
