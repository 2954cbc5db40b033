/* What the library uses of glibc and other C libraries lack.  The build includes this file before every source, where the C
 * library is not glibc: see CMakeLists.txt. */
#ifndef WEIR__MUSL_H
#define WEIR__MUSL_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef TEMP_FAILURE_RETRY
#define TEMP_FAILURE_RETRY(expression)                         \
        ({                                                     \
                long result__;                                 \
                do                                             \
                        result__ = (long)(expression);         \
                while (result__ == -1 && errno == EINTR);      \
                result__;                                      \
        })
#endif
#ifndef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP PTHREAD_MUTEX_INITIALIZER
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#define RWF_APPEND 16

/* The kernel takes the upper half of an offset by itself; a long of 64 bits has all of it in the lower one. */
static inline ssize_t
preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
        return syscall(SYS_preadv2, fd, parts, count, (long)offset, (long)((uint64_t)offset >> 32), flags);
}

static inline ssize_t
pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
        return syscall(SYS_pwritev2, fd, parts, count, (long)offset, (long)((uint64_t)offset >> 32), flags);
}
#endif
#define strerrordesc_np strerror
#define strerrorname_np strerror

#endif
