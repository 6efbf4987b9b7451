/* When packets were recorded: usage: timestamps kept|refused|"no room", or timestamps capture IN OUT. C11 and C++17. */
#include "packets.h"

#define SECOND UINT64_C(1000000000)

static netmem_frame with_data(void)
{
    netmem_frame frame = one();
    CHECK(netmem_put(worker, frame, 60) != NULL);
    return frame;
}

static uint32_t headroom(netmem_frame frame)
{
    netmem_span span;
    CHECK(netmem_spans(worker, &frame, 1, &span) == 0);
    return span.headroom;
}

/* A time is read as it was set, and goes with a frame through all that it becomes. */
static void kept(void)
{
    static const uint64_t TIMES[] = {0, 1, 1600000000 * SECOND + 7, UINT64_MAX - 1};
    const uint64_t was = TIMES[2];
    uint64_t now = 5;
    netmem_frame frame = with_data();
    netmem_packet packet;
    netmem_raw raw;
    CHECK(netmem_get_timestamp(worker, frame, &now) == 0 && now == NETMEM_NO_TIMESTAMP);
    for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        CHECK(netmem_set_timestamp(worker, frame, TIMES[i]) == 0);
        CHECK(netmem_get_timestamp(worker, frame, &now) == 1 && now == TIMES[i]);
    }
    CHECK(netmem_set_timestamp(worker, frame, was) == 0 && netmem_push(worker, frame, 4) != NULL && netmem_pull(worker, frame, 18) != NULL);
    CHECK(netmem_get_timestamp(worker, frame, &now) == 1 && now == was);
    CHECK(netmem_packet_from_frames(worker, heads, &frame, &packet, 1) == 1);
    CHECK(netmem_packet_get_timestamp(worker, packet, &now) == 1 && now == was);
    CHECK(netmem_packet_into_frames(worker, &packet, &frame, 1) == 1 && netmem_raw_from_frames(worker, &frame, &raw, 1) == 1);
    CHECK(netmem_raw_get_timestamp(raw, &now) == 1 && now == was && raw.word >> 47 & 1);
    CHECK(netmem_raw_set_timestamp(&raw, 9) == 0 && netmem_raw_get_timestamp(raw, &now) == 1 && now == 9);
    CHECK(netmem_raw_set_timestamp(&raw, NETMEM_NO_TIMESTAMP) == 0 && netmem_raw_get_timestamp(raw, &now) == 0 && now == NETMEM_NO_TIMESTAMP);
    CHECK(!(raw.word >> 47 & 1) && netmem_raw_into_frames(worker, &raw, &frame, 1) == 1);
    CHECK(netmem_set_timestamp(worker, frame, was) == 0 && netmem_set_timestamp(worker, frame, NETMEM_NO_TIMESTAMP) == 0);
    CHECK(netmem_get_timestamp(worker, frame, &now) == 0 && netmem_free(worker, &frame, 1) == 0 && all_misuses() == 0);
    packet = a_packet("without");
    CHECK(netmem_packet_get_timestamp(worker, packet, &now) == 0 && now == NETMEM_NO_TIMESTAMP && netmem_packet_free(worker, &packet, 1) == 0);
}

/* Handles that are over, words that are 0, and places that are NULL, by each call. */
static void refused(void)
{
    uint64_t now = 5;
    netmem_frame frame = with_data();
    netmem_packet packet = a_packet("x");
    netmem_raw raw, none = {0};
    CHECK(netmem_raw_alloc(worker, pool, &raw, 1) == 1);
    CHECK(netmem_get_timestamp(worker, frame, NULL) == -EFAULT && strstr(netmem_last_error(), "nanoseconds is NULL"));
    CHECK(netmem_packet_get_timestamp(worker, packet, NULL) == -EFAULT && netmem_raw_get_timestamp(raw, NULL) == -EFAULT);
    CHECK(netmem_raw_set_timestamp(NULL, 1) == -EFAULT && all_misuses() == 0);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_packet_free(worker, &packet, 1) == 0 && netmem_raw_free(worker, &raw, 1) == 0);
    CHECK(netmem_get_timestamp(worker, frame, &now) == -ESTALE && netmem_set_timestamp(worker, frame, 1) == -ESTALE);
    CHECK(netmem_packet_get_timestamp(worker, packet, &now) == -ESTALE && misuses("used_after_free") == 3);
    CHECK(netmem_raw_get_timestamp(none, &now) == -EBADF && netmem_raw_set_timestamp(&none, 1) == -EBADF);
    CHECK(misuses("made_up") == 2 && all_misuses() == 5 && now == 5);
}

/* A frame without data, or without headroom, takes no time, and stays as it is. */
static void no_room(void)
{
    uint64_t now;
    netmem_frame frame = one();
    netmem_raw raw;
    CHECK(netmem_set_timestamp(worker, frame, 1) == -ENOBUFS && strstr(netmem_last_error(), "netmem_set_timestamp: 1 byte wanted"));
    CHECK(netmem_push(worker, frame, headroom(frame) - 17) != NULL);
    CHECK(netmem_set_timestamp(worker, frame, 1) == -ENOBUFS && strstr(netmem_last_error(), "18 bytes wanted where there are 17"));
    CHECK(netmem_get_timestamp(worker, frame, &now) == 0 && headroom(frame) == 17);
    CHECK(netmem_raw_from_frames(worker, &frame, &raw, 1) == 1 && netmem_raw_set_timestamp(&raw, 1) == -ENOBUFS);
    CHECK(netmem_raw_free(worker, &raw, 1) == 0 && all_misuses() == 0);
}

/* The packets of a capture have its times, as many seconds as packets before, and are written with those that they get. */
static int capture(const char *in, const char *out)
{
    char text[2][512];
    netmem_port ports[2];
    netmem_frame frames[64];
    uint64_t now, packets = 0;
    snprintf(text[0], sizeof text[0], "pcap:in=%s,timestamps=recorded", in);
    snprintf(text[1], sizeof text[1], "pcap:out=%s", out);
    open_heads();
    for (int i = 0; i < 2; i++)
        CHECK(netmem_port_open(worker, pool, text[i], NULL, &ports[i]) == 0);
    while (!netmem_port_finished(worker, ports[0])) {
        CHECK(netmem_port_refill(worker, ports[0], pool) >= 0 && netmem_port_kick(worker, ports[0]) == 0);
        int n = netmem_port_rx(worker, ports[0], frames, 64);
        for (int i = 0; i < n; i++, packets++) {
            CHECK(headroom(frames[i]) >= 64 && netmem_get_timestamp(worker, frames[i], &now) == 1 && now == packets * SECOND);
            CHECK(netmem_set_timestamp(worker, frames[i], now + 1000 * SECOND) == 0);
        }
        CHECK(n >= 0 && netmem_port_tx(worker, ports[1], frames, (uint32_t)n) == n);
        CHECK(netmem_port_kick(worker, ports[1]) == 0 && netmem_port_complete(worker, ports[1]) >= 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(netmem_port_close(worker, ports[i]) == 0);
    close_heads();
    printf("%d packets\n", (int)packets);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct test_case ALL[] = {{"kept", kept}, {"refused", refused}, {"no room", no_room}};
    CHECK(argc >= 2 && netmem_set_policy(NETMEM_COUNT) == 0);
    if (argc == 4 && strcmp(argv[1], "capture") == 0)
        return capture(argv[2], argv[3]);
    return run_case(ALL, sizeof ALL / sizeof *ALL, argv[1], open_heads, close_heads);
}
