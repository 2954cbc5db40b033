/* server/base/server.h: the struct of an HTTP server: what its branches share. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <stdint.h>

#include <weir/http_server.h>

#include "net/listen/server.h"
#include "protocol/field/forwarded.h"
#include "protocol/message/gate.h"
#include "server/base/branch.h"

#define WEIR__HTTP "http" /* weir__server_ops.protocol */

struct weir_http_server {
        struct weir__server base; /* first */

        /* Constant. */
        struct weir_http_server_config config; /* defaults filled in */
        struct weir__gate_limits gate_limits;
        struct weir__error_page *error_pages; /* from the start on; before that guarded by the lock of `base` */
        uint32_t coalescing; /* ns; from the start on; before that guarded by the lock of `base` */
        struct weir__proxies *proxies;
        struct weir__access *access; /* the access log; or NULL */
        weir_task_fn *handler;
        void *context;
};

static inline weir_http_server *weir__http_server_of(const struct weir__server *base)
{
        return (weir_http_server *)base;
}

static inline struct weir__http_branch *weir__http_branch_at(const weir_http_server *server, unsigned index)
{
        return weir__http_branch_of(weir__server_branch(&server->base, index));
}

#endif
