/* test/udp_fixture.h: sockets of the system beside sockets of the library. */
#ifndef WEIR_TEST_UDP_FIXTURE_H
#define WEIR_TEST_UDP_FIXTURE_H

#include "test/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/* What a task has received. */
struct weir_test_taken {
        int calls, status;
        char data[2048]; /* one after another, with a space behind each */
        size_t size;     /* of the last one */
        size_t count;
        int is_truncated, attempts;
        char from[WEIR_UDP_ADDRESS_TEXT];
        weir_nsec at;
};

static inline void
weir_test_take(weir_task *task, void *context)
{
        struct weir_test_taken *taken = context;

        taken->calls++;
        taken->status = weir_task_status(task);
        taken->count = weir_udp_count(task);
        taken->attempts = weir_udp_attempts(task);
        taken->at = weir_now();
        weir_udp_address_write(weir_udp_from(task), taken->from, sizeof taken->from);
        if (!weir_udp_data(task, NULL)) {
                return;
        }
        do {
                size_t used = strlen(taken->data);
                const char *data = weir_udp_data(task, &taken->size);

                taken->is_truncated = weir_udp_is_truncated(task);
                CU_ASSERT_EQUAL(data[taken->size], '\0');
                snprintf(taken->data + used, sizeof taken->data - used, "%s ", data);
        } while (weir_udp_next(task));
}

#define WEIR_TEST_TOOK(taken, text)                          \
        do {                                                 \
                CU_ASSERT_EQUAL((taken)->calls, 1);          \
                CU_ASSERT_EQUAL((taken)->status, 0);         \
                CU_ASSERT_STRING_EQUAL((taken)->data, text); \
        } while (0)

/* A socket of the system at 127.0.0.1. */
static inline int
weir_test_plain_socket(int *port)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof name;
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&name, &size), 0);
        *port = ntohs(name.sin_port);
        return fd;
}

static inline const char *
weir_test_at(int port)
{
        static _Thread_local char texts[4][32];
        static _Thread_local unsigned next;
        char *text = texts[next++ % 4];

        snprintf(text, sizeof texts[0], "127.0.0.1:%d", port);
        return text;
}

static inline void
weir_test_send_to(int fd, int port, const void *data, size_t size)
{
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        name.sin_port = htons((in_port_t)port);
        CU_ASSERT_EQUAL(sendto(fd, data, size, 0, (struct sockaddr *)&name, sizeof name), (ssize_t)size);
}

/* Waits for a datagram, and returns its size; -1: none comes within a time that no test should take.  `port` may be NULL. */
static inline ssize_t
weir_test_receive(int fd, void *data, size_t room, int *port)
{
        struct sockaddr_in name;
        socklen_t size = sizeof name;
        struct pollfd wait = {.fd = fd, .events = POLLIN};

        if (poll(&wait, 1, (int)(WEIR_TEST_PATIENCE / 1000000)) != 1) {
                return -1;
        }
        ssize_t got = recvfrom(fd, data, room, 0, (struct sockaddr *)&name, &size);
        if (port && got >= 0) {
                *port = ntohs(name.sin_port);
        }
        return got;
}

/* How many datagrams are in the queue of a socket; they are thrown away. */
static inline unsigned
weir_test_drain(int fd)
{
        char data[65536];
        unsigned count = 0;

        while (recv(fd, data, sizeof data, MSG_DONTWAIT) >= 0) {
                count++;
        }
        return count;
}

#endif
