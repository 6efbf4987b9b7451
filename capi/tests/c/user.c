/* What a program meets that uses the library for the first time: usage: user NAME, of the list at the end. */
#include "packets.h"
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int text_has(const char *text)
{
    int is_said = strstr(netmem_last_error(), text) != NULL;
    if (!is_said)
        printf("\"%s\" is not in: %s\n", text, netmem_last_error());
    return is_said;
}

/* The arguments of printf may be read in any order: the text of a failure is where that of an earlier one was. */
static void kept_text(void)
{
    netmem_memory none = {0};
    netmem_worker other;
    const char *text = netmem_last_error();
    CHECK(netmem_worker_open(none, &other) < 0);
    CHECK(text == netmem_last_error() && text_has("netmem_worker_open: closed"));
    CHECK(netmem_set_policy(99) == -EINVAL && strstr(text, "policy") != NULL);
}

/* A default frame has room for what the header says, and a program asks how much that is. */
static void room(void)
{
    static netmem_frame frames[4096];
    static const char bytes[2048] = "as much as there is room for";
    netmem_pool_config config;
    netmem_pool other;
    netmem_span span;
    CHECK(netmem_pool_room(pool) >= 1518);
    CHECK(netmem_alloc(worker, pool, frames, 64) == 64);
    for (int i = 0; i < 64; i++) {
        CHECK(netmem_spans(worker, frames + i, 1, &span) == 0 && span.headroom >= 64 && span.tailroom >= netmem_pool_room(pool));
        CHECK(span.headroom <= 512 && span.tailroom <= 1984);
        CHECK(netmem_put_data(worker, frames[i], bytes, (uint32_t)netmem_pool_room(pool)) == 0);
        CHECK(netmem_len(worker, frames[i]) == netmem_pool_room(pool) && memcmp(netmem_data(worker, frames[i]), bytes, 1518) == 0);
        CHECK(netmem_put_data(worker, frames[i], bytes, 600) == -ENOBUFS && text_has("netmem_put_data: 600 bytes wanted"));
    }
    CHECK(netmem_free(worker, frames, 64) == 0);
    memset(&config, 0, sizeof config);
    config.headroom = 128;
    config.data = 2048 - 128;
    CHECK(netmem_pool_open(worker, &config, &other) == 0 && netmem_pool_room(other) == 2048 - 128);
    CHECK(netmem_alloc(worker, other, frames, 64) == 64);
    for (int i = 0; i < 64; i++)
        CHECK(netmem_spans(worker, frames + i, 1, &span) == 0 && span.headroom == 128 && span.tailroom == 2048 - 128);
    CHECK(netmem_free(worker, frames, 64) == 0 && netmem_pool_close(other, 1000) == 0);
    config.headroom = NETMEM_NO_HEADROOM;
    config.data = 2048;
    CHECK(netmem_pool_open(worker, &config, &other) == 0 && netmem_alloc(worker, other, frames, 1) == 1);
    CHECK(netmem_spans(worker, frames, 1, &span) == 0 && span.headroom == 0 && span.tailroom == 2048);
    CHECK(netmem_put(worker, frames[0], 2049) == NULL && netmem_push(worker, frames[0], 1) == NULL && text_has(": 1 byte wanted"));
    CHECK(netmem_free(worker, frames, 1) == 0 && netmem_pool_close(other, 1000) == 0);
    config.headroom = 65;
    CHECK(netmem_pool_open(worker, &config, &other) == -EINVAL && text_has("headroom 65"));
}

/* Which of the two is used up: the pool, or the memory below it. */
static void used_up(void)
{
    static netmem_page pages[8192];
    static netmem_frame frames[4096];
    netmem_packet packet;
    netmem_raw raw;
    netmem_ready ready;
    int n = netmem_page_alloc(worker, 0, pages, 8192);
    CHECK(n > 0 && n < 8192);
    int m = netmem_alloc(worker, pool, frames, 4096);
    CHECK(m < 4096 && netmem_last_errno() == ENOMEM && text_has("netmem_alloc: the memory has no more pages for the pool"));
    CHECK(netmem_raw_alloc(worker, pool, &raw, 1) == 0 && netmem_last_errno() == ENOMEM);
    CHECK(netmem_packet_alloc(worker, heads, pool, &packet, 1) == 0 && netmem_last_errno() == ENOMEM);
    CHECK(netmem_ready_open(worker, heads, pool, 0, &ready) == 0);
    CHECK(netmem_ready_alloc(worker, ready, &packet, 1) == 0 && netmem_last_errno() == ENOMEM && netmem_ready_close(ready) == 0);
    CHECK(netmem_free(worker, frames, (uint32_t)m) == 0 && netmem_page_free(worker, pages, (uint32_t)n) == 0);
    CHECK(netmem_alloc(worker, pool, frames, 4096) == 4096);
    CHECK(netmem_alloc(worker, pool, frames, 1) == 0 && netmem_last_errno() == ENOBUFS);
    CHECK(netmem_free(worker, frames, 4096) == 0);
    /* What is free goes back to the memory when the program says so. */
    netmem_ledger ledger;
    CHECK(netmem_pool_resize(pool, 4097) == -EINVAL && text_has("give 1 to 4096"));
    CHECK(netmem_pool_ledger(pool, &ledger) == 1 && ledger.total == 4096);
    CHECK(netmem_pool_resize(pool, 1) == 0 && netmem_pool_resize(pool, 4096) == 0);
    CHECK(netmem_pool_ledger(pool, &ledger) == 1 && ledger.total < 4096);
    CHECK(netmem_heads_shrink(heads) == 0);
}

/* Free pages of the memory. */
static int pages_left(void)
{
    static netmem_page all[8192];
    int n = netmem_page_alloc(worker, 0, all, 8192);
    CHECK(n > 0 && n < 8192 && netmem_page_free(worker, all, (uint32_t)n) == 0);
    return n;
}

static void shrunk(void)
{
    static netmem_object objects[2000];
    netmem_cache cache;
    netmem_sizes sizes;
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.size = 2048;
    config.no_merge = 1;
    CHECK(netmem_cache_open(worker, &config, &cache) == 0 && netmem_sizes_open(worker, NULL, &sizes) == 0);
    int before = pages_left();
    CHECK(netmem_object_alloc(worker, cache, objects, 2000) == 2000 && netmem_object_free(worker, objects, 2000) == 0);
    CHECK(netmem_cache_shrink(cache) == 0 && pages_left() == before);
    for (int i = 0; i < 1000; i++)
        CHECK(netmem_sizes_alloc(worker, sizes, 2000, objects + i) == 0);
    CHECK(netmem_object_free(worker, objects, 1000) == 0);
    CHECK(netmem_sizes_shrink(sizes) == 0 && pages_left() == before);
    /* No bytes are as one: the object has an address. */
    CHECK(netmem_sizes_alloc(worker, sizes, 0, objects) == 0 && netmem_object_data(worker, objects[0]) != NULL);
    CHECK(netmem_object_free(worker, objects, 1) == 0);
    CHECK(netmem_cache_close(cache) == 0 && netmem_sizes_close(sizes) == 0);
}

/* The same bytes are lent once. */
static void lent_twice(void)
{
    static char bytes[4 << 20];
    netmem_memory first, second;
    CHECK(netmem_memory_lend(bytes, 2 << 20, NULL, &first) == 0);
    CHECK(netmem_memory_lend(bytes, 2 << 20, NULL, &second) == -EEXIST && text_has("part of another memory"));
    CHECK(netmem_memory_lend(bytes + (1 << 20), 2 << 20, NULL, &second) == -EEXIST);
    CHECK(netmem_memory_lend(bytes + (2 << 20), 2 << 20, NULL, &second) == 0 && netmem_memory_close(second, 1000) == 0);
    CHECK(netmem_memory_close(first, 1000) == 0);
    CHECK(netmem_memory_lend(bytes, 2 << 20, NULL, &first) == 0 && netmem_memory_close(first, 1000) == 0);
}

/* A raw frame becomes a frame once, and the worker can be closed afterwards. */
static void converted_twice(void)
{
    netmem_raw raw[2];
    netmem_frame frames[2], again[2];
    netmem_worker second;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_raw_alloc(second, pool, raw, 2) == 2);
    CHECK(netmem_raw_into_frames(second, raw, frames, 1) == 1);
    CHECK(netmem_raw_into_frames(second, raw, again, 2) == -ESTALE && text_has("used_after_move"));
    CHECK(netmem_raw_into_frames(worker, raw, again, 1) == -ESTALE && netmem_worker_held(second) == 1);
    CHECK(netmem_raw_into_frames(second, raw + 1, frames + 1, 1) == 1 && netmem_worker_held(second) == 2);
    CHECK(netmem_free(second, frames, 1) == 0 && netmem_worker_reclaim(second) == 1);
    CHECK(netmem_worker_held(second) == 0 && netmem_worker_close(second) == 0);
}

/* Frames of another memory, which an xdp port refuses; here of a port that lends, which needs no interface. */
static void unsendable(void)
{
    netmem_memory_config config;
    netmem_memory own;
    netmem_worker by;
    netmem_pool frames;
    netmem_port port;
    netmem_frame all[130], before[130];
    netmem_raw raw[3];
    char text[128];
    memset(&config, 0, sizeof config);
    config.bytes = 16u << 20;
    config.small_pages = config.in_file = 1;
    snprintf(text, sizeof text, "memif:@netmem-user-%d,lend=yes", (int)getpid());
    CHECK(netmem_memory_open(&config, &own) == 0 && netmem_worker_open(own, &by) == 0);
    CHECK(netmem_pool_open(by, NULL, &frames) == 0 && netmem_port_open(by, frames, text, NULL, &port) == 0);
    CHECK(netmem_alloc(by, frames, all, 130) == 130);
    for (int i = 0; i < 130; i += 3) {
        /* Every third one comes from the other memory. */
        CHECK(netmem_free(by, all + i, 1) == 0 && netmem_alloc(worker, pool, all + i, 1) == 1);
        CHECK(netmem_put(worker, all[i], 60) != NULL && netmem_detach(worker, all + i, 1) == 1 && netmem_attach(by, all + i, 1) == 1);
    }
    memcpy(before, all, sizeof all);
    CHECK(netmem_port_take_unsendable(by, port, all, 130) == 44);
    for (int i = 0, good = 0, bad = 130 - 44; i < 130; i++)
        CHECK(before[i].word == (i % 3 == 0 ? all[bad++] : all[good++]).word);
    CHECK(netmem_len(by, all[129]) == 60 && netmem_len(by, all[0]) == 0 && netmem_worker_held(by) == 130);
    CHECK(netmem_port_take_unsendable(by, port, all, 86) == 0 && netmem_port_take_unsendable(by, port, all + 86, 44) == 44);
    netmem_frame twice[2] = {all[0], all[0]}, stale[2] = {all[0], {all[1].word + (1ull << 39)}};
    CHECK(netmem_port_take_unsendable(by, port, twice, 2) < 0 && netmem_port_take_unsendable(by, port, stale, 2) == -EBADF);
    CHECK(netmem_raw_from_frames(by, all + 85, raw, 3) == 3);
    netmem_raw good = raw[0];
    CHECK(netmem_raw_len(raw[1]) == 60 && netmem_raw_headroom(raw[1]) >= 64);
    CHECK(netmem_raw_tailroom(raw[1]) == 2048 - 60 - netmem_raw_headroom(raw[1]));
    netmem_raw turned[3] = {raw[1], raw[0], raw[2]};
    CHECK(netmem_port_take_unsendable_raw(by, port, turned, 3) == 2 && turned[0].word == good.word);
    CHECK(netmem_raw_free(by, turned, 3) == 0);
    CHECK(netmem_free(by, all, 85) == 0 && netmem_free(by, all + 88, 42) == 0);
    CHECK(netmem_port_is_failed(by, port) == 0 && netmem_port_tx_posted(by, port) == 0 && netmem_port_tx_unread(by, port) == 0);
    CHECK(netmem_port_close(by, port) == 0 && netmem_pool_close(frames, 1000) == 0);
    CHECK(netmem_worker_close(by) == 0 && netmem_memory_close(own, 1000) == 0);
}

/* A port that can carry every packet. */
static void packets_of_a_port(void)
{
    netmem_packet packets[3] = {a_packet("one"), a_packet("two"), a_packet("three")}, more, rest;
    netmem_port port;
    char buffer[8];
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    CHECK(netmem_packet_set_flow_hash(worker, packets[1], 7) == 0);
    CHECK(netmem_port_take_unsendable_packets(worker, port, packets, 3) == 0);
    uint32_t hash = 0;
    CHECK(says(packets[0], "one") && says(packets[1], "two") && says(packets[2], "three"));
    CHECK(netmem_packet_flow_hash(worker, packets[1], &hash) == 0 && hash == 7);
    CHECK(netmem_packet_append(worker, packets[0], packets[1]) == 0);
    more = packets[0];
    CHECK(netmem_port_take_unsendable_packets(worker, port, &more, 1) == -EBUSY && says(more, "onetwo"));
    /* Bytes in one part are read in place, bytes of two parts are copied. */
    CHECK(netmem_packet_read(worker, more, 0, 3, NULL) == netmem_packet_data(worker, more));
    CHECK(memcmp(netmem_packet_read(worker, more, 4, 2, NULL), "wo", 2) == 0);
    CHECK(netmem_packet_read(worker, more, 2, 3, NULL) == NULL && netmem_last_errno() == EFAULT);
    CHECK(netmem_packet_read(worker, more, 2, 3, buffer) == buffer && memcmp(buffer, "etw", 3) == 0);
    CHECK(netmem_packet_read(worker, more, 4, 3, buffer) == NULL && netmem_last_errno() == ENOBUFS && text_has("3 bytes at 4 of a packet of 6"));
    CHECK(netmem_packet_read(worker, more, 6, 0, buffer) != NULL && netmem_packet_read(worker, more, 7, 0, buffer) == NULL);
    CHECK(netmem_packet_read(worker, more, 0xffffffff, 0xffffffff, buffer) == NULL);
    CHECK(netmem_packet_split(worker, more, 2, &rest) == 0 && netmem_packet_free(worker, &rest, 1) == 0);
    CHECK(netmem_packet_free(worker, &more, 1) == 0 && netmem_packet_free(worker, packets + 2, 1) == 0);
    CHECK(netmem_port_close(worker, port) == 0);
}

/* A worker that its thread has left belongs to no other one. */
static void left(void)
{
    netmem_frame frame;
    CHECK(netmem_worker_leave(worker) == 0);
    CHECK(netmem_alloc(worker, pool, &frame, 1) == -EPERM && text_has("wrong_thread") && text_has("netmem_worker_enter"));
    CHECK(strstr(netmem_last_error(), "another thread") == NULL);
    CHECK(netmem_worker_enter(worker) == 0);
}

static void words_of_c(void)
{
    netmem_lane lane;
    netmem_cache cache;
    netmem_cache_config of_cache;
    netmem_memory_config of_memory;
    netmem_pool_config of_pool;
    netmem_memory other;
    netmem_pool second;
    CHECK(netmem_lane_open(worker, 63, &lane) == -EINVAL && text_has("a lane for 63 frames: give 64 to 1048576"));
    memset(&of_cache, 0, sizeof of_cache);
    of_cache.size = 32769;
    CHECK(netmem_cache_open(worker, &of_cache, &cache) == -EINVAL && text_has("objects of 32769 bytes: a cache has objects of at most 32768"));
    of_cache.size = 32768;
    CHECK(netmem_cache_open(worker, &of_cache, &cache) == 0 && netmem_cache_close(cache) == 0);
    of_cache.no_merge = 3;
    CHECK(netmem_cache_open(worker, &of_cache, &cache) == -EINVAL && text_has("netmem_cache_config.no_merge is 3: give 0 or 1"));
    memset(&of_memory, 0, sizeof of_memory);
    of_memory.small_pages = 9;
    CHECK(netmem_memory_open(&of_memory, &other) == -EINVAL && text_has("netmem_memory_config.small_pages is 9"));
    of_memory.small_pages = 1, of_memory.in_file = 2;
    CHECK(netmem_memory_open(&of_memory, &other) == -EINVAL && text_has("netmem_memory_config.in_file is 2"));
    memset(&of_pool, 0, sizeof of_pool);
    of_pool.init_on_alloc = 5;
    CHECK(netmem_pool_open(worker, &of_pool, &second) == -EINVAL && text_has("netmem_pool_config.init_on_alloc is 5"));
    CHECK(netmem_memory_close(memory, 0) == -EBUSY && text_has("1 worker of the memory still open"));
}

/* What cannot be opened says why by its errno. */
static void why_not(void)
{
    netmem_port port;
    CHECK(netmem_port_open(worker, pool, "packet:nosuch0", NULL, &port) == -ENOENT);
    CHECK(netmem_port_open(worker, pool, "xdp:nosuch0", NULL, &port) == -ENOENT);
    CHECK(netmem_port_open(worker, pool, "pcap:in=/nosuch/file.pcap", NULL, &port) == -ENOENT);
    CHECK(netmem_port_open(worker, pool, "tap:a-name-that-is-too-long", NULL, &port) == -EINVAL);
    CHECK(netmem_port_open(worker, pool, "memif:/nosuch/folder/socket,role=server", NULL, &port) == -ENOENT);
}

/* The port's address and MTU are those of its interface. */
static void address_of(netmem_port port, const char *interface)
{
    uint8_t mac[6];
    struct ifreq of;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memset(&of, 0, sizeof of);
    snprintf(of.ifr_name, sizeof of.ifr_name, "%s", interface);
    CHECK(fd >= 0 && ioctl(fd, SIOCGIFMTU, &of) == 0 && netmem_port_mtu(worker, port) == of.ifr_mtu);
    CHECK(ioctl(fd, SIOCGIFHWADDR, &of) == 0 && netmem_port_mac(worker, port, mac) == 0);
    CHECK(memcmp(mac, of.ifr_hwaddr.sa_data, 6) == 0 && close(fd) == 0);
}

/* The state of a port is that of its interface now, however rarely the program kicks it. */
static void state_of(const char *text, const char *interface)
{
    netmem_port port;
    char command[96];
    CHECK(netmem_port_open(worker, pool, text, NULL, &port) == 0 && netmem_port_state(worker, port) == 0);
    address_of(port, interface);
    snprintf(command, sizeof command, "ip link set dev %s down", interface);
    CHECK(system(command) == 0);
    CHECK(netmem_port_state(worker, port) == -ENETDOWN && text_has("down") && netmem_port_is_failed(worker, port) == 0);
    snprintf(command, sizeof command, "ip link set dev %s up", interface);
    CHECK(system(command) == 0);
    for (int i = 0; i < 1000 && netmem_port_state(worker, port) != 0; i++)
        usleep(10000);
    CHECK(netmem_port_state(worker, port) == 0);
    snprintf(command, sizeof command, "ip link set dev %s address 02:aa:bb:cc:dd:ee", interface);
    CHECK(system(command) == 0);
    address_of(port, interface);
    /* An armed port keeps the event that wakes its thread. */
    CHECK(netmem_port_arm(worker, port) >= 0 && netmem_port_state(worker, port) == 0 && netmem_port_disarm(worker, port) == 0);
    CHECK(netmem_port_close(worker, port) == 0);
}

static void state(void)
{
    state_of("packet:one", "one");
    state_of("xdp:two", "two");
}

/* Before anything is open: see main. A child of a process whose first call failed may open a memory. */
static void child(void)
{
    netmem_memory_config config;
    netmem_memory none;
    netmem_stock stock;
    int status = 0;
    memset(&config, 0, sizeof config);
    config.workers = 65;
    CHECK(netmem_memory_open(&config, &none) == -EINVAL && netmem_stock_open(NULL, &stock) == -EFAULT);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        open_all();
        close_all();
        _exit(0);
    }
    CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    open_all();
    process = fork();
    CHECK(process >= 0);
    if (process == 0)
        /* Of the process that has opened one, a child has none, and is told so. */
        _exit(netmem_memory_open(NULL, &none) != -ECHILD || netmem_last_errno() != ECHILD || !text_has("child"));
    CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_all();
}

int main(int argc, char **argv)
{
    static const struct test_case ALL[] = {{"kept text", kept_text}, {"room", room}, {"used up", used_up}, {"shrunk", shrunk}, {"lent twice", lent_twice},
               {"converted twice", converted_twice}, {"unsendable", unsendable}, {"packets", packets_of_a_port}, {"left", left},
               {"words", words_of_c}, {"why not", why_not}, {"state", state}};
    CHECK(argc == 2 && netmem_set_policy(NETMEM_COUNT) == 0);
    if (strcmp(argv[1], "child") == 0) {
        child();
        printf("child: as it should be\n");
        return 0;
    }
    return run_case(ALL, sizeof ALL / sizeof *ALL, argv[1], open_heads, close_heads);
}
