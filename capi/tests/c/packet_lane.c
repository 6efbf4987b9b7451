/* Packets by lanes: they go from one worker to another whole and in order, and none is lost. C11 and C++17. */
#include "packets.h"
#include <poll.h>
#include <pthread.h>

static netmem_lane lane;

static uint64_t counted(const char *name)
{
    netmem_count counts[16];
    int n = netmem_lane_counts(lane, counts, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].value;
    return UINT64_MAX;
}

static uint64_t queued(void)
{
    netmem_ledger ledger;
    CHECK(netmem_pool_ledger(pool, &ledger) == 1 && ledger.miscounted == 0);
    return ledger.queued;
}

static netmem_packet numbered(uint32_t number)
{
    netmem_packet packet = a_packet("");
    memcpy(netmem_packet_put(worker, packet, sizeof number), &number, sizeof number);
    return packet;
}

static uint32_t number_of(netmem_worker of, netmem_packet packet)
{
    uint32_t number;
    CHECK(netmem_packet_copy(of, packet, &number, sizeof number) == (int)sizeof number);
    return number;
}

/* By one worker that has both ends: what fits goes, the rest stays as it is. */
static void what_fits_goes_and_the_rest_stays(void)
{
    netmem_packet packets[100], before[100], came[100];
    CHECK(netmem_lane_open(worker, 70, &lane) == 0 && netmem_lane_join(worker, lane) == 0);
    CHECK(netmem_lane_receive_packets(worker, lane, came, 100) == 0);
    for (uint32_t i = 0; i < 100; i++)
        before[i] = packets[i] = numbered(i);
    CHECK(netmem_lane_send_packets(worker, lane, packets, 100) == 70 && netmem_lane_send_packets(worker, lane, packets + 70, 30) == 0);
    CHECK(memcmp(packets, before, sizeof packets) == 0 && netmem_worker_held(worker) == 30 && queued() == 70);
    CHECK(netmem_lane_receive_packets(worker, lane, came, 5) == 5 && netmem_lane_send_packets(worker, lane, packets + 70, 30) == 5);
    CHECK(netmem_lane_receive_packets(worker, lane, came + 5, 95) == 70);
    CHECK(netmem_lane_send_packets(worker, lane, packets + 75, 25) == 25 && netmem_lane_receive_packets(worker, lane, came + 75, 25) == 25);
    for (uint32_t i = 0; i < 100; i++)
        CHECK(number_of(worker, came[i]) == i);
    CHECK(counted("packets_sent") == 100 && counted("packets_received") == 100 && counted("packets_waiting") == 0 && queued() == 0);
    CHECK(netmem_packet_free(worker, came, 100) == 0);
    CHECK(netmem_lane_send_packets(worker, lane, NULL, 0) == 0 && netmem_lane_send_packets(worker, lane, NULL, 1) == -EFAULT);
    CHECK(netmem_lane_receive_packets(worker, lane, NULL, 1) == -EFAULT && netmem_lane_close(worker, lane) == 0);
    check_home();
}

/* All parts, what is recorded, and bytes that another packet reads too. */
static void a_packet_goes_whole(void)
{
    netmem_packet chain = a_packet("in "), second, came[2];
    netmem_worker other;
    uint32_t hash = 0;
    CHECK(netmem_lane_open(worker, 0, &lane) == 0 && netmem_worker_open(memory, &other) == 0 && netmem_lane_join(other, lane) == 0);
    CHECK(netmem_packet_append(worker, chain, a_packet("three ")) == 0 && netmem_packet_set_flow_hash(worker, chain, 0xbeef) == 0);
    CHECK(netmem_packet_share(worker, chain, &second) == 0 && netmem_packet_append(worker, chain, a_packet("parts")) == 0);
    netmem_packet both[2] = {chain, a_packet("alone")};
    CHECK(netmem_lane_send_packets(worker, lane, both, 2) == 2);
    /* What is read by two is no queue's. */
    CHECK(queued() == 2 && netmem_worker_held(worker) == 1 && says(second, "in three "));
    CHECK(netmem_lane_receive_packets(other, lane, came, 2) == 2 && netmem_worker_held(other) == 2 && queued() == 0);
    char bytes[32] = "";
    CHECK(netmem_packet_copy(other, came[0], bytes, sizeof bytes) == 14 && strcmp(bytes, "in three parts") == 0);
    CHECK(netmem_packet_flow_hash(other, came[0], &hash) == 0 && hash == 0xbeef);
    CHECK(netmem_packet_write(other, came[0]) == NULL && netmem_packet_free(worker, &second, 1) == 0);
    CHECK(netmem_packet_write(other, came[0]) != NULL && netmem_packet_free(other, came, 2) == 0);
    CHECK(netmem_lane_close(other, lane) == 0 && netmem_worker_close(other) == 0 && netmem_lane_close(worker, lane) == 0);
    check_home();
}

/* Frames and packets by one lane: each in the order of its kind, with room of its own. */
static void frames_and_packets_go_beside_each_other(void)
{
    netmem_frame frames[64];
    netmem_packet packets[64];
    CHECK(netmem_lane_open(worker, 64, &lane) == 0 && netmem_lane_join(worker, lane) == 0);
    for (uint32_t i = 0; i < 64; i++) {
        frames[i] = one();
        packets[i] = numbered(i);
    }
    CHECK(netmem_lane_arm(worker, lane) == 0 && netmem_lane_disarm(worker, lane) == 0);
    CHECK(netmem_lane_send_packets(worker, lane, packets, 64) == 64 && netmem_lane_send(worker, lane, frames, 64) == 64);
    CHECK(queued() == 128 && netmem_lane_receive(worker, lane, frames, 60) == 60 && netmem_lane_receive_packets(worker, lane, packets, 50) == 50);
    CHECK(netmem_free(worker, frames, 60) == 0 && netmem_packet_free(worker, packets, 50) == 0);
    CHECK(netmem_lane_arm(worker, lane) == 1 && netmem_lane_disarm(worker, lane) == 0);
    CHECK(counted("packets_waiting") == 14 && netmem_lane_close(worker, lane) == 4 + 14);
    check_home();
}

/* The end of a lane is told by neither call while something of the other kind waits: who closes at -EPIPE would lose it. */
static void the_end_is_told_only_when_neither_frames_nor_packets_wait(void)
{
    for (int frames_first = 0; frames_first < 2; frames_first++) {
        netmem_frame frame = one();
        netmem_packet packet = a_packet("last");
        CHECK(netmem_lane_open(worker, 0, &lane) == 0 && netmem_lane_send(worker, lane, &frame, 1) == 1);
        CHECK(netmem_lane_send_packets(worker, lane, &packet, 1) == 1 && netmem_lane_close(worker, lane) == 0);
        CHECK(netmem_lane_join(worker, lane) == 0);
        if (frames_first) {
            CHECK(netmem_lane_receive(worker, lane, &frame, 1) == 1 && netmem_lane_receive(worker, lane, &frame, 1) == 0);
            CHECK(netmem_lane_receive_packets(worker, lane, &packet, 1) == 1);
        } else {
            CHECK(netmem_lane_receive_packets(worker, lane, &packet, 1) == 1);
            CHECK(netmem_lane_receive_packets(worker, lane, &packet, 1) == 0 && netmem_lane_receive(worker, lane, &frame, 1) == 1);
        }
        CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_packet_free(worker, &packet, 1) == 0);
        CHECK(netmem_lane_receive(worker, lane, &frame, 1) == -EPIPE && netmem_lane_receive_packets(worker, lane, &packet, 1) == -EPIPE);
        CHECK(netmem_lane_close(worker, lane) == 0);
        check_home();
    }
}

/* Packets that wait when the receiver closes its end go home, and are counted; the sender keeps what it has. */
static void the_receiver_closes_first(void)
{
    netmem_packet packets[10];
    netmem_worker second;
    CHECK(netmem_lane_open(worker, 0, &lane) == 0 && netmem_worker_open(memory, &second) == 0 && netmem_lane_join(second, lane) == 0);
    for (uint32_t i = 0; i < 10; i++)
        packets[i] = numbered(i);
    CHECK(netmem_packet_append(worker, packets[7], a_packet("more")) == 0);
    CHECK(netmem_lane_send_packets(worker, lane, packets, 8) == 8 && netmem_lane_receive_packets(second, lane, packets, 3) == 3);
    CHECK(netmem_packet_free(second, packets, 3) == 0 && netmem_lane_close(second, lane) == 5 && netmem_worker_close(second) == 0);
    CHECK(queued() == 0 && counted("packets_lost") == 5 && counted("packets_waiting") == 0);
    CHECK(netmem_lane_send_packets(worker, lane, packets + 8, 2) == -EPIPE && number_of(worker, packets[8]) == 8);
    CHECK(netmem_packet_free(worker, packets + 8, 2) == 0 && netmem_lane_close(worker, lane) == 0);
    check_home();
}

/* What was sent before the sender closed its end is received after, also by one who joins later. Until then neither heads, pool nor memory are closed. */
static void the_sender_closes_first(void)
{
    netmem_packet packets[10];
    netmem_heads other;
    netmem_pool pool2;
    CHECK(netmem_lane_open(worker, 0, &lane) == 0 && netmem_heads_open(worker, NULL, &other) == 0 && netmem_pool_open(worker, NULL, &pool2) == 0);
    for (uint32_t i = 0; i < 10; i++)
        packets[i] = numbered(i);
    CHECK(netmem_packet_free(worker, packets + 4, 1) == 0 && netmem_packet_alloc(worker, other, pool2, packets + 4, 1) == 1);
    CHECK(netmem_lane_send_packets(worker, lane, packets, 10) == 10 && netmem_lane_close(worker, lane) == 0 && netmem_worker_held(worker) == 0);
    CHECK(netmem_heads_close(other) == -EBUSY && strstr(netmem_last_error(), "wait in 1 lane:") != NULL);
    CHECK(netmem_heads_close(heads) == -EBUSY && netmem_pool_close(pool2, 0) == -ETIMEDOUT && netmem_memory_close(memory, 0) == -EBUSY);
    CHECK(netmem_lane_join(worker, lane) == 0);
    CHECK(netmem_lane_receive_packets(worker, lane, packets, 10) == 10 && netmem_lane_receive_packets(worker, lane, packets, 0) == 0);
    CHECK(netmem_heads_close(other) == -EBUSY && netmem_heads_free(worker, other, packets + 4, 1) == 0);
    CHECK(netmem_heads_close(other) == 0 && netmem_pool_close(pool2, 1000) == 0);
    CHECK(netmem_packet_free(worker, packets, 4) == 0 && netmem_packet_free(worker, packets + 5, 5) == 0);
    netmem_packet none;
    CHECK(netmem_lane_receive_packets(worker, lane, &none, 1) == -EPIPE && netmem_lane_arm(worker, lane) == 1);
    CHECK(netmem_lane_disarm(worker, lane) == 0 && netmem_lane_close(worker, lane) == 0);
    check_home();
}

/* Heads that come and go while a lane stays, in the same place of the tables. */
static void heads_are_closed_and_others_opened_while_a_lane_stays(void)
{
    netmem_packet both[2];
    CHECK(netmem_lane_open(worker, 0, &lane) == 0 && netmem_lane_join(worker, lane) == 0);
    both[0] = a_packet("kept");
    for (int round = 0; round < 20; round++) {
        netmem_heads other;
        CHECK(netmem_heads_open(worker, NULL, &other) == 0 && netmem_packet_alloc(worker, other, pool, both + 1, 1) == 1);
        CHECK(netmem_lane_send_packets(worker, lane, both, 2) == 2 && netmem_worker_held(worker) == 0);
        CHECK(netmem_heads_close(other) == -EBUSY && netmem_heads_close(heads) == -EBUSY);
        CHECK(netmem_lane_receive_packets(worker, lane, both, 1) == 1 && says(both[0], "kept"));
        CHECK(netmem_heads_close(other) == -EBUSY && strstr(netmem_last_error(), "lanes") != NULL);
        CHECK(netmem_lane_receive_packets(worker, lane, both + 1, 1) == 1);
        CHECK(netmem_heads_close(other) == -EBUSY && strstr(netmem_last_error(), "not freed") != NULL);
        CHECK(netmem_packet_free(worker, both + 1, 1) == 0 && netmem_heads_close(other) == 0);
    }
    CHECK(netmem_packet_free(worker, both, 1) == 0 && netmem_lane_close(worker, lane) == 0);
    check_home();
}

#define MANY 100000

/* Receives until the sender has closed its end, and sleeps when nothing comes. */
static void *receive_all(void *unused)
{
    netmem_worker own;
    netmem_packet packets[48];
    uint32_t next = 0;
    (void)unused;
    CHECK(netmem_worker_open(memory, &own) == 0 && netmem_lane_join(own, lane) == 0);
    struct pollfd bell = {netmem_lane_fd(own, lane), POLLIN, 0};
    for (;;) {
        int n = netmem_lane_receive_packets(own, lane, packets, 48);
        if (n == -EPIPE)
            break;
        CHECK(n >= 0);
        for (int i = 0; i < n; i++, next++) {
            uint32_t numbers[2] = {0, next};
            CHECK(netmem_packet_copy(own, packets[i], numbers, sizeof numbers) == (next % 3 == 0 ? 8 : 4));
            CHECK(numbers[0] == next && numbers[1] == next);
        }
        CHECK(netmem_packet_free(own, packets, (uint32_t)n) == 0);
        if (n == 0) {
            if (netmem_lane_arm(own, lane) == 0)
                CHECK(poll(&bell, 1, -1) == 1);
            CHECK(netmem_lane_disarm(own, lane) == 0);
        }
    }
    CHECK(next == MANY && netmem_lane_close(own, lane) == 0 && netmem_worker_close(own) == 0);
    return NULL;
}

/* Every third packet has two parts. */
static void between_two_threads_all_come_in_order(void)
{
    pthread_t thread;
    netmem_packet packets[32];
    CHECK(netmem_lane_open(worker, 256, &lane) == 0 && pthread_create(&thread, NULL, receive_all, NULL) == 0);
    for (uint32_t number = 0; number < MANY;) {
        uint32_t n = 0;
        for (; n < 32 && number < MANY; n++, number++) {
            packets[n] = numbered(number);
            CHECK(number % 3 != 0 || netmem_packet_append(worker, packets[n], numbered(number)) == 0);
        }
        for (uint32_t sent = 0; sent < n;) {
            int took = netmem_lane_send_packets(worker, lane, packets + sent, n - sent);
            CHECK(took >= 0);
            sent += (uint32_t)took;
        }
    }
    CHECK(netmem_lane_close(worker, lane) == 0 && pthread_join(thread, NULL) == 0 && netmem_worker_held(worker) == 0);
    check_home();
}

/* Receives some, and closes its end while packets come. */
static void *close_in_between(void *receive)
{
    netmem_worker own;
    netmem_packet packets[16];
    int left = *(int *)receive;
    CHECK(netmem_worker_open(memory, &own) == 0 && netmem_lane_join(own, lane) == 0);
    while (left > 0) {
        int n = netmem_lane_receive_packets(own, lane, packets, 16);
        CHECK(n >= 0 && netmem_packet_free(own, packets, (uint32_t)n) == 0);
        left -= n;
    }
    CHECK(netmem_lane_close(own, lane) >= 0 && netmem_worker_close(own) == 0);
    return NULL;
}

static void a_lane_that_is_closed_at_any_moment_loses_no_packet(void)
{
    for (int round = 0; round < 300; round++) {
        pthread_t thread;
        netmem_packet packets[24];
        int receive = round % 100, said = 0;
        CHECK(netmem_lane_open(worker, 64, &lane) == 0 && pthread_create(&thread, NULL, close_in_between, &receive) == 0);
        while (said != -EPIPE) {
            CHECK(netmem_packet_alloc(worker, heads, pool, packets, 24) == 24);
            said = netmem_lane_send_packets(worker, lane, packets, 24);
            int gone = said > 0 ? said : 0;
            CHECK((said >= 0 || said == -EPIPE) && netmem_packet_free(worker, packets + gone, (uint32_t)(24 - gone)) == 0);
        }
        CHECK(netmem_lane_close(worker, lane) == 0 && pthread_join(thread, NULL) == 0);
        check_home();
    }
}

/* It is in no hands while it is in the lane, and the same pool's after. */
static void a_traced_packet_names_where_it_was_received(void)
{
    netmem_holder holders[4];
    netmem_packet packet;
    CHECK(netmem_trace(1) == 0 && netmem_lane_open(worker, 0, &lane) == 0 && netmem_lane_join(worker, lane) == 0);
    packet = a_packet("traced");
    CHECK(netmem_pool_holders(pool, holders, 4) == 1 && strstr(holders[0].site, "packets.h:") != NULL);
    CHECK(netmem_lane_send_packets(worker, lane, &packet, 1) == 1 && netmem_pool_holders(pool, holders, 4) == 0);
    CHECK(netmem_lane_receive_packets(worker, lane, &packet, 1) == 1 && netmem_pool_holders(pool, holders, 4) == 1);
    CHECK(strstr(holders[0].site, "packet_lane.c:") != NULL && holders[0].frames == 1);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0 && netmem_lane_close(worker, lane) == 0 && netmem_trace(0) == 0);
}

int main(void)
{
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_heads();
    what_fits_goes_and_the_rest_stays();
    a_packet_goes_whole();
    frames_and_packets_go_beside_each_other();
    the_end_is_told_only_when_neither_frames_nor_packets_wait();
    the_receiver_closes_first();
    the_sender_closes_first();
    heads_are_closed_and_others_opened_while_a_lane_stays();
    between_two_threads_all_come_in_order();
    a_lane_that_is_closed_at_any_moment_loses_no_packet();
    a_traced_packet_names_where_it_was_received();
    check_home();
    close_heads();
    CHECK(all_misuses() == 0);
    printf("all as it should be\n");
    return 0;
}
