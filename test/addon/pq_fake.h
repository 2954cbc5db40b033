/* test/addon/pq_fake.h: a peer that behaves as a test wants, on a thread of its own. */
#ifndef WEIR_TEST_PQ_FAKE_H
#define WEIR_TEST_PQ_FAKE_H

#include "test/addon/pq_server.h"

struct fake {
        int listener, port;
        pthread_t thread;
        void (*serve)(int fd); /* one connection at a time; NULL: none is accepted */
        char conninfo[160];
};

/* -- what a server says -- */

static inline void fake_send(int fd, const void *data, size_t size)
{
        if (send(fd, data, size, MSG_NOSIGNAL) < 0) {
                return;
        }
}

/* Reads until that many bytes have come.  Returns whether they have. */
static inline bool fake_read(int fd, void *data, size_t size)
{
        return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size;
}

/* The start of a session, up to ReadyForQuery. */
static inline bool fake_greet(int fd)
{
        static const char ready[] = "R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
        unsigned char head[8], rest[1024];

        for (;;) {
                if (!fake_read(fd, head, sizeof head)) {
                        return false;
                }
                unsigned size = (unsigned)head[2] << 8 | head[3];
                bool is_request = head[4] == 0x04 && head[5] == 0xd2; /* for TLS, or to cancel */
                if (size < 8 || size > sizeof rest || (size > 8 && !fake_read(fd, rest, size - 8))) {
                        return false;
                }
                if (!is_request) {
                        break;
                }
                fake_send(fd, "N", 1);
        }
        fake_send(fd, ready, sizeof ready - 1);
        return true;
}

static inline void *fake_run(void *context)
{
        struct fake *fake = context;

        for (int fd; (fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
                fake->serve(fd);
                close(fd);
        }
        return NULL;
}

static inline void fake_begin(struct fake *fake, void (*serve)(int fd))
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t size = sizeof address;

        fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fake->listener, (struct sockaddr *)&address, size) != 0 || listen(fake->listener, 16) != 0 ||
            getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0) {
                abort();
        }
        fake->port = ntohs(address.sin_port);
        fake->serve = serve;
        snprintf(fake->conninfo, sizeof fake->conninfo, "host=127.0.0.1 port=%d user=weir dbname=postgres", fake->port);
        if (serve && pthread_create(&fake->thread, NULL, fake_run, fake) != 0) {
                abort();
        }
}

static inline void fake_end(struct fake *fake)
{
        shutdown(fake->listener, SHUT_RDWR);
        if (fake->serve) {
                pthread_join(fake->thread, NULL);
        }
        close(fake->listener);
}

#endif
