/* kernel/runtime/random.h: numbers that nobody need keep secret, such as how long to wait so that not all wait equally long. */
#ifndef WEIR_KERNEL_RANDOM_H
#define WEIR_KERNEL_RANDOM_H

#include <stdint.h>

/* Any thread.  Each start of the runtime begins anew, so that processes which were forked in between do not share their numbers;
 * on the virtual clock they are the same each time. */
uint64_t weir__random(void);

/* From 0 to `most`. */
uint64_t weir__random_up_to(uint64_t most);

#endif
