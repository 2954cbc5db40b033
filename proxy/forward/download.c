/* proxy/forward/download.c: the response: whole, or piece by piece.
 *
 * Threads: callbacks of one series, that of the exchange or one within it. */
#include <errno.h>
#include <stdint.h>

#include <weir/http_body.h>

#include "proxy/forward/forward.h"

/* The reply is made. */
static void
complete(struct weir__forward *forward)
{
        forward->is_complete = true;
        weir__forward_stop_upload(forward);
}

/* -- piece by piece -- */

static void take_piece(weir_task *read, void *context);

/* The client takes a piece before the next one is read: so a slow client slows the other server down. */
static void
written(weir_task *write, void *context)
{
        struct weir__forward *forward = context;
        weir_task *next;

        if (weir_task_status(write))
                weir_series_cancel(forward->series); /* the client reads no more */
        else if (!forward->is_complete) {
                next = weir__forward_task(forward, weir_http_call_read_new(forward->call, take_piece, forward));
                weir_series_push(weir_series_of(write), next);
        }
}

static void
pass_on(struct weir__forward *forward, weir_task *read)
{
        bool is_last = weir_http_call_is_last(read) > 0;
        weir_task *write = weir_http_write_from_new(forward->exchange, read, written, forward);

        forward->has_begun = true;
        if (is_last)
                complete(forward);
        weir_series_push(weir_series_of(read), weir__forward_task(forward, write));
}

static void
take_piece(weir_task *read, void *context)
{
        struct weir__forward *forward = context;
        size_t size;

        (void)weir_http_call_data(read, &size);
        if (weir_task_status(read))
                weir__forward_fail(forward, weir_task_status(read));
        else if (size)
                pass_on(forward, read);
        else
                complete(forward);
}

/* -- the beginning -- */

/* All of it has come with the head. */
static void
reply_at_once(struct weir__forward *forward, weir_task *first)
{
        uint64_t length = weir_http_call_length(forward->call);
        size_t size;
        const void *data = weir_http_call_data(first, &size);

        complete(forward);
        (void)weir_http_reply_append(forward->exchange, data, size);
        if (!size && length != UINT64_MAX && length) /* HEAD, or 304 */
                (void)weir_http_reply_length(forward->exchange, length);
        else if (forward->is_head && length == UINT64_MAX) /* with a length it would be 0 */
                weir_series_push(weir_series_of(first), weir_http_write_new(forward->exchange, NULL, 0, NULL, NULL));
}

static void
interim_written(weir_task *write, void *context)
{
        weir_series_push(weir_series_of(write), weir__forward_first(context));
}

/* The server of this proxy sends a 100 by itself, when the upload reads. */
static void
take_interim(struct weir__forward *forward, weir_task *first, int status)
{
        weir_task *next = status == 100 ? weir__forward_first(forward) : weir__forward_interim(forward, interim_written);

        if (status == 100)
                weir__forward_continue(forward);
        weir_series_push(weir_series_of(first), next);
}

static void
begin(weir_task *first, void *context)
{
        struct weir__forward *forward = context;
        int failed = weir_task_status(first), status = weir_http_call_status(forward->call);

        if (!failed && status < 200 && status != 101) {
                take_interim(forward, first, status);
                return;
        }
        failed = failed ? failed : weir__forward_copy_response(forward);
        if (failed < 0) {
                weir__forward_fail(forward, failed);
        } else if (failed) {
                weir__forward_stop_upload(forward);
        } else if (status == 101) {
                weir__forward_switch(forward);
        } else if (weir_http_call_is_last(first) > 0) {
                reply_at_once(forward, first);
        } else {
                (void)weir_http_reply_length(forward->exchange, weir_http_call_length(forward->call));
                pass_on(forward, first);
        }
}

weir_task *
weir__forward_first(struct weir__forward *forward)
{
        return weir__forward_task(forward, weir_http_call_first_new(forward->call, begin, forward));
}
