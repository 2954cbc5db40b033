/* proxy/forward/forward.h: an exchange that is answered by a call.
 *
 *     the handler --first--> the whole reply                                      a short response
 *                       \--> write, read, write, read ... the end                 a long one
 *                       \--> 101: bytes both ways                                 an upgrade
 *
 * The first read of the call is a task in the series of the exchange, and all else follows from its callback.  A body
 * that streams to the other server has a series of its own; then both are in a parallel. */
#ifndef WEIR_PROXY_FORWARD_H
#define WEIR_PROXY_FORWARD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/http_proxy.h>
#include <weir/series.h>
#include <weir/stream.h>
#include <weir/timer.h>

#define WEIR__VIA_ROOM 40 /* "1.1 " and a name of at most 32 characters */

struct weir__forward {
        _Atomic unsigned references; /* tasks; the last one frees it */

        /* Constant, once the first task is pushed. */
        weir_task *exchange;
        weir_series *series; /* of the exchange */
        weir_http_call *call;
        weir_http_proxy_fn *on_response; /* or NULL */
        void *context;
        char via[WEIR__VIA_ROOM]; /* "": none; with the version that has come: first of the request, then of the response */
        bool is_head;
        weir_series *upload; /* a reference; or NULL */
        weir_timer_id patience; /* of an upload that waits for a 100 */
        bool expects_continue;  /* there is one */

        /* The callbacks' that take the response. */
        bool is_complete;    /* nothing is wanted of the call any more */
        bool has_begun;      /* the reply */
        weir_stream *stream; /* after 101; or NULL */
        bool has_server_ended;

        bool has_client_ended; /* a tunnel, and the other server knows.  Written by the callbacks of that way */

        _Atomic bool is_client_broken; /* the body of the request cannot be read */
};

/* Source: RFC 9110 section 7.6.3. */
static inline void
weir__forward_note_version(struct weir__forward *forward, int minor)
{
        if (forward->via[0])
                forward->via[2] = (char)('0' + minor);
}

/* -- state.c -- */

struct weir__forward *weir__forward_new(weir_task *exchange); /* with a reference; NULL when out of memory */
void weir__forward_drop(void *forward);

/* Gives a task whose context it is a reference, until it is freed.  Passes NULL on. */
weir_task *weir__forward_task(struct weir__forward *forward, weir_task *task);

/* The body of the request is not wanted any more. */
void weir__forward_stop_upload(struct weir__forward *forward);

/* -- failure.c -- */

/* Makes the reply for a failure of the call: a status of the proxy's own, or a cut if it has begun.  Inside a callback of a task
 * of the call or its stream. */
void weir__forward_fail(struct weir__forward *forward, int status);

/* -- response.c -- */

/* Makes status and fields of the reply.  Result: 0: it may go out; 1: the program has made another reply; -EBADMSG: it has a
 * status that a reply cannot have. */
int weir__forward_copy_response(struct weir__forward *forward);

/* A task that passes on the interim response which has come.  NULL when out of memory. */
weir_task *weir__forward_interim(struct weir__forward *forward, weir_task_fn *done);

/* -- upload.c -- */

/* The body of the request, if it streams: pushes the first task. */
void weir__forward_upload(struct weir__forward *forward, weir_series *series);

/* The other server wants it: the upload waits no more. */
void weir__forward_continue(struct weir__forward *forward);

/* -- tunnel.c -- */

/* The other server has switched to the protocol that the client has asked for. */
void weir__forward_switch(struct weir__forward *forward);

/* -- download.c -- */

/* The first task, which begins the call.  Its consumer accepts NULL. */
weir_task *weir__forward_first(struct weir__forward *forward);

#endif
