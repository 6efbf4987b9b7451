/* Every call of the memory's part of netmem.h, used as it should be. Compiled as C11 and as C++17. */
#include "first.h"

static void single_frames(void)
{
    netmem_frame frame = one();
    char *data = (char *)netmem_put(worker, frame, 5);
    CHECK(data != NULL);
    memcpy(data, "hello", 5);
    CHECK(netmem_len(worker, frame) == 5 && memcmp(netmem_data(worker, frame), "hello", 5) == 0);
    CHECK(netmem_pull(worker, frame, 2) == data + 2 && netmem_len(worker, frame) == 3);
    CHECK(netmem_push(worker, frame, 3) == data - 1 && netmem_len(worker, frame) == 6);
    CHECK(netmem_trim(worker, frame, 4) == 0 && netmem_trim(worker, frame, 5) == -ENOBUFS);
    CHECK(netmem_put(worker, frame, 4000) == NULL && strstr(netmem_last_error(), "4000 bytes") != NULL);
    netmem_span span;
    CHECK(netmem_spans(worker, &frame, 1, &span) == 0);
    CHECK(span.data == data - 1 && span.len == 4 && span.headroom + span.len + span.tailroom == 2048);
    CHECK(netmem_free(worker, &frame, 1) == 0);
}

static void bursts(void)
{
    netmem_frame frames[100];
    CHECK(netmem_alloc(worker, pool, frames, 100) == 100 && netmem_worker_held(worker) == 100);
    CHECK(netmem_pool_free(worker, pool, frames, 60) == 0);
    CHECK(netmem_free(worker, frames + 60, 40) == 0 && netmem_worker_held(worker) == 0);
    CHECK(netmem_alloc(worker, pool, NULL, 0) == 0 && netmem_alloc(worker, pool, NULL, 1) == -EFAULT);
    CHECK(netmem_alloc(worker, pool, frames, 3) == 3 && netmem_worker_close(worker) == -EBUSY);
    CHECK(netmem_worker_reclaim(worker) == 3 && netmem_worker_held(worker) == 0);
}

static void bytes_for_a_burst(void)
{
    netmem_frame frames[100];
    uint32_t lens[100];
    void *to[100];
    CHECK(netmem_alloc(worker, pool, frames, 100) == 100);
    for (uint32_t i = 0; i < 100; i++)
        lens[i] = i == 70 ? 4000 : i == 80 ? 5000 : i;
    CHECK(netmem_put_each(worker, frames, lens, 100, to) == -ENOBUFS && netmem_last_errno() == ENOBUFS);
    CHECK(strstr(netmem_last_error(), "netmem_put_each: 4000 bytes") != NULL);
    for (uint32_t i = 0; i < 100; i++) {
        int is_refused = i == 70 || i == 80;
        CHECK(netmem_len(worker, frames[i]) == (is_refused ? 0 : (int)i) && to[i] == (is_refused ? NULL : netmem_data(worker, frames[i])));
    }
    lens[70] = lens[80] = 1;
    CHECK(netmem_put_each(worker, frames, lens, 100, to) == 0);
    for (uint32_t i = 0; i < 100; i++)
        CHECK((char *)to[i] == (char *)netmem_data(worker, frames[i]) + (i == 70 || i == 80 ? 0 : i));
    CHECK(netmem_put_each(worker, NULL, NULL, 0, NULL) == 0 && netmem_free(worker, frames, 100) == 0);
}

static void raw_frames(void)
{
    netmem_raw frames[70];
    CHECK(netmem_raw_alloc(worker, pool, frames, 70) == 70);
    void *tail = netmem_raw_put(&frames[0], 9);
    CHECK(tail != NULL && tail == netmem_raw_data(frames[0]) && frames[0].word >> 48 == 9);
    CHECK(netmem_raw_put(&frames[0], 4000) == NULL && netmem_last_errno() == ENOBUFS);
    char *data = (char *)tail;
    CHECK(netmem_raw_pull(&frames[0], 2) == data + 2 && frames[0].word >> 48 == 7);
    CHECK(netmem_raw_push(&frames[0], 3) == data - 1 && frames[0].word >> 48 == 10);
    CHECK(netmem_raw_trim(&frames[0], 4) == 0 && netmem_raw_trim(&frames[0], 5) == -ENOBUFS);
    CHECK(netmem_raw_data(frames[0]) == data - 1 && frames[0].word >> 48 == 4);
    CHECK(netmem_raw_trim(NULL, 0) == -EFAULT && netmem_raw_pull(NULL, 1) == NULL);
    CHECK(netmem_raw_free(worker, frames, 70) == 0);
}

/* How many of these frames are others than those before them, and empty. */
static uint32_t distinct(const netmem_raw *frames, uint32_t n)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while ((uint32_t)frames[j].word != (uint32_t)frames[i].word)
            j++;
        found += j == i && frames[i].word >> 48 == 0;
    }
    return found;
}

/* Bursts of every length go home to the pool that is named, by the worker that owns it and by another. */
static void raw_frames_to_their_pool(void)
{
    netmem_raw frames[600];
    netmem_worker second;
    CHECK(netmem_worker_open(memory, &second) == 0);
    for (uint32_t n = 1; n <= 70; n++) {
        CHECK(netmem_raw_alloc(worker, pool, frames, n) == (int)n && distinct(frames, n) == n);
        for (uint32_t i = 0; i < n; i++)
            memset(netmem_raw_put(&frames[i], 1 + i), (int)n, 1 + i);
        CHECK(netmem_raw_pool_free(n % 10 ? worker : second, pool, frames, n) == 0);
    }
    /* More than the pool's cache has room for. */
    CHECK(netmem_raw_alloc(worker, pool, frames, 600) == 600 && distinct(frames, 600) == 600);
    CHECK(netmem_raw_pool_free(worker, pool, frames, 600) == 0);
    CHECK(netmem_raw_pool_free(worker, pool, NULL, 0) == 0 && netmem_raw_pool_free(worker, pool, NULL, 1) == -EFAULT);
    CHECK(netmem_trace(1) == 0 && netmem_raw_alloc(worker, pool, frames, 9) == 9);
    CHECK(netmem_raw_pool_free(worker, pool, frames, 8) == 0 && netmem_raw_pool_free(worker, pool, frames + 8, 1) == 0);
    CHECK(netmem_trace(0) == 0 && netmem_worker_close(second) == 0);
    check_home();
}

/* The frames stay the same, with their data. Only the owned ones that have handles count as held. */
static void raw_frames_become_frames_and_frames_raw(void)
{
    netmem_raw raw[70];
    netmem_frame frames[70];
    netmem_holder holders[4];
    CHECK(netmem_raw_alloc(worker, pool, raw, 70) == 70);
    for (uint32_t i = 0; i < 70; i++)
        memcpy(netmem_raw_put(&raw[i], sizeof i), &i, sizeof i);
    CHECK(netmem_raw_into_frames(worker, raw, frames, 70) == 70 && netmem_worker_held(worker) == 70);
    for (uint32_t i = 0; i < 70; i++)
        CHECK(netmem_len(worker, frames[i]) == sizeof i && memcmp(netmem_data(worker, frames[i]), &i, sizeof i) == 0);
    CHECK(netmem_pull(worker, frames[9], 1) != NULL);
    memset(raw, 0, sizeof raw);
    CHECK(netmem_raw_from_frames(worker, frames, raw, 70) == 70 && netmem_worker_held(worker) == 0);
    for (uint32_t i = 0; i < 70; i++)
        CHECK(raw[i].word >> 48 == (i == 9 ? 3 : 4) && (i == 9 || memcmp(netmem_raw_data(raw[i]), &i, sizeof i) == 0));
    /* What was allocated without a call site has that of the call that made it a frame. */
    CHECK(netmem_trace(1) == 0 && netmem_raw_into_frames(worker, raw, frames, 2) == 2);
    CHECK(netmem_pool_holders(pool, holders, 4) == 1 && holders[0].frames == 2 && strstr(holders[0].site, "uses.c:") != NULL);
    CHECK(netmem_raw_from_frames(worker, frames, raw, 2) == 2 && netmem_pool_holders(pool, holders, 4) == 0);
    CHECK(netmem_trace(0) == 0 && netmem_raw_free(worker, raw, 70) == 0);
    CHECK(netmem_raw_into_frames(worker, NULL, frames, 0) == 0 && netmem_raw_from_frames(worker, frames, NULL, 1) == -EFAULT);
    check_home();
}

static void holders(void)
{
    netmem_holder holders[4];
    netmem_frame frames[3];
    CHECK(netmem_trace(1) == 0);
    CHECK(netmem_alloc(worker, pool, frames, 2) == 2); CHECK(netmem_alloc(worker, pool, frames + 2, 1) == 1);
    CHECK(netmem_pool_holders(pool, holders, 4) >= 1);
    CHECK(strstr(holders[0].site, "uses.c:") != NULL && holders[0].frames >= 2);
    CHECK(netmem_free(worker, frames, 3) == 0 && netmem_pool_holders(pool, holders, 4) == 0);
    CHECK(netmem_trace(0) == 0);
}

static void counters(void)
{
    netmem_count counts[32];
    int n = netmem_pool_counts(pool, counts, 32);
    CHECK(n > 5 && n <= 32 && strcmp(counts[0].name, "alloc_fast") == 0 && counts[0].value > 0);
    CHECK(netmem_pool_counts(pool, NULL, 0) == n);
}

/* Memory of the caller's own, which it has again when it was closed. */
static void lent_memory(void)
{
    size_t bytes = 4u << 20;
    void *base = aligned_alloc(4096, bytes);
    netmem_memory lent;
    netmem_worker own;
    netmem_pool few;
    netmem_frame frame;
    CHECK(base != NULL && netmem_memory_lend(base, bytes, NULL, &lent) == 0);
    CHECK(netmem_worker_open(lent, &own) == 0 && netmem_pool_open(own, NULL, &few) == 0);
    CHECK(netmem_alloc(own, few, &frame, 1) == 1);
    char *data = (char *)netmem_data(own, frame);
    CHECK(data >= (char *)base && data < (char *)base + bytes);
    CHECK(netmem_memory_close(lent, 0) == -EBUSY && netmem_pool_close(few, 0) == -ETIMEDOUT);
    CHECK(netmem_free(own, &frame, 1) == 0 && netmem_pool_close(few, 1000) == 0);
    CHECK(netmem_worker_close(own) == 0 && netmem_memory_close(lent, 1000) == 0);
    memset(base, 1, bytes);
    free(base);
}

static void memory_in_a_file(void)
{
    netmem_memory_config config;
    netmem_memory shared;
    memset(&config, 0, sizeof config);
    config.bytes = 4u << 20;
    config.in_file = 1;
    CHECK(netmem_memory_fd(memory) == -EINVAL);
    CHECK(netmem_memory_open(&config, &shared) == 0 && netmem_memory_fd(shared) >= 0);
    CHECK(netmem_memory_close(shared, 1000) == 0);
}

int main(void)
{
    CHECK(strchr(netmem_version(), '.') != NULL);
    open_all();
    single_frames();
    bursts();
    bytes_for_a_burst();
    raw_frames();
    raw_frames_to_their_pool();
    raw_frames_become_frames_and_frames_raw();
    holders();
    counters();
    lent_memory();
    memory_in_a_file();
    check_home();
    close_all();
    CHECK(all_misuses() == 0);
    puts("all as it should be");
    return 0;
}
