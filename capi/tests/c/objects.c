/* Objects, bytes of size classes and pages: what they are for, and every kind of misuse of them, planted once. */
#include "first.h"
#include <pthread.h>

#define MANY 200

static netmem_cache cache;
static netmem_sizes sizes;

static void open_caches(void)
{
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.name = "sessions";
    config.size = 100;
    config.align = 64;
    open_all();
    CHECK(netmem_cache_open(worker, &config, &cache) == 0 && netmem_sizes_open(worker, "bytes", &sizes) == 0);
}

static void close_caches(void)
{
    CHECK(netmem_cache_close(cache) == 0 && netmem_sizes_close(sizes) == 0);
    close_all();
}

static netmem_object an_object(void)
{
    netmem_object object;
    CHECK(netmem_object_alloc(worker, cache, &object, 1) == 1);
    return object;
}

static netmem_object some_bytes(void)
{
    netmem_object object;
    CHECK(netmem_sizes_alloc(worker, sizes, 300, &object) == 0);
    return object;
}

static netmem_page a_page(void)
{
    netmem_page page;
    CHECK(netmem_page_alloc(worker, 1, &page, 1) == 1);
    return page;
}

/* Each plants one misuse in a fresh state and returns what the call said. */
static int object_freed_twice(void)
{
    netmem_object object = an_object();
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return netmem_object_free(worker, &object, 1);
}

static int object_freed_twice_in_one_call(void)
{
    netmem_object object = an_object(), twice[3] = {object, an_object(), object};
    return netmem_object_free(worker, twice, 3);
}

static int bytes_freed_twice(void)
{
    netmem_object object = some_bytes();
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return netmem_object_free(worker, &object, 1);
}

static int page_freed_twice(void)
{
    netmem_page page = a_page();
    CHECK(netmem_page_free(worker, &page, 1) == 0);
    return netmem_page_free(worker, &page, 1);
}

static int page_freed_twice_in_one_call(void)
{
    netmem_page page = a_page(), twice[3] = {page, a_page(), page};
    return netmem_page_free(worker, twice, 3);
}

static int object_read_after_free(void)
{
    netmem_object object = an_object();
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    CHECK(netmem_object_data(worker, object) == NULL);
    return 0;
}

static int size_of_bytes_after_free(void)
{
    netmem_object object = some_bytes();
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return netmem_object_size(worker, object);
}

static int page_read_after_free(void)
{
    netmem_page page = a_page();
    CHECK(netmem_page_free(worker, &page, 1) == 0);
    CHECK(netmem_page_data(worker, page) == NULL);
    return 0;
}

static int object_detached_after_free(void)
{
    netmem_object object = an_object();
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return netmem_object_detach(worker, &object, 1);
}

static int object_freed_after_its_place_was_given_out_again(void)
{
    netmem_object old = an_object();
    CHECK(netmem_object_free(worker, &old, 1) == 0);
    netmem_object again = an_object();
    CHECK((uint32_t)old.word == (uint32_t)again.word && old.word != again.word);
    int said = netmem_object_free(worker, &old, 1);
    CHECK(netmem_object_size(worker, again) == 100 && netmem_object_free(worker, &again, 1) == 0);
    return said;
}

static int object_whose_place_is_a_page_now(void)
{
    netmem_object old = an_object();
    CHECK(netmem_object_free(worker, &old, 1) == 0);
    netmem_page page = a_page();
    CHECK((uint32_t)old.word << 2 == (uint32_t)page.word << 2);
    int said = netmem_object_free(worker, &old, 1);
    CHECK(netmem_page_size(worker, page) == 8192 && netmem_page_free(worker, &page, 1) == 0);
    return said;
}

static int page_as_an_object(void)
{
    netmem_page page = a_page();
    netmem_object object = {page.word};
    int said = netmem_object_free(worker, &object, 1);
    CHECK(netmem_page_free(worker, &page, 1) == 0);
    return said;
}

static int frame_as_a_page(void)
{
    netmem_frame frame = one();
    netmem_page page = {frame.word};
    int said = netmem_page_free(worker, &page, 1);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int object_as_a_frame(void)
{
    netmem_object object = an_object();
    netmem_frame frame = {object.word};
    int said = netmem_free(worker, &frame, 1);
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return said;
}

static int made_up_object(void)
{
    netmem_object object = {0x0123456745abcdef};
    return netmem_object_free(worker, &object, 1);
}

static int made_up_page(void)
{
    netmem_page page = {0x0123456785abcdef};
    return netmem_page_free(worker, &page, 1);
}

/* The word of an object with the kind of a page. */
static int made_up_page_in_the_place_of_an_object(void)
{
    netmem_object object = an_object();
    netmem_page page = {object.word ^ UINT64_C(6) << 29};
    int said = netmem_page_size(worker, page);
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return said;
}

static int no_object_at_all(void)
{
    netmem_object object = {0};
    return netmem_object_size(worker, object);
}

static int object_of_the_use_to_come(void)
{
    netmem_object object = an_object(), next = {object.word + (1ull << 39)};
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return netmem_object_free(worker, &next, 1);
}

static int freed_to_another_cache(void)
{
    netmem_cache other;
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.size = 100;
    CHECK(netmem_cache_open(worker, &config, &other) == 0);
    netmem_object object = an_object();
    int said = netmem_cache_free(worker, other, &object, 1);
    CHECK(netmem_cache_free(worker, cache, &object, 1) == 0 && netmem_cache_close(other) == 0);
    return said;
}

static int allocated_from_a_closed_cache(void)
{
    netmem_cache other;
    netmem_cache_config config;
    memset(&config, 0, sizeof config);
    config.size = 8;
    netmem_object object;
    CHECK(netmem_cache_open(worker, &config, &other) == 0 && netmem_cache_close(other) == 0);
    return netmem_object_alloc(worker, other, &object, 1);
}

static int allocated_from_closed_sizes(void)
{
    netmem_sizes other;
    netmem_object object;
    CHECK(netmem_sizes_open(worker, NULL, &other) == 0 && netmem_sizes_close(other) == 0);
    return netmem_sizes_alloc(worker, other, 10, &object);
}

/* Words of a cache and of size classes are of one table. Each is taken for the other here. */
static int size_classes_closed_as_a_cache(void)
{
    return netmem_cache_close((netmem_cache){sizes.word});
}

static int a_cache_closed_as_size_classes(void)
{
    return netmem_sizes_close((netmem_sizes){cache.word});
}

static int size_classes_shrunk_as_a_cache(void)
{
    return netmem_cache_shrink((netmem_cache){sizes.word});
}

static int a_cache_shrunk_as_size_classes(void)
{
    return netmem_sizes_shrink((netmem_sizes){cache.word});
}

static int holders_of_size_classes_as_of_a_cache(void)
{
    return netmem_cache_holders((netmem_cache){sizes.word}, NULL, 0);
}

static int counts_of_size_classes_as_of_a_cache(void)
{
    return netmem_cache_counts((netmem_cache){sizes.word}, NULL, 0);
}

static int holders_of_a_cache_as_of_size_classes(void)
{
    return netmem_sizes_holders((netmem_sizes){cache.word}, NULL, 0);
}

static int counts_of_a_cache_as_of_size_classes(void)
{
    return netmem_sizes_counts((netmem_sizes){cache.word}, NULL, 0);
}

static int bytes_freed_to_size_classes_as_to_a_cache(void)
{
    netmem_object object = some_bytes();
    int said = netmem_cache_free(worker, (netmem_cache){sizes.word}, &object, 1);
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return said;
}

static int from_a_cache_of_another_memory(void)
{
    netmem_memory memory2;
    netmem_worker worker2;
    netmem_object object;
    CHECK(netmem_memory_open(NULL, &memory2) == 0 && netmem_worker_open(memory2, &worker2) == 0);
    int said = netmem_object_alloc(worker2, cache, &object, 1);
    CHECK(netmem_worker_close(worker2) == 0 && netmem_memory_close(memory2, 1000) == 0);
    return said;
}

static int used_by_another_worker(void)
{
    netmem_worker second;
    netmem_object object = an_object();
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_object_free(second, &object, 1);
    CHECK(netmem_worker_close(second) == 0 && netmem_object_free(worker, &object, 1) == 0);
    return said;
}

static int page_used_while_detached(void)
{
    netmem_page page = a_page();
    CHECK(netmem_page_detach(worker, &page, 1) == 1);
    int said = netmem_page_size(worker, page);
    CHECK(netmem_page_attach(worker, &page, 1) == 1 && netmem_page_free(worker, &page, 1) == 0);
    return said;
}

static int object_attached_twice(void)
{
    netmem_object object = an_object();
    CHECK(netmem_object_detach(worker, &object, 1) == 1);
    netmem_object again = object;
    CHECK(netmem_object_attach(worker, &object, 1) == 1);
    int said = netmem_object_attach(worker, &again, 1);
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return said;
}

static void *free_elsewhere(void *object)
{
    netmem_object *at = (netmem_object *)object;
    at->word = (uint64_t)-netmem_object_free(worker, at, 1);
    return NULL;
}

static int by_another_thread(void)
{
    pthread_t thread;
    netmem_object object = an_object(), there = object;
    CHECK(pthread_create(&thread, NULL, free_elsewhere, &there) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(netmem_object_free(worker, &object, 1) == 0);
    return -(int)there.word;
}

/* An object and a page that were reclaimed are their program's no longer. */
static int kept_over_a_reclaim(void)
{
    netmem_object object = an_object();
    a_page();
    some_bytes();
    CHECK(netmem_worker_held(worker) == 3 && netmem_worker_reclaim(worker) == 3);
    return netmem_object_size(worker, object);
}

static int kept_over_a_close(void)
{
    netmem_page page = a_page();
    CHECK(netmem_page_free(worker, &page, 1) == 0);
    close_caches();
    open_caches();
    return netmem_page_size(worker, page);
}

static const struct {
    const char *name;
    int (*plant)(void);
    int says;
    const char *kind;
} CASES[] = {
#define CASE(plant, says, kind) {#plant, plant, says, kind}
    CASE(object_freed_twice, -ESTALE, "freed_twice"),
    CASE(object_freed_twice_in_one_call, -ESTALE, "freed_twice"),
    CASE(bytes_freed_twice, -ESTALE, "freed_twice"),
    CASE(page_freed_twice, -ESTALE, "freed_twice"),
    CASE(page_freed_twice_in_one_call, -ESTALE, "freed_twice"),
    CASE(object_read_after_free, 0, "used_after_free"),
    CASE(size_of_bytes_after_free, -ESTALE, "used_after_free"),
    CASE(page_read_after_free, 0, "used_after_free"),
    CASE(object_detached_after_free, -ESTALE, "used_after_free"),
    CASE(object_freed_after_its_place_was_given_out_again, -ESTALE, "stale"),
    CASE(object_whose_place_is_a_page_now, -ESTALE, "stale"),
    CASE(page_as_an_object, -EBADF, "made_up"),
    CASE(frame_as_a_page, -EBADF, "made_up"),
    CASE(object_as_a_frame, -EBADF, "made_up"),
    CASE(made_up_object, -EBADF, "made_up"),
    CASE(made_up_page, -EBADF, "made_up"),
    CASE(made_up_page_in_the_place_of_an_object, -EBADF, "made_up"),
    CASE(no_object_at_all, -EBADF, "made_up"),
    CASE(object_of_the_use_to_come, -EBADF, "made_up"),
    CASE(freed_to_another_cache, -EXDEV, "wrong_cache"),
    CASE(allocated_from_a_closed_cache, -ESTALE, "closed"),
    CASE(allocated_from_closed_sizes, -ESTALE, "closed"),
    CASE(size_classes_closed_as_a_cache, -ESTALE, "closed"),
    CASE(a_cache_closed_as_size_classes, -ESTALE, "closed"),
    CASE(size_classes_shrunk_as_a_cache, -ESTALE, "closed"),
    CASE(a_cache_shrunk_as_size_classes, -ESTALE, "closed"),
    CASE(holders_of_size_classes_as_of_a_cache, -ESTALE, "closed"),
    CASE(counts_of_size_classes_as_of_a_cache, -ESTALE, "closed"),
    CASE(holders_of_a_cache_as_of_size_classes, -ESTALE, "closed"),
    CASE(counts_of_a_cache_as_of_size_classes, -ESTALE, "closed"),
    CASE(bytes_freed_to_size_classes_as_to_a_cache, -ESTALE, "closed"),
    CASE(from_a_cache_of_another_memory, -EXDEV, "wrong_memory"),
    CASE(used_by_another_worker, -EPERM, "wrong_worker"),
    CASE(page_used_while_detached, -EPERM, "detached"),
    CASE(object_attached_twice, -ESTALE, "stale"),
    CASE(by_another_thread, -EPERM, "wrong_thread"),
    CASE(kept_over_a_reclaim, -ESTALE, "used_after_free"),
    CASE(kept_over_a_close, -ESTALE, "used_after_free"),
};

/* What is allocated is apart from all else, aligned, as large as is said, and keeps what is written. */
static void each_has_its_own_bytes(void)
{
    netmem_object objects[MANY];
    netmem_page pages[MANY];
    CHECK(netmem_object_alloc(worker, cache, objects, MANY) == MANY && netmem_page_alloc(worker, 0, pages, MANY) == MANY);
    CHECK(netmem_worker_held(worker) == 2 * MANY && netmem_cache_close(cache) == -EBUSY);
    for (int i = 0; i < MANY; i++) {
        CHECK((uintptr_t)netmem_object_data(worker, objects[i]) % 64 == 0);
        memset(netmem_object_data(worker, objects[i]), i, 100);
        CHECK(netmem_page_size(worker, pages[i]) == 4096);
        memset(netmem_page_data(worker, pages[i]), i, 4096);
    }
    for (int i = 0; i < MANY; i++) {
        const unsigned char *object = (const unsigned char *)netmem_object_data(worker, objects[i]);
        const unsigned char *page = (const unsigned char *)netmem_page_data(worker, pages[i]);
        CHECK(object[0] == i && object[99] == i && page[0] == i && page[4095] == i);
    }
    CHECK(netmem_object_free(worker, objects, MANY) == 0 && netmem_page_free(worker, pages, MANY) == 0);
    for (size_t bytes = 0; bytes <= 4u << 20; bytes = 2 * bytes + 1) {
        netmem_object object;
        CHECK(netmem_sizes_alloc(worker, sizes, bytes, &object) == 0);
        CHECK((size_t)netmem_object_size(worker, object) >= bytes);
        memset(netmem_object_data(worker, object), 1, netmem_object_size(worker, object));
        CHECK(netmem_object_free(worker, &object, 1) == 0);
    }
    netmem_object none;
    CHECK(netmem_sizes_alloc(worker, sizes, (4u << 20) + 1, &none) == -ENOMEM);
    netmem_count counts[64];
    CHECK(netmem_cache_counts(cache, counts, 64) > 5);
}

/* Seen: they all lay at the address 0x10, had a size of 0, and a write there ended the program. */
static void objects_of_0_bytes_have_an_address_and_a_byte_each(void)
{
    netmem_object objects[3];
    char *bytes[3];
    for (int i = 0; i < 3; i++) {
        CHECK(netmem_sizes_alloc(worker, sizes, 0, &objects[i]) == 0 && netmem_object_size(worker, objects[i]) >= 1);
        bytes[i] = (char *)netmem_object_data(worker, objects[i]);
        *bytes[i] = (char)i;
    }
    CHECK(*bytes[0] == 0 && *bytes[1] == 1 && *bytes[2] == 2);
    CHECK(netmem_object_free(worker, objects, 3) == 0);
}

static void holders_are_named_by_place(void)
{
    netmem_object objects[3];
    netmem_holder holders[4];
    CHECK(netmem_trace(1) == 0);
    CHECK(netmem_object_alloc(worker, cache, objects, 2) == 2);
    CHECK(netmem_object_alloc(worker, cache, objects + 2, 1) == 1);
    CHECK(netmem_cache_holders(cache, holders, 4) == 2 && holders[0].frames == 2 && holders[1].frames == 1);
    CHECK(strstr(holders[0].site, "objects.c:"));
    CHECK(netmem_object_free(worker, objects, 3) == 0 && netmem_cache_holders(cache, holders, 4) == 0);
    CHECK(netmem_object_free(worker, objects, 1) == -ESTALE && strstr(netmem_last_error(), "last given back at"));
    CHECK(netmem_trace(0) == 0);
}

static uint64_t counted(const char *name)
{
    netmem_count counts[64];
    int n = netmem_sizes_counts(sizes, counts, 64);
    CHECK(n > 5 && n <= 64 && netmem_sizes_counts(sizes, NULL, 0) == n);
    for (int i = 0; i < n; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].value;
    return 0;
}

/* Of two classes: the counters are those of both, and each call site is listed. */
static void size_classes_have_counters_and_holders(void)
{
    netmem_object objects[3];
    netmem_holder holders[4];
    uint64_t before = counted("alloc_fastpath") + counted("alloc_slowpath");
    CHECK(netmem_trace(1) == 0 && netmem_sizes_holders(sizes, holders, 4) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(netmem_sizes_alloc(worker, sizes, 20, &objects[i]) == 0);
    CHECK(netmem_sizes_alloc(worker, sizes, 2000, &objects[2]) == 0);
    CHECK(counted("alloc_fastpath") + counted("alloc_slowpath") == before + 3);
    CHECK(netmem_sizes_holders(sizes, holders, 4) == 2 && holders[0].frames == 2 && holders[1].frames == 1);
    CHECK(strstr(holders[1].site, "objects.c:") && netmem_cache_holders(cache, holders, 4) == 0);
    CHECK(netmem_object_free(worker, objects, 3) == 0 && netmem_sizes_holders(sizes, holders, 4) == 0);
    CHECK(netmem_trace(0) == 0);
}

static netmem_object passed_object;
static netmem_page passed_page;

/* By a worker of its own. */
static void *take_over(void *unused)
{
    netmem_worker second;
    (void)unused;
    CHECK(netmem_worker_open(memory, &second) == 0);
    CHECK(netmem_object_attach(second, &passed_object, 1) == 1 && netmem_page_attach(second, &passed_page, 1) == 1);
    CHECK(strcmp((char *)netmem_object_data(second, passed_object), "passed") == 0);
    CHECK(netmem_page_size(second, passed_page) == 8192 && netmem_worker_held(second) == 2);
    CHECK(netmem_object_free(second, &passed_object, 1) == 0 && netmem_page_free(second, &passed_page, 1) == 0);
    CHECK(netmem_worker_close(second) == 0);
    return NULL;
}

static void what_is_detached_another_thread_attaches(void)
{
    pthread_t thread;
    passed_object = an_object();
    passed_page = a_page();
    strcpy((char *)netmem_object_data(worker, passed_object), "passed");
    CHECK(netmem_object_detach(worker, &passed_object, 1) == 1 && netmem_page_detach(worker, &passed_page, 1) == 1);
    CHECK(pthread_create(&thread, NULL, take_over, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

int main(void)
{
    int failed = 0;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_caches();
    each_has_its_own_bytes();
    objects_of_0_bytes_have_an_address_and_a_byte_each();
    holders_are_named_by_place();
    size_classes_have_counters_and_holders();
    what_is_detached_another_thread_attaches();
    CHECK(netmem_worker_held(worker) == 0);
    close_caches();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_caches();
        uint64_t all = all_misuses(), kind = misuses(CASES[i].kind);
        int said = CASES[i].plant();
        int seen = said == CASES[i].says && all_misuses() == all + 1 && misuses(CASES[i].kind) == kind + 1;
        if (!seen)
            printf("NOT FOUND: %s: %d, %s\n", CASES[i].name, said, netmem_last_error());
        failed += !seen;
        CHECK(netmem_worker_held(worker) == 0);
        close_caches();
    }
    printf("%zu kinds of misuse, %d not found\n", sizeof CASES / sizeof *CASES, failed);
    return failed != 0;
}
