/* What netmem_last_error says of what was refused, and that it can be done: usage: remedies lane|port|lend|burst|workers|ring|heads|"too much"|around|cut|down */
#include "first.h"
#include <unistd.h>

/* What was said last has this in it. */
static int says(const char *text)
{
    int is_said = strstr(netmem_last_error(), text) != NULL;
    if (!is_said)
        printf("\"%s\" is not in: %s\n", text, netmem_last_error());
    return is_said;
}

static void lane(void)
{
    netmem_worker second;
    netmem_lane lane;
    netmem_frame frame = one();
    netmem_packet packet = {0};
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_lane_open(worker, 64, &lane) == 0);
    CHECK(netmem_lane_receive(second, lane, &frame, 1) == -EPERM && misuses("wrong_worker") == 1);
    CHECK(says("netmem_lane_join makes a worker its receiver") && !strstr(netmem_last_error(), "detach"));
    CHECK(netmem_lane_receive_packets(second, lane, &packet, 1) == -EPERM && says("netmem_lane_join"));
    CHECK(netmem_lane_send(second, lane, &frame, 1) == -EPERM && says("the worker that opened the lane is its sender"));
    CHECK(netmem_lane_send_packets(second, lane, &packet, 1) == -EPERM && says("the worker that opened the lane is its sender"));
    CHECK(netmem_lane_close(second, lane) == -EPERM && says("netmem_lane_join"));
    /* As was said. */
    CHECK(netmem_lane_join(second, lane) == 0 && netmem_lane_receive(second, lane, &frame, 1) == 0);
    CHECK(netmem_lane_close(second, lane) == 0 && netmem_lane_close(worker, lane) == 0);
    /* A frame is passed on. */
    CHECK(netmem_free(second, &frame, 1) == -EPERM && says("netmem_detach there, netmem_attach here"));
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_worker_close(second) == 0);
}

static void port(void)
{
    netmem_worker second;
    netmem_port port;
    netmem_frame frame = one();
    CHECK(netmem_worker_open(memory, &second) == 0);
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    CHECK(netmem_port_rx(second, port, &frame, 1) == -EPERM && misuses("wrong_worker") == 1);
    CHECK(says("a port stays with the worker that opened it") && !strstr(netmem_last_error(), "detach"));
    CHECK(netmem_port_tx(second, port, &frame, 1) == -EPERM && netmem_port_kick(second, port) == -EPERM);
    CHECK(netmem_port_close(second, port) == -EPERM && misuses("closed") == 0);
    CHECK(netmem_port_close(worker, port) == 0);
    CHECK(netmem_port_rx(second, port, &frame, 1) == -ESTALE && says("it was closed"));
    CHECK(netmem_port_close(worker, port) == -ESTALE && misuses("closed") == 2);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_worker_close(second) == 0);
}

/* What the opening of a port that lends says, in a memory of so many bytes. */
static int opened(uint64_t bytes, uint32_t in_file, const char *format)
{
    netmem_memory_config config;
    netmem_memory own;
    netmem_worker by;
    netmem_pool frames;
    netmem_port port;
    char text[128];
    memset(&config, 0, sizeof config);
    config.bytes = bytes;
    config.small_pages = 1;
    config.in_file = in_file;
    snprintf(text, sizeof text, format, (int)getpid());
    CHECK(netmem_memory_open(&config, &own) == 0 && netmem_worker_open(own, &by) == 0);
    CHECK(netmem_pool_open(by, NULL, &frames) == 0);
    int said = netmem_port_open(by, frames, text, NULL, &port);
    CHECK(said != 0 || netmem_port_close(by, port) == 0);
    CHECK(netmem_pool_close(frames, 1000) == 0 && netmem_worker_close(by) == 0 && netmem_memory_close(own, 1000) == 0);
    return said;
}

static void lend(void)
{
    static const char LENDS[] = "memif:@netmem-remedies-%d,lend=yes";
    CHECK(opened(16u << 20, 0, LENDS) == -EINVAL && says("netmem_memory_config.in_file = 1"));
    CHECK(opened(16u << 20, 0, "fault:seed=1/memif:@netmem-remedies-%d,lend=yes") == -EINVAL && says("in_file"));
    CHECK(opened(16u << 20, 1, LENDS) == 0 && opened(16u << 20, 0, "memif:@netmem-remedies-%d") == 0);
    /* For peers of other users the port makes a memory of its own. */
    CHECK(opened(16u << 20, 0, "memif:@netmem-remedies-%d,lend=yes,peer=any") == 0);
}

/* Frees a burst with two words that are not good: what is returned is of the first, and the line that is kept too. */
static void burst(void)
{
    static netmem_frame frames[200], made_up = {0x0123456789abcdef};
    netmem_frame again = one(), two[2] = {made_up, again};
    netmem_span spans[2];
    CHECK(netmem_free(worker, &again, 1) == 0);
    CHECK(netmem_free(worker, two, 2) == -EBADF && says("made_up"));
    CHECK(netmem_pool_free(worker, pool, two, 2) == -EBADF && says("made_up"));
    CHECK(netmem_spans(worker, two, 2, spans) == -EBADF && says("made_up"));
    CHECK(misuses("made_up") == 3 && misuses("freed_twice") == 2);
    /* In two parts of a long burst. */
    for (int by_pool = 0; by_pool < 2; by_pool++) {
        CHECK(netmem_alloc(worker, pool, frames, 200) == 200);
        netmem_frame kept[2] = {frames[3], frames[190]};
        frames[3] = made_up;
        frames[190] = again;
        int said = by_pool ? netmem_pool_free(worker, pool, frames, 200) : netmem_free(worker, frames, 200);
        CHECK(said == -EBADF && says("made_up") && netmem_free(worker, kept, 2) == 0);
    }
    netmem_object objects[2] = {{made_up.word}, {again.word}};
    netmem_page page, pages[2] = {{made_up.word}, {0}};
    CHECK(netmem_page_alloc(worker, 0, &page, 1) == 1 && netmem_page_free(worker, &page, 1) == 0);
    pages[1] = page;
    CHECK(netmem_page_free(worker, pages, 2) == -EBADF && says("made_up"));
    netmem_sizes sizes;
    CHECK(netmem_sizes_open(worker, "bytes", &sizes) == 0 && netmem_sizes_alloc(worker, sizes, 8, objects + 1) == 0);
    CHECK(netmem_object_free(worker, objects + 1, 1) == 0);
    CHECK(netmem_object_free(worker, objects, 2) == -EBADF && says("made_up") && netmem_sizes_close(sizes) == 0);
    netmem_heads heads;
    netmem_packet packets[2] = {{made_up.word}, {0}};
    CHECK(netmem_heads_open(worker, NULL, &heads) == 0 && netmem_packet_alloc(worker, heads, pool, packets + 1, 1) == 1);
    CHECK(netmem_packet_free(worker, packets + 1, 1) == 0);
    CHECK(netmem_packet_free(worker, packets, 2) == -EBADF && says("made_up") && netmem_heads_close(heads) == 0);
    netmem_shared shared[2] = {{made_up.word}, {0}};
    netmem_frame frame = one();
    CHECK(netmem_share(worker, &frame, shared + 1, 1) == 1 && netmem_shared_free(worker, shared + 1, 1) == 0);
    CHECK(netmem_shared_free(worker, shared, 2) == -EBADF && says("made_up"));
    /* The next call's is the line again. */
    CHECK(netmem_page_free(worker, &page, 1) == -ESTALE && says("netmem_page_free") && !strstr(netmem_last_error(), "made_up"));
}

static void workers(void)
{
    netmem_worker others[4];
    CHECK(netmem_worker_open(memory, others) == 0 && netmem_worker_open(memory, others + 1) == 0);
    CHECK(netmem_worker_open(memory, others + 2) == 0 && netmem_worker_open(memory, others + 3) == -ENFILE);
    CHECK(says("all 4 workers of this memory are in use: close one (netmem_worker_close)"));
    CHECK(says("netmem_memory_config.workers"));
    for (int i = 0; i < 3; i++)
        CHECK(netmem_worker_close(others[i]) == 0);
}

static void ring(void)
{
    netmem_port_config config;
    netmem_port port;
    memset(&config, 0, sizeof config);
    config.ring = 1000;
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", &config, &port) == -EINVAL);
    CHECK(says("netmem_port_config.ring is 1000: give a power of two"));
    config.ring = 1024;
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", &config, &port) == 0);
    CHECK(netmem_port_close(worker, port) == 0);
}

static void heads_config(void)
{
    netmem_heads_config config;
    netmem_heads heads;
    memset(&config, 0, sizeof config);
    config.size = 4097;
    CHECK(netmem_heads_open(worker, &config, &heads) == -EINVAL && says("netmem_heads_config.size is 4097: give 1 to 4096, or 0 for 128"));
    config.size = 4;
    config.refill = 5;
    CHECK(netmem_heads_open(worker, &config, &heads) == -EINVAL && says("netmem_heads_config.refill is 5: give 1 to 4, or 0 for 1"));
    config.refill = 0;
    config.flush = UINT32_MAX;
    CHECK(netmem_heads_open(worker, &config, &heads) == -EINVAL && says("netmem_heads_config.flush is 4294967295: give 1 to 4, or 0 for 1"));
    config.flush = 4;
    CHECK(netmem_heads_open(worker, &config, &heads) == 0 && netmem_heads_close(heads) == 0);
}

/* More bytes than there are addresses: the text has no remedy that C does not have. */
static void lend_too_much(void)
{
    static char bytes[4096];
    netmem_memory lent;
    CHECK(netmem_memory_lend(bytes, SIZE_MAX, NULL, &lent) == -EINVAL && says("lend"));
    CHECK(!strstr(netmem_last_error(), "drop") && !strstr(netmem_last_error(), "segments"));
}

/* Bytes up to the last address and beyond. */
static void lend_around(void)
{
    static const size_t BYTES[] = {6, 4096, 2 << 20};
    netmem_memory lent;
    for (size_t i = 0; i < sizeof BYTES / sizeof *BYTES; i++)
        CHECK(netmem_memory_lend((void *)(UINTPTR_MAX - 5), BYTES[i], NULL, &lent) == -EINVAL && says("wrap around the address space"));
}

/* A handle that was passed as an int: its lower half, also with a sign. */
static void cut(void)
{
    netmem_frame frame = one(), halves[2] = {{(uint32_t)frame.word}, {frame.word | UINT64_C(0xffffffff80000000)}};
    netmem_worker half = {(uint32_t)worker.word};
    netmem_pool lower = {(uint32_t)pool.word};
    for (int i = 0; i < 2; i++)
        CHECK(netmem_len(worker, halves[i]) < 0 && says("its upper 32 bits are missing: pass handles as 64 bits"));
    CHECK(netmem_len(half, frame) < 0 && says("its upper 32 bits are missing"));
    CHECK(netmem_alloc(worker, lower, halves, 1) < 0 && says("its upper 32 bits are missing"));
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_free(worker, &frame, 1) == -ESTALE && !strstr(netmem_last_error(), "missing"));
}

/* Of the interface `one`: the port has no descriptor while it is down, and one again when it is up. */
static void down(void)
{
    netmem_port port, file;
    CHECK(netmem_port_open(worker, pool, "packet:one", NULL, &port) == 0);
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &file) == 0);
    CHECK(netmem_port_arm(worker, port) >= 0 && netmem_port_fd(worker, port) >= 0 && netmem_port_disarm(worker, port) == 0);
    CHECK(system("ip link set one down") == 0);
    CHECK(netmem_port_arm(worker, port) >= 0 && netmem_port_fd(worker, port) == -ENETDOWN && says("interface one is down"));
    CHECK(netmem_port_disarm(worker, port) == 0 && system("ip link set one up") == 0);
    while (netmem_port_arm(worker, port) >= 0 && netmem_port_fd(worker, port) < 0)
        CHECK(netmem_last_errno() == ENETDOWN && netmem_port_disarm(worker, port) == 0 && netmem_port_kick(worker, port) == 0);
    CHECK(netmem_port_fd(worker, file) == -EINVAL && says("poll it"));
    CHECK(netmem_port_close(worker, port) == 0 && netmem_port_close(worker, file) == 0);
}

int main(int argc, char **argv)
{
    static const struct test_case ALL[] = {{"lane", lane}, {"port", port}, {"lend", lend}, {"burst", burst}, {"workers", workers}, {"ring", ring},
                                           {"heads", heads_config}, {"too much", lend_too_much}, {"around", lend_around}, {"cut", cut}, {"down", down}};
    CHECK(argc == 2 && netmem_set_policy(NETMEM_COUNT) == 0);
    return run_case(ALL, sizeof ALL / sizeof *ALL, argv[1], open_all, close_all);
}
