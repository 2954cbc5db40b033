/* kernel/runtime/random.h: random numbers that need not be secret, such as for the length of a wait. */
#ifndef WEIR_KERNEL_RANDOM_H
#define WEIR_KERNEL_RANDOM_H

#include <stdint.h>

/* Begins anew, at each start of the runtime. So processes that were forked before do not share their numbers. On the virtual
 * clock the numbers are the same each time. */
void weir__random_start(void);

/* Any thread, while the runtime is up. */
uint64_t weir__random(void);

/* From 0 to `most`. */
uint64_t weir__random_up_to(uint64_t most);

#endif
