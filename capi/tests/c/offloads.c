/* What a sender leaves to its card, without a network: usage: offloads NAME, of the list at the end. C11 and C++17. */
#include "inet.h"

/* What a field must not be, and what the line says about it. */
static const struct {
    netmem_offload offload;
    const char *text;
} WRONG[] = {
    {{2, 34, 6, 0, 0, {0, 0, 0, 0}}, "netmem_offload.checksum is 2: give 0 or 1"},
    {{0, 34, 0, 0, 0, {0, 0, 0, 0}}, "netmem_offload.checksum is 0, and checksum_start or checksum_offset is not"},
    {{0, 0, 6, 0, 0, {0, 0, 0, 0}}, "netmem_offload.checksum is 0, and checksum_start or checksum_offset is not"},
    {{1, 34, 6, 4, 100, {0, 0, 0, 0}}, "netmem_offload.gso is 4: give one of NETMEM_GSO_NONE to NETMEM_GSO_UDP"},
    {{1, 34, 6, UINT32_MAX, 100, {0, 0, 0, 0}}, "netmem_offload.gso is 4294967295"},
    {{1, 34, 6, 9, 0, {0, 0, 0, 0}}, "netmem_offload.gso is 9: give one of"},
    {{1, 34, 6, 9, 65536, {0, 0, 0, 0}}, "netmem_offload.gso is 9: give one of"},
    {{1, 34, 6, NETMEM_GSO_UDP, 0, {0, 0, 0, 0}}, "netmem_offload.gso_size is 0: the segments would be empty"},
    {{1, 34, 6, NETMEM_GSO_UDP, 65536, {0, 0, 0, 0}}, "netmem_offload.gso_size is 65536"},
    {{1, 34, 6, NETMEM_GSO_NONE, 100, {0, 0, 0, 0}}, "netmem_offload.gso_size is 100, and gso is NETMEM_GSO_NONE"},
    {{1, 34, 6, 0, 0, {0, 0, 0, 9}}, "netmem_offload.reserved[3] is 9"},
    {{1, 34, 7, 0, 0, {0, 0, 0, 0}}, "a checksum at byte 34 + 7 of a packet of 42 bytes"},
    {{1, 41, 0, 0, 0, {0, 0, 0, 0}}, "a checksum at byte 41 + 0 of a packet of 42 bytes"},
    {{1, UINT16_MAX, UINT16_MAX, 0, 0, {0, 0, 0, 0}}, "a checksum at byte 65535 + 65535 of a packet of 42 bytes"},
};

/* Each wrong value is refused of a frame, a packet and a raw frame, which stay as they are. */
static void wrong_values(void)
{
    const netmem_offload was = open_checksum(1);
    netmem_offload now;
    netmem_frame frame = a_datagram(pool, 1, 0), twin[2] = {a_datagram(pool, 1, 0), a_datagram(pool, 1, 0)};
    netmem_packet packet;
    netmem_raw raw;
    CHECK(netmem_packet_from_frames(worker, heads, &twin[0], &packet, 1) == 1);
    CHECK(netmem_raw_from_frames(worker, &twin[1], &raw, 1) == 1);
    CHECK(netmem_set_offload(worker, frame, &was) == 0 && netmem_packet_set_offload(worker, packet, &was) == 0);
    CHECK(netmem_raw_set_offload(&raw, &was) == 0);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        CHECK(netmem_set_offload(worker, frame, &WRONG[i].offload) == -EINVAL && text_has(WRONG[i].text));
        CHECK(netmem_packet_set_offload(worker, packet, &WRONG[i].offload) == -EINVAL && text_has(WRONG[i].text));
        CHECK(netmem_raw_set_offload(&raw, &WRONG[i].offload) == -EINVAL && text_has(WRONG[i].text));
    }
    CHECK(netmem_set_offload(worker, frame, NULL) == -EFAULT && text_has("offload is NULL"));
    CHECK(netmem_get_offload(worker, frame, NULL) == -EFAULT && netmem_packet_get_offload(worker, packet, NULL) == -EFAULT);
    CHECK(netmem_packet_set_offload(worker, packet, NULL) == -EFAULT && netmem_raw_set_offload(&raw, NULL) == -EFAULT);
    CHECK(netmem_raw_get_offload(raw, NULL) == -EFAULT && netmem_raw_set_offload(NULL, &was) == -EFAULT);
    CHECK(netmem_raw_finish_checksum(NULL) == -EFAULT);
    CHECK(netmem_get_offload(worker, frame, &now) == 1 && is_same(&now, &was));
    CHECK(netmem_packet_get_offload(worker, packet, &now) == 1 && is_same(&now, &was));
    CHECK(netmem_raw_get_offload(raw, &now) == 1 && is_same(&now, &was) && all_misuses() == 0);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_packet_free(worker, &packet, 1) == 0 && netmem_raw_free(worker, &raw, 1) == 0);
}

/* An offload is read as it was set, moves with the data, and goes with a frame through all that it becomes. */
static void kept(void)
{
    static const uint32_t KINDS[] = {NETMEM_GSO_TCP4, NETMEM_GSO_TCP6, NETMEM_GSO_UDP};
    netmem_offload was = segments_of(NETMEM_GSO_TCP4, 65535), now, none;
    netmem_frame frame = a_datagram(pool, 0, 100);
    netmem_packet packet;
    netmem_raw raw;
    memset(&none, 0, sizeof none);
    memset(&now, 0x12, sizeof now);
    CHECK(netmem_get_offload(worker, frame, &now) == 0 && is_same(&now, &none));
    for (size_t i = 0; i < 3; i++) {
        was.gso = KINDS[i];
        CHECK(netmem_set_offload(worker, frame, &was) == 0 && netmem_get_offload(worker, frame, &now) == 1 && is_same(&now, &was));
    }
    CHECK(netmem_push(worker, frame, 4) != NULL && netmem_get_offload(worker, frame, &now) == 1 && now.checksum_start == TRANSPORT + 4);
    CHECK(netmem_pull(worker, frame, 18) != NULL && netmem_get_offload(worker, frame, &now) == 1 && now.checksum_start == TRANSPORT - 14);
    CHECK(netmem_pull(worker, frame, TRANSPORT) != NULL && netmem_get_offload(worker, frame, &now) == 0 && is_same(&now, &none));
    /* What is put before the data now is another header. */
    CHECK(netmem_push(worker, frame, TRANSPORT + 14) != NULL && netmem_get_offload(worker, frame, &now) == 0 && is_same(&now, &none));
    CHECK(netmem_set_offload(worker, frame, &was) == 0 && netmem_get_offload(worker, frame, &now) == 1 && is_same(&now, &was));
    CHECK(netmem_raw_from_frames(worker, &frame, &raw, 1) == 1 && netmem_raw_get_offload(raw, &now) == 1 && is_same(&now, &was));
    CHECK(netmem_raw_into_frames(worker, &raw, &frame, 1) == 1 && netmem_detach(worker, &frame, 1) == 1 && netmem_attach(worker, &frame, 1) == 1);
    CHECK(netmem_packet_from_frames(worker, heads, &frame, &packet, 1) == 1);
    CHECK(netmem_packet_get_offload(worker, packet, &now) == 1 && is_same(&now, &was));
    CHECK(netmem_packet_into_frames(worker, &packet, &frame, 1) == 1 && netmem_get_offload(worker, frame, &now) == 1 && is_same(&now, &was));
    CHECK(netmem_set_offload(worker, frame, &none) == 0 && netmem_get_offload(worker, frame, &now) == 0 && is_same(&now, &none));
    CHECK(netmem_free(worker, &frame, 1) == 0);
}

/* The checksum is completed in place: of a frame, of a packet and of a raw frame. */
static void finished(void)
{
    netmem_offload offload, none;
    netmem_frame frames[3];
    netmem_packet packet, other;
    netmem_raw raw;
    memset(&none, 0, sizeof none);
    for (int i = 0; i < 3; i++) {
        offload = open_checksum(i != 1);
        frames[i] = a_datagram(pool, i != 1, 101);
        CHECK(!is_intact((uint8_t *)netmem_data(worker, frames[i])) && netmem_finish_checksum(worker, frames[i]) == 0);
        CHECK(!is_intact((uint8_t *)netmem_data(worker, frames[i])) && netmem_set_offload(worker, frames[i], &offload) == 0);
    }
    CHECK(netmem_packet_from_frames(worker, heads, &frames[1], &packet, 1) == 1 && netmem_raw_from_frames(worker, &frames[2], &raw, 1) == 1);
    CHECK(netmem_finish_checksum(worker, frames[0]) == 1 && is_intact((uint8_t *)netmem_data(worker, frames[0])));
    CHECK(netmem_finish_checksum(worker, frames[0]) == 0 && netmem_get_offload(worker, frames[0], &offload) == 0);
    CHECK(netmem_packet_share(worker, packet, &other) == 0 && netmem_packet_finish_checksum(worker, packet) == -EBUSY);
    CHECK(text_has("netmem_packet_make_sendable") && netmem_packet_set_offload(worker, packet, &none) == -EBUSY && text_has("netmem_packet_make_writable"));
    CHECK(netmem_packet_free(worker, &other, 1) == 0 && netmem_packet_finish_checksum(worker, packet) == 1);
    CHECK(is_intact((const uint8_t *)netmem_packet_data(worker, packet)) && netmem_packet_get_offload(worker, packet, &offload) == 0);
    CHECK(netmem_packet_append(worker, packet, a_packet("more")) == 0 && netmem_packet_finish_checksum(worker, packet) == -EBUSY);
    CHECK(netmem_raw_finish_checksum(&raw) == 1 && is_intact((uint8_t *)netmem_raw_data(raw)) && netmem_raw_finish_checksum(&raw) == 0);
    /* Its end was cut off with the checksum, and a packet that is to be cut has many. */
    offload = open_checksum(1);
    CHECK(netmem_set_offload(worker, frames[0], &offload) == 0 && netmem_trim(worker, frames[0], 41) == 0);
    CHECK(netmem_finish_checksum(worker, frames[0]) == -EINVAL && text_has("netmem_finish_checksum: the checksum lies outside"));
    offload = segments_of(NETMEM_GSO_UDP, 50);
    CHECK(netmem_raw_set_offload(&raw, &offload) == 0 && netmem_raw_finish_checksum(&raw) == -EINVAL && text_has("netmem_cut_segments"));
    CHECK(netmem_free(worker, frames, 1) == 0 && netmem_packet_free(worker, &packet, 1) == 0 && netmem_raw_free(worker, &raw, 1) == 0);
}

static netmem_pool pool_of(uint32_t frame_size, uint32_t frames)
{
    netmem_pool_config config;
    netmem_pool made;
    memset(&config, 0, sizeof config);
    config.frame_size = frame_size;
    config.frames = frames;
    CHECK(netmem_pool_open(worker, &config, &made) == 0);
    return made;
}

/* The packet of `whole`, whose handle ends, is cut into the same `n` segments as a raw frame. */
static void cut_raw(netmem_frame whole, const netmem_frame *same, int n)
{
    netmem_raw raw, segments[NETMEM_SEGMENTS_MAX], none = {0};
    netmem_offload now;
    CHECK(netmem_raw_from_frames(worker, &whole, &raw, 1) == 1 && netmem_raw_cut_segments(worker, pool, raw, segments, (uint32_t)n) == n);
    for (int i = 0; i < n; i++) {
        int len = netmem_len(worker, same[i]);
        CHECK(netmem_raw_len(segments[i]) == len && memcmp(netmem_raw_data(segments[i]), netmem_data(worker, same[i]), (size_t)len) == 0);
        CHECK(netmem_raw_get_offload(segments[i], &now) == 0);
    }
    CHECK(netmem_raw_free(worker, segments, (uint32_t)n) == 0 && netmem_raw_get_offload(raw, &now) == 1);
    CHECK(netmem_raw_cut_segments(worker, pool, raw, segments, (uint32_t)n - 1) == -ENOBUFS && text_has("netmem_raw_cut_segments: the packet has 8"));
    CHECK(netmem_raw_cut_segments(worker, pool, none, segments, 8) == -EBADF && netmem_raw_cut_segments(worker, pool, raw, NULL, 8) == -EFAULT);
    memset(&now, 0, sizeof now);
    CHECK(netmem_raw_set_offload(&raw, &now) == 0 && netmem_raw_cut_segments(worker, pool, raw, segments, 8) == -EINVAL);
    CHECK(text_has("netmem_raw_cut_segments: the packet is one segment") && netmem_raw_free(worker, &raw, 1) == 0);
}

/* A packet is cut into segments, whose payloads are its payload. */
static void cut_into_segments(void)
{
    netmem_frame frames[NETMEM_SEGMENTS_MAX];
    netmem_pool large = pool_of(16384, 4);
    for (int is_udp = 0; is_udp < 2; is_udp++) {
        netmem_frame whole = a_datagram(large, is_udp, 10001);
        const uint32_t headers = is_udp ? 42 : 54;
        const netmem_offload offload = segments_of(is_udp ? NETMEM_GSO_UDP : NETMEM_GSO_TCP4, 1400);
        const uint8_t *payload = (uint8_t *)netmem_data(worker, whole) + headers;
        netmem_offload now;
        CHECK(netmem_set_offload(worker, whole, &offload) == 0);
        int n = netmem_cut_segments(worker, pool, whole, frames, NETMEM_SEGMENTS_MAX);
        CHECK(n == 8 && netmem_worker_held(worker) == 9);
        for (int i = 0; i < n; i++) {
            const uint8_t *segment = (uint8_t *)netmem_data(worker, frames[i]);
            uint32_t len = i < 7 ? 1400 : 10001 - 7 * 1400;
            CHECK(netmem_len(worker, frames[i]) == (int)(headers + len) && is_intact(segment) && get16(segment + 16) == 20 + headers - 34 + len);
            CHECK(memcmp(segment + headers, payload + 1400 * i, len) == 0 && netmem_get_offload(worker, frames[i], &now) == 0);
            CHECK(is_udp || get16(segment + TRANSPORT + 6) == 1000 + 1400 * i);
        }
        CHECK(netmem_get_offload(worker, whole, &now) == 1 && is_same(&now, &offload) && netmem_len(worker, whole) == (int)headers + 10001);
        cut_raw(whole, frames, n);
        CHECK(netmem_free(worker, frames, (uint32_t)n) == 0);
    }
    CHECK(netmem_pool_close(large, 1000) == 0);
}

/* A packet that cannot be cut: nothing is allocated, and the packet stays as it is. */
static void not_cut(void)
{
    netmem_frame frames[NETMEM_SEGMENTS_MAX];
    netmem_pool large = pool_of(16384, 4), few = pool_of(2048, 4), closed = pool_of(2048, 1);
    netmem_frame whole = a_datagram(large, 0, 10001), freed = a_datagram(large, 0, 10);
    netmem_offload offload = segments_of(NETMEM_GSO_TCP4, 1400);
    CHECK(netmem_free(worker, &freed, 1) == 0 && netmem_pool_close(closed, 1000) == 0);
    CHECK(netmem_cut_segments(worker, pool, whole, frames, 512) == -EINVAL && text_has("netmem_cut_segments: the packet is one segment"));
    CHECK(netmem_set_offload(worker, whole, &offload) == 0);
    CHECK(netmem_cut_segments(worker, pool, whole, frames, 7) == -ENOBUFS && text_has("the packet has 8 segments, and the array has room for 7"));
    CHECK(netmem_cut_segments(worker, pool, whole, NULL, 8) == -EFAULT);
    CHECK(netmem_cut_segments(worker, few, whole, frames, 512) == -ENOBUFS && text_has("netmem_cut_segments: the pool has no more free frames"));
    CHECK(netmem_cut_segments(worker, pool, freed, frames, 512) == -ESTALE && misuses("used_after_free") == 1);
    CHECK(netmem_cut_segments(worker, closed, whole, frames, 512) == -ESTALE && misuses("closed") == 1);
    offload.gso = NETMEM_GSO_TCP6;
    CHECK(netmem_set_offload(worker, whole, &offload) == 0 && netmem_cut_segments(worker, pool, whole, frames, 512) == -EINVAL && text_has("headers"));
    offload = segments_of(NETMEM_GSO_TCP4, 19);
    CHECK(netmem_set_offload(worker, whole, &offload) == 0);
    CHECK(netmem_cut_segments(worker, pool, whole, frames, 512) == -EINVAL && text_has("527 segments, and a packet is cut into 512 at most"));
    offload.gso_size = 4000;
    CHECK(netmem_set_offload(worker, whole, &offload) == 0);
    CHECK(netmem_cut_segments(worker, pool, whole, frames, 512) == -ENOBUFS && text_has("netmem_cut_segments: 4054 bytes wanted"));
    CHECK(netmem_worker_held(worker) == 1 && netmem_free(worker, &whole, 1) == 0);
    CHECK(netmem_pool_close(large, 1000) == 0 && netmem_pool_close(few, 1000) == 0);
}

/* A port that carries no offloads: it never takes such a frame, and takes it once the checksum is complete. */
static void by_a_port_without(void)
{
    netmem_worker second;
    netmem_port port;
    netmem_frame frame = a_datagram(pool, 1, 100);
    const netmem_offload offload = open_checksum(1);
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", NULL, &port) == 0 && netmem_worker_open(memory, &second) == 0);
    CHECK(netmem_port_carries_offloads(worker, port) == 0 && netmem_port_keep_offloads(worker, port, 1) == 0);
    CHECK(netmem_port_keep_offloads(worker, port, 2) == -EINVAL && text_has("netmem_port_keep_offloads: keep is 2: give 0 or 1"));
    CHECK(netmem_port_keep_offloads(worker, port, -1) == -EINVAL && text_has("keep is -1"));
    CHECK(netmem_port_keep_offloads(second, port, 1) == -EPERM && netmem_port_carries_offloads(second, port) == -EPERM && misuses("wrong_worker") == 2);
    CHECK(netmem_set_offload(worker, frame, &offload) == 0 && netmem_port_tx(worker, port, &frame, 1) == 0);
    CHECK(netmem_port_take_unsendable(worker, port, &frame, 1) == 1 && netmem_finish_checksum(worker, frame) == 1);
    CHECK(netmem_port_take_unsendable(worker, port, &frame, 1) == 0 && netmem_port_tx(worker, port, &frame, 1) == 1);
    CHECK(netmem_finish_checksum(worker, frame) == -ESTALE && misuses("used_after_tx") == 1);
    CHECK(netmem_port_kick(worker, port) == 0 && netmem_port_complete(worker, port) == 1 && netmem_port_close(worker, port) == 0);
    CHECK(netmem_port_carries_offloads(worker, port) == -ESTALE && netmem_port_keep_offloads(worker, port, 1) == -ESTALE && misuses("closed") == 2);
    CHECK(netmem_worker_close(second) == 0);
}

/* Handles that are over, by each call. */
static void refused(void)
{
    netmem_frame frame = a_datagram(pool, 1, 10);
    netmem_packet packet = a_packet("x");
    netmem_raw none = {0};
    netmem_offload offload = open_checksum(1);
    CHECK(netmem_free(worker, &frame, 1) == 0 && netmem_packet_free(worker, &packet, 1) == 0);
    CHECK(netmem_get_offload(worker, frame, &offload) == -ESTALE && netmem_set_offload(worker, frame, &offload) == -ESTALE);
    CHECK(netmem_finish_checksum(worker, frame) == -ESTALE && misuses("used_after_free") == 3);
    CHECK(netmem_packet_get_offload(worker, packet, &offload) == -ESTALE && netmem_packet_set_offload(worker, packet, &offload) == -ESTALE);
    CHECK(netmem_packet_finish_checksum(worker, packet) == -ESTALE && misuses("used_after_free") == 6);
    CHECK(netmem_raw_get_offload(none, &offload) == -EBADF && netmem_raw_set_offload(&none, &offload) == -EBADF);
    CHECK(netmem_raw_finish_checksum(&none) == -EBADF && misuses("made_up") == 3 && all_misuses() == 9);
}

int main(int argc, char **argv)
{
    static const struct test_case ALL[] = {{"wrong values", wrong_values}, {"kept", kept}, {"finished", finished}, {"cut", cut_into_segments},
                                           {"not cut", not_cut}, {"without", by_a_port_without}, {"refused", refused}};
    CHECK(argc == 2 && netmem_set_policy(NETMEM_COUNT) == 0);
    return run_case(ALL, sizeof ALL / sizeof *ALL, argv[1], open_heads, close_heads);
}
