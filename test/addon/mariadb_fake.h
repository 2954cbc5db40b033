/* test/addon/mariadb_fake.h: what a server of MariaDB says first. */
#ifndef WEIR_TEST_MARIADB_FAKE_H
#define WEIR_TEST_MARIADB_FAKE_H

#include "test/addon/mariadb_server.h"
#include "test/addon/sql_fake.h"

/* Reads a packet.  Returns whether one has come. */
static inline bool
fake_read(int fd)
{
        unsigned char head[4], rest[4096];

        if (recv(fd, head, 4, MSG_WAITALL) != 4)
                return false;
        size_t size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
        return size <= sizeof rest && (size == 0 || recv(fd, rest, size, MSG_WAITALL) == (ssize_t)size);
}

/* The start of a session: a server that believes its clients. */
static inline bool
fake_greet(int fd)
{
        static const unsigned char hello[] = "\x4a\0\0\0\x0a"
                                             "5.5.5\0"
                                             "\x01\0\0\0"
                                             "12345678\0"
                                             "\xff\xf7\x2d\x02\0\x0f\x80\x15"
                                             "\0\0\0\0\0\0\0\0\0\0"
                                             "123456789012\0"
                                             "mysql_native_password";
        static const unsigned char ok[] = "\x07\0\0\x02\0\0\0\x02\0\0";

        unsigned char greeting[sizeof hello];
        memcpy(greeting, hello, sizeof hello);
        greeting[0] = sizeof hello - 4;
        fake_send(fd, greeting, sizeof hello);
        if (!fake_read(fd))
                return false;
        fake_send(fd, ok, sizeof ok);
        return true;
}

#endif
