/* server/base/secure.h: the files of TLS of a server, and the context made of them. */
#ifndef WEIR_SERVER_SECURE_H
#define WEIR_SERVER_SECURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/http_server.h>

#include "kernel/base/lock.h"
#include "kernel/socket/stream.h"
#include "kernel/tls/tls_context.h"

struct weir__secure {
        /* Constant. */
        const char *fault; /* a contradiction in the config; or NULL */
        char *ocsp_file, *client_ca_file, *groups;

        /* Guarded by the server's lock; constant after the first attempt to start. */
        struct weir__tls_pair *pairs;
        size_t pair_count;
        bool is_start_tried;

        bool is_on; /* written by the thread that starts the server; constant from there on */

        _Atomic unsigned readings; /* of the files; relaxed */
        struct weir__lock lock; /* a leaf */

        /* Guarded by lock. */
        unsigned installed;                /* the number of the reading that has made the context */
        struct weir__tls_context *context; /* of new connections; NULL: plain, or not started */
};

int weir__secure_init(weir_http_server *server); /* from its config; returns the error that the start reports */
void weir__secure_done(weir_http_server *server);
int weir__secure_start(weir_http_server *server); /* STARTING: reads the files, if there are any.  With no lock held */
struct weir__tls *weir__secure_accept(weir_http_server *server, int fd); /* NULL when out of memory */

#endif
