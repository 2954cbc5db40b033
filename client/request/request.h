/* client/request/request.h: a request for a whole response, as a task.
 *
 *     start --> a seeker of its origin --> a call on a connection --> complete
 *                   ^                            | \--redirect--> a seeker of another origin
 *                   \------replay----------------/
 *
 * While it waits in the queue of its origin, the owner of any poller may claim it, and it goes on there. */
#ifndef WEIR_CLIENT_REQUEST_H
#define WEIR_CLIENT_REQUEST_H

#include "client/origin/origin.h"
#include "client/draft/draft.h"
#include "client/draft/target.h"
#include "client/wire/call.h"
#include "io/base/io_task.h"
#include "protocol/coding/decoder.h"

#define WEIR__DRAINED ((size_t)64 << 10) /* bytes of a body that nobody wants; of a longer one the connection is closed */

struct weir__hedge;
struct weir__late;

enum weir__client_request_body { WEIR__BODY_NONE, WEIR__BODY_COPY, WEIR__BODY_LENT, WEIR__BODY_FILE };

/* Where the request has been: a dump may still look at it. */
struct weir__visited {
        struct weir__visited *next;
        weir_url *url;               /* or NULL */
        struct weir__origin *origin; /* NULL: the request has not left it yet, or for nowhere */
        struct weir__client_request *request;
        struct weir__work choosing; /* a function of the program says where the request goes */
};

struct weir__client_request {
        struct weir__io_task io; /* first */
        struct weir__seeker seeker;
        struct weir__http_call call;

        /* Constant from its start on. */
        unsigned redirects; /* that may be followed */
        size_t max_body;
        weir_nsec limit; /* of the whole */
        bool fails_on_error;

        /* Its maker's, then the owner's.  A dump may read `origin`. */
        struct weir__draft draft;
        struct weir__client_target target;
        _Atomic(struct weir__origin *) origin; /* a reference; NULL before its first try */
        struct weir__visited *visited;
        char *content; /* the request's body: COPY: its own; LENT: the program's */
        uint64_t content_size, content_at;
        int file;
        uint8_t content_kind; /* enum weir__client_request_body */
        unsigned followed;    /* redirects */
        bool is_trying;       /* `try` is on the stack */
        bool must_wait;       /* when that has returned, it waits for a connection */
        bool must_choose;     /* the same: another member is chosen by the program */
        bool is_redirected;        /* the response is followed: its body is thrown away */
        bool is_cut;               /* its connection was closed for that */
        bool is_second;            /* it is the second attempt of a hedge */
        bool was_hedged;           /* it had a second attempt, or could not have one */
        bool is_won;               /* by its second attempt, on its way to `try` */
        int won_with;              /* the status of that */
        struct weir__hedge *hedge; /* a reference, while it has one, or is one; or NULL */
        struct weir__late *late;   /* while it waits in the queue, if there is a limit */

        /* The response. */
        struct weir__decoder *decoder; /* or NULL: the body has no coding */
        char *body;                    /* malloc; or NULL */
        size_t body_size, body_room;
        char *problem; /* in words; or NULL */
};

/* NULL for another task. */
struct weir__client_request *weir__client_request_of(const weir_task *task);

static inline struct weir__client_request *
weir__client_request_of_call(struct weir__http_call *call)
{
        return weir__container_of(call, struct weir__client_request, call);
}

static inline struct weir__client_branch *
weir__client_request_branch(const struct weir__client_request *request)
{
        return weir__origin_branch(request->origin, request->io.task.poller);
}

/* -- task.c -- */

extern const struct weir__io_ops weir__client_request_ops;

/* -- receive.c -- */

extern const struct weir__http_call_ops weir__client_request_call_ops;

/* Its call has ended: it goes out again, or is over. */
void weir__client_request_ended(struct weir__client_request *request, int status, bool may_replay);

/* A connection is to be found, on the owner of its poller.  It may be elsewhere, or gone, when this returns.  task.c */
void weir__client_request_seek(struct weir__client_request *request);
void weir__client_request_end(struct weir__client_request *request, int status); /* task.c */
int weir__client_request_compose(struct weir__client_request *request);          /* its head.  Result: 0, -ENOMEM.  task.c */

/* -- redirect.c -- */

/* Whether the response is a redirect, which is followed; and makes it the next one.  Result of that: 0 or its status. */
bool weir__client_request_follows(const struct weir__client_request *request);
int weir__client_request_redirect(struct weir__client_request *request);

/* -- late.c: the limit of the whole while it waits for a connection -- */

int weir__late_set(struct weir__client_request *request);     /* before it waits.  Result: 0; -ENOMEM; -ESHUTDOWN; -ETIMEDOUT */
void weir__late_disown(struct weir__client_request *request); /* under the origin's lock: it was claimed */
void weir__late_forget(struct weir__client_request *request); /* it no longer waits, and is the caller's */

/* -- hedge.c: a second attempt at a request that is slow --
 *
 *     the first waits for a connection, or is sent --slow--> it is fixed to its poller --a member is chosen--> the second
 *     the second --complete--> the first has its response
 *               \--fails-----> the first goes on, or fails
 *     the first --complete--> the second is cut off
 *               \--fails-----> it is held until the second has ended
 *
 * The second begins and stays on that poller.  Functions without another remark are for its owner. */

void weir__hedge_set(struct weir__client_request *first);    /* it waits from now on, or is sent; or is the second, and sent */
void weir__hedge_forget(struct weir__client_request *first); /* its head has come, or it seeks anew: no second one begins */

/* The first was claimed in the queue, by any thread: unless it is fixed there, it may go to another poller, and no second one
 * begins.  The first function under the origin's lock; then the second one. */
void weir__hedge_disown(struct weir__client_request *first);
void weir__hedge_detach(struct weir__client_request *first);

/* The first has ended with that.  Returns whether it waits for the second one, which may do better; weir__client_request_ended
 * follows if it does not. */
bool weir__hedge_holds(struct weir__client_request *first, int status, bool may_replay);

/* The first is over, with that.  The second one is cut off. */
void weir__hedge_end(struct weir__client_request *first, int status);

/* The second is over, and reports to its upstream.  `verdict`: as in `settle`. */
void weir__hedge_settle(struct weir__client_request *second, int verdict);
bool weir__hedge_is_cut(const struct weir__client_request *second);

#endif
