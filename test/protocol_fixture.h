/* test/protocol_fixture.h: bytes that peers of a protocol exchange, and a record of the messages that a handler saw. */
#ifndef WEIR_TEST_PROTOCOL_FIXTURE_H
#define WEIR_TEST_PROTOCOL_FIXTURE_H

#include <sys/socket.h>
#include <sys/un.h>

#include "test/fixture.h"
#include "test/timer_fixture.h"

/* -- the other end, of the test -- */

static inline void put_bytes(int peer, const void *bytes, size_t size)
{
        CU_ASSERT_EQUAL(send(peer, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static inline void put(int peer, const char *text)
{
        put_bytes(peer, text, strlen(text));
}

/* What has come at the other end by now; "" when there is nothing, "<end>" at the end, "<reset>". */
static inline const char *got(int peer, size_t *size)
{
        static char text[1 << 17];
        ssize_t count = recv(peer, text, sizeof text - 1, MSG_DONTWAIT);

        if (size)
                *size = count > 0 ? (size_t)count : 0;
        if (count <= 0)
                return count == 0 ? "<end>" : errno == ECONNRESET ? "<reset>" : "";
        text[count] = '\0';
        return text;
}

#define GOT(peer, text) CU_ASSERT_STRING_EQUAL(got((peer), NULL), (text))

/* Nothing more fits into a socket. */
static inline void fill(int fd)
{
        while (send(fd, "0123456789abcdef", 16, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                continue;
}

/* -- what a handler has seen -- */

static char heard[4096];
static unsigned heard_count;

static inline void hear(const weir_task *message)
{
        size_t size, at = strlen(heard);
        const char *data = weir_message_data(message, &size);

        CU_ASSERT_EQUAL(data[size], '\0');
        snprintf(heard + at, sizeof heard - at, "%.*s|", (int)size, data);
        heard_count++;
}

static inline void forget_heard(void)
{
        heard[0] = '\0';
        heard_count = 0;
}

#define HEARD(text)                                    \
        do {                                           \
                CU_ASSERT_STRING_EQUAL(heard, (text)); \
                forget_heard();                        \
        } while (0)

static inline void echo(weir_task *message, void *context)
{
        size_t size;
        const void *data = weir_message_data(message, &size);

        (void)context;
        hear(message);
        CU_ASSERT_EQUAL(weir_message_reply(message, data, size), 0);
}

/* Replies when as many seconds have passed as the last character of the message says; not at all, if that is '-'. */
static inline void echo_later(weir_task *message, void *context)
{
        size_t size;
        const char *data = weir_message_data(message, &size);
        char last = size ? data[size - 1] : '0';

        (void)context;
        hear(message);
        if (last != '-')
                CU_ASSERT_EQUAL(weir_message_reply(message, data, size), 0);
        if (last >= '1' && last <= '9')
                weir_series_push(weir_series_of(message), weir_timer_new(WEIR_SEC(last - '0'), NULL, NULL));
}

#define PROTOCOL(...) ((const struct weir_protocol){.size = sizeof(struct weir_protocol), __VA_ARGS__})

#endif
