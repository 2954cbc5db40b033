/* bench/server.h: a server under test, in a process of its own. */
#ifndef WEIR_BENCH_SERVER_H
#define WEIR_BENCH_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum bench_peer { BENCH_WEIR, BENCH_NGINX, BENCH_H2O, BENCH_GO, BENCH_FLOOR, BENCH_PEERS };

enum bench_service {
        BENCH_HELLO,        /* replies at once */
        BENCH_DELAY,        /* a second later */
        BENCH_CLOSED,       /* at once, and closes the connection */
        BENCH_HTTPS,        /* as HELLO, in TLS */
        BENCH_HTTPS_CLOSED, /* as CLOSED, in TLS */
        BENCH_SERVICES
};

static inline bool bench_is_secure(enum bench_service service)
{
        return service == BENCH_HTTPS || service == BENCH_HTTPS_CLOSED;
}

static inline bool bench_closes(enum bench_service service)
{
        return service == BENCH_CLOSED || service == BENCH_HTTPS_CLOSED;
}

struct bench_server {
        enum bench_peer peer;
        enum bench_service service;
        pid_t pid;
        int port;
        char directory[64]; /* of configuration and certificate; "": there are none */
};

const char *bench_peer_name(enum bench_peer peer);

/* Whether it can be started here for that: peers, and nginx's echo module for a delayed reply, may be missing. */
bool bench_peer_present(enum bench_peer peer, enum bench_service service);

#define BENCH_ALL_CPUS (-1)

/* Starts it on that CPU alone, with one thread that serves, or with one for each that this process may use, at a free port of
 * 127.0.0.1; returns when it accepts connections. */
bool bench_server_start(struct bench_server *server, enum bench_peer peer, enum bench_service service, int cpu);

/* Nanoseconds of CPU time that it has used: all its threads, also those that ended, and its processes.  Exact. */
int64_t bench_server_cpu(const struct bench_server *server);

/* Ends it, and removes its files.  Says so when it did not end well.  No-op for one that was not started. */
void bench_server_stop(struct bench_server *server);

#endif
