/* kernel/socket/system.h: recv and send, for what is called for each request.
 *
 * Those of the C library are cancellation points: in a process with threads each call costs four atomic operations besides, and no
 * thread of the library is ever cancelled. */
#ifndef WEIR_KERNEL_SYSTEM_H
#define WEIR_KERNEL_SYSTEM_H

#include <sys/types.h>

/* As recv(2) and send(2). */
ssize_t weir__recv(int fd, void *data, size_t size, int flags);
ssize_t weir__send(int fd, const void *data, size_t size, int flags);

#endif
