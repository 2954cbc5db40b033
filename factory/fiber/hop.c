/* factory/fiber/hop.c: hop mode.
 *
 * A program that keeps the address of a thread-local variable over an await, or a mutex of the system, mostly works: mostly
 * the fiber goes on on the same thread.  With WEIR_FIBER_HOP=1 in the environment it never does.
 *
 * Each thread that runs stretches has two partners (partner.h).  It hands the stretch to one of them, and waits.  A fiber takes
 * them in turns, so its next stretch is on another thread, whichever worker runs it.
 *
 * Threads: a worker, or a thread of the executor.
 * Locks:   none. */
#include "factory/fiber/hop.h"

#include <pthread.h>
#include <stdlib.h>

#include "factory/fiber/partner.h"

struct pair {
        struct weir__partner partners[2];
        bool is_made[2];
};

bool weir__hop_is_on;
_Atomic bool weir__stretches_move;

static pthread_key_t key; /* the pair of a thread */

/* The thread that had them ends. */
static void
end_partners(void *argument)
{
        struct pair *pair = argument;

        for (unsigned i = 0; i < 2; i++)
                if (pair->is_made[i])
                        weir__partner_end(&pair->partners[i]);
        free(pair);
}

/* NULL: there is no memory, or no thread. */
static struct weir__partner *
find_partner(unsigned number)
{
        struct pair *pair = pthread_getspecific(key);

        if (!pair) {
                pair = calloc(1, sizeof *pair);
                if (!pair || pthread_setspecific(key, pair)) {
                        free(pair);
                        return NULL;
                }
        }
        struct weir__partner *partner = &pair->partners[number];
        if (!pair->is_made[number])
                pair->is_made[number] = weir__partner_begin(partner, "weir/hop") == 0;
        return pair->is_made[number] ? partner : NULL;
}

void
weir__hop(unsigned number, void (*function)(void *argument), void *argument)
{
        struct weir__partner *partner = find_partner(number % 2);

        if (partner)
                weir__partner_run(partner, function, argument);
        else
                function(argument);
}

void
weir__hop_prepare(void)
{
        const char *wanted = getenv("WEIR_FIBER_HOP");

        weir__hop_is_on = wanted && wanted[0] == '1' && !wanted[1] && pthread_key_create(&key, end_partners) == 0;
        if (weir__hop_is_on)
                atomic_store_explicit(&weir__stretches_move, true, memory_order_relaxed);
}
