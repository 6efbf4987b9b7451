/* What the calls say at their limits: usage: limits NAME [CAPTURE], of the list at the end. */
#include "packets.h"
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

static int text_has(const char *text)
{
    int is_said = strstr(netmem_last_error(), text) != NULL;
    if (!is_said)
        printf("\"%s\" is not in: %s\n", text, netmem_last_error());
    return is_said;
}

/* Leaves the process so many bytes of address space beyond what it has. */
static void leave(size_t bytes)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%lu", &pages) == 1 && fclose(statm) == 0);
    if (bytes > 0)
        limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void memory_runs_out(void)
{
    netmem_pool_config many;
    netmem_pool other;
    netmem_lane lane;
    memset(&many, 0, sizeof many);
    many.frames = 4000000;
    leave(2u << 20);
    CHECK(netmem_lane_open(worker, 1u << 20, &lane) == -ENOMEM && text_has("no memory for 1048576 frames and packets"));
    CHECK(netmem_pool_open(worker, &many, &other) == -ENOMEM && text_has("give fewer frames"));
    leave(0);
    CHECK(netmem_lane_open(worker, 1u << 20, &lane) == 0 && netmem_lane_close(worker, lane) == 0);
    CHECK(netmem_lane_join(worker, lane) == 0 && netmem_lane_close(worker, lane) == 0);
    CHECK(netmem_pool_open(worker, &many, &other) == 0 && netmem_pool_close(other, 1000) == 0);
}

static void address_space_runs_out(void)
{
    netmem_memory_config config;
    netmem_memory second;
    memset(&config, 0, sizeof config);
    config.bytes = 2u << 20;
    leave(1u << 30);
    CHECK(netmem_memory_open(&config, &second) == -ENOMEM && text_has("address-space limit") && text_has("no 2149588992 bytes"));
    leave(0);
    CHECK(netmem_memory_open(&config, &second) == 0 && netmem_memory_close(second, 1000) == 0);
}

static void memories(void)
{
    static netmem_memory all[1100];
    netmem_memory_config config;
    int n = 0, said;
    memset(&config, 0, sizeof config);
    config.bytes = 4096;
    config.small_pages = 1;
    while ((said = netmem_memory_open(&config, &all[n])) == 0)
        CHECK(++n < 1100);
    CHECK(said == -ENFILE && text_has("close one"));
    /* The first one is that of the program. */
    CHECK(n == 1022);
    while (n > 0)
        CHECK(netmem_memory_close(all[--n], 1000) == 0);
}

static void stocks(void)
{
    static netmem_stock all[4097];
    netmem_stock_config config;
    memset(&config, 0, sizeof config);
    config.objects = 1;
    for (int i = 0; i < 4096; i++)
        CHECK(netmem_stock_open(&config, &all[i]) == 0);
    CHECK(netmem_stock_open(&config, &all[4096]) == -ENFILE && text_has("4096 stocks"));
    for (int i = 0; i < 4096; i++)
        CHECK(netmem_stock_close(all[i]) == 0);
}

/* Each array has a value of the caller's, of which nothing may be left. */
static void refused_bursts(void)
{
    netmem_worker closed = {worker.word + 1};
    netmem_frame frames[2] = {one(), one()};
    netmem_packet packets[2] = {{0}, {0}};
    netmem_span spans[2];
    netmem_part parts[2];
    char old;
#define OLD()                                                          \
    do {                                                               \
        memset(spans, 0x12, sizeof spans);                             \
        memset(parts, 0x12, sizeof parts);                             \
        spans[0].data = spans[1].data = &old;                          \
        parts[0].data = parts[1].data = &old;                          \
    } while (0)
#define NOTHING(of) (of[0].data == NULL && of[1].data == NULL && of[0].len == 0 && of[1].tailroom == 0)
    OLD();
    CHECK(netmem_spans(closed, frames, 2, spans) < 0 && NOTHING(spans));
    CHECK(netmem_packet_first_parts(closed, packets, 2, parts) < 0 && NOTHING(parts));
    OLD();
    CHECK(netmem_spans(worker, NULL, 2, spans) == -EFAULT && NOTHING(spans));
    CHECK(netmem_packet_first_parts(worker, NULL, 2, parts) == -EFAULT && NOTHING(parts));
    OLD();
    CHECK(netmem_packet_first_parts(worker, packets, 2, parts) < 0 && NOTHING(parts));
    CHECK(netmem_spans(worker, frames, 2, NULL) == -EFAULT && netmem_spans(closed, frames, 2, NULL) < 0);
    void *to[2] = {&old, &old};
    uint32_t lens[2] = {1, 1};
#define NONE_OF(to) (to[0] == NULL && to[1] == NULL && (to[0] = to[1] = &old) != NULL)
    CHECK(netmem_put_each(closed, frames, lens, 2, to) < 0 && NONE_OF(to));
    CHECK(netmem_put_each(worker, NULL, lens, 2, to) == -EFAULT && NONE_OF(to));
    CHECK(netmem_put_each(worker, frames, NULL, 2, to) == -EFAULT && NONE_OF(to));
    CHECK(netmem_packet_put_each(closed, packets, lens, 2, to) < 0 && NONE_OF(to));
    CHECK(netmem_packet_put_each(worker, NULL, lens, 2, to) == -EFAULT && NONE_OF(to));
    CHECK(netmem_packet_put_each(worker, packets, lens, 2, to) < 0 && NONE_OF(to));
    CHECK(netmem_put_each(worker, frames, lens, 2, NULL) == -EFAULT && netmem_len(worker, frames[0]) == 0);
    CHECK(netmem_free(worker, frames, 2) == 0);
}

#define LAST_OF(config) (config.reserved[sizeof config.reserved / sizeof *config.reserved - 1])
#define REFUSED(config, name, call)                                              \
    do {                                                                         \
        memset(&config, 0, sizeof config);                                       \
        LAST_OF(config) = 7;                                                     \
        CHECK((call) == -EINVAL && text_has(name ".reserved[") && text_has("] is 7"));   \
    } while (0)

static void reserved_fields(void)
{
    netmem_memory_config of_memory;
    netmem_pool_config of_pool;
    netmem_port_config of_port;
    netmem_heads_config of_heads;
    netmem_cache_config of_cache;
    netmem_stock_config of_stock;
    netmem_memory memory2;
    netmem_pool pool2;
    netmem_port port;
    netmem_heads heads2;
    netmem_cache cache;
    netmem_stock stock;
    static char bytes[1 << 20];
    REFUSED(of_memory, "netmem_memory_config", netmem_memory_open(&of_memory, &memory2));
    REFUSED(of_memory, "netmem_memory_config", netmem_memory_lend(bytes, sizeof bytes, &of_memory, &memory2));
    /* The pages of lent bytes are as they are. */
    memset(&of_memory, 0, sizeof of_memory);
    for (of_memory.in_file = 1; of_memory.in_file < 3; of_memory.in_file++)
        CHECK(netmem_memory_lend(bytes, sizeof bytes, &of_memory, &memory2) == -EINVAL && text_has("netmem_memory_config.in_file"));
    REFUSED(of_pool, "netmem_pool_config", netmem_pool_open(worker, &of_pool, &pool2));
    REFUSED(of_port, "netmem_port_config", netmem_port_open(worker, pool, "pcap:out=/dev/null", &of_port, &port));
    REFUSED(of_heads, "netmem_heads_config", netmem_heads_open(worker, &of_heads, &heads2));
    REFUSED(of_cache, "netmem_cache_config", netmem_cache_open(worker, &of_cache, &cache));
    REFUSED(of_stock, "netmem_stock_config", netmem_stock_open(&of_stock, &stock));
}

/* Pages that the memory has left. */
static int pages_left(void)
{
    static netmem_page all[8192];
    int n = netmem_page_alloc(worker, 0, all, 8192);
    CHECK(n > 0 && n < 8192 && netmem_page_free(worker, all, (uint32_t)n) == 0);
    return n;
}

/* Uses a cache, heads and a ready pool by two workers and closes them. */
static void used_by_two(netmem_worker second)
{
    static netmem_object objects[1000];
    static netmem_packet packets[256];
    netmem_cache cache;
    netmem_sizes sizes;
    netmem_heads other;
    netmem_ready ready;
    netmem_worker both[2] = {worker, second};
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.size = 2048;
    config.no_merge = 1;
    CHECK(netmem_cache_open(worker, &config, &cache) == 0 && netmem_sizes_open(worker, NULL, &sizes) == 0);
    CHECK(netmem_heads_open(worker, NULL, &other) == 0 && netmem_ready_open(worker, other, pool, 0, &ready) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(netmem_object_alloc(both[i], cache, objects, 1000) == 1000);
        CHECK(netmem_object_free(both[i], objects, 1000) == 0);
        for (int j = 0; j < 1000; j++)
            CHECK(netmem_sizes_alloc(both[i], sizes, 1000, objects + j) == 0);
        CHECK(netmem_object_free(both[i], objects, 1000) == 0);
        CHECK(netmem_ready_alloc(both[i], ready, packets, 256) == 256);
        CHECK(netmem_ready_free(both[i], ready, packets, 256) == 0);
    }
    CHECK(netmem_ready_close(ready) == 0 && netmem_heads_close(other) == 0);
    CHECK(netmem_cache_close(cache) == 0 && netmem_sizes_close(sizes) == 0);
}

static void closed_cache(void)
{
    netmem_worker second;
    static netmem_frame frames[4096];
    CHECK(netmem_worker_open(memory, &second) == 0);
    /* The pool keeps the pages of its frames: it gets all of them now. */
    CHECK(netmem_alloc(worker, pool, frames, 4096) == 4096 && netmem_free(worker, frames, 4096) == 0);
    int before = pages_left();
    used_by_two(second);
    CHECK(pages_left() == before);
    CHECK(netmem_worker_close(second) == 0 && pages_left() == before);
}

static void last_errno(void)
{
    static netmem_frame many[5000];
    netmem_frame frame = one(), stale = frame;
    netmem_packet packet, twin;
    netmem_page page;
    netmem_object object;
    netmem_raw raw;
    netmem_sizes sizes;
    netmem_memory_config config;
    netmem_memory second;
    CHECK(netmem_put(worker, frame, 4000) == NULL && netmem_last_errno() == ENOBUFS);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_put(worker, stale, 1) == NULL && netmem_last_errno() == ESTALE);
    CHECK(netmem_packet_alloc(worker, heads, pool, &packet, 1) == 1);
    CHECK(netmem_packet_share(worker, packet, &twin) == 0);
    CHECK(netmem_packet_write(worker, packet) == NULL && netmem_last_errno() == EBUSY);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0 && netmem_packet_free(worker, &twin, 1) == 0);
    CHECK(netmem_packet_write(worker, packet) == NULL && netmem_last_errno() == ESTALE);
    /* An empty pool. */
    int n = netmem_alloc(worker, pool, many, 5000);
    CHECK(n == 4096 && netmem_last_errno() == ENOBUFS && text_has("netmem_alloc: the pool has no more free frames"));
    CHECK(netmem_page_alloc(worker, 11, &page, 1) == -EINVAL && netmem_last_errno() == EINVAL && text_has("order 11"));
    CHECK(netmem_alloc(worker, pool, &frame, 1) == 0 && netmem_last_errno() == ENOBUFS);
    CHECK(netmem_page_alloc(worker, 11, &page, 1) == -EINVAL);
    CHECK(netmem_packet_alloc(worker, heads, pool, &packet, 1) == 0 && netmem_last_errno() == ENOBUFS && text_has("netmem_packet_alloc"));
    CHECK(netmem_page_alloc(worker, 11, &page, 1) == -EINVAL);
    CHECK(netmem_raw_alloc(worker, pool, &raw, 1) == 0 && netmem_last_errno() == ENOBUFS && text_has("netmem_raw_alloc"));
    CHECK(netmem_free(worker, many, (uint32_t)n) == 0);
    CHECK(netmem_sizes_open(worker, NULL, &sizes) == 0);
    CHECK(netmem_sizes_alloc(worker, sizes, (4u << 20) + 1, &object) == -ENOMEM && netmem_last_errno() == ENOMEM);
    CHECK(netmem_sizes_close(sizes) == 0);
    /* Options. */
    memset(&config, 0, sizeof config);
    config.workers = 65;
    CHECK(netmem_memory_open(&config, &second) == -EINVAL && text_has("65 workers: give 1 to 64"));
}

/* What a memory that is used up says: objects and blocks of pages are fewer, and there is a line. */
static void a_memory_used_up(void)
{
    static netmem_page pages[5000];
    static netmem_object objects[5000];
    netmem_cache_config config;
    netmem_cache cache;
    memset(&config, 0, sizeof config);
    config.size = 2048;
    config.no_merge = 1;
    CHECK(netmem_cache_open(worker, &config, &cache) == 0);
    int n = netmem_page_alloc(worker, 0, pages, 5000);
    CHECK(n > 0 && n < 5000 && netmem_last_errno() == ENOMEM && text_has("netmem_page_alloc: the memory has no more"));
    int m = netmem_object_alloc(worker, cache, objects, 5000);
    CHECK(m >= 0 && m < 5000 && netmem_last_errno() == ENOMEM && text_has("netmem_object_alloc: the memory has no more"));
    CHECK(netmem_object_free(worker, objects, (uint32_t)m) == 0 && netmem_page_free(worker, pages, (uint32_t)n) == 0);
    CHECK(netmem_cache_close(cache) == 0);
}

static void no_merge(void)
{
    netmem_cache caches[3];
    netmem_object object;
    netmem_cache_config config;
    netmem_count counts[3][64];
    memset(&config, 0, sizeof config);
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < 3; i++) {
        config.size = 100;
        config.no_merge = i == 2;
        CHECK(netmem_cache_open(worker, &config, &caches[i]) == 0);
    }
    CHECK(netmem_object_alloc(worker, caches[0], &object, 1) == 1 && netmem_object_free(worker, &object, 1) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(netmem_cache_counts(caches[i], counts[i], 64) > 0);
    CHECK(memcmp(counts[0], counts[1], sizeof *counts) == 0 && memcmp(counts[0], counts[2], sizeof *counts) != 0);
    for (int i = 0; i < 3; i++)
        CHECK(netmem_cache_close(caches[i]) == 0);
}

static void lost_detached(void)
{
    netmem_page pages[64], kept;
    netmem_frame frames[64], mine = one();
    netmem_packet packets[8];
    netmem_object objects[8];
    netmem_shared shared[8];
    netmem_cache cache;
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.size = 100;
    CHECK(netmem_cache_open(worker, &config, &cache) == 0 && netmem_object_alloc(worker, cache, objects, 8) == 8);
    CHECK(netmem_page_alloc(worker, 0, pages, 64) == 64 && netmem_page_alloc(worker, 0, &kept, 1) == 1);
    CHECK(netmem_alloc(worker, pool, frames, 8) == 8 && netmem_share(worker, frames, shared, 8) == 8);
    CHECK(netmem_alloc(worker, pool, frames, 64) == 64);
    CHECK(netmem_packet_alloc(worker, heads, pool, packets, 8) == 8);
    CHECK(netmem_page_detach(worker, pages, 64) == 64 && netmem_detach(worker, frames, 64) == 64);
    CHECK(netmem_packet_detach(worker, packets, 8) == 8 && netmem_object_detach(worker, objects, 8) == 8);
    CHECK(netmem_shared_detach(worker, shared, 8) == 8);
    CHECK(netmem_worker_reclaim(worker) == 2 && netmem_worker_held(worker) == 0);
    CHECK(netmem_cache_close(cache) == -EBUSY && netmem_pool_close(pool, 0) == -ETIMEDOUT);
    CHECK(netmem_memory_reclaim_detached(memory) == 64 + 64 + 8 + 8 + 8);
    CHECK(netmem_memory_reclaim_detached(memory) == 0);
    CHECK(netmem_attach(worker, frames, 1) == -ESTALE && netmem_page_attach(worker, pages, 1) == -ESTALE);
    CHECK(netmem_packet_attach(worker, packets, 1) == -ESTALE && netmem_free(worker, &mine, 1) == -ESTALE);
    CHECK(netmem_cache_close(cache) == 0 && netmem_pool_close(pool, 1000) == 0);
    CHECK(netmem_pool_open(worker, NULL, &pool) == 0);
}

static int pool_of(uint32_t frames, uint32_t cache, uint32_t capacity)
{
    netmem_pool opened;
    netmem_frame got[4];
    netmem_pool_config config;
    memset(&config, 0, sizeof config);
    config.frames = frames;
    config.cache = cache;
    config.capacity = capacity;
    int n = netmem_pool_open(worker, &config, &opened);
    if (n < 0)
        return n;
    n = netmem_alloc(worker, opened, got, 4);
    CHECK(n > 0 && netmem_free(worker, got, n) == 0 && netmem_pool_close(opened, 1000) == 0);
    return n;
}

static int port_of(const char *text, uint32_t ring)
{
    netmem_port opened;
    netmem_port_config config;
    memset(&config, 0, sizeof config);
    config.ring = ring;
    int said = netmem_port_open(worker, pool, text, &config, &opened);
    CHECK(said < 0 || netmem_port_close(worker, opened) == 0);
    return said;
}

/* The ranges of options are those of the header. */
static void ranges(void)
{
    const char *memif = "memif:@netmem-limits-none,role=client";
    CHECK(pool_of(1, 0, 0) == 2 && pool_of(3, 0, 0) == 4);
    CHECK(pool_of(4194304, 65536, 4194304) == 4 && pool_of(4194305, 0, 0) == -EINVAL);
    CHECK(pool_of(1, 65537, 0) == -EINVAL && pool_of(1, 0, 4194305) == -EINVAL);
    CHECK(port_of(memif, 2) == 0 && port_of(memif, 16384) == 0 && port_of(memif, 1) == -EINVAL);
    CHECK(port_of(memif, 32768) == -EINVAL && port_of(memif, 3) == -EINVAL);
}

/* A pool whose close timed out can be waited for again until the same happened to its memory. */
static void waited_for(void)
{
    netmem_memory lasting;
    netmem_worker at, other = worker;
    netmem_pool late;
    netmem_frame frame;
    netmem_memory_config config;
    memset(&config, 0, sizeof config);
    config.bytes = 4 << 20;
    CHECK(netmem_memory_open(&config, &lasting) == 0 && netmem_worker_open(lasting, &at) == 0);
    CHECK(netmem_pool_open(at, NULL, &late) == 0 && netmem_alloc(at, late, &frame, 1) == 1);
    CHECK(netmem_detach(at, &frame, 1) == 1 && netmem_pool_close(late, 0) == -ETIMEDOUT && netmem_pool_close(late, 0) == -ETIMEDOUT);
    CHECK(netmem_worker_close(at) == 0 && netmem_memory_close(lasting, 0) == -ETIMEDOUT && text_has("1 frame detached"));
    CHECK(netmem_pool_close(late, 0) == -ESTALE && netmem_attach(other, &frame, 1) == 1);
    CHECK(netmem_free(other, &frame, 1) == 0 && netmem_memory_close(lasting, 1000) == 0);
}

/* What keeps a memory from being closed is named, with its number and the remedy. */
static void still_out(void)
{
    netmem_memory home, away;
    netmem_worker at_home, abroad;
    netmem_page pages[3];
    netmem_memory_config config;
    memset(&config, 0, sizeof config);
    config.bytes = 8 << 20;
    CHECK(netmem_memory_open(&config, &home) == 0 && netmem_worker_open(home, &at_home) == 0);
    CHECK(netmem_memory_open(&config, &away) == 0 && netmem_worker_open(away, &abroad) == 0);
    CHECK(netmem_page_alloc(at_home, 0, pages, 3) == 3 && netmem_page_detach(at_home, pages, 3) == 3);
    CHECK(netmem_page_attach(abroad, pages, 1) == 1 && netmem_worker_close(at_home) == 0);
    CHECK(netmem_memory_close(home, 0) == -ETIMEDOUT && text_has("2 blocks of pages detached"));
    CHECK(text_has("netmem_memory_reclaim_detached") && text_has("1 block of pages of workers of other memories"));
    CHECK(netmem_memory_reclaim_detached(home) == 2 && netmem_memory_close(home, 0) == -ETIMEDOUT && strstr(netmem_last_error(), "detached") == NULL);
    CHECK(netmem_page_free(abroad, pages, 1) == 0 && netmem_memory_close(home, 1000) == 0);
    CHECK(netmem_worker_close(abroad) == 0 && netmem_memory_close(away, 1000) == 0);
}

/* A frame that a worker of another memory shared and detached belongs to its own memory. */
static void shared_elsewhere(void)
{
    netmem_memory home, away;
    netmem_worker at_home, abroad;
    netmem_pool frames;
    netmem_frame frame;
    netmem_shared lost;
    netmem_memory_config config;
    memset(&config, 0, sizeof config);
    config.bytes = 8 << 20;
    CHECK(netmem_memory_open(&config, &home) == 0 && netmem_worker_open(home, &at_home) == 0 && netmem_pool_open(at_home, NULL, &frames) == 0);
    CHECK(netmem_memory_open(&config, &away) == 0 && netmem_worker_open(away, &abroad) == 0);
    CHECK(netmem_alloc(at_home, frames, &frame, 1) == 1 && netmem_detach(at_home, &frame, 1) == 1 && netmem_attach(abroad, &frame, 1) == 1);
    CHECK(netmem_share(abroad, &frame, &lost, 1) == 1 && netmem_shared_detach(abroad, &lost, 1) == 1);
    CHECK(netmem_memory_reclaim_detached(away) == 0 && netmem_pool_close(frames, 0) == -ETIMEDOUT);
    CHECK(netmem_memory_reclaim_detached(home) == 1 && netmem_pool_close(frames, 1000) == 0);
    CHECK(netmem_worker_close(abroad) == 0 && netmem_memory_close(away, 1000) == 0);
    CHECK(netmem_worker_close(at_home) == 0 && netmem_memory_close(home, 1000) == 0);
}

/* An object and a packet that a worker of another memory freed keep nothing of their own memory. */
static void freed_elsewhere(void)
{
    netmem_memory home, away;
    netmem_worker at_home, abroad;
    netmem_pool frames;
    netmem_heads of_home;
    netmem_cache cache;
    netmem_object object;
    netmem_packet packets[2];
    netmem_frame frame;
    netmem_memory_config config;
    netmem_cache_config of_cache;
    memset(&config, 0, sizeof config);
    config.bytes = 8 << 20;
    memset(&of_cache, 0, sizeof of_cache);
    of_cache.size = 100;
    CHECK(netmem_memory_open(&config, &home) == 0 && netmem_worker_open(home, &at_home) == 0 && netmem_pool_open(at_home, NULL, &frames) == 0);
    CHECK(netmem_memory_open(&config, &away) == 0 && netmem_worker_open(away, &abroad) == 0);
    CHECK(netmem_heads_open(at_home, NULL, &of_home) == 0 && netmem_cache_open(at_home, &of_cache, &cache) == 0);
    CHECK(netmem_object_alloc(at_home, cache, &object, 1) == 1 && netmem_packet_alloc(at_home, of_home, frames, packets, 2) == 2);
    CHECK(netmem_object_detach(at_home, &object, 1) == 1 && netmem_packet_detach(at_home, packets, 2) == 2);
    CHECK(netmem_object_attach(abroad, &object, 1) == 1 && netmem_packet_attach(abroad, packets, 2) == 2);
    CHECK(netmem_object_size(abroad, object) >= 100 && netmem_object_free(abroad, &object, 1) == 0);
    CHECK(netmem_packet_into_frames(abroad, packets, &frame, 1) == 1 && netmem_free(abroad, &frame, 1) == 0);
    CHECK(netmem_packet_free(abroad, packets + 1, 1) == 0 && netmem_worker_held(abroad) == 0);
    CHECK(netmem_cache_close(cache) == 0 && netmem_heads_close(of_home) == 0 && netmem_pool_close(frames, 1000) == 0);
    CHECK(netmem_worker_close(at_home) == 0 && netmem_memory_close(home, 1000) == 0);
    CHECK(netmem_worker_close(abroad) == 0 && netmem_memory_close(away, 1000) == 0);
}

/* Arrays that are NULL and are said to have room. */
static void null_arrays(void)
{
    netmem_packet packet = a_packet("1");
    netmem_port port;
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    CHECK(netmem_misuses(NULL, 8) == -EFAULT && netmem_pool_counts(pool, NULL, 8) == -EFAULT);
    CHECK(netmem_pool_holders(pool, NULL, 8) == -EFAULT && netmem_port_counts(worker, port, NULL, 8) == -EFAULT);
    CHECK(netmem_packet_parts(worker, packet, NULL, 8) == -EFAULT && netmem_heads_counts(heads, NULL, 8) == -EFAULT);
    CHECK(netmem_page_alloc(worker, 11, NULL, 0) == -EINVAL && netmem_packet_parts(worker, packet, NULL, 0) == 1);
    CHECK(netmem_misuses(NULL, 0) > 0 && netmem_last_errno() == EINVAL);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0 && netmem_port_close(worker, port) == 0);
}

/* Pages that the process has in memory. */
static long pages_there(void)
{
    long size = 0, there = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fscanf(statm, "%ld %ld", &size, &there) == 2 && fclose(statm) == 0);
    return there;
}

/* Seen: a stock had its whole table of addresses in memory before it had an object. */
static void a_large_stock(void)
{
    static char object[96];
    void *one = object;
    netmem_stock stock;
    netmem_stock_config config;
    memset(&config, 0, sizeof config);
    config.name = "large";
    config.objects = 1 << 26;
    long before = pages_there();
    CHECK(netmem_stock_open(&config, &stock) == 0 && pages_there() - before < 4096);
    CHECK(netmem_stock_add(stock, &one, 1) == 0 && netmem_stock_give(stock, &one, 1, NULL) == 0 && netmem_stock_count(stock) == 1);
    CHECK(netmem_stock_close(stock) == 0);
}

/* A capture of three packets. */
static const char *capture;

/* Packets that wait in a port because the memory has no page for a head. */
static void no_head_for_received(void)
{
    static netmem_page pages[5000];
    netmem_packet packets[4];
    netmem_port port;
    char text[512];
    snprintf(text, sizeof text, "pcap:in=%s", capture);
    CHECK(netmem_port_open(worker, pool, text, NULL, &port) == 0 && netmem_port_refill(worker, port, pool) > 0);
    int n = netmem_page_alloc(worker, 0, pages, 5000);
    CHECK(n > 0 && n < 5000 && netmem_page_alloc(worker, 11, pages + n, 1) == -EINVAL);
    CHECK(netmem_port_kick(worker, port) == 0);
    CHECK(netmem_port_rx_packets(worker, port, heads, packets, 4) == 0);
    CHECK(netmem_last_errno() == ENOMEM && text_has("netmem_port_rx_packets: the memory has no more for heads"));
    CHECK(netmem_page_free(worker, pages, (uint32_t)n) == 0 && netmem_page_alloc(worker, 11, pages, 1) == -EINVAL);
    CHECK(netmem_port_rx_packets(worker, port, heads, packets, 4) == 3 && netmem_last_errno() == EINVAL);
    CHECK(netmem_packet_free(worker, packets, 3) == 0 && netmem_port_close(worker, port) == 0);
}

/* Calls that give out fewer handles because there is no address space for the table of handles. */
static void no_memory_for_handles(void)
{
    static netmem_shared claims[1u << 20];
    char text[512];
    netmem_port port;
    netmem_packet received[4];
    netmem_worker second, third;
    netmem_lane lane;
    netmem_packet packet = a_packet("waits"), got;
    netmem_frame frame = one(), other = one();
    netmem_shared shared;
    int said = 0;
    uint32_t n = 0;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_lane_open(worker, 64, &lane) == 0 && netmem_lane_join(second, lane) == 0);
    CHECK(netmem_lane_send_packets(worker, lane, &packet, 1) == 1 && netmem_share(worker, &frame, claims, 1) == 1);
    snprintf(text, sizeof text, "pcap:in=%s", capture);
    CHECK(netmem_port_open(worker, pool, text, NULL, &port) == 0 && netmem_port_refill(worker, port, pool) > 0);
    CHECK(netmem_port_kick(worker, port) == 0 && netmem_worker_open(memory, &third) == 0);
    leave(4096);
    while ((said = netmem_shared_clone(worker, claims[0], &claims[n + 1])) == 0)
        CHECK(++n < (1u << 20) - 1);
    CHECK(said == -ENOMEM && netmem_page_alloc(worker, 11, NULL, 0) == -EINVAL);
    CHECK(netmem_share(worker, &other, &shared, 1) == 0 && netmem_last_errno() == ENOMEM && text_has("netmem_share: there is no memory for handles"));
    CHECK(netmem_page_alloc(worker, 11, NULL, 0) == -EINVAL);
    CHECK(netmem_lane_receive_packets(second, lane, &got, 1) == 0 && netmem_last_errno() == ENOMEM);
    CHECK(text_has("netmem_lane_receive_packets: there is no memory for handles"));
    CHECK(netmem_port_rx_packets(worker, port, heads, received, 4) == 0 && netmem_last_errno() == ENOMEM);
    CHECK(text_has("netmem_port_rx_packets: there is no memory for handles"));
    /* Ten are free again. */
    CHECK(netmem_shared_detach(worker, claims + n - 9, 10) == 10 && netmem_shared_attach(third, claims + n - 9, 10) == 10);
    CHECK(netmem_shared_free(third, claims + n - 9, 10) == 0 && netmem_worker_close(third) == 0);
    n -= 10;
    CHECK(netmem_share(worker, &other, &shared, 1) == 1 && netmem_shared_free(worker, &shared, 1) == 0);
    other = one();
    leave(0);
    CHECK(netmem_port_rx_packets(worker, port, heads, received, 4) == 3 && netmem_packet_free(worker, received, 3) == 0);
    CHECK(netmem_port_close(worker, port) == 0);
    CHECK(netmem_lane_receive_packets(second, lane, &got, 1) == 1 && netmem_packet_free(second, &got, 1) == 0);
    CHECK(netmem_shared_free(worker, claims, n + 1) == 0 && netmem_free(worker, &other, 1) == 0);
    CHECK(netmem_lane_close(worker, lane) == 0 && netmem_lane_close(second, lane) == 0 && netmem_worker_close(second) == 0);
}

/* The first pool of the process takes 8 GiB of addresses, beside those of the memory. */
static void table_of_a_first_pool(void)
{
    netmem_memory_config config;
    memset(&config, 0, sizeof config);
    config.bytes = 2u << 20;
    leave(6ull << 30);
    CHECK(netmem_memory_open(&config, &memory) == 0 && netmem_worker_open(memory, &worker) == 0);
    CHECK(netmem_pool_open(worker, NULL, &pool) == -ENOMEM && text_has("the first pool takes 8 GiB of addresses") && text_has("ulimit -v"));
    leave(0);
    CHECK(netmem_pool_open(worker, NULL, &pool) == 0);
}

/* Calls of a thread with the stack that netmem.h asks for: those that take most of it. */
static void *on_a_small_stack(void *unused)
{
    netmem_worker own;
    netmem_lane lane;
    netmem_port port;
    netmem_frame frames[64];
    CHECK(netmem_worker_open(memory, &own) == 0 && netmem_lane_open(own, 64, &lane) == 0 && netmem_lane_join(own, lane) == 0);
    CHECK(netmem_alloc(own, pool, frames, 64) == 64 && netmem_free(own, frames, 64) == 0 && netmem_free(own, frames, 64) == -ESTALE);
    CHECK(netmem_trace(1) == 0 && netmem_free(own, frames, 64) == -ESTALE && netmem_trace(0) == 0);
    CHECK(netmem_port_open(own, pool, "xdp:nosuch0", NULL, &port) == -ENOENT && netmem_port_open(own, pool, "%s", NULL, &port) == -EINVAL);
    CHECK(netmem_port_open(own, pool, "memif:@netmem-limits", NULL, &port) == 0 && netmem_port_kick(own, port) == 0);
    CHECK(netmem_port_close(own, port) == 0 && netmem_port_open(own, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    CHECK(netmem_port_close(own, port) == 0 && netmem_lane_close(own, lane) == 0 && netmem_worker_close(own) == 0);
    return unused;
}

static void small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 64u << 10) == 0);
    CHECK(pthread_create(&thread, &attributes, on_a_small_stack, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(misuses("freed_twice") == 128 && pthread_attr_destroy(&attributes) == 0);
}

static void open_nothing(void)
{
}

int main(int argc, char **argv)
{
    static const struct test_case ALL[] = {{"memory", memory_runs_out}, {"address space", address_space_runs_out}, {"memories", memories}, {"stocks", stocks},
               {"bursts", refused_bursts}, {"reserved", reserved_fields}, {"closed", closed_cache}, {"errno", last_errno},
               {"merge", no_merge}, {"used up", a_memory_used_up}, {"detached", lost_detached}, {"still out", still_out}, {"ranges", ranges}, {"waited for", waited_for}, {"shared elsewhere", shared_elsewhere},
               {"freed elsewhere", freed_elsewhere}, {"NULL", null_arrays}, {"large stock", a_large_stock},
               {"no head", no_head_for_received}, {"handles", no_memory_for_handles}, {"stack", small_stack}};
    static const struct test_case FIRST[] = {{"first pool", table_of_a_first_pool}};
    CHECK(argc >= 2 && netmem_last_errno() == 0 && netmem_set_policy(NETMEM_COUNT) == 0);
    capture = argc > 2 ? argv[2] : NULL;
    if (strcmp(argv[1], FIRST[0].name) == 0)
        return run_case(FIRST, 1, argv[1], open_nothing, close_all);
    return run_case(ALL, sizeof ALL / sizeof *ALL, argv[1], open_heads, close_heads);
}
