/* kernel/worker/user.c: calls of functions that the program gave: the rare cases.
 *
 * Threads: any. */
#include "kernel/worker/user.h"

#include "kernel/base/panic.h"

const struct weir__callee weir__callee_free = {"a free function", NULL, "a free function"};
const struct weir__callee weir__callee_on_free = {"the on_free of", NULL, "a free function"};

void
weir__user_forked(void)
{
        weir__panic("a child of fork() returned from a callback: it has no thread to return to");
}

static __attribute__((cold, noinline)) void
call_traced(const struct weir__callee *callee, const struct weir__work *object, void (*function)(void *context), void *context)
{
        const struct weir__trace_facts facts = {.kind = callee->slice};
        struct weir__trace_slice slice;

        weir__trace_begin(&slice, NULL, NULL);
        struct weir__user_call call = weir__user_begin_as(callee, object, (weir__function *)function);
        void *fiber = weir__user_hide_fiber();
        function(context);
        weir__user_show_fiber(fiber);
        weir__user_end_as(call);
        if (weir__worker_self()) /* a thread of the program has no track */
                weir__trace_end(&slice, &facts, NULL);
}

void
weir__user_call_as(const struct weir__callee *callee, const struct weir__work *object, void (*function)(void *context),
                   void *context)
{
        if (weir__trace_is_on()) {
                call_traced(callee, object, function, context);
                return;
        }
        struct weir__user_call call = weir__user_begin_as(callee, object, (weir__function *)function);
        void *fiber = weir__user_hide_fiber();
        function(context);
        weir__user_show_fiber(fiber);
        weir__user_end_as(call);
}

void
weir__user_ends_thread(void *unused)
{
        (void)unused;
        weir__panic("a callback has ended its thread, by pthread_exit or pthread_cancel: all that waits there would hang");
}
