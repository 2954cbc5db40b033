/* What the library uses of glibc and other C libraries lack.  The build includes this file before every source, where the C library
 * is not glibc: see CMakeLists.txt. */
#ifndef WEIR__MUSL_H
#define WEIR__MUSL_H

#include <errno.h>
#include <pthread.h>
#include <string.h>

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
#define strerrordesc_np strerror
#define strerrorname_np strerror

#endif
