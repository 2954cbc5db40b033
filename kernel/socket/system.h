/* kernel/socket/system.h: calls of the system. */
#ifndef WEIR_KERNEL_SYSTEM_H
#define WEIR_KERNEL_SYSTEM_H

#include <sys/types.h>

/* As recv(2) and send(2), for calls that each request makes.  Those of the C library are cancellation points: in a process with
 * threads each call costs four more atomic operations, and no thread of the library is ever cancelled. */
ssize_t weir__recv(int fd, void *data, size_t size, int flags);
ssize_t weir__send(int fd, const void *data, size_t size, int flags);

/* Puts a new eventfd in the place of `fd`.  An object that was made before a fork may be used in several processes: from then on
 * each has an eventfd of its own.  Returns 0 or a negative errno. */
int weir__eventfd_renew(int fd);

#endif
