/* kernel/stack/guard.h: memory that faults.
 *
 * Where the kernel has guards of its own (Linux 6.13), they cost no mapping.  Else a guard is memory that is not accessible.  It
 * costs two mappings, of which the kernel allows vm.max_map_count. */
#ifndef WEIR_KERNEL_STACK_GUARD_H
#define WEIR_KERNEL_STACK_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Result:  0; -EAGAIN: there are as many as may be, or the kernel refuses, which the log says once in a second.  Any thread, with
 *          no lock held. */
int weir__guard_install(void *memory, size_t size);

/* `count` guards were unmapped. */
void weir__guard_forget(size_t count);

/* How many guards may be installed; SIZE_MAX: no limit. */
size_t weir__guard_most(void);

/* Has guards be as on an older kernel, where `most` may be installed; 0: the kernel decides again.  For tests: no guard is
 * installed. */
void weir__guard_pretend(size_t most);

#endif
