/* kernel/random.h: numbers that nobody need keep secret, such as how long to wait so that not all wait equally long. */
#ifndef WEIR_KERNEL_RANDOM_H
#define WEIR_KERNEL_RANDOM_H

#include <stdint.h>

/* Any thread.  On the virtual clock the numbers are the same each time the runtime is started. */
uint64_t weir__random(void);

/* From 0 to `most`. */
uint64_t weir__random_up_to(uint64_t most);

#endif
