/* test/addon/pq_fake.h: what a server of PostgreSQL says first. */
#ifndef WEIR_TEST_PQ_FAKE_H
#define WEIR_TEST_PQ_FAKE_H

#include "test/addon/pq_server.h"
#include "test/addon/sql_fake.h"

/* Reads until that many bytes have come.  Returns whether they have. */
static inline bool
fake_read(int fd, void *data, size_t size)
{
        return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size;
}

/* The start of a session, up to ReadyForQuery. */
static inline bool
fake_greet(int fd)
{
        static const char ready[] = "R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
        unsigned char head[8], rest[1024];

        for (;;) {
                if (!fake_read(fd, head, sizeof head))
                        return false;
                unsigned size = (unsigned)head[2] << 8 | head[3];
                bool is_request = head[4] == 0x04 && head[5] == 0xd2; /* for TLS, or to cancel */
                if (size < 8 || size > sizeof rest || (size > 8 && !fake_read(fd, rest, size - 8)))
                        return false;
                if (!is_request)
                        break;
                fake_send(fd, "N", 1);
        }
        fake_send(fd, ready, sizeof ready - 1);
        return true;
}

#endif
