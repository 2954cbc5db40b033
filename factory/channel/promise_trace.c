/* factory/channel/promise_trace.c: the stage of a trace in which a promise waits, such as: waiting "SELECT 1" for a connection
 * (pool a, 1 busy, 0 wait).
 *
 * Threads: its start; then the worker that runs it.
 * Locks:   its part's, while its kind is asked for the text, as for dumps. */
#include <stdio.h>

#include "factory/channel/promise.h"
#include "factory/task/series.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/trace.h"
#include "kernel/observe/trace_ring.h"

struct weir__promise_trace {
        struct weir__trace_stage stage;
        char text[96];
};

void
weir__promise_trace_start(struct weir__promise *self)
{
        struct weir__promise_trace *traced = weir__alloc(sizeof *traced);

        self->traced = traced;
        if (!traced)
                return;
        traced->stage = (struct weir__trace_stage){0};
        weir__trace_next_stage(&traced->stage, NULL, "", NULL);
}

void
weir__promise_trace_name(struct weir__promise *self)
{
        struct weir__promise_trace *traced = self->traced;

        weir__promise_write(self, WEIR__TRACE_NAME, traced->text, sizeof traced->text);
        if (!*traced->text)
                snprintf(traced->text, sizeof traced->text, "a promise");
}

void
weir__promise_trace_end(struct weir__promise *self)
{
        struct weir__promise_trace *traced = self->traced;
        struct weir_series *series = self->task.series;

        self->traced = NULL;
        weir__trace_next_stage(&traced->stage, "waiting", traced->text, series ? weir__series_trace_flow(series) : NULL);
        weir__free(traced, sizeof *traced);
}
