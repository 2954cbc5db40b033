/* kernel/runtime/virtual.h: how the virtual clock advances. */
#ifndef WEIR_KERNEL_VIRTUAL_H
#define WEIR_KERNEL_VIRTUAL_H

#include <stdbool.h>

#include <weir/clock.h>

/* Why the clock may advance. */
enum weir__virtual_mode {
        WEIR__VIRTUAL_STANDS = 0, /* no thread waits for it, or a thread holds it */
        WEIR__VIRTUAL_WAITED_FOR, /* a thread waits in a `_run`: to the next deadline */
        WEIR__VIRTUAL_STEPS,      /* a thread lets time pass: to the next deadline, or to the instant that it gave */
};

/* By the owner of the poller, which has nothing to run and SLEEPING in its inbox. */
enum weir__virtual_mode weir__virtual_mode(void);

/* By the same, when all is quiet: advances the clock to `next`, the next deadline, or as far as it may.  It stands when a thread
 * has held it since weir__virtual_mode, because new work may have come meanwhile. */
void weir__virtual_advance(weir_nsec next);

/* The thread that waits in a `_run` calls these two, before and after.  The clock may advance in between.  On the real clock they
 * do nothing.
 * Result: 0: nothing was counted; 1: leave has to be called; -EBUSY while another thread steps; -EDEADLK on a thread that holds
 *         the clock. */
int weir__virtual_enter(void);
void weir__virtual_leave(void);

/* Lets this thread alone advance the clock, in steps, until weir__virtual_end_steps.
 * Result: 0; -ENOTSUP on the real clock, -EDEADLK on a thread that holds the clock, -EBUSY while another thread waits or
 *         steps. */
int weir__virtual_begin_steps(void);
void weir__virtual_end_steps(void);

/* Waits until the clock shows that instant and all callbacks that are due have returned.  Result: 0, -EINVAL or -ESHUTDOWN. */
int weir__virtual_step_to(weir_nsec until);

/* Forgets holds, while no worker runs; the second is for the child of a fork. */
void weir__virtual_start(void);
void weir__virtual_forked(void);

#endif
