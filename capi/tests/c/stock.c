/* Stocks: an object is taken, given back, and refused where it must be; and threads that share one lose nothing. */
#include "first.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define OBJECTS 64
#define THREADS 4
#define ROUNDS 20000

static char bytes[OBJECTS][96];
static netmem_stock stock;

static void open_stock(void)
{
    netmem_stock_config config;
    memset(&config, 0, sizeof config);
    config.name = "parts";
    config.objects = OBJECTS;
    CHECK(netmem_stock_open(&config, &stock) == 0);
    for (int i = 0; i < OBJECTS; i++) {
        void *object = bytes[i];
        CHECK(netmem_stock_add(stock, &object, 1) == 0 && netmem_stock_count(stock) == i);
        CHECK(netmem_stock_give(stock, &object, 1, NULL) == 0);
    }
}

static netmem_stock_counts census(void *const *cached, size_t n, int adds_up)
{
    netmem_stock_counts census;
    CHECK(netmem_stock_ledger(stock, cached, n, &census) == adds_up);
    return census;
}

static void what_is_taken_is_out_until_it_is_given_back(void)
{
    void *all[OBJECTS + 1];
    CHECK(netmem_stock_take(stock, all, OBJECTS + 1, NULL) == -ENOBUFS && netmem_stock_count(stock) == OBJECTS);
    CHECK(strstr(netmem_last_error(), "netmem_stock_take: fewer than") != NULL);
    CHECK(netmem_stock_take(stock, all, OBJECTS, NULL) == 0 && netmem_stock_count(stock) == 0);
    for (int i = 0; i < OBJECTS; i++)
        for (int j = 0; j < i; j++)
            CHECK(all[i] != all[j]);
    netmem_stock_counts now = census(all, 10, 1);
    CHECK(now.total == OBJECTS && now.cached == 10 && now.out == OBJECTS - 10 && now.failed == 1);
    CHECK(netmem_stock_give(stock, all, OBJECTS, NULL) == 0 && netmem_stock_count(stock) == OBJECTS);
}

static void what_is_given_back_twice_is_refused(void)
{
    void *some[4];
    CHECK(netmem_stock_take(stock, some, 3, NULL) == 0);
    some[3] = some[0];
    uint64_t before = misuses("freed_twice");
    CHECK(netmem_stock_give(stock, some, 4, NULL) == -ESTALE && misuses("freed_twice") == before + 1);
    CHECK(netmem_stock_count(stock) == OBJECTS && netmem_stock_give(stock, some, 1, NULL) == -ESTALE);
    CHECK(census(NULL, 0, 1).freed_twice == 2);
    /* In a cache in front of it, and free. */
    CHECK(census(some, 1, 0).duplicated == 1);
    /* An object of another mempool in a cache is not one that was given back twice. */
    void *foreign = &foreign;
    CHECK(census(&foreign, 1, 0).duplicated == 0 && census(&foreign, 1, 0).made_up == census(NULL, 0, 1).made_up + 1);
}

static void what_is_no_object_is_refused(void)
{
    void *strange[3] = {bytes[0] + 8, NULL, (void *)&stock};
    uint64_t before = misuses("made_up");
    CHECK(netmem_stock_give(stock, strange, 3, NULL) == -EBADF && misuses("made_up") == before + 3);
    void *again = bytes[0], *more = (void *)&strange;
    CHECK(netmem_stock_add(stock, &again, 1) == -ENOBUFS && netmem_stock_add(stock, &more, 1) == -ENOBUFS);
    CHECK(netmem_stock_count(stock) == OBJECTS);
}

/* Seen: a child's calls were refused in silence, and one of them waited for a lock that the parent had. */
static void what_a_child_does_is_refused_and_counted(void)
{
    uint64_t before = misuses("child");
    pid_t child = fork();
    if (child == 0) {
        void *some[1] = {bytes[0]};
        int taken = netmem_stock_take(stock, some, 1, NULL), given = netmem_stock_give(stock, some, 1, NULL);
        int count = netmem_stock_count(stock);
        _exit(taken == -ECHILD && given == -ECHILD && count == -ECHILD && misuses("child") == before + 3 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(netmem_stock_count(stock) == OBJECTS);
}

static void *take_and_give(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        void *some[5];
        unsigned n = 1 + i % 5;
        CHECK(netmem_stock_take(stock, some, n, NULL) == 0);
        for (unsigned j = 0; j < n; j++)
            memset(some[j], i, sizeof bytes[0]);
        CHECK(netmem_stock_give(stock, some, n, NULL) == 0);
    }
    return NULL;
}

static void *given_by_both;
static pthread_barrier_t barrier;

static void *give_the_same(void *refused)
{
    for (int i = 0; i < 1000; i++) {
        pthread_barrier_wait(&barrier);
        *(int *)refused += netmem_stock_give(stock, &given_by_both, 1, NULL) == -ESTALE;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void threads_share_it_and_lose_nothing(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_and_give, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    netmem_stock_counts now = census(NULL, 0, 1);
    CHECK(now.free == OBJECTS && now.taken + OBJECTS == now.returned);
}

static void of_two_threads_that_give_the_same_object_back_one_is_refused(void)
{
    int refused[2] = {0, 0};
    pthread_t threads[2];
    CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, give_the_same, &refused[i]) == 0);
    for (int i = 0; i < 1000; i++) {
        CHECK(netmem_stock_take(stock, &given_by_both, 1, NULL) == 0);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(refused[0] + refused[1] == 1000 && census(NULL, 0, 1).free == OBJECTS);
}

static void what_is_left_names_its_place(void)
{
    void *some[3];
    netmem_stock_holder holders[4];
    CHECK(netmem_stock_take(stock, some, 2, __builtin_return_address(0)) == 0 && netmem_stock_take(stock, some + 2, 1, NULL) == 0);
    CHECK(netmem_stock_holders(stock, NULL, 0, holders, 4) == 2);
    CHECK(holders[0].objects == 2 && strchr(holders[0].site, '+') && holders[1].objects == 1 && !holders[1].site[0]);
    CHECK(netmem_stock_holders(stock, some, 2, holders, 4) == 1 && holders[0].objects == 1);
    CHECK(netmem_stock_close(stock) == 3);
}

/* Seen: a stock kept the addresses of objects whose memory was gone, and refused the objects that came after them. */
static void what_is_forgotten_takes_no_room_and_is_refused(void)
{
    static char others[OBJECTS][96];
    void *some[3], *other, *old = bytes[1];
    netmem_stock_holder holder;
    open_stock();
    CHECK(netmem_stock_take(stock, some, 3, NULL) == 0 && netmem_stock_clear(stock) == 3);
    CHECK(netmem_stock_clear(stock) == 0 && netmem_stock_count(stock) == 0 && census(NULL, 0, 1).total == 0);
    CHECK(netmem_stock_holders(stock, NULL, 0, &holder, 1) == 0);
    CHECK(netmem_stock_give(stock, some, 3, NULL) == -EBADF && netmem_stock_take(stock, some, 1, NULL) == -ENOBUFS);
    for (int i = 0; i < OBJECTS; i++) {
        other = i % 2 ? others[i] : bytes[i];
        CHECK(netmem_stock_add(stock, &other, 1) == 0 && netmem_stock_give(stock, &other, 1, NULL) == 0);
    }
    CHECK(netmem_stock_give(stock, &old, 1, NULL) == -EBADF);
    netmem_stock_counts now = census(NULL, 0, 1);
    CHECK(now.total == OBJECTS && now.free == OBJECTS && now.made_up == 4 && now.returned == 2 * OBJECTS && now.taken == 3);
    CHECK(netmem_stock_close(stock) == 0 && netmem_stock_clear(stock) == -ESTALE);
}

static void a_closed_one_is_refused(void)
{
    void *one = bytes[0];
    CHECK(netmem_stock_give(stock, &one, 1, NULL) == -ESTALE && netmem_stock_take(stock, &one, 1, NULL) == -ESTALE);
    CHECK(netmem_stock_count(stock) == -ESTALE && netmem_stock_close(stock) == -ESTALE);
    netmem_stock old = stock;
    open_stock();
    CHECK(old.word != stock.word && netmem_stock_count(old) == -ESTALE && netmem_stock_close(stock) == 0);
}

int main(void)
{
    netmem_stock_config none;
    memset(&none, 0, sizeof none);
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0);
    CHECK(netmem_stock_open(&none, &stock) == -EINVAL && netmem_stock_open(NULL, &stock) == -EFAULT);
    open_stock();
    what_is_taken_is_out_until_it_is_given_back();
    what_is_given_back_twice_is_refused();
    what_is_no_object_is_refused();
    what_a_child_does_is_refused_and_counted();
    threads_share_it_and_lose_nothing();
    of_two_threads_that_give_the_same_object_back_one_is_refused();
    what_is_left_names_its_place();
    a_closed_one_is_refused();
    what_is_forgotten_takes_no_room_and_is_refused();
    printf("all as it should be\n");
    return 0;
}
