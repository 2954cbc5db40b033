/* client/draft/draft.h: a request before it goes out: its method, its URL, its fields; then its head. */
#ifndef WEIR_CLIENT_DRAFT_H
#define WEIR_CLIENT_DRAFT_H

#include <stdatomic.h>

#include <weir/http_client.h>
#include <weir/url.h>

#include "protocol/text/lines.h"

struct weir__draft {
        weir_client *client;          /* a use; or NULL */
        weir_url *url;                /* or NULL */
        _Atomic(const char *) method; /* `own_method` or a constant; a dump may read it */
        char *own_method;             /* or NULL */
        struct weir__lines fields;
        bool is_idempotent;
        const struct weir__proxy *relay; /* the proxy that it is sent to in place of the server, in absolute form; or NULL */
        bool expects_continue;           /* before a body goes out */
        bool asks_coding;                /* for a body in gzip or another coding, which is taken off */

        char *head; /* as it goes out; or NULL */
        size_t head_size;
};

/* How the body is framed. */
enum weir__draft_framing { WEIR__DRAFT_NO_BODY, WEIR__DRAFT_LENGTH, WEIR__DRAFT_CHUNKED };

/* All zero before.  Result: 0; -EINVAL, which the log explains with the name of the call; -ENOMEM, also for a NULL client. */
int weir__draft_init(struct weir__draft *draft, weir_client *client, const char *method, const char *url, const char *call);
void weir__draft_done(struct weir__draft *draft);

/* A copy, all zero before, but for its head.  Result: 0; -ENOMEM: some of it. */
int weir__draft_copy(struct weir__draft *draft, const struct weir__draft *from);

/* Adds a field.  The same results. */
int weir__draft_add(struct weir__draft *draft, const char *name, const char *value, bool should_replace, const char *call);

/* The userinfo of the URL becomes a field, unless there is one.  Result: 0; -EINVAL: it is too long; -ENOMEM. */
int weir__draft_authorize(struct weir__draft *draft);

/* Keeps the cookies of a response in the client's jar, if it has one. */
struct weir__received;
void weir__draft_take_cookies(const struct weir__draft *draft, const struct weir__received *received);

/* Writes the head.  `upgrade`: the protocol that is asked for; or NULL.  Result: 0; -ENOMEM. */
int weir__draft_compose(struct weir__draft *draft, enum weir__draft_framing framing, uint64_t length, const char *upgrade);

#endif
