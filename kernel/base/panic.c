/* kernel/base/panic.c: one line to standard error, then abort().
 *
 * Threads: any.  Allocates nothing: the heap may be what is broken. */
#include "kernel/base/panic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void
weir__panic(const char *format, ...)
{
        char line[512] = "weir: ";
        va_list arguments;

        va_start(arguments, format);
        int size = vsnprintf(line + 6, sizeof line - 7, format, arguments);
        va_end(arguments);
        size_t end = size < 0 ? 6 : (size_t)size + 6 < sizeof line - 1 ? (size_t)size + 6 : sizeof line - 2;
        line[end] = '\n';
        if (write(STDERR_FILENO, line, end + 1) < 0)
                abort();
        abort();
}
