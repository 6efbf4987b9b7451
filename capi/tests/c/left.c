/* A call that a signal handler left by siglongjmp, which is forbidden: its worker refuses all calls, the line says why, and the
 * last failure is as it was. */
#define _GNU_SOURCE
#include "first.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf before;

static void on_alarm(int number)
{
    (void)number;
    if (netmem_worker_held(worker) == -EBUSY)
        siglongjmp(before, 1);
}

int main(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action;
    netmem_frame frames[64];
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    open_all();
    CHECK(netmem_set_policy(NETMEM_COUNT) == 0 && netmem_policy() == NETMEM_COUNT && netmem_set_policy(9) == -EINVAL);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    if (sigsetjmp(before, 1) == 0) {
        CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
        for (;;)
            netmem_free(worker, frames, (uint32_t)netmem_alloc(worker, pool, frames, 64));
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && netmem_set_policy(NETMEM_REPORT) == 0);
    CHECK(netmem_alloc(worker, pool, frames, 1) == -EBUSY);
    CHECK(netmem_last_errno() == EINVAL && strstr(netmem_last_error(), "policy: ") == netmem_last_error());
    return 0;
}
