/* test/e2e/many_connections.c: thousands of clients in one thread.
 *
 *     many_connections [echo] PORT COUNT SPREAD LEAST MOST [PROCESS]
 *
 * Opens COUNT connections to 127.0.0.1, then sends one request on each, evenly over SPREAD milliseconds, and waits for the
 * replies: each has to come LEAST to MOST milliseconds after its own request.  With PROCESS, that one gets SIGINT when all are
 * sent.  Prints what it saw; exits with 0 when all were answered in time, 3 when all were but some late, else with 1.
 *
 * With `echo` the reply to a request is the request, and each connection is asked a second time. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE    INT64_C(40000000000)
#define MILLISECOND INT64_C(1000000)

static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

struct client {
        int fd;
        int64_t sent, took; /* took: 0 until answered */
};

static struct client *clients;
static size_t count, sent_count, answered, lost;
static bool is_echo;
static int epoll_fd;

static int64_t
now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void
give_up(const char *what)
{
        fprintf(stderr, "many_connections: %s: %s\n", what, strerror(errno));
        exit(1);
}

static void
raise_file_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static void
open_one(size_t index, int port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = index};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
                give_up("connect");
        }
        clients[index].fd = fd;
}

static void
send_one(struct client *client)
{
        client->sent = now();
        if (send(client->fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1) {
                give_up("send");
        }
        sent_count++;
}

static bool
is_right(const char *reply, ssize_t size)
{
        if (is_echo)
                return size == sizeof request - 1 && memcmp(reply, request, sizeof request - 1) == 0;
        return size > 12 && memcmp(reply, "HTTP/1.1 200", 12) == 0;
}

/* A reply is short and comes in one piece. */
static void
receive(struct client *client)
{
        char reply[4096];
        ssize_t size = recv(client->fd, reply, sizeof reply, 0);

        if (client->took) {
                epoll_ctl(epoll_fd, EPOLL_CTL_DEL, client->fd, NULL); /* its end */
        } else if (is_right(reply, size) && client->sent) {
                client->took = now() - client->sent;
                answered++;
        } else {
                client->took = -1;
                lost++;
                epoll_ctl(epoll_fd, EPOLL_CTL_DEL, client->fd, NULL);
        }
}

static void
receive_some(int wait)
{
        struct epoll_event events[256];
        int got = epoll_wait(epoll_fd, events, 256, wait);

        for (int i = 0; i < got; i++) {
                receive(&clients[events[i].data.u64]);
        }
}

static void
send_all(int64_t spread)
{
        int64_t began = now();

        while (sent_count < count) {
                while (sent_count < count && (int64_t)sent_count * spread <= (now() - began) * (int64_t)count) {
                        send_one(&clients[sent_count]);
                }
                receive_some(0);
        }
        printf("%zu requests sent within %.0f ms\n", count, (double)(now() - began) / MILLISECOND);
}

static void
wait_for_all(void)
{
        for (int64_t until = now() + PATIENCE; answered + lost < count && now() < until;) {
                receive_some(100);
        }
}

static void
ask_again(int64_t spread)
{
        sent_count = answered = 0;
        for (size_t i = 0; i < count; i++) {
                clients[i].sent = clients[i].took = 0;
        }
        send_all(spread);
        wait_for_all();
}

static int
compare(const void *one, const void *other)
{
        int64_t a = ((const struct client *)one)->took, b = ((const struct client *)other)->took;

        return (a > b) - (a < b);
}

static int
judge(double least, double most)
{
        double first, middle, last;

        qsort(clients, count, sizeof *clients, compare);
        first = (double)clients[lost].took / MILLISECOND;
        middle = (double)clients[(count + lost) / 2].took / MILLISECOND;
        last = (double)clients[count - 1].took / MILLISECOND;
        printf("%zu answered, %zu not: after %.1f, half of them after %.1f, the last after %.1f ms\n", answered, count - answered,
               first, middle, last);
        if (answered < count || first < least) {
                return 1;
        }
        return last > most ? 3 : 0;
}

int
main(int argc, char *argv[])
{
        is_echo = argc > 1 && strcmp(argv[1], "echo") == 0;
        argv += is_echo;
        argc -= is_echo;
        if (argc < 6) {
                fprintf(stderr, "usage: many_connections [echo] PORT COUNT SPREAD LEAST MOST [PROCESS]\n");
                return 2;
        }
        raise_file_limit();
        count = strtoul(argv[2], NULL, 10);
        clients = calloc(count, sizeof *clients);
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (count == 0 || !clients || epoll_fd < 0) {
                give_up("begin");
        }
        for (size_t i = 0; i < count; i++) {
                open_one(i, atoi(argv[1]));
        }
        printf("%zu connections are open\n", count);
        send_all(strtol(argv[3], NULL, 10) * MILLISECOND);
        if (argc > 6 && kill((pid_t)strtol(argv[6], NULL, 10), SIGINT) < 0) {
                give_up("kill");
        }
        wait_for_all();
        if (is_echo && answered == count) {
                ask_again(strtol(argv[3], NULL, 10) * MILLISECOND);
        }
        return judge(atof(argv[4]), atof(argv[5]));
}
