/* weir/http_body.h: bodies that stream, in and out, a piece at a time; and raw bytes after an upgrade.
 *
 * A piece is read or written by a task.  In the series of the exchange such tasks take turns with everything else, and that is the
 * back-pressure: who does not ask for the next piece is not sent it, and a write ends when the system has taken it, which it
 * does as fast as the client reads.  docs/http-server.md explains it by example. */
#ifndef WEIR_HTTP_BODY_H
#define WEIR_HTTP_BODY_H

#include <weir/http.h>

WEIR_BEGIN

/* -- the request's body, of a server with stream_bodies -- */

/* Reads the next piece of the body, or after an upgrade what comes in.
 *
 * Owner:   the caller, until it is consumed.  The exchange stays alive as long as the task.
 * Result:  NULL when out of memory.  -EDOM, when it is started, for a task that is no exchange.
 *          The task's status: 0, and weir_http_read_data has the piece, of no bytes at the end; -EBUSY while another one reads;
 *          -EBADMSG for chunks that are none, or whose trailers are too long; -ETIMEDOUT when it has not ended within the server's
 *          body_timeout, or by the deadline of its series; -ECONNRESET when the client has gone; -ENOMEM; -ECANCELED, -ESHUTDOWN.
 *          After -EBADMSG, -ETIMEDOUT and -ENOMEM the reply is 400, 408 (503 at that deadline) or 500 unless a callback makes it
 *          another one, and the connection ends with it.
 * Threads: any; after weir_http_reply_upgrade the first one as the first write. */
WEIR_API weir_task *weir_http_read_new(weir_task *exchange, weir_task_fn *done, void *context);

/* What a read task has read: borrowed, until its callback returns; no bytes, but no NULL, at the end.  NULL for a task of another
 * kind. */
WEIR_API const void *weir_http_read_data(const weir_task *read, size_t *size);

/* Reads the whole body, or what is left of it; weir_http_request_body has it afterwards, and when the status is not 0, as much of
 * it as has come.
 *
 * Owner:   the caller, until it is consumed.  The exchange stays alive as long as the task.
 * Result:  NULL when out of memory.  The task's status: as of weir_http_read_new; -EMSGSIZE for a body of more than `max` bytes
 *          (the reply is 413 unless a callback makes it another one); -EINVAL after an upgrade; -ENOMEM.
 * Units:   bytes; 0 is the server's max_body, SIZE_MAX no limit.
 * Threads: any. */
WEIR_API weir_task *weir_http_collect_new(weir_task *exchange, size_t max, weir_task_fn *done, void *context);

/* -- the reply's body -- */

/* Says how long the body will be that is written piece by piece: it goes out with that Content-Length.  Without it the body goes
 * out in chunks, or, to a client of HTTP/1.0, until the end of the connection.
 *
 * A whole reply of another length becomes a 500; but that to HEAD may say it without a body.  What counts is the length before
 * compression, and of a file all of it, whatever part the client has asked for.  UINT64_MAX takes back what was said.
 *
 * Result:  0; -EALREADY once the reply has begun; -EDOM.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API int weir_http_reply_length(weir_task *exchange, uint64_t length);

/* Writes a copy of `data` as the next piece of the reply's body, or after an upgrade as it is.  The first write begins the reply:
 * the status and the fields go out with it, and can be changed no more; what was appended before comes first.  With no bytes that
 * is all it does.  The reply is complete when the series of the exchange has ended, and each reference was dropped.
 *
 * Owner:   the caller, until it is consumed.  The exchange stays alive as long as the task.
 * Result:  NULL when out of memory.  -EDOM, when it is started, for a task that is no exchange; -EINVAL for NULL with a size.
 *          The task's status: 0 when the system has taken all of it; -EMSGSIZE for more than was said as the length (nothing of it
 *          goes out); -EPIPE when the client has gone or does not read any more; -ENOMEM for the head of the reply, which then
 *          becomes a 500; -ECANCELED, -ETIMEDOUT at the deadline of its series, -ESHUTDOWN.  Of one that was cancelled while it
 *          waited nothing goes out; if some of it has, or TLS has encrypted it, the connection is closed.
 * Threads: any; the first one inside callbacks of the exchange's series, or when no callback of it runs.  A callback that starts it
 * by itself, and does not push it, changes the reply no more. */
WEIR_API weir_task *weir_http_write_new(weir_task *exchange, const void *data, size_t size, weir_task_fn *done, void *context);

/* How many bytes of write tasks that were started wait for the client to read.  0 for a task that is no exchange.
 *
 * Threads: any. */
WEIR_API size_t weir_http_unsent(const weir_task *exchange);

/* Switches the connection to another protocol: the first read or write sends 101, the fields of the reply and this Upgrade; from
 * then on read and write tasks carry bytes as they are, and a read of no bytes is the end of what the client sends.
 *
 * Result:  0; -EINVAL unless the request asks for just that with Upgrade and Connection; -EALREADY once the reply has begun; -EDOM.
 * Threads: inside callbacks of the exchange's series.
 * Source:  RFC 9110 section 7.8. */
WEIR_API int weir_http_reply_upgrade(weir_task *exchange, const char *protocol);

/* -- from elsewhere -- */

/* Keeps the exchange alive, and the reply from ending, beyond the end of its series: so that other flows and threads may write to
 * it.  weir_shutdown and weir_http_server_stop wait until it is dropped, whatever their limit: a write that reports -EPIPE,
 * -ECANCELED or -ESHUTDOWN says that it is due.
 *
 * Owner:   the caller: each is dropped once by weir_http_unref.
 * Result:  the exchange; NULL for a task that is none.
 * Threads: any, inside a callback of the exchange's series or of a task that reads or writes it, or with another reference. */
WEIR_API weir_task *weir_http_ref(weir_task *exchange);
WEIR_API void weir_http_unref(weir_task *exchange); /* accepts NULL */

WEIR_END

#endif
