/* weir/http_call.h: requests and responses whose bodies stream, piece by piece.
 *
 *     weir_http_call *call = weir_http_call_new(NULL, "GET", "https://example.com/large");
 *     weir_series_push(series, weir_http_call_head_new(call, look, NULL));
 *     weir_series_push(series, weir_http_call_read_new(call, take, NULL));      in `take`: pushes the next read
 *     ...
 *     weir_http_call_unref(call);
 *
 * A task writes or reads one piece.  In a series such tasks run one after another, and that gives
 * back-pressure: a program that does not read makes the server wait.  The tasks of one call run on one
 * poller.  Redirects are not followed, bodies stay in the coding in which they come, and nothing is sent
 * twice.  weir/http_client.h has whole messages, clients and their limits. */
#ifndef WEIR_HTTP_CALL_H
#define WEIR_HTTP_CALL_H

#include <weir/http_client.h>
#include <weir/stream.h>

WEIR_BEGIN

/* One request and its response. */
typedef struct weir_http_call weir_http_call;

/* Makes a call.  Nothing is sent yet.
 *
 * Owner:   the caller has a reference.  The texts are copied.  NULL as client is weir_client_default().
 * Result:  NULL with errno EINVAL, after a line in the log, for what weir_http_request_new refuses;
 *          ENOMEM.  Tasks of a NULL call report -ENOMEM at their start.
 * Threads: any. */
WEIR_API weir_http_call *weir_http_call_new(weir_client *client, const char *method, const char *url);

/* Takes and drops a reference.  Tasks have their own.  A call without a reference ends: its connection
 * is closed, unless the response is complete, or its rest is short and comes within a second.  Both
 * accept NULL.
 *
 * Threads: any. */
WEIR_API weir_http_call *weir_http_call_ref(weir_http_call *call);
WEIR_API void weir_http_call_unref(weir_http_call *call);

/* Closes its connection at once.  Its tasks, and later ones, end with -ECONNABORTED.  Accepts NULL.
 *
 * Threads: any.  Never blocks. */
WEIR_API void weir_http_call_break(weir_http_call *call);

/* -- before the first task -- */

/* As weir_http_request_set_header and weir_http_request_add_header.
 *
 * Result:  0; -EINVAL; -ENOMEM; -EALREADY: the request has begun.
 * Threads: one at a time, before the first task, as all functions of this section. */
WEIR_API int weir_http_call_set_header(weir_http_call *call, const char *name, const char *value);
WEIR_API int weir_http_call_add_header(weir_http_call *call, const char *name, const char *value);

/* Says that the request has a body, and how long it is; UINT64_MAX: it goes out in chunks.  Without this
 * call a request has a body, in chunks, if a write is the first task.
 *
 * Result:  0; -EINVAL for NULL; -EALREADY.
 * Units:   bytes. */
WEIR_API int weir_http_call_set_length(weir_http_call *call, uint64_t length);

/* Asks for another protocol on the connection, such as "websocket".  If the status is 101 then, weir_http_call_take_stream has
 * the connection.
 *
 * Result:  0; -EINVAL: no token; -ENOMEM; -EALREADY.
 * Source:  RFC 9110 section 7.8. */
WEIR_API int weir_http_call_set_upgrade(weir_http_call *call, const char *protocol);

/* Shows interim responses, such as a 103 with early links.  A head or a first read that waits when one comes ends with 0, and
 * weir_http_call_status is 1xx but not 101; it has no body.  The next such task waits for what follows, and the fields are there
 * until its start.  One that comes while no such task waits is passed over.
 *
 * Result:  0; -EINVAL for NULL; -EALREADY.
 * Source:  RFC 9110 section 15.2. */
WEIR_API int weir_http_call_set_interim(weir_http_call *call);

/* Asks the server whether it wants the body (Expect: 100-continue), and shows interim responses.  A status of 100 says so.  The
 * program need not write before.  But a server may say nothing: after a second or so the body should go out.
 *
 * Result:  0; -EINVAL for NULL; -EALREADY.
 * Source:  RFC 9110 section 10.1.1. */
WEIR_API int weir_http_call_set_expect(weir_http_call *call);

/* Sets a limit of this call.  A whole limit counts from the first task on.
 *
 * Result:  as weir_http_request_set_limit; -EALREADY. */
WEIR_API int weir_http_call_set_limit(weir_http_call *call, enum weir_http_limit which, weir_nsec limit);

/* -- tasks -- */

/* Makes a task that waits for the head of the response.  As the first task of a call it sends the request.
 *
 * A cancel ends the wait and not the call, as with all tasks of a call.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The start reports -ENOMEM for a NULL
 *          call, or the failure of a function that has changed it.  The task's status: 0: the functions below
 *          have the response; those of weir_http_request_new, which are those of the whole call.
 * Threads: any. */
WEIR_API weir_task *weir_http_call_head_new(weir_http_call *call, weir_task_fn *done, void *context);

/* Makes a task that reads the next piece of the response's body, behind the head.
 *
 * Owner, Threads: as weir_http_call_head_new.
 * Result:  as weir_http_call_head_new.  The task's status: 0: weir_http_call_data has the piece, which has no
 *          bytes at the end of the body; -EBUSY: another read waits. */
WEIR_API weir_task *weir_http_call_read_new(weir_http_call *call, weir_task_fn *done, void *context);

/* Makes a task that waits for the head of the response, and takes what has come of its body with it: perhaps nothing, perhaps
 * all.  So a short response costs one task.
 *
 * Owner, Threads: as weir_http_call_head_new.
 * Result:  as weir_http_call_read_new; but a piece without bytes is the end only if weir_http_call_is_last says so. */
WEIR_API weir_task *weir_http_call_first_new(weir_http_call *call, weir_task_fn *done, void *context);

/* Whether nothing of the body follows the piece that a read has read.  It is known at once if the end has come with the piece;
 * else the next read has no bytes.
 *
 * Result:  1 or 0; -EINVAL for another task.
 * Threads: inside the task's callback. */
WEIR_API int weir_http_call_is_last(const weir_task *read);

/* The piece that a read has read.  `size` may be NULL.
 *
 * Owner:   the task.
 * Result:  "" and 0 bytes if it has none; NULL for another task.
 * Threads: inside the task's callback. */
WEIR_API const void *weir_http_call_data(const weir_task *read, size_t *size);

/* Makes a task that writes a piece of the request's body.  It ends when the system has taken the piece.
 * Writes of one call go out in the order of their starts.
 *
 * A cancel takes back a piece of which nothing is out.  If a part is out the call is broken.
 *
 * Owner:   the caller, until the task is consumed.  The bytes are copied.
 * Result:  as weir_http_call_head_new; the start reports -EINVAL for NULL data with a size.  The task's status:
 *          0; -EPIPE: the request has no body, or it has ended, or the server has answered before its end; -EMSGSIZE: the body
 *          would be longer than it was said; those of weir_http_request_new.
 * Threads: any. */
WEIR_API weir_task *weir_http_call_write_new(weir_http_call *call, const void *data, size_t size, weir_task_fn *done,
                                             void *context);

/* The same with the piece of another body that `read` has read: a task of weir_http_call_read_new, weir_http_call_first_new or
 * weir_http_read_new, inside its callback.  The bytes are taken over and not copied.  The read has none afterwards.
 *
 * Owner, Result: as weir_http_call_write_new; the start reports -EINVAL if `read` is NULL or another task.
 * Threads: inside the read's callback. */
WEIR_API weir_task *weir_http_call_write_from_new(weir_http_call *call, weir_task *read, weir_task_fn *done, void *context);

/* Makes a task that ends the request's body, behind the writes that were started before.
 *
 * Owner, Threads: as weir_http_call_head_new.
 * Result:  as weir_http_call_write_new; -ENODATA: the body is shorter than it was said, and the call is
 *          broken. */
WEIR_API weir_task *weir_http_call_finish_new(weir_http_call *call, weir_task_fn *done, void *context);

/* -- the response; when the head is there -- */

/* The status code.
 *
 * Result:  0 when no response has come; -EINVAL for NULL.
 * Threads: any, once a head task has ended with 0, as all functions of this section. */
WEIR_API int weir_http_call_status(const weir_http_call *call);

/* The last number of its version: 1 for HTTP/1.1, 0 for HTTP/1.0.
 *
 * Result:  that; 1 when no response has come; -EINVAL for NULL. */
WEIR_API int weir_http_call_minor(const weir_http_call *call);

/* The value of the first field of that name, compared without case.
 *
 * Owner:   borrowed until the last reference is dropped.
 * Result:  NULL when there is none, and for a NULL call. */
WEIR_API const char *weir_http_call_header(const weir_http_call *call, const char *name);

/* The field at `index`, from 0 on, in order of arrival.  The outputs may be NULL.
 *
 * Owner:   borrowed as above.
 * Result:  0; -ENOENT past the last field; -EINVAL for NULL. */
WEIR_API int weir_http_call_field(const weir_http_call *call, size_t index, const char **name, const char **value);

/* The length of the body, as the head says it; UINT64_MAX: it does not. */
WEIR_API uint64_t weir_http_call_length(const weir_http_call *call);

/* The connection after a response of 101.
 *
 * Owner:   the caller has the reference.
 * Result:  NULL when it was taken, and without such a response.
 * Threads: one at a time, once a head task has ended with 0. */
WEIR_API weir_stream *weir_http_call_take_stream(weir_http_call *call);

/* How far the call has come, and why it has failed, as weir_http_stage and weir_http_problem.
 *
 * Owner:   the text is borrowed until the last reference is dropped.
 * Result:  NULL if it has not failed.
 * Threads: inside the callback of a task of the call, or when no task of it runs any more. */
WEIR_API enum weir_http_stage weir_http_call_stage(const weir_http_call *call);
WEIR_API const char *weir_http_call_problem(const weir_http_call *call);

WEIR_END

#endif
