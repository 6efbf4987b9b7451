/* Every kind of misuse of packets and shared frames, planted once: the call returns the errno, one counter moves by one, and nothing else happens. */
#include "packets.h"
#include <pthread.h>

static void free_packet(netmem_packet packet)
{
    CHECK(netmem_packet_free(worker, &packet, 1) == 0);
}

static void free_shared(netmem_shared shared)
{
    CHECK(netmem_shared_free(worker, &shared, 1) == 0);
}

static netmem_packet freed(void)
{
    netmem_packet packet = a_packet("");
    free_packet(packet);
    return packet;
}

static netmem_shared freed_shared(void)
{
    netmem_shared shared = a_shared("x");
    free_shared(shared);
    return shared;
}

/* Each plants one misuse in a fresh state and returns what the call said. */
static int packet_freed_twice(void)
{
    netmem_packet packet = freed();
    return netmem_packet_free(worker, &packet, 1);
}

static int packet_freed_twice_in_one_burst(void)
{
    netmem_packet packet = a_packet(""), twice[3] = {packet, a_packet(""), packet};
    return netmem_packet_free(worker, twice, 3);
}

static int packet_freed_twice_by_its_heads(void)
{
    netmem_packet packet = freed();
    return netmem_heads_free(worker, heads, &packet, 1);
}

static int shared_freed_twice(void)
{
    netmem_shared shared = freed_shared();
    return netmem_shared_free(worker, &shared, 1);
}

/* The other claim is untouched by that. */
static int shared_freed_twice_in_one_burst(void)
{
    netmem_shared shared = a_shared("x"), second;
    CHECK(netmem_shared_clone(worker, shared, &second) == 0);
    netmem_shared twice[2] = {shared, shared};
    int said = netmem_shared_free(worker, twice, 2);
    CHECK(netmem_shared_holders(worker, second) == 1);
    free_shared(second);
    return said;
}

static int packet_length_after_free(void)
{
    return netmem_packet_len(worker, freed());
}

static int packet_parts_after_free(void)
{
    netmem_part part;
    return netmem_packet_parts(worker, freed(), &part, 1);
}

static int first_parts_after_free(void)
{
    netmem_packet packets[2] = {a_packet("good"), freed()};
    netmem_part parts[2];
    int said = netmem_packet_first_parts(worker, packets, 2, parts);
    CHECK(parts[0].len == 4 && memcmp(parts[0].data, "good", 4) == 0 && parts[1].data == NULL && parts[1].len == 0);
    CHECK(netmem_packet_free(worker, packets, 1) == 0);
    return said;
}

static int packet_read_after_free(void)
{
    CHECK(netmem_packet_data(worker, freed()) == NULL);
    return 0;
}

static int packet_written_after_free(void)
{
    CHECK(netmem_packet_write(worker, freed()) == NULL);
    return 0;
}

static int packet_put_after_free(void)
{
    CHECK(netmem_packet_put(worker, freed(), 1) == NULL);
    return 0;
}

static int packet_put_in_a_burst_after_free(void)
{
    netmem_packet packets[2] = {{0}, a_packet("good")};
    packets[0] = freed();
    uint32_t lens[2] = {1, 2};
    void *to[2];
    int said = netmem_packet_put_each(worker, packets, lens, 2, to);
    CHECK(to[0] == NULL && to[1] != NULL && netmem_packet_len(worker, packets[1]) == 6);
    CHECK(netmem_packet_free(worker, packets + 1, 1) == 0);
    return said;
}

static int packet_split_after_free(void)
{
    netmem_packet rest;
    return netmem_packet_split(worker, freed(), 0, &rest);
}

static int packet_shared_after_free(void)
{
    netmem_packet second;
    return netmem_packet_share(worker, freed(), &second);
}

static int packet_linearized_after_free(void)
{
    return netmem_packet_linearize(worker, freed(), pool);
}

static int packet_made_frames_after_free(void)
{
    netmem_packet packet = freed();
    netmem_frame frame;
    return netmem_packet_into_frames(worker, &packet, &frame, 1);
}

static int packet_detached_after_free(void)
{
    netmem_packet packet = freed();
    return netmem_packet_detach(worker, &packet, 1);
}

/* What was to be appended stays the caller's. */
static int appended_to_a_freed_packet(void)
{
    netmem_packet other = a_packet("kept");
    int said = netmem_packet_append(worker, freed(), other);
    CHECK(says(other, "kept"));
    free_packet(other);
    return said;
}

static int a_freed_packet_appended(void)
{
    netmem_packet packet = a_packet("kept");
    int said = netmem_packet_append(worker, packet, freed());
    CHECK(says(packet, "kept"));
    free_packet(packet);
    return said;
}

static int shared_read_after_free(void)
{
    CHECK(netmem_shared_data(worker, freed_shared()) == NULL);
    return 0;
}

static int shared_cloned_after_free(void)
{
    netmem_shared clone;
    return netmem_shared_clone(worker, freed_shared(), &clone);
}

static int shared_made_a_frame_after_free(void)
{
    netmem_frame frame;
    return netmem_shared_into_frame(worker, freed_shared(), &frame);
}

static int used_after_it_was_appended(void)
{
    netmem_packet packet = a_packet("a"), other = a_packet("b");
    CHECK(netmem_packet_append(worker, packet, other) == 0);
    int said = netmem_packet_len(worker, other);
    free_packet(packet);
    return said;
}

static int freed_after_it_was_appended(void)
{
    netmem_packet packet = a_packet("a"), other = a_packet("b");
    CHECK(netmem_packet_append(worker, packet, other) == 0);
    int said = netmem_packet_free(worker, &other, 1);
    CHECK(says(packet, "ab"));
    free_packet(packet);
    return said;
}

static int frame_freed_after_it_became_a_packet(void)
{
    netmem_frame frame = one();
    netmem_packet packet;
    CHECK(netmem_packet_from_frames(worker, heads, &frame, &packet, 1) == 1);
    int said = netmem_free(worker, &frame, 1);
    free_packet(packet);
    return said;
}

static int frame_made_a_packet_twice_in_one_burst(void)
{
    netmem_frame frame = one(), twice[2] = {frame, frame};
    netmem_packet packets[2];
    int said = netmem_packet_from_frames(worker, heads, twice, packets, 2);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int frame_used_after_it_was_shared(void)
{
    netmem_frame frame = one();
    netmem_shared shared;
    CHECK(netmem_share(worker, &frame, &shared, 1) == 1);
    CHECK(netmem_data(worker, frame) == NULL);
    free_shared(shared);
    return 0;
}

static int shared_used_after_it_became_a_packet(void)
{
    netmem_shared shared = a_shared("x");
    netmem_packet packet;
    CHECK(netmem_packet_from_shared(worker, heads, shared, &packet) == 0);
    int said = netmem_shared_len(worker, shared);
    free_packet(packet);
    return said;
}

static int packet_used_after_it_became_a_frame(void)
{
    netmem_packet packet = a_packet("");
    netmem_frame frame;
    CHECK(netmem_packet_into_frames(worker, &packet, &frame, 1) == 1);
    int said = netmem_packet_pull(worker, packet, 0);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static netmem_port port;

static netmem_packet sent(void)
{
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0);
    netmem_packet packet = a_packet("sent"), gone = packet;
    CHECK(netmem_port_tx_packets(worker, port, &packet, 1) == 1);
    return gone;
}

static int done_with(int said)
{
    netmem_port_complete(worker, port);
    CHECK(netmem_port_close(worker, port) == 0);
    return said;
}

static int packet_read_after_tx(void)
{
    return done_with(netmem_packet_len(worker, sent()));
}

static int packet_freed_after_tx(void)
{
    netmem_packet packet = sent();
    return done_with(netmem_packet_free(worker, &packet, 1));
}

static int packet_sent_twice(void)
{
    netmem_packet packet = sent();
    return done_with(netmem_port_tx_packets(worker, port, &packet, 1));
}

static int packet_sent_twice_in_one_burst(void)
{
    sent();
    netmem_packet packet = a_packet("again"), twice[3] = {a_packet("first"), packet, packet};
    int said = netmem_port_tx_packets(worker, port, twice, 3);
    CHECK(says(packet, "again") && says(twice[0], "first"));
    CHECK(netmem_packet_free(worker, twice, 2) == 0);
    return done_with(said);
}

static int packet_given_to_a_closed_port(void)
{
    sent();
    done_with(0);
    netmem_packet packet = a_packet("");
    int said = netmem_port_tx_packets(worker, port, &packet, 1);
    free_packet(packet);
    return said;
}

static int freed_after_its_place_was_given_out_again(void)
{
    netmem_packet old = freed(), again = a_packet("new");
    CHECK((uint32_t)old.word == (uint32_t)again.word && old.word != again.word);
    int said = netmem_packet_free(worker, &old, 1);
    CHECK(says(again, "new"));
    free_packet(again);
    return said;
}

static int packet_whose_place_is_a_shared_frame_now(void)
{
    netmem_packet old = freed();
    netmem_shared shared = a_shared("x");
    CHECK((uint32_t)old.word << 3 == (uint32_t)shared.word << 3);
    int said = netmem_packet_free(worker, &old, 1);
    CHECK(netmem_shared_len(worker, shared) == 1);
    free_shared(shared);
    return said;
}

static int packet_as_a_shared_frame(void)
{
    netmem_packet packet = a_packet("");
    netmem_shared shared = {packet.word};
    int said = netmem_shared_free(worker, &shared, 1);
    free_packet(packet);
    return said;
}

static int shared_frame_as_a_packet(void)
{
    netmem_shared shared = a_shared("x");
    netmem_packet packet = {shared.word};
    int said = netmem_packet_free(worker, &packet, 1);
    free_shared(shared);
    return said;
}

static int frame_as_a_packet(void)
{
    netmem_frame frame = one();
    netmem_packet packet = {frame.word};
    int said = netmem_packet_free(worker, &packet, 1);
    CHECK(netmem_free(worker, &frame, 1) == 0);
    return said;
}

static int packet_as_a_frame(void)
{
    netmem_packet packet = a_packet("");
    netmem_frame frame = {packet.word};
    int said = netmem_free(worker, &frame, 1);
    free_packet(packet);
    return said;
}

static int made_up_packet(void)
{
    netmem_packet packet = {0x01234567c9abcdef};
    return netmem_packet_free(worker, &packet, 1);
}

static int made_up_shared(void)
{
    netmem_shared shared = {0x01234567e9abcdef};
    return netmem_shared_free(worker, &shared, 1);
}

static int no_packet_at_all(void)
{
    netmem_packet packet = {0};
    return netmem_packet_len(worker, packet);
}

static int packet_of_the_use_to_come(void)
{
    netmem_packet packet = a_packet(""), next = {packet.word + (1ull << 39)};
    free_packet(packet);
    return netmem_packet_free(worker, &next, 1);
}

static int packet_freed_to_other_heads(void)
{
    netmem_heads other;
    CHECK(netmem_heads_open(worker, NULL, &other) == 0);
    netmem_packet packet = a_packet("");
    int said = netmem_heads_free(worker, other, &packet, 1);
    CHECK(netmem_heads_free(worker, heads, &packet, 1) == 0 && netmem_heads_close(other) == 0);
    return said;
}

static int allocated_by_closed_heads(void)
{
    netmem_heads other;
    netmem_packet packet;
    CHECK(netmem_heads_open(worker, NULL, &other) == 0 && netmem_heads_close(other) == 0);
    return netmem_packet_alloc(worker, other, pool, &packet, 1);
}

static int by_heads_of_another_memory(void)
{
    netmem_memory memory2;
    netmem_worker worker2;
    netmem_pool pool2;
    netmem_packet packet;
    CHECK(netmem_memory_open(NULL, &memory2) == 0 && netmem_worker_open(memory2, &worker2) == 0);
    CHECK(netmem_pool_open(worker2, NULL, &pool2) == 0);
    int said = netmem_packet_alloc(worker2, heads, pool2, &packet, 1);
    CHECK(netmem_pool_close(pool2, 1000) == 0 && netmem_worker_close(worker2) == 0);
    CHECK(netmem_memory_close(memory2, 1000) == 0);
    return said;
}

static int linearized_by_a_closed_pool(void)
{
    netmem_pool other;
    netmem_packet packet = a_packet("");
    CHECK(netmem_pool_open(worker, NULL, &other) == 0 && netmem_pool_close(other, 1000) == 0);
    int said = netmem_packet_linearize(worker, packet, other);
    free_packet(packet);
    return said;
}

static int packet_used_by_another_worker(void)
{
    netmem_worker second;
    netmem_packet packet = a_packet("");
    CHECK(netmem_worker_open(memory, &second) == 0);
    int said = netmem_packet_free(second, &packet, 1);
    CHECK(netmem_worker_close(second) == 0);
    free_packet(packet);
    return said;
}

static int packet_used_while_detached(void)
{
    netmem_packet packet = a_packet("");
    CHECK(netmem_packet_detach(worker, &packet, 1) == 1);
    int said = netmem_packet_len(worker, packet);
    CHECK(netmem_packet_attach(worker, &packet, 1) == 1);
    free_packet(packet);
    return said;
}

static int shared_attached_twice(void)
{
    netmem_shared shared = a_shared("x");
    CHECK(netmem_shared_detach(worker, &shared, 1) == 1);
    netmem_shared again = shared;
    CHECK(netmem_shared_attach(worker, &shared, 1) == 1);
    int said = netmem_shared_attach(worker, &again, 1);
    free_shared(shared);
    return said;
}

static void *free_elsewhere(void *packet)
{
    netmem_packet *at = (netmem_packet *)packet;
    at->word = (uint64_t)-netmem_packet_free(worker, at, 1);
    return NULL;
}

static int by_another_thread(void)
{
    pthread_t thread;
    netmem_packet packet = a_packet(""), there = packet;
    CHECK(pthread_create(&thread, NULL, free_elsewhere, &there) == 0 && pthread_join(thread, NULL) == 0);
    free_packet(packet);
    return -(int)there.word;
}

static int kept_over_a_reclaim(void)
{
    netmem_packet packet = a_packet("a");
    CHECK(netmem_packet_append(worker, packet, a_packet("b")) == 0);
    a_shared("x");
    CHECK(netmem_worker_held(worker) == 2 && netmem_worker_reclaim(worker) == 2);
    return netmem_packet_len(worker, packet);
}

static int kept_over_a_close(void)
{
    netmem_packet packet = freed();
    close_heads();
    open_heads();
    return netmem_packet_len(worker, packet);
}

static const struct {
    const char *name;
    int (*plant)(void);
    int says;
    const char *kind;
} CASES[] = {
#define CASE(plant, says, kind) {#plant, plant, says, kind}
    CASE(packet_freed_twice, -ESTALE, "freed_twice"),
    CASE(packet_freed_twice_in_one_burst, -ESTALE, "freed_twice"),
    CASE(packet_freed_twice_by_its_heads, -ESTALE, "freed_twice"),
    CASE(shared_freed_twice, -ESTALE, "freed_twice"),
    CASE(shared_freed_twice_in_one_burst, -ESTALE, "freed_twice"),
    CASE(packet_length_after_free, -ESTALE, "used_after_free"),
    CASE(packet_parts_after_free, -ESTALE, "used_after_free"),
    CASE(first_parts_after_free, -ESTALE, "used_after_free"),
    CASE(packet_read_after_free, 0, "used_after_free"),
    CASE(packet_written_after_free, 0, "used_after_free"),
    CASE(packet_put_after_free, 0, "used_after_free"),
    CASE(packet_put_in_a_burst_after_free, -ESTALE, "used_after_free"),
    CASE(packet_split_after_free, -ESTALE, "used_after_free"),
    CASE(packet_shared_after_free, -ESTALE, "used_after_free"),
    CASE(packet_linearized_after_free, -ESTALE, "used_after_free"),
    CASE(packet_made_frames_after_free, -ESTALE, "used_after_free"),
    CASE(packet_detached_after_free, -ESTALE, "used_after_free"),
    CASE(appended_to_a_freed_packet, -ESTALE, "used_after_free"),
    CASE(a_freed_packet_appended, -ESTALE, "used_after_free"),
    CASE(shared_read_after_free, 0, "used_after_free"),
    CASE(shared_cloned_after_free, -ESTALE, "used_after_free"),
    CASE(shared_made_a_frame_after_free, -ESTALE, "used_after_free"),
    CASE(used_after_it_was_appended, -ESTALE, "used_after_move"),
    CASE(freed_after_it_was_appended, -ESTALE, "used_after_move"),
    CASE(frame_freed_after_it_became_a_packet, -ESTALE, "used_after_move"),
    CASE(frame_made_a_packet_twice_in_one_burst, -ESTALE, "used_after_move"),
    CASE(frame_used_after_it_was_shared, 0, "used_after_move"),
    CASE(shared_used_after_it_became_a_packet, -ESTALE, "used_after_move"),
    CASE(packet_used_after_it_became_a_frame, -ESTALE, "used_after_move"),
    CASE(packet_read_after_tx, -ESTALE, "used_after_tx"),
    CASE(packet_freed_after_tx, -ESTALE, "used_after_tx"),
    CASE(packet_sent_twice, -ESTALE, "used_after_tx"),
    CASE(packet_sent_twice_in_one_burst, -ESTALE, "used_after_tx"),
    CASE(packet_given_to_a_closed_port, -ESTALE, "closed"),
    CASE(freed_after_its_place_was_given_out_again, -ESTALE, "stale"),
    CASE(packet_whose_place_is_a_shared_frame_now, -ESTALE, "stale"),
    CASE(packet_as_a_shared_frame, -EBADF, "made_up"),
    CASE(shared_frame_as_a_packet, -EBADF, "made_up"),
    CASE(frame_as_a_packet, -EBADF, "made_up"),
    CASE(packet_as_a_frame, -EBADF, "made_up"),
    CASE(made_up_packet, -EBADF, "made_up"),
    CASE(made_up_shared, -EBADF, "made_up"),
    CASE(no_packet_at_all, -EBADF, "made_up"),
    CASE(packet_of_the_use_to_come, -EBADF, "made_up"),
    CASE(packet_freed_to_other_heads, -EXDEV, "wrong_cache"),
    CASE(allocated_by_closed_heads, -ESTALE, "closed"),
    CASE(by_heads_of_another_memory, -EXDEV, "wrong_memory"),
    CASE(linearized_by_a_closed_pool, -ESTALE, "closed"),
    CASE(packet_used_by_another_worker, -EPERM, "wrong_worker"),
    CASE(packet_used_while_detached, -EPERM, "detached"),
    CASE(shared_attached_twice, -ESTALE, "stale"),
    CASE(by_another_thread, -EPERM, "wrong_thread"),
    CASE(kept_over_a_reclaim, -ESTALE, "used_after_free"),
    CASE(kept_over_a_close, -ESTALE, "used_after_free"),
};

/* With both places, as of a frame. */
static void a_report_says_where_it_was_given_out_and_freed(void)
{
    open_heads();
    CHECK(netmem_trace(1) == 0);
    netmem_packet packet = a_packet("x");
    netmem_shared shared = a_shared("x");
    free_packet(packet);
    CHECK(netmem_packet_len(worker, packet) == -ESTALE && strstr(netmem_last_error(), "used_after_free: packet 0x") != NULL);
    CHECK(strstr(netmem_last_error(), "last given out at") != NULL && strstr(netmem_last_error(), "packet_misuse.c:") != NULL);
    netmem_frame frame;
    CHECK(netmem_shared_into_frame(worker, shared, &frame) == 0 && netmem_shared_free(worker, &shared, 1) == -ESTALE);
    CHECK(strstr(netmem_last_error(), "used_after_move: shared frame 0x") != NULL && strstr(netmem_last_error(), "last given back at") != NULL);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_trace(0) == 0);
    close_heads();
}

int main(void)
{
    int failed = 0;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    a_report_says_where_it_was_given_out_and_freed();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_heads();
        uint64_t all = all_misuses(), kind = misuses(CASES[i].kind);
        int said = CASES[i].plant();
        int seen = said == CASES[i].says && all_misuses() == all + 1 && misuses(CASES[i].kind) == kind + 1;
        if (!seen)
            printf("NOT FOUND: %s: %d, %s\n", CASES[i].name, said, netmem_last_error());
        failed += !seen;
        check_home();
        CHECK(netmem_worker_held(worker) == 0);
        close_heads();
    }
    printf("%zu kinds of misuse, %d not found\n", sizeof CASES / sizeof *CASES, failed);
    return failed != 0;
}
