/* Every kind of misuse, planted once: the call returns the errno, one counter moves by one, and nothing else happens. */
#include "first.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each plants one misuse in a fresh state and returns what the call said. */
static int freed_twice(void)
{
    netmem_frame frame = one();
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return netmem_free(worker, &frame, 1);
}

static int freed_twice_in_one_burst(void)
{
    netmem_frame frame = one(), twice[3] = {frame, one(), frame};
    return netmem_free(worker, twice, 3);
}

static int freed_twice_in_a_long_burst(void)
{
    netmem_frame frames[9];
    CHECK(netmem_alloc(worker, pool, frames, 8) == 8);
    frames[8] = frames[7];
    frames[7] = frames[5];
    return netmem_free(worker, frames, 9);
}

static int freed_twice_by_its_pool(void)
{
    netmem_frame frame = one();
    CHECK(netmem_pool_free(worker, pool, &frame, 1) == 0);
    return netmem_pool_free(worker, pool, &frame, 1);
}

static netmem_frame freed(void)
{
    netmem_frame frame = one();
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return frame;
}

static int read_after_free(void)
{
    return netmem_len(worker, freed());
}

static int looked_at_after_free(void)
{
    netmem_frame frame = freed();
    netmem_span span;
    int said = netmem_spans(worker, &frame, 1, &span);
    CHECK(span.data == NULL);
    return said;
}

static int errno_of_null(const void *data)
{
    CHECK(data == NULL);
    return 0;
}

static int data_after_free(void)
{
    return errno_of_null(netmem_data(worker, freed()));
}

static int put_after_free(void)
{
    return errno_of_null(netmem_put(worker, freed(), 1));
}

static int put_in_a_burst_after_free(void)
{
    netmem_frame frames[3] = {one(), {0}, one()};
    frames[1] = freed();
    uint32_t lens[3] = {1, 2, 3};
    void *to[3];
    int said = netmem_put_each(worker, frames, lens, 3, to);
    CHECK(to[0] == netmem_data(worker, frames[0]) && to[1] == NULL && netmem_len(worker, frames[2]) == 3);
    CHECK(netmem_free(worker, frames, 1) == 0 && netmem_free(worker, frames + 2, 1) == 0);
    return said;
}

static int trimmed_after_free(void)
{
    return netmem_trim(worker, freed(), 0);
}

static int detached_after_free(void)
{
    netmem_frame frame = freed();
    return netmem_detach(worker, &frame, 1);
}

/* The place is given out again, and the old word is not good for the new use. */
static int freed_after_its_place_was_given_out_again(void)
{
    netmem_frame old = freed(), again = one();
    CHECK((uint32_t)old.word == (uint32_t)again.word && old.word != again.word);
    int said = netmem_free(worker, &old, 1);
    CHECK(netmem_len(worker, again) == 0 && netmem_free(worker, &again, 1) == 0);
    return said;
}

/* As above, and the place is free again: its last use was not that of the word. */
static int freed_after_a_later_use_of_its_place_was_over(void)
{
    netmem_frame old = freed(), again = freed();
    CHECK((uint32_t)old.word == (uint32_t)again.word);
    return netmem_free(worker, &old, 1);
}

static netmem_port port;

static netmem_frame sent(void)
{
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    netmem_frame frame = one(), gone = frame;
    CHECK(netmem_put(worker, frame, 60) != NULL && netmem_port_tx(worker, port, &frame, 1) == 1);
    return gone;
}

static int done_with(int said)
{
    netmem_port_complete(worker, port);
    CHECK(netmem_port_close(worker, port) == 0);
    return said;
}

static int read_after_tx(void)
{
    return done_with(netmem_len(worker, sent()));
}

static int freed_after_tx(void)
{
    netmem_frame frame = sent();
    return done_with(netmem_free(worker, &frame, 1));
}

static int sent_twice(void)
{
    netmem_frame frame = sent();
    return done_with(netmem_port_tx(worker, port, &frame, 1));
}

static int sent_twice_in_one_burst(void)
{
    sent();
    netmem_frame frame = one(), twice[2] = {frame, frame};
    CHECK(netmem_put(worker, frame, 60) != NULL);
    int said = netmem_port_tx(worker, port, twice, 2);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return done_with(said);
}

static int used_by_a_closed_port(void)
{
    sent();
    done_with(0);
    netmem_frame frame = one();
    int said = netmem_port_tx(worker, port, &frame, 1);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int a_port_used_by_another_worker(void)
{
    netmem_worker second;
    netmem_frame frame = one();
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_port_rx(second, port, &frame, 1);
    CHECK(netmem_worker_close(second) == 0 && netmem_free(worker, &frame, 1) == 0);
    return done_with(said);
}

static int made_up(void)
{
    netmem_frame frame = {0x0123456789abcdef};
    return netmem_free(worker, &frame, 1);
}

static int none_at_all(void)
{
    netmem_frame frame = {0};
    return netmem_len(worker, frame);
}

static int of_the_use_to_come(void)
{
    netmem_frame frame = one(), next = {frame.word + (1ull << 39)};
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return netmem_free(worker, &next, 1);
}

static int freed_to_another_pool(void)
{
    netmem_pool other;
    netmem_frame frame;
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_alloc(worker, other, &frame, 1) == 1);
    int said = netmem_pool_free(worker, pool, &frame, 1);
    CHECK(netmem_pool_free(worker, other, &frame, 1) == 0 && netmem_pool_close(other, 1000) == 0);
    return said;
}

static int a_burst_with_one_of_another_pool(void)
{
    netmem_pool other;
    netmem_frame frames[9], own, foreign;
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_alloc(worker, other, &foreign, 1) == 1);
    CHECK(netmem_alloc(worker, pool, frames, 9) == 9);
    own = frames[5];
    frames[5] = foreign;
    int said = netmem_pool_free(worker, pool, frames, 9);
    CHECK(netmem_worker_held(worker) == 2 && netmem_pool_free(worker, pool, &own, 1) == 0);
    CHECK(netmem_pool_free(worker, other, &foreign, 1) == 0 && netmem_pool_close(other, 1000) == 0);
    return said;
}

static int freed_twice_in_one_burst_by_its_pool(void)
{
    netmem_frame frames[9];
    CHECK(netmem_alloc(worker, pool, frames, 8) == 8);
    frames[8] = frames[7];
    frames[7] = frames[5];
    return netmem_pool_free(worker, pool, frames, 9);
}

static int freed_to_a_closed_pool(void)
{
    netmem_pool other;
    netmem_frame frames[8];
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_alloc(worker, other, frames, 8) == 8);
    CHECK(netmem_pool_free(worker, other, frames, 4) == 0 && netmem_pool_close(other, 0) == -ETIMEDOUT);
    int said = netmem_pool_free(worker, other, frames + 4, 4);
    CHECK(netmem_free(worker, frames + 4, 4) == 0 && netmem_pool_close(other, 1000) == 0);
    return said;
}

/* What is said of `n` raw frames, of which the one at `at` is another pool's, freed to the pool. That one is its caller's, and the others are not. */
static int raw_with_a_foreign_frame(uint32_t n, uint32_t at)
{
    netmem_pool other;
    netmem_raw frames[8], own, foreign;
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_raw_alloc(worker, other, &foreign, 1) == 1);
    CHECK(netmem_raw_alloc(worker, pool, frames, n) == (int)n);
    own = frames[at];
    frames[at] = foreign;
    int said = netmem_raw_pool_free(worker, pool, frames, n);
    CHECK(netmem_raw_pool_free(worker, pool, &own, 1) == 0);
    CHECK(netmem_raw_pool_free(worker, other, &foreign, 1) == 0 && netmem_pool_close(other, 1000) == 0);
    return said;
}

static int raw_freed_to_another_pool(void)
{
    return raw_with_a_foreign_frame(1, 0);
}

static int a_raw_burst_freed_to_another_pool(void)
{
    return raw_with_a_foreign_frame(8, 0);
}

static int a_raw_burst_with_a_foreign_frame_while_traced(void)
{
    CHECK(netmem_trace(1) == 0);
    int said = raw_with_a_foreign_frame(8, 5);
    CHECK(netmem_trace(0) == 0);
    return said;
}

static int a_raw_burst_with_none_while_traced(void)
{
    netmem_raw frames[3] = {{0}};
    CHECK(netmem_raw_alloc(worker, pool, frames, 2) == 2 && netmem_trace(1) == 0);
    int said = netmem_raw_pool_free(worker, pool, frames, 3);
    CHECK(netmem_trace(0) == 0);
    return said;
}

static int no_raw_frame_freed_to_a_pool(void)
{
    netmem_raw none = {0};
    return netmem_raw_pool_free(worker, pool, &none, 1);
}

static int raw_freed_to_a_closed_pool(void)
{
    netmem_pool other;
    netmem_raw frames[8];
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_raw_alloc(worker, other, frames, 8) == 8);
    CHECK(netmem_raw_pool_free(worker, other, frames, 4) == 0 && netmem_pool_close(other, 0) == -ETIMEDOUT);
    int said = netmem_raw_pool_free(worker, other, frames + 4, 4);
    CHECK(netmem_raw_free(worker, frames + 4, 4) == 0 && netmem_pool_close(other, 1000) == 0);
    return said;
}

static int freed_after_it_became_raw(void)
{
    netmem_frame frame = one();
    netmem_raw raw;
    CHECK(netmem_raw_from_frames(worker, &frame, &raw, 1) == 1);
    int said = netmem_free(worker, &frame, 1);
    CHECK(netmem_raw_free(worker, &raw, 1) == 0);
    return said;
}

static int made_raw_twice(void)
{
    netmem_frame frame = one();
    netmem_raw raw;
    CHECK(netmem_raw_from_frames(worker, &frame, &raw, 1) == 1);
    int said = netmem_raw_from_frames(worker, &frame, &raw, 1);
    CHECK(netmem_raw_free(worker, &raw, 1) == 0);
    return said;
}

/* The call converts what stands in front of the bad handle and leaves the rest. */
static int a_burst_made_raw_with_one_that_was_freed(void)
{
    netmem_frame frames[3] = {one(), one(), one()};
    netmem_raw raw[3];
    CHECK(netmem_free(worker, &frames[1], 1) == 0);
    CHECK(netmem_raw_from_frames(worker, frames, raw, 3) == 1);
    CHECK(netmem_raw_free(worker, raw, 1) == 0 && netmem_free(worker, &frames[2], 1) == 0);
    return 0;
}

static int no_raw_frame_sent(void)
{
    netmem_raw none = {0};
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    return done_with(netmem_port_tx_raw(worker, port, &none, 1));
}

/* What stands behind the word of 0 stays with the caller. */
static int no_raw_frame_made_a_frame(void)
{
    netmem_raw raw[2] = {{0}};
    netmem_frame frames[2];
    CHECK(netmem_raw_alloc(worker, pool, raw, 1) == 1);
    CHECK(netmem_raw_into_frames(worker, raw, frames, 2) == 1 && netmem_free(worker, frames, 1) == 0);
    return netmem_raw_into_frames(worker, raw + 1, frames, 1);
}

static int no_raw_frame_changed(void)
{
    netmem_raw none = {0};
    CHECK(netmem_raw_data(none) == NULL);
    return netmem_raw_trim(&none, 0);
}

static int raw_received_by_another_worker(void)
{
    netmem_worker second;
    netmem_raw frame;
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_port_rx_raw(second, port, &frame, 1);
    CHECK(netmem_worker_close(second) == 0);
    return done_with(said);
}

static int raw_freed_to_a_pool_by_a_closed_worker(void)
{
    netmem_worker second;
    netmem_raw frames[8];
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_worker_close(second) == 0);
    CHECK(netmem_raw_alloc(worker, pool, frames, 8) == 8);
    int said = netmem_raw_pool_free(second, pool, frames, 8);
    CHECK(netmem_raw_pool_free(worker, pool, frames, 8) == 0);
    return said;
}

static int allocated_from_a_closed_pool(void)
{
    netmem_pool other;
    netmem_frame frame;
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_pool_close(other, 1000) == 0);
    return netmem_alloc(worker, other, &frame, 1);
}

/* A pool of which the worker knows and has frames near, so that only its end can be why. */
static netmem_pool closed_after_use(void)
{
    netmem_pool other;
    netmem_frame frames[8];
    CHECK(netmem_pool_open(worker, NULL, &other) == 0);
    CHECK(netmem_alloc(worker, other, frames, 8) == 8 && netmem_free(worker, frames, 8) == 0);
    CHECK(netmem_alloc(worker, other, frames, 1) == 1 && netmem_free(worker, frames, 1) == 0);
    CHECK(netmem_pool_close(other, 1000) == 0);
    return other;
}

static int allocated_from_a_pool_that_was_closed_after_use(void)
{
    netmem_frame frame;
    return netmem_alloc(worker, closed_after_use(), &frame, 1);
}

static int a_burst_from_a_pool_that_was_closed_after_use(void)
{
    netmem_frame frames[8];
    return netmem_alloc(worker, closed_after_use(), frames, 8);
}

static int a_raw_burst_from_a_pool_that_was_closed_after_use(void)
{
    netmem_raw frames[8];
    return netmem_raw_alloc(worker, closed_after_use(), frames, 8);
}

static int allocated_from_a_pool_of_another_memory(void)
{
    netmem_memory memory2;
    netmem_worker worker2;
    netmem_pool pool2;
    netmem_frame frame;
    CHECK(netmem_memory_open(NULL, &memory2) == 0 && netmem_worker_open(memory2, &worker2) == 0);
    CHECK(netmem_pool_open(worker2, NULL, &pool2) == 0);
    int said = netmem_alloc(worker, pool2, &frame, 1);
    CHECK(netmem_pool_close(pool2, 1000) == 0 && netmem_worker_close(worker2) == 0);
    CHECK(netmem_memory_close(memory2, 1000) == 0);
    return said;
}

static int used_by_another_worker(void)
{
    netmem_worker second;
    netmem_frame frame = one();
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_free(second, &frame, 1);
    CHECK(netmem_worker_close(second) == 0 && netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int used_while_detached(void)
{
    netmem_frame frame = one();
    CHECK(netmem_detach(worker, &frame, 1) == 1);
    int said = netmem_len(worker, frame);
    CHECK(netmem_attach(worker, &frame, 1) == 1 && netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int used_by_its_old_word_after_it_was_detached(void)
{
    netmem_frame frame = one(), passed = frame;
    CHECK(netmem_detach(worker, &passed, 1) == 1);
    int said = netmem_free(worker, &frame, 1);
    CHECK(netmem_attach(worker, &passed, 1) == 1 && netmem_free(worker, &passed, 1) == 0);
    return said;
}

static int attached_twice(void)
{
    netmem_frame frame = one();
    CHECK(netmem_detach(worker, &frame, 1) == 1);
    netmem_frame again = frame;
    CHECK(netmem_attach(worker, &frame, 1) == 1);
    int said = netmem_attach(worker, &again, 1);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int by_a_closed_worker(void)
{
    netmem_worker second;
    netmem_frame frame;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_worker_close(second) == 0);
    return netmem_alloc(second, pool, &frame, 1);
}

static int a_long_burst_by_a_closed_worker(void)
{
    netmem_worker second;
    netmem_frame frames[200] = {{0}};
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_worker_close(second) == 0);
    return netmem_free(second, frames, 200);
}

/* The place that the word names is one that no worker has. */
static int by_a_worker_beyond_all(void)
{
    netmem_frame frame;
    netmem_worker beyond = {worker.word + 128};
    return netmem_alloc(beyond, pool, &frame, 1);
}

static int a_pool_closed_twice(void)
{
    netmem_pool second;
    CHECK(netmem_pool_open(worker, NULL, &second) == 0 && netmem_pool_close(second, 1000) == 0);
    return netmem_pool_close(second, 1000);
}

static int the_ledger_of_a_closed_pool(void)
{
    netmem_pool second;
    netmem_ledger ledger;
    CHECK(netmem_pool_open(worker, NULL, &second) == 0 && netmem_pool_close(second, 1000) == 0);
    return netmem_pool_ledger(second, &ledger);
}

static int a_memory_that_was_never_opened(void)
{
    netmem_memory none = {0};
    netmem_worker second;
    return netmem_worker_open(none, &second);
}

static int a_memory_closed_twice(void)
{
    netmem_memory second;
    CHECK(netmem_memory_open(NULL, &second) == 0 && netmem_memory_close(second, 1000) == 0);
    return netmem_memory_close(second, 1000);
}

static int freed_twice_in_a_compound_literal(void)
{
    netmem_frame frame = one();
    return netmem_free(worker, (netmem_frame[]){frame, frame}, 2);
}

static int a_closed_worker_entered(void)
{
    netmem_worker second;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_worker_close(second) == 0);
    return netmem_worker_enter(second);
}

static int a_port_over_a_closed_pool(void)
{
    netmem_pool second;
    netmem_port port;
    CHECK(netmem_pool_open(worker, NULL, &second) == 0 && netmem_pool_close(second, 1000) == 0);
    int said = netmem_port_open(worker, second, "pcap:out=/dev/null", NULL, &port);
    CHECK(strstr(netmem_last_error(), "closed") != NULL);
    return said;
}

static void *alloc_elsewhere(void *said)
{
    netmem_frame frame;
    *(int *)said = netmem_alloc(worker, pool, &frame, 1);
    return NULL;
}

static int by_another_thread(void)
{
    pthread_t thread;
    int said = 0;
    CHECK(pthread_create(&thread, NULL, alloc_elsewhere, &said) == 0 && pthread_join(thread, NULL) == 0);
    return said;
}

/* A frame that was reclaimed is its program's no longer. */
static int kept_over_a_reclaim(void)
{
    netmem_frame frame = one();
    CHECK(netmem_worker_reclaim(worker) == 1);
    return netmem_len(worker, frame);
}

/* A word of a memory that was closed, in which the next memory may lie. */
static int kept_over_a_close(void)
{
    netmem_frame frame = freed();
    close_all();
    open_all();
    return netmem_len(worker, frame);
}

static int in_a_child(void)
{
    netmem_frame frame = one();
    netmem_raw raw;
    netmem_offload no_offload;
    memset(&no_offload, 0, sizeof no_offload);
    CHECK(netmem_raw_alloc(worker, pool, &raw, 1) == 1 && netmem_raw_put(&raw, 60) != NULL);
    pid_t child = fork();
    if (child == 0) {
        netmem_memory own;
        int said = netmem_free(worker, &frame, 1);
        int opened = netmem_memory_open(NULL, &own);
        int finished = netmem_raw_finish_checksum(&raw), set = netmem_raw_set_offload(&raw, &no_offload);
        int timed = netmem_raw_set_timestamp(&raw, 1);
        int is_each = opened == -ECHILD && finished == -ECHILD && set == -ECHILD && timed == -ECHILD;
        _exit(said == -ECHILD && is_each && misuses("child") == 5 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_raw_free(worker, &raw, 1) == 0);
    return -ECHILD;
}

static const struct {
    const char *name;
    int (*plant)(void);
    int says;
    /* The counter that moves; NULL where that is in another process. */
    const char *kind;
} CASES[] = {
#define CASE(plant, says, kind) {#plant, plant, says, kind}
    CASE(freed_twice, -ESTALE, "freed_twice"),
    CASE(freed_twice_in_a_compound_literal, -ESTALE, "freed_twice"),
    CASE(freed_twice_in_one_burst, -ESTALE, "freed_twice"),
    CASE(freed_twice_in_a_long_burst, -ESTALE, "freed_twice"),
    CASE(freed_twice_by_its_pool, -ESTALE, "freed_twice"),
    CASE(read_after_free, -ESTALE, "used_after_free"),
    CASE(looked_at_after_free, -ESTALE, "used_after_free"),
    CASE(data_after_free, 0, "used_after_free"),
    CASE(put_after_free, 0, "used_after_free"),
    CASE(put_in_a_burst_after_free, -ESTALE, "used_after_free"),
    CASE(trimmed_after_free, -ESTALE, "used_after_free"),
    CASE(detached_after_free, -ESTALE, "used_after_free"),
    CASE(freed_after_its_place_was_given_out_again, -ESTALE, "stale"),
    CASE(freed_after_a_later_use_of_its_place_was_over, -ESTALE, "stale"),
    CASE(read_after_tx, -ESTALE, "used_after_tx"),
    CASE(freed_after_tx, -ESTALE, "used_after_tx"),
    CASE(sent_twice, -ESTALE, "used_after_tx"),
    CASE(sent_twice_in_one_burst, -ESTALE, "used_after_tx"),
    CASE(used_by_a_closed_port, -ESTALE, "closed"),
    CASE(a_port_used_by_another_worker, -EPERM, "wrong_worker"),
    CASE(made_up, -EBADF, "made_up"),
    CASE(none_at_all, -EBADF, "made_up"),
    CASE(of_the_use_to_come, -EBADF, "made_up"),
    CASE(freed_to_another_pool, -EXDEV, "wrong_pool"),
    CASE(a_burst_with_one_of_another_pool, -EXDEV, "wrong_pool"),
    CASE(freed_twice_in_one_burst_by_its_pool, -ESTALE, "freed_twice"),
    CASE(freed_to_a_closed_pool, -ESTALE, "closed"),
    CASE(raw_freed_to_another_pool, -EXDEV, "wrong_pool"),
    CASE(a_raw_burst_freed_to_another_pool, -EXDEV, "wrong_pool"),
    CASE(a_raw_burst_with_a_foreign_frame_while_traced, -EXDEV, "wrong_pool"),
    CASE(a_raw_burst_with_none_while_traced, -EBADF, "made_up"),
    CASE(no_raw_frame_freed_to_a_pool, -EBADF, "made_up"),
    CASE(raw_freed_to_a_closed_pool, -ESTALE, "closed"),
    CASE(raw_freed_to_a_pool_by_a_closed_worker, -ESTALE, "closed"),
    CASE(freed_after_it_became_raw, -ESTALE, "used_after_move"),
    CASE(made_raw_twice, -ESTALE, "used_after_move"),
    CASE(a_burst_made_raw_with_one_that_was_freed, 0, "used_after_free"),
    CASE(no_raw_frame_sent, -EBADF, "made_up"),
    CASE(no_raw_frame_made_a_frame, -EBADF, "made_up"),
    CASE(no_raw_frame_changed, -EBADF, "made_up"),
    CASE(raw_received_by_another_worker, -EPERM, "wrong_worker"),
    CASE(allocated_from_a_closed_pool, -ESTALE, "closed"),
    CASE(allocated_from_a_pool_that_was_closed_after_use, -ESTALE, "closed"),
    CASE(a_burst_from_a_pool_that_was_closed_after_use, -ESTALE, "closed"),
    CASE(a_raw_burst_from_a_pool_that_was_closed_after_use, -ESTALE, "closed"),
    CASE(allocated_from_a_pool_of_another_memory, -EXDEV, "wrong_memory"),
    CASE(used_by_another_worker, -EPERM, "wrong_worker"),
    CASE(used_while_detached, -EPERM, "detached"),
    CASE(used_by_its_old_word_after_it_was_detached, -EPERM, "detached"),
    CASE(attached_twice, -ESTALE, "stale"),
    CASE(by_a_closed_worker, -ESTALE, "closed"),
    CASE(a_long_burst_by_a_closed_worker, -ESTALE, "closed"),
    CASE(by_a_worker_beyond_all, -ESTALE, "closed"),
    CASE(a_pool_closed_twice, -ESTALE, "closed"),
    CASE(the_ledger_of_a_closed_pool, -ESTALE, "closed"),
    CASE(a_memory_that_was_never_opened, -ESTALE, "closed"),
    CASE(a_memory_closed_twice, -ESTALE, "closed"),
    CASE(a_closed_worker_entered, -ESTALE, "closed"),
    CASE(a_port_over_a_closed_pool, -ESTALE, "closed"),
    CASE(by_another_thread, -EPERM, "wrong_thread"),
    CASE(kept_over_a_reclaim, -ESTALE, "used_after_free"),
    CASE(kept_over_a_close, -ESTALE, "used_after_free"),
    CASE(in_a_child, -ECHILD, NULL),
};

int main(void)
{
    int failed = 0;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0 && netmem_set_policy(7) == -EINVAL);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_all();
        uint64_t all = all_misuses(), kind = CASES[i].kind ? misuses(CASES[i].kind) : 0;
        int said = CASES[i].plant();
        uint64_t more = CASES[i].kind ? 1 : 0;
        int seen = said == CASES[i].says && all_misuses() == all + more
            && (!CASES[i].kind || misuses(CASES[i].kind) == kind + 1);
        if (!seen)
            printf("NOT FOUND: %s: %d, %s\n", CASES[i].name, said, netmem_last_error());
        failed += !seen;
        check_home();
        CHECK(netmem_worker_held(worker) == 0);
        close_all();
    }
    printf("%zu kinds of misuse, %d not found\n", sizeof CASES / sizeof *CASES, failed);
    return failed != 0;
}
