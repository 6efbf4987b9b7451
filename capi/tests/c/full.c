/* A port that has room for some of a burst: those that it takes are its own, the others stay the caller's, by the words they had, with handles and raw. */
#include "first.h"

#define MANY 200

int main(void)
{
    netmem_port_config config;
    netmem_port port;
    netmem_frame frames[MANY], before[MANY];
    memset(&config, 0, sizeof config);
    config.ring = 16;
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    open_all();
    CHECK(netmem_port_open(worker, pool, "pcap:out=/dev/null", &config, &port) == 0);
    CHECK(netmem_alloc(worker, pool, frames, MANY) == MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(netmem_put(worker, frames[i], 60) != NULL);
    memcpy(before, frames, sizeof frames);
    int taken = netmem_port_tx(worker, port, frames, MANY);
    CHECK(taken > 0 && taken < MANY && netmem_worker_held(worker) == MANY - taken);
    for (int i = 0; i < MANY; i++)
        CHECK(frames[i].word == before[i].word && (netmem_len(worker, frames[i]) == 60) == (i >= taken));
    /* A bad word among them: nothing is posted, and the good ones stay as they were. */
    netmem_frame bad[3] = {frames[MANY - 1], frames[0], frames[MANY - 2]};
    CHECK(netmem_port_complete(worker, port) == taken);
    CHECK(netmem_port_tx(worker, port, bad, 3) == -ESTALE && netmem_len(worker, bad[0]) == 60);
    bad[1] = bad[0];
    CHECK(netmem_port_tx(worker, port, bad, 3) < 0 && netmem_len(worker, bad[0]) == 60);
    CHECK(netmem_free(worker, frames + taken, MANY - taken) == 0);
    netmem_raw raw[MANY], others[MANY];
    CHECK(netmem_raw_alloc(worker, pool, raw, MANY) == MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(netmem_raw_put(&raw[i], 60) != NULL);
    memcpy(others, raw, sizeof raw);
    CHECK(netmem_port_tx_raw(worker, port, raw, MANY) == taken);
    CHECK(memcmp(raw + taken, others + taken, (MANY - taken) * sizeof *raw) == 0);
    CHECK(netmem_raw_free(worker, raw + taken, MANY - taken) == 0);
    CHECK(netmem_port_close(worker, port) == 0);
    check_home();
    close_all();
    printf("%d of %d taken\n", taken, MANY);
    return 0;
}
