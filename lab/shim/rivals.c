// The timed loops of the allocators that netmem is measured beside. Each loop lies here as a whole, with direct
// calls of the allocator inside, so that no operation crosses the border between two languages.

#include <gnu/libc-version.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The compiler must believe that the block is used: else it drops malloc and free as a pair.
#define KEEP(block) __asm__ volatile("" : "+r"(block) : : "memory")

// Bytes written into a block that is touched: one cache line.
#define LINE 64

static inline void touch_line(void *block, size_t bytes) {
    memset(block, 0xa5, bytes < LINE ? bytes : LINE);
}

// Defines the loops of one allocator. They return how many blocks were refused.
//   single  one block out and back, `ops` times
//   bulk    `count` blocks out before the first goes back, oldest first, until `ops` blocks went round;
//           `held` has room for `count`
#define LOOPS(name, allocate, release)                                                                             \
    uint64_t rival_##name##_single(size_t bytes, int touched, uint64_t ops) {                                      \
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
    uint64_t rival_##name##_bulk(void **held, size_t count, size_t bytes, int touched, uint64_t ops) {             \
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
    }

LOOPS(glibc, malloc, free)
LOOPS(mimalloc, mi_malloc, mi_free)

const char *rival_glibc_version(void) {
    return gnu_get_libc_version();
}

// As mimalloc counts: 30106 is 3.1.6.
int rival_mimalloc_version(void) {
    return mi_version();
}
