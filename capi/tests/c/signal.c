/* A call from a signal handler that interrupted a report is refused: it takes neither a lock nor memory, which the
 * interrupted call may be in the middle of. */
#define _GNU_SOURCE
#include "first.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static netmem_frame good;
/* Interrupted calls. */
static volatile sig_atomic_t refused;

static void on_alarm(int number)
{
    (void)number;
    if (netmem_len(worker, good) == -EBUSY && netmem_worker_enter(worker) == -EBUSY)
        refused++;
}

int main(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    open_all();
    good = one();
    netmem_frame twice = one();
    CHECK(netmem_free(worker, &twice, 1) == 0);
    CHECK(dup2(open("/dev/null", O_WRONLY), 2) == 2 && netmem_set_policy(NETMEM_REPORT) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    uint64_t rounds = 0;
    for (; refused < 10; rounds++)
        CHECK(netmem_free(worker, &twice, 1) == -ESTALE);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(misuses("reentered") == 2 * (uint64_t)refused && misuses("freed_twice") == rounds);
    CHECK(strstr(netmem_last_error(), "freed_twice") != NULL);
    CHECK(netmem_free(worker, &good, 1) == 0);
    close_all();
    printf("all as it should be\n");
    return 0;
}
