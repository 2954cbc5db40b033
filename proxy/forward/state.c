/* proxy/forward/state.c: the life of what an exchange and its call share.
 *
 * Threads: callbacks of the exchange's series, and of the body's; the last reference is dropped on any thread.
 * Locks:   none. */
#include <string.h>

#include "kernel/memory/memory.h"
#include "proxy/forward/forward.h"

struct weir__forward *
weir__forward_new(weir_task *exchange)
{
        struct weir__forward *forward = weir__alloc(sizeof *forward);

        if (!forward)
                return NULL;
        memset(forward, 0, sizeof *forward);
        atomic_init(&forward->references, 1);
        forward->exchange = exchange;
        forward->series = weir_series_of(exchange);
        return forward;
}

/* The client has gone, or nobody wants the rest: a call that is not complete is broken. */
void
weir__forward_drop(void *context)
{
        struct weir__forward *forward = context;

        if (atomic_fetch_sub_explicit(&forward->references, 1, memory_order_acq_rel) != 1)
                return;
        if (!forward->is_complete)
                weir_http_call_break(forward->call);
        weir_http_call_unref(forward->call);
        if (!forward->has_client_ended || !forward->has_server_ended)
                weir_stream_break(forward->stream);
        weir_stream_unref(forward->stream);
        weir_series_unref(forward->upload);
        weir__free(forward, sizeof *forward);
}

weir_task *
weir__forward_task(struct weir__forward *forward, weir_task *task)
{
        if (!task)
                return NULL;
        atomic_fetch_add_explicit(&forward->references, 1, memory_order_relaxed);
        weir_task_on_free(task, weir__forward_drop);
        return task;
}

void
weir__forward_stop_upload(struct weir__forward *forward)
{
        if (forward->upload)
                weir_series_cancel(forward->upload);
}
