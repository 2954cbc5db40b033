/* net/stream/secure.h: settings of TLS for streams. */
#ifndef WEIR_NET_SECURE_H
#define WEIR_NET_SECURE_H

#include <stdatomic.h>

#include <weir/tls.h>

#include "kernel/tls/tls_context.h"

/* Constant but for the count. */
struct weir_tls {
        _Atomic uint32_t references;
        bool is_client;
        int fault;                         /* which tasks that use it end with; 0: none */
        struct weir__tls_context *context; /* NULL with a fault */
};

/* The settings of "tls:" addresses, with a reference; NULL when out of memory.  Reads files when it is asked for the first time:
 * never on a poller. */
struct weir_tls *weir__tls_default(void);

/* The same, if they were read already; else NULL.  Any thread. */
struct weir_tls *weir__tls_default_now(void);

#endif
