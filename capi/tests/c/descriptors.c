/* Set-up calls of a process that may open no more descriptors: descriptors PORT..., or without ports those that need no network. */
#include "packets.h"
#include <sys/resource.h>
#include <unistd.h>

static int text_has(const char *text)
{
    int is_said = strstr(netmem_last_error(), text) != NULL;
    if (!is_said)
        printf("\"%s\" is not in: %s\n", text, netmem_last_error());
    return is_said;
}

/* The lowest descriptor that is free. All below it are open, since none was closed. */
static int lowest_free(void)
{
    int fd = dup(0);
    CHECK(fd >= 0 && close(fd) == 0);
    return fd;
}

/* Leaves the process this number of descriptors. */
static void leave(int n)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)n;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Makes the call with no descriptor left, with one, with two, and so on, until it succeeds. Before that, it returns -EMFILE with the
 * remedy each time, and leaves none open. */
#define UNTIL_ENOUGH(call)                                                                      \
    do {                                                                                        \
        int free_at = lowest_free(), said = -1, lacking = 0;                                    \
        for (; said != 0; lacking++) {                                                          \
            leave(free_at + lacking);                                                           \
            said = (call);                                                                      \
            leave(1024);                                                                        \
            if (said != -EMFILE && said != 0)                                                   \
                printf("%s of %d: %d\n", #call, lacking, said);                                 \
            CHECK(said == 0 || (said == -EMFILE && netmem_last_errno() == EMFILE));             \
            CHECK(said == 0 || (text_has("Too many open files") && text_has("`ulimit -n`")));   \
            CHECK(said == 0 || lowest_free() == free_at);                                       \
            CHECK(lacking < 100);                                                               \
        }                                                                                       \
        CHECK(lacking > 1);                                                                     \
    } while (0)

static void by_port(const char *text)
{
    netmem_port_config config;
    netmem_port port;
    int before = lowest_free();
    memset(&config, 0, sizeof config);
    config.ring = 64;
    UNTIL_ENOUGH(netmem_port_open(worker, pool, text, &config, &port));
    CHECK(netmem_port_close(worker, port) == 0 && lowest_free() == before);
}

/* Calls that take no descriptor. */
static void without(void)
{
    netmem_memory_config of_memory;
    netmem_memory other;
    netmem_worker its;
    netmem_pool frames;
    netmem_heads of_packets;
    netmem_ready ready;
    netmem_sizes sizes;
    memset(&of_memory, 0, sizeof of_memory);
    of_memory.bytes = 8u << 20;
    leave(lowest_free());
    CHECK(netmem_memory_open(&of_memory, &other) == 0 && netmem_worker_open(other, &its) == 0 && netmem_pool_open(its, NULL, &frames) == 0);
    CHECK(netmem_heads_open(its, NULL, &of_packets) == 0 && netmem_ready_open(its, of_packets, frames, 0, &ready) == 0);
    CHECK(netmem_sizes_open(its, NULL, &sizes) == 0 && netmem_sizes_close(sizes) == 0);
    CHECK(netmem_ready_close(ready) == 0 && netmem_heads_close(of_packets) == 0 && netmem_pool_close(frames, 1000) == 0);
    CHECK(netmem_worker_close(its) == 0 && netmem_memory_close(other, 1000) == 0);
    leave(1024);
}

static void without_network(void)
{
    netmem_memory_config in_file;
    netmem_memory other;
    netmem_lane lane;
    without();
    memset(&in_file, 0, sizeof in_file);
    in_file.bytes = 8u << 20;
    in_file.in_file = 1;
    UNTIL_ENOUGH(netmem_memory_open(&in_file, &other));
    CHECK(netmem_memory_close(other, 1000) == 0);
    UNTIL_ENOUGH(netmem_lane_open(worker, 64, &lane));
    CHECK(netmem_lane_join(worker, lane) == 0 && netmem_lane_close(worker, lane) == 0);
}

int main(int argc, char **argv)
{
    netmem_memory_config config;
    netmem_pool_config frames;
    memset(&config, 0, sizeof config);
    memset(&frames, 0, sizeof frames);
    /* As lend=yes takes it. */
    config.bytes = 16u << 20;
    config.in_file = 1;
    frames.frames = 512;
    CHECK(netmem_memory_open(&config, &memory) == 0 && netmem_worker_open(memory, &worker) == 0);
    CHECK(netmem_pool_open(worker, &frames, &pool) == 0);
    if (argc == 1)
        without_network();
    for (int i = 1; i < argc; i++)
        by_port(argv[i]);
    check_home();
    close_all();
    printf("as it should be\n");
    return 0;
}
