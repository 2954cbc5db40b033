/* kernel/base/phase.c: the phase of the runtime, and the run of the modules' steps.
 *
 * The linker gathers a pointer to the steps of each module in a section.  A program that has the static library in it has the
 * steps of the modules that it uses.
 *
 * Threads: a step runs on the thread that loads, starts, shuts down, ends or forks.
 * Locks:   none of its own. */
#include "kernel/base/phase.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

_Atomic int weir__phase;
unsigned weir__phase_generation;
_Atomic weir_nsec weir__phase_exit_wait = WEIR__PHASE_EXIT_WAIT;

/* The ends of the section.  A program that links the static library for its clock alone has none. */
extern const struct weir__steps *const __start_weir__steps[] __attribute__((weak)), *const __stop_weir__steps[]
        __attribute__((weak));

static int failed_to_load, failed_to_start; /* 0 or a negative errno; constant once loaded, and once started */

static void
run_of(enum weir__module module, enum weir__step step)
{
        for (const struct weir__steps *const *at = __start_weir__steps; at < __stop_weir__steps; at++)
                if ((*at)->module == module && (*at)->run[step])
                        (*at)->run[step]();
}

void
weir__steps_run(enum weir__step step)
{
        bool is_backwards = step == WEIR__STEP_BEFORE_FORK || step == WEIR__STEP_EXIT;

        for (unsigned i = 0; i < WEIR__MODULES; i++)
                run_of(is_backwards ? WEIR__MODULES - 1 - i : i, step);
}

static void
before_fork(void)
{
        weir__steps_run(WEIR__STEP_BEFORE_FORK);
}

static void
after_fork(void)
{
        weir__steps_run(WEIR__STEP_AFTER_FORK);
}

static void
become_child(void)
{
        weir__steps_run(WEIR__STEP_IN_CHILD);
}

/* Before the constructors of a program that has the static library in it. */
__attribute__((constructor(101))) static void
load(void)
{
        weir__steps_run(WEIR__STEP_LOAD);
        failed_to_load = -pthread_atfork(before_fork, after_fork, become_child);
}

static void
run_exit_steps(void)
{
        weir__steps_run(WEIR__STEP_EXIT);
}

/* The handler of exit() is registered here.  exit() runs handlers in the reverse order.  So a function that the program registers
 * after its first use of the library runs before this handler, and may use the library. */
static void
run_start_steps(void)
{
        weir__steps_run(WEIR__STEP_START);
        failed_to_start = failed_to_load ? failed_to_load : atexit(run_exit_steps) ? -ENOMEM : 0;
}

int
weir__steps_start(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, run_start_steps);
        return failed_to_start;
}
