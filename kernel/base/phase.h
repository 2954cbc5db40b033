/* kernel/base/phase.h: whether the runtime is up, and what each module does when the process loads, forks or ends.
 *
 *     DOWN --init, or first use--> UP --shutdown--> STOPPING --> ENDED --init--> UP
 *      any --fork, in the child, unless DOWN or ENDED--> FORKED
 *
 * kernel/runtime/runtime.c sets the phase.  All other modules only read it, so it lies below them. */
#ifndef WEIR_KERNEL_PHASE_H
#define WEIR_KERNEL_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/time.h>

enum weir__phase {
        WEIR__PHASE_DOWN = 0, /* never started: the first use starts it */
        WEIR__PHASE_UP,
        WEIR__PHASE_STOPPING, /* shutdown has begun */
        WEIR__PHASE_ENDED,    /* shutdown is over; weir_init may start it again */
        WEIR__PHASE_FORKED,   /* a child of fork: for ever */
};

extern _Atomic int weir__phase;         /* enum weir__phase; sequentially consistent where it is compared with counts of roots */
extern unsigned weir__phase_generation; /* counts the starts; written before the phase becomes UP, constant while it is */

/* How long exit() waits for what runs: config.exit_wait of the last start.  Read by exit() without a lock. */
#define WEIR__PHASE_EXIT_WAIT WEIR_SEC(2) /* the default */
extern _Atomic weir_nsec weir__phase_exit_wait;

/* -- the steps of the modules -- */

enum weir__step {
        WEIR__STEP_LOAD,        /* the library is loaded; nobody has called it */
        WEIR__STEP_START,       /* the runtime or a trace is started for the first time */
        WEIR__STEP_SHUTDOWN,    /* in each shutdown, when every start sees it: what is pending without a deadline ends */
        WEIR__STEP_ENDED,       /* a shutdown is over.  No lock is held, so that this may log */
        WEIR__STEP_BEFORE_FORK, /* in the reverse order, so that locks are taken in the order of their ranks */
        WEIR__STEP_AFTER_FORK,  /* in the parent */
        WEIR__STEP_IN_CHILD,
        WEIR__STEP_EXIT, /* in the reverse order */
        WEIR__STEPS
};

/* The modules that have steps, in the order in which these run. */
enum weir__module {
        WEIR__MODULE_FENCE,
        WEIR__MODULE_LOCKS, /* a child forgets the sleepers of locks, before the other modules release theirs */
        WEIR__MODULE_MEMORY,
        WEIR__MODULE_STACKS,
        WEIR__MODULE_LOG,
        WEIR__MODULE_TLS,
        WEIR__MODULE_TRACE, /* its end comes after that of the runtime, which is in the trace */
        WEIR__MODULE_PROCESSES, /* at exit, what a shutdown has not ended ends after it */
        WEIR__MODULE_RUNTIME,
        WEIR__MODULE_SIGNALS, /* looks whether the child may use the library */
        WEIR__MODULE_SERVERS, /* weir_http_serve listens to signals under its mutex, so that is taken first */
        WEIR__MODULE_POLLERS,
        WEIR__MODULE_ROOTS,
        WEIR__MODULE_TASKS,
        WEIR__MODULE_WAITABLES,
        WEIR__MODULE_UPSTREAMS,
        WEIR__MODULE_PROMISES,
        WEIR__MODULE_DEADLOCKS,
        WEIR__MODULE_SIGNAL_TASKS,
        WEIR__MODULE_TIMERS,
        WEIR__MODULE_NAMED_TIMERS,
        WEIR__MODULE_NAMES,
        WEIR__MODULE_FIBERS,
        WEIR__MODULE_DUMPS,
        WEIR__MODULES
};

struct weir__steps {
        enum weir__module module;
        const void *anchor; /* has the linker take phase.c out of the static library */
        void (*run[WEIR__STEPS])(void);
};

/* Once in the file of a module: its steps, as in `[WEIR__STEP_LOAD] = prepare`. */
#define WEIR__STEPS_OF(its_module, ...)                                                                                       \
        static const struct weir__steps own_steps = {.module = (its_module), .anchor = &weir__phase, .run = {__VA_ARGS__}}; \
        static const struct weir__steps *const WEIR__STEPS_ENTRY own_steps_entry = &own_steps

/* The linker keeps the entry in its section, although no code refers to it. */
#if __has_attribute(retain)
#define WEIR__STEPS_ENTRY __attribute__((section("weir__steps"), used, retain))
#else
#define WEIR__STEPS_ENTRY __attribute__((section("weir__steps"), used))
#endif

/* Runs a step of all modules. */
void weir__steps_run(enum weir__step step);

/* Runs WEIR__STEP_START if that has not been done, and has exit() run WEIR__STEP_EXIT.  Result: 0 or -ENOMEM.  Any thread. */
int weir__steps_start(void);

/* -- the phase -- */

static inline bool
weir__phase_is_stopping(void)
{
        return atomic_load_explicit(&weir__phase, memory_order_relaxed) == WEIR__PHASE_STOPPING;
}

/* A shutdown is over, and nothing has started the runtime again. */
static inline bool
weir__phase_is_ended(void)
{
        return atomic_load_explicit(&weir__phase, memory_order_relaxed) == WEIR__PHASE_ENDED;
}

static inline bool
weir__phase_is_up(void)
{
        int phase = atomic_load_explicit(&weir__phase, memory_order_acquire);

        return phase == WEIR__PHASE_UP || phase == WEIR__PHASE_STOPPING;
}

static inline bool
weir__phase_is_forked(void)
{
        return atomic_load_explicit(&weir__phase, memory_order_relaxed) == WEIR__PHASE_FORKED;
}

#endif
