/* factory/fiber/partner.c: threads that run stretches for workers: in hop mode (hop.c), and for pinned fibers (pin.c).
 *
 *     IDLE --it gets a stretch--> RUN --the fiber awaits--> IDLE ... --nobody needs it any more--> END
 *
 * Threads: a worker, or a thread of the executor, and the partner.  One of them runs at a time.
 * Locks:   none. */
#include "factory/fiber/partner.h"

#include "kernel/base/futex.h"
#include "kernel/base/thread.h"
#include "kernel/observe/trace.h"
#include "kernel/worker/user.h"

enum { IDLE, RUN, END };

static void
set_state(struct weir__partner *partner, unsigned state)
{
        atomic_store_explicit(&partner->state, state, memory_order_release);
        weir__futex_wake(&partner->state, 1);
}

/* Returns the next one. */
static unsigned
wait_for_change(struct weir__partner *partner, unsigned past)
{
        unsigned state;

        while ((state = atomic_load_explicit(&partner->state, memory_order_acquire)) == past)
                weir__futex_wait(&partner->state, past);
        return state;
}

static void *
partner_main(void *argument)
{
        struct weir__partner *partner = argument;

        pthread_setname_np(pthread_self(), partner->name);
        weir__thread_release_cpu(); /* it comes from a worker, which may stay on one */
        while (wait_for_change(partner, IDLE) == RUN) {
                weir__worker_current = partner->worker;
                partner->function(partner->argument);
                if (!weir__worker_current)
                        weir__user_forked();
                weir__worker_current = NULL;
                set_state(partner, IDLE);
        }
        weir__trace_leave();
        return NULL;
}

int
weir__partner_begin(struct weir__partner *partner, const char *name)
{
        *partner = (struct weir__partner){.name = name};
        return weir__thread_make(&partner->thread, partner_main, partner);
}

void
weir__partner_run(struct weir__partner *partner, void (*function)(void *argument), void *argument)
{
        partner->worker = weir__worker_self();
        partner->function = function;
        partner->argument = argument;
        set_state(partner, RUN);
        wait_for_change(partner, RUN);
}

void
weir__partner_end(struct weir__partner *partner)
{
        set_state(partner, END);
        pthread_join(partner->thread, NULL);
}
