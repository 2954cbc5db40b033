/* bench/connect.h: clients that make new connections, one after the other in each of several chains.
 *
 * A chain connects to the server, shakes hands if there is TLS, reads a byte, and resets the connection: so no port waits for
 * stragglers. */
#ifndef WEIR_BENCH_CONNECT_H
#define WEIR_BENCH_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONNECT_NAME "localhost" /* in the server's certificate */

struct connect_job {
        int port;            /* of 127.0.0.1 */
        const char *ca_file; /* PEM; NULL: plain */
        unsigned chains;
        size_t count; /* connections */
};

/* Result: whether all went well.  *resumed (TLS): how many have resumed a session. */
bool connect_by_loop(const struct connect_job *job, size_t *resumed);

#define CONNECT_OPENSSL "/usr/bin/openssl"

struct connect_counts {
        size_t connections, resumed;
        int64_t cpu, wall; /* nanoseconds */
};

/* `openssl s_time -reuse`.  Result: whether all went well. */
bool connect_by_openssl(const struct connect_job *job, struct connect_counts *counts);

#endif
