/* net/connect/connect.h: what the library itself wants of a connect, beside weir/stream.h. */
#ifndef WEIR_NET_CONNECT_H
#define WEIR_NET_CONNECT_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/stream.h>
#include <weir/time.h>
#include <weir/tls.h>

enum weir__connect_stage { WEIR__CONNECT_RESOLVING, WEIR__CONNECT_CONNECTING, WEIR__CONNECT_HANDSHAKE, WEIR__CONNECT_STAGES };

struct weir__connect_wishes {
        weir_nsec limits[WEIR__CONNECT_STAGES]; /* of each stage; WEIR_FOREVER: none.  -ETIMEDOUT above */
        _Atomic uint8_t *stage;                 /* is told the stage, until the task is freed */
        const char *name;                       /* that the certificate must have; NULL: the host, or as it was said */
        bool offers_http;                       /* ALPN with http/1.1, unless the settings of TLS have protocols */
};

/* Before the start; copied.  Accepts NULL as task.
 *
 * Result: 0; -ENOMEM. */
int weir__connect_wish(struct weir_task *connect, const struct weir__connect_wishes *wishes);

/* Makes a task like a connect that goes on with a stream which leads to a server already: so a handshake is all that is left.
 * The use of the stream goes to it.  `address` is any text, for people and for sessions.  NULL as settings: those of "tls:".
 *
 * Result: as weir_connect_tls_new; then the stream is closed. */
weir_task *weir__connect_over_new(weir_stream *stream, const char *address, weir_tls *tls, const char *name, weir_task_fn *done,
                                  void *context);

#endif
