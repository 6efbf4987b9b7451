/* A call from a signal handler that interrupted a report is refused: it takes neither the lock of standard error nor
 * memory, which the interrupted call may be in the middle of. */
#define _GNU_SOURCE
#include "first.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static netmem_frame good;
static int pipe_of_stderr[2];
/* Timer ticks of this round, whether the pipe is read, whether the program ends, and refusals in the handler. */
static volatile sig_atomic_t ticks, is_read, is_over, refused;

static void on_alarm(int number)
{
    (void)number;
    /* By the third tick the program is most likely in its blocked report. If it is not, there is another round. */
    if (++ticks == 3) {
        is_read = 1;
        if (netmem_len(worker, good) == -EBUSY && netmem_worker_enter(worker) == -EBUSY)
            refused++;
    }
}

static void *reads_the_pipe(void *unused)
{
    char bytes[4096];
    while (!is_over) {
        if (!is_read || read(pipe_of_stderr[0], bytes, sizeof bytes) <= 0)
            usleep(1000);
    }
    return unused;
}

/* The report of a frame that was freed twice waits for room in a full pipe, until the handler has called. */
static void a_round(void)
{
    struct itimerval every = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    netmem_frame twice = one();
    CHECK(netmem_free(worker, &twice, 1) == 0);
    ticks = 0;
    is_read = 0;
    CHECK(fcntl(2, F_SETFL, O_NONBLOCK) == 0);
    while (write(2, ".", 1) == 1)
        ;
    CHECK(fcntl(2, F_SETFL, 0) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    CHECK(netmem_free(worker, &twice, 1) == -ESTALE);
    while (ticks < 3)
        usleep(1000);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

int main(void)
{
    pthread_t reader;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    open_all();
    good = one();
    CHECK(pipe(pipe_of_stderr) == 0 && fcntl(pipe_of_stderr[0], F_SETFL, O_NONBLOCK) == 0 && dup2(pipe_of_stderr[1], 2) == 2);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && netmem_set_policy(NETMEM_REPORT) == 0);
    /* Signals are for the thread whose calls they interrupt. */
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarm_only, NULL) == 0 && pthread_create(&reader, NULL, reads_the_pipe, NULL) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL) == 0);
    unsigned rounds = 0;
    for (; refused == 0; rounds++)
        a_round();
    CHECK(misuses("reentered") == 2 && misuses("freed_twice") == rounds);
    CHECK(strstr(netmem_last_error(), "freed_twice") != NULL);
    CHECK(netmem_free(worker, &good, 1) == 0);
    is_over = 1;
    CHECK(pthread_join(reader, NULL) == 0);
    close_all();
    printf("all as it should be\n");
    return 0;
}
