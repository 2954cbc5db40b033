/* kernel/runtime/signals.c: one handler for all signals to which the library listens.
 *
 * Threads: any; the handler runs on any thread of the program.  The threads of the library block all signals.
 * Locks:   `lock`, a leaf, guards the actions and the counts.  The handler takes none: it reads atomic pointers to constants.
 *
 * The handler may still run when its last listener has been removed.  So what a listener touches is static. */
#include "kernel/runtime/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "kernel/base/lock.h"
#include "kernel/base/phase.h"

#define LISTENERS 4 /* of one signal: signal tasks, weir_http_serve, dumps, a test */

static struct {
        _Atomic(const struct weir__signal_listener *) listeners[LISTENERS]; /* NULL: free; written under lock */

        /* Guarded by lock. */
        unsigned counts[LISTENERS];
        struct sigaction before; /* the action, while there are listeners */
} signals[WEIR__SIGNALS + 1];

static struct weir__lock lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);

static void
handle(int signo)
{
        int saved = errno;

        for (unsigned i = 0; i < LISTENERS; i++) {
                const struct weir__signal_listener *listener = atomic_load(&signals[signo].listeners[i]);

                if (listener)
                        listener->fn(signo);
        }
        errno = saved;
}

/* -- under the lock -- */

static bool
is_ours(const struct sigaction *action)
{
        return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == handle;
}

static bool
is_of_the_program(const struct sigaction *action)
{
        return action->sa_flags & SA_SIGINFO || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* Result: 0 or a negative errno. */
static int
install(int signo, bool should_replace)
{
        struct sigaction present, action = {.sa_handler = handle, .sa_flags = SA_RESTART};

        if (sigaction(signo, NULL, &present) < 0)
                return -errno;
        if (is_ours(&present))
                return 0;
        if (is_of_the_program(&present) && !should_replace)
                return -EBUSY;
        sigemptyset(&action.sa_mask);
        if (sigaction(signo, &action, NULL) < 0)
                return -errno;
        signals[signo].before = present;
        return 0;
}

static void
restore(int signo)
{
        struct sigaction present;

        if (sigaction(signo, NULL, &present) == 0 && is_ours(&present))
                sigaction(signo, &signals[signo].before, NULL);
}

/* Where the listener is, or NULL is; LISTENERS: nowhere. */
static unsigned
index_of(int signo, const struct weir__signal_listener *listener)
{
        unsigned at = 0;

        while (at < LISTENERS && atomic_load(&signals[signo].listeners[at]) != listener)
                at++;
        return at;
}

static bool
has_listeners(int signo)
{
        for (unsigned i = 0; i < LISTENERS; i++)
                if (signals[signo].counts[i] > 0)
                        return true;
        return false;
}

/* -- the interface -- */

int
weir__signals_listen(int signo, const struct weir__signal_listener *listener)
{
        if (signo < 1 || signo > WEIR__SIGNALS)
                return -EINVAL;
        weir__lock(&lock);
        unsigned at = index_of(signo, listener);
        if (at == LISTENERS)
                at = index_of(signo, NULL);
        int failed = at == LISTENERS ? -EBUSY : install(signo, listener->should_replace);
        if (!failed) {
                signals[signo].counts[at]++;
                atomic_store(&signals[signo].listeners[at], listener);
        }
        weir__unlock(&lock);
        return failed;
}

void
weir__signals_unlisten(int signo, const struct weir__signal_listener *listener)
{
        weir__lock(&lock);
        unsigned at = index_of(signo, listener);
        if (at < LISTENERS && --signals[signo].counts[at] == 0) {
                atomic_store(&signals[signo].listeners[at], NULL);
                if (!has_listeners(signo))
                        restore(signo);
        }
        weir__unlock(&lock);
}

/* -- forks -- */

static void
before_fork(void)
{
        weir__lock_hold(&lock);
}

static void
after_fork(void)
{
        weir__unlock(&lock);
}

/* Nobody listens in a child that may not use the library. */
static void
forget(int signo)
{
        bool is_deaf = false;

        for (unsigned i = 0; i < LISTENERS; i++) {
                const struct weir__signal_listener *listener = atomic_load(&signals[signo].listeners[i]);

                is_deaf |= listener && listener->is_deaf_in_a_child;
                atomic_store(&signals[signo].listeners[i], NULL);
                signals[signo].counts[i] = 0;
        }
        if (!is_deaf)
                restore(signo);
}

static void
become_child(void)
{
        for (int signo = 1; signo <= WEIR__SIGNALS && weir__phase_is_forked(); signo++)
                if (has_listeners(signo))
                        forget(signo);
        after_fork();
}

WEIR__STEPS_OF(WEIR__MODULE_SIGNALS, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = become_child);
