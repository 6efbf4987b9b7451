/* Lanes: frames go from one worker to another, in order, none is lost; and every kind of misuse of them, planted once. Compiled as C11 and as C++17. */
#include "first.h"
#include <poll.h>
#include <pthread.h>

static netmem_lane lane;

static void open_lane(void)
{
    open_all();
    CHECK(netmem_lane_open(worker, 64, &lane) == 0);
}

static netmem_frame numbered(uint32_t number)
{
    netmem_frame frame = one();
    memcpy(netmem_put(worker, frame, sizeof number), &number, sizeof number);
    return frame;
}

static uint64_t counted(const char *name)
{
    netmem_count counts[16];
    int n = netmem_lane_counts(lane, counts, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].value;
    return UINT64_MAX;
}

/* By one worker that has both ends: what fits goes, the rest stays as it is. */
static void what_fits_goes_and_the_rest_stays(void)
{
    netmem_frame frames[100], before[100], came[100];
    netmem_ledger ledger;
    CHECK(netmem_lane_join(worker, lane) == 0 && netmem_lane_join(worker, lane) == -EBUSY);
    CHECK(netmem_lane_receive(worker, lane, came, 100) == 0 && netmem_worker_close(worker) == -EBUSY);
    for (uint32_t i = 0; i < 100; i++)
        before[i] = frames[i] = numbered(i);
    CHECK(netmem_lane_send(worker, lane, frames, 100) == 64 && netmem_lane_send(worker, lane, frames + 64, 36) == 0);
    CHECK(memcmp(frames, before, sizeof frames) == 0 && netmem_worker_held(worker) == 36);
    CHECK(netmem_pool_ledger(pool, &ledger) == 1 && ledger.queued == 64 && ledger.owned == 36);
    /* A few at a time: what is left of a burst waits. */
    CHECK(netmem_lane_receive(worker, lane, came, 5) == 5 && netmem_lane_receive(worker, lane, came + 5, 95) == 59);
    CHECK(netmem_lane_send(worker, lane, frames + 64, 36) == 36 && netmem_lane_receive(worker, lane, came + 64, 36) == 36);
    for (uint32_t i = 0; i < 100; i++)
        CHECK(memcmp(netmem_data(worker, came[i]), &i, sizeof i) == 0);
    CHECK(counted("sent") == 100 && counted("received") == 100 && counted("waiting") == 0);
    CHECK(netmem_free(worker, came, 100) == 0);
    CHECK(netmem_lane_send(worker, lane, NULL, 0) == 0 && netmem_lane_send(worker, lane, NULL, 1) == -EFAULT);
    netmem_lane other;
    CHECK(netmem_lane_open(worker, 5, &other) == -EINVAL && strstr(netmem_last_error(), "64 to 1048576") != NULL);
}

/* Raw frames go as frames with handles do, and either kind can be received as the other. */
static void raw_frames_pass_and_mix_with_others(void)
{
    netmem_raw raw[100], came[100];
    netmem_frame frames[40];
    netmem_ledger ledger;
    CHECK(netmem_raw_alloc(worker, pool, raw, 100) == 100);
    for (uint32_t i = 0; i < 100; i++)
        memcpy(netmem_raw_put(&raw[i], sizeof i), &i, sizeof i);
    CHECK(netmem_lane_send_raw(worker, lane, raw, 100) == 64 && netmem_lane_send_raw(worker, lane, raw + 64, 36) == 0);
    CHECK(netmem_pool_ledger(pool, &ledger) == 1 && ledger.queued == 64 && ledger.owned == 36);
    CHECK(netmem_lane_receive_raw(worker, lane, came, 5) == 5 && netmem_lane_receive(worker, lane, frames, 40) == 40);
    CHECK(netmem_lane_receive_raw(worker, lane, came + 45, 55) == 19);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t number = 5 + i;
        CHECK(memcmp(netmem_data(worker, frames[i]), &number, sizeof number) == 0);
    }
    CHECK(netmem_raw_from_frames(worker, frames, came + 5, 40) == 40);
    for (uint32_t i = 0; i < 64; i++)
        CHECK(memcmp(netmem_raw_data(came[i]), &i, sizeof i) == 0);
    /* Sent by handle, received raw. */
    frames[0] = numbered(7);
    CHECK(netmem_lane_send(worker, lane, frames, 1) == 1 && netmem_lane_receive_raw(worker, lane, came + 64, 1) == 1);
    CHECK(netmem_raw_free(worker, came, 65) == 0 && netmem_raw_free(worker, raw + 64, 36) == 0);
    CHECK(netmem_lane_send_raw(worker, lane, NULL, 0) == 0 && netmem_lane_receive_raw(worker, lane, NULL, 1) == -EFAULT);
    check_home();
}

/* Frames that wait when the receiver closes its end go home, and are counted; the sender keeps what it has. */
static void the_receiver_closes_first(void)
{
    netmem_frame frames[10];
    for (uint32_t i = 0; i < 10; i++)
        frames[i] = numbered(i);
    netmem_worker second;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_lane_join(second, lane) == 0);
    CHECK(netmem_lane_send(worker, lane, frames, 8) == 8 && netmem_lane_receive(second, lane, frames, 3) == 3);
    CHECK(netmem_free(second, frames, 3) == 0 && netmem_lane_close(second, lane) == 5 && netmem_worker_close(second) == 0);
    CHECK(counted("sent") == 8 && counted("received") == 3 && counted("lost") == 5 && counted("waiting") == 0);
    CHECK(netmem_lane_send(worker, lane, frames + 8, 2) == -EPIPE && netmem_len(worker, frames[8]) == 4);
    CHECK(netmem_free(worker, frames + 8, 2) == 0 && netmem_lane_close(worker, lane) == 0);
    check_home();
}

/* What was sent before the sender closed its end is received after, also by one who joins later. */
static void the_sender_closes_first(void)
{
    netmem_frame frames[10];
    CHECK(netmem_lane_open(worker, 0, &lane) == 0);
    for (uint32_t i = 0; i < 10; i++)
        frames[i] = numbered(i);
    CHECK(netmem_lane_send(worker, lane, frames, 10) == 10 && netmem_lane_close(worker, lane) == 0);
    CHECK(netmem_memory_close(memory, 0) == -EBUSY && netmem_lane_join(worker, lane) == 0);
    CHECK(netmem_lane_receive(worker, lane, frames, 10) == 10 && netmem_lane_receive(worker, lane, frames, 0) == 0);
    CHECK(netmem_free(worker, frames, 10) == 0);
    netmem_frame none;
    CHECK(netmem_lane_receive(worker, lane, &none, 1) == -EPIPE && netmem_lane_arm(worker, lane) == 1);
    CHECK(netmem_lane_disarm(worker, lane) == 0 && netmem_lane_close(worker, lane) == 0);
}

#define MANY 100000

/* Receives until the sender has closed its end, and sleeps when nothing comes. */
static void *receive_all(void *unused)
{
    netmem_worker own;
    netmem_frame frames[48];
    uint32_t next = 0, number;
    (void)unused;
    CHECK(netmem_worker_open(memory, &own) == 0 && netmem_lane_join(own, lane) == 0);
    struct pollfd bell = {netmem_lane_fd(own, lane), POLLIN, 0};
    for (;;) {
        int n = netmem_lane_receive(own, lane, frames, 48);
        if (n == -EPIPE)
            break;
        CHECK(n >= 0);
        for (int i = 0; i < n; i++, next++) {
            memcpy(&number, netmem_data(own, frames[i]), sizeof number);
            CHECK(number == next);
        }
        CHECK(netmem_free(own, frames, (uint32_t)n) == 0);
        if (n == 0) {
            if (netmem_lane_arm(own, lane) == 0)
                CHECK(poll(&bell, 1, -1) == 1);
            CHECK(netmem_lane_disarm(own, lane) == 0);
        }
    }
    CHECK(next == MANY && netmem_lane_close(own, lane) == 0 && netmem_worker_close(own) == 0);
    return NULL;
}

static void between_two_threads_all_come_in_order(void)
{
    pthread_t thread;
    netmem_frame frames[32];
    CHECK(netmem_lane_open(worker, 256, &lane) == 0 && pthread_create(&thread, NULL, receive_all, NULL) == 0);
    for (uint32_t number = 0; number < MANY;) {
        uint32_t n = 0;
        while (n < 32 && number < MANY)
            frames[n++] = numbered(number++);
        for (uint32_t sent = 0; sent < n;) {
            int took = netmem_lane_send(worker, lane, frames + sent, n - sent);
            CHECK(took >= 0);
            sent += (uint32_t)took;
        }
    }
    CHECK(netmem_lane_close(worker, lane) == 0 && pthread_join(thread, NULL) == 0 && netmem_worker_held(worker) == 0);
}

/* Receives some, and closes its end while frames come. */
static void *close_in_between(void *receive)
{
    netmem_worker own;
    netmem_frame frames[16];
    int left = *(int *)receive;
    CHECK(netmem_worker_open(memory, &own) == 0 && netmem_lane_join(own, lane) == 0);
    while (left > 0) {
        int n = netmem_lane_receive(own, lane, frames, 16);
        CHECK(n >= 0 && netmem_free(own, frames, (uint32_t)n) == 0);
        left -= n;
    }
    CHECK(netmem_lane_close(own, lane) >= 0 && netmem_worker_close(own) == 0);
    return NULL;
}

static void a_lane_that_is_closed_at_any_moment_loses_no_frame(void)
{
    for (int round = 0; round < 300; round++) {
        pthread_t thread;
        netmem_frame frames[24];
        int receive = round % 100, said = 0;
        CHECK(netmem_lane_open(worker, 64, &lane) == 0 && pthread_create(&thread, NULL, close_in_between, &receive) == 0);
        while (said != -EPIPE) {
            CHECK(netmem_alloc(worker, pool, frames, 24) == 24);
            said = netmem_lane_send(worker, lane, frames, 24);
            int gone = said > 0 ? said : 0;
            CHECK((said >= 0 || said == -EPIPE) && netmem_free(worker, frames + gone, (uint32_t)(24 - gone)) == 0);
        }
        CHECK(netmem_lane_close(worker, lane) == 0 && pthread_join(thread, NULL) == 0);
        check_home();
    }
}

static void a_traced_frame_names_where_it_was_received(void)
{
    netmem_holder holders[4];
    netmem_frame frame;
    CHECK(netmem_trace(1) == 0 && netmem_lane_open(worker, 0, &lane) == 0 && netmem_lane_join(worker, lane) == 0);
    frame = one();
    CHECK(netmem_lane_send(worker, lane, &frame, 1) == 1 && netmem_pool_holders(pool, holders, 4) == 0);
    CHECK(netmem_lane_receive(worker, lane, &frame, 1) == 1 && netmem_pool_holders(pool, holders, 4) == 1);
    CHECK(strstr(holders[0].site, "lane.c:") != NULL);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_lane_close(worker, lane) == 0 && netmem_trace(0) == 0);
}

/* Each plants one misuse in a fresh state, in which the worker is the sender, and returns what the call said. */
static netmem_frame sent(void)
{
    netmem_frame frame = one(), gone = frame;
    CHECK(netmem_lane_send(worker, lane, &frame, 1) == 1);
    return gone;
}

static int freed_after_it_was_sent(void)
{
    netmem_frame frame = sent();
    return netmem_free(worker, &frame, 1);
}

static int read_after_it_was_sent(void)
{
    return netmem_len(worker, sent());
}

static int sent_twice(void)
{
    netmem_frame frame = sent();
    return netmem_lane_send(worker, lane, &frame, 1);
}

static int sent_twice_in_one_burst(void)
{
    netmem_frame frame = one(), twice[2] = {frame, frame};
    int said = netmem_lane_send(worker, lane, twice, 2);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int sent_after_free(void)
{
    netmem_frame frame = one();
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return netmem_lane_send(worker, lane, &frame, 1);
}

static int made_up_frame_sent(void)
{
    netmem_frame frame = {0x0123456700abcdef};
    return netmem_lane_send(worker, lane, &frame, 1);
}

/* By the word under which the sender had it. */
static int used_by_its_old_word_after_it_was_received(void)
{
    netmem_frame old = sent(), frame;
    CHECK(netmem_lane_join(worker, lane) == 0 && netmem_lane_receive(worker, lane, &frame, 1) == 1);
    int said = netmem_len(worker, old);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int received_by_who_has_not_joined(void)
{
    netmem_frame frame;
    return netmem_lane_receive(worker, lane, &frame, 1);
}

static int sent_by_another_worker(void)
{
    netmem_worker second;
    netmem_frame frame;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_alloc(second, pool, &frame, 1) == 1);
    int said = netmem_lane_send(second, lane, &frame, 1);
    CHECK(netmem_free(second, &frame, 1) == 0 && netmem_worker_close(second) == 0);
    return said;
}

static int closed_by_another_worker(void)
{
    netmem_worker second;
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_lane_close(second, lane);
    CHECK(netmem_worker_close(second) == 0);
    return said;
}

static netmem_lane a_closed_one(void)
{
    netmem_lane other;
    CHECK(netmem_lane_open(worker, 0, &other) == 0 && netmem_lane_join(worker, other) == 0);
    CHECK(netmem_lane_close(worker, other) == 0);
    return other;
}

static int sent_by_a_closed_lane(void)
{
    netmem_frame frame = one();
    int said = netmem_lane_send(worker, a_closed_one(), &frame, 1);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int received_by_a_closed_lane(void)
{
    netmem_frame frame;
    return netmem_lane_receive(worker, a_closed_one(), &frame, 1);
}

static int joined_after_it_was_closed(void)
{
    return netmem_lane_join(worker, a_closed_one());
}

static int closed_twice(void)
{
    return netmem_lane_close(worker, a_closed_one());
}

static int made_up_lane(void)
{
    netmem_lane none = {0x0123456789ab0000};
    return netmem_lane_fd(worker, none);
}

static int joined_from_another_memory(void)
{
    netmem_memory memory2;
    netmem_worker worker2;
    CHECK(netmem_memory_open(NULL, &memory2) == 0 && netmem_worker_open(memory2, &worker2) == 0);
    int said = netmem_lane_join(worker2, lane);
    CHECK(netmem_worker_close(worker2) == 0 && netmem_memory_close(memory2, 1000) == 0);
    return said;
}

static const struct {
    const char *name;
    int (*plant)(void);
    int says;
    const char *kind;
} CASES[] = {
#define CASE(plant, says, kind) {#plant, plant, says, kind}
    CASE(freed_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(read_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(sent_twice, -ESTALE, "used_after_move"),
    CASE(sent_twice_in_one_burst, -ESTALE, "used_after_move"),
    CASE(sent_after_free, -ESTALE, "used_after_free"),
    CASE(made_up_frame_sent, -EBADF, "made_up"),
    CASE(used_by_its_old_word_after_it_was_received, -ESTALE, "stale"),
    CASE(received_by_who_has_not_joined, -EPERM, "wrong_worker"),
    CASE(sent_by_another_worker, -EPERM, "wrong_worker"),
    CASE(closed_by_another_worker, -EPERM, "wrong_worker"),
    CASE(sent_by_a_closed_lane, -ESTALE, "closed"),
    CASE(received_by_a_closed_lane, -ESTALE, "closed"),
    CASE(joined_after_it_was_closed, -ESTALE, "closed"),
    CASE(closed_twice, -ESTALE, "closed"),
    CASE(made_up_lane, -ESTALE, "closed"),
    CASE(joined_from_another_memory, -EXDEV, "wrong_memory"),
};

int main(void)
{
    int failed = 0;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_lane();
    what_fits_goes_and_the_rest_stays();
    raw_frames_pass_and_mix_with_others();
    CHECK(netmem_lane_close(worker, lane) == 0 && netmem_lane_open(worker, 0, &lane) == 0);
    the_receiver_closes_first();
    the_sender_closes_first();
    between_two_threads_all_come_in_order();
    a_lane_that_is_closed_at_any_moment_loses_no_frame();
    a_traced_frame_names_where_it_was_received();
    check_home();
    close_all();
    CHECK(all_misuses() == 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_lane();
        uint64_t all = all_misuses(), kind = misuses(CASES[i].kind);
        int said = CASES[i].plant();
        int seen = said == CASES[i].says && all_misuses() == all + 1 && misuses(CASES[i].kind) == kind + 1;
        if (!seen)
            printf("NOT FOUND: %s: %d, %s\n", CASES[i].name, said, netmem_last_error());
        failed += !seen;
        /* What waits in the lane goes home with it. */
        (void)netmem_lane_join(worker, lane);
        CHECK(netmem_worker_held(worker) == 0 && netmem_lane_close(worker, lane) >= 0);
        check_home();
        close_all();
    }
    printf("%zu kinds of misuse, %d not found\n", sizeof CASES / sizeof *CASES, failed);
    return failed != 0;
}
