/* proxy/forward/upload.c: the body of the request, piece by piece.
 *
 * Threads: callbacks of its series.  Those of the response run at the same time: so the reply is not touched here.
 *
 * A write that fails says nothing: the response may be complete already, and else the read of it fails, too. */
#include <weir/http_body.h>

#include "proxy/forward/forward.h"

#define CONTINUE_WAIT WEIR_SEC(1) /* with a server that does not know 100.  Source: RFC 9110 section 10.1.1 */

static void take_piece(weir_task *read, void *context);

static void
read_next(struct weir__forward *forward, weir_series *series)
{
        weir_series_push(series, weir__forward_task(forward, weir_http_read_new(forward->exchange, take_piece, forward)));
}

static void
written(weir_task *write, void *context)
{
        if (weir_task_status(write) == 0)
                read_next(context, weir_series_of(write));
}

/* The other server must not take half of a body for all of it. */
static void
take_piece(weir_task *read, void *context)
{
        struct weir__forward *forward = context;
        weir_series *series = weir_series_of(read);
        size_t size;

        (void)weir_http_read_data(read, &size);

        if (weir_task_status(read)) {
                if (weir_series_status(series)) /* nobody wants it any more */
                        return;
                atomic_store_explicit(&forward->is_client_broken, true, memory_order_relaxed);
                weir_http_call_break(forward->call);
        } else if (size) {
                weir_task *write = weir_http_call_write_from_new(forward->call, read, written, forward);

                weir_series_push(series, weir__forward_task(forward, write));
        } else {
                weir_series_push(series, weir_http_call_finish_new(forward->call, NULL, NULL));
        }
}

/* -- its beginning -- */

/* The 100 has come, or it is time to go on without it. */
static void
waited(weir_task *timer, void *context)
{
        weir_series *series = weir_series_of(timer);

        if (weir_series_status(series) == 0)
                read_next(context, series); /* which sends the client its 100 */
}

void
weir__forward_upload(struct weir__forward *forward, weir_series *series)
{
        weir_task *timer = forward->expects_continue ? weir_timer_new(CONTINUE_WAIT, waited, forward) : NULL;

        if (!timer) {
                read_next(forward, series);
                return;
        }
        forward->patience = weir_timer_id_of(timer);
        weir_series_push(series, weir__forward_task(forward, timer));
}

void
weir__forward_continue(struct weir__forward *forward)
{
        if (forward->expects_continue)
                (void)weir_timer_cancel_id(forward->patience);
}
