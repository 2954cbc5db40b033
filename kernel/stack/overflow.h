/* kernel/stack/overflow.h: what is said when a stack is used up.
 *
 * A fault in a guard ends the process with a message; every other fault goes to the handler that was there before. */
#ifndef WEIR_KERNEL_STACK_OVERFLOW_H
#define WEIR_KERNEL_STACK_OVERFLOW_H

#include <stdbool.h>

/* Whether this thread has been prepared.  Not to be used by what may leave a context: see switch.h. */
extern _Thread_local bool weir__overflow_is_watched;

/* Prepares this thread, and with the first one the process. */
void weir__overflow_watch(void);

#endif
