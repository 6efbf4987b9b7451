/* A thread that ends leaves its workers, and a thread that is cancelled ends between two calls: usage: ends leaves | cancelled INPUT */
#define _GNU_SOURCE
#include "first.h"
#include <pthread.h>
#include <unistd.h>

static netmem_worker others;
static netmem_frame frame;
static int closed[2];
static volatile int is_through;

static void *opens_a_worker(void *unused)
{
    CHECK(netmem_worker_open(memory, &others) == 0 && netmem_alloc(others, pool, &frame, 1) == 1);
    return unused;
}

/* It may have the control block of a thread that has ended. */
static void *is_another_thread(void *unused)
{
    CHECK(netmem_worker_held(others) == -EPERM && netmem_worker_reclaim(others) == -EPERM);
    return unused;
}

static void *closes_at_its_end(void *key)
{
    netmem_worker *own = malloc(sizeof *own);
    CHECK(own && netmem_worker_open(memory, own) == 0 && pthread_setspecific(*(pthread_key_t *)key, own) == 0);
    return NULL;
}

static void first_destructor(void *own)
{
    closed[0] += netmem_worker_close(*(netmem_worker *)own) == 0;
    free(own);
}

static void last_destructor(void *own)
{
    closed[1] += netmem_worker_close(*(netmem_worker *)own) == 0;
    free(own);
}

static void run(void *(*thread)(void *), void *argument)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, argument) == 0 && pthread_join(other, NULL) == 0);
}

static void at_exit(void)
{
    close_all();
    printf("leaves: as it should be\n");
}

static void leaves(void)
{
    pthread_key_t before, after;
    CHECK(pthread_key_create(&before, first_destructor) == 0 && netmem_set_policy(NETMEM_COUNT) == 0);
    open_all();
    CHECK(pthread_key_create(&after, last_destructor) == 0);
    run(opens_a_worker, NULL);
    for (int i = 0; i < 10; i++)
        run(is_another_thread, NULL);
    CHECK(netmem_worker_enter(others) == 0 && netmem_worker_held(others) == 1);
    CHECK(netmem_free(others, &frame, 1) == 0 && netmem_worker_close(others) == 0);
    run(closes_at_its_end, &before);
    run(closes_at_its_end, &after);
    CHECK(closed[0] == 1 && closed[1] == 1);
    /* exit(3) is not the end of the main thread: what runs there still has its worker. */
    CHECK(atexit(at_exit) == 0);
    exit(0);
}

/* A thread whose cancellation is pending: it would end at the first cancellation point. */
static void *is_cancelled(void *input)
{
    char name[4096];
    netmem_pool lost;
    netmem_memory_config config;
    netmem_memory another;
    netmem_stock stock;
    netmem_stock_config objects;
    netmem_lane lane;
    netmem_port port;
    memset(&objects, 0, sizeof objects);
    memset(&config, 0, sizeof config);
    objects.objects = 8;
    config.in_file = config.small_pages = 1;
    snprintf(name, sizeof name, "trace:file=/dev/null/pcap:in=%s", (const char *)input);
    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(netmem_worker_open(memory, &others) == 0 && netmem_pool_open(others, NULL, &lost) == 0);
    CHECK(netmem_alloc(others, lost, &frame, 1) == 1);
    CHECK(netmem_pool_close(lost, 5) == -ETIMEDOUT && netmem_free(others, &frame, 1) == 0 && netmem_pool_close(lost, 5) == 0);
    CHECK(netmem_free(others, &frame, 1) == -ESTALE && netmem_report("a line") <= 0);
    CHECK(netmem_memory_open(&config, &another) == 0 && netmem_memory_close(another, 5) == 0);
    CHECK(netmem_stock_open(&objects, &stock) == 0 && netmem_stock_close(stock) == 0);
    CHECK(netmem_lane_open(others, 64, &lane) == 0 && netmem_lane_join(others, lane) == 0);
    CHECK(netmem_lane_arm(others, lane) == 0 && netmem_alloc(others, pool, &frame, 1) == 1);
    CHECK(netmem_lane_send(others, lane, &frame, 1) == 1 && netmem_lane_disarm(others, lane) == 0);
    CHECK(netmem_lane_close(others, lane) == 1);
    CHECK(netmem_port_open(others, pool, name, NULL, &port) == 0 && netmem_port_refill(others, port, pool) > 0);
    CHECK(netmem_port_kick(others, port) == 0 && netmem_port_state(others, port) == 0 && netmem_port_arm(others, port) >= 0);
    CHECK(netmem_port_disarm(others, port) == 0 && netmem_port_close(others, port) >= 0);
    CHECK(netmem_worker_close(others) == 0);
    is_through = 1;
    pthread_testcancel();
    return NULL;
}

static void cancelled(void *input)
{
    pthread_t other;
    void *result;
    open_all();
    CHECK(pthread_create(&other, NULL, is_cancelled, input) == 0);
    CHECK(pthread_join(other, &result) == 0 && result == PTHREAD_CANCELED && is_through);
    close_all();
    printf("cancelled: as it should be\n");
}

int main(int argc, char **argv)
{
    alarm(120);
    if (argc > 2 && strcmp(argv[1], "cancelled") == 0)
        cancelled(argv[2]);
    else
        leaves();
    return 0;
}
