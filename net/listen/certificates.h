/* net/listen/certificates.h: the files of TLS of a server, and the context made of them. */
#ifndef WEIR_NET_CERTIFICATES_H
#define WEIR_NET_CERTIFICATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernel/base/lock.h"
#include "kernel/socket/stream.h"
#include "kernel/tls/tls_context.h"

struct weir__server;

/* The files that a server names, and what it asks of clients.  Texts are copied, but for `protocols`. */
struct weir__secure_config {
        const char *fault; /* a contradiction in the config; or NULL */
        const char *certificate_file, *private_key_file, *ocsp_file, *client_ca_file, *groups; /* each may be NULL */
        const char *protocols; /* of ALPN: constant */
        void *ssl_ctx;        /* in place of files; or NULL */
        enum weir__tls_client_check check;
};

struct weir__secure {
        /* Constant. */
        const char *fault; /* a contradiction in the config; or NULL */
        char *ocsp_file, *client_ca_file, *groups;
        const char *protocols;
        enum weir__tls_client_check check;
        bool has_ssl_ctx; /* in place of files */

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

int weir__secure_init(struct weir__secure *secure, const struct weir__secure_config *config); /* an error: the start reports it */
void weir__secure_done(struct weir__secure *secure);
int weir__secure_start(struct weir__server *server); /* STARTING: reads the files, if there are any.  With no lock held */
struct weir__tls *weir__secure_accept(struct weir__server *server, int fd); /* NULL when out of memory */

/* One more certificate, before the first attempt to start.  Result: 0; -EALREADY; -ENOMEM.  Any thread. */
int weir__secure_add(struct weir__server *server, const char *certificate_file, const char *private_key_file);
/* Reads the files anew, for new connections.  Result: 0; -EDOM: there are none; or as the start.  Any thread that may wait. */
int weir__secure_reload(struct weir__server *server);

#endif
