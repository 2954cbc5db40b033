/* server/exchange/exchange.h: a request and the reply to it: the task that the handler gets.
 *
 * What moves its bytes lies above, behind `ops`: the connection. */
#ifndef WEIR_SERVER_EXCHANGE_H
#define WEIR_SERVER_EXCHANGE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "factory/task/series.h"
#include "factory/task/task.h"
#include "kernel/memory/memory.h"
#include "protocol/field/peer.h"
#include "protocol/message/request.h"
#include "protocol/message/response.h"
#include "protocol/text/pairs.h"
#include "server/base/server.h"
#include "server/exchange/file.h"

struct weir__exchange;
struct weir__transfer;

/* The client that has sent the request, and the shard that serves it.  The beginning of a connection, which outlives its
 * exchanges. */
struct weir__client {
        struct weir__shard *shard;
        struct weir__peer peer;
        char *certificate; /* a description of the one that it has shown; or NULL.  Constant once there is an exchange */
};

/* What carries an exchange.  The owner of its poller calls. */
struct weir__exchange_ops {
        void (*answer)(struct weir__exchange *exchange); /* the series has ended: replies, and frees the exchange */
        int (*begin)(struct weir__transfer *transfer);   /* the status of the task; unless it is linked now: then it waits */
        void (*withdraw)(struct weir__transfer *transfer); /* a linked one was cancelled */
};

enum weir__events_state { WEIR__EVENTS_NONE = 0, WEIR__EVENTS_OPEN, WEIR__EVENTS_ENDED };

enum weir__list_kind { WEIR__LIST_QUERY, WEIR__LIST_FORM, WEIR__LIST_COOKIES, WEIR__LISTS };

/* What a handler has asked for of a request: fields.c. */
struct weir__fields {
        struct weir__pairs *lists[WEIR__LISTS];              /* NULL: not asked for yet, or there is none */
        char client[WEIR__PEER_ROOM], peer[WEIR__PEER_ROOM]; /* "": not asked for yet */
};

struct weir__exchange {
        struct weir_task task; /* first */

        /* Constant. */
        const struct weir__exchange_ops *ops;
        const struct weir__client *client;

        /* Owner of the poller only. */
        uint64_t body_left;  /* of one with a length; of one without, not 0 until its end was read */
        uint64_t reply_left; /* of the announced length, what is not written yet; UINT64_MAX: none was announced */
        size_t body_room;
        uint16_t fault;         /* the HTTP status for what became of the reading, unless the handler replies; 0: none */
        bool has_whole_body;    /* `body` is all of it, from the first byte to the last.  Constant when that is */
        bool is_read_in_pieces; /* a task has read some of the body */
        bool has_continued;     /* 100 was sent, or is not wanted */
        bool is_probed;         /* 100 was sent to find out whether the client has gone */
        bool is_chunked;        /* the reply; once it has begun */
        bool is_counted;        /* among the replies of its status */
        bool is_raw;            /* upgraded: bytes both ways */
        _Atomic bool has_begun; /* the head of the reply is on its way.  Written with release; read by any thread */

        _Atomic uint8_t events; /* enum weir__events_state; any thread; relaxed: it guards nothing */

        int fd; /* the connection's; constant, for people */

        /* Constant once the handler has it. */
        struct weir__request *request; /* NULL once an access log has it, when the exchange is over */
        weir_nsec began; /* about when its head had come; exactly, with an access log */

        /* The owner's until the handler has it, or while a task collects it; else constant. */
        char *body; /* with a NUL behind it; NULL without one */
        size_t body_size;

        /* The series' callbacks', until the reply has begun. */
        struct weir__response response;
        struct weir__file_part *file;     /* the body; or NULL */
        struct weir__file_part *withheld; /* the body, but for what the request asks: 304, 412 or 416; or NULL */
        char *upgrade;                    /* the protocol's name; NULL: none */
        bool has_failed;                  /* building the reply ran out of memory */
        uint16_t said_by_file; /* bits of file.c: the parts of the reply that it has set, and not the handler */
        uint32_t page_size;    /* so much of the body, from its beginning, is the server's page for a file that cannot be had */
        struct weir__pairs *parameters; /* what a router has found in the path; or NULL */
        struct weir__fields *fields;     /* or NULL */

        struct weir__transfer *stream; /* the open stream of events; or NULL.  Owner of the poller only */

        /* Its series, once that is made, or WEIR__CUT.  The handler's worker writes the one and the connection the other, by
         * exchange. The second of them sees both, and cancels the series, which is kept until the exchange is freed. */
        _Atomic uintptr_t reach;

        int result;                   /* of the series, on its way to the connection */
        _Atomic uint32_t holds;       /* the series, references, transfers; acq_rel: the last one ends the reply */
        struct weir__work end_events; /* of the thread that ends `events` by weir_http_sse_end */
        _Atomic size_t unsent;        /* bytes of write tasks that have started and not ended; relaxed */
};

#define WEIR__CUT ((uintptr_t)1)

/* Takes the request, also on failure. */
struct weir__exchange *weir__exchange_new(const struct weir__exchange_ops *ops, const struct weir__client *client, int fd,
                                          struct weir__request *request);
void weir__exchange_free(struct weir__exchange *exchange);
struct weir__exchange *weir__exchange_of(const struct weir_task *task); /* NULL: the task is no exchange */
void weir__exchange_hold(struct weir__exchange *exchange);
void weir__exchange_drop(struct weir__exchange *exchange); /* the last one ends the reply.  Any thread */
void weir__exchange_cut(struct weir__exchange *exchange);  /* its reply is not wanted any more: cancels its series */

/* For people; any thread: "waiting for ...", and "192.0.2.1:80, fd 7". */
void weir__exchange_describe_wait(const struct weir__exchange *exchange, char *out, size_t room);
void weir__exchange_describe_peer(const struct weir__exchange *exchange, char *out, size_t room);

bool weir__exchange_carries_body(const struct weir__exchange *exchange); /* the reply: not behind HEAD, 204 or 304 */

/* Whether the reply can be changed no more: its head is made, or being made.  A stream of events is sealed before its head is
 * on its way: another thread may send that. */
bool weir__exchange_is_sealed(const struct weir__exchange *exchange);

/* These only before that. */
void weir__exchange_set_status(struct weir__exchange *exchange, int status); /* takes an upgrade back */
int weir__exchange_refuse(struct weir__exchange *exchange, int status); /* makes the reply the server's own; fields stay */
int weir__answer_error(struct weir__exchange *exchange, int status); /* as _refuse, and no field stays.  Result: 0 or -ENOMEM */

static inline bool weir__exchange_is_all_read(const struct weir__exchange *exchange)
{
        return !exchange->body_left;
}

/* For the owner of the poller, which has written it. */
static inline bool weir__exchange_has_begun(const struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->has_begun, memory_order_relaxed);
}

/* Out of memory while the reply is built: half of one must not go out.  Returns the result. */
static inline int weir__exchange_check(struct weir__exchange *exchange, int result)
{
        exchange->has_failed |= result == -ENOMEM;
        return result;
}

/* Accepts NULL. */
static inline void weir__exchange_free_request(struct weir__request *request)
{
        if (request)
                weir__free(request, request->size);
}

#endif
