/* weir/http_sse.h: Server-Sent Events: a reply that stays open and carries events, which an EventSource in a page receives.
 *
 * The stream is a task in the series of the exchange, where it takes its turn until the stream ends.  So the exchange is there
 * as long as the stream is, and whoever sends events needs to be told of the end only: by weir_task_on_free of that task, which
 * is called in any case, before the exchange goes.
 *
 * Source: WHATWG HTML, section "Server-sent events". */
#ifndef WEIR_HTTP_SSE_H
#define WEIR_HTTP_SSE_H

#include <weir/http_body.h>

WEIR_BEGIN

/* Makes the reply a stream of events: with Content-Type: text/event-stream, and, unless they are set, Cache-Control: no-cache
 * and X-Accel-Buffering: no, without which nginx keeps the events for itself.  Status and fields can be changed no more.  The
 * head goes out when the task is started, or with the first event; then a comment after each `heartbeat` of silence, which
 * keeps those in between from giving the connection up, and finds out that the client has gone.
 *
 * The task ends, and with its series the reply, at weir_http_sse_end, at the beginning of weir_http_server_stop, or when the
 * client has gone; with a request of HEAD at once.
 *
 * Owner:   the caller, until it is consumed; the exchange stays alive as long as the task.
 * Result:  NULL when out of memory.  Reported when it is started or pushed: -EDOM for a task that is no exchange; -EINVAL for a
 *          negative heartbeat, an upgrade and a file; -EALREADY once the reply has begun, and for a second one; -ENOMEM.
 *          The task's status: 0; -EPIPE, or -ECANCELED as its series is cancelled then by default, when the client has gone or
 *          does not read any more; -ECANCELED; -ETIMEDOUT at the deadline of its series; -ESHUTDOWN; -ENOMEM.
 * Units:   nanoseconds; 0 is 15 s, WEIR_FOREVER none.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API weir_task *weir_http_sse_new(weir_task *exchange, weir_nsec heartbeat, weir_task_fn *done, void *context);

/* An event.  Start from WEIR_HTTP_EVENT_DEFAULT; what is NULL or 0 is not sent.  A page is not shown one without `data`. */
struct weir_http_event {
        size_t size;       /* of this struct: set by WEIR_HTTP_EVENT_DEFAULT */
        const char *data;  /* text in UTF-8; its lines may end with CR, LF or both, and arrive with LF */
        const char *event; /* its type; "message" for NULL */
        const char *id;    /* what the client says as Last-Event-ID when it comes again; "" has it say nothing */
        weir_nsec retry;   /* how long the client waits before it comes again; sent in milliseconds, rounded up */
};

#ifdef __cplusplus
#define WEIR_HTTP_EVENT_DEFAULT {sizeof(struct weir_http_event), 0, 0, 0, 0}
#else
#define WEIR_HTTP_EVENT_DEFAULT {.size = sizeof(struct weir_http_event)}
#endif

/* Sends an event: a write task as of weir_http_write_new, which has a copy of it.
 *
 * Owner:   the caller, until it is consumed.  The exchange stays alive as long as the task.
 * Result:  NULL when out of memory.  Reported when it is started or pushed: -EDOM for a task that is no exchange; -EINVAL for
 *          an exchange without a stream, for a NULL event, one of nothing, a negative retry, and an id or a type with CR or LF
 *          in it; -EPIPE once the stream has ended.
 *          The task's status: as of weir_http_write_new.
 * Threads: any, from the making of the stream to the return of what weir_task_on_free has set for it, or with a reference to
 *          the exchange. */
WEIR_API weir_task *weir_http_sse_event_new(weir_task *exchange, const struct weir_http_event *event, weir_task_fn *done,
                                            void *context);

/* Ends the stream, also before its start: events that were started before still go out, as fast as the client reads.
 *
 * Result:  0, also when it has ended; -EDOM for a task that is no exchange; -EINVAL for an exchange without a stream.
 * Threads: as of weir_http_sse_event_new.  Never blocks. */
WEIR_API int weir_http_sse_end(weir_task *exchange);

/* The id of the last event that the client has seen, when it comes again; NULL when it says none.  It is what the client says. */
WEIR_API const char *weir_http_sse_last_id(const weir_task *exchange);

WEIR_END

#endif
