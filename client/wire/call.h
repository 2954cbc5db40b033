/* client/wire/call.h: a call: one request and its response on a connection.
 *
 * Those that make calls embed them: request/ has whole messages, call/ has streams.  Owner of the connection's poller only. */
#ifndef WEIR_CLIENT_CALL_H
#define WEIR_CLIENT_CALL_H

#include <weir/http_client.h>

#include "kernel/memory/memory.h"
#include "kernel/observe/trace.h"
#include "net/transport/output.h"
#include "protocol/message/received.h"

struct weir__http_call;
struct weir__wire;

struct weir__http_call_ops {
        void (*started)(struct weir__http_call *call); /* it has a connection: may queue writers; NULL: nothing */
        /* An interim response is there: call->received.  With is_shown the next head waits until that is false again.  Only with
         * wants_interim. */
        void (*interim)(struct weir__http_call *call);
        /* The head of the response is there: call->received.  Result: 0; a negative errno ends the call with that. */
        int (*head)(struct weir__http_call *call);
        /* A piece of its body, not empty.  `is_last`: nothing follows.  The same. */
        int (*body)(struct weir__http_call *call, const char *data, size_t size, bool is_last);
        /* Room where at most `size` bytes of the body may be read; `body` then has them there.  NULL: none, or no function.
         * drop_room: nothing was read. */
        char *(*make_room)(struct weir__http_call *call, size_t size);
        void (*drop_room)(struct weir__http_call *call);
        bool (*wants_body)(const struct weir__http_call *call); /* NULL: always */
        void (*paused)(struct weir__http_call *call); /* the head is there, and of the body no more for now; NULL: nothing */
        void (*written)(struct weir__http_call *call, struct weir__writer *writer); /* one of its own is out; NULL: it has none */
        void (*cut)(struct weir__http_call *call); /* behind the head: the server takes no more; NULL: the call has ended then */
        /* It has left its connection: 0 if the response is complete.  `may_replay`: nothing has come, and the connection was used
         * before. */
        void (*ended)(struct weir__http_call *call, int status, bool may_replay);
        /* Its name in traces, and the series that it is in; NULL: none. */
        struct weir__trace_flow *(*trace)(struct weir__http_call *call, char *name, size_t room);
};

/* Which part of a response is wrong, if the status is -EBADMSG. */
enum weir__http_fault {
        WEIR__FAULT_NONE = 0, /* nothing, but the coding of the body is */
        WEIR__FAULT_LINE,
        WEIR__FAULT_FIELD,
        WEIR__FAULT_MEANING, /* of status and fields: where the body ends is not said, or twice */
        WEIR__FAULT_UPGRADE,
        WEIR__FAULT_CHUNK,
};

struct weir__http_call {
        const struct weir__http_call_ops *ops; /* constant */
        struct weir__wire *wire;               /* NULL: it has no connection */

        /* The request.  The head, and the body if that is one writer, are queued by weir__wire_start. */
        struct weir__writer head, body;
        bool has_body;        /* `body` is to be queued */
        bool is_sent;         /* all of it is out */
        bool has_more;        /* there are other writers of it, and the last of them is not known yet */
        bool wants_upgrade;   /* 101 ends HTTP on the connection */
        bool wants_interim;   /* the others of 1xx are not passed over */
        bool is_shown;        /* `received` is an interim response, which the program has */
        uint8_t response_for; /* enum weir__received_for */

        struct weir_stream *stream;      /* after a response of 101: the connection, a use; or NULL */
        struct weir__received *received; /* weir__free; or NULL */
        uint32_t max_head;
        uint8_t stage; /* enum weir_http_stage; a dump may look */
        uint8_t fault; /* enum weir__http_fault */
        struct weir__trace_stage traced;

        /* Durations, and the instant at which all of it must be over. */
        weir_nsec send_limit, first_byte_limit, between_limit, late_at;
};

/* -- limits.c: the maker, before it begins -- */

/* Sizes and limits of a client. */
void weir__http_call_take_limits(struct weir__http_call *call, const struct weir_client_config *config);

/* One of them; *whole is that of all stages.  Result: 0; -EINVAL. */
int weir__http_call_set_limit(struct weir__http_call *call, weir_nsec *whole, enum weir_http_limit which, weir_nsec limit);

/* -- stages -- */

/* Its stage ends now, and another begins. */
void weir__http_call_trace(struct weir__http_call *call) __attribute__((cold));

/* A dump may look at it. */
static inline void
weir__http_call_set_stage(struct weir__http_call *call, enum weir_http_stage stage)
{
        if (weir__trace_is_on())
                weir__http_call_trace(call);
        __atomic_store_n(&call->stage, (uint8_t)stage, __ATOMIC_RELAXED);
}

/* It is over: no stage begins. */
static inline void
weir__http_call_end_stage(struct weir__http_call *call)
{
        if (call->traced.session)
                weir__http_call_trace(call);
        call->traced.session = 0;
}

static inline void
weir__http_call_drop_response(struct weir__http_call *call)
{
        if (call->received)
                weir__free(call->received, call->received->size);
        call->received = NULL;
}

/* -- wire.c -- */

/* Sends it on a connection that is free.  It may be over when this returns. */
void weir__wire_start(struct weir__wire *wire, struct weir__http_call *call);

/* It was cancelled: its connection is closed, and it hears nothing more. */
void weir__wire_abandon(struct weir__http_call *call);

/* Queues a writer of its own, behind the others.  weir__wire_go_on must follow. */
void weir__wire_put(struct weir__http_call *call, struct weir__writer *writer);

/* Takes one back.  Returns false if a part of it is out, or encrypted. */
bool weir__wire_take_back(struct weir__http_call *call, struct weir__writer *writer);

/* It wants the body now, or has queued writers: goes on with both.  It may be over when this returns. */
void weir__wire_go_on(struct weir__wire *wire);

#endif
