/* The call sites of a plug-in stay known after it was unloaded: usage: unloaded PLUGIN */
#define _GNU_SOURCE
#include "first.h"
#include <dlfcn.h>

typedef int takes(netmem_worker worker, netmem_pool pool, netmem_frame *frame);

static char line[4096];

static void hears(const char *said, void *unused)
{
    (void)unused;
    snprintf(line, sizeof line, "%s", said);
}

/* A call site that is gone when the call returns. */
static netmem_frame taken_at(int number)
{
    char site[32];
    netmem_frame frame;
    snprintf(site, sizeof site, "generated:%d", number);
    CHECK(netmem_alloc_at(worker, pool, &frame, 1, site) == 1);
    memset(site, 'x', sizeof site - 1);
    return frame;
}

int main(int argc, char **argv)
{
    netmem_holder holders[4];
    netmem_frame frame;
    void *plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL), *symbol;
    CHECK(plugin && (symbol = dlsym(plugin, "takes_a_frame")));
    takes *takes_a_frame;
    memcpy(&takes_a_frame, &symbol, sizeof symbol);
    open_all();
    CHECK(netmem_trace(1) == 0 && netmem_set_report(hears, NULL) == 0);
    CHECK(takes_a_frame(worker, pool, &frame) == 1 && dlclose(plugin) == 0);
    CHECK(!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD));
    CHECK(netmem_pool_holders(pool, holders, 4) == 1 && strstr(holders[0].site, "plugin.c:") && holders[0].frames == 1);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_free(worker, &frame, 1) == -ESTALE);
    CHECK(strstr(line, "last given out at ") && strstr(line, "plugin.c:"));
    /* Any number of texts takes a bounded amount of memory. */
    netmem_frame held[2];
    for (int i = 0; i < 5000; i++) {
        held[0] = taken_at(i);
        held[1] = taken_at(i);
        int n = netmem_pool_holders(pool, holders, 4);
        CHECK(n == 1 && holders[0].frames == 2);
        CHECK(strstr(holders[0].site, i < 4000 ? "generated:" : "e") && (i < 4990 || strstr(holders[0].site, "4096")));
        CHECK(netmem_free(worker, held, 2) == 0);
    }
    CHECK(netmem_set_report(NULL, NULL) == 0 && netmem_trace(0) == 0);
    close_all();
    printf("all as it should be\n");
    return 0;
}
