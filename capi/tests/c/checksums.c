/* Open checksums beside the kernel: checksums send PORT, or checksums receive PORT. */
#include "inet.h"
#include <unistd.h>

static netmem_port port;

/* A datagram to port 4000 of 10.77.0.1, whose checksum is open. */
static netmem_frame datagram(const char *text)
{
    netmem_frame frame = a_datagram(pool, 1, (uint32_t)strlen(text));
    memcpy((char *)netmem_data(worker, frame) + 42, text, strlen(text));
    return frame;
}

/* Two datagrams with an open checksum, of which only the second has an offload that says so. */
static void send_two(void)
{
    netmem_frame frames[2] = {datagram("without an offload"), datagram("with an offload")};
    const netmem_offload offload = open_checksum(1);
    netmem_packet packet;
    CHECK(netmem_port_carries_offloads(worker, port) == 1 && netmem_set_offload(worker, frames[1], &offload) == 0);
    CHECK(netmem_packet_from_frames(worker, heads, &frames[1], &packet, 1) == 1);
    CHECK(netmem_port_tx(worker, port, frames, 1) == 1 && netmem_port_tx_packets(worker, port, &packet, 1) == 1);
    while (netmem_port_tx_posted(worker, port) > 0)
        CHECK(netmem_port_kick(worker, port) == 0 && netmem_port_complete(worker, port) >= 0);
    printf("2 sent\n");
}

/* Waits for a datagram to port 4000. */
static netmem_frame received(void)
{
    for (;;) {
        netmem_frame frames[64], found = {0};
        CHECK(netmem_port_refill(worker, port, pool) >= 0 && netmem_port_kick(worker, port) == 0);
        int n = netmem_port_rx(worker, port, frames, 64);
        CHECK(n >= 0);
        for (int i = 0; i < n; i++) {
            const uint8_t *packet = (const uint8_t *)netmem_data(worker, frames[i]);
            int is_it = netmem_len(worker, frames[i]) > 42 && packet[23] == 17 && get16(packet + TRANSPORT + 2) == 4000;
            if (is_it && found.word == 0)
                found = frames[i];
            else
                CHECK(netmem_free(worker, frames + i, 1) == 0);
        }
        if (found.word != 0)
            return found;
        usleep(1000);
    }
}

/* The kernel of the sender leaves the checksum open. With the offload kept, it is as the kernel left it; otherwise the port
 * has completed it. */
static void receive_both(void)
{
    const netmem_offload open = open_checksum(1);
    netmem_offload offload;
    for (int keep = 0; keep < 2; keep++) {
        CHECK(netmem_port_keep_offloads(worker, port, keep) == keep);
        netmem_frame frame = received();
        const uint8_t *packet = (const uint8_t *)netmem_data(worker, frame);
        CHECK(netmem_get_offload(worker, frame, &offload) == keep && is_intact(packet) == !keep);
        CHECK(!keep || (is_same(&offload, &open) && get16(packet + TRANSPORT + 6) == pseudo_of(packet)));
        CHECK(netmem_finish_checksum(worker, frame) == keep && is_intact(packet));
        CHECK(netmem_free(worker, &frame, 1) == 0);
    }
    printf("both received\n");
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    open_heads();
    CHECK(netmem_port_open(worker, pool, argv[2], NULL, &port) == 0);
    if (strcmp(argv[1], "send") == 0)
        send_two();
    else
        receive_both();
    CHECK(netmem_port_close(worker, port) == 0);
    check_home();
    close_heads();
    return 0;
}
