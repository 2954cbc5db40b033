/* factory/fiber/hop.c: hop mode.
 *
 * A program that keeps the address of a thread-local variable over an await, or a mutex of the system, mostly works: mostly
 * the fiber goes on on the same thread.  With WEIR_FIBER_HOP=1 in the environment it never does.
 *
 * Each thread that runs stretches has two partners.  It hands the stretch to one of them, and waits.  A fiber takes them in
 * turns, so its next stretch is on another thread, whichever worker runs it.  For the library the partner is the worker
 * meanwhile: only what belongs to the thread itself differs.
 *
 *     a partner: IDLE --it gets a stretch--> RUN --the fiber awaits--> IDLE ... --the worker's thread ends--> END
 *
 * Threads: a worker, or a thread of the executor, and its partners.  One of the three runs at a time.
 * Locks:   none. */
#include "factory/fiber/hop.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernel/base/futex.h"
#include "kernel/base/thread.h"
#include "kernel/observe/trace.h"
#include "kernel/worker/user.h"

enum { IDLE, RUN, END };

struct partner {
        pthread_t thread;
        bool is_made;
        _Atomic unsigned turn; /* a futex: release, acquire */

        /* Of the stretch. */
        struct weir__worker *worker;
        void (*function)(void *argument);
        void *argument;
};

bool weir__hop_is_on;

static pthread_key_t key; /* the two partners of a thread */

static void
set_turn(struct partner *partner, unsigned turn)
{
        atomic_store_explicit(&partner->turn, turn, memory_order_release);
        weir__futex_wake(&partner->turn, 1);
}

/* Returns the next one. */
static unsigned
wait_for_turn(struct partner *partner, unsigned past)
{
        unsigned turn;

        while ((turn = atomic_load_explicit(&partner->turn, memory_order_acquire)) == past)
                weir__futex_wait(&partner->turn, past);
        return turn;
}

static void *
partner_main(void *argument)
{
        struct partner *partner = argument;

        pthread_setname_np(pthread_self(), "weir/hop");
        while (wait_for_turn(partner, IDLE) == RUN) {
                weir__worker_current = partner->worker;
                partner->function(partner->argument);
                if (!weir__worker_current)
                        weir__user_forked();
                weir__worker_current = NULL;
                set_turn(partner, IDLE);
        }
        weir__trace_leave();
        return NULL;
}

/* The thread that had them ends. */
static void
end_partners(void *partners)
{
        for (struct partner *partner = partners; partner < (struct partner *)partners + 2; partner++) {
                if (!partner->is_made)
                        continue;
                set_turn(partner, END);
                pthread_join(partner->thread, NULL);
        }
        free(partners);
}

/* NULL: there is no memory, or no thread. */
static struct partner *
find_partner(unsigned number)
{
        struct partner *partners = pthread_getspecific(key);

        if (!partners) {
                partners = calloc(2, sizeof *partners);
                if (!partners || pthread_setspecific(key, partners)) {
                        free(partners);
                        return NULL;
                }
        }
        struct partner *partner = &partners[number];
        if (!partner->is_made)
                partner->is_made = weir__thread_make(&partner->thread, partner_main, partner) == 0;
        return partner->is_made ? partner : NULL;
}

void
weir__hop(unsigned number, void (*function)(void *argument), void *argument)
{
        struct partner *partner = find_partner(number % 2);

        if (!partner) {
                function(argument);
                return;
        }
        partner->worker = weir__worker_self();
        partner->function = function;
        partner->argument = argument;
        set_turn(partner, RUN);
        wait_for_turn(partner, RUN);
}

void
weir__hop_prepare(void)
{
        const char *wanted = getenv("WEIR_FIBER_HOP");

        weir__hop_is_on = wanted && wanted[0] == '1' && !wanted[1] && pthread_key_create(&key, end_partners) == 0;
}
