// The timed loops of the allocators that netmem is measured beside. Each loop lies here as a whole, with direct
// calls of the allocator inside, so that no operation crosses the border between two languages.

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As the crates tikv-jemalloc-sys and snmalloc-sys name them.
void *_rjem_malloc(size_t bytes);
void _rjem_free(void *block);
int _rjem_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
void *sn_malloc(size_t bytes);
void sn_free(void *block);

// The compiler must believe that the block is used: else it drops malloc and free as a pair.
#define KEEP(block) __asm__ volatile("" : "+r"(block) : : "memory")

// Bytes written into a block that is touched: one cache line.
#define LINE 64

// With a constant length, as netmem and DPDK write it: four stores in line, where a length that is known at run time only
// would be a call.
static inline void touch_line(void *block, size_t bytes) {
    if (bytes >= LINE)
        memset(block, 0xa5, LINE);
    else
        memset(block, 0xa5, bytes);
}

// One allocator. Blocks have at least 8 bytes.
struct rival {
    const char *name;
    // What to install where it is missing; NULL if it is built in.
    const char *package;
    // NULL if it is missing.
    const char *(*version)(void);
    // One block out and back, `ops` times. Returns how many were refused.
    uint64_t (*single)(size_t bytes, int touched, uint64_t ops);
    // `count` blocks out before the first goes back, oldest first, until `ops` blocks went round; `held` has room for
    // `count`. Returns how many were refused.
    uint64_t (*bulk)(void **held, size_t count, size_t bytes, int touched, uint64_t ops);
    // `count` blocks out into `held`; if touched, the first line of each is written, a number first, from `next` on.
    // Returns how many came.
    size_t (*take)(void **held, size_t count, size_t bytes, int touched, uint64_t next);
    // `count` blocks back; if touched, their numbers are read, which must begin at `next`. Returns how many did not.
    uint64_t (*give)(void **held, size_t count, int touched, uint64_t next);
};

// Defines the loops of one allocator.
#define LOOPS(name, allocate, release)                                                                             \
    static uint64_t name##_single(size_t bytes, int touched, uint64_t ops) {                                       \
        uint64_t refused = 0;                                                                                      \
        for (uint64_t i = 0; i < ops; i++) {                                                                       \
            void *block = allocate(bytes);                                                                         \
            refused += block == NULL;                                                                              \
            if (touched && block != NULL)                                                                          \
                touch_line(block, bytes);                                                                          \
            KEEP(block);                                                                                           \
            release(block);                                                                                        \
        }                                                                                                          \
        return refused;                                                                                            \
    }                                                                                                              \
                                                                                                                   \
    static uint64_t name##_bulk(void **held, size_t count, size_t bytes, int touched, uint64_t ops) {              \
        uint64_t refused = 0;                                                                                      \
        for (uint64_t left = ops; left > 0 && count > 0;) {                                                        \
            size_t part = left < count ? left : count;                                                             \
            for (size_t i = 0; i < part; i++) {                                                                    \
                held[i] = allocate(bytes);                                                                         \
                refused += held[i] == NULL;                                                                        \
                if (touched && held[i] != NULL)                                                                    \
                    touch_line(held[i], bytes);                                                                    \
            }                                                                                                      \
            KEEP(held);                                                                                            \
            for (size_t i = 0; i < part; i++)                                                                      \
                release(held[i]);                                                                                  \
            left -= part;                                                                                          \
        }                                                                                                          \
        return refused;                                                                                            \
    }                                                                                                              \
                                                                                                                   \
    static size_t name##_take(void **held, size_t count, size_t bytes, int touched, uint64_t next) {               \
        for (size_t i = 0; i < count; i++) {                                                                       \
            uint64_t *block = allocate(bytes);                                                                     \
            if (block == NULL)                                                                                     \
                return i;                                                                                          \
            if (touched) {                                                                                         \
                touch_line(block, bytes);                                                                          \
                block[0] = next + i;                                                                               \
            }                                                                                                      \
            held[i] = block;                                                                                       \
        }                                                                                                          \
        return count;                                                                                              \
    }                                                                                                              \
                                                                                                                   \
    static uint64_t name##_give(void **held, size_t count, int touched, uint64_t next) {                           \
        uint64_t wrong = 0;                                                                                        \
        for (size_t i = 0; i < count; i++) {                                                                       \
            if (touched)                                                                                           \
                wrong += *(uint64_t *)held[i] != next + i;                                                         \
            release(held[i]);                                                                                      \
        }                                                                                                          \
        return wrong;                                                                                              \
    }

#define RIVAL(name, package)                                                                                       \
    {#name, package, name##_version, name##_single, name##_bulk, name##_take, name##_give}

LOOPS(glibc, malloc, free)
LOOPS(jemalloc, _rjem_malloc, _rjem_free)
LOOPS(mimalloc, mi_malloc, mi_free)
LOOPS(snmalloc, sn_malloc, sn_free)

// tcmalloc would be the malloc of a process that is linked with it. Opened by name, with its symbols kept apart, it is
// one allocator among others; a call through a pointer is what a linked library's call would be too.
static void *(*tcmalloc_malloc)(size_t bytes);
static void (*tcmalloc_free)(void *block);
static const char *(*tcmalloc_number)(int *major, int *minor, const char **patch);
static pthread_once_t once = PTHREAD_ONCE_INIT;

LOOPS(tcmalloc, tcmalloc_malloc, tcmalloc_free)

static void open_tcmalloc(void) {
    void *library = dlopen("libtcmalloc_minimal.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    *(void **)&tcmalloc_malloc = dlsym(library, "tc_malloc");
    *(void **)&tcmalloc_free = dlsym(library, "tc_free");
    *(void **)&tcmalloc_number = dlsym(library, "tc_version");
}

static const char *tcmalloc_version(void) {
    static char text[32];
    int major, minor;
    const char *patch;
    pthread_once(&once, open_tcmalloc);
    if (tcmalloc_malloc == NULL || tcmalloc_free == NULL || tcmalloc_number == NULL)
        return NULL;
    tcmalloc_number(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d%s", major, minor, patch);
    return text;
}

// glibc raises both thresholds by itself when large blocks are freed, up to these values or beyond, and a young process
// gives the end of its heap back to the system and faults it in again, over and over. What a process has freed before
// shall not decide: a loop makes no system call.
static void keep_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

static const char *glibc_version(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, keep_memory);
    return gnu_get_libc_version();
}

static const char *jemalloc_version(void) {
    const char *version;
    size_t bytes = sizeof version;
    return _rjem_mallctl("version", &version, &bytes, NULL, 0) == 0 ? version : "of unknown version";
}

// 30106 is 3.1.6, as mimalloc counts since its version 2.2; before, 218 was 2.1.8.
static const char *mimalloc_version(void) {
    static char text[32];
    int version = mi_version(), step = version < 10000 ? 10 : 100;
    snprintf(text, sizeof text, "%d.%d.%d", version / step / step, version / step % step, version % step);
    return text;
}

// It does not say itself: this is the version of its crate.
static const char *snmalloc_version(void) {
    return SNMALLOC_VERSION;
}

static const struct rival RIVALS[] = {
    RIVAL(glibc, NULL),
    RIVAL(jemalloc, NULL),
    RIVAL(mimalloc, NULL),
    RIVAL(snmalloc, NULL),
    RIVAL(tcmalloc, "libtcmalloc-minimal4"),
};

// The allocators in turn; NULL after the last one.
const struct rival *rival_allocator(size_t place) {
    return place < sizeof RIVALS / sizeof RIVALS[0] ? &RIVALS[place] : NULL;
}
