/* test/addon/sql_fake.h: a peer that behaves as a test wants, on a thread of its own. */
#ifndef WEIR_TEST_SQL_FAKE_H
#define WEIR_TEST_SQL_FAKE_H

#include "test/addon/sql_server.h"

struct fake {
        int listener, port;
        pthread_t thread;
        void (*serve)(int fd); /* one connection at a time; NULL: none is accepted */
        char url[160];
};

static inline void
fake_send(int fd, const void *data, size_t size)
{
        while (size > 0) {
                ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

                if (sent <= 0)
                        return;
                data = (const char *)data + sent;
                size -= (size_t)sent;
        }
}

static inline void *
fake_run(void *context)
{
        struct fake *fake = context;

        for (int fd; (fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
                fake->serve(fd);
                close(fd);
        }
        return NULL;
}

static inline void
fake_begin(struct fake *fake, void (*serve)(int fd))
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t size = sizeof address;

        fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fake->listener, (struct sockaddr *)&address, size) != 0 || listen(fake->listener, 16) != 0 ||
            getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0)
                abort();
        fake->port = ntohs(address.sin_port);
        fake->serve = serve;
        snprintf(fake->url, sizeof fake->url, SERVER_AT, fake->port);
        if (serve && pthread_create(&fake->thread, NULL, fake_run, fake) != 0)
                abort();
}

static inline void
fake_end(struct fake *fake)
{
        shutdown(fake->listener, SHUT_RDWR);
        if (fake->serve)
                pthread_join(fake->thread, NULL);
        close(fake->listener);
}

#endif
