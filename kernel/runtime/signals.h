/* kernel/runtime/signals.h: signals of the process, to which several parts of the library may listen at once.
 *
 * One handler of the library serves all signals.  It calls the listeners of its signal.  The first listener installs the handler,
 * the last one restores the action that was there before. */
#ifndef WEIR_KERNEL_SIGNALS_H
#define WEIR_KERNEL_SIGNALS_H

#include <stdbool.h>

#define WEIR__SIGNALS 64 /* the greatest number of a signal */

/* Runs in the handler, on any thread of the program: it may do what signal-safety(7) allows. */
typedef void weir__signal_fn(int signo);

struct weir__signal_listener {
        weir__signal_fn *fn;
        bool should_replace;    /* also where the program has a handler of its own */
        bool is_deaf_in_a_child; /* there the signal does nothing.  Otherwise a forked child has the former action again */
};

/* Adds a listener.  One that is added twice is called once, until it was removed twice.
 *
 * Result:  0; -EINVAL: that signal cannot be caught; -EBUSY: the program has a handler of its own.  Any thread. */
int weir__signals_listen(int signo, const struct weir__signal_listener *listener);

/* Removes it.  The former action is not restored if the program has installed another one meanwhile.  Any thread. */
void weir__signals_unlisten(int signo, const struct weir__signal_listener *listener);

#endif
