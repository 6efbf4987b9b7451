/* Every kind of misuse of packets in lanes, planted once: the call returns the errno, one counter moves by one, and nothing else happens. C11 and C++17. */
#include "packets.h"

static netmem_lane lane;

static void open_lane(void)
{
    open_heads();
    CHECK(netmem_lane_open(worker, 64, &lane) == 0);
}

/* Each plants one misuse in a fresh state, in which the worker is the sender, and returns what the call said. */
static netmem_packet sent(void)
{
    netmem_packet packet = a_packet("sent");
    CHECK(netmem_lane_send_packets(worker, lane, &packet, 1) == 1);
    return packet;
}

static int freed_after_it_was_sent(void)
{
    netmem_packet packet = sent();
    return netmem_packet_free(worker, &packet, 1);
}

static int freed_by_its_heads_after_it_was_sent(void)
{
    netmem_packet packet = sent();
    return netmem_heads_free(worker, heads, &packet, 1);
}

static int read_after_it_was_sent(void)
{
    return netmem_packet_len(worker, sent());
}

static int written_after_it_was_sent(void)
{
    CHECK(netmem_packet_write(worker, sent()) == NULL);
    return -ESTALE;
}

static int detached_after_it_was_sent(void)
{
    netmem_packet packet = sent();
    return netmem_packet_detach(worker, &packet, 1);
}

static int appended_after_it_was_sent(void)
{
    netmem_packet other = a_packet(""), packet = sent();
    int said = netmem_packet_append(worker, other, packet);
    CHECK(netmem_packet_free(worker, &other, 1) == 0);
    return said;
}

static int sent_twice(void)
{
    netmem_packet packet = sent();
    return netmem_lane_send_packets(worker, lane, &packet, 1);
}

/* The first time it goes. */
static int sent_twice_in_one_burst(void)
{
    netmem_packet packet = a_packet("once"), twice[3] = {packet, packet, a_packet("stays")};
    CHECK(netmem_lane_send_packets(worker, lane, twice, 3) == 1);
    CHECK(netmem_packet_free(worker, twice + 2, 1) == 0);
    return -ESTALE;
}

static int sent_after_free(void)
{
    netmem_packet packet = a_packet("");
    CHECK(netmem_packet_free(worker, &packet, 1) == 0);
    return netmem_lane_send_packets(worker, lane, &packet, 1);
}

static int a_part_of_another_sent(void)
{
    netmem_packet packet = a_packet(""), part = a_packet("");
    CHECK(netmem_packet_append(worker, packet, part) == 0);
    int said = netmem_lane_send_packets(worker, lane, &part, 1);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0);
    return said;
}

static int sent_after_detach(void)
{
    netmem_packet packet = a_packet(""), before = packet;
    CHECK(netmem_packet_detach(worker, &packet, 1) == 1);
    int said = netmem_lane_send_packets(worker, lane, &before, 1);
    CHECK(netmem_packet_attach(worker, &packet, 1) == 1 && netmem_packet_free(worker, &packet, 1) == 0);
    return said;
}

static int a_frame_sent_as_a_packet(void)
{
    netmem_frame frame = one();
    netmem_packet packet = {frame.word};
    int said = netmem_lane_send_packets(worker, lane, &packet, 1);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int a_packet_sent_as_a_frame(void)
{
    netmem_packet packet = a_packet("");
    netmem_frame frame = {packet.word};
    int said = netmem_lane_send(worker, lane, &frame, 1);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0);
    return said;
}

static int made_up_packet_sent(void)
{
    netmem_packet packet = {0x01234567c0abcdef};
    return netmem_lane_send_packets(worker, lane, &packet, 1);
}

static int another_workers_packet_sent(void)
{
    netmem_worker second;
    netmem_packet packet;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_packet_alloc(second, heads, pool, &packet, 1) == 1);
    int said = netmem_lane_send_packets(worker, lane, &packet, 1);
    CHECK(netmem_packet_free(second, &packet, 1) == 0 && netmem_worker_close(second) == 0);
    return said;
}

/* By the word under which the sender had it. */
static int used_by_its_old_word_after_it_was_received(void)
{
    netmem_packet old = sent(), packet;
    CHECK(netmem_lane_join(worker, lane) == 0 && netmem_lane_receive_packets(worker, lane, &packet, 1) == 1);
    int said = netmem_packet_len(worker, old);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0);
    return said;
}

static int received_by_who_has_not_joined(void)
{
    netmem_packet packet;
    return netmem_lane_receive_packets(worker, lane, &packet, 1);
}

static int sent_by_another_worker(void)
{
    netmem_worker second;
    netmem_packet packet;
    CHECK(netmem_worker_open(memory, &second) == 0 && netmem_packet_alloc(second, heads, pool, &packet, 1) == 1);
    int said = netmem_lane_send_packets(second, lane, &packet, 1);
    CHECK(netmem_packet_free(second, &packet, 1) == 0 && netmem_worker_close(second) == 0);
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
    netmem_packet packet = a_packet("");
    int said = netmem_lane_send_packets(worker, a_closed_one(), &packet, 1);
    CHECK(netmem_packet_free(worker, &packet, 1) == 0);
    return said;
}

static int received_by_a_closed_lane(void)
{
    netmem_packet packet;
    return netmem_lane_receive_packets(worker, a_closed_one(), &packet, 1);
}

static const struct {
    const char *name;
    int (*plant)(void);
    int says;
    const char *kind;
} CASES[] = {
#define CASE(plant, says, kind) {#plant, plant, says, kind}
    CASE(freed_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(freed_by_its_heads_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(read_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(written_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(detached_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(appended_after_it_was_sent, -ESTALE, "used_after_move"),
    CASE(sent_twice, -ESTALE, "used_after_move"),
    CASE(sent_twice_in_one_burst, -ESTALE, "used_after_move"),
    CASE(sent_after_free, -ESTALE, "used_after_free"),
    CASE(a_part_of_another_sent, -ESTALE, "used_after_move"),
    CASE(sent_after_detach, -EPERM, "detached"),
    CASE(a_frame_sent_as_a_packet, -EBADF, "made_up"),
    CASE(a_packet_sent_as_a_frame, -EBADF, "made_up"),
    CASE(made_up_packet_sent, -EBADF, "made_up"),
    CASE(another_workers_packet_sent, -EPERM, "wrong_worker"),
    CASE(used_by_its_old_word_after_it_was_received, -ESTALE, "stale"),
    CASE(received_by_who_has_not_joined, -EPERM, "wrong_worker"),
    CASE(sent_by_another_worker, -EPERM, "wrong_worker"),
    CASE(sent_by_a_closed_lane, -ESTALE, "closed"),
    CASE(received_by_a_closed_lane, -ESTALE, "closed"),
};

int main(void)
{
    int failed = 0;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
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
        close_heads();
    }
    printf("%zu kinds of misuse, %d not found\n", sizeof CASES / sizeof *CASES, failed);
    return failed != 0;
}
