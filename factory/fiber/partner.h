/* factory/fiber/partner.h: a thread that runs stretches for workers.  For the library it is the worker meanwhile: only what
 * belongs to the thread itself differs. */
#ifndef WEIR_FACTORY_PARTNER_H
#define WEIR_FACTORY_PARTNER_H

#include <pthread.h>
#include <stdatomic.h>

struct weir__worker;

struct weir__partner {
        const char *name; /* constant */
        pthread_t thread;
        _Atomic unsigned state; /* a futex: release, acquire */

        /* Of the stretch. */
        struct weir__worker *worker;
        void (*function)(void *argument);
        void *argument;

        unsigned pins; /* that the fiber has begun and not ended; its own.  Unused in hop mode */
};

/* Makes the thread, whose name must be there as long.  Result: 0 or -EAGAIN.  Any thread. */
int weir__partner_begin(struct weir__partner *partner, const char *name);

/* Runs the function on that thread, and returns when it has returned.  A worker, or a thread of the executor. */
void weir__partner_run(struct weir__partner *partner, void (*function)(void *argument), void *argument);

/* Ends the thread, and waits for its end.  Any other thread. */
void weir__partner_end(struct weir__partner *partner);

#endif
