/* xdp ports of the interface "one", which has two queues: usage: xdp keys|memories|rules|transmit */
#include "first.h"

static netmem_port opened(const char *text)
{
    netmem_port port;
    netmem_port_config config = {.ring = 64};
    CHECK(netmem_port_open(worker, pool, text, &config, &port) == 0);
    return port;
}

/* What is said of the refusal has this in it. */
static void refused(netmem_worker from, netmem_pool frames, const char *text, int errnum, const char *said)
{
    netmem_port port;
    netmem_port_config config = {.ring = 64};
    CHECK(netmem_port_open(from, frames, text, &config, &port) == -errnum);
    CHECK(strstr(netmem_last_error(), said) != NULL);
}

static void shows(const char *text, const char *begin)
{
    netmem_port port = opened(text);
    const char *detail = NULL;
    CHECK(netmem_port_detail(worker, port, &detail) == 0);
    if (strncmp(detail, begin, strlen(begin)) != 0)
        printf("%s: \"%s\" does not begin with \"%s\"\n", text, detail, begin);
    CHECK(netmem_port_detail(worker, port, NULL) == -EFAULT && netmem_port_close(worker, port) == 0);
}

/* The mode of the program and zero-copy can be chosen and read. */
static void keys(void)
{
    shows("xdp:one,mode=native,copy=yes", "native mode, copied by the kernel");
    shows("xdp:one,mode=generic", "generic mode, copied by the kernel");
    shows("xdp:one,mode=auto,copy=auto,take=udp:7", "native mode, copied by the kernel, takes udp:7 alone");
    shows("xdp:one,take=none", "no XDP program while it takes nothing, copied by the kernel");
    refused(worker, pool, "xdp:one,copy=no", EINVAL, "copy=no");
    refused(worker, pool, "xdp:one,mode=skb", EINVAL, "mode=generic");
    refused(worker, pool, "xdp:lo,mode=native", EINVAL, "native: ");
}

/* Ports of one interface belong to one memory. */
static void memories(void)
{
    netmem_memory second;
    netmem_worker other;
    netmem_pool frames;
    netmem_memory_config config = {.bytes = 16u << 20, .small_pages = 1};
    netmem_port port = opened("xdp:one");
    CHECK(netmem_memory_open(&config, &second) == 0 && netmem_worker_open(second, &other) == 0);
    CHECK(netmem_pool_open(other, NULL, &frames) == 0);
    refused(other, frames, "xdp:one:1", EBUSY, "by workers of one memory");
    CHECK(netmem_port_close(worker, port) == 0 && netmem_pool_close(frames, 1000) == 0);
    CHECK(netmem_worker_close(other) == 0 && netmem_memory_close(second, 1000) == 0);
}

/* Ports of one interface leave the same packets to the kernel. */
static void rules(void)
{
    netmem_port port = opened("xdp:one,take=udp:7");
    refused(worker, pool, "xdp:one:1,take=udp:8", EINVAL, "kernel= and take=");
    refused(worker, pool, "xdp:one:1,take=udp:7,kernel=neighbours", EINVAL, "kernel= and take=");
    CHECK(netmem_port_close(worker, port) == 0);
}

/* Waits for the end of the input, and then sends a frame by a port that takes nothing. */
static void transmit(void)
{
    netmem_port port = opened("xdp:one:1,take=none");
    printf("open\n");
    fflush(stdout);
    CHECK(getchar() == EOF);
    netmem_frame frame = one();
    unsigned char *data = (unsigned char *)netmem_put(worker, frame, 60);
    CHECK(data != NULL);
    memset(data, 2, 60);
    CHECK(netmem_port_tx(worker, port, &frame, 1) == 1);
    while (netmem_port_tx_posted(worker, port) > 0)
        CHECK(netmem_port_kick(worker, port) == 0 && netmem_port_complete(worker, port) >= 0);
    CHECK(netmem_port_close(worker, port) == 0);
}

int main(int argc, char **argv)
{
    static const struct test_case all[] = {
        {"keys", keys}, {"memories", memories}, {"rules", rules}, {"transmit", transmit}};
    return run_case(all, sizeof all / sizeof *all, argc > 1 ? argv[1] : "", open_all, close_all);
}
