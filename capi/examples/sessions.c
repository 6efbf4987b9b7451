/* A TCP server whose sessions are objects of a cache. It sends each line back with the number of the line in front.
 *
 *   cc sessions.c -o sessions $(pkg-config --cflags --libs netmem) -pthread
 *   sessions PORT [THREADS]
 *
 * The listening thread allocates a session for each client and passes it to a thread, which serves the session and frees it. If the program
 * frees a session twice, or uses it after passing it on, the library refuses and reports the call.
 *
 * A session ends when the client closes it, sends a line that does not end within 512 bytes, or does not read its answers: no thread waits
 * for one client. SIGINT and SIGTERM end all sessions and the program. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netmem.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define THREADS_MAX 16
#define LINE_BYTES 512

struct session {
    int socket;
    unsigned long lines;
    /* The start of a line whose end has not come yet. */
    size_t length;
    char line[LINE_BYTES];
    LIST_ENTRY(session) others;
};

/* A thread that serves sessions. */
struct server {
    netmem_worker worker;
    int incoming, wait;
    LIST_HEAD(, session) sessions;
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

/* Sends back the lines that a client has sent, each after its number, and keeps the start of the next one. Returns 0 when the session ends. */
static int serve(struct session *session)
{
    ssize_t n = recv(session->socket, session->line + session->length, LINE_BYTES - session->length, 0);
    if (n <= 0)
        return 0;
    char *line = session->line, *end, *behind = line + session->length + n, number[24];
    for (; (end = memchr(line, '\n', behind - line)); line = end + 1) {
        int digits = snprintf(number, sizeof number, "%lu ", ++session->lines);
        struct iovec parts[] = {{number, digits}, {line, end + 1 - line}};
        struct msghdr answer = {.msg_iov = parts, .msg_iovlen = 2};
        if (sendmsg(session->socket, &answer, MSG_NOSIGNAL | MSG_DONTWAIT) != digits + (end + 1 - line))
            return 0;
    }
    session->length = behind - line;
    memmove(session->line, line, session->length);
    return session->length < LINE_BYTES;
}

/* Takes a session over that arrives through the pipe. Returns 0 when the pipe is closed. */
static int take(struct server *server)
{
    netmem_object object;
    if (read(server->incoming, &object, sizeof object) != sizeof object)
        return 0;
    must(netmem_object_attach(server->worker, &object, 1));
    struct session *session = netmem_object_data(server->worker, object);
    LIST_INSERT_HEAD(&server->sessions, session, others);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = object.word};
    epoll_ctl(server->wait, EPOLL_CTL_ADD, session->socket, &event);
    return 1;
}

/* Ends the sessions, as if their clients had closed them. */
static void end_all(struct server *server)
{
    epoll_ctl(server->wait, EPOLL_CTL_DEL, server->incoming, NULL);
    struct session *session;
    LIST_FOREACH(session, &server->sessions, others)
        shutdown(session->socket, SHUT_RDWR);
}

/* Serves the sessions that arrive through the pipe of a thread, until the pipe is closed. */
static void *work(void *thread)
{
    struct server *server = thread;
    int open = 1;
    must(netmem_worker_open(memory, &server->worker));
    epoll_ctl(server->wait, EPOLL_CTL_ADD, server->incoming, &(struct epoll_event){.events = EPOLLIN});
    while (open || netmem_worker_held(server->worker) > 0) {
        struct epoll_event event;
        if (epoll_wait(server->wait, &event, 1, -1) != 1)
            continue;
        netmem_object object = {event.data.u64};
        if (object.word == 0) {
            if (!(open = take(server)))
                end_all(server);
            continue;
        }
        struct session *session = netmem_object_data(server->worker, object);
        if (!session || serve(session))
            continue;
        close(session->socket);
        LIST_REMOVE(session, others);
        must(netmem_object_free(server->worker, &object, 1));
    }
    must(netmem_worker_close(server->worker));
    return NULL;
}

/* Waits a moment if accept(2) failed because something of the system is used up: it would fail again at once. Says so once. */
static void rest_if_used_up(int error)
{
    static int is_said;
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
        return;
    if (!is_said++)
        fprintf(stderr, "sessions: no more clients for now: %s\n", strerror(error));
    usleep(10000);
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
    struct server servers[THREADS_MAX] = {0};
    /* All descriptors are there before the first client, who may take the last one. */
    for (int i = 0; i < threads; i++) {
        if (pipe(pipes[i]) || (servers[i].wait = epoll_create1(0)) < 0)
            return perror("sessions"), 1;
        servers[i].incoming = pipes[i][0];
        if ((errno = pthread_create(&ids[i], NULL, work, &servers[i])) != 0)
            return perror("sessions"), 1;
    }
    printf("port %d\n", ntohs(at.sin_port)), fflush(stdout);
    unsigned long sessions = 0;
    for (int client; !stopped;) {
        if ((client = accept(listening, NULL, NULL)) < 0) {
            rest_if_used_up(errno);
            continue;
        }
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
    close(listening);
    for (int i = 0; i < threads; i++)
        close(pipes[i][1]), pthread_join(ids[i], NULL), close(pipes[i][0]), close(servers[i].wait);
    must(netmem_cache_close(cache)), must(netmem_worker_close(worker)), must(netmem_memory_close(memory, 1000));
    return printf("%lu sessions, none left\n", sessions), 0;
}
