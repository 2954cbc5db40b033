/* server/exchange/exchange.h: a request and the reply to it: the task that the handler gets.
 *
 * The connection moves its bytes.  It lies above, behind `ops`. */
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
struct weir__held;
struct weir__transfer;

/* The client that has sent the request, and the branch that serves it.  Each connection begins with this struct, and outlives its
 * exchanges. */
struct weir__client {
        struct weir__http_branch *branch;
        struct weir__peer peer;
        char *certificate; /* the subject of the client's certificate; or NULL.  Constant once there is an exchange */
};

/* The connection, as an exchange sees it.  The owner of its poller calls. */
struct weir__exchange_ops {
        void (*reply)(struct weir__exchange *exchange); /* nobody refers to the exchange any more: replies, and frees it */
        int (*try)(struct weir__transfer *transfer);    /* returns the status of the task; if it is linked now, it waits */
        void (*withdraw)(struct weir__transfer *transfer); /* a linked task was cancelled */
        void (*release)(struct weir__exchange *exchange);  /* it is disowned and has ended: the connection goes, and detaches it.
                                                              Takes over a reference */
        void (*forget)(struct weir__exchange *exchange);   /* frees a detached one.  Any thread */
};

enum weir__events_state { WEIR__EVENTS_NONE = 0, WEIR__EVENTS_OPEN, WEIR__EVENTS_ENDED };

enum weir__list_kind { WEIR__LIST_QUERY, WEIR__LIST_FORM, WEIR__LIST_COOKIES, WEIR__LISTS };

/* The parts of a request that the handler has asked for: fields.c. */
struct weir__fields {
        struct weir__pairs *lists[WEIR__LISTS];              /* NULL: not asked for yet, or empty */
        char client[WEIR__PEER_ROOM], peer[WEIR__PEER_ROOM]; /* "": not asked for yet */
        struct weir__escaped *escaped;                       /* texts of print.c; or NULL */
};

struct weir__exchange {
        struct weir_task task; /* first */

        /* Constant. */
        const struct weir__exchange_ops *ops;
        const struct weir__client *client;

        /* Owner of the poller only. */
        uint64_t body_left;  /* bytes of the body that were not read yet; UINT64_MAX while that is not known */
        uint64_t reply_left; /* bytes of the announced length that are not written yet; UINT64_MAX: none was announced */
        size_t body_room;
        uint16_t fault;         /* the HTTP status of a fault in the body, sent unless the handler replies; 0: none */
        bool is_fault_late;     /* the fault came when the reply had begun: that must not look complete */
        bool has_whole_body;    /* `body` has the body from its first byte to its last.  Constant when `body` is */
        bool is_read_in_pieces; /* a task has read some of the body */
        bool has_continued;     /* 100 was sent, or is not wanted */
        bool is_client_asked;   /* 100 was sent to find out whether the client has gone */
        bool is_chunked;        /* the reply goes out in chunks; set when it begins */
        bool is_counted;        /* the reply is counted by its status */
        bool is_raw;            /* upgraded: bytes both ways */
        bool is_finished;       /* the end of the writing is queued, or out */
        _Atomic bool has_begun; /* the head of the reply is made.  Written with release; read by any thread */

        _Atomic uint8_t phase;  /* bits of enum weir__exchange_phase; acq_rel */
        _Atomic bool is_detached; /* its connection and its server are over: only memory is left.  Written with release */

        _Atomic uint8_t events; /* enum weir__events_state; any thread; relaxed: it guards nothing */

        int fd;              /* of the connection, for dumps; constant */
        uint32_t held_count; /* references of the program; guarded by the lock of held.c */

        /* Constant once the handler has it. */
        struct weir__request *request; /* NULL when the connection has taken it, at the end of the exchange */
        weir_nsec came_at; /* when its head had come; without an access log, when the poller woke up */

        /* Written by the owner of the poller before the handler runs, and while a task collects the body; otherwise constant. */
        char *body; /* with a NUL behind it; NULL without one */
        size_t body_size;

        /* The series' callbacks', until the reply has begun. */
        struct weir__response response;
        struct weir__file_part *file;     /* the body; or NULL */
        struct weir__file_part *withheld; /* a file that is not sent, because the status is 304, 412 or 416; or NULL */
        char *upgrade;                    /* the protocol's name; NULL: none */
        bool has_failed;                  /* building the reply ran out of memory */
        bool is_misused;                  /* a wrong status or text was refused, and no status was set since then: a 500 */
        uint16_t said_by_file; /* bits of file.c: the parts of the reply that it has set, and not the handler */
        uint32_t page_size;    /* bytes at the beginning of the body that are the server's page for a file that cannot be sent */
        struct weir__pairs *parameters; /* of the path, from a router; or NULL */
        struct weir__fields *fields;     /* or NULL */

        struct weir__transfer *event_stream; /* the open one; or NULL.  Owner of the poller only */

        /* Its series, once that is made, or WEIR__CUT.  The handler's worker writes the series and the connection writes CUT,
         * both by an atomic exchange.  The second of them sees both values, and cancels the series.  The series is kept until the
         * exchange is freed. */
        _Atomic uintptr_t series_or_cut;

        int result;                   /* of the series, on its way to the connection */
        _Atomic uint32_t references;  /* of the series, the program and transfers; acq_rel: the last one gives it back */
        struct weir__held *held;      /* its entry in the tree of held.c; or NULL.  Guarded by the lock there */
        struct weir__work end_events; /* belongs to the thread that has ended `events` by weir_http_sse_end */
        _Atomic size_t unsent;        /* bytes of write tasks that have started and not ended; relaxed */
};

#define WEIR__CUT ((uintptr_t)1)

/* Bits of `phase`. */
enum weir__exchange_phase {
        WEIR__EXCHANGE_ENDED = 1,    /* its series has ended, while others referred to it */
        WEIR__EXCHANGE_DISOWNED = 2, /* a stop or the shutdown does not wait for those who hold it */
};

/* NULL when out of memory; the reply becomes a 500 then. */
struct weir__fields *weir__exchange_fields(struct weir__exchange *exchange);

/* A text that was escaped for the program.  It is there as long as the exchange. */
struct weir__escaped {
        struct weir__escaped *next;
        char text[];
};

/* Takes the request, also on failure. */
struct weir__exchange *weir__exchange_new(const struct weir__exchange_ops *ops, const struct weir__client *client, int fd,
                                          struct weir__request *request);
void weir__exchange_free(struct weir__exchange *exchange);
struct weir__exchange *weir__exchange_of(const struct weir_task *task); /* NULL: the task is no exchange */
void weir__exchange_ref(struct weir__exchange *exchange);
void weir__exchange_unref(struct weir__exchange *exchange); /* the last one gives it back to the connection.  Any thread */
/* A stop, or the shutdown, waits for its series, and no longer for references of the program.  Owner of the poller. */
void weir__exchange_disown(struct weir__exchange *exchange);
/* Drops the caller's reference.  From now on the exchange is memory alone, of which the last reference frees it.  Owner of the
 * poller, for the last time. */
void weir__exchange_detach(struct weir__exchange *exchange);
void weir__exchange_cut(struct weir__exchange *exchange);  /* the reply is not wanted any more: cancels the series */

/* For people; any thread: "waiting for ...", and "192.0.2.1:80, fd 7". */
void weir__exchange_describe_wait(const struct weir__exchange *exchange, char *out, size_t room);
void weir__exchange_describe_peer(const struct weir__exchange *exchange, char *out, size_t room);

bool weir__exchange_carries_body(const struct weir__exchange *exchange); /* the reply: not behind HEAD, 204 or 304 */

/* Whether the body of a whole reply has another length than announced.  The announced length of a file is that of the whole file,
 * also if the client has asked for a part.  A reply without a body, as to HEAD, may announce any length. */
bool weir__exchange_is_of_other_length(const struct weir__exchange *exchange);

/* Whether the reply can no longer be changed: its head is made, or being made.  The head of a stream of events is fixed before
 * it is sent, because another thread may send it. */
bool weir__exchange_is_fixed(const struct weir__exchange *exchange);

/* Only before that: */
void weir__exchange_set_status(struct weir__exchange *exchange, int status); /* takes an upgrade back */
/* Makes the reply the server's own; fields stay.  Result: 0 or -ENOMEM. */
int weir__exchange_refuse(struct weir__exchange *exchange, int status);
int weir__exchange_refuse_anew(struct weir__exchange *exchange, int status); /* the same, and no field stays */

static inline bool weir__exchange_is_all_read(const struct weir__exchange *exchange)
{
        return !exchange->body_left;
}

/* Its series has ended, and others refer to it still.  Any thread with a reference, as the next. */
static inline bool weir__exchange_has_ended(const struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->phase, memory_order_relaxed) & WEIR__EXCHANGE_ENDED;
}

static inline bool weir__exchange_is_detached(const struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->is_detached, memory_order_acquire);
}

/* Only the owner of the poller calls it.  The owner has also written the field. */
static inline bool weir__exchange_has_begun(const struct weir__exchange *exchange)
{
        return atomic_load_explicit(&exchange->has_begun, memory_order_relaxed);
}

/* Notes a failure to build the reply: half a reply must not go out.  Returns the result. */
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
