/* net/stream/secure.h: settings of TLS for streams. */
#ifndef WEIR_NET_SECURE_H
#define WEIR_NET_SECURE_H

#include <stdatomic.h>

#include <weir/tls.h>

#include "kernel/tls/tls_context.h"

/* Constant but for the count and `has_warned`. */
struct weir_tls {
        _Atomic uint32_t references;
        bool is_client;
        bool is_unchecked;                 /* neither the certificate of a server is checked nor its key */
        _Atomic bool has_warned;           /* of that; relaxed */
        int fault;                         /* which tasks that use it end with; 0: none */
        struct weir__tls_context *context; /* NULL with a fault */
};

struct weir_stream;

/* Gives a stream TLS, within that which it has; the handshake is to follow.  A client resumes a session of that name at that
 * address, which is any text; NULL: the peer's.  Owner.
 * Result: 0; the fault of the settings; -EINVAL for a bad name; -ENOMEM. */
int weir__stream_secure(struct weir_stream *stream, struct weir_tls *tls, const char *name, const char *address);

/* The settings of "tls:" addresses, with a reference; NULL when out of memory.  Reads files when it is asked for the first time:
 * never on a poller. */
struct weir_tls *weir__tls_default(void);

/* The same, if they were read already; else NULL.  Any thread. */
struct weir_tls *weir__tls_default_now(void);

/* -- roots.c: the default settings for those who must not block.  Owner of the poller -- */

struct weir__roots_job;

/* A wait for the default settings, in the struct of whoever waits. */
struct weir__roots_wait {
        void (*read)(struct weir__roots_wait *wait, struct weir_tls *tls, int failed); /* a reference, or NULL and why */
        struct weir__roots_job *job;                                                   /* NULL: it does not wait */
};

/* Has them read on the executor.  Result: 0: `read` is called later, unless the wait is left; or a negative errno. */
int weir__roots_begin(struct weir__roots_wait *wait, unsigned poller);
void weir__roots_leave(struct weir__roots_wait *wait); /* nothing happens if it does not wait */

#endif
