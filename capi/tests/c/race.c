/* Two threads misuse the same words at the same time: each frame and each packet is had by one of them, and the ledger adds up. usage: race [rounds] */
#include "packets.h"
#include <pthread.h>

#define BURST 32

static pthread_barrier_t turn;
static netmem_frame passed[BURST], foreign[BURST];
static netmem_packet packets[BURST], own_packets[BURST];
static unsigned rounds;

/* The other thread: attaches what the first one detached, at the same time as that does, and frees what is the first one's. */
static void *other(void *attached_)
{
    unsigned long *attached = (unsigned long *)attached_;
    netmem_worker own;
    CHECK(netmem_worker_open(memory, &own) == 0);
    for (unsigned i = 0; i < rounds; i++) {
        pthread_barrier_wait(&turn);
        for (int j = 0; j < BURST; j++) {
            netmem_frame frame = passed[j];
            CHECK(netmem_free(own, &foreign[j], 1) < 0);
            CHECK(netmem_free(worker, &foreign[j], 1) == -EPERM && netmem_worker_enter(worker) == -EPERM);
            if (netmem_attach(own, &frame, 1) == 1) {
                *attached += 1;
                CHECK(netmem_free(own, &frame, 1) == 0);
            }
            netmem_packet packet = packets[j];
            CHECK(netmem_packet_free(own, &own_packets[j], 1) < 0 && netmem_packet_len(own, own_packets[j]) < 0);
            if (netmem_packet_attach(own, &packet, 1) == 1) {
                *attached += 1;
                CHECK(netmem_packet_len(own, packet) == 4 && netmem_packet_free(own, &packet, 1) == 0);
            }
        }
        pthread_barrier_wait(&turn);
    }
    CHECK(netmem_worker_close(own) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    unsigned long attached = 0, elsewhere = 0;
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_heads();
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, other, &elsewhere) == 0);
    for (unsigned i = 0; i < rounds; i++) {
        CHECK(netmem_alloc(worker, pool, passed, BURST) == BURST && netmem_alloc(worker, pool, foreign, BURST) == BURST);
        CHECK(netmem_detach(worker, passed, BURST) == BURST);
        for (int j = 0; j < BURST; j++) {
            packets[j] = a_packet("from");
            own_packets[j] = a_packet("here");
            /* Some are chains. */
            CHECK(j % 2 == 0 || netmem_packet_append(worker, own_packets[j], a_packet("too")) == 0);
        }
        CHECK(netmem_packet_detach(worker, packets, BURST) == BURST);
        pthread_barrier_wait(&turn);
        for (int j = BURST - 1; j >= 0; j--) {
            netmem_frame frame = passed[j];
            if (netmem_attach(worker, &frame, 1) == 1) {
                attached++;
                CHECK(netmem_free(worker, &frame, 1) == 0);
            }
            netmem_packet packet = packets[j];
            if (netmem_packet_attach(worker, &packet, 1) == 1) {
                attached++;
                CHECK(netmem_packet_len(worker, packet) == 4 && netmem_packet_free(worker, &packet, 1) == 0);
            }
        }
        CHECK(netmem_free(worker, foreign, BURST) == 0 && netmem_packet_free(worker, own_packets, BURST) == 0);
        pthread_barrier_wait(&turn);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%lu attached here, %lu by the other thread\n", attached, elsewhere);
    CHECK(attached + elsewhere == (unsigned long)rounds * BURST * 2);
    /* The thread to which the worker belongs is no signal handler of the other one. */
    CHECK(misuses("reentered") == 0 && misuses("wrong_thread") == (unsigned long)rounds * BURST);
    check_home();
    close_heads();
    return 0;
}
