/* Where reports go, and that none waits: usage: reports full | child | function | many FILE */
#define _GNU_SOURCE
#include "first.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program that hangs is ended. */
#define LIMIT 120

static netmem_frame twice;
static volatile int is_over;

static int frees_again(void)
{
    return netmem_free(worker, &twice, 1);
}

/* A pipe that no process reads gets full. */
static void full(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2 && fcntl(2, F_SETFL, O_NONBLOCK) == 0);
    while (write(2, ".", 1) == 1)
        ;
    CHECK(fcntl(2, F_SETFL, 0) == 0);
    for (int i = 0; i < 20000; i++)
        CHECK(frees_again() == -ESTALE);
    CHECK(misuses("freed_twice") == 20000 && netmem_report("a line") == -EAGAIN);
    /* No process can read it any more, which raises SIGPIPE; and then descriptor 2 is closed. */
    CHECK(close(ends[0]) == 0 && netmem_report("a line") == -EAGAIN);
    CHECK(close(2) == 0 && netmem_report("a line") == -EAGAIN);
}

static void *reports_all_the_time(void *unused)
{
    netmem_stock never_opened = {0x10001};
    while (!is_over)
        netmem_stock_count(never_opened);
    return unused;
}

/* Children of fork(2) that are made while another thread reports. */
static void child(void)
{
    pthread_t other;
    CHECK(dup2(open("/dev/null", O_WRONLY), 2) == 2);
    CHECK(pthread_create(&other, NULL, reports_all_the_time, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(LIMIT / 2);
            _exit(frees_again() == -ECHILD && strstr(netmem_last_error(), "child") && netmem_report("a line") == 0 ? 0 : 1);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    is_over = 1;
    CHECK(pthread_join(other, NULL) == 0);
}

/* What the function was passed: lines, reports that were left out, and whether the last line named a call site here. */
struct heard {
    uint64_t lines, left_out;
    int is_named;
};

static char last[256];

static void hears(const char *line, void *to)
{
    struct heard *heard = to;
    const char *number = strstr(line, "; ");
    CHECK(line);
    heard->lines++;
    snprintf(last, sizeof last, "%s", line);
    heard->is_named = strncmp(line, "netmem: ", 8) == 0 && strstr(line, "reports.c:") != NULL && !strchr(line, '\n');
    while (number && strstr(number, "left out")) {
        heard->left_out += strncmp(number, "; one ", 6) == 0 ? 1 : strtoull(number + 2, NULL, 10);
        number = strstr(number + 1, "; ");
    }
    /* Its own misuse is refused, and not reported to it again. Seen: the text and the errno were those of an older failure. */
    int said = frees_again();
    CHECK(said == -ESTALE || (said == -EBUSY && netmem_last_errno() == EBUSY && strstr(netmem_last_error(), "from a report function")));
    CHECK(netmem_report("a line") == -EAGAIN);
}

static void function(const char *file)
{
    struct heard heard = {0, 0, 0}, other = {0, 0, 0};
    CHECK(netmem_set_report(hears, &heard) == 0);
    /* Descriptor 2 is a file of the program now. */
    CHECK(close(2) == 0 && open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) == 2);
    CHECK(frees_again() == -ESTALE && heard.lines == 1 && heard.is_named);
    CHECK(strstr(netmem_last_error(), "freed_twice") != NULL || strstr(netmem_last_error(), "left out") != NULL);
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(frees_again() == -ECHILD && heard.lines == 1 ? 0 : 1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(netmem_report("a line of the program") == 0 && heard.lines == 2 && !heard.is_named);
    CHECK(netmem_set_report(hears, &other) == 0 && frees_again() == -ESTALE && other.lines == 1 && heard.lines == 2);
    /* Seen: netmem_sizes_close was named. */
    netmem_cache never_opened = {0x10001};
    CHECK(netmem_cache_close(never_opened) == -ESTALE && strncmp(last, "netmem: netmem_cache_close: closed: ", 36) == 0);
    for (long i = 0; i < 100; i++)
        CHECK(netmem_set_report(hears, &heard) == 0 && netmem_set_report(hears, &other) == 0);
    char places[64];
    for (long i = 0; i < 62; i++)
        CHECK(netmem_set_report(hears, &places[i]) == 0);
    CHECK(netmem_set_report(hears, &places[63]) == -ENFILE && netmem_set_report(hears, &heard) == 0);
    CHECK(lseek(2, 0, SEEK_END) == 0 && netmem_report(NULL) == -EFAULT);
    /* As before. */
    CHECK(netmem_set_report(NULL, NULL) == 0 && frees_again() == -ESTALE && lseek(2, 0, SEEK_END) > 0);
}

/* Reports beyond the limit are left out, and counted in a later line. */
static void many(void)
{
    struct heard heard = {0, 0, 0};
    uint64_t made = 20000;
    CHECK(netmem_set_report(hears, &heard) == 0);
    for (uint64_t i = 0; i < made; i++)
        CHECK(frees_again() == -ESTALE);
    CHECK(heard.lines >= 16 && heard.lines < made && misuses("freed_twice") == made);
    while (heard.lines + heard.left_out < made) {
        usleep(100000);
        CHECK(frees_again() == -ESTALE);
        made++;
    }
    CHECK(heard.lines + heard.left_out == made);
    CHECK(netmem_set_report(NULL, NULL) == 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    alarm(LIMIT);
    open_all();
    twice = one();
    CHECK(netmem_free(worker, &twice, 1) == 0 && netmem_set_policy(NETMEM_REPORT) == 0);
    if (strcmp(what, "full") == 0)
        full();
    else if (strcmp(what, "child") == 0)
        child();
    else if (strcmp(what, "function") == 0 && argc > 2)
        function(argv[2]);
    else if (strcmp(what, "many") == 0)
        many();
    close_all();
    printf("%s: as it should be\n", what);
    return 0;
}
