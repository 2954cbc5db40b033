/* kernel/worker/user.c: calls of functions that the program gave: the rare cases.
 *
 * Threads: any. */
#include "kernel/worker/user.h"

#include "kernel/base/panic.h"

void
weir__user_forked(void)
{
        weir__panic("a child of fork() returned from a callback: it has no thread to return to");
}

void
weir__user_call_traced(const char *kind, void (*function)(void *context), void *context)
{
        const struct weir__trace_facts facts = {.kind = kind};
        struct weir__trace_slice slice;

        weir__trace_begin(&slice, NULL, NULL);
        unsigned before = weir__user_begin((weir__function *)function);
        function(context);
        weir__user_end(before);
        if (weir__worker_self()) /* a thread of the program has no track */
                weir__trace_end(&slice, &facts, NULL);
}

void
weir__user_ends_thread(void *unused)
{
        (void)unused;
        weir__panic("a callback has ended its thread, by pthread_exit or pthread_cancel: all that waits there would hang");
}
