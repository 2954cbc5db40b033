/* weir/http_sse.h: Server-Sent Events: a reply that stays open and carries events, for an
 * EventSource in a web page.
 *
 * The stream is a task in the series of the exchange.  It runs until the stream ends, so the
 * exchange lives as long as the stream.  A sender of events needs to know the end only.  Register a
 * function by weir_task_on_free for the stream's task: it is called in any case, and before the
 * exchange is freed.
 *
 * Source:  WHATWG HTML, section "Server-sent events". */
#ifndef WEIR_HTTP_SSE_H
#define WEIR_HTTP_SSE_H

#include <weir/http_body.h>

WEIR_BEGIN

/* Makes the reply a stream of events.  It sets Content-Type: text/event-stream and, unless they are
 * set, Cache-Control: no-cache and X-Accel-Buffering: no (without the latter nginx holds back the
 * events).  Status and fields cannot be changed any more.  The head goes out when the task is
 * started, or with the first event.
 *
 * After each `heartbeat` without data a comment is sent.  It keeps machines in between from closing
 * the connection, and it detects that the client has gone.
 *
 * The task, and with its series the reply, ends by weir_http_sse_end, at the beginning of
 * weir_http_server_stop, or when the client has gone.  For a HEAD request it ends at once.
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.
 * Result:  NULL when out of memory.  The start or push reports -EDOM for a task that is no
 *          exchange; -EINVAL for a negative heartbeat, after an upgrade, and for a file; -EALREADY
 *          once the reply has begun, and for a second stream; -ENOMEM. The task's status: 0; -EPIPE
 *          when the client has gone or does not read any more, or -ECANCELED, as its series is then
 *          cancelled by default; -ECANCELED; -ETIMEDOUT at the deadline of its series; -ESHUTDOWN;
 *          -ENOMEM.
 * Units:   nanoseconds; 0 is 15 s, WEIR_FOREVER is none.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API weir_task *weir_http_sse_new(weir_task *exchange, weir_nsec heartbeat, weir_task_fn *done, void *context);

/* An event.  Start from WEIR_HTTP_EVENT_DEFAULT; a field that is NULL or 0 is not sent.  The page
 * does not see an event without `data`. */
struct weir_http_event {
        size_t size;       /* of this struct; set by WEIR_HTTP_EVENT_DEFAULT */
        const char *data;  /* text in UTF-8; its lines may end with CR, LF or both, and arrive with LF */
        const char *event; /* its type; "message" for NULL */
        const char *id;    /* the client sends it as Last-Event-ID when it reconnects; "" makes it send none */
        weir_nsec retry;   /* how long the client waits before it reconnects; sent in milliseconds, rounded up */
};

/* The initial value of a struct weir_http_event: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_HTTP_EVENT_DEFAULT {sizeof(struct weir_http_event), 0, 0, 0, 0}
#else
#define WEIR_HTTP_EVENT_DEFAULT {.size = sizeof(struct weir_http_event)}
#endif

/* Makes a task that sends a copy of the event, as weir_http_write_new does.
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.
 * Result:  NULL when out of memory.  The start or push reports -EDOM for a task that is no
 *          exchange; -EINVAL for an exchange without a stream, for a NULL or empty event, a
 *          negative retry, and CR or LF in the id or type; -EPIPE once the stream has ended.  The
 *          task's status: as for weir_http_write_new.
 * Threads: any, from the making of the stream until the function of weir_task_on_free for the
 *          stream has returned; or with a reference to the exchange. */
WEIR_API weir_task *weir_http_sse_event_new(weir_task *exchange, const struct weir_http_event *event, weir_task_fn *done,
                                            void *context);

/* Ends the stream, also before its start.  Events that were started before still go out, as fast as
 * the client reads.
 *
 * Result:  0, also when it has ended; -EDOM for a task that is no exchange; -EINVAL for an exchange
 *          without a stream.
 * Threads: as for weir_http_sse_event_new.  Never blocks. */
WEIR_API int weir_http_sse_end(weir_task *exchange);

/* The id of the last event that a reconnecting client has seen; NULL when the client names none.
 * The value comes from the client, so do not trust it. */
WEIR_API const char *weir_http_sse_last_id(const weir_task *exchange);

WEIR_END

#endif
