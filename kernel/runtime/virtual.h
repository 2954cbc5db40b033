/* kernel/runtime/virtual.h: what makes the virtual clock go. */
#ifndef WEIR_KERNEL_VIRTUAL_H
#define WEIR_KERNEL_VIRTUAL_H

#include <stdbool.h>

#include <weir/clock.h>

/* Who, or what, wants the clock to go on. */
enum weir__drive {
        WEIR__DRIVE_NONE = 0, /* nobody, or somebody holds it */
        WEIR__DRIVE_WAIT,     /* a thread waits: to the next deadline */
        WEIR__DRIVE_STEP,     /* a thread lets time pass: to the next deadline, or to the instant that it gave */
};

/* By the owner of the poller, which has nothing to run and SLEEPING in its inbox. */
enum weir__drive weir__virtual_drive(void);

/* By the same, when all is quiet: the clock goes on to `next`, the next deadline, or as far as it may.  Not when somebody has held it
 * since weir__virtual_drive: what was found quiet may not be any more. */
void weir__virtual_move(weir_nsec next);

/* Around a `_run`, or another wait that lets time jump: by the thread that waits.  It does not wait on the real clock.
 * Result: 0: nothing was counted; 1: leave has to be called; -EBUSY while another thread lets time pass, -EDEADLK on one that
 *         holds the clock. */
int weir__virtual_enter(void);
void weir__virtual_leave(void);

/* Lets this thread alone drive the clock, in steps, until it says that it is over.
 * Result: 0; -ENOTSUP on the real clock, -EDEADLK on a thread that holds the clock, -EBUSY while another thread drives. */
int weir__virtual_begin_steps(void);
void weir__virtual_end_steps(void);

/* Waits until the clock shows that instant and all callbacks that are due have returned.  Result: 0, -EINVAL or -ESHUTDOWN. */
int weir__virtual_step_to(weir_nsec until);

/* Forgets holds, while no worker runs; the second is for the child of a fork. */
void weir__virtual_start(void);
void weir__virtual_forked(void);

#endif
