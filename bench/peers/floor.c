/* bench/peers/floor.c: the least that a server can do: epoll, read, write; it looks at nothing that it reads.
 *
 *     floor hello|delay|close
 *
 * A delayed reply waits in a queue, which is in order by itself, as all wait equally long; epoll_wait's timeout is its clock.
 * Prints its port; SIGTERM ends it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define EVENTS 256
#define REPLY(connection)                                                             \
        "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n" \
        "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\nConnection: " connection "\r\n\r\nhello\n"

static struct {
        int64_t due;
        int fd;
} waiting[65536]; /* a ring: more than there can be connections */

static unsigned first_waiting, end_waiting;
static int epoll_fd, listen_fd;
static bool delayed, closing;

static int
serve_somewhere(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;

        listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (bind(listen_fd, (struct sockaddr *)&address, size) < 0 || listen(listen_fd, 4096) < 0 ||
            getsockname(listen_fd, (struct sockaddr *)&address, &size) < 0)
                return 0;
        return ntohs(address.sin_port);
}

static void
watch(int fd)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};

        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void
reply(int fd)
{
        static const char kept[] = REPLY("keep-alive"), last[] = REPLY("close");

        if (write(fd, closing ? last : kept, closing ? sizeof last - 1 : sizeof kept - 1) < 0 && !closing)
                return; /* it has gone; its next event closes it */
        if (closing)
                close(fd);
}

static void
serve(int fd)
{
        char text[4096];

        if (read(fd, text, sizeof text) <= 0) {
                close(fd);
        } else if (delayed) {
                unsigned place = end_waiting++ % 65536;

                waiting[place].due = bench_now() + BENCH_NSEC_PER_SEC;
                waiting[place].fd = fd;
        } else {
                reply(fd);
        }
}

static void
accept_all(void)
{
        for (int fd; (fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK)) >= 0;)
                watch(fd);
}

/* Answers what is due; returns how many milliseconds to sleep, rounded up. */
static int
answer_due(void)
{
        if (first_waiting == end_waiting)
                return -1;
        for (int64_t now = bench_now(); first_waiting != end_waiting; first_waiting++) {
                int64_t left = waiting[first_waiting % 65536].due - now;

                if (left > 0)
                        return (int)((left + 999999) / 1000000);
                reply(waiting[first_waiting % 65536].fd);
        }
        return -1;
}

int
main(int argc, char *argv[])
{
        struct epoll_event events[EVENTS];

        delayed = argc > 1 && strcmp(argv[1], "delay") == 0;
        closing = argc > 1 && strcmp(argv[1], "close") == 0;
        int port = serve_somewhere();
        if (port == 0) {
                perror("floor");
                return 1;
        }
        epoll_fd = epoll_create1(0);
        watch(listen_fd);
        printf("%d\n", port);
        fflush(stdout);
        for (;;) {
                int count = epoll_wait(epoll_fd, events, EVENTS, answer_due());

                for (int i = 0; i < count; i++) {
                        if (events[i].data.fd == listen_fd)
                                accept_all();
                        else
                                serve(events[i].data.fd);
                }
        }
}
