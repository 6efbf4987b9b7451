/* A TCP server whose sessions are objects of a cache. It sends each line back with the number of the line in front.
 *
 *   cc sessions.c -o sessions $(pkg-config --cflags --libs netmem) -pthread
 *   sessions PORT [THREADS]
 *
 * The listening thread allocates a session for each client and passes it to a thread, which serves the session and frees it. If the program
 * frees a session twice, or uses it after passing it on, the library refuses and reports the call. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netmem.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define THREADS_MAX 16

struct session {
    int socket;
    unsigned long lines;
};

static volatile sig_atomic_t stopped;
static netmem_memory memory;
static netmem_cache cache;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static int must(int said)
{
    if (said < 0) {
        fprintf(stderr, "sessions: %s\n", netmem_last_error());
        exit(1);
    }
    return said;
}

/* Sends back the lines that a client has sent, each after its number. Returns 0 when the client is gone. */
static int serve(struct session *session)
{
    char in[512], out[640];
    ssize_t n = recv(session->socket, in, sizeof in - 1, 0);
    if (n <= 0)
        return 0;
    in[n] = 0;
    for (char *rest = in, *line; (line = strsep(&rest, "\n")) && rest;) {
        int length = snprintf(out, sizeof out, "%lu %s\n", ++session->lines, line);
        if (send(session->socket, out, length, MSG_NOSIGNAL) != length)
            return 0;
    }
    return 1;
}

/* Serves the sessions that arrive through a pipe, until the pipe is closed and all clients are gone. */
static void *work(void *pipe)
{
    int incoming = *(int *)pipe, wait = epoll_create1(0), open = 1;
    netmem_worker worker;
    must(netmem_worker_open(memory, &worker));
    epoll_ctl(wait, EPOLL_CTL_ADD, incoming, &(struct epoll_event){.events = EPOLLIN});
    while (open || netmem_worker_held(worker) > 0) {
        struct epoll_event event;
        if (epoll_wait(wait, &event, 1, -1) != 1)
            continue;
        netmem_object object = {event.data.u64};
        if (object.word == 0) {
            open = read(incoming, &object, sizeof object) == sizeof object;
            if (!open) {
                epoll_ctl(wait, EPOLL_CTL_DEL, incoming, NULL);
                continue;
            }
            must(netmem_object_attach(worker, &object, 1));
            struct session *session = netmem_object_data(worker, object);
            event = (struct epoll_event){.events = EPOLLIN, .data.u64 = object.word};
            epoll_ctl(wait, EPOLL_CTL_ADD, session->socket, &event);
            continue;
        }
        struct session *session = netmem_object_data(worker, object);
        if (!session || serve(session))
            continue;
        close(session->socket);
        must(netmem_object_free(worker, &object, 1));
    }
    close(wait);
    must(netmem_worker_close(worker));
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[2]) : 2, pipes[THREADS_MAX][2];
    if (argc < 2 || threads < 1 || threads > THREADS_MAX)
        return fprintf(stderr, "usage: sessions PORT [THREADS], 1 to %d threads\n", THREADS_MAX), 2;
    sigaction(SIGINT, &(struct sigaction){.sa_handler = stop}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);
    netmem_worker worker;
    must(netmem_memory_open(&(netmem_memory_config){.workers = THREADS_MAX + 1}, &memory));
    must(netmem_worker_open(memory, &worker));
    must(netmem_cache_open(worker, &(netmem_cache_config){.name = "sessions", .size = sizeof(struct session)}, &cache));
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    if (bind(listening, (struct sockaddr *)&at, length) || listen(listening, 64) || getsockname(listening, (struct sockaddr *)&at, &length))
        return perror("sessions"), 1;
    /* The timeout makes the loop check `stopped`, even if another thread received the signal. */
    setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 200000}, sizeof(struct timeval));
    pthread_t ids[THREADS_MAX];
    for (int i = 0; i < threads; i++)
        if (pipe(pipes[i]) || pthread_create(&ids[i], NULL, work, &pipes[i][0]))
            return perror("sessions"), 1;
    printf("port %d\n", ntohs(at.sin_port)), fflush(stdout);
    unsigned long sessions = 0;
    for (int client; !stopped;) {
        if ((client = accept(listening, NULL, NULL)) < 0)
            continue;
        netmem_object object;
        if (must(netmem_object_alloc(worker, cache, &object, 1)) == 0) {
            close(client);
            continue;
        }
        *(struct session *)netmem_object_data(worker, object) = (struct session){.socket = client};
        must(netmem_object_detach(worker, &object, 1));
        if (write(pipes[sessions++ % threads][1], &object, sizeof object) != sizeof object)
            return perror("sessions"), 1;
    }
    for (int i = 0; i < threads; i++)
        close(pipes[i][1]), pthread_join(ids[i], NULL), close(pipes[i][0]);
    must(netmem_cache_close(cache)), must(netmem_worker_close(worker)), must(netmem_memory_close(memory, 1000));
    return printf("%lu sessions, none left\n", sessions), 0;
}
