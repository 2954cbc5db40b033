/* weir/http_body.h: bodies that stream, in and out, piece by piece; and raw bytes after an upgrade.
 *
 * A task reads or writes one piece.  In the series of the exchange such tasks run one after another
 * with all other tasks, and that gives back-pressure.  A program that does not ask for the next
 * piece does not get it.  A write ends when the system has taken the piece, which happens as fast
 * as the client reads.  docs/http-server.md explains it by example. */
#ifndef WEIR_HTTP_BODY_H
#define WEIR_HTTP_BODY_H

#include <weir/http.h>

WEIR_BEGIN

/* -- the request's body, of a server with stream_bodies -- */

/* Makes a task that reads the next piece of the body; after an upgrade, the bytes that come in.
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.
 * Result:  NULL when out of memory.  The start reports -EDOM for a task that is no exchange.  The
 *          task's status:
 *          0: weir_http_read_data has the piece, which has no bytes at the end of the body;
 *          -EBUSY while another read is pending; -EBADMSG for malformed chunks or trailers that are
 *            too long;
 *          -ETIMEDOUT when the body has not ended within the server's body_timeout, or at the
 *            deadline of its series;
 *          -ECONNRESET when the client has gone; -ENOMEM; -ECANCELED; -ESHUTDOWN.
 *          After -EBADMSG, -ETIMEDOUT or -ENOMEM the reply is 400, 408 (503 at the deadline of the
 *            series) or 500, unless a callback changes it, and the connection ends with that reply.
 *            The same holds if a callback cancels the series then.  A reply that has begun is cut,
 *            unless it has a length and all of it was written.
 * Threads: any.  After weir_http_reply_upgrade the first read follows the rule of the first write. */
WEIR_API weir_task *weir_http_read_new(weir_task *exchange, weir_task_fn *done, void *context);

/* The piece that a read task has read.  At the end it has no bytes, but is not NULL.  NULL for
 * another kind of task.
 *
 * Owner:   borrowed until the callback of the task returns. */
WEIR_API const void *weir_http_read_data(const weir_task *read, size_t *size);

/* Makes a task that reads the whole body, or the rest of it.  Afterwards weir_http_request_body has
 * the body; if the status is not 0, it has the part that has come.
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.
 * Result:  NULL when out of memory.  The task's status: as for weir_http_read_new; -EMSGSIZE for a
 *          body of more than `max` bytes (the reply is 413 unless a callback changes it); -EINVAL
 *          after an upgrade; -ENOMEM.
 * Units:   bytes; 0 is the server's max_body, SIZE_MAX is no limit.
 * Threads: any. */
WEIR_API weir_task *weir_http_collect_new(weir_task *exchange, size_t max, weir_task_fn *done, void *context);

/* -- before the reply -- */

/* Makes a task that sends an interim response, such as a 103 with links that the client may load meanwhile.  `fields` has names
 * and values by turns, and NULL at the end; or it is NULL.  A client of HTTP/1.0 gets nothing, and the task ends with 0.
 * 100 is sent by itself when a body is read, and 101 by weir_http_reply_upgrade.
 *
 *     const char *const links[] = {"Link", "</style.css>; rel=preload; as=style", NULL};
 *     weir_series_push(series, weir_http_interim_new(exchange, 103, links, NULL, NULL));
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.  The texts are copied.
 * Result:  NULL when out of memory.  The start reports -EDOM for a task that is no exchange; -EINVAL: a status that is not
 *          102 to 199, a bad name or value, or a field that is the library's.  The task's status: 0: the system has taken it;
 *          -EALREADY: the reply has begun; -EPIPE, -ECANCELED, -ETIMEDOUT and -ESHUTDOWN as of weir_http_write_new.
 * Threads: any.
 * Source:  RFC 9110 section 15.2; RFC 8297. */
WEIR_API weir_task *weir_http_interim_new(weir_task *exchange, int status, const char *const *fields, weir_task_fn *done,
                                          void *context);

/* -- the reply's body -- */

/* Sets the Content-Length of a body that is written piece by piece.  Without it the body goes out
 * in chunks, or, for a client of HTTP/1.0, until the end of the connection.
 *
 * If a whole reply has another length, it becomes a 500; only a reply to HEAD may have the length
 * without a body.  The length is that before compression.  For a file it is the whole file,
 * whatever part the client has asked for.  UINT64_MAX removes the length.
 *
 * Result:  0; -EALREADY once the reply has begun; -EDOM.
 * Units:   bytes.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API int weir_http_reply_length(weir_task *exchange, uint64_t length);

/* Makes a task that writes a copy of `data` as the next piece of the reply's body; after an
 * upgrade, as raw bytes.  The first write begins the reply: status and fields go out with it and
 * cannot be changed any more.  A body that was appended before comes first.  With no bytes a write
 * only begins the reply.  The reply is complete when the series of the exchange has ended and every
 * reference was dropped.
 *
 *     weir_http_reply_length(exchange, 2 * size);                               optional
 *     weir_series_push(series, weir_http_write_new(exchange, a, size, 0, 0));   begins the reply
 *     weir_series_push(series, weir_http_write_new(exchange, b, size, 0, 0));   when a was taken
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.
 * Result:  NULL when out of memory.  The start reports -EDOM for a task that is no exchange, and
 *          -EINVAL for NULL with a size.  The task's status:
 *          0: the system has taken the whole piece;
 *          -EMSGSIZE for more bytes than weir_http_reply_length allows (nothing of the piece goes
 *            out);
 *          -EPIPE when the client has gone or does not read any more;
 *          -ENOMEM for the head of the reply, which then becomes a 500, and -EINVAL when that has a
 *          wrong status (weir_http_reply_status);
 *          -ECANCELED, -ETIMEDOUT at the deadline of its series, -ESHUTDOWN. Nothing of a cancelled
 *            write goes out; if a part has gone out, or TLS has encrypted it, the connection is
 *            closed.
 * Threads: any.  The first write must start inside a callback of the exchange's series, or while no
 *          callback of it runs.  A callback that starts it instead of pushing it must not change
 *          the reply afterwards. */
WEIR_API weir_task *weir_http_write_new(weir_task *exchange, const void *data, size_t size, weir_task_fn *done, void *context);

/* The same with the piece of another body that `read` has read: a task of weir_http_read_new, weir_http_call_read_new or
 * weir_http_call_first_new, inside its callback.  The bytes are taken over and not copied.  The read has none afterwards.
 *
 * Owner, Result: as weir_http_write_new; the start reports -EINVAL if `read` is NULL or another task.
 * Threads: inside the read's callback; the first write as above. */
WEIR_API weir_task *weir_http_write_from_new(weir_task *exchange, weir_task *read, weir_task_fn *done, void *context);

/* How many bytes of started write tasks wait for the client to read.  0 for a task that is no
 * exchange.
 *
 * Threads: any. */
WEIR_API size_t weir_http_unsent(const weir_task *exchange);

/* Switches the connection to another protocol.  The first read or write sends the status 101, the
 * fields of the reply and this Upgrade field.  From then on read and write tasks carry raw bytes.
 * A read of no bytes is the end of the client's data.
 *
 * Result:  0; -EINVAL unless the request asks for this protocol in Upgrade and Connection;
 *          -EALREADY once the reply has begun; -EDOM; -ENOMEM (the reply becomes a 500).
 * Threads: inside callbacks of the exchange's series.
 * Source:  RFC 9110 section 7.8. */
WEIR_API int weir_http_reply_upgrade(weir_task *exchange, const char *protocol);

/* Makes a task that ends the writing after an upgrade: the client sees the end of what was written.  Reads go on.
 *
 * Owner:   the caller, until the task is consumed.  The exchange lives as long as the task.
 * Result:  NULL when out of memory.  The start reports -EDOM for a task that is no exchange.  The task's status: 0: the end is
 *          out; -EINVAL: it is not upgraded; -EPIPE: the client has gone, or the writing has ended before, as for later writes;
 *          -ENOMEM, -ECANCELED, -ETIMEDOUT and -ESHUTDOWN as of weir_http_write_new.
 * Threads: any. */
WEIR_API weir_task *weir_http_finish_new(weir_task *exchange, weir_task_fn *done, void *context);

/* -- from elsewhere -- */

/* Takes a reference.  It keeps the exchange alive and its reply open beyond the end of its series,
 * so that other flows and threads can write to it.  Drop it when a write reports -EPIPE,
 * -ECANCELED or -ESHUTDOWN.
 *
 * A reference that is never dropped keeps the reply from its client, and the memory of the exchange
 * and of its server for ever.  weir_http_server_stop waits for references as for running exchanges,
 * within its limit.  Meanwhile it logs once a second which exchanges are held.  After the limit it
 * closes their connections and returns.  weir_shutdown closes them at once.  Afterwards the exchange
 * may still be used and dropped, also when the server was freed: its request can be read, writes
 * report -EPIPE and reads -ECONNRESET.  Dumps, the page of flows and the metrics list what is held.
 *
 * Owner:   the caller drops each reference by one weir_http_unref, which accepts NULL.
 * Result:  the exchange; NULL for a task that is no exchange.
 *          weir_http_unref aborts for such a task, and if no reference of weir_http_ref is left.
 * Threads: any, inside a callback of the exchange's series or of a task that reads or writes it, or
 *          with another reference.  After a stop or shutdown the last reference may run the function
 *          of weir_task_on_free inside weir_http_unref. */
WEIR_API weir_task *weir_http_ref(weir_task *exchange);
WEIR_API void weir_http_unref(weir_task *exchange); /* accepts NULL */

WEIR_END

#endif
