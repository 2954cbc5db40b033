/* test/stream_fixture.h: a stream over TCP whose other end is the test's, and what that end does and sees. */
#ifndef WEIR_TEST_STREAM_FIXTURE_H
#define WEIR_TEST_STREAM_FIXTURE_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "test/fixture.h"
#include "test/timer_fixture.h"

static int peer; /* the other end of `stream`, of the test */
static weir_stream *stream;

/* Bytes of TCP are no deadline, so the clock is asked again and again. */
#define BECOMES(condition) WEIR_TEST_EVENTUALLY((weir_test_pass(0), (condition)))

/* -- connections -- */

static inline int listen_here(char address[64])
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof in;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&in, size), 0);
        CU_ASSERT_EQUAL_FATAL(listen(listener, 16), 0);
        CU_ASSERT_EQUAL_FATAL(getsockname(listener, (struct sockaddr *)&in, &size), 0);
        snprintf(address, 64, "127.0.0.1:%u", ntohs(in.sin_port));
        return listener;
}

/* Two ends of a connection of TCP. */
static inline void make_pair(int ends[2])
{
        struct sockaddr_in to;
        socklen_t size = sizeof to;
        char address[64];
        int listener = listen_here(address);

        CU_ASSERT_EQUAL(getsockname(listener, (struct sockaddr *)&to, &size), 0);
        ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CU_ASSERT_EQUAL_FATAL(connect(ends[0], (struct sockaddr *)&to, size), 0);
        ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        CU_ASSERT_FATAL(ends[1] >= 0);
        close(listener);
}

static inline void make_stream(void)
{
        int ends[2];

        make_pair(ends);
        stream = weir_stream_of(ends[0]);
        peer = ends[1];
        CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
}

static inline void begin(void)
{
        weir_test_begin_virtual();
        make_stream();
}

static inline void end(void)
{
        weir_stream_unref(stream);
        weir_test_end();
        if (peer >= 0)
                close(peer);
}

static inline void reset_by_peer(void)
{
        const struct linger at_once = {.l_onoff = 1};

        CU_ASSERT_EQUAL(setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(peer);
        peer = -1;
}

/* What the peer's next read finds: bytes, 0 for the end, or a negative errno. */
static inline ssize_t peer_sees(void)
{
        char bytes[65536];
        struct pollfd event = {.fd = peer, .events = POLLIN};

        CU_ASSERT_EQUAL(poll(&event, 1, (int)(WEIR_TEST_PATIENCE / 1000000)), 1);
        ssize_t count = read(peer, bytes, sizeof bytes);
        return count < 0 ? -errno : count;
}

/* -- tasks -- */

static inline void start(weir_task *task)
{
        CU_ASSERT_EQUAL(weir_task_start(task), 0);
}

#endif
